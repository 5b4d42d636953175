#!/usr/bin/env bash
# Concurrent multipath transfer on real sockets, between two network namespaces with two links.
#
#   engine    packets that the engine sends per second of CPU time over two paths and over one (no root)
#   capacity  goodput of one path, of two of the same rate, and of two whose rates differ by ten
#   failure   8 MB over two paths of 10 Mb/s and 45 ms each way; one is cut for good after 5 s:
#             CMT and CMT-PF, with the bytes delivered over time as a picture (nat 4.20)
#   turns     a transfer in which each path is cut and repaired in turn: goodput over time as a
#             picture; checks that nothing is lost
#
# The client impairs its packets itself (--impair); the links between the namespaces have 100 Mb/s.
#
# Usage (as root): scripts/multipath.sh [engine] [capacity] [failure] [turns]
#   Settings by environment: RUNS (of the failure, 3), SECONDS_EACH (of capacity, 20), PICTURES (a
#   directory for the pictures, docs), TRANSPORT (sctp-udp or sctp), ANABRANCH (the program, built
#   here if not given).

. "$(dirname "$0")/netns.sh"
command -v jq >/dev/null || fail "jq is missing: run scripts/setup"

parts=${*:-engine capacity failure turns}
runs=${RUNS:-3}
seconds=${SECONDS_EACH:-20}
pictures=${PICTURES:-docs}
transport=${TRANSPORT:-sctp-udp}
both=10.77.0.2,10.77.1.2:5201

started=()
stop_all() {
    for process in "${started[@]}"; do
        kill -KILL "$process" 2>/dev/null || :
    done
    wait 2>/dev/null || :
    started=()
}
trap 'stop_all; cleanup' EXIT

# link_between NAME: creates the namespaces cNAME and sNAME with two links, as $near and $far.
link_between() {
    make_namespaces "c$1" "s$1"
    near=ns_c$1 far=ns_s$1
    near=${!near} far=${!far}
    connect "$near" c0 10.77.0.1 "$far" s0 10.77.0.2
    connect "$near" c1 10.77.1.1 "$far" s1 10.77.1.2
}

# start_server NAME OPTIONS...: starts a server in $far; it writes its figures to $work/server.NAME.
start_server() {
    local name=$1
    shift
    ip netns exec "$far" "$ANABRANCH" perf server --listen "$both" --transport "$transport" \
        --json --interval 100ms "$@" >"$work/server.$name" 2>"$work/server-error.$name" &
    started+=($!)
    for _ in $(seq 200); do
        [ -s "$work/server.$name" ] && return
        sleep 0.05
    done
    fail "the server does not start: $(cat "$work/server-error.$name")"
}

# client NAME PEER OPTIONS...: runs a client; it writes its figures to $work/client.NAME.
client() {
    local name=$1
    shift
    ip netns exec "$near" "$ANABRANCH" perf client "$@" --transport "$transport" --json \
        --impair "$work/line.$name" >"$work/client.$name" 2>"$work/error.$name" ||
        fail "$name: $(cat "$work/error.$name")"
}

# path NUMBER RATE QUEUE DELAY [MORE]: prints a path of an impairment file.
path() {
    printf '[[path]]\nlocal = "10.77.%s.1"\nrate_mbit = %s\nqueue_bytes = %s\ndelay_ms = %s\n%s\n' \
        "$1" "$2" "$3" "$4" "${5:-}"
}

goodput() {
    jq -r 'select(.event == "summary") | .sent.bits_per_second / 1e6' "$work/client.$1"
}

engine() {
    cargo bench --quiet -p anabranch-bench --bench multipath
}

capacity() {
    local peer name
    link_between capacity
    start_server capacity --multipath cmt --nr-sack
    printf 'Goodput in Mb/s of %s s, round trip 20 ms, queues of 50 kB, NR-SACKs, default buffers\n' "$seconds"
    printf '%12s %8s %8s %8s %8s  %s\n' rates path-0 path-1 cmt cmt-pf 'of the single ones'
    for rates in "20 20" "40 4"; do
        set -- $rates
        for name in first second cmt cmt-pf; do
            { path 0 "$1" 50000 10; path 1 "$2" 50000 10; } >"$work/line.$name"
            case $name in
            first) peer="10.77.0.2:5201 --local 10.77.0.1" ;;
            second) peer="10.77.1.2:5201 --local 10.77.1.1" ;;
            *) peer="$both --multipath $name --nr-sack" ;;
            esac
            client "$name" $peer --time "${seconds}s" --interval 0s
        done
        echo "$1+$2 $(goodput first) $(goodput second) $(goodput cmt) $(goodput cmt-pf) $1 $2" |
            awk '{ printf "%12s %8.2f %8.2f %8.2f %8.2f  ", $1, $2, $3, $4, $5
                if ($6 == $7) printf "cmt %.2f, cmt-pf %.2f times the better one\n", $4 / ($2 > $3 ? $2 : $3), $5 / ($2 > $3 ? $2 : $3)
                else printf "cmt %.2f, cmt-pf %.2f of the sum\n", $4 / ($2 + $3), $5 / ($2 + $3) }'
    done
    stop_all
}

failure() {
    local clients=() mode run name process
    for mode in cmt cmt-pf; do
        for run in $(seq "$runs"); do
            name=${mode/-/_}_$run
            link_between "$name"
            start_server "$name" --receive-buffer 65536 --multipath "$mode" --buffer-split=off
            { path 0 10 125000 45; path 1 10 125000 45 'cut_at_s = 5'; } >"$work/line.$name"
            client "$name" "$both" --multipath "$mode" --buffer-split=off --pmr 5 --bytes 8388608 \
                --size 1400 --interval 100ms &
            clients+=($!)
        done
    done
    for process in "${clients[@]}"; do
        wait "$process" || fail "a transfer failed"
    done
    printf '8 MB over two paths of 10 Mb/s and 45 ms each way, window 64 KiB, PMR 5; path 1 is cut after 5 s\n'
    printf '%8s  %s\n' mode 'seconds until all of it had arrived, in each run'
    for mode in cmt cmt-pf; do
        printf '%8s ' "$mode"
        for run in $(seq "$runs"); do
            jq -rj 'select(.event == "summary") | .sent.seconds * 100 | round / 100 | tostring + " "' \
                "$work/client.${mode/-/_}_$run"
        done
        echo
    done
    "$ANABRANCH" perf chart CMT="$work/server.cmt_1" CMT-PF="$work/server.cmt_pf_1" --bytes \
        --title "Bytes delivered while a path fails" --svg "$pictures/multipath-failure.svg"
    stop_all
}

turns() {
    link_between turns
    start_server turns --multipath cmt-pf
    {
        path 0 20 50000 10 'cuts = [{ cut_at_s = 10, repair_at_s = 20 }]'
        path 1 20 50000 10 'cuts = [{ cut_at_s = 30, repair_at_s = 40 }]'
    } >"$work/line.turns"
    client turns "$both" --multipath cmt-pf --time 50s --interval 200ms
    jq -r 'select(.event == "summary") | .sent as $sent | .associations[0]
        | "50 s, two paths of 20 Mb/s; path 0 is cut from 10 to 20 s, path 1 from 30 to 40 s",
        "\($sent.messages) messages, \($sent.bytes) bytes delivered: \($sent.bits_per_second / 1e4 | round / 100) Mb/s, longest gap \($sent.longest_gap_seconds * 1000 | round) ms",
        (.events[] | "  \(.seconds * 100 | round / 100) s: \(.event) \(.remote // "") \(.state // "")")' "$work/client.turns"
    "$ANABRANCH" perf chart "$work/server.turns" --title "Goodput while each path is cut in turn" \
        --svg "$pictures/multipath-turns.svg"
    stop_all
}

for part in $parts; do
    case $part in
    engine | capacity | failure | turns) "$part" ;;
    *) fail "there is no part $part: engine, capacity, failure, turns" ;;
    esac
done
