#!/usr/bin/env bash
# Sends over sealed paths from a client with two uplinks, each behind an address translator of its own, and cuts the
# first uplink after CUT seconds. Prints the rate of each path every second. Needs root, iproute2 and nftables.
#
#     scripts/sealed-cut.sh [SECONDS [CUT]]
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-12} cut=${2:-6}
cargo build --quiet -p anabranch --features seal --example sealed
program=${CARGO_TARGET_DIR:-target}/debug/examples/sealed
prefix=sealed$$

ns() { ip netns exec "$prefix$1" "${@:2}"; }

clean() {
    [ -z "${server:-}" ] || kill "$server" 2>/dev/null || true
    for name in c n1 n2 s; do ip netns del "$prefix$name" 2>/dev/null || true; done
    rm -rf "$directory"
}
directory=$(mktemp -d)
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
for number in 1 2; do
    link c "u$number" "192.168.$number.2" "n$number" in "192.168.$number.1"
    link "n$number" out "10.79.$number.1" s "s$number" "10.79.$number.2"
    ns c ip route add default via "192.168.$number.1" metric "$number"
    ns "n$number" sysctl -qw net.ipv4.ip_forward=1
    ns "n$number" ip route add 10.79.9.0/24 via "10.79.$number.2"
    ns "n$number" nft "add table ip nat; add chain ip nat post { type nat hook postrouting priority 100 ; };
        add rule ip nat post oifname out masquerade"
    ns "n$number" tc qdisc add dev in root tbf rate 20mbit burst 20k latency 50ms
    ns "n$number" tc qdisc add dev out root tbf rate 20mbit burst 20k latency 50ms
done
ns s ip addr add 10.79.9.1/32 dev lo

ns s "$program" listen 10.79.9.1:9899 >"$directory/invitation" &
server=$!
until [ -s "$directory/invitation" ]; do sleep 0.1; done
(
    sleep "$cut"
    ns n1 ip link set out down
) &
ns c "$program" send "$(cat "$directory/invitation")" "$seconds" u1 u2
