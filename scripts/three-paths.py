#!/usr/bin/env python3
"""Compares three paths with one: reads the rows of 'anabranch lab new three' in pandas, from CSV and,
optionally, from Parquet, which must be the same; and a run over time. scripts/three-paths makes all of them.

    anabranch lab new three
    anabranch lab run three.toml --csv runs.csv --parquet runs.parquet
    anabranch lab trace three.toml --set way=all-paths --csv trace.csv
    scripts/three-paths.py runs.csv [runs.parquet] [--trace trace.csv]
"""

import argparse

import pandas

parser = argparse.ArgumentParser()
parser.add_argument("csv")
parser.add_argument("parquet", nargs="?")
parser.add_argument("--trace")
arguments = parser.parse_args()

# Seeds have 64 bits.
runs = pandas.read_csv(arguments.csv, dtype={"run": "uint64", "seed": "uint64"})
# A numeric axis is numeric here, too; each run has its own row.
assert runs["loss (%)"].dtype.kind in "fi", runs.dtypes
assert not runs.duplicated(["loss (%)", "way", "run"]).any()

# Each row names what made it, so that tables of several commits can be joined.
made_by = ["program", "commit", "scenario_sha256", "command"]
assert list(runs.columns[-4:]) == made_by and len(runs[made_by].drop_duplicates()) == 1, runs[made_by]

if arguments.parquet:
    other = pandas.read_parquet(arguments.parquet)
    assert other["loss (%)"].dtype == "float64" and other["seed"].dtype == "uint64", other.dtypes
    assert list(other.columns) == list(runs.columns), other.columns
    pandas.testing.assert_frame_equal(other, runs, check_dtype=False, check_exact=True)
    print(f"{len(other)} rows of {len(other.columns)} columns are the same in Parquet")

paths = [name for name in runs.columns if name.startswith("data_packets_sent_path")]
assert len(paths) == 3, paths
runs["satellite (%)"] = 100 * runs["data_packets_sent_path3"] / runs[paths].sum(axis=1)

goodput = runs.pivot_table(index="loss (%)", columns="way", values="goodput_kbit_s", aggfunc="median")
# Variants have the same seeds, so runs with the same number form pairs.
pairs = runs.pivot_table(index=["loss (%)", "run"], columns="way", values="goodput_kbit_s")
gain = 100 * (pairs["all-paths"] / pairs["one-path"] - 1)
table = goodput.assign(
    gain=gain.groupby("loss (%)").median(),
    satellite=runs[runs["way"] == "all-paths"].groupby("loss (%)")["satellite (%)"].mean(),
)
print(table.round(2).to_string())

if arguments.trace:
    trace = pandas.read_csv(arguments.trace, dtype={"seed": "uint64"})
    # Seeds and hashes lead from one file to the other.
    assert trace["seed"].nunique() == 1 and list(trace.columns[-4:]) == made_by, trace.dtypes
    assert trace["commit"][0] == runs["commit"][0], (trace["commit"][0], runs["commit"][0])
    goodput = trace[trace["series"] == "goodput_kbit_s"]
    windows = trace[trace["series"] == "cwnd_bytes"].pivot(index="time_s", columns="path", values="value")
    queues = trace[trace["series"] == "queue_packets"].groupby("path")["value"].max()
    assert len(goodput) > 1 and windows.shape[1] == 3 and len(queues) == 3, trace
    print(f"a run of {trace['time_s'].max():.1f} s: at most {goodput['value'].max():.0f} kbit/s;",
          "longest queues in packets:", ", ".join(f"{path} {int(n)}" for path, n in queues.items()))
