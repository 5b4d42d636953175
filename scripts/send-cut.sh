#!/usr/bin/env bash
# Sends a file of 500 MB to a receiver with two uplinks of 150 Mb/s, each behind an address translator of its own. The
# receiver is killed after five seconds and started again, and five seconds later one uplink begins to swallow packets.
# Prints what both sides say and compares the files. Needs root, iproute2 and nftables.
#
#     scripts/send-cut.sh PROGRAM [BYTES]
set -euo pipefail
program=$(realpath "$1") bytes=${2:-500000000}
prefix=send$$

# Programs in the background are started without this function: '$!' would be that of a shell around it.
ns() { ip netns exec "$prefix$1" "${@:2}"; }

clean() {
    [ -z "$started" ] || kill $started 2>/dev/null || true
    for name in c n1 n2 s; do ip netns del "$prefix$name" 2>/dev/null || true; done
    rm -rf "$directory"
}
directory=$(mktemp -d)
started=
trap clean EXIT

# link NAMESPACE DEVICE ADDRESS NAMESPACE DEVICE ADDRESS
link() {
    ip link add "$2" netns "$prefix$1" type veth peer name "$5" netns "$prefix$4"
    ns "$1" ip addr add "$3/24" dev "$2"
    ns "$4" ip addr add "$6/24" dev "$5"
    ns "$1" ip link set "$2" up
    ns "$4" ip link set "$5" up
}

for name in c n1 n2 s; do
    ip netns add "$prefix$name"
    ns "$name" ip link set lo up
done
ns s ip addr add 10.79.9.1/32 dev lo
for number in 1 2; do
    link c "u$number" "192.168.$number.2" "n$number" in "192.168.$number.1"
    link "n$number" out "10.79.$number.1" s "s$number" "10.79.$number.2"
    ns c ip route add default via "192.168.$number.1" metric "$number"
    ns "n$number" sysctl -qw net.ipv4.ip_forward=1
    ns "n$number" ip route add 10.79.9.0/24 via "10.79.$number.2"
    ns "n$number" nft "add table ip nat; add chain ip nat post { type nat hook postrouting priority 100 ; };
        add rule ip nat post oifname out masquerade"
    ns "n$number" tc qdisc add dev in root tbf rate 150mbit burst 200k latency 30ms
done

mkdir "$directory/received"
head -c "$bytes" /dev/urandom >"$directory/file"
ip netns exec "${prefix}s" "$program" send --listen 10.79.9.1:9899 --quiet "$directory/file" \
    >"$directory/sender" 2>"$directory/errors" &
sender=$! started=$!
until line=$(grep -o 'anb1:[A-Za-z0-9_-]*' "$directory/sender"); do sleep 0.1; done

receive() {
    exec ip netns exec "${prefix}c" "$program" receive "$line" --key "$directory/key" \
        --directory "$directory/received" --quiet
}
receive >/dev/null &
receiver=$! started="$started $!"
sleep 5
kill -KILL "$receiver"
wait "$receiver" 2>/dev/null || true
echo "killed at $(stat --format %s "$directory"/received/.file.*.part) bytes"
receive &
receiver=$! started="$started $!"
sleep 5
ns n1 nft 'add chain ip nat silent { type filter hook forward priority 0 ; policy drop ; }'
echo "the first uplink is cut"
wait "$receiver"
wait "$sender"
cat "$directory/sender"
cmp "$directory/file" "$directory/received/file"
echo "the files are equal"
