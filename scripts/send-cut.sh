#!/usr/bin/env bash
# Sends a file of 500 MB to a receiver with two uplinks of 150 Mb/s, each behind an address translator of its own. The
# receiver is killed after five seconds and started again, and five seconds later one uplink begins to swallow packets.
# Prints what both sides say and compares the files. Needs root, iproute2 and nftables.
#
#     scripts/send-cut.sh PROGRAM [BYTES]
set -euo pipefail
program=$(realpath "$1") bytes=${2:-500000000}
prefix=send$$
. "$(dirname "$0")/nat-uplinks.sh"
need tc

make_namespaces 2
for number in 1 2; do
    uplink "$number"
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
