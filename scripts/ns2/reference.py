"""What the scripts scenarios/*/reference/run share: they run ns-2.35 and write or check the files of reference numbers.

A script has a list of figures and calls `main` with it.
"""
import argparse
import concurrent.futures
import csv
import dataclasses
import math
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
# An independent draw below 2^31. Seeds 1, 2, 3, ... give dependent runs: they fill all words of a linear generator.
SEEDS = [int(line) for line in (HERE / "seeds.txt").read_text().split()]
BUILD_SCRIPT = "scenarios/caro/reference/build"
# One packet of data that arrives (r) or is lost (d), and its TSN.
DATA = re.compile(rb"([rd]) ([0-9.]+) \d+ (\d+) sctp \d+ -------D \d+ \S+ \S+ \d+ (\d+) ")

# Seconds until a full packet reaches the core link of paths.tcl and may be lost there, and from there until it arrives.
UNTIL_CORE = 0.010 + 0.00012
FROM_CORE = 0.0012 + 0.010 + 0.00012


def sent_at(data, core_delay=25):
    """When a packet of data was sent, if no other one was before it; the core link's delay is in milliseconds."""
    since = UNTIL_CORE
    if data[1] == b"r":
        since += core_delay / 1000 + FROM_CORE
    return float(data[2]) - since


def two_places(value):
    return f"{value:.2f}"


def six_digits(value):
    return f"{value:.6g}"


@dataclasses.dataclass
class Metric:
    name: str
    mean: callable = two_places
    median: callable = two_places
    value: callable = six_digits
    # Whether the file has the values of every run.
    values: bool = True


@dataclasses.dataclass
class Case:
    """One row for each metric.

    `measure(program, seed)` gives a value for each of them, or None for a run that did not end.
    """

    keys: tuple
    measure: callable
    metrics: tuple
    # The random seeds, in order; one that changes nothing if there is only one run.
    seeds: list
    # Which simulator: "stock", or "rfc2960", built by the script `build`.
    build: str = "stock"


@dataclasses.dataclass
class Figure:
    name: str
    comments: list
    columns: tuple
    metrics: list
    cases: list
    # Columns after `incomplete`.
    tail: tuple = ("median", "values")


class Failure(Exception):
    """What the user is told."""


def seeds_comment(seeds):
    text = "# Random seeds far apart (seeds 1, 2, 3, ... give dependent runs), in the order of the values: "
    return text + " ".join(str(seed) for seed in seeds)


def simulate(program, script, words, read):
    """What `read` makes of the lines that the script prints. The simulator ends as soon as it has what it wants."""
    call = [str(word) for word in [program, script, *words]]
    with subprocess.Popen(call, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL) as process:
        result = read(process.stdout)
        # Unless it was read to its end it still has something to print.
        ended = not process.stdout.read(1)
        if ended and process.wait() != 0:
            raise Failure(f"ns failed with status {process.returncode}: {' '.join(call)}")
        process.kill()
    return result


def half_width(values):
    """Of the 90 % interval of the mean. The expansion of Student's quantile is accurate to 0.001 from 8 values on."""
    if len(values) < 2:
        return math.nan
    n, z = len(values) - 1, statistics.NormalDist().inv_cdf(0.95)
    t = z + (z**3 + z) / (4 * n) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * n**2)
    t += (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * n**3)
    return t * statistics.stdev(values) / len(values) ** 0.5


class Runs:
    """The values of a case for its first seeds."""

    def __init__(self, case, programs, number, pool):
        self.case = case
        self.seeds = case.seeds[:number]
        self.complete = len(self.seeds) == len(case.seeds)
        program = programs[case.build]
        self.results = list(pool.map(lambda seed: case.measure(program, seed), self.seeds))

    def texts(self, metric):
        """One for each run, as in the file."""
        where = self.case.metrics.index(metric.name)
        return ["-" if result is None else metric.value(result[where]) for result in self.results]

    def row(self, figure, metric):
        """The row of the file, by the names of its columns."""
        where = self.case.metrics.index(metric.name)
        values = [result[where] for result in self.results if result is not None]
        row = dict(zip(figure.columns, self.case.keys), metric=metric.name)
        if values:
            row.update(mean=metric.mean(statistics.mean(values)), ci90=f"{half_width(values):.3g}")
            row.update(median=metric.median(statistics.median(values)))
        row.update(n=len(values), incomplete=len(self.results) - len(values))
        row["values"] = " ".join(self.texts(metric)) if metric.values else ""
        return row


def header(figure):
    return [*figure.columns, "metric", "mean", "ci90", "n", "incomplete", *figure.tail]


def write(figure, runs, out):
    """The file of a figure."""
    for line in figure.comments:
        print(line, file=out)
    table = csv.DictWriter(out, header(figure), extrasaction="ignore", lineterminator="\n")
    table.writeheader()
    for metric in figure.metrics:
        table.writerows(run.row(figure, metric) for run in runs if metric.name in run.case.metrics)


def committed(path):
    """The rows of a committed file by their first columns."""
    if not path.exists():
        raise Failure(f"there is no {path} to compare with; write it with --out {path.parent}")
    with path.open() as lines:
        rows = list(csv.DictReader(line for line in lines if not line.startswith("#")))
    return {tuple(row.values())[: list(row).index("metric") + 1]: row for row in rows}


def alike(ours, theirs):
    """Whether two means differ by at most one in the last digit: those of the files were sums in another order."""
    digits = len(theirs.partition(".")[2])
    return abs(float(ours) - float(theirs)) < 1.01 * 10.0**-digits


def differences(figure, run, metric, row):
    """What is compared, and what of it differs."""
    if metric.values:
        texts, kept = run.texts(metric), row["values"].split()[: len(run.seeds)]
        wrong = [f"seed {seed}: {ours}, in the file {theirs}"
                 for seed, ours, theirs in zip(run.seeds, texts, kept) if ours != theirs]
        if len(kept) < len(texts):
            wrong.append(f"the file has {len(kept)} values")
        compared = len(texts)
    else:
        wrong, compared = [], 0
    if run.complete:
        ours = run.row(figure, metric)
        for name in ("n", "incomplete", "mean"):
            same = str(ours.get(name)) == row[name]
            if name == "mean" and len(run.seeds) > 1:
                same = alike(ours.get(name, "nan"), row[name])
            if not same:
                wrong.append(f"{name} {ours.get(name)}, in the file {row[name]}")
        compared += 0 if metric.values else 1
    return compared, wrong


def check(figure, runs, path):
    """Compares with the committed file; the number of rows that differ."""
    rows = committed(path)
    compared = bad = left = 0
    for metric in figure.metrics:
        for run in runs:
            if metric.name not in run.case.metrics:
                continue
            key = (*run.case.keys, metric.name)
            if key not in rows:
                raise Failure(f"{path} has no row {', '.join(key)}")
            number, wrong = differences(figure, run, metric, rows.pop(key))
            compared += number
            left += number == 0
            bad += bool(wrong)
            for text in wrong:
                print(f"{figure.name}: {', '.join(key)}: {text}")
    text = f"{figure.name}: {compared} numbers of {len(runs)} set-ups compared, {bad} rows differ"
    if left:
        text += f"; {left} rows have only a mean, which --seeds all compares"
    if rows:
        text += f"; {len(rows)} rows of the file were not run"
    print(text, flush=True)
    return bad


def programs(options, figures):
    """The simulators that the figures need, or what to do about a missing one."""
    needed = {case.build for figure in figures for case in figure.cases}
    found = {"stock": options.ns, "rfc2960": options.ns_rfc2960}
    for build in needed:
        if found[build] and shutil.which(found[build]):
            continue
        if build == "stock":
            raise Failure(f"{found[build]} is not there: install Debian's package ns2, or name the program with --ns")
        raise Failure(f"{found[build] or 'a simulator'} with the constants of RFC 2960 is not there: build it with "
                      f"{BUILD_SCRIPT} DIR and name it with --ns-rfc2960 DIR/ns, or leave its rows out with "
                      "--only stock")
    return found


def arguments(description, names):
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("figure", nargs="*", metavar="FIGURE", help=f"which ones: {', '.join(names)} (all of them)")
    parser.add_argument("--out", type=pathlib.Path, metavar="DIR",
                        help="directory for the files FIGURE.csv (the standard output)")
    parser.add_argument("--check", action="store_true",
                        help="compare with the committed files; the status is 1 if a number differs")
    parser.add_argument("--seeds", metavar="N",
                        help="only the first N seeds of each row, or all (2 with --check, otherwise all)")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="simulators at a time (1)")
    parser.add_argument("--ns", default="ns", metavar="PROGRAM", help="ns-2.35, as in Debian's package ns2 (ns)")
    parser.add_argument("--ns-rfc2960", default=os.environ.get("NS_RFC2960"), metavar="PROGRAM",
                        help=f"the same with the constants of RFC 2960, see {BUILD_SCRIPT} ($NS_RFC2960)")
    parser.add_argument("--only", choices=("stock", "rfc2960"), help="only the rows of one of the two simulators")
    options = parser.parse_args()
    unknown = [name for name in options.figure if name not in names]
    if unknown:
        parser.error(f"there is no figure {unknown[0]}; there are {', '.join(names)}")
    if options.check and options.out:
        parser.error("--check writes no files: leave --out out")
    if options.seeds not in (None, "all") and not (options.seeds.isdigit() and int(options.seeds) > 0):
        parser.error(f"--seeds takes a number from 1 on or all, not {options.seeds}")
    if options.jobs < 1:
        parser.error("--jobs takes a number from 1 on")
    return options


def run(options, figures, directory):
    seeds = options.seeds or ("2" if options.check else "all")
    number = None if seeds == "all" else int(seeds)
    if options.only:
        for figure in figures:
            figure.cases = [case for case in figure.cases if case.build == options.only]
        figures = [figure for figure in figures if figure.cases]
    found = programs(options, figures)
    bad = 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for figure in figures:
            runs = [Runs(case, found, number, pool) for case in figure.cases]
            if options.check:
                bad += check(figure, runs, directory / f"{figure.name}.csv")
            elif options.out:
                options.out.mkdir(parents=True, exist_ok=True)
                with (options.out / f"{figure.name}.csv").open("w") as out:
                    write(figure, runs, out)
            else:
                write(figure, runs, sys.stdout)
    return bad


def main(description, figures, script):
    """The command of a directory of reference numbers, `script` being the path of its file."""
    options = arguments(description, [figure.name for figure in figures])
    chosen = [figure for figure in figures if not options.figure or figure.name in options.figure]
    try:
        bad = run(options, chosen, pathlib.Path(script).resolve().parent)
    except (Failure, OSError) as error:
        sys.exit(f"run: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
    sys.exit(1 if bad else 0)
