"""What the package costs besides runs: 'rows COUNT', 'import' or 'size'."""

import importlib.util
import json
import subprocess
import sys
import time
import zlib

if importlib.util.find_spec("anabranch") is None:
    print("there is no package anabranch", file=sys.stderr)
    sys.exit(3)


def rows(count):
    """Seconds to bring N rows to polars, whose columns must be the package's own buffers."""
    try:
        import polars
    except ImportError as error:
        print(error, file=sys.stderr)
        sys.exit(3)
    from anabranch import lab

    # Runs that end at once: the rows are what is measured.
    scenario = lab.scenario("caro/2.5").set(
        {"traffic.file.size": "1 KiB"}, profile="rfc9260", policy="AllRtxSame", primary_loss="0 %", alternate_loss="0 %"
    )
    runs = scenario.run(seeds=count, progress=False)
    begin = time.perf_counter()
    first = polars.DataFrame(runs)
    taken = time.perf_counter() - begin
    if len(first) != count:
        sys.exit(f"{len(first)} rows in place of {count}")
    try:
        import pyarrow
    except ImportError:
        return {"value": taken}
    # The interface hands over buffers. Where a table of pyarrow goes through it, its address can be asked for.
    table = pyarrow.table(runs)
    column = table.column("transfer_time_s").chunk(0)
    there = polars.DataFrame(Through(table))["transfer_time_s"]
    if there.to_arrow().buffers()[1].address != column.buffers()[1].address:
        sys.exit("polars has copied a column")
    return {"value": taken}


class Through:
    """A table that offers nothing but its stream."""

    def __init__(self, table):
        self.table = table

    def __arrow_c_stream__(self, schema=None):
        return self.table.__arrow_c_stream__(schema)


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


print(json.dumps({"rows": lambda: rows(int(sys.argv[2])), "import": imported, "size": size}[sys.argv[1]]()))
