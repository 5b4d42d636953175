#!/usr/bin/env python3
"""curl fetches a page of 20 objects through tinyproxy over a link of 100 ms that loses packets: both under
'anabranch run --tcp', so that the link has associations, and as they are, over TCP. Prints the median times.

usage (as root): scripts/tcp-gateway.py [PROGRAM [RUNS]]

PROGRAM is target/release/anabranch by default, with the library for programs in the same directory. Needs curl, nginx and tinyproxy.
The link has 20 Mb/s in each direction. The server is behind the gateway, without loss or delay. Each run has other losses.
"""

import hashlib
import os
import pathlib
import shlex
import statistics
import subprocess
import sys
import tempfile

LOSSES = ("0 %", "1 %", "3 %")
OBJECTS = [(number, 4000 * (number % 5 + 1)) for number in range(20)]

NETWORK = """
[[host]]
name = "client"
[[host]]
name = "gateway"
[[host]]
name = "server"
[[link]]
name = "access"
between = ["client", "gateway"]
rate = "20 Mb/s"
delay = "50 ms"
loss = "{loss}"
[[link]]
name = "core"
between = ["gateway", "server"]
"""

NGINX = """
daemon off; user root; worker_processes 1; pid {here}/nginx.pid; error_log {here}/nginx.log;
events {{}}
http {{ access_log off; server {{ listen 80; root {here}/site; }} }}
"""

TINYPROXY = "Port 8888\nTimeout 60\nMaxClients 100\n"


def main():
    program = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "target/release/anabranch").resolve()
    runs = int(sys.argv[2]) if len(sys.argv) > 2 else 9
    with tempfile.TemporaryDirectory() as here:
        os.mkdir(f"{here}/site")
        for number, length in OBJECTS:
            pathlib.Path(f"{here}/site/{number}").write_bytes(os.urandom(length))
        pathlib.Path(f"{here}/nginx.conf").write_text(NGINX.format(here=here))
        pathlib.Path(f"{here}/tinyproxy.conf").write_text(TINYPROXY)
        print("| losses | run --tcp at both ends | TCP |\n|---|---|---|", flush=True)
        for loss in LOSSES:
            pathlib.Path(f"{here}/network.toml").write_text(NETWORK.format(loss=loss))
            times = [[once(program, here, seed, carried) for seed in range(runs)] for carried in (True, False)]
            medians = [f"{statistics.median(each):.2f} s ({min(each):.2f} to {max(each):.2f})" for each in times]
            print(f"| {loss} | {medians[0]} | {medians[1]} |", flush=True)


def once(program, here, seed, carried):
    """The time that the page takes, in seconds."""
    run = f"{shlex.quote(str(program))} run --tcp -- " if carried else ""
    # The first object is the page, which names the others. curl takes six connections at a time for them, as browsers do.
    fetch = f"curl -sSf --no-progress-meter -x http://gateway:8888 --parallel --parallel-immediate --parallel-max 6 -w '%{{time_total}}\\n' -o '{here}/out/#1'"
    script = f"date +%s.%N; {fetch} 'http://server/[0-0]' && {fetch} 'http://server/[1-19]' && date +%s.%N"
    subprocess.run(["rm", "-rf", f"{here}/out"], check=True)
    os.mkdir(f"{here}/out")
    # The gateway carries only connections with the client: the server is as it is.
    gateway = run.replace("--tcp", "--tcp --never server") + f"tinyproxy -d -c {here}/tinyproxy.conf >{here}/tinyproxy.log"
    command = [program, "emulate", f"{here}/network.toml", "--quiet", "--seed", str(seed)]
    command += ["--at", "server", f"nginx -c {here}/nginx.conf", "--at", "gateway", gateway]
    command += ["--head-start", "2s", "--", "sh", "-c", run + f"sh -c {shlex.quote(script)}"]
    ended = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=120)
    if ended.returncode:
        sys.exit(f"tcp-gateway: {ended.stdout}")
    lines = ended.stdout.split()
    for number, _ in OBJECTS:
        if digest(f"{here}/out/{number}") != digest(f"{here}/site/{number}"):
            sys.exit(f"tcp-gateway: object {number} differs")
    return float(lines[-1]) - float(lines[0])


def digest(name):
    return hashlib.sha256(pathlib.Path(name).read_bytes()).hexdigest()


if __name__ == "__main__":
    main()
