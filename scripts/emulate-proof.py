#!/usr/bin/env python3
"""Compares what programs measure in the emulator with what its file asks for: ping, iperf3, curl and 'anabranch get',
as root and as an ordinary user.

    scripts/emulate-proof.py [--program FILE] [--seconds N]

Prints a table, and fails if a measurement differs from the file. As an ordinary user it shows only that
user's half. Needs what 'anabranch emulate' needs, ping, iperf3 and curl, and as root setpriv and unshare.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

HOSTS = """seed = 7
[[host]]
name = "client"
[[host]]
name = "server"
[[link]]
name = "line"
between = ["client", "server"]
"""

# Lets the user nobody open the device, in a separate mount namespace.
AS_NOBODY = (
    "mknod {folder}/tun c 10 200 && chmod 666 {folder}/tun && mount --bind {folder}/tun /dev/net/tun && "
    'exec setpriv --reuid=65534 --regid=65534 --clear-groups "$@"'
)


class Runner:
    def __init__(self, program, folder, ordinary):
        self.program, self.folder, self.ordinary = program, folder, ordinary

    def emulate(self, network, command, at=None, files=None, check=True):
        """Runs a command in a network; returns what it printed, and the log's lines as words."""
        for name, text in {"net.toml": HOSTS + network, **(files or {})}.items():
            with open(os.path.join(self.folder, name), "w") as file:
                file.write(text)
        log = os.path.join(self.folder, "fates.log")
        if os.path.exists(log):
            os.remove(log)
        line = [self.program, "emulate", "net.toml", "--quiet", "--log", log]
        line += ["--at", "server", at] if at else []
        line += ["--", *command]
        if self.ordinary and os.getuid() == 0:
            script = AS_NOBODY.format(folder=self.folder)
            line = ["unshare", "-m", "sh", "-c", script, "sh", *line]
        ended = subprocess.run(line, cwd=self.folder, capture_output=True, text=True)
        tun = os.path.join(self.folder, "tun")
        if os.path.exists(tun):
            os.remove(tun)
        if check and ended.returncode != 0:
            sys.exit(f"emulate-proof.py: {' '.join(command)}: {ended.stderr}{ended.stdout}")
        with open(log) as file:
            words = [line.split() for line in file if not line.startswith("#")]
        return ended.stdout, words


def data(log, way="line>", protocol="", payload=0):
    """The packets of a direction, by number."""
    all_of = [w for w in log if w[0] == way and w[2].startswith(protocol) and int(w[6]) > payload]
    return sorted(all_of, key=lambda words: int(words[1]))


def ping(runner, _):
    out, _ = runner.emulate('delay = "40 ms"\n', ["ping", "-c", "30", "-i", "0.05", "-q", "server"])
    least, mean = map(float, re.search(r"= ([\d.]+)/([\d.]+)/", out).groups())
    yield "delay", "ping", "40 ms each way: 80 ms", f"{least:.1f} ms at least, {mean:.1f} in the mean", 80 <= least and mean < 84
    pattern = "anabranch pattern 1\npattern loss per packet\nfilter icmp\nend repeat\nvalues\n4*. x\n"
    network = 'pattern = "p"\n[link.back]\npattern = ""\n'
    out, _ = runner.emulate(network, ["ping", "-c", "50", "-i", "0.02", "-W", "1", "-q", "server"], files={"p": pattern}, check=False)
    sent, came = map(int, re.search(r"(\d+) packets transmitted, (\d+) received", out).groups())
    yield "loss", "ping", "each 5th of 50: 10", f"{sent - came}", (sent, came) == (50, 40)


def iperf_udp(runner, seconds):
    command = ["iperf3", "-c", "server", "-u", "-b", "2M", "-l", "1000", "-t", str(seconds), "-J", "--get-server-output"]
    serve = "exec iperf3 -s -1 >/dev/null"
    head = "anabranch pattern 1\npattern {} per packet\nfilter udp and payload = 1000\nend repeat\nvalues\n"
    network = 'delay = "5 ms"\npattern = "p"\n[link.back]\npattern = ""\n'
    pattern = head.format("loss") + "19*. x 29*. xx\n"
    out, log = runner.emulate(network, command, serve, {"p": pattern})
    total = json.loads(out)["end"]["sum"]
    packets = data(log, protocol="udp", payload=1000)
    cycle = [False] * 19 + [True] + [False] * 29 + [True] * 2
    asked = [cycle[n % len(cycle)] for n in range(len(packets))]
    fates = [words[7] == "lost" for words in packets]
    # The receiver cannot know of losses after the last packet that arrived.
    last = max((n for n, lost in enumerate(fates) if not lost), default=0)
    known = sum(asked[: last + 1])
    yield "loss", "iperf3, UDP", f"places 20, 50, 51 of 51: {known} of {len(packets):,}", f"{total['lost_packets']}", total["lost_packets"] == known
    yield "which", "log", f"{sum(asked)} places", "the same" if fates == asked else "others", fates == asked
    pattern = head.format("displace") + "19*. 3\n"
    out, log = runner.emulate(network, command, serve, {"p": pattern})
    packets = data(log, protocol="udp", payload=1000)
    # The last packets may wait in vain for others to overtake them.
    displaced = sum(1 for n in range(len(packets) - 3) if n % 20 == 19)
    late = sum("late" in words[9].split(",") for words in packets)
    said = re.search(r"(\d+) datagrams received out-of-order", json.loads(out).get("server_output_text", ""))
    order = int(said.group(1)) if said else 0
    right = order == late and late == displaced
    yield "order", "iperf3, UDP", f"each 20th behind the 3 after it: {displaced}", f"{order} out of order", right


def iperf_tcp(runner, seconds):
    command = ["iperf3", "-c", "server", "-t", str(seconds), "-O", "1", "-J"]
    out, _ = runner.emulate('rate = "20 Mb/s"\ndelay = "5 ms"\nqueue = "50 packets"\n', command, "exec iperf3 -s -1 >/dev/null")
    rate = json.loads(out)["end"]["sum_received"]["bits_per_second"] / 1e6
    asked = 20 * 1448 / 1500
    yield "rate", "iperf3, TCP", f"20 Mb/s of packets: {asked:.2f} of data", f"{rate:.2f} Mb/s", abs(rate / asked - 1) < 0.03


def curl(runner, _):
    size = 2_000_000
    with open(os.path.join(runner.folder, "file"), "wb") as file:
        file.write(os.urandom(size))
    form = "%{time_connect} %{time_total} %{size_download}"
    command = ["curl", "-s", "-o", "/dev/null", "-w", form, "http://server:8000/file"]
    serve = f"cd {runner.folder} && exec python3 -m http.server 8000 >/dev/null 2>&1"
    out, _ = runner.emulate('rate = "10 Mb/s"\ndelay = "100 ms"\nqueue = "200 packets"\n', ["--", *command][1:], serve)
    connect, total, came = map(float, out.split())
    yield "delay", "curl", "100 ms each way: 0.200 s to connect", f"{connect:.3f} s", 0.2 <= connect < 0.215
    least = size * 8 / 10e6 * 1500 / 1448 + 0.4
    yield "rate", "curl", f"2 MB at 10 Mb/s: {least:.2f} s at least", f"{total:.2f} s", came == size and least - 0.05 <= total < 2 * least


def get(runner, _):
    pattern = "anabranch pattern 1\npattern loss per packet\nfilter chunk data\nend repeat\nvalues\n99*. x\n"
    network = 'rate = "20 Mb/s"\ndelay = "10 ms"\npattern = "p"\n[link.back]\npattern = "p"\n'
    out = os.path.join(runner.folder, "copy")
    shutil.rmtree(out, ignore_errors=True)
    os.mkdir(out)
    os.chmod(out, 0o777)
    os.makedirs(os.path.join(runner.folder, "site"), exist_ok=True)
    content = os.urandom(3_000_000)
    with open(os.path.join(runner.folder, "site", "f"), "wb") as file:
        file.write(content)
    serve = f"exec {runner.program} serve {runner.folder}/site --listen 10.0.0.2:8080 >/dev/null"
    command = [runner.program, "get", "sctp://10.0.0.2:8080/f", "--out", out]
    _, log = runner.emulate(network, command, serve, {"p": pattern})
    with open(os.path.join(out, "f"), "rb") as file:
        same = file.read() == content
    packets = [w for w in data(log, "line<") if w[10].startswith("1:")]
    lost = [w for w in packets if w[7] == "lost"]
    asked = len(packets) // 100
    exact = all(int(w[10].split(":")[1]) % 100 == 0 for w in lost)
    yield "loss", "get, SCTP", f"each 100th with data: {asked} of {len(packets):,}; the same bytes", f"{len(lost)}; {'the same' if same else 'others'}", same and exact and len(lost) == asked


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    target = os.environ.get("CARGO_TARGET_DIR", "target")
    parser.add_argument("--program", default=f"{target}/release/anabranch")
    parser.add_argument("--seconds", type=int, default=5, help="that iperf3 sends")
    arguments = parser.parse_args()
    program = os.path.abspath(arguments.program)
    needed = ["ping", "iperf3", "curl"] + (["setpriv", "unshare"] if os.getuid() == 0 else [])
    missing = [tool for tool in needed if not shutil.which(tool)]
    if missing or not os.path.exists(program):
        sys.exit("emulate-proof.py: missing: " + ", ".join(missing or [program]))
    print("| as | what | seen by | asked for | measured | |\n|---|---|---|---|---|---|")
    failed = 0
    for ordinary in [False, True] if os.getuid() == 0 else [True]:
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o777)
            runner = Runner(program, folder, ordinary)
            for measure in [ping, iperf_udp, iperf_tcp, curl, get]:
                for what, program_name, asked, measured, right in measure(runner, arguments.seconds):
                    who = "user" if ordinary else "root"
                    print(f"| {who} | {what} | {program_name} | {asked} | {measured} | {'' if right else 'WRONG'} |", flush=True)
                    failed += not right
    if failed:
        sys.exit(f"emulate-proof.py: {failed} wrong")


main()
