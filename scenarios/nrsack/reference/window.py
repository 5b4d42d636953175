"""Figures 7, 8 and 11 of nrsack: window.tcl in ns-2.35, an endless transfer over one path.

7 and 11 count what arrives in a window of time, 8 what the sender keeps until 20 MB have arrived.
"""
import pathlib
import random

import reference

HERE = pathlib.Path(__file__).resolve().parent
CHUNK_KBIT = 1452 * 8 / 1000
FROM = 20
# 20 MB.
FILE = -(-20_000_000 // 1452)
LOSSES = [0.01, 0.05, 0.1, 0.3, 0.5, 1, 2, 3, 4, 6, 8, 10]
# Far apart: those of 1, 2, 3, ... give dependent runs.
DRAW = random.Random(20100601)
SEEDS = [DRAW.randrange(1, 2**31) for _ in range(120)]
COMMENTS = [
    "# ns-2.35 (Debian ns2 2.35+dfsg-5), window.py beside this file",
    f"# What arrives from {FROM} s on, for 60 s, or 1200 s with 8K. Random seeds far apart (seeds 1, 2, 3, ...",
    "# give dependent runs), in the order of the values: " + " ".join(str(seed) for seed in SEEDS),
]


def rows(figure):
    """Columns of the row, how window.tcl is called, and how long is measured."""
    if figure == "11":
        for delay in (5, 45):
            for loss in LOSSES:
                yield f"{delay} ms", loss, 32768, delay, 60
        return
    for loss in [0.01, 0.05, 0.09, 0.16, 0.3, 0.5, 1, 2, 3, 4, 6, 10]:
        for buffer, size in (("32K", 32768), ("64K", 65536)):
            yield buffer, loss, size, 45, 60
    # So little gets through that more time is needed.
    for loss in [0.01, 0.1, 0.5, 1, 3, 6, 10, 20, 40, 65]:
        yield "8K", loss, 8192, 45, 1200


def count(stdout):
    """The new chunks that arrive after FROM."""
    seen, number = set(), 0
    for line in stdout:
        data = reference.DATA.search(line)
        if data and data[1] == b"r" and data[4] not in seen:
            seen.add(data[4])
            number += float(data[2]) > FROM
    return number


def throughput(acks, size, delay, loss, length):
    def measure(program, seed):
        words = [f"seed={seed}", f"nrsack={acks}", f"buffer={size}", f"delay={delay}", f"loss={loss}",
                 f"end={FROM + length}"]
        return (reference.simulate(program, HERE / "window.tcl", words, count) * CHUNK_KBIT / length,)
    return measure


def longest_queue(stdout):
    """The largest difference of the highest TSN that was sent and the one up to which all have arrived, in chunks."""
    seen, in_order, highest, longest = set(), 0, 0, 0
    for line in stdout:
        data = reference.DATA.search(line)
        if not data:
            continue
        highest = max(highest, int(data[4]))
        longest = max(longest, highest - in_order)
        if data[1] == b"r":
            seen.add(int(data[4]))
            while in_order + 1 in seen:
                in_order += 1
            if in_order >= FILE:
                return longest
    return None


def queue(program, seed):
    """A loss of 10 % and no limit but the receive window of 4 MB."""
    words = [f"seed={seed}", "loss=10", "window=4000000"]
    longest = reference.simulate(program, HERE / "window.tcl", words, longest_queue)
    return longest and (longest,)


def figures():
    for name, column in (("7", "buffer"), ("11", "delay")):
        metric = reference.Metric("throughput_kbit_s", reference.six_digits, reference.six_digits)
        cases = []
        for first, loss, *rest in rows(name):
            # Where much is lost runs differ more, and cost less.
            seeds = SEEDS[:40 if loss <= 0.5 else 60 if loss <= 2 else 120]
            for number, acks in enumerate(("sack", "nrsack")):
                size, delay, length = rest
                measure = throughput(number, size, delay, loss, length)
                cases.append(reference.Case((first, acks, f"{loss:g} %"), measure, (metric.name,), seeds))
        yield reference.Figure(name, COMMENTS, (column, "acks", "loss"), [metric], cases)
    metric = reference.Metric("retransmission_queue_peak_chunks", reference.six_digits, reference.six_digits)
    seeds = SEEDS[:20]
    comments = [COMMENTS[0], reference.seeds_comment(seeds)]
    cases = [reference.Case(("unlimited",), queue, (metric.name,), seeds)]
    yield reference.Figure("8", comments, ("case",), [metric], cases)
