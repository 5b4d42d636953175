#!/usr/bin/env python3
"""Runs window.tcl in ns-2.35 for nrsack 7 or 11, and prints the file of reference numbers.

usage: window.py 7|11 > FIGURE.csv
"""
import pathlib
import random
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
CHUNK_KBIT = 1452 * 8 / 1000
FROM = 20
# Student's t, two-sided 90 %; that of the normal distribution from there on.
T90 = {40: 1.685, 60: 1.671, 120: 1.658}
LOSSES = [0.01, 0.05, 0.1, 0.3, 0.5, 1, 2, 3, 4, 6, 8, 10]


def seeds():
    """Far apart: those of 1, 2, 3, ... give dependent runs."""
    draw = random.Random(20100601)
    return [draw.randrange(1, 2**31) for _ in range(max(T90))]


def rows(figure):
    """Columns of the row, how window.tcl is called, and how long is measured."""
    if figure == "11":
        for delay in (5, 45):
            for loss in LOSSES:
                yield [f"{delay} ms"], loss, 32768, delay, 60
        return
    for loss in [0.01, 0.05, 0.09, 0.16, 0.3, 0.5, 1, 2, 3, 4, 6, 10]:
        for buffer, size in (("32K", 32768), ("64K", 65536)):
            yield [buffer], loss, size, 45, 60
    # So little gets through that more time is needed.
    for loss in [0.01, 0.1, 0.5, 1, 3, 6, 10, 20, 40, 65]:
        yield ["8K"], loss, 8192, 45, 1200


COUNT = "$7 ~ /D/ { if (!($12 in seen)) { seen[$12]; if ($2 > from) n++ } } END { print n + 0 }"


def chunks(seed, acks, size, delay, loss, length):
    call = ["ns", HERE / "window.tcl", seed, acks, size, delay, loss / 100, FROM, length]
    with subprocess.Popen([str(word) for word in call], stdout=subprocess.PIPE) as trace:
        count = ["awk", "-v", f"from={FROM}", COUNT]
        number = subprocess.run(count, stdin=trace.stdout, capture_output=True, text=True, check=True)
    if trace.returncode != 0:
        sys.exit(f"ns failed: {call}")
    return int(number.stdout)


def main(figure):
    chosen = seeds()
    print("# ns-2.35 (Debian ns2 2.35+dfsg-5), window.py beside this file")
    print(f"# What arrives from {FROM} s on, for 60 s, or 1200 s with 8K. Random seeds far apart (seeds 1, 2, 3, ...")
    print("# give dependent runs), in the order of the values:", *chosen)
    print(f"{'delay' if figure == '11' else 'buffer'},acks,loss,metric,mean,ci90,n,incomplete,median,values")
    for first, loss, size, delay, length in rows(figure):
        # Where much is lost runs differ more, and cost less.
        n = 40 if loss <= 0.5 else 60 if loss <= 2 else 120
        for number, acks in enumerate(("sack", "nrsack")):
            values = [chunks(seed, number, size, delay, loss, length) * CHUNK_KBIT / length for seed in chosen[:n]]
            mean = statistics.mean(values)
            half = T90[n] * statistics.stdev(values) / n**0.5
            texts = " ".join(f"{value:.6g}" for value in values)
            print(*first, acks, f"{loss:g} %", "throughput_kbit_s", f"{mean:.6g}", f"{half:.3g}", n, 0,
                  f"{statistics.median(values):.6g}", texts, sep=",", flush=True)


main(sys.argv[1])
