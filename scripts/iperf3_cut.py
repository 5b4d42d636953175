"""Helps scripts/iperf3-cut.sh: samples what the paths carry, and reports what iperf3 has measured.

usage: iperf3_cut.py sample NAMESPACE PID     one line each half second, until the process has ended
       iperf3_cut.py report DIRECTORY CUT REPAIR
"""

import json
import pathlib
import subprocess
import sys
import time

STEP = 0.5
# Devices of the server, and the names of their paths.
PATHS = {"s1": ("10.81.1.1", "10.81.1.2"), "s2": ("10.81.2.1", "10.81.2.2")}
# Mb/s between two devices; half seconds that may have no data; bytes that buffers may hold when iperf3 ends.
RATE, PAUSE, UNDER_WAY = 100, 1, 4_000_000


def counters(namespace):
    """Bytes that each device of the server has received."""
    command = ["ip", "-n", namespace, "-s", "-j", "link", "show"]
    links = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return {link["ifname"]: link["stats64"]["rx"]["bytes"] for link in links if link["ifname"] in PATHS}


def has_ended(pid):
    """A process that has ended may stay, without a command line, until the script waits for it."""
    try:
        return not pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
    except FileNotFoundError:
        return True


def sample(namespace, pid):
    begin, before = time.monotonic(), counters(namespace)
    for number in range(1, 1000):
        time.sleep(max(0, begin + number * STEP - time.monotonic()))
        if has_ended(pid):
            return
        now = counters(namespace)
        print(json.dumps({device: now[device] - before[device] for device in PATHS}), flush=True)
        before = now


def report(directory, cut, repair):
    said = json.loads(pathlib.Path(directory, "client.log").read_text())
    intervals = said["server_output_json"]["intervals"] if "server_output_json" in said else said["intervals"]
    paths = [json.loads(line) for line in pathlib.Path(directory, "paths").read_text().splitlines()]
    rates, lines = [], []
    for interval, carried in zip(intervals, paths):
        total = interval["sum"]
        rates.append((total["start"], total["end"], total["bits_per_second"] / 1e6))
        names = [
            {"local": local, "remote": remote, "data_bytes_sent": 0, "data_bytes_received": carried[device]}
            for device, (local, remote) in PATHS.items()
        ]
        lines.append({
            "event": "interval", "from_seconds": total["start"], "to_seconds": total["end"],
            "bytes_sent": 0, "bytes_received": total["bytes"], "paths": names,
        })
    pathlib.Path(directory, "intervals.json").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    print("| time | Mb/s, as iperf3 measures |\n|---|---|")
    for name, begin, end in (("before the cut", 1, cut), ("while the first path is cut", cut + 1, repair),
                             ("after the repair", repair + 1, rates[-1][1] - 1)):
        part = [rate for start, to, rate in rates if start >= begin and to <= end]
        print(f"| {name} | {sum(part) / len(part):.0f} |")
    idle = round(sum(to - start for start, to, rate in rates[:-1] if rate < RATE / 100) / STEP)
    sent, received = (said["end"][name]["bytes"] for name in ("sum_sent", "sum_received"))
    print(f"sent {sent} bytes, received {received} when the time was over; half seconds without data: {idle}")
    if sent - received > UNDER_WAY or idle > PAUSE:
        sys.exit("iperf3-cut: not as it should be")


if __name__ == "__main__":
    if sys.argv[1:2] == ["sample"] and len(sys.argv) == 4:
        sample(*sys.argv[2:])
    elif sys.argv[1:2] == ["report"] and len(sys.argv) == 5:
        report(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    else:
        sys.exit(__doc__)
