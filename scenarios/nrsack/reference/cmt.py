"""Figure 14 of nrsack: cmt.tcl in ns-2.35, for the smaller buffer and the shorter delay."""
import pathlib
import random

import reference

HERE = pathlib.Path(__file__).resolve().parent
BYTES = 100_000_000
CHUNKS = -(-BYTES // 1452)
BUFFER, DELAY = 131_072, 5
# Far apart: seeds 1, 2, 3, ... give dependent runs.
DRAW = random.Random(20100602)
SEEDS = [DRAW.randrange(1, 2**31) for _ in range(20)]
COMMENTS = [
    "# ns-2.35 (Debian ns2 2.35+dfsg-5), cmt.py beside this file",
    "# Agent/SCTP/CMT, RTX-SSTHRESH, transfers of 100 MB. Random seeds, in the order of the values: "
    + " ".join(str(seed) for seed in SEEDS),
]


def seconds(stdout):
    """From the first chunk to the last one; None if one is missing."""
    seen, first = set(), None
    for line in stdout:
        data = reference.DATA.search(line)
        if data:
            first = first or float(data[2])
            seen.add(data[4])
            if len(seen) == CHUNKS:
                return float(data[2]) - first
    return None


def goodput(acks, loss):
    def measure(program, seed):
        words = [seed, acks, BUFFER, DELAY, 0.0008, loss / 100, BYTES]
        time = reference.simulate(program, HERE / "cmt.tcl", words, seconds)
        return time and (BYTES * 8 / 1000 / time,)
    return measure


def figures():
    metric = reference.Metric("goodput_kbit_s", reference.six_digits, reference.six_digits)
    cases = [reference.Case(("128K", "5 ms", acks, f"{loss:g} %"), goodput(number, loss), (metric.name,), SEEDS)
             for loss in (0.08, 8.5) for number, acks in enumerate(("sack", "nrsack"))]
    yield reference.Figure("14", COMMENTS, ("buffer", "delay", "acks", "loss"), [metric], cases)
