"""Figures 10 and 12 and sections 5.4 and 5.5 of nrsack: window.tcl in ns-2.35, transfers with and without NR-SACKs."""
import pathlib

import reference

HERE = pathlib.Path(__file__).resolve().parent
CHUNK = 1452
METRIC = "transfer_time_from_first_data_s"
ACKS = ("sack", "nrsack")


def transfer(megabytes, rate, delay, **more):
    """Seconds from sending the first chunk until all have arrived, None if one is missing."""
    chunks = -(-megabytes * 1_000_000 // CHUNK)
    # Of a full packet: on the wire, and until it arrives.
    sending = 1500 * 8 / (rate * 1e6)
    arriving = sending + delay / 1000

    def read(stdout):
        seen, first = set(), None
        for line in stdout:
            data = reference.DATA.search(line)
            if not data:
                continue
            if first is None:
                # What is lost is lost before it is sent.
                first = float(data[2]) - (arriving if data[1] == b"r" else 0)
            if data[1] == b"r":
                seen.add(data[4])
                if len(seen) == chunks:
                    return (float(data[2]) - first,)
        return None

    def measure(program, seed):
        words = dict(more, seed=seed, rate=rate, delay=delay, bytes=megabytes * 1_000_000)
        return reference.simulate(program, HERE / "window.tcl", [f"{k}={v}" for k, v in words.items()], read)
    return measure


def figure(name, columns, runs, rows):
    """`rows` gives the values of the columns and a measurement."""
    seeds = reference.SEEDS[:runs]
    cases = [reference.Case(keys, measure, (METRIC,), seeds) for keys, measure in rows]
    comments = ["# ns-2.35 (Debian ns2 2.35+dfsg-5), gain.py beside this file", reference.seeds_comment(seeds)]
    metric = reference.Metric(METRIC, reference.six_digits, reference.six_digits)
    return reference.Figure(name, comments, columns, [metric], cases)


def wireless():
    for rate in (11, 54):
        for number, acks in enumerate(ACKS):
            yield (acks, f"{rate} Mb/s"), transfer(20, rate, 4, nrsack=number, buffer=32768, queue=50, loss=1)


def near_a_server():
    for kib in (64, 128, 256, 512):
        for number, acks in enumerate(ACKS):
            yield (acks, f"{kib}K"), transfer(400, 1000, 2.6, nrsack=number, buffer=1024 * kib, loss=0.00166,
                                              window=4_000_000)


def rates():
    for rate in (0.5, 1, 2, 3, 10, 100, 1000):
        for loss in (0.1, 0.3, 0.5, 1, 2, 3):
            for number, acks in enumerate(ACKS):
                yield ((acks, f"{rate} Mb/s", f"{loss} %"),
                       transfer(20, rate, 45, nrsack=number, buffer=32768, queue=50, loss=loss))


def large_buffers():
    for kib in (128, 230, 256, 512):
        for loss in (0.001, 0.002, 0.003, 0.006, 0.012, 0.03, 0.06, 0.095, 0.2):
            for number, acks in enumerate(ACKS):
                if (kib, acks) != (230, "sack"):
                    yield ((acks, f"{kib}K", f"{loss} %"),
                           transfer(200, 1000, 5, nrsack=number, buffer=1024 * kib, loss=loss, window=4_000_000))


def figures():
    yield figure("5.4", ("acks", "rate"), 40, wireless())
    yield figure("5.5", ("acks", "buffer"), 10, near_a_server())
    yield figure("10", ("acks", "rate", "loss"), 20, rates())
    yield figure("12", ("acks", "buffer", "loss"), 10, large_buffers())
