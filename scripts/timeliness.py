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


COLORS = ["#0060a8", "#c24e00", "#00805c", "#a8327a", "#7a5c00", "#3a8bc2"]
PERCENT = [5, 10, 25, 50, 75, 90, 99]


def distribution(rows, panels, loss):
    """An SVG picture: within which time what share of the held-up messages was delivered."""
    width, height, left, top = 250, 170, 44, 24
    parts = []
    series = list(dict.fromkeys(row["recovery"] for row in rows))
    for number, line in enumerate(panels):
        of_line = [row for row in rows if row["line"] == line and row["loss"] == loss]
        curves = {
            name: [
                (mean([row for row in of_line if row["recovery"] == name], f"delay_late_p{p}_s"), p)
                for p in PERCENT
            ]
            for name in series
        }
        most = max(time for curve in curves.values() for time, _ in curve if time) * 1.05
        x0, y0 = left + number % 2 * (width + 60), top + number // 2 * (height + 56)
        place = lambda time, share: (x0 + time / most * width, y0 + height * (1 - share / 100))
        parts.append(f'<text x="{x0}" y="{y0 - 8}">{line}, {loss} % lost</text>')
        for share in (0, 50, 100):
            _, y = place(0, share)
            parts.append(f'<path d="M{x0} {y:.1f}h{width}" stroke="#ddd"/>')
            parts.append(f'<text x="{x0 - 6}" y="{y + 4:.1f}" text-anchor="end">{share} %</text>')
        for step in range(5):
            x, _ = place(most * step / 4, 0)
            label = f"{most * step / 4 * 1000:.0f}"
            parts.append(f'<text x="{x:.1f}" y="{y0 + height + 16}" text-anchor="middle">{label}</text>')
        parts.append(f'<text x="{x0 + width / 2}" y="{y0 + height + 32}" text-anchor="middle">ms</text>')
        for color, curve in zip(COLORS, curves.values()):
            points = " ".join("{:.1f},{:.1f}".format(*place(t, p)) for t, p in curve if t)
            parts.append(f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="2"/>')
    bottom = top + 2 * (height + 56)
    for number, (color, name) in enumerate(zip(COLORS, series)):
        x = left + number * 95
        parts.append(f'<path d="M{x} {bottom}h14" stroke="{color}" stroke-width="3"/>')
        parts.append(f'<text x="{x + 20}" y="{bottom + 4}">{name}</text>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {2 * width + 130} {bottom + 20}" '
        'font-family="sans-serif" font-size="12" role="img" '
        'aria-label="How long messages take that a loss held up"><rect width="100%" height="100%" '
        'fill="#fff"/>' + "".join(parts) + "</svg>\n"
    )


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
