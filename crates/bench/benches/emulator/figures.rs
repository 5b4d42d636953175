//! The figures: what each runs, and what it must reach.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anabranch_bench::suite::{self, Options, Spread, Target, Trouble, median_notes};
use serde_json::{Map, Value, json};

use crate::capture;
use crate::machine;
use crate::network::{self, Folder, Ran};
use crate::veth;

/// One figure.
#[derive(Debug)]
pub(crate) struct Figure {
    /// Its key in the JSON output.
    pub(crate) key: &'static str,
    /// One line about it.
    pub(crate) title: &'static str,
    /// What the values are.
    pub(crate) unit: &'static str,
    /// What the median must reach.
    pub(crate) target: Target,
    measure: fn(&Bench<'_>) -> Result<Sample, Trouble>,
}

/// One measurement.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub(crate) value: f64,
    /// What else there is to tell.
    pub(crate) notes: Vec<(&'static str, f64)>,
}

/// What measurements share.
struct Bench<'a> {
    program: &'a Path,
    quick: bool,
}

impl Bench<'_> {
    /// So many in a whole run, and a twentieth in a quick one.
    fn many(&self, count: u64) -> u64 {
        if self.quick { count / 20 } else { count }
    }
}

pub(crate) const ALL: &[Figure] = &[
    Figure {
        key: "emulate_cpu_200",
        title: "processor time of the emulator for a packet of 200 bytes, 100,000 of them a second",
        unit: "us",
        target: Target::AtMost(3.0),
        measure: |bench| cpu(bench, 200),
    },
    Figure {
        key: "emulate_cpu_1500",
        title: "processor time of the emulator for a packet of 1500 bytes, 100,000 of them a second",
        unit: "us",
        target: Target::AtMost(3.0),
        measure: |bench| cpu(bench, 1500),
    },
    Figure {
        key: "emulate_pps",
        title: "packets of 200 bytes a second over one link, the emulator on one processor",
        unit: "packets/s",
        target: Target::AtLeast(200_000.0),
        measure: pps,
    },
    Figure {
        key: "emulate_vs_veth",
        title: "kernel TCP over an unimpaired link, and over a veth pair without segmentation offload",
        unit: "ratio",
        target: Target::AtLeast(0.4),
        measure: vs_veth,
    },
    Figure {
        key: "emulate_delay_p99",
        title: "10,000 packets a second: added latency, and error of a delay of 20 ms, the larger p99",
        unit: "ms",
        target: Target::AtMost(0.3),
        measure: delay,
    },
    Figure {
        key: "analyze_vs_tshark",
        title: "processor time of tshark making the same counts of a capture, and of analyze",
        unit: "ratio",
        target: Target::AtLeast(5.0),
        measure: vs_tshark,
    },
];

impl suite::Figure for Figure {
    type Outcome = Vec<Sample>;

    fn key(&self) -> &'static str {
        self.key
    }

    fn title(&self) -> &'static str {
        self.title
    }

    fn unit(&self) -> &'static str {
        self.unit
    }

    fn target(&self) -> Target {
        self.target
    }

    fn run(&self, options: &Options) -> Result<Vec<Sample>, Trouble> {
        let program = machine::program(options.program.as_deref())?;
        let bench = Bench { program: &program, quick: options.quick };
        (0..options.runs).map(|_| (self.measure)(&bench)).collect()
    }

    fn print(&self, samples: &Vec<Sample>) {
        if let Some(all) = Spread::of(samples.iter().map(|sample| sample.value)) {
            let digits = if all.max < 100.0 { 3 } else { 0 };
            let told =
                notes(samples).into_iter().map(|(name, value)| format!("  {name} {value:.3}"));
            let told: String = told.collect();
            println!("  {:.digits$} to {:.digits$}{told}", all.min, all.max);
        }
    }

    fn headline(&self, samples: &Vec<Sample>) -> Option<f64> {
        Some(Spread::of(samples.iter().map(|sample| sample.value))?.median)
    }

    fn details(&self, samples: &Vec<Sample>) -> Map<String, Value> {
        let values: Vec<f64> = samples.iter().map(|sample| sample.value).collect();
        let notes = notes(samples).into_iter().map(|(name, value)| (name.to_owned(), json!(value)));
        let notes = Value::Object(notes.collect());
        Map::from_iter([("values".to_owned(), json!(values)), ("notes".to_owned(), notes)])
    }
}

/// The medians of what else the samples tell.
fn notes(samples: &[Sample]) -> Vec<(&'static str, f64)> {
    median_notes(&samples.iter().map(|sample| sample.notes.as_slice()).collect::<Vec<_>>())
}

fn datagrams(
    bench: &Bench<'_>,
    link: &str,
    size: u64,
    count: u64,
    rate: u64,
) -> Result<Ran, Trouble> {
    let source = [size, count, rate].map(|number| number.to_string());
    let kind = if rate > 0 { "paced-udp" } else { "udp" };
    network::run(bench.program, link, kind, &source, "")
}

fn cpu(bench: &Bench<'_>, size: u64) -> Result<Sample, Trouble> {
    let ran = datagrams(bench, "", size, bench.many(400_000), 100_000)?;
    let (delivered, each) = ran.cost();
    let notes =
        vec![("packets", delivered), ("packets/s", ran.sink("packets") / ran.sink("seconds"))];
    Ok(Sample { value: each, notes })
}

fn pps(bench: &Bench<'_>) -> Result<Sample, Trouble> {
    let ran = datagrams(bench, "", 200, bench.many(2_000_000), 0)?;
    let (delivered, each) = ran.cost();
    let value = ran.sink("packets") / ran.sink("seconds");
    let notes = vec![("packets", delivered), ("us each", each)];
    Ok(Sample { value, notes })
}

fn vs_veth(bench: &Bench<'_>) -> Result<Sample, Trouble> {
    let seconds = if bench.quick { 0.5 } else { 5.0 };
    let veth = veth::tcp(seconds)?;
    let ran = network::run(bench.program, "", "tcp", &[seconds.to_string()], "")?;
    let emulated = ran.sink("bytes") / ran.sink("seconds") * 1e-6;
    let notes = vec![("MB/s", emulated), ("MB/s of veth", veth), ("us each", ran.cost().1)];
    Ok(Sample { value: emulated / veth, notes })
}

/// By the times at which the receiving kernel took packets from the network, which is when the emulator handed them on: what the
/// sink itself waits for a processor is told beside it.
fn delay(bench: &Bench<'_>) -> Result<Sample, Trouble> {
    let count = bench.many(50_000).to_string();
    let source = ["200".to_owned(), count, "10000".to_owned()];
    let timed =
        |link: &str, delay: &str| network::run(bench.program, link, "timed-udp", &source, delay);
    let plain = timed("", "0")?;
    let late = timed("delay = \"20 ms\"", "20000000")?;
    let (added, error) = (plain.error("kernel", "p99"), late.error("kernel", "p99"));
    let notes = vec![
        ("added ms", added),
        ("error ms", error),
        ("median added ms", plain.error("kernel", "p50")),
        ("median error ms", late.error("kernel", "p50")),
        ("p99.9 error ms", late.error("kernel", "p999")),
        ("added as seen by the sink ms", plain.error("program", "p99")),
        ("error as seen by the sink ms", late.error("program", "p99")),
        ("the emulator's own ms", late.late() * 1e-3),
        ("a sleeping thread's ms", machine::lateness() * 1e-6),
    ];
    Ok(Sample { value: added.max(error), notes })
}

fn vs_tshark(bench: &Bench<'_>) -> Result<Sample, Trouble> {
    let folder = Folder::new()?;
    let file = folder.file("generated.pcapng");
    let written = capture::generate(&file, bench.many(1_000_000_000)).map_err(Trouble::failed)?;
    let timed = |command: &mut Command| -> Result<(f64, f64), Trouble> {
        let (begun, before) = (Instant::now(), machine::childrens_seconds());
        let output = command.output().map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => Trouble::Missing("tshark is not installed".into()),
            _ => Trouble::failed(error),
        })?;
        if !output.status.success() {
            return Err(Trouble::Failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
        }
        Ok((machine::childrens_seconds() - before, begun.elapsed().as_secs_f64()))
    };
    let counts = ["retransmission", "out_of_order", "duplicate_ack"]
        .map(|name| format!("COUNT(tcp.analysis.{name})tcp.analysis.{name}"));
    let statistics = format!("io,stat,0,{}", counts.join(","));
    let mut theirs = Command::new("tshark");
    theirs.arg("-r").arg(&file).args(["-q", "-z", &statistics, "-z", "conv,tcp"]);
    let (theirs, theirs_wall) = timed(&mut theirs)?;
    let (ours, ours_wall) =
        timed(Command::new(bench.program).arg("analyze").arg(&file).arg("--json"))?;
    let notes = vec![
        ("GB", written as f64 * 1e-9),
        ("tshark CPU s", theirs),
        ("tshark s", theirs_wall),
        ("analyze CPU s", ours),
        ("analyze s", ours_wall),
    ];
    Ok(Sample { value: theirs / ours, notes })
}
