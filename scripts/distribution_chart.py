"""Draws distributions of times as SVG: within which time what share of the messages was delivered."""

import math

COLORS = ["#0060a8", "#c24e00", "#00805c", "#a8327a", "#7a5c00", "#3a8bc2"]


def linear_ticks(most):
    return [most * step / 4 for step in range(5)]


def logarithmic_ticks(least, most):
    """1, 2 and 5 times the powers of ten within the range."""
    powers = range(math.floor(math.log10(least)), math.ceil(math.log10(most)) + 1)
    ticks = [digit * 10.0**power for power in powers for digit in (1, 2, 5)]
    return [tick for tick in ticks if least <= tick <= most]


def picture(panels, label, logarithmic=False):
    """`panels`: for each title the curves by name, each a list of (seconds or None, percent). `label`: what the picture
    shows, for people who cannot see it. All panels of a logarithmic picture have the same axis."""
    width, height, left, top = 250, 170, 44, 24
    parts = []
    series = list(dict.fromkeys(name for curves in panels.values() for name in curves))
    of_all = [time for curves in panels.values() for curve in curves.values() for time, _ in curve if time]
    for number, (title, curves) in enumerate(panels.items()):
        x0, y0 = left + number % 2 * (width + 60), top + number // 2 * (height + 56)
        if logarithmic:
            least, most = min(of_all) / 1.2, max(of_all) * 1.2
            ticks = logarithmic_ticks(least, most)
            across = lambda time: math.log(time / least) / math.log(most / least)
        else:
            most = max(time for curve in curves.values() for time, _ in curve if time) * 1.05
            ticks = linear_ticks(most)
            across = lambda time: time / most
        place = lambda time, share: (x0 + across(time) * width, y0 + height * (1 - share / 100))
        parts.append(f'<text x="{x0}" y="{y0 - 8}">{title}</text>')
        for share in (0, 50, 100):
            y = y0 + height * (1 - share / 100)
            parts.append(f'<path d="M{x0} {y:.1f}h{width}" stroke="#ddd"/>')
            parts.append(f'<text x="{x0 - 6}" y="{y + 4:.1f}" text-anchor="end">{share} %</text>')
        for tick in ticks:
            x, _ = place(tick, 0)
            parts.append(f'<text x="{x:.1f}" y="{y0 + height + 16}" text-anchor="middle">{tick * 1000:.0f}</text>')
        parts.append(f'<text x="{x0 + width / 2}" y="{y0 + height + 32}" text-anchor="middle">ms</text>')
        for color, name in zip(COLORS, series):
            points = " ".join("{:.1f},{:.1f}".format(*place(t, p)) for t, p in curves[name] if t)
            parts.append(f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="2"/>')
    bottom = top + math.ceil(len(panels) / 2) * (height + 56)
    for number, (color, name) in enumerate(zip(COLORS, series)):
        x = left + number * 95
        parts.append(f'<path d="M{x} {bottom}h14" stroke="{color}" stroke-width="3"/>')
        parts.append(f'<text x="{x + 20}" y="{bottom + 4}">{name}</text>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {2 * width + 130} {bottom + 20}" '
        f'font-family="sans-serif" font-size="12" role="img" aria-label="{label}">'
        '<rect width="100%" height="100%" fill="#fff"/>' + "".join(parts) + "</svg>\n"
    )
