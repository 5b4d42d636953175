#!/usr/bin/env bash
# Measures how long `get` pauses when paths and peers fail, with default options: it fetches a file through
# a router, the network changes in the middle, and the result is the longest time without a byte.
# Prints a table of all cases to standard output, in Markdown as in docs/cuts.md.
#
# Usage (as root): scripts/cuts.sh [case...]; by default all cases.
# SIZE=bytes of the file (40 MB), LIMIT=maximum seconds of a fetch (300), ANABRANCH=program.

. "$(dirname "$0")/netns.sh"
for tool in nft conntrack; do
    command -v "$tool" >/dev/null || fail "$tool is missing (install nftables and conntrack)"
done

size=${SIZE:-40000000}
make_file "$size" 2>/dev/null
cases=("$@")
[ ${#cases[@]} -gt 0 ] || cases=(silent down data acks both5 both20 both60 killed restarted rebinding)

# Connects client and server to the router with one link per path.
make_network() {
    local i
    make_namespaces client router server
    for i in $(seq 0 $((paths - 1))); do
        connect "$ns_client" "c$i" "$(client_address "$i")" "$ns_router" "rc$i" "$(router_address 77 "$i")"
        connect "$ns_server" "s$i" "$(server_address "$i")" "$ns_router" "rs$i" "$(router_address 78 "$i")"
        ip -n "$ns_client" route add "$(network 78 "$i")" via "$(router_address 77 "$i")" dev "c$i"
        ip -n "$ns_server" route add "$(network 77 "$i")" via "$(router_address 78 "$i")" dev "s$i"
    done
    # A client may reach the server's first address from all of its own.
    [ "$paths" = 1 ] || ip -n "$ns_client" "-$family" rule add from "$(client_address 1)" table 2
    [ "$paths" = 1 ] || ip -n "$ns_client" route add "$(network 78 0)" via "$(router_address 77 1)" table 2
    [ "$paths" = 1 ] || ip -n "$ns_client" route add "$(network 78 1)" via "$(router_address 77 1)" table 2
    ip netns exec "$ns_router" sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1 \
        net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0
    ip netns exec "$ns_router" nft add table inet cut
    ip netns exec "$ns_router" nft 'add chain inet cut forward { type filter hook forward priority 0; }'
}

client_address() { if [ "$family" = 6 ]; then echo "fd00:77:$1::1"; else echo "10.77.$1.1"; fi; }
server_address() { if [ "$family" = 6 ]; then echo "fd00:78:$1::2"; else echo "10.78.$1.2"; fi; }
router_address() { if [ "$family" = 6 ]; then echo "fd00:$1:$2::ff"; else echo "10.$1.$2.254"; fi; }
network() { if [ "$family" = 6 ]; then echo "fd00:$1:$2::/64"; else echo "10.$1.$2.0/24"; fi; }

drop() {
    # shellcheck disable=SC2086
    ip netns exec "$ns_router" nft add rule inet cut forward $1 drop
}

links() {
    local i
    for i in $(seq 0 $((paths - 1))); do
        ip -n "$ns_router" link set "rc$i" "$1"
        [ "$1" = down ] || [ "$family" = 4 ] ||
            ip -n "$ns_router" address replace "$(router_address 77 "$i")/64" dev "rc$i" nodad
    done
}

outage() {
    links down
    sleep "$1"
    links up
}

# Changes the ports in one step, so that no packet leaves untranslated in between.
translate() {
    ip netns exec "$ns_router" nft -f - <<NFT
add table ip nat
flush table ip nat
add chain ip nat post { type nat hook postrouting priority 100; }
add rule ip nat post oifname rs0 ip protocol udp snat to 10.78.0.254:$1-$(($1 + 9))
NFT
}

# Applies the case's change in the middle of the transfer.
change() {
    case $1 in
        silent) drop 'iifname { rc0, rs0 }' ;;
        down) ip -n "$ns_router" link set rs0 down ;;
        data) drop 'iifname rs0' ;;
        acks) drop 'iifname rc0' ;;
        both*) outage "${1#both}" ;;
        killed) kill -KILL "$server"; wait "$server" 2>/dev/null || : ;;
        restarted)
            kill -KILL "$server"
            wait "$server" 2>/dev/null || :
            start_server "$ns_server" "$listen"
            ;;
        rebinding)
            translate 50000
            ip netns exec "$ns_router" conntrack -F >/dev/null 2>&1
            ;;
        *) fail "there is no case '$1'" ;;
    esac
}

# Runs a case with $paths paths of $family, and sets $cost to the result.
run() {
    local listen url begun status=0 i
    make_network
    listen=
    for i in $(seq 0 $((paths - 1))); do
        if [ "$family" = 6 ]; then listen+=",[$(server_address "$i")]"; else listen+=",$(server_address "$i")"; fi
    done
    listen=${listen#,}:80
    url=sctp://$listen/file
    if [ "$1" = rebinding ]; then
        translate 40000
        url=sctp://10.78.0.2:80/file
    fi
    start_server "$ns_server" "$listen"
    start_client "$ns_client" "$url"
    wait_for_bytes $((size / 4))
    begun=$(date +%s.%N)
    change "$1"
    wait "$client" || status=$?
    if [ "$status" = 0 ]; then
        [ "$(sha256sum <"$work/copy/file")" = "$hash" ] || fail "the copy differs"
        cost="$(longest_pause) s"
    elif [ "$status" = 124 ]; then
        cost="not ended after ${LIMIT:-200} s"
    else
        cost="ended after $(awk -v a="$begun" -v b="$(date +%s.%N)" 'BEGIN { printf "%.1f", b - a }') s"
        cost+=", longest pause $(longest_pause) s"
    fi
    echo "$1, $paths path(s), IPv$family: $cost" >&2
    [ -z "${VERBOSE:-}" ] || cat "$work/client.log" "$work/server.log" >&2
    kill -KILL "$server" 2>/dev/null || :
    wait "$server" 2>/dev/null || :
    server=
    for i in "$ns_client" "$ns_router" "$ns_server"; do ip netns delete "$i"; done
}

# Cases that a single path cannot survive.
needs_two() {
    case $1 in silent | down | data | acks) return 0 ;; *) return 1 ;; esac
}

echo "| case | one path | two paths |"
echo "|---|---|---|"
for case in "${cases[@]}"; do
    family=4
    one=-
    if ! needs_two "$case"; then
        paths=1
        run "$case"
        one=$cost
    fi
    paths=2
    run "$case"
    echo "| $case | $one | $cost |"
done
if [ $# = 0 ]; then
    family=6 paths=2
    run silent
    echo "| silent, IPv6 | - | $cost |"
fi
