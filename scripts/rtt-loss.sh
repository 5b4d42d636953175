#!/usr/bin/env bash
# Measures goodput by round-trip time and loss: anabranch and the kernel's TCP with their congestion controls, all
# through the same forwarder (anabranch emulate) between two network namespaces. Prints a table;
# docs/rtt-loss.txt is a snapshot of it.
#
# Usage (as root): scripts/rtt-loss.sh
#   Settings by environment: RTTS (ms), LOSSES (percent, in each direction), RATE (Mb/s), SECONDS_EACH,
#   QUEUE (products of rate and round-trip time), TRANSPORT (sctp-udp or sctp), OURS and CONTROLS (congestion
#   controls of anabranch and of TCP), ANABRANCH (the program, built here if not given).

. "$(dirname "$0")/netns.sh"
for tool in iperf3 jq; do
    command -v "$tool" >/dev/null || fail "$tool is missing: run scripts/setup"
done

rtts=${RTTS:-2 20 50 100 300}
losses=${LOSSES:-0 0.1 1}
rate=${RATE:-100}
seconds=${SECONDS_EACH:-10}
product=${QUEUE:-1}
transport=${TRANSPORT:-sctp-udp}
ours=${OURS-rfc9260 cubic bbr}
controls=${CONTROLS-reno cubic bbr}
known=/proc/sys/net/ipv4/tcp_available_congestion_control
for control in $controls; do
    grep -qw "$control" $known || modprobe -q "tcp_$control" || :
    grep -qw "$control" $known || fail "this kernel's TCP has no $control: set CONTROLS to some of $(cat $known)"
done

started=()
stop_started() {
    for process in "${started[@]}"; do
        kill "$process" 2>/dev/null || :
    done
    wait
    cleanup
}
trap stop_started EXIT

make_namespaces left right
for namespace in "$ns_left" "$ns_right"; do
    # Buffers must not be the limit: 16 MB is more than four times the largest bandwidth-delay product here.
    ip netns exec "$namespace" sh -c '
        echo "4096 131072 16777216" >/proc/sys/net/ipv4/tcp_rmem
        echo "4096 131072 16777216" >/proc/sys/net/ipv4/tcp_wmem
        echo 1 >/proc/sys/net/ipv4/tcp_no_metrics_save' || :
done

# start LOG COMMAND...: starts a command in the background and waits for the first line of its output.
start() {
    local log=$1
    shift
    : >"$log"
    "$@" >"$log" 2>&1 &
    started+=($!)
    for _ in $(seq 200); do
        [ -s "$log" ] && return
        kill -0 "$!" 2>/dev/null || break
        sleep 0.05
    done
    cat "$log" >&2
    fail "$1 does not start"
}

# megabits KEY: prints a rate of a JSON document, or a dash if the measurement failed.
megabits() { jq -r "$1 // empty | . / 1e5 | round / 10" 2>/dev/null | grep . || echo -; }

# row RTT LOSS GOODPUT...
row() {
    printf '%8s %8s' "$1" "$2"
    shift 2
    printf ' %12s' "$@"
    echo
}

# anabranch_goodput CONTROL: counts what is acknowledged in time. Over a slow path a full send buffer takes much longer
# to drain, and we do not wait for TCP's, either.
anabranch_goodput() {
    start "$work/client" ip netns exec "$ns_left" "$ANABRANCH" perf client 10.98.0.2:5201 --json \
        --interval "${seconds}s" --transport "$transport" --time 1h --congestion "$1"
    for _ in $(seq $((seconds * 20 + 100))); do
        grep -q '"event":"interval"' "$work/client" && break
        sleep 0.1
    done
    grep -m 1 '"event":"interval"' "$work/client" |
        megabits '(.bytes_sent * 8 / (.to_seconds - .from_seconds))' >"$work/goodput"
    # Nothing more leaves, so that the next one has the line to itself.
    kill -KILL "${started[-1]}"
    wait "${started[-1]}" 2>/dev/null || :
    unset 'started[-1]'
}

printf 'Goodput in Mb/s of one connection, %s s each, over %s Mb/s, by round-trip time and loss in each\n' \
    "$seconds" "$rate"
printf 'direction. The queue is %s times the product of rate and round-trip time, at least 50 packets.\n\n' "$product"
read -ra names <<<"$ours"
read -ra others <<<"$controls"
row 'RTT ms' 'loss %' "${names[@]/#/our }" "${others[@]/#/TCP }"
for rtt in $rtts; do
    for loss in $losses; do
        queue=$(awk -v rate="$rate" -v rtt="$rtt" -v product="$product" \
            'BEGIN { q = product * rate * rtt * 1000 / 8 / 1500; print int(q < 50 ? 50 : q) }')
        cat >"$work/line.toml" <<LINE
seed = 1
[[path]]
rate_mbit = $rate
delay_ms = $(awk -v rtt="$rtt" 'BEGIN { print rtt / 2 }')
queue_packets = $queue
loss_percent = $loss
LINE
        started=()
        start "$work/emulate" "$ANABRANCH" emulate --impair "$work/line.toml" \
            --line "$ns_left:w0:10.98.0.1/24=$ns_right:w0:10.98.0.2/24"
        start "$work/server" ip netns exec "$ns_right" "$ANABRANCH" perf server \
            --listen 10.98.0.2:5201 --transport "$transport"
        goodput=()
        for control in $ours; do
            anabranch_goodput "$control"
            goodput+=("$(cat "$work/goodput")")
        done
        start "$work/iperf" ip netns exec "$ns_right" iperf3 -s -p 5301 --forceflush
        for control in $controls; do
            goodput+=("$(ip netns exec "$ns_left" iperf3 -c 10.98.0.2 -p 5301 -C "$control" -t "$seconds" -J |
                megabits .end.sum_received.bits_per_second)")
        done
        row "$rtt" "$loss" "${goodput[@]}"
        for process in "${started[@]}"; do
            kill -INT "$process" 2>/dev/null || :
        done
        wait
    done
done
