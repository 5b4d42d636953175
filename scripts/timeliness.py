#!/usr/bin/env python3
"""The tables of docs/timeliness.md, from the studies of scenarios/timely and scenarios/hurtig/IV.

Usage: scripts/timeliness.py PROGRAM [--seeds N]
PROGRAM is the built `anabranch`. The tables go between their markers in docs/timeliness.md.
"""

import argparse
import collections
import csv
import io
import pathlib
import re
import subprocess

import distribution_chart

ROOT = pathlib.Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs" / "timeliness.md"


def runs(program, study, seeds):
    command = [program, "lab", "run", study, "--quiet", "--jobs", "2", "--csv", "-"]
    if seeds:
        command += ["--seeds", str(seeds)]
    text = subprocess.run(command, check=True, cwd=ROOT, capture_output=True, text=True).stdout
    # A progress line may precede the table.
    rows = list(csv.DictReader(io.StringIO(re.search(r"^[^\n]*,run,seed,.*", text, re.M | re.S)[0])))
    # Column names end with the unit.
    return [{key.split(" ")[0]: value for key, value in row.items()} for row in rows]


def mean(rows, metric):
    values = [float(row[metric]) for row in rows if row[metric]]
    return sum(values) / len(values) if values else None


def cell(value, scale, digits):
    return "-" if value is None else f"{value * scale:.{digits}f}"


def table(rows, down, across, metric, scale=1.0, digits=0):
    points = collections.defaultdict(list)
    for row in rows:
        points[tuple(row[key] for key in down), row[across]].append(row)
    order = list(dict.fromkeys(row[across] for row in rows))
    lines = ["| " + " | ".join([*down, *order]) + " |", "|---" * (len(down) + len(order)) + "|"]
    for first in dict.fromkeys(key for key, _ in points):
        cells = [cell(mean(points[first, column], metric), scale, digits) for column in order]
        lines.append("| " + " | ".join([*first, *cells]) + " |")
    return "\n".join(lines)


def put(text, name, content):
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    pattern = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.S)
    if not pattern.search(text):
        raise SystemExit(f"docs/timeliness.md has no place for {name}")
    return pattern.sub(lambda _: f"{begin}\n\n{content}\n\n{end}", text)


PERCENT = [5, 10, 25, 50, 75, 90, 99]


def distribution(rows, lines, loss):
    """An SVG picture: within which time what share of the held-up messages was delivered."""
    panels = {}
    for line in lines:
        of_line = [row for row in rows if row["line"] == line and row["loss"] == loss]
        panels[f"{line}, {loss} % lost"] = {
            name: [
                (mean([row for row in of_line if row["recovery"] == name], f"delay_late_p{p}_s"), p)
                for p in PERCENT
            ]
            for name in dict.fromkeys(row["recovery"] for row in rows)
        }
    return distribution_chart.picture(panels, "How long messages take that a loss held up")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--seeds", type=int, help="runs of each point [what the studies say]")
    options = parser.parse_args()
    text = DOCUMENT.read_text()
    signalling = runs(options.program, "timely/signalling", options.seeds)
    down = ["line", "loss"]
    for name, metric, scale, digits in [
        ("recovery", "delay_late_mean_s", 1000, 0),
        ("slowest", "delay_p99_s", 1000, 0),
        ("needless", "spurious_retransmissions", 1, 1),
    ]:
        text = put(text, name, table(signalling, down, "recovery", metric, scale, digits))
    panels = ["20ms-1", "20ms-3", "200ms-1", "200ms-3"]
    picture = distribution(signalling, panels, "1")
    (DOCUMENT.parent / "timeliness-distribution.svg").write_text(picture)
    bursts = runs(options.program, "hurtig/IV", options.seeds)
    text = put(text, "bursts", table(bursts, ["loss"], "recovery", "delay_mean_s", 1000, 1))
    reordered = runs(options.program, "timely/reordering", options.seeds)
    text = put(text, "reordering", table(reordered, ["loss", "extent"], "recovery", "goodput_kbit_s"))
    shared = runs(options.program, "timely/bundling", options.seeds)
    down = ["messages", "rate"]
    text = put(text, "bundling", table(shared, down, "bundling", "delay_mean_s", 1000, 1))
    text = put(text, "saved", table(shared, down, "bundling", "packets_saved"))
    stopped = runs(options.program, "timely/spurious", options.seeds)
    text = put(text, "again", table(stopped, ["loss"], "recovery", "retransmitted_chunks_path1"))
    text = put(text, "stopped", table(stopped, ["loss"], "recovery", "transfer_time_s", 1, 2))
    begun = runs(options.program, "timely/cache", options.seeds)
    for row in begun:
        times = [float(row[f"transfer_time_flow{n}_s"]) for n in range(2, 12)]
        row["mean_of_ten"] = str(sum(times) / len(times))
    text = put(text, "cache", table(begun, ["case"], "cache", "mean_of_ten", 1000, 0))
    lost = runs(options.program, "timely/two-paths-losses", options.seeds)
    down = ["way", "lines", "loss"]
    text = put(text, "two paths", table(lost, down, "recovery", "delay_late_mean_s", 1000, 0))
    text = put(text, "two paths needless", table(lost, ["way", "loss"], "recovery", "spurious_retransmissions", 1, 1))
    policies = runs(options.program, "timely/two-paths-policies", options.seeds)
    down = ["policy", "primary_loss"]
    text = put(text, "policies", table(policies, down, "recovery", "transfer_time_s", 1, 1))
    delays = runs(options.program, "timely/two-paths-delays", options.seeds)
    down = ["variant", "delay", "loss"]
    text = put(text, "delays", table(delays, down, "recovery", "goodput_kbit_s"))
    DOCUMENT.write_text(text)


if __name__ == "__main__":
    main()
