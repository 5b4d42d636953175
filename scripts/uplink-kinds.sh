#!/usr/bin/env bash
# Whether the near side of the gateway finds its uplinks, follows those that come, uses a backup only while no other
# works, and stops at a limit, also after a restart: a client with up to three uplinks, each behind an address
# translator of its own. Needs root, iproute2, nftables, curl and jq; exits with code 3 without them.
#
#     scripts/uplink-kinds.sh PROGRAM
set -euo pipefail
program=$(realpath "$1")
prefix=kinds$$
server=10.79.9.1
. "$(dirname "$0")/nat-uplinks.sh"
need curl jq python3

fail() {
    echo "uplink-kinds: $1" >&2
    cat "$directory"/*.log >&2
    exit 1
}

# Starts the near side with these options, and waits until it is connected.
near() {
    # Here, because the process behind '&' may open it late: the lines of the last one would pass for its own.
    : >"$directory/near.log"
    ip netns exec "${prefix}c" "$program" gateway near "$line" --key "$directory/near.key" --json "$@" >"$directory/near.log" 2>"$directory/near-errors.log" &
    near=$! started="$started $!"
    for _ in $(seq 200); do
        ! grep -q '"event":"connected"' "$directory/near.log" || break
        sleep 0.1
    done
    grep -q '"event":"connected"' "$directory/near.log" || fail "the near side does not connect"
    status=$(head -1 "$directory/near.log" | jq -r .status)
}

stop() {
    kill -INT "$near"
    wait "$near" || fail "the near side ended with $?"
}

# Waits until the uplinks are in these states: 'u1 active, u2 waiting'.
until_uplinks() {
    for _ in $(seq 200); do
        # What cannot be asked is asked again: the exit codes of curl would pass for those of this script.
        now=$(ns c curl --silent --noproxy '*' "${status/status?/status.json?}" |
            jq -r '[.uplinks[] | .name + " " + .state] | join(", ")') || now=unknown
        [ "$now" != "$1" ] || { echo "  $now"; return; }
        sleep 0.1
    done
    fail "the uplinks are '$now' instead of '$1'"
}

# Downloads this many bytes, and checks that they arrive.
download() {
    count=$({ ns c curl --silent --max-time 30 --proxy http://127.0.0.1:1080 "http://$server/$1" || :; } | wc -c)
    [ "$count" = "$1" ] || fail "$count bytes arrived instead of $1"
}

make_namespaces 3
uplink 1
uplink 2
# A bridge of a container runtime.
ns c ip link add docker0 type bridge
ns c ip addr add 172.17.0.1/16 dev docker0
ns c ip link set docker0 up
ip netns exec "${prefix}s" python3 -c "
import http.server
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        size = int(self.path[1:])
        self.send_response(200)
        self.send_header('Content-Length', str(size))
        self.end_headers()
        self.wfile.write(bytes(size))
http.server.ThreadingHTTPServer(('$server', 80), Handler).serve_forever()" 2>/dev/null &
started="$started $!"
ip netns exec "${prefix}s" "$program" gateway far --key "$directory/far.key" --listen "$server:9899" --allow "$server" --json \
    >"$directory/far.log" 2>"$directory/far-errors.log" &
started="$started $!"
until [ -s "$directory/far.log" ]; do sleep 0.1; done
line=$(head -1 "$directory/far.log" | jq -r .invitation)

echo "uplinks that are found"
near
until_uplinks "u1 active, u2 active"
uplink 3
until_uplinks "u1 active, u2 active, u3 active"
ns c ip link set u1 down
until_uplinks "u1 inactive, u2 active, u3 active"
download 1000000
ns c ip link set u1 up
ns c ip route replace default via 192.168.1.1 metric 1
until_uplinks "u1 active, u2 active, u3 active"
stop

echo "a backup"
near --uplink u1,u2:backup
until_uplinks "u1 active, u2 waiting"
download 1000000
# Silently.
ns n1 nft 'add chain ip nat silent { type filter hook forward priority 0 ; policy drop ; }'
download 1000000
ns n1 nft 'delete chain ip nat silent'
until_uplinks "u1 active, u2 waiting"
stop

echo "a limit"
near --uplink u1:limit=2MB/d,u2
until_uplinks "u1 active, u2 active"
# Both carry data, but not equally.
for _ in $(seq 10); do download 10000000; done
until_uplinks "u1 limit, u2 active"
download 1000000
stop
near --uplink u1:limit=2MB/d,u2
until_uplinks "u1 limit, u2 active"
stop
