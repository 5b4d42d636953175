# An endless transfer of unordered messages over one path (nrsack 5), for the simulator ns-2.35.
#
# usage: ns window.tcl SEED NR_SACKS SEND_BUFFER DELAY LOSS FROM LENGTH [WINDOW]
#   NR_SACKS     0 or 1
#   SEND_BUFFER  bytes, 0 for no limit; the simulator counts chunks of 1468 bytes
#   DELAY        of the link one way, in milliseconds
#   LOSS         probability of losing a packet, in each direction
#   FROM LENGTH  the time that is measured, in seconds
#   WINDOW       the receive window in bytes (65536)
# It prints every packet that arrives (r) and every one that is lost (d); window.py counts the chunks that are new.

lassign $argv seed nonrenegable buffer delay loss from length window
if {$window eq ""} {
    set window 65536
}

remove-all-packet-headers
add-packet-header IP SCTP Common Flags

Agent/SCTP set fastRtxTrigger_ 3
Agent/SCTP set initialRwnd_ $window
Agent/SCTP set initialSwnd_ $buffer
Agent/SCTP set changePrimaryThresh_ 1000000
Agent/SCTP set pathMaxRetrans_ 1000000
Agent/SCTP set associationMaxRetrans_ 1000000
Agent/SCTP set maxInitRetransmits_ 1000000
Agent/SCTP set useDelayedSacks_ 1
Agent/SCTP set mtu_ 1500
Agent/SCTP set dataChunkSize_ 1468
Agent/SCTP set unordered_ 1
Agent/SCTP set useNonRenegSacks_ $nonrenegable
Trace set show_sctphdr_ 1

set ns [new Simulator]
$defaultRNG seed $seed
set sender_node [$ns node]
set receiver_node [$ns node]
$ns duplex-link $sender_node $receiver_node 100Mb ${delay}ms DropTail
$ns queue-limit $sender_node $receiver_node 1000
$ns queue-limit $receiver_node $sender_node 1000
foreach {a b} [list $sender_node $receiver_node $receiver_node $sender_node] {
    set errors [new ErrorModel]
    $errors set rate_ $loss
    $errors unit pkt
    $errors ranvar [new RandomVariable/Uniform]
    set lost [$ns create-trace Drop stdout $a $b]
    $lost target [new Agent/Null]
    $errors drop-target $lost
    $ns lossmodel $errors $a $b
}
set sender [new Agent/SCTP]
set receiver [new Agent/SCTP]
$ns attach-agent $sender_node $sender
$ns attach-agent $receiver_node $receiver
$ns connect $sender $receiver
set application [new Application/FTP]
$application attach-agent $sender
$ns at 0.0 "$application start"
# Of all that could be traced, only what arrives with data.
set arrivals [$ns create-trace Recv stdout $sender_node $receiver_node]
set ttl [[$ns link $sender_node $receiver_node] set ttl_]
$arrivals target [$ttl target]
$ttl target $arrivals
$ns at [expr {$from + $length}] "exit 0"
$ns run
