#!/usr/bin/env bash
# The failure of caro 2.14 on real sockets: 4 MiB over two paths between two network namespaces, and
# the primary path is cut after 4 s. Until the sender detects the failure, the receiver's progress
# depends on the path of retransmissions. Prints FrSameRtoAlt and AllRtxSame, on the wire and in the
# simulator; docs/failure-on-the-wire.txt is a snapshot.
#
# The client impairs its packets itself (--impair): 10 Mb/s and 45 ms each way on both paths, as in
# the scenario. The links between the namespaces have 100 Mb/s, like the scenario's links at both
# ends. Takes about seven minutes, because the last packets for the cut path take long.
#
# Usage (as root): scripts/failure-on-the-wire.sh
#   Settings by environment: LOSSES (percent, on both paths), RUNS (on the wire, all at once),
#   SEEDS (of the simulator), TRANSPORT (sctp or sctp-udp), ANABRANCH (the program, built here if
#   not given).

. "$(dirname "$0")/netns.sh"
command -v jq >/dev/null || fail "jq is missing: run scripts/setup"

losses=${LOSSES:-0 3}
runs=${RUNS:-3}
seeds=${SEEDS:-30}
transport=${TRANSPORT:-sctp}
size=4194304
# With 12 bytes of timestamps a packet is full; UDP needs 8 more.
message=1440
[ "$transport" = sctp ] || message=1432
policies="AllRtxSame FrSameRtoAlt"

started=()
# The servers' last packets do not matter, and over a cut path they take minutes.
stop_all() {
    for process in "${started[@]}"; do
        kill -KILL "$process" 2>/dev/null || :
    done
    wait 2>/dev/null || :
    started=()
}
trap 'stop_all; cleanup' EXIT

# The policy's options, as in the scenario.
options() {
    case $1 in
    AllRtxSame) echo --retransmission all-rtx-same ;;
    FrSameRtoAlt) echo --retransmission fr-same-rto-alt ;;
    esac
    echo --profile rfc2960 --pmr 5 --mfr --timestamps --transport "$transport"
}

# impairments LOSS: prints the impairment file of the client, whose addresses end in 1.
impairments() {
    local path
    for path in 0 1; do
        echo "[[path]]"
        echo "local = \"10.77.$path.1\""
        echo "rate_mbit = 10"
        echo "queue_bytes = 225000"
        echo "delay_ms = 45"
        [ "$1" = 0 ] || echo "loss_percent = $1"
        [ "$path" = 1 ] || echo "cut_at_s = 4"
    done
}

# start_run NAME POLICY LOSS: starts a server and a client in a pair of namespaces.
start_run() {
    local name=$1 near far
    make_namespaces "c$name" "s$name"
    near=ns_c$name far=ns_s$name
    near=${!near} far=${!far}
    connect "$near" c0 10.77.0.1 "$far" s0 10.77.0.2
    connect "$near" c1 10.77.1.1 "$far" s1 10.77.1.2
    ip netns exec "$far" "$ANABRANCH" perf server --listen 10.77.0.2,10.77.1.2:5201 \
        --json --interval 100ms --receive-buffer 72000 $(options "$2") >"$work/server.$name" 2>&1 &
    started+=($!)
    for _ in $(seq 200); do
        [ -s "$work/server.$name" ] && break
        sleep 0.05
    done
    { echo "seed = $((1000 + ${name##*_}))"; impairments "$3"; } >"$work/line.$name"
    ip netns exec "$near" timeout 600 "$ANABRANCH" perf client 10.77.0.2,10.77.1.2:5201 --json \
        --interval 0s --bytes "$size" --size "$message" --receive-buffer 72000 \
        --impair "$work/line.$name" $(options "$2") >"$work/client.$name" 2>"$work/error.$name" &
    started+=($!)
    clients+=($!)
}

# measured NAME: prints the transfer time, the longest gap, when the failure was detected, and the
# kilobytes received from half a second after the cut until the detection.
measured() {
    jq -rn --slurpfile client "$work/client.$1" --slurpfile server "$work/server.$1" '
        ($client | map(select(.event == "connected"))[0].seconds) as $connected
        | ($client | map(select(.event == "summary"))[0].associations[0]) as $association
        | ([$association.events[] | select(.remote == "10.77.0.2" and .state == "inactive")][0].seconds
            + $connected) as $found
        # The first interval of the server is the one in which the association was set up.
        | ($server | map(select(.event == "interval"))) as $intervals
        | ($intervals[0].to_seconds - $connected) as $ahead
        | ([$intervals[] | select(.from_seconds - $ahead >= 4.5 and .to_seconds - $ahead < $found)
            | .bytes_received] | add) as $bytes
        | [$connected + $association.sent.seconds, $association.sent.longest_gap_seconds, $found,
            $bytes / 1000] | @tsv'
}

# line WHERE POLICY LOSS RUNS: prints a line of the table from lines of figures on standard input.
line() {
    awk -v where="$1" -v policy="$2" -v loss="$3" -v runs="$4" '
        { for (i = 1; i <= NF; i++) { sum[i] += $i; least[i] = NR == 1 || $i < least[i] ? $i : least[i]
            most[i] = NR == 1 || $i > most[i] ? $i : most[i] } }
        END { printf "%6s  %-12s  %-14s %4d", loss, policy, where, runs
            for (i = 1; i <= 4; i++)
                if (i > NF) printf " %21s", "-"
                else printf " %7.2f %13s", sum[i] / NR, "(" sprintf("%.2f-%.2f", least[i], most[i]) ")"
            print "" }'
}

simulated() {
    "$ANABRANCH" lab run caro/2.14 --quiet --seeds "$seeds" --set profile=rfc2960 \
        --set "policy=$1" --set "primary_loss=$2 %" --set "alternate_loss=$2 %" --json - |
        jq -r '(if type == "array" then .[0] else . end).points[0].metrics
            | [.transfer_time_s, .longest_gap_s, .failure_detected_s]
            | map("\(.mean) \(.ci90 // 0)") | join(" ")' |
        awk -v policy="$1" -v loss="$2" -v seeds="$seeds" '
            { printf "%6s  %-12s  %-14s %4d", loss, policy, "simulator", seeds
              for (i = 1; i < NF; i += 2) printf " %7.2f %13s", $i, "±" sprintf("%.2f", $(i + 1))
              printf " %21s\n", "-" }'
}

printf '4 MiB over two paths of 10 Mb/s and 90 ms, profile rfc2960, PMR 5; the primary path is cut at 4 s.\n'
printf 'On the wire: mean (least-most) of real time, %s between two network namespaces.\n' "$transport"
printf 'Simulator: mean and 90 %% interval of caro/2.14. Seconds from the start; kB that the receiver\n'
printf 'got while the failure was being found.\n\n'
printf '%6s  %-12s  %-14s %4s %21s %21s %21s %21s\n' 'loss %' policy where runs 'transfer time' \
    'longest gap' 'failure found' 'kB meanwhile'
for loss in $losses; do
    clients=()
    for policy in $policies; do
        for run in $(seq "$runs"); do
            start_run "${policy:0:1}${loss}_$run" "$policy" "$loss"
        done
    done
    for client in "${clients[@]}"; do
        wait "$client" || { cat "$work"/error.* >&2; fail "a transfer failed"; }
    done
    for policy in $policies; do
        for run in $(seq "$runs"); do
            measured "${policy:0:1}${loss}_$run"
        done | line wire "$policy" "$loss" "$runs"
        simulated "$policy" "$loss"
    done
    stop_all
done
