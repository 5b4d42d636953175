//! The figures: what each of them runs, and its target.

use std::process::Command;
use std::time::Instant;

use anabranch_bench::folder::Folder;
use anabranch_bench::suite::single::{Bench, Sample, Single};
use anabranch_bench::suite::{Target, Trouble};

use crate::capture;
use crate::machine;
use crate::network::{self, Ran};
use crate::veth;

pub(crate) const ALL: &[Single] = &[
    Single {
        key: "emulate_cpu_200",
        title: "processor time of the emulator for a packet of 200 bytes, 100,000 of them a second",
        unit: "us",
        target: Target::AtMost(3.0),
        measure: |bench| cpu(bench, 200),
    },
    Single {
        key: "emulate_cpu_1500",
        title: "processor time of the emulator for a packet of 1500 bytes, 100,000 of them a second",
        unit: "us",
        target: Target::AtMost(3.0),
        measure: |bench| cpu(bench, 1500),
    },
    Single {
        key: "emulate_pps",
        title: "packets of 200 bytes a second over one link, the emulator on one processor",
        unit: "packets/s",
        target: Target::AtLeast(200_000.0),
        measure: pps,
    },
    Single {
        key: "emulate_vs_veth",
        title: "kernel TCP over an unimpaired link, and over a veth pair without segmentation offload",
        unit: "ratio",
        target: Target::AtLeast(0.4),
        measure: vs_veth,
    },
    Single {
        key: "emulate_delay_p99",
        title: "10,000 packets a second: added latency, and error of a delay of 20 ms, the larger p99",
        unit: "ms",
        target: Target::AtMost(0.3),
        measure: delay,
    },
    Single {
        key: "analyze_vs_tshark",
        title: "processor time of tshark making the same counts of a capture, and of analyze",
        unit: "ratio",
        target: Target::AtLeast(5.0),
        measure: vs_tshark,
    },
];

fn datagrams(
    bench: &Bench<'_>,
    link: &str,
    size: u64,
    count: u64,
    rate: u64,
) -> Result<Ran, Trouble> {
    let source = [size, count, rate].map(|number| number.to_string());
    let kind = if rate > 0 { "paced-udp" } else { "udp" };
    network::run(&bench.program()?, link, kind, &source, "")
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
    let seconds = if bench.quick() { 0.5 } else { 5.0 };
    let veth = veth::tcp(seconds)?;
    let ran = network::run(&bench.program()?, "", "tcp", &[seconds.to_string()], "")?;
    let emulated = ran.sink("bytes") / ran.sink("seconds") * 1e-6;
    let notes = vec![("MB/s", emulated), ("MB/s of veth", veth), ("us each", ran.cost().1)];
    Ok(Sample { value: emulated / veth, notes })
}

/// Uses the times when the receiving kernel took packets from the network, which is when the emulator handed them on.
/// The time that the sink itself waits for a processor is reported separately.
fn delay(bench: &Bench<'_>) -> Result<Sample, Trouble> {
    let count = bench.many(50_000).to_string();
    let source = ["200".to_owned(), count, "10000".to_owned()];
    let timed = |link: &str, delay: &str| {
        network::run(&bench.program()?, link, "timed-udp", &source, delay)
    };
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
    let folder = Folder::new().map_err(Trouble::failed)?;
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
        timed(Command::new(bench.program()?).arg("analyze").arg(&file).arg("--json"))?;
    let notes = vec![
        ("GB", written as f64 * 1e-9),
        ("tshark CPU s", theirs),
        ("tshark s", theirs_wall),
        ("analyze CPU s", ours),
        ("analyze s", ours_wall),
    ];
    Ok(Sample { value: theirs / ours, notes })
}
