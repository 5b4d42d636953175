# A transfer over the first of several paths (caro 2.2.1), for the simulator ns-2.35.
#
# usage: ns transfer.tcl NAME=VALUE...
#   seed               random seed
#   bytes              user data, in chunks of 1452 bytes, or 1440 with timestamps
#   primary alternate  losses on the core links, in percent, in each direction
#   policy             AllRtxSame, AllRtxAlt or FrSameRtoAlt
#   extension          none, HAR, TS, MFR, MFR+HAR or MFR+TS
#   main delay         of the core links of the primary path and the alternate one, one way, in milliseconds
#   alternates         number of alternate paths, all alike
#   pmr                Path.Max.Retrans
#   cpt                the change-primary threshold, compared with the error count of the primary path
#   heartbeats         HB.interval in seconds
#   discovery          time in seconds that it takes to find a route that is not in the cache; 0 is no such delay
#   cache              lifetime of a route in the cache, in seconds
#   dormant            what an association does when all paths have failed: hop, primary or last-dest
#   errors             1 prints the error counts of the destinations when one changes
#   cut                time in seconds at which the primary path's core link is cut; never without it
#   end                time in seconds at which the simulation ends
# It prints every packet that arrives and every one that is lost.

array set option {seed 1 bytes 4194304 primary 0 alternate 0 policy AllRtxSame extension none main 25 delay 25 pmr 5}
array set option {alternates 1 cpt 1000000 heartbeats 30 discovery 0 cache 1.2 dormant hop errors 0 cut "" end 5000}
source [file join [file dirname [info script]] ../../../scripts/ns2/paths.tcl]
options $argv

array set policies {AllRtxSame 0 AllRtxAlt 1 FrSameRtoAlt 2}
array set dormants {hop 0 primary 1 last-dest 2}
array set agents {
    none Agent/SCTP
    HAR Agent/SCTP/HbAfterRto
    TS Agent/SCTP/Timestamp
    MFR Agent/SCTP/MultipleFastRtx
    MFR+HAR Agent/SCTP/MfrHbAfterRto
    MFR+TS Agent/SCTP/MfrTimestamp
}
# The study's versions retransmitted at the fourth missing report.
Agent/SCTP set fastRtxTrigger_ 4
Agent/SCTP set rtxToAlt_ $policies($option(policy))
Agent/SCTP set pathMaxRetrans_ $option(pmr)
Agent/SCTP set changePrimaryThresh_ $option(cpt)
Agent/SCTP set heartbeatInterval_ $option(heartbeats)
Agent/SCTP set dormantAction_ $dormants($option(dormant))
if {[string match *TS $option(extension)]} {
    Agent/SCTP set dataChunkSize_ 1456
}
# It has no default and warns.
Agent/SCTP/MfrHbAfterRto set mfrCount_ 0

# Queues of twice the bandwidth-delay product of their links, in packets.
proc packets {rate milliseconds} {
    return [expr {int(2 * $rate * $milliseconds / 1000.0 / 8 / 1500)}]
}
set losses [list $option(primary)]
set delays [list $option(main)]
for {set number 1} {$number <= $option(alternates)} {incr number} {
    lappend losses $option(alternate)
    lappend delays $option(delay)
}
set queues [lmap delay $delays {packets 10e6 $delay}]
paths $option(seed) $losses $delays $queues [packets 100e6 10]
agents $agents($option(extension))
# The receiver finds its routes back with those of the data: acknowledgements never wait (caro 4.2).
$sender set routeCalcDelay_ $option(discovery)
$sender set routeCacheLifetime_ $option(cache)
if {$option(errors)} {
    $sender trace errorCount_
    $sender attach stdout
}
cut 1 $option(cut)
transfer $option(bytes) $option(end)
