#!/usr/bin/env bash
# A host that changes networks during a download: two uplinks, each behind its own address translator. At first only one is
# up at a time, with a gap between them; then both are, and one goes. The file must arrive whole. Needs
# root, iproute2 and nftables; exits with code 3 without them.
#
#     scripts/roam.sh PROGRAM
#
# With --large, three uplinks come and go while 200 MB are fetched, plain and sealed, over IPv4 and IPv6; see
# scripts/roam-large.sh.
#
#     scripts/roam.sh PROGRAM --large DIRECTORY
set -euo pipefail
[ "${2-}" != --large ] || exec "$(dirname "$0")/roam-large.sh" "$1" "${3:?a directory for captures and charts is missing}"
program=$(realpath "$1")
prefix=roam$$
# An address that is not private, so that the client knows that its own means nothing there.
server=203.0.113.1
. "$(dirname "$0")/nat-uplinks.sh"
need tc

make_namespaces 2
ns s ip addr add "$server/32" dev lo
for number in 1 2; do
    uplink "$number"
    ns "n$number" ip route add 203.0.113.0/24 via "10.79.$number.2"
    ns s tc qdisc add dev "s$number" root tbf rate 30mbit burst 20kb latency 50ms
done

# down and up NUMBER: the uplink of the client, with its address and its route.
down() {
    ns c ip addr flush dev "u$1"
    ns c ip link set "u$1" down
}
up() {
    ns c ip link set "u$1" up
    ns c ip addr add "192.168.$1.2/24" dev "u$1"
    ns c ip route add default via "192.168.$1.1" metric "$1"
}
down 2

mkdir "$directory/files"
head -c 40000000 /dev/urandom >"$directory/files/film"
ip netns exec "${prefix}s" "$program" serve --address-reconfiguration --listen "$server:9899" "$directory/files" >"$directory/serve.log" 2>&1 &
started=$!
sleep 1
ip netns exec "${prefix}c" "$program" get --roam "sctp://$server:9899/film" --output "$directory/got" >"$directory/get.log" 2>&1 &
get=$! started="$started $!"
sleep 3
# Another network, after a gap.
down 1
sleep 1
up 2
sleep 4
# Both, and then only the first one again.
up 1
sleep 2
down 2
wait "$get" || { cat "$directory"/*.log >&2; echo "roam: the download failed" >&2; exit 1; }
[ "$(sha256sum <"$directory/got")" = "$(sha256sum <"$directory/files/film")" ] || { echo "roam: the file differs" >&2; exit 1; }
echo "roam: the download went on over three changes of the network, and the file is whole"
