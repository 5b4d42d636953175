# Two multihomed hosts and two or more disjoint paths (caro 2.2.1, Fig 2.1), for the simulator ns-2.35.
#
# A script sets the constants of the agents, then calls paths, agents and transfer, in this order.
remove-all-packet-headers
add-packet-header IP SCTP Common Flags
Trace set show_sctphdr_ 1

# What all studies have in common; a number that is out of the way is 1000000.
Agent/SCTP set initialRwnd_ 65536
# -1, the default, would make every failover permanent.
Agent/SCTP set changePrimaryThresh_ 1000000
Agent/SCTP set associationMaxRetrans_ 1000000
Agent/SCTP set useDelayedSacks_ 1
Agent/SCTP set mtu_ 1500
Agent/SCTP set dataChunkSize_ 1468

# Reads `name=value` words into the array `option`, which has the names and defaults.
proc options {words} {
    global option
    foreach word $words {
        lassign [split $word =] name value
        if {![info exists option($name)]} {
            error "there is no option $name; there are [lsort [array names option]]"
        }
        set option($name) $value
    }
}

# The network: edge links of 100 Mb/s and 10 ms, core links of 10 Mb/s that lose packets in both directions. The lists
# have an element for each path: losses in percent, one-way delays in milliseconds, queues in packets.
proc paths {seed losses delays coreQueues edgeQueue} {
    global ns core interface left right
    set ns [new Simulator]
    $::defaultRNG seed $seed
    # A multihomed node is a core, where the agent sits, and one node an interface.
    foreach side {A B} {
        set core($side) [$ns node]
        for {set path 1} {$path <= [llength $losses]} {incr path} {
            set interface($side,$path) [$ns node]
            $ns multihome-add-interface $core($side) $interface($side,$path)
        }
    }
    set path 0
    foreach loss $losses delay $delays queue $coreQueues {
        incr path
        set left($path) [$ns node]
        set right($path) [$ns node]
        duplex $interface(A,$path) $left($path) 100Mb 10 $edgeQueue
        duplex $left($path) $right($path) 10Mb $delay $queue
        duplex $right($path) $interface(B,$path) 100Mb 10 $edgeQueue
        trace_arrivals $right($path) $interface(B,$path)
        # A link that loses nothing has no stream of random numbers: the next link's would be another one.
        if {$loss > 0} {
            lose $left($path) $right($path) $loss
            lose $right($path) $left($path) $loss
        }
    }
}

proc duplex {a b rate delay queue} {
    global ns
    $ns duplex-link $a $b $rate ${delay}ms DropTail
    $ns queue-limit $a $b $queue
    $ns queue-limit $b $a $queue
}

# Packets are lost before they are queued, each link with its own stream. What is lost is printed (`d`).
proc lose {from to percent} {
    global ns
    set uniform [new RandomVariable/Uniform]
    $uniform use-rng [new RNG]
    set lost [$ns create-trace Drop stdout $from $to]
    $lost target [new Agent/Null]
    set errors [new ErrorModel]
    $errors set rate_ [expr {$percent / 100.0}]
    $errors unit pkt
    $errors ranvar $uniform
    $errors drop-target $lost
    $ns lossmodel $errors $from $to
}

# Of all that could be traced, only what arrives with data (`r`).
proc trace_arrivals {from to} {
    global ns
    set arrivals [$ns create-trace Recv stdout $from $to]
    set ttl [[$ns link $from $to] set ttl_]
    $arrivals target [$ttl target]
    $ttl target $arrivals
}

# Cuts the core link of a path in both directions; what it had begun to carry arrives.
proc cut {path at} {
    global ns left right
    if {$at ne ""} {
        $ns rtmodel-at $at down $left($path) $right($path)
    }
}

proc repair {path at} {
    global ns left right
    if {$at ne ""} {
        $ns rtmodel-at $at up $left($path) $right($path)
    }
}

# Agents of a class on both hosts. `sender` may be traced from here on, but not once it is connected.
proc agents {class} {
    global ns core sender receiver
    set sender [new $class]
    set receiver [new $class]
    $ns multihome-attach-agent $core(A) $sender
    $ns multihome-attach-agent $core(B) $receiver
}

# Sends so many bytes over the first path, from time 0 on, and simulates so many seconds.
proc transfer {bytes end} {
    global ns interface sender receiver
    $ns connect $sender $receiver
    $sender set-primary-destination $interface(B,1)
    set application [new Application/FTP]
    $application attach-agent $sender
    $ns at 0.0 "$application send $bytes"
    $ns at $end "exit 0"
    $ns run
}
