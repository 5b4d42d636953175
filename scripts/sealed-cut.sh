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
. scripts/nat-uplinks.sh
need tc

make_namespaces 2
for number in 1 2; do
    uplink "$number"
    ns "n$number" tc qdisc add dev in root tbf rate 20mbit burst 20k latency 50ms
    ns "n$number" tc qdisc add dev out root tbf rate 20mbit burst 20k latency 50ms
done

ip netns exec "${prefix}s" "$program" listen 10.79.9.1:9899 >"$directory/invitation" &
server=$! started=$!
until [ -s "$directory/invitation" ]; do sleep 0.1; done
(
    sleep "$cut"
    ns n1 ip link set out down
) &
ns c "$program" send "$(cat "$directory/invitation")" "$seconds" u1 u2
