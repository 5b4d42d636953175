#!/usr/bin/env python3
"""The pictures of docs/latency.md: how long small messages take, from the studies of scenarios/latency.

Usage: scripts/latency.py PROGRAM [--seeds N]
PROGRAM is the built `anabranch`. Writes docs/latency-messages.svg, docs/latency-copies.svg and docs/latency-classes.svg.
"""

import argparse
import pathlib

import distribution_chart
from timeliness import mean, runs

DOCUMENTS = pathlib.Path(__file__).resolve().parent.parent / "docs"
COLUMNS = {"delay_p5_s": 5, "delay_p10_s": 10, "delay_p25_s": 25, "delay_median_s": 50, "delay_p75_s": 75}
COLUMNS |= {"delay_p90_s": 90, "delay_p95_s": 95, "delay_p99_s": 99}


def curves(rows, by, most=99):
    columns = {column: percent for column, percent in COLUMNS.items() if percent <= most}
    return {
        name: [(mean([row for row in rows if row[by] == name], column), percent) for column, percent in columns.items()]
        for name in dict.fromkeys(row[by] for row in rows)
    }


def write(name, panels, label):
    picture = distribution_chart.picture(panels, label, logarithmic=True)
    (DOCUMENTS / f"latency-{name}.svg").write_text(picture)


def messages(rows):
    times = {"1": "paths of equal delay", "3": "primary path three times as long", "10": "primary path ten times as long"}
    panels = {}
    for ratio, loss in [("1", "3"), ("3", "3"), ("10", "0"), ("10", "3")]:
        some = [row for row in rows if row["ratio"] == ratio and row["loss"] == loss]
        panels[f"{times[ratio]}, {loss} % lost"] = curves(some, "way")
    write("messages", panels, "How long messages take on the primary path, the one of lowest latency, both, and by CMT")


def copies(rows):
    titles = {"nothing": "alone", "bulk": "beside bulk on one path", "bulk-cmt": "beside bulk on both paths"}
    panels = {}
    for beside, title in titles.items():
        some = [row for row in rows if row["beside"] == beside]
        rate = lambda way: mean([row for row in some if row["way"] == way], "throughput_flow2_kbit_s") / 1000
        bulk = "" if beside == "nothing" else f" ({rate('near'):.1f}, with copies {rate('copies'):.1f} Mb/s)"
        panels[title + bulk] = curves(some, "way")
    write("copies", panels, "How long messages take on the nearer path, the farther one, and both, beside a bulk transfer")


def classes(rows):
    times = {"1": "paths of equal delay", "3": "second path three times as long", "10": "second path ten times as long"}
    panels = {}
    for ratio, loss in [("1", "0"), ("3", "0"), ("10", "0"), ("1", "1")]:
        some = [row for row in rows if row["ratio"] == ratio and row["loss"] == loss]
        # The slowest hundredth is bulk.
        panels[f"{times[ratio]}, {loss} % lost"] = curves(some, "way", most=95)
    write("classes", panels, "How long small messages take beside bulk of the same association")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--seeds", type=int, help="runs of each point [what the studies say]")
    options = parser.parse_args()
    for draw in (messages, copies, classes):
        draw(runs(options.program, f"latency/{draw.__name__}", options.seeds))


if __name__ == "__main__":
    main()
