#!/usr/bin/env python3
"""What a capture of scripts/roam-large.sh says, as tshark reads it: how much each link of the client carried, and the
longest times in which no data came. Writes the throughput over time for 'anabranch perf chart'.

    roam_report.py CAPTURE INTERVALS
"""

import json
import subprocess
import sys

LINKS = {"198.51.100.2": "cable", "192.168.2.2": "WLAN", "192.168.3.2": "hotspot",
         "2001:db8:1::2": "cable", "fd79:2::2": "WLAN", "fd79:3::2": "hotspot"}
# Seconds of an interval of the chart.
STEP = 0.5
# Shorter packets carry no data worth mentioning.
LEAST = 400
GAPS = 5


def packets(capture):
    """Time, link and bytes of each packet with data that reached the client."""
    fields = ["frame.time_relative", "ip.dst", "ipv6.dst", "udp.length"]
    command = ["tshark", "-r", capture, "-Y", "udp.srcport == 9899", "-T", "fields", "-E", "separator=,", "-E", "occurrence=f"]
    for field in fields:
        command += ["-e", field]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    for line in said.splitlines():
        time, v4, v6, length = line.split(",")
        link = LINKS.get(v4 or v6)
        if link and int(length) >= LEAST:
            yield float(time), link, int(length)


def main(capture, output):
    came = list(packets(capture))
    if not came:
        sys.exit("roam_report: tshark finds no data in the capture")
    begin, end = came[0][0], came[-1][0]
    intervals = [dict.fromkeys(("cable", "WLAN", "hotspot"), 0) for _ in range(int((end - begin) / STEP) + 1)]
    for time, link, length in came:
        intervals[int((time - begin) / STEP)][link] += length
    with open(output, "w") as file:
        for number, carried in enumerate(intervals):
            paths = [{"local": link, "remote": "server", "data_bytes_sent": 0, "data_bytes_received": count}
                     for link, count in carried.items()]
            line = {"event": "interval", "from_seconds": number * STEP, "to_seconds": (number + 1) * STEP,
                    "bytes_sent": 0, "bytes_received": sum(carried.values()), "paths": paths}
            file.write(f"{json.dumps(line)}\n")
    total = {link: sum(interval[link] for interval in intervals) for link in intervals[0]}
    shares = ", ".join(f"{link} {count / 1e6:.0f} MB" for link, count in total.items())
    print(f"  {end - begin:.1f} s; {shares}")
    gaps = sorted(((after[0] - before[0], before, after) for before, after in zip(came, came[1:])), reverse=True)
    for gap, before, after in gaps[:GAPS]:
        way = before[1] if before[1] == after[1] else f"{before[1]} to {after[1]}"
        print(f"  no data for {gap:.2f} s from {before[0] - begin:.1f} s on, {way}")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
