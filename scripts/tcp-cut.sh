#!/usr/bin/env bash
# Unmodified TCP programs under 'anabranch run --tcp' over two paths of 100 Mb/s. The first one is cut silently:
# curl fetches 200 MB from nginx, and a login with ssh goes on. The same without --tcp next to it, and with a server that
# is not under anabranch. Prints a table. Fails unless what must arrive does, with equal hashes.
#
# Usage (as root): scripts/tcp-cut.sh; SIZE=bytes of the file. Needs nginx, curl, sshd and ssh.
# ANABRANCH is the program, with the library for programs in the same directory.

. "$(dirname "$0")/netns.sh"
for tool in nginx curl ssh sshd ssh-keygen; do
    PATH=$PATH:/usr/sbin command -v "$tool" >/dev/null || fail "$tool is missing"
done
PATH=$PATH:/usr/sbin

size=${SIZE:-200000000}
# How long a transfer may make no progress before it counts as stalled.
stalled=20
make_file "$size"
children=()

end_children() {
    local child
    for child in "${children[@]}"; do
        kill -TERM "$child" 2>/dev/null || :
    done
    for child in "${children[@]}"; do
        wait "$child" 2>/dev/null || :
    done
    children=()
}
trap 'end_children; cleanup' EXIT

cat >"$work/nginx.conf" <<CONF
daemon off; user root; worker_processes 1; pid $work/nginx.pid; error_log $work/nginx.log;
events {}
http { access_log off; sendfile on; server { listen 80; root $work/site; } }
CONF

make_network() {
    make_namespaces client server
    connect "$ns_client" c1 10.71.1.2 "$ns_server" s1 10.71.1.1
    connect "$ns_client" c2 10.71.2.2 "$ns_server" s2 10.71.2.1
}

remove_network() {
    end_children
    ip netns delete "$ns_client"
    ip netns delete "$ns_server"
}

# Loses everything on the first path, in both directions: no packet is as short as the burst. No device goes down.
cut_first_path() {
    tc -n "$ns_client" qdisc replace dev c1 root tbf rate 1kbit burst 10b limit 10b
    tc -n "$ns_server" qdisc replace dev s1 root tbf rate 1kbit burst 10b limit 10b
}

# on NAMESPACE tcp|plain COMMAND...: starts it, under 'anabranch run --tcp' or as it is.
on() {
    local namespace=$1 how=$2
    shift 2
    if [ "$how" = tcp ]; then
        set -- "$ANABRANCH" run --tcp -- "$@"
    fi
    ip netns exec "$namespace" "$@" &
    children+=($!)
}

wait_for_port() {
    for _ in $(seq 100); do
        ip netns exec "$ns_server" ss -Hltn "sport = :$1" | grep -q . && return
        sleep 0.1
    done
    fail "nothing listens on port $1"
}

bytes() {
    stat -c %s "$work/copy" 2>/dev/null || echo 0
}

# Waits until the child has ended or makes no progress. Sets $pause, the longest time without any, in tenths of seconds.
watch_copy() {
    local child=$1 cut_at=$2 last=0 now since=0 was_cut=
    pause=0
    while kill -0 "$child" 2>/dev/null && [ "$since" -lt $((stalled * 10)) ]; do
        sleep 0.1
        now=$(bytes)
        if [ "$now" -gt "$last" ]; then since=0; else since=$((since + 1)); fi
        if [ "$since" -gt "$pause" ]; then pause=$since; fi
        last=$now
        if [ -z "$was_cut" ] && [ "$now" -ge "$cut_at" ]; then
            cut_first_path
            was_cut=1
        fi
    done
}

rows=()
# row NAME CLIENT RESULT
row() {
    rows+=("| $1 | $2 | $3 |")
}

# fetch NAME SERVER CLIENT EXPECTED: a transfer. Its first path is cut at half, unless CUT is empty.
fetch() {
    local name=$1 server=$2 client=$3 expected=$4 result
    make_network
    on "$ns_server" "$server" nginx -c "$work/nginx.conf"
    wait_for_port 80
    rm -f "$work/copy"
    on "$ns_client" "$client" curl -sS -o "$work/copy" http://10.71.1.1/file
    local child=${children[-1]}
    local cut_at=$((2 * size))
    [ -z "${CUT:-}" ] || cut_at=$((size / 2))
    watch_copy "$child" "$cut_at"
    if kill -0 "$child" 2>/dev/null; then
        result="stalls at $(bytes) bytes"
    elif wait "$child" && [ "$(sha256sum <"$work/copy")" = "$hash" ]; then
        result="complete, hashes equal, longest pause $((pause / 10)).$((pause % 10)) s"
    else
        result="fails at $(bytes) bytes"
    fi
    row "$name" "curl and nginx, $size bytes" "$result"
    remove_network
    case $result in
        $expected*) ;;
        *) fail "$name: $result" ;;
    esac
}

# login NAME HOW EXPECTED: a login that prints numbers while the first path is cut.
login() {
    local name=$1 how=$2 expected=$3 result
    make_network
    mkdir -p /run/sshd
    on "$ns_server" "$how" /usr/sbin/sshd -D -E "$work/sshd.log" -f "$work/sshd_config"
    wait_for_port 22
    local remote='for n in $(seq 200); do echo "$n"; sleep 0.1; done; echo end'
    on "$ns_client" "$how" ssh -i "$work/key" -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null \
        -o LogLevel=ERROR root@10.71.1.1 "$remote" </dev/null >"$work/login"
    local child=${children[-1]}
    for _ in $(seq 100); do
        [ "$(wc -l <"$work/login")" -ge 20 ] && break
        sleep 0.1
    done
    [ "$(wc -l <"$work/login")" -ge 20 ] || fail "$name: the login does not begin"
    cut_first_path
    for _ in $(seq 500); do
        kill -0 "$child" 2>/dev/null || break
        sleep 0.1
    done
    if grep -q '^end' "$work/login" && [ "$(wc -l <"$work/login")" = 201 ]; then
        result="goes on, all lines arrive"
    else
        result="stops after $(wc -l <"$work/login") lines"
    fi
    row "$name" "ssh and sshd" "$result"
    remove_network
    case $result in
        $expected*) ;;
        *) fail "$name: $result" ;;
    esac
}

ssh-keygen -q -t ed25519 -N '' -f "$work/key"
ssh-keygen -q -t ed25519 -N '' -f "$work/host"
cat >"$work/sshd_config" <<CONF
HostKey $work/host
AuthorizedKeysFile $work/key.pub
PermitRootLogin yes
StrictModes no
PasswordAuthentication no
UsePAM no
PidFile none
CONF

CUT=1 fetch "both under run --tcp, cut" tcp tcp complete
CUT=1 fetch "TCP, cut" plain plain stalls
fetch "the server without anabranch" plain tcp complete
fetch "the client without anabranch" tcp plain complete
login "both under run --tcp, cut" tcp goes
login "TCP, cut" plain stops

echo "| connection | programs | result |"
echo "|---|---|---|"
printf '%s\n' "${rows[@]}"
