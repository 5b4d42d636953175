//! Messages over sealed paths, between two processes.

use std::process::Command;

use anabranch_bench::children::Answering;
use anabranch_bench::suite::Trouble;
use anabranch_bench::suite::single::{Bench, Sample};
use serde_json::Value;

/// The program with the transports; each end is a separate process.
const WIRE_END: &str = env!("CARGO_BIN_EXE_wire-end");

/// Bytes of a message.
const MESSAGE: &str = "16384";

/// The rate of a transfer in MB/s, and the CPU seconds of both ends for a gigabyte.
struct Rate {
    megabytes: f64,
    cpu: f64,
}

pub(crate) fn share(bench: &Bench<'_>) -> Result<Sample, Trouble> {
    let (sealed, plain) = (transfer(bench, "sealed")?, transfer(bench, "anabranch")?);
    Ok(beside(&sealed, &plain, ["sealed MB/s", "plain MB/s", "sealed CPU s/GB", "plain CPU s/GB"]))
}

pub(crate) fn vs_quinn(bench: &Bench<'_>) -> Result<Sample, Trouble> {
    let (sealed, quinn) = (transfer(bench, "sealed")?, transfer(bench, "quinn")?);
    Ok(beside(&sealed, &quinn, ["sealed MB/s", "quinn MB/s", "sealed CPU s/GB", "quinn CPU s/GB"]))
}

fn beside(ours: &Rate, theirs: &Rate, names: [&'static str; 4]) -> Sample {
    let values = [ours.megabytes, theirs.megabytes, ours.cpu, theirs.cpu];
    Sample {
        value: ours.megabytes / theirs.megabytes,
        notes: names.into_iter().zip(values).collect(),
    }
}

/// Sends messages for a while with this transport of `wire-end`.
fn transfer(bench: &Bench<'_>, transport: &str) -> Result<Rate, Trouble> {
    let seconds = if bench.quick() { "0.3" } else { "4" };
    let mut sink = Answering::start(Command::new(WIRE_END).args(["sink", transport]))?;
    let line = sink.line()?;
    let port = line.strip_prefix("listening ");
    let port = port.ok_or_else(|| Trouble::Failed(format!("no port in '{line}'")))?;
    let mut source = Command::new(WIRE_END);
    source.args(["source", transport, port, "--size", MESSAGE, "--seconds", seconds]);
    let source = Answering::start(&mut source)?.line()?;
    let (source, sink) = (document(&source)?, document(&sink.line()?)?);
    let bytes = number(&sink, "bytes")?;
    if bytes <= 0.0 {
        return Err(Trouble::Failed("nothing arrived".into()));
    }
    let cpu = number(&source, "cpu")? + number(&sink, "cpu")?;
    let megabytes = bytes / number(&sink, "seconds")? / 1e6;
    Ok(Rate { megabytes, cpu: cpu / (bytes / 1e9) })
}

fn document(line: &str) -> Result<Value, Trouble> {
    serde_json::from_str(line).map_err(Trouble::failed)
}

fn number(report: &Value, key: &str) -> Result<f64, Trouble> {
    let number = report.get(key).and_then(Value::as_f64);
    number.ok_or_else(|| Trouble::Failed(format!("no '{key}' in {report}")))
}
