#!/usr/bin/env python3
"""What three paths give over one: reads the rows of 'anabranch lab new three' in pandas.

    anabranch lab new three
    anabranch lab run three.toml --csv runs.csv
    scripts/three-paths.py runs.csv
"""

import sys

import pandas

runs = pandas.read_csv(sys.argv[1])
# An axis of numbers is one of numbers here, too; each run has a row of its own.
assert runs["loss (%)"].dtype.kind == "f", runs.dtypes
assert not runs.duplicated(["loss (%)", "way", "run"]).any()

paths = [name for name in runs.columns if name.startswith("data_packets_path")]
assert len(paths) == 3, paths
runs["satellite (%)"] = 100 * runs["data_packets_path3"] / runs[paths].sum(axis=1)

goodput = runs.pivot_table(index="loss (%)", columns="way", values="goodput_kbit_s", aggfunc="median")
# Variants have the same seeds, so that runs of one number are pairs.
pairs = runs.pivot_table(index=["loss (%)", "run"], columns="way", values="goodput_kbit_s")
gain = 100 * (pairs["all-paths"] / pairs["one-path"] - 1)
table = goodput.assign(
    gain=gain.groupby("loss (%)").median(),
    satellite=runs[runs["way"] == "all-paths"].groupby("loss (%)")["satellite (%)"].mean(),
)
print(table.round(2).to_string())
