# One bulk transfer on the dual dumbbell of caro 2.3, for the simulator ns-2.35.
#
# usage: ns transfer.tcl SEED BYTES PRIMARY_LOSS ALTERNATE_LOSS POLICY
#   BYTES           user data, in chunks of 1452 bytes
#   *_LOSS          probability of losing a packet on the core link of a path, in each direction
#   POLICY          0 AllRtxSame, 1 AllRtxAlt, 2 FrSameRtoAlt
# It prints nothing: only its CPU time is of interest.

lassign $argv seed bytes primary alternate policy

remove-all-packet-headers
add-packet-header IP SCTP Common Flags

Agent/SCTP set fastRtxTrigger_ 4
Agent/SCTP set initialRwnd_ 65536
Agent/SCTP set rtxToAlt_ $policy
Agent/SCTP set changePrimaryThresh_ 1000000
Agent/SCTP set useDelayedSacks_ 1
Agent/SCTP set mtu_ 1500
Agent/SCTP set dataChunkSize_ 1468

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

# Bytes of twice the bandwidth-delay product, in packets of 1500 bytes.
set edgeQueue [expr {int(2 * 100e6 * 0.010 / 8 / 1500)}]
set coreQueue [expr {int(2 * 10e6 * 0.025 / 8 / 1500)}]
set run 1
foreach path {1 2} loss [list $primary $alternate] {
    set left [$ns node]
    set right [$ns node]
    foreach {a b rate delay queue} [list \
        $if(A,$path) $left 100Mb 10ms $edgeQueue \
        $left $right 10Mb 25ms $coreQueue \
        $right $if(B,$path) 100Mb 10ms $edgeQueue] {
        $ns duplex-link $a $b $rate $delay DropTail
        $ns queue-limit $a $b $queue
        $ns queue-limit $b $a $queue
    }
    foreach {a b} [list $left $right $right $left] {
        set uniform [new RandomVariable/Uniform]
        $uniform set min_ 0.0
        $uniform set max_ 1.0
        set rng [new RNG]
        $rng seed [expr {$seed * 16 + $run}]
        incr run
        $uniform use-rng $rng
        set errors [new ErrorModel]
        $errors set rate_ $loss
        $errors unit pkt
        $errors ranvar $uniform
        $errors drop-target [new Agent/Null]
        $ns lossmodel $errors $a $b
    }
}

set sender [new Agent/SCTP]
set receiver [new Agent/SCTP]
$ns multihome-attach-agent $core(A) $sender
$ns multihome-attach-agent $core(B) $receiver
$ns connect $sender $receiver
$sender set-primary-destination $if(B,1)

set application [new Application/FTP]
$application attach-agent $sender

$ns at 0.0 "$application send $bytes"
# Long after the last acknowledgement; until then there is nothing but heartbeats.
$ns at 5000.0 "exit 0"
$ns run
