#!/usr/bin/env bash
# Fetches 200 MB over two paths of 100 Mb/s between two network namespaces, and cuts the primary
# path in the middle: by setting its link down, and by dropping its packets silently, each with
# Path.Max.Retrans 0 and 5. Fails unless every copy is whole.
#
# Usage (as root): scripts/two-namespaces.sh [option of serve and get...]
#   for instance --rto-min 200ms; SIZE=bytes sets another file size.

. "$(dirname "$0")/netns.sh"

size=${SIZE:-200000000}
make_file "$size"

# Sends frames for the primary's addresses to a station that does not exist: packets vanish without
# an error at the sender.
drop_silently() {
    ip -n "$ns_client" neighbour replace 10.77.0.2 lladdr 02:00:00:00:00:fe dev c0 nud permanent
    ip -n "$ns_server" neighbour replace 10.77.0.1 lladdr 02:00:00:00:00:fe dev s0 nud permanent
}

set_down() {
    ip -n "$ns_server" link set s0 down
}

summary=()
for cut in set_down drop_silently; do
    for pmr in 0 5; do
        echo "=== $cut, PMR $pmr"
        make_namespaces client server
        connect "$ns_client" c0 10.77.0.1 "$ns_server" s0 10.77.0.2
        connect "$ns_client" c1 10.77.1.1 "$ns_server" s1 10.77.1.2
        start_server "$ns_server" 10.77.0.2,10.77.1.2:80 --pmr "$pmr" "$@"
        start_client "$ns_client" sctp://10.77.0.2,10.77.1.2/file --pmr "$pmr" "$@"
        wait_for_bytes $((size / 4))
        "$cut"
        finish_client
        summary+=("$(printf '%-14s PMR %d: longest pause %s s' "$cut" "$pmr" "$(longest_pause)")")
        ip netns delete "$ns_client"
        ip netns delete "$ns_server"
    done
done
echo "=== all copies whole"
printf '%s\n' "${summary[@]}"
