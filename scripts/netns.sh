# Sourced by the scripts that measure between network namespaces. Needs root and iproute2 with tc.
# Removes everything that it created when the script exits, for whatever reason.

set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."

fail() {
    echo "$(basename "$0"): $*" >&2
    exit 1
}

[ "$(id -u)" = 0 ] || fail "needs root, for network namespaces"
for tool in ip tc sha256sum; do
    command -v "$tool" >/dev/null || fail "$tool is missing (install iproute2 and coreutils)"
done

# The program: from the environment, or built here.
if [ -z "${ANABRANCH:-}" ]; then
    cargo build --quiet --release -p anabranch-cli
    ANABRANCH=${CARGO_TARGET_DIR:-target}/release/anabranch
fi
ANABRANCH=$(realpath "$ANABRANCH")

work=$(mktemp -d)
mkdir "$work/site"
namespaces=()
server=

stop_server() {
    [ -n "$server" ] || return 0
    kill -INT "$server" 2>/dev/null || return 0
    # The program ends its associations first; give it some time.
    for _ in $(seq 150); do
        kill -0 "$server" 2>/dev/null || break
        sleep 0.1
    done
    kill -KILL "$server" 2>/dev/null || wait "$server" 2>/dev/null || :
    server=
}

cleanup() {
    stop_server
    for namespace in "${namespaces[@]}"; do
        ip netns delete "$namespace" 2>/dev/null || :
    done
    rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

# Creates namespaces with these short names; $ns_NAME is the full name.
make_namespaces() {
    local name
    for name in "$@"; do
        declare -g "ns_$name=anabranch-$name-$$"
        ip netns add "anabranch-$name-$$"
        namespaces+=("anabranch-$name-$$")
        ip -n "anabranch-$name-$$" link set lo up
    done
}

# connect NAMESPACE DEVICE ADDRESS NAMESPACE DEVICE ADDRESS: creates a link of 100 Mb/s between two.
connect() {
    ip -n "$1" link add "$2" type veth peer name "$5" netns "$4"
    add_address "$1" "$2" "$3"
    add_address "$4" "$5" "$6"
    ip -n "$1" link set "$2" up
    ip -n "$4" link set "$5" up
    tc -n "$1" qdisc add dev "$2" root tbf rate 100mbit burst 32kb latency 20ms
    tc -n "$4" qdisc add dev "$5" root tbf rate 100mbit burst 32kb latency 20ms
    wait_until_up "$1" "$2"
    wait_until_up "$4" "$5"
}

# add_address NAMESPACE DEVICE ADDRESS
add_address() {
    case $3 in
        *:*) ip -n "$1" address add "$3/64" dev "$2" nodad ;;
        *) ip -n "$1" address add "$3/24" dev "$2" ;;
    esac
}

# Waits for the carrier, which comes a moment after a link is set up: a program uses only addresses
# that work when it starts.
wait_until_up() {
    for _ in $(seq 100); do
        ip -n "$1" link show "$2" | grep -q 'state UP' && return
        sleep 0.05
    done
    fail "the link $2 does not come up"
}

make_file() {
    head -c "$1" /dev/urandom >"$work/site/file"
    hash=$(sha256sum <"$work/site/file")
}

# start_server NAMESPACE LISTEN OPTIONS...: waits until it listens.
start_server() {
    local namespace=$1 listen=$2
    shift 2
    # Here, because the process behind '&' may open it late: the lines of the last one would pass for its own.
    : >"$work/server.log"
    ip netns exec "$namespace" "$ANABRANCH" serve "$work/site" --listen "$listen" --paths "$@" \
        >"$work/server.log" 2>&1 &
    server=$!
    for _ in $(seq 100); do
        grep -q '^serving' "$work/server.log" && return
        kill -0 "$server" 2>/dev/null || break
        sleep 0.05
    done
    cat "$work/server.log" >&2
    fail "the server does not start"
}

# start_client NAMESPACE URL OPTIONS...
start_client() {
    local namespace=$1 url=$2
    shift 2
    rm -rf "$work/copy"
    mkdir "$work/copy"
    ip netns exec "$namespace" timeout "${LIMIT:-200}" \
        "$ANABRANCH" get "$url" --out "$work/copy" --paths "$@" >"$work/client.log" 2>&1 &
    client=$!
}

# Waits until this many bytes have arrived.
wait_for_bytes() {
    local size
    while kill -0 "$client" 2>/dev/null; do
        size=$({ cat "$work"/copy/*.part 2>/dev/null || :; } | wc -c)
        [ "$size" -ge "$1" ] && return
        sleep 0.05
    done
    cat "$work/client.log" >&2
    fail "the transfer ended before the network changed"
}

# Waits for the client, compares the file, stops the server, and prints the result.
finish_client() {
    if ! wait "$client"; then
        stop_server
        cat "$work/client.log" "$work/server.log" >&2
        fail "the transfer failed"
    fi
    [ "$(sha256sum <"$work/copy/file")" = "$hash" ] || fail "the copy differs"
    # The server prints its side when the association has ended.
    stop_server
    echo "hashes equal; the client:"
    sed 's/^/    /' "$work/client.log"
    echo "the server:"
    sed -e '/^serving/d' -e 's/^/    /' "$work/server.log"
}

# The longest time without a byte at the client, in seconds.
longest_pause() {
    awk 'BEGIN { factor["us"] = 1e-6; factor["ms"] = 1e-3; factor["s"] = 1; pause = "unknown" }
        match($0, /longest pause [0-9.]+ (us|ms|s)/) {
            split(substr($0, RSTART, RLENGTH), word, " ")
            pause = sprintf("%.2f", word[3] * factor[word[4]])
            exit
        }
        END { print pause }' "$work/client.log"
}
