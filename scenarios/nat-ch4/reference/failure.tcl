# A concurrent multipath transfer, also with a second path that is cut (nat 4.4, 4.5), for the simulator ns-2.35.
#
# usage: ns failure.tcl NAME=VALUE...
#   seed         random seed
#   agent        CMT, CMT-PF, or SCTP: one path only, with nothing cut
#   bytes        user data, in chunks of 1452 bytes
#   loss         of both paths, in percent, in each direction
#   pmr          Path.Max.Retrans
#   delay        of the second path's core link one way, in milliseconds; the first one's has 25
#   queue        of both core links, in packets
#   buffer       of the receiver, in bytes
#   cut repair   times in seconds at which the second path is cut and repaired; "" is never
#   end          time in seconds at which the simulation ends
# It prints every packet that arrives, every one that is lost and, unless the agent is SCTP, the error
# counts of the destinations.

array set option {seed 1 agent CMT bytes 8388608 loss 0 pmr 5 delay 25 queue 50 buffer 65536 cut 5 repair "" end 200}
source [file join [file dirname [info script]] ../../../scripts/ns2/paths.tcl]
options $argv

Agent/SCTP set fastRtxTrigger_ 3
Agent/SCTP set initialRwnd_ $option(buffer)
Agent/SCTP set pathMaxRetrans_ $option(pmr)
# AllRtxSame, for the transfer over one path.
Agent/SCTP set rtxToAlt_ 0
# RTX-SSTHRESH.
Agent/SCTP/CMT set eCmtRtxPolicy_ 2
Agent/SCTP/CMT set useCmtPF_ [expr {$option(agent) eq "CMT-PF"}]

paths $option(seed) [list $option(loss) $option(loss)] [list 25 $option(delay)] [list $option(queue) $option(queue)] 166
if {$option(agent) eq "SCTP"} {
    agents Agent/SCTP
} else {
    agents Agent/SCTP/CMT
    cut 2 $option(cut)
    repair 2 $option(repair)
    # Once its own heartbeats are answered the receiver's agent would loop for ever: all agents share a pointer.
    $receiver set heartbeatInterval_ 0
    $sender trace errorCount_
    $sender attach stdout
}
transfer $option(bytes) $option(end)
