//! The figures: what each of them runs, and its target.

use anabranch_bench::suite::single::{Bench, Sample, Single};
use anabranch_bench::suite::{Target, Trouble};

use crate::python;

const LAB: &str = include_str!("lab.py");
const AIO: &str = include_str!("aio.py");
const ROWS: &str = include_str!("rows.py");

/// What the scripts tell besides the value of a figure.
const NOTES: [&str; 15] = [
    "program_cpu_s",
    "workers_cpu_s",
    "shards_cpu_s",
    "wall",
    "shards_wall",
    "seconds_a_run",
    "sctp_us",
    "tcp_us",
    "sctp_cpu_us",
    "tcp_cpu_us",
    "wheel_mb",
    "columns_s",
    "columns",
    "kept_mb",
    "runs",
];

pub(crate) const ALL: &[Single] = &[
    Single {
        key: "python_share",
        title: "caro/2.5: processor time of the runs by 'lab run --jobs 2', and by a pool of two processes of Python",
        unit: "ratio",
        target: Target::AtLeast(0.97),
        measure: |bench| lab(bench, "pool"),
    },
    Single {
        key: "python_wall",
        title: "caro/2.5: time of a pool of two processes once they are up, and of 'lab run --jobs 2'",
        unit: "ratio",
        target: Target::AtMost(1.05),
        measure: |bench| lab(bench, "pool-wall"),
    },
    Single {
        key: "ray_share",
        title: "caro/2.5: processor time of the runs by 'lab run --jobs 2', and by Ray with two nodes of one core",
        unit: "ratio",
        target: Target::AtLeast(0.95),
        measure: |bench| lab(bench, "ray"),
    },
    Single {
        key: "ray_wall",
        title: "caro/2.5: time of Ray with two nodes of one core once they are up, and of 'lab run --jobs 2'",
        unit: "ratio",
        target: Target::AtMost(1.15),
        measure: |bench| lab(bench, "ray-wall"),
    },
    Single {
        key: "plan_cost",
        title: "caro/2.5: what the driver does for a run whoever carries it out, of the time of a run",
        unit: "ratio",
        target: Target::None,
        measure: |bench| lab(bench, "plan"),
    },
    Single {
        key: "arrow_rows",
        title: "a million rows, which the package has as columns, to polars without a copy",
        unit: "s",
        target: Target::AtMost(0.5),
        measure: |bench| run(ROWS, &["rows", if bench.quick() { "2000" } else { "1000000" }]),
    },
    Single {
        key: "runs_memory",
        title: "growth of the process over 100,000 runs whose results nobody keeps",
        unit: "MB",
        target: Target::AtMost(5.0),
        measure: |bench| run(ROWS, &["memory", if bench.quick() { "1000" } else { "100000" }]),
    },
    Single {
        key: "aio_ping",
        title: "64 bytes there and back on asyncio: trips a second over SCTP, and over asyncio's TCP",
        unit: "ratio",
        target: Target::AtLeast(0.7),
        measure: |bench| run(AIO, &["64", &bench.many(20_000).to_string(), "1500 B"]),
    },
    Single {
        key: "aio_bulk",
        title: "16 KB there and back, packets of up to 64 KB as TCP has them on loopback",
        unit: "ratio",
        target: Target::AtLeast(0.8),
        measure: |bench| run(AIO, &["16384", &bench.many(20_000).to_string(), "65532 B"]),
    },
    Single {
        key: "aio_bulk_1500",
        title: "16 KB there and back, packets of 1,500 bytes for SCTP only",
        unit: "ratio",
        target: Target::None,
        measure: |bench| run(AIO, &["16384", &bench.many(20_000).to_string(), "1500 B"]),
    },
    Single {
        key: "import_time",
        title: "import anabranch",
        unit: "ms",
        target: Target::AtMost(50.0),
        measure: |_| run(ROWS, &["import"]),
    },
    Single {
        key: "installed_size",
        title: "the compiled part of the package, compressed as in a wheel",
        unit: "MB",
        target: Target::AtMost(12.0),
        measure: |_| run(ROWS, &["size"]),
    },
];

fn lab(bench: &Bench<'_>, what: &str) -> Result<Sample, Trouble> {
    // First, because building it takes long and the script does not need to wait.
    let program = bench.program()?;
    let program = program.to_str().ok_or_else(|| "the program's name is not text".to_owned())?;
    let seeds = if bench.quick() { "1" } else { "10" };
    let narrowed = if bench.quick() { "few" } else { "all" };
    run(LAB, &[what, program, seeds, narrowed])
}

fn run(script: &str, arguments: &[&str]) -> Result<Sample, Trouble> {
    let told = python::run(script, arguments)?;
    let value = told.get("value").and_then(serde_json::Value::as_f64);
    let value = value.ok_or_else(|| format!("the script tells no value: {told}"))?;
    let note = |name| Some((name, told.get(name)?.as_f64()?));
    Ok(Sample { value, notes: NOTES.into_iter().filter_map(note).collect() })
}
