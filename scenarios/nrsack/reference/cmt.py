#!/usr/bin/env python3
"""Runs cmt.tcl in ns-2.35 for the smaller buffer and the shorter delay of nrsack 14, and prints the file of reference
numbers.

usage: cmt.py > 14.csv
"""
import pathlib
import random
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
BYTES = 100_000_000
CHUNK = 1452
BUFFER, DELAY = 131_072, 5
RUNS = 20
# Student's t, two-sided 90 %.
T90 = 1.729
# The first and the last new chunk that arrives, until all are there.
TIMES = """
$7 ~ /D/ && !($12 in seen) { seen[$12]; if (!n++) first = $2; if (n == chunks) { print $2 - first; exit } }
"""


def seconds(seed, acks, loss):
    """From the first chunk to the last one."""
    call = ["ns", HERE / "cmt.tcl", seed, acks, BUFFER, DELAY, 0.0008, loss / 100, BYTES]
    with subprocess.Popen([str(word) for word in call], stdout=subprocess.PIPE) as trace:
        times = ["awk", "-v", f"chunks={-(-BYTES // CHUNK)}", TIMES]
        time = subprocess.run(times, stdin=trace.stdout, capture_output=True, text=True, check=True).stdout
        trace.kill()
    if not time:
        sys.exit(f"not all data arrived: {call}")
    return float(time)


def main():
    # Far apart: seeds 1, 2, 3, ... give dependent runs.
    draw = random.Random(20100602)
    seeds = [draw.randrange(1, 2**31) for _ in range(RUNS)]
    print("# ns-2.35 (Debian ns2 2.35+dfsg-5), cmt.py beside this file")
    print("# Agent/SCTP/CMT, RTX-SSTHRESH, transfers of 100 MB. Random seeds, in the order of the values:", *seeds)
    print("buffer,delay,acks,loss,metric,mean,ci90,n,incomplete,median,values")
    for loss in (0.08, 8.5):
        for number, acks in enumerate(("sack", "nrsack")):
            values = [BYTES * 8 / 1000 / seconds(seed, number, loss) for seed in seeds]
            mean, half = statistics.mean(values), T90 * statistics.stdev(values) / RUNS**0.5
            texts = " ".join(f"{value:.6g}" for value in values)
            print("128K,5 ms", acks, f"{loss:g} %", "goodput_kbit_s", f"{mean:.6g}", f"{half:.3g}", RUNS, 0,
                  f"{statistics.median(values):.6g}", texts, sep=",", flush=True)


main()
