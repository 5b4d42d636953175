# Functions for scripts with a client whose uplinks are behind address translators of their own. Sourced, not run; the
# script sets `prefix` for the names of its namespaces: c is the client, s the server, n1, n2 and so on the translators.
# The server has the address 10.79.9.1. `directory` is for files of the script, and `started` for the processes that it
# starts; all of that goes when the script ends. Needs root, iproute2 and nftables.

directory=$(mktemp -d)
started=
clean() {
    # They may have ended by themselves.
    [ -z "$started" ] || kill $started 2>/dev/null || true
    delete_namespaces
    rm -rf "$directory"
}
trap clean EXIT

# Ends the script with code 3, which means 'cannot be run here', without root or one of these programs.
need() {
    local program
    for program in ip nft "$@"; do
        command -v "$program" >/dev/null || { echo "$(basename "$0"): $program is missing" >&2; exit 3; }
    done
    [ "$(id -u)" = 0 ] || { echo "$(basename "$0"): root is needed" >&2; exit 3; }
}

# A command in a namespace. Start programs in the background without it: '$!' would be that of a shell around them.
ns() { ip netns exec "$prefix$1" "${@:2}"; }

# Makes the namespaces of the client, the server and up to three translators.
make_namespaces() {
    local name
    for name in c s $(seq -f 'n%g' "$1"); do
        ip netns add "$prefix$name"
        ns "$name" ip link set lo up
    done
    ns s ip addr add 10.79.9.1/32 dev lo
}

delete_namespaces() {
    local name
    # Those that were never made need not be there.
    for name in c s n1 n2 n3; do
        ip netns del "$prefix$name" 2>/dev/null || true
    done
}

# link NAMESPACE DEVICE ADDRESS NAMESPACE DEVICE ADDRESS
link() {
    ip link add "$2" netns "$prefix$1" type veth peer name "$5" netns "$prefix$4"
    ns "$1" ip addr add "$3/24" dev "$2"
    ns "$4" ip addr add "$6/24" dev "$5"
    ns "$1" ip link set "$2" up
    ns "$4" ip link set "$5" up
}

# Uplink number N of the client: device uN, through the translator nN with the devices 'in' and 'out'.
uplink() {
    link c "u$1" "192.168.$1.2" "n$1" in "192.168.$1.1"
    link "n$1" out "10.79.$1.1" s "s$1" "10.79.$1.2"
    ns c ip route add default via "192.168.$1.1" metric "$1"
    ns "n$1" sysctl -qw net.ipv4.ip_forward=1
    ns "n$1" ip route add 10.79.9.0/24 via "10.79.$1.2"
    ns "n$1" nft "add table ip nat; add chain ip nat post { type nat hook postrouting priority 100 ; };
        add rule ip nat post oifname out masquerade"
}
