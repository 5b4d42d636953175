#!/usr/bin/env python3
"""The table and the picture of docs/web.md that compare what carries a page: SCTP, TCP and HTTP/3.

Usage: scripts/browsing.py PROGRAM [--seeds N]
PROGRAM is the built `anabranch`, the study scenarios/peers/page. The picture is docs/web-browsing.svg.
"""

import argparse
import collections
import csv
import io
import math
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs" / "web.md"
PICTURE = ROOT / "docs" / "web-browsing.svg"
LOSSES = [0, 1, 3, 10]
WAYS = [
    ("SCTP", "SCTP, RFC 9260", "#0060a8"),
    ("SCTP-web", "SCTP, profile web", "#3a8bc2"),
    ("HTTP3", "HTTP/3", "#a8327a"),
    ("TCP-today-1", "TCP-today x 1", "#3f7d20"),
    ("TCP-today-6", "TCP-today x 6", "#1d4d10"),
    ("TCP-1", "TCP of the document x 1", "#c24e00"),
    ("TCP-6", "TCP of the document x 6", "#7a5c00"),
]
MEASURES = [("ppage25_s", "25 % of all pictures, s"), ("page_s", "the page, s")]


def measure(program, seeds):
    """Mean and half of its 95 % interval, by condition and then by measure, way and loss."""
    command = [program, "lab", "run", "peers/page", "--quiet", "--csv", "-"]
    if seeds:
        command += ["--seeds", str(seeds)]
    text = subprocess.run(command, check=True, cwd=ROOT, capture_output=True, text=True).stdout
    rows = csv.DictReader(io.StringIO(re.search(r"^[^\n]*,run,seed,.*", text, re.M | re.S)[0]))
    values = collections.defaultdict(lambda: collections.defaultdict(list))
    for row in rows:
        # Column names end with the unit.
        row = {key.split(" ")[0]: value for key, value in row.items()}
        if row["complete"] not in ("1", "1.0"):
            raise SystemExit(f"a page is incomplete: {row}")
        for name, _ in MEASURES:
            point = name, row["carrier"], round(float(row["loss"]))
            values[row["condition"]][point].append(float(row[name]))
    return {
        condition: {point: interval(times) for point, times in found.items()}
        for condition, found in values.items()
    }


def interval(times):
    mean = sum(times) / len(times)
    variance = sum((time - mean) ** 2 for time in times) / max(1, len(times) - 1)
    return mean, 1.96 * math.sqrt(variance / len(times))


def table(measured):
    """What is within a twentieth of the first one is bold."""
    lines = ["| condition | loss | " + " | ".join(name for _, name, _ in WAYS) + " |"]
    lines.append("|---|---|" + "---|" * len(WAYS))
    for condition, found in measured.items():
        for loss in LOSSES:
            columns = []
            for key, _, _ in WAYS:
                cells = []
                for name, _ in MEASURES:
                    best = min(found[name, way, loss][0] for way, _, _ in WAYS)
                    mean, half = found[name, key, loss]
                    text = f"{mean:.1f}" + (f" ±{half:.1f}" if loss else "")
                    cells.append(f"**{text}**" if mean < 1.05 * best else text)
                columns.append(" / ".join(cells))
            lines.append(f"| {condition} | {loss} % | " + " | ".join(columns) + " |")
    return "\n".join(lines)


def panel(found, name, x0, y0, width, height):
    """One measure in one condition: a line for each way, over the losses."""
    most = max(mean + half for (what, _, _), (mean, half) in found.items() if what == name) * 1.05
    step = next(s for s in (1, 2, 5, 10, 20, 50, 100, 200, 500) if most / s <= 5)
    across = lambda loss: x0 + 10 + loss / LOSSES[-1] * (width - 20)
    up = lambda time: y0 + height * (1 - time / most)
    parts = []
    for tick in range(0, int(most) + 1, step):
        y = up(tick)
        parts.append(f'<line class="grid" x1="{x0}" x2="{x0 + width}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text class="tick" text-anchor="end" x="{x0 - 5}" y="{y + 4:.1f}">{tick}</text>')
    for loss in LOSSES:
        parts.append(f'<text class="tick" text-anchor="middle" x="{across(loss):.1f}" y="{y0 + height + 16}">{loss}</text>')
    for key, _, color in WAYS:
        points = [(across(loss), *found[name, key, loss]) for loss in LOSSES]
        line = " ".join(f"{x:.1f},{up(mean):.1f}" for x, mean, _ in points)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{color}" stroke-width="2"/>')
        for x, mean, half in points:
            parts.append(f'<path d="M{x:.1f} {up(mean + half):.1f}V{up(mean - half):.1f}" stroke="{color}"/>')
            parts.append(f'<circle cx="{x:.1f}" cy="{up(mean):.1f}" r="2.5" fill="{color}"/>')
    return parts


def picture(measured):
    width, height, left, top = 190, 150, 44, 46
    parts = []
    for column, (condition, found) in enumerate(measured.items()):
        x0 = left + column * (width + 42)
        parts.append(f'<text class="head" x="{x0}" y="{top - 26}">{condition}</text>')
        for row, (name, label) in enumerate(MEASURES):
            y0 = top + row * (height + 52)
            parts.append(f'<text x="{x0}" y="{y0 - 8}">{label}</text>')
            parts += panel(found, name, x0, y0, width, height)
    bottom = top + 2 * (height + 52) - 6
    parts.append(f'<text class="tick" x="{left}" y="{bottom - 8}">packets lost each way, %</text>')
    for number, (_, label, color) in enumerate(WAYS):
        x, y = left + 190 + number % 4 * 180, bottom - 8 + number // 4 * 20
        parts.append(f'<path d="M{x} {y - 4}h18" stroke="{color}" stroke-width="3"/>')
        parts.append(f'<text x="{x + 24}" y="{y}">{label}</text>')
    style = (
        "text{font:13px system-ui,sans-serif;fill:#1c1c1c}text.tick{font-size:12.5px;fill:#5c5c5c}"
        "text.head{font-weight:bold}.grid{stroke:#dcdcdc;stroke-width:1}"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left + 4 * (width + 42)} {bottom + 28}" role="img" '
        'aria-label="When a page is there, by what carries it, under four conditions and losses">'
        f'<style>{style}</style><rect width="100%" height="100%" fill="#fff"/>' + "\n".join(parts) + "</svg>\n"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--seeds", type=int, help="runs of each point [what the study says]")
    options = parser.parse_args()
    measured = measure(options.program, options.seeds)
    PICTURE.write_text(picture(measured))
    begin, end = "<!-- browsing -->", "<!-- end of browsing -->"
    pattern = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.S)
    text = DOCUMENT.read_text()
    if not pattern.search(text):
        raise SystemExit("docs/web.md has no place for the table")
    DOCUMENT.write_text(pattern.sub(lambda _: f"{begin}\n\n{table(measured)}\n\n{end}", text))


if __name__ == "__main__":
    main()
