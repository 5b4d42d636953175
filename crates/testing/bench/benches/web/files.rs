//! A large file compared with a plain transfer.

use std::fs::{self, File};
use std::io::Write as _;
use std::process::Command;

use anabranch_bench::children::{Server, output};
use anabranch_bench::folder::Folder;
use anabranch_bench::suite::Trouble;
use anabranch_bench::suite::single::{Bench, Sample};
use serde_json::Value;

use crate::requests::serve;

const NAME: &str = "large.bin";
const MEGABYTE: usize = 1_000_000;

pub(crate) fn vs_perf(bench: &Bench<'_>) -> Result<Sample, Trouble> {
    let megabytes = bench.many(1000);
    let folder = Folder::new().map_err(Trouble::failed)?;
    large_file(&folder, megabytes).map_err(Trouble::failed)?;
    let (program, bytes) = (bench.program()?, megabytes * MEGABYTE as u64);

    let says = folder.file("perf.log");
    let mut command = Command::new(&program);
    command.args(["perf", "server", "--listen", "127.0.0.1:5201", "--udp-port", "0", "--json"]);
    let mut server = Server::start(&mut command, &says)?;
    let port = server.until(&says, |said| {
        serde_json::from_str::<Value>(said.lines().next()?).ok()?.get("udp_port")?.as_u64()
    })?;
    let mut client = Command::new(&program);
    client.args(["perf", "client", &format!("127.0.0.1:5201;udp={port}"), "--json"]);
    client.args(["--interval", "0s", "--bytes", &bytes.to_string()]);
    let perf = output(&mut client)?;
    let perf_cpu = server.end();
    let perf = rate_of_perf(&perf)?;

    let (server, port) = serve(&program, &folder)?;
    let url = format!("sctp://127.0.0.1:80;udp={port}/{NAME}");
    let mut client = Command::new(&program);
    let got = output(client.args(["get", &url, "-o", "/dev/null", "--json"]))?;
    let file_cpu = server.end();
    let file = rate_of_get(&got, bytes)?;
    let gigabytes = bytes as f64 / 1e9;
    let notes = vec![
        ("file MB/s", file),
        ("perf MB/s", perf),
        ("serve CPU s/GB", file_cpu / gigabytes),
        ("perf server CPU s/GB", perf_cpu / gigabytes),
    ];
    Ok(Sample { value: file / perf, notes })
}

fn large_file(folder: &Folder, megabytes: u64) -> std::io::Result<()> {
    let root = folder.file("www");
    fs::create_dir(&root)?;
    let piece: Vec<u8> = (0..MEGABYTE).map(|at| (at * 7) as u8).collect();
    let mut file = File::create(root.join(NAME))?;
    for _ in 0..megabytes {
        file.write_all(&piece)?;
    }
    Ok(())
}

fn document(said: &str) -> Result<Value, Trouble> {
    let last = said.lines().last().unwrap_or_default();
    serde_json::from_str(last).map_err(Trouble::failed)
}

/// Megabytes per second, as measured by the receiver in a summary.
fn rate_of_perf(said: &str) -> Result<f64, Trouble> {
    let summary = document(said)?;
    let bits = summary.pointer("/sent/bits_per_second").and_then(Value::as_f64);
    bits.map(|bits| bits / 8e6).ok_or_else(|| Trouble::Failed(format!("no rate in '{said}'")))
}

/// Megabytes per second, from connecting to the last byte.
fn rate_of_get(said: &str, bytes: u64) -> Result<f64, Trouble> {
    let summary = document(said)?;
    if summary.get("bytes").and_then(Value::as_u64) != Some(bytes) {
        return Err(Trouble::Failed(format!("the file did not arrive completely: '{said}'")));
    }
    let seconds = summary.get("seconds").and_then(Value::as_f64).filter(|seconds| *seconds > 0.0);
    let seconds = seconds.ok_or_else(|| Trouble::Failed(format!("no time in '{said}'")))?;
    Ok(bytes as f64 / 1e6 / seconds)
}
