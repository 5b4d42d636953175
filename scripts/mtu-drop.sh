#!/usr/bin/env bash
# Fetches 100 MB through a router. In the middle, the MTU of its link to the client drops from 1500 to
# 1280: in one run the router sends ICMP, in the other it does not. Fails unless both copies are
# complete.
#
# Usage (as root): scripts/mtu-drop.sh [option of serve and get...]; SIZE=bytes sets another
# file size.

. "$(dirname "$0")/netns.sh"

size=${SIZE:-100000000}
make_file "$size"

# The number of ICMP Destination Unreachable messages that the server received.
unreachables() {
    ip netns exec "$ns_server" awk '
        $1 == "Icmp:" && !named { for (i = 2; i <= NF; i++) name[i] = $i; named = 1; next }
        $1 == "Icmp:" { for (i = 2; i <= NF; i++) if (name[i] == "InDestUnreachs") print $i }
    ' /proc/net/snmp
}

summary=()
for icmp in with without; do
    echo "=== $icmp ICMP"
    make_namespaces client router server
    connect "$ns_client" c0 10.78.0.2 "$ns_router" r0 10.78.0.1
    connect "$ns_server" s0 10.78.1.2 "$ns_router" r1 10.78.1.1
    ip -n "$ns_client" route add default via 10.78.0.1
    ip -n "$ns_server" route add default via 10.78.1.1
    ip netns exec "$ns_router" sysctl -q -w net.ipv4.ip_forward=1
    if [ "$icmp" = without ]; then
        # Drops ICMP from the router itself, not packets that it forwards.
        ip -n "$ns_router" rule add iif lo blackhole pref 1
    fi
    start_server "$ns_server" 10.78.1.2:80 "$@"
    start_client "$ns_client" sctp://10.78.1.2/file "$@"
    wait_for_bytes $((size / 4))
    ip -n "$ns_router" link set r0 mtu 1280
    finish_client
    told=$(unreachables)
    case $icmp in
        with) [ "$told" -gt 0 ] || fail "the server got no ICMP message" ;;
        without) [ "$told" -eq 0 ] || fail "the server got an ICMP message" ;;
    esac
    summary+=("$(printf '%-7s ICMP: longest pause %s s' "$icmp" "$(longest_pause)")")
    ip netns delete "$ns_client"
    ip netns delete "$ns_router"
    ip netns delete "$ns_server"
done
echo "=== both copies whole"
printf '%s\n' "${summary[@]}"
