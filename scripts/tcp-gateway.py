#!/usr/bin/env python3
"""A page of 20 objects, by curl through tinyproxy over a link of 100 ms that loses packets: over SCTP, and over TCP.

The proxies and curl are unmodified. In each of two arrangements, the link has associations if its two programs run under
'anabranch run --tcp --require', and TCP connections otherwise:
  one proxy    curl, the link, tinyproxy, nginx
  two proxies  curl, tinyproxy, the link, tinyproxy, nginx: a gateway at both ends, for clients and servers as they are
Prints the median time of the runs and the range of all, after comparing each object's sha256. The link has 20 Mb/s in each
direction and loses packets in both; each run has other losses. Installs packages of Debian that are missing, as root.
Exits with code 3 if something is missing.
"""

import argparse
import hashlib
import json
import os
import pathlib
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile

# Command: package of Debian.
PACKAGES = {"curl": "curl", "nginx": "nginx-light", "tinyproxy": "tinyproxy-bin", "ip": "iproute2"}
OBJECTS = [(number, 4000 * (number % 5 + 1)) for number in range(20)]
# The proxies of an arrangement, and whether the link has associations.
WAYS = [(proxies, carriage) for proxies in (1, 2) for carriage in ("SCTP", "TCP")]
LIBRARY = "libanabranch_preload.so"

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
loss = "{loss} %"
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
# The client's own proxy.
NEAR = TINYPROXY + "Listen 127.0.0.1\nUpstream http gateway:8888\n"


def main():
    options = read_options()
    install(options.quick)
    with tempfile.TemporaryDirectory() as here:
        os.mkdir(f"{here}/site")
        for number, length in OBJECTS:
            pathlib.Path(f"{here}/site/{number}").write_bytes(os.urandom(length))
        pathlib.Path(f"{here}/nginx.conf").write_text(NGINX.format(here=here))
        pathlib.Path(f"{here}/far.conf").write_text(TINYPROXY)
        pathlib.Path(f"{here}/near.conf").write_text(NEAR)
        ways = [way for way in WAYS if way[1] == "SCTP" or not options.quick]
        if not options.json:
            names = [f"{'one proxy' if proxies == 1 else 'two proxies'}: {carriage}" for proxies, carriage in ways]
            print(f"| losses | {' | '.join(names)} |\n|---{'|---' * len(ways)}|", flush=True)
        for loss in options.losses:
            pathlib.Path(f"{here}/network.toml").write_text(NETWORK.format(loss=loss))
            cells = [cell(options, here, loss, proxies, carriage) for proxies, carriage in ways]
            if not options.json:
                print(f"| {loss} % | {' | '.join(cells)} |", flush=True)


def read_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", "target"))
    program = target / "release/anabranch"
    parser.add_argument("program", nargs="?", type=pathlib.Path, default=program, metavar="PROGRAM",
                        help=f"anabranch, with {LIBRARY} in the same directory or in its directory deps [{program}]")
    parser.add_argument("runs", nargs="?", type=int, metavar="RUNS", help="runs of each cell [9]")
    parser.add_argument("--losses", type=percentages, metavar="PERCENT,...",
                        help="losses in each direction [0,1,3]")
    parser.add_argument("--profile", default="default", help="the profile of the associations [%(default)s]")
    parser.add_argument("--json", action="store_true", help="print a line of JSON for each cell, with all times")
    parser.add_argument("--quick", action="store_true", help="one run at 1 %%, only over SCTP; installs nothing")
    options = parser.parse_args()
    options.runs = options.runs or (1 if options.quick else 9)
    losses = options.losses or ([1.0] if options.quick else [0.0, 1.0, 3.0])
    options.losses = [f"{loss:g}" for loss in losses]
    options.program = options.program.resolve()
    if options.runs < 1 or not all(0 <= loss < 100 for loss in losses):
        parser.error("RUNS must be at least 1, and losses from 0 to less than 100 percent")
    directories = (options.program.parent, options.program.parent / "deps")
    libraries = [directory / LIBRARY for directory in directories if (directory / LIBRARY).exists()]
    if not options.program.exists() or not libraries:
        parser.error(f"{options.program} or {LIBRARY} is missing: cargo build --release -p anabranch-cli -p anabranch-preload")
    options.library = max(libraries, key=os.path.getmtime)
    return options


def percentages(text):
    return [float(part) for part in text.split(",")]


def install(quick):
    missing = {command: package for command, package in PACKAGES.items() if not shutil.which(command)}
    if missing and os.geteuid() == 0 and not quick and shutil.which("apt-get"):
        command = ["apt-get", "install", "-y", "--no-install-recommends", *missing.values()]
        subprocess.run(command, env=os.environ | {"DEBIAN_FRONTEND": "noninteractive"}, stdout=subprocess.DEVNULL)
    for command, package in missing.items():
        if not shutil.which(command):
            print(f"tcp-gateway: {command} is missing: install {package}", file=sys.stderr)
            sys.exit(3)
    if not os.path.exists("/dev/net/tun"):
        print("tcp-gateway: /dev/net/tun is missing, which anabranch emulate needs", file=sys.stderr)
        sys.exit(3)


def cell(options, here, loss, proxies, carriage):
    times = [once(options, here, seed, proxies, carriage) for seed in range(options.runs)]
    median = statistics.median(times)
    if options.json:
        row = {"loss_percent": float(loss), "proxies": proxies, "carriage": carriage, "profile": options.profile}
        print(json.dumps(row | {"median_s": round(median, 3), "times_s": [round(time, 3) for time in times]}), flush=True)
    return f"{median:.2f} s ({min(times):.2f} to {max(times):.2f})"


def once(options, here, seed, proxies, carriage):
    """The time that the page takes, in seconds."""
    run = ""
    if carriage == "SCTP":
        given = ["--library", options.library, "--tcp", "--require", "--profile", options.profile]
        run = shlex.join(map(str, [options.program, "run", *given])) + " "
    # Proxies carry only connections over the link: the server, and curl beside a proxy, are as they are.
    far = f"{run and run + '--never server -- '}tinyproxy -d -c {here}/far.conf >{here}/far.log 2>&1"
    near = f"{run and run + '--only gateway -- '}tinyproxy -d -c {here}/near.conf >{here}/near.log 2>&1"
    curl = page("gateway" if proxies == 1 else "127.0.0.1", here)
    shutil.rmtree(f"{here}/out", ignore_errors=True)
    os.mkdir(f"{here}/out")
    command = [options.program, "emulate", f"{here}/network.toml", "--quiet", "--seed", str(seed)]
    command += ["--at", "server", f"nginx -c {here}/nginx.conf", "--at", "gateway", far]
    command += ["--at", "client", near] if proxies == 2 else []
    command += ["--head-start", "2s", "--"]
    command += [*shlex.split(run and run + "--"), "sh", "-c", curl] if proxies == 1 else ["sh", "-c", curl]
    ended = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120)
    if ended.returncode:
        logs = [file.read_text()[-500:] for file in pathlib.Path(here).glob("*.log")]
        sys.exit(f"tcp-gateway: {way(seed, proxies, carriage)} fails: {ended.stdout} {logs}")
    for number, _ in OBJECTS:
        if digest(f"{here}/out/{number}") != digest(f"{here}/site/{number}"):
            sys.exit(f"tcp-gateway: {way(seed, proxies, carriage)}: object {number} differs")
    begun, done = (line for line in ended.stdout.splitlines() if line.startswith("at "))
    return float(done[3:]) - float(begun[3:])


def page(proxy, here):
    """The first object is the page, which names the others. curl takes six connections at a time for them, as browsers do."""
    fetch = f"curl -sSf --no-progress-meter -x http://{proxy}:8888 --parallel --parallel-immediate --parallel-max 6"
    fetch += f" -o '{here}/out/#1'"
    return f"date +'at %s.%N'; {fetch} 'http://server/[0-0]' && {fetch} 'http://server/[1-19]' && date +'at %s.%N'"


def way(seed, proxies, carriage):
    return f"run {seed} with {proxies} proxies over {carriage}"


def digest(name):
    return hashlib.sha256(pathlib.Path(name).read_bytes()).hexdigest()


if __name__ == "__main__":
    main()
