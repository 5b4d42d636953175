# A transfer of unordered messages over one path (nrsack 5), for the simulator ns-2.35.
#
# usage: ns window.tcl NAME=VALUE...
#   seed     random seed
#   nrsack   1 for NR-SACKs
#   buffer   of the sender in bytes, 0 for no limit; the simulator counts chunks of 1468 bytes
#   window   the receive window in bytes
#   rate     of the link in Mb/s
#   delay    of the link one way, in milliseconds
#   queue    of the link in packets
#   loss     in percent, in each direction
#   bytes    user data, in chunks of 1452 bytes; without end if there is no number
#   end      time in seconds at which the simulation ends
# It prints every packet that arrives (r) and every one that is lost (d); window.py and gain.py read that.

array set option {seed 1 nrsack 0 buffer 0 window 65536 rate 100 delay 45 queue 1000 loss 0 bytes "" end 20000}
foreach word $argv {
    lassign [split $word =] name value
    if {![info exists option($name)]} {
        error "there is no option $name; there are [lsort [array names option]]"
    }
    set option($name) $value
}

remove-all-packet-headers
add-packet-header IP SCTP Common Flags

Agent/SCTP set fastRtxTrigger_ 3
Agent/SCTP set initialRwnd_ $option(window)
Agent/SCTP set initialSwnd_ $option(buffer)
Agent/SCTP set changePrimaryThresh_ 1000000
Agent/SCTP set pathMaxRetrans_ 1000000
Agent/SCTP set associationMaxRetrans_ 1000000
Agent/SCTP set maxInitRetransmits_ 1000000
Agent/SCTP set useDelayedSacks_ 1
Agent/SCTP set mtu_ 1500
Agent/SCTP set dataChunkSize_ 1468
Agent/SCTP set unordered_ 1
Agent/SCTP set useNonRenegSacks_ $option(nrsack)
Trace set show_sctphdr_ 1

set ns [new Simulator]
$defaultRNG seed $option(seed)
set sender_node [$ns node]
set receiver_node [$ns node]
$ns duplex-link $sender_node $receiver_node $option(rate)Mb $option(delay)ms DropTail
$ns queue-limit $sender_node $receiver_node $option(queue)
$ns queue-limit $receiver_node $sender_node $option(queue)
foreach {a b} [list $sender_node $receiver_node $receiver_node $sender_node] {
    set errors [new ErrorModel]
    $errors set rate_ [expr {$option(loss) / 100.0}]
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
set command [expr {$option(bytes) eq "" ? "start" : "send $option(bytes)"}]
$ns at 0.0 "$application $command"
# Of all that could be traced, only what arrives with data.
set arrivals [$ns create-trace Recv stdout $sender_node $receiver_node]
set ttl [[$ns link $sender_node $receiver_node] set ttl_]
$arrivals target [$ttl target]
$ttl target $arrivals
$ns at $option(end) "exit 0"
$ns run
