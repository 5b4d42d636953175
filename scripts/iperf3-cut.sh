#!/usr/bin/env bash
# iperf3 --sctp and socat, unmodified, under 'anabranch run' over two paths of 100 Mb/s. The first path loses everything
# after 5 s, and is repaired after 12 s. Prints the rates that iperf3 measures before, during and after that, and draws a
# chart. iperf3 ends with data on the way, so socat sends a file under the same conditions, and the hashes are compared.
#
# Usage (as root): scripts/iperf3-cut.sh [CHART.svg]. Needs iperf3, socat and python3.
# ANABRANCH is the program, with the library for programs in the same directory.

. "$(dirname "$0")/netns.sh"
for tool in iperf3 socat python3; do
    command -v "$tool" >/dev/null || fail "$tool is missing"
done
chart=${1:-$work/chart.svg}
cut=5 repair=12 end=20

make_namespaces client server
connect "$ns_client" c1 10.81.1.2 "$ns_server" s1 10.81.1.1
connect "$ns_client" c2 10.81.2.2 "$ns_server" s2 10.81.2.1

# on_server tcp|udp PORT COMMAND...: starts it in the background, and waits until it or its engine has the port.
on_server() {
    local protocol=$1 port=$2
    shift 2
    ip netns exec "$ns_server" "$ANABRANCH" run --addresses 10.81.1.1,10.81.2.1 -- "$@" >"$work/server.log" 2>&1 &
    server=$!
    for _ in $(seq 100); do
        ip netns exec "$ns_server" ss -Hln "--$protocol" "sport = :$port" | grep -q . && return
        sleep 0.1
    done
    fail "the server does not start: $(cat "$work/server.log")"
}

on_client() {
    ip netns exec "$ns_client" "$ANABRANCH" run --udp-port 0 --addresses 10.81.1.2,10.81.2.2 -- "$@"
}

# change KIND ARGUMENT...: how both ends of the first path send.
change() {
    tc -n "$ns_client" qdisc replace dev c1 root "$@"
    tc -n "$ns_server" qdisc replace dev s1 root "$@"
}

# Cuts the first path, and repairs it.
cut_and_repair() {
    sleep "$cut"
    # No packet is as short as the burst. No device goes down.
    change tbf rate 1kbit burst 10b limit 10b
    sleep $((repair - cut))
    change tbf rate 100mbit burst 32kb latency 20ms
}

# finish NAME CLIENT: both ends must succeed.
finish() {
    local status=0
    wait "$2" || status=$?
    [ "$status" = 0 ] || fail "$1 fails with exit code $status: $(cat "$work/client.log" "$work/server.log")"
    wait "$server" || fail "the server of $1 fails: $(cat "$work/server.log")"
    server=
}

on_server tcp 5201 iperf3 -s -1
on_client iperf3 --sctp -c 10.81.1.1 -t "$end" -i 0.5 -J --get-server-output >"$work/client.log" 2>&1 &
client=$!
python3 scripts/iperf3_cut.py sample "$ns_server" "$client" >"$work/paths" &
sampler=$!
cut_and_repair
finish iperf3 "$client"
wait "$sampler"
python3 scripts/iperf3_cut.py report "$work" "$cut" "$repair"
"$ANABRANCH" perf chart --title "iperf3 --sctp over two paths: Mb/s over time, the first path cut from $cut s to $repair s" \
    --svg "$chart" "$work/intervals.json"
echo "chart: $chart"

# As much as one path carries in that time.
size=$((end * 11000000))
make_file "$size"
on_server udp 9899 socat -u SCTP-LISTEN:5000,bind=10.81.1.1 "CREATE:$work/copy"
on_client socat -u "OPEN:$work/site/file" SCTP:10.81.1.1:5000 >"$work/client.log" 2>&1 &
client=$!
cut_and_repair
finish socat "$client"
[ "$(sha256sum <"$work/copy")" = "$hash" ] || fail "socat: $(stat -c %s "$work/copy") of $size bytes, or others"
echo "socat: $size bytes, hashes equal"
