#!/usr/bin/env bash
# A host that changes networks during a download: two uplinks, each behind its own address translator. First both are up,
# and the one with the preferred default route goes; then the other one goes, and the first comes back after a gap; then
# both are up, and the first goes again. The second must take over while the first still works. The file must arrive whole.
# Without rules by source address, unless --rules is given. Needs root, iproute2 and nftables; exits with code 3 without
# them.
#
#     scripts/roam.sh PROGRAM [--rules]
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
    ns "n$number" nft "add table ip count; add counter ip count sent
        add chain ip count forward { type filter hook forward priority 0 ; }
        add rule ip count forward iifname in ip daddr $server counter name sent"
    [ "${2-}" != --rules ] || ns c ip rule add from "192.168.$number.2" lookup "$number"
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
    ns c ip route add default via "192.168.$1.1" table "$1"
}
# sent NUMBER: how many packets of the client this uplink has carried.
sent() {
    ns "n$1" nft list counter ip count sent | awk '/packets/ { print $2 }'
}
fail() {
    cat "$directory"/*.log >&2
    echo "roam: $1" >&2
    exit 1
}
down 2

mkdir "$directory/files"
head -c 60000000 /dev/urandom >"$directory/files/film"
ip netns exec "${prefix}s" "$program" serve --address-reconfiguration --listen "$server:9899" "$directory/files" >"$directory/serve.log" 2>&1 &
started=$!
sleep 1
ip netns exec "${prefix}c" "$program" get --roam "sctp://$server:9899/film" --output "$directory/got" >"$directory/get.log" 2>&1 &
get=$! started="$started $!"
sleep 2
# A second network, and then it alone.
up 2
sleep 2
ready=$(sent 2)
down 1
# Longer than --roam-patience: by then the peer has agreed to forget the first address.
sleep 4
[ "$ready" -ge 3 ] || fail "nothing left by the second network while the first one had the preferred route"
# The first network, after a gap.
down 2
sleep 1
up 1
sleep 4
# Both, and then only the second one again.
up 2
sleep 2
down 1
wait "$get" || fail "the download failed"
[ "$(sha256sum <"$directory/got")" = "$(sha256sum <"$directory/files/film")" ] || fail "the file differs"
echo "roam: the download went on over three changes of the network, and the file is whole"
