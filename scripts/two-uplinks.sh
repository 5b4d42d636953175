#!/usr/bin/env bash
# A client with two uplinks, each behind its own NAT, fetches 200 MB from a server with two addresses
# and from a server with one. In the middle the NAT of the uplink in use forgets its mappings and uses
# other UDP ports, and the other uplink is cut; in a second run the uplink in use is down for 5 s.
# Fails unless every copy is complete.
#
# Behind the second NAT the client has an address that the server does not know. The server answers
# heartbeats from there with an ABORT, which ends only that path; the summaries show it.
#
# Usage (as root): scripts/two-uplinks.sh [option of serve and get...]; SIZE=bytes of the file.

. "$(dirname "$0")/netns.sh"
for tool in nft conntrack; do
    command -v "$tool" >/dev/null || fail "$tool is missing (install nftables and conntrack)"
done

size=${SIZE:-200000000}
make_file "$size"

# Changes the ports in one step, so that no packet leaves untranslated in between.
translate() {
    ip netns exec "$1" nft -f - <<NFT
add table ip nat
flush table ip nat
add chain ip nat post { type nat hook postrouting priority 100; }
add rule ip nat post oifname out ip protocol udp snat to $2:$3-$(($3 + 9))
NFT
    ip netns exec "$1" conntrack -F >/dev/null 2>&1
}

make_network() {
    make_namespaces client one two server
    connect "$ns_client" c1 192.168.1.2 "$ns_one" in 192.168.1.1
    connect "$ns_client" c2 192.168.2.2 "$ns_two" in 192.168.2.1
    connect "$ns_one" out 10.79.1.1 "$ns_server" s1 10.79.1.2
    connect "$ns_two" out 10.79.2.1 "$ns_server" s2 10.79.2.2
    local namespace
    for namespace in "$ns_client" "$ns_one" "$ns_two" "$ns_server"; do
        ip netns exec "$namespace" sysctl -qw net.ipv4.ip_forward=1 net.ipv4.conf.all.rp_filter=0 \
            net.ipv4.conf.default.rp_filter=0
        ip netns exec "$namespace" sh -c 'for f in /proc/sys/net/ipv4/conf/*/rp_filter; do echo 0 >$f; done'
    done
    # The source address selects the uplink.
    ip -n "$ns_client" route add default via 192.168.1.1
    ip -n "$ns_client" route add default via 192.168.2.1 table 2
    ip -n "$ns_client" rule add from 192.168.2.2 table 2
    # The provider of each uplink reaches both networks of the server, and vice versa.
    ip -n "$ns_one" route add 10.79.2.0/24 via 10.79.1.2
    ip -n "$ns_two" route add 10.79.1.0/24 via 10.79.2.2
    translate "$ns_one" 10.79.1.1 40000
    translate "$ns_two" 10.79.2.1 40000
}

forget_and_cut() {
    translate "$ns_one" 10.79.1.1 50000
    ip -n "$ns_two" link set in down
}

gone_for_a_while() {
    ip -n "$ns_one" link set out down
    sleep 5
    ip -n "$ns_one" link set out up
    ip -n "$ns_one" route replace 10.79.2.0/24 via 10.79.1.2
}

summary=()
for change in forget_and_cut gone_for_a_while; do
    for addresses in 10.79.1.2 10.79.1.2,10.79.2.2; do
        echo "=== $change, server at $addresses"
        make_network
        start_server "$ns_server" "$addresses:80" "$@"
        start_client "$ns_client" "sctp://$addresses:80/file" "$@"
        wait_for_bytes $((size / 4))
        "$change"
        finish_client
        grep -q 'not verified:.*192.168.2.2' "$work/client.log" ||
            fail "the client does not tell that the second uplink cannot be used"
        summary+=("$(printf '%-17s server at %-20s longest pause %s s' \
            "$change," "$addresses:" "$(longest_pause)")")
        for namespace in "$ns_client" "$ns_one" "$ns_two" "$ns_server"; do
            ip netns delete "$namespace"
        done
    done
done
echo "=== all copies whole"
printf '%s\n' "${summary[@]}"
