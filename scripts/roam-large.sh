#!/usr/bin/env bash
# The large run of scripts/roam.sh: a host with a cable, a WLAN and a hotspot, of which the last two are behind address
# translators of their own, fetches 200 MB over UDP while the three come and go in turn: over IPv4, over IPv6, and sealed.
# Each file must arrive whole. Prints how much each link carried and the longest gaps, and leaves in DIRECTORY, for each
# run, a capture that tshark has read and a chart. Takes 3 minutes. Needs root, iproute2, nftables, tshark and python3;
# exits with code 3 without them.
#
#     scripts/roam.sh PROGRAM --large DIRECTORY
set -euo pipefail
program=$(realpath "$1") here=$(realpath "$(dirname "$0")")
mkdir -p "$2"
results=$(realpath "$2")
prefix=roam$$
# Not private, so that the client knows that its own addresses mean nothing there.
server4=203.0.113.1 server6=2001:db8:79::1
size=200000000
network4=() network6=()
. "$here/nat-uplinks.sh"
need tc tshark dumpcap python3

# link6 NAMESPACE DEVICE ADDRESS NAMESPACE DEVICE ADDRESS: IPv6 on a link that is there.
link6() {
    ns "$1" ip addr add "$3/64" dev "$2" nodad
    ns "$4" ip addr add "$6/64" dev "$5" nodad
}
# router N: translator nN with a way to the server.
router() {
    link "n$1" out "10.79.$1.1" s "s$1" "10.79.$1.2"
    link6 "n$1" out "fd79:9:$1::1" s "s$1" "fd79:9:$1::2"
    ns "n$1" sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
    ns "n$1" ip route add "$server4/32" via "10.79.$1.2"
    ns "n$1" ip route add "$server6/128" via "fd79:9:$1::2"
    local family
    for family in ip ip6; do
        ns "n$1" nft "add table $family nat
            add chain $family nat post { type nat hook postrouting priority 100 ; }
            add rule $family nat post oifname out masquerade"
    done
}
# uplink_of N NETWORK4 NETWORK6 ROUTER DEVICE RATE: device uN of the client, and that of the router.
uplink_of() {
    network4[$1]=$2 network6[$1]=$3
    link c "u$1" "$2.2" "$4" "$5" "$2.1"
    ns "$4" ip addr add "$3::1/64" dev "$5" nodad
    ns "$4" tc qdisc add dev "$5" root tbf rate "$6" burst 20kb latency 50ms
    down "$1"
}
# What comes from an address leaves by its link, also while another one has the default route. A roaming host sees to that
# itself; sealed paths follow the routes.
rules() {
    for number in 1 2 3; do
        ns c ip rule add from "${network4[$number]}.2" lookup "$number"
        ns c ip -6 rule add from "${network6[$number]}::2" lookup "$number"
    done
}
down() {
    ns c ip addr flush dev "u$1"
    ns c ip link set "u$1" down
}
up() {
    ns c ip link set "u$1" up
    ns c ip addr add "${network4[$1]}.2/24" dev "u$1"
    ns c ip addr add "${network6[$1]}::2/64" dev "u$1" nodad
    ns c ip route add default via "${network4[$1]}.1" metric "$1"
    ns c ip -6 route add default via "${network6[$1]}::1" metric "$1"
    ns c ip route add default via "${network4[$1]}.1" table "$1"
    ns c ip -6 route add default via "${network6[$1]}::1" table "$1"
}
# The cable, then also the WLAN, then the WLAN alone, then the hotspot in its place, then for a second nothing.
come_and_go() {
    while sleep 6; do
        up 2
        sleep 3
        down 1
        sleep 6
        down 2
        up 3
        sleep 6
        down 3
        sleep 1
        up 1
    done
}

make_namespaces 2
ns s ip addr add "$server4/32" dev lo
ns s ip addr add "$server6/128" dev lo nodad
router 1
router 2
uplink_of 1 198.51.100 2001:db8:1 s s3 60mbit
uplink_of 2 192.168.2 fd79:2 n1 in 40mbit
uplink_of 3 192.168.3 fd79:3 n2 in 20mbit
mkdir "$directory/files"
head -c "$size" /dev/urandom >"$directory/files/film"
wanted=$(sha256sum <"$directory/files/film")

# run NAME SERVER OPTIONS-OF-SERVE -- OPTIONS-OF-GET
run() {
    local name=$1 address=$2 serve=() status=0
    shift 2
    while [ "$1" != -- ]; do serve+=("$1"); shift; done
    shift
    up 1
    ip netns exec "${prefix}s" "$program" serve "${serve[@]}" \
        --listen "$address:9899" "$directory/files" >"$directory/serve.log" 2>&1 &
    local server=$!
    ip netns exec "${prefix}c" dumpcap -q -i any -s 160 -w "$results/$name.pcapng" 2>"$directory/dumpcap.log" &
    local capture=$!
    sleep 2
    come_and_go &
    local links=$!
    started="$server $capture $links"
    ip netns exec "${prefix}c" "$program" get "$@" "sctp://$address:9899/film" \
        --output "$directory/got" >"$directory/get.log" 2>&1 || status=$?
    kill $started
    wait $started 2>/dev/null || true
    started=
    [ "$status" = 0 ] || { cat "$directory"/*.log >&2; echo "roam: $name: the download failed" >&2; exit 1; }
    [ "$(sha256sum <"$directory/got")" = "$wanted" ] || { echo "roam: $name: the file differs" >&2; exit 1; }
    rm "$directory/got"
    for number in 1 2 3; do down "$number"; done
    echo "$name: $size bytes arrived whole"
    python3 "$here/roam_report.py" "$results/$name.pcapng" "$results/$name.json"
    "$program" perf chart --title "$name: Mb/s over time while cable, WLAN and hotspot come and go" \
        --svg "$results/$name.svg" "$results/$name.json"
}

run plain-ipv4 "$server4" --address-reconfiguration -- --roam
run plain-ipv6 "[$server6]" --address-reconfiguration -- --roam
rules
run sealed-ipv4 "$server4" --sealed --key "$directory/key" -- --sealed --known-servers "$directory/known"
echo "captures and charts: $results"
