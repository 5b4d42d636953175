# A concurrent multipath transfer of unordered messages over two paths (nrsack 5.6), for the simulator ns-2.35.
#
# usage: ns cmt.tcl SEED NR_SACKS SEND_BUFFER DELAY LOSS1 LOSS2 BYTES
#   NR_SACKS     0 or 1
#   SEND_BUFFER  bytes; the simulator counts chunks of 1468 bytes
#   DELAY        of both links one way, in milliseconds
#   LOSS1 LOSS2  probability of losing a packet on the first and the second link, in each direction
#   BYTES        user data, in chunks of 1452 bytes
# It prints every packet that arrives; cmt.py finds the time of the last chunk that is new, and then ends it.

lassign $argv seed nonrenegable buffer delay loss1 loss2 bytes

remove-all-packet-headers
add-packet-header IP SCTP Common Flags

Agent/SCTP set fastRtxTrigger_ 3
Agent/SCTP set initialRwnd_ 8000000
Agent/SCTP set initialSwnd_ $buffer
Agent/SCTP set pathMaxRetrans_ 1000000
Agent/SCTP set associationMaxRetrans_ 1000000
Agent/SCTP set maxInitRetransmits_ 1000000
Agent/SCTP set useDelayedSacks_ 1
Agent/SCTP set mtu_ 1500
Agent/SCTP set dataChunkSize_ 1468
Agent/SCTP set unordered_ 1
Agent/SCTP set useNonRenegSacks_ $nonrenegable
Agent/SCTP/CMT set useCmtReordering_ 1
Agent/SCTP/CMT set useCmtCwnd_ 1
Agent/SCTP/CMT set useCmtDelAck_ 1
# RTX-SSTHRESH.
Agent/SCTP/CMT set eCmtRtxPolicy_ 2
Agent/SCTP/CMT set useCmtPF_ 0
Trace set show_sctphdr_ 1

set ns [new Simulator]
$defaultRNG seed $seed
# A multihomed node is a core, where the agent sits, and one node an interface.
foreach side {A B} {
    set core($side) [$ns node]
    foreach path {1 2} {
        set if($side,$path) [$ns node]
        $ns multihome-add-interface $core($side) $if($side,$path)
    }
}
foreach path {1 2} loss [list $loss1 $loss2] {
    set near $if(A,$path)
    set far $if(B,$path)
    $ns duplex-link $near $far 100Mb ${delay}ms DropTail
    foreach {a b} [list $near $far $far $near] {
        $ns queue-limit $a $b 1000
        set errors [new ErrorModel]
        $errors set rate_ $loss
        $errors unit pkt
        $errors ranvar [new RandomVariable/Uniform]
        $errors drop-target [new Agent/Null]
        $ns lossmodel $errors $a $b
    }
    # Of all that could be traced, only what arrives with data.
    set arrivals [$ns create-trace Recv stdout $near $far]
    set ttl [[$ns link $near $far] set ttl_]
    $arrivals target [$ttl target]
    $ttl target $arrivals
}
set sender [new Agent/SCTP/CMT]
set receiver [new Agent/SCTP/CMT]
$ns multihome-attach-agent $core(A) $sender
$ns multihome-attach-agent $core(B) $receiver
$ns connect $sender $receiver
$sender set-primary-destination $if(B,1)
set application [new Application/FTP]
$application attach-agent $sender
$ns at 0.0 "$application send $bytes"
# Long after the last chunk; until then there is nothing but heartbeats.
$ns at 5000.0 "exit 0"
$ns run
