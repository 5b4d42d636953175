#!/usr/bin/env bash
# Measures how anabranch shares a bottleneck with the kernel's TCP: N associations and N connections at the same time,
# all through one forwarder (anabranch emulate) between two network namespaces. Prints a table;
# docs/fairness.txt is a snapshot of it.
#
# Usage (as root): scripts/fairness.sh
#   Settings by environment: RTTS (ms), FLOWS (of each kind), RATE (Mb/s), SECONDS_EACH, QUEUE (products of rate and
#   round-trip time), LOSS (percent, in each direction), TRANSPORT (sctp-udp or sctp), OURS and CONTROLS (congestion
#   controls of anabranch and of TCP), OPTIONS (more options of anabranch perf client), ANABRANCH (the program, built
#   here if not given).

. "$(dirname "$0")/netns.sh"
for tool in iperf3 jq; do
    command -v "$tool" >/dev/null || fail "$tool is missing: run scripts/setup"
done

rtts=${RTTS:-10 50 200}
flows=${FLOWS:-1 4}
rate=${RATE:-20}
seconds=${SECONDS_EACH:-60}
product=${QUEUE:-1}
loss=${LOSS:-0}
transport=${TRANSPORT:-sctp-udp}
ours=${OURS-rfc9260 cubic bbr}
controls=${CONTROLS-cubic bbr}
read -ra options <<<"${OPTIONS-}"
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
    ip netns exec "$namespace" sh -c 'echo 1 >/proc/sys/net/ipv4/tcp_no_metrics_save' || :
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

# together OURS THEIRS COUNT: both begin at once; prints the goodput of each in Mb/s, and their ratio.
together() {
    start "$work/client" ip netns exec "$ns_left" "$ANABRANCH" perf client 10.98.0.2:5201 --json --associations "$3" \
        --interval "${seconds}s" --transport "$transport" --time 1h --congestion "$1" "${options[@]}"
    local client=${started[-1]} theirs mine
    theirs=$(ip netns exec "$ns_left" iperf3 -c 10.98.0.2 -p 5301 -C "$2" -P "$3" -t "$seconds" -J |
        jq -r '.end.sum_received.bits_per_second / 1e6')
    for _ in $(seq 100); do
        grep -q '"event":"interval"' "$work/client" && break
        sleep 0.1
    done
    mine=$(grep -m 1 '"event":"interval"' "$work/client" | jq '.bytes_sent * 8 / (.to_seconds - .from_seconds) / 1e6')
    kill -KILL "$client"
    wait "$client" 2>/dev/null || :
    unset 'started[-1]'
    awk -v a="$mine" -v b="$theirs" 'BEGIN { printf "%.1f : %.1f = %.2f", a, b, a / b }'
}

printf 'Goodput in Mb/s of N associations beside N TCP connections over %s Mb/s, %s s each, and the ratio.\n' \
    "$rate" "$seconds"
printf 'The queue is %s times the product of rate and round-trip time, at least 20 packets; loss %s %%.\n\n' \
    "$product" "$loss"
printf '%8s %3s  %-10s %-8s %s\n' 'RTT ms' N anabranch TCP 'ours : theirs'
for rtt in $rtts; do
    queue=$(awk -v rate="$rate" -v rtt="$rtt" -v product="$product" \
        'BEGIN { q = product * rate * rtt * 1000 / 8 / 1500; print int(q < 20 ? 20 : q) }')
    cat >"$work/line.toml" <<LINE
seed = 1
[[path]]
rate_mbit = $rate
delay_ms = $(awk -v rtt="$rtt" 'BEGIN { print rtt / 2 }')
queue_packets = $queue
loss_percent = $loss
LINE
    for count in $flows; do
        for control in $ours; do
            for other in $controls; do
                started=()
                start "$work/emulate" "$ANABRANCH" emulate --impair "$work/line.toml" \
                    --line "$ns_left:w0:10.98.0.1/24=$ns_right:w0:10.98.0.2/24"
                start "$work/server" ip netns exec "$ns_right" "$ANABRANCH" perf server \
                    --listen 10.98.0.2:5201 --transport "$transport"
                start "$work/iperf" ip netns exec "$ns_right" iperf3 -s -p 5301 --forceflush
                printf '%8s %3s  %-10s %-8s %s\n' "$rtt" "$count" "$control" "$other" \
                    "$(together "$control" "$other" "$count")"
                for process in "${started[@]}"; do
                    kill -INT "$process" 2>/dev/null || :
                done
                wait
            done
        done
    done
done
