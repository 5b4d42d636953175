"""What the package costs besides runs: 'rows COUNT', 'memory COUNT', 'import' or 'size'."""

import importlib.util
import json
import os
import subprocess
import sys
import time
import zlib

if importlib.util.find_spec("anabranch") is None:
    print("there is no package anabranch", file=sys.stderr)
    sys.exit(3)


def rows(count):
    """Seconds to bring the rows of N runs, which have ended, to polars. Its columns must be the package's own buffers."""
    try:
        import polars
        import pyarrow
    except ImportError as error:
        print(error, file=sys.stderr)
        sys.exit(3)
    from anabranch import lab

    ended = [0.0]

    def progress(done, total):
        ended[0] = time.perf_counter()

    # Runs that end at once: the rows are what is measured. No point may have more than 100,000 runs.
    scenario = lab.scenario("caro/2.5").set(
        {"traffic.file.size": "1 KiB"}, profile="rfc9260", policy="AllRtxSame", primary_loss="0 %"
    )
    losses = scenario.axes["alternate_loss"][:10]
    runs = scenario.set(alternate_loss=losses).run(seeds=count // len(losses), progress=progress)
    # The package turns the runs into columns as soon as the last one has ended.
    columns = time.perf_counter() - ended[0]
    begin = time.perf_counter()
    first = polars.DataFrame(runs)
    taken = time.perf_counter() - begin
    if len(first) != count:
        sys.exit(f"{len(first)} rows in place of {count}")
    # All who ask for the table get the same buffers.
    second, third = polars.DataFrame(runs), pyarrow.table(runs)
    for name in ["seed", "transfer_time_s", "packets_sent"]:
        arrays = [first[name].to_arrow(), second[name].to_arrow(), third.column(name).chunk(0)]
        if len({array.buffers()[1].address for array in arrays}) != 1:
            sys.exit(f"polars has copied {name}")
    return {"value": taken, "columns_s": columns, "columns": first.width}


def memory(count):
    """Megabytes by which the process grows over N runs whose results nobody keeps, and over as many that are kept."""
    from anabranch import lab

    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6

    small = lab.scenario("caro/2.5").set(
        {"traffic.file.size": "1 KiB"}, profile="rfc9260", policy="AllRtxSame", primary_loss="3 %", alternate_loss="0 %"
    )
    part = max(count // 100, 1)
    for _ in range(10):
        small.run(seeds=part, progress=False)
    before = resident()
    for _ in range(100):
        small.run(seeds=part, progress=False)
    grown = resident() - before
    runs = small.run(seeds=count, progress=False)
    return {"value": grown, "kept_mb": resident() - before - grown, "runs": len(runs)}


def imported():
    """Milliseconds of 'import anabranch', above those of Python alone; the best of ten."""
    def best(code):
        taken = []
        for _ in range(10):
            begin = time.perf_counter()
            subprocess.run([sys.executable, "-c", code], check=True)
            taken.append(time.perf_counter() - begin)
        return min(taken)

    return {"value": (best("import anabranch") - best("pass")) * 1000}


def size():
    from anabranch import _anabranch

    with open(_anabranch.__file__, "rb") as file:
        return {"value": len(zlib.compress(file.read(), 9)) / 1e6}


what = {"rows": rows, "memory": memory, "import": imported, "size": size}[sys.argv[1]]
print(json.dumps(what(*map(int, sys.argv[2:]))))
