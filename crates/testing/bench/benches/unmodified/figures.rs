//! The figures: what each of them runs, and its target.

use std::ffi::OsStr;

use anabranch_bench::folder::Folder;
use anabranch_bench::suite::single::{Bench, Sample, Single};
use anabranch_bench::suite::{Target, Trouble};
use serde_json::Value;

use crate::built::Built;
use crate::{host, tcp};

pub(crate) const ALL: &[Single] = &[
    Single {
        key: "run_share",
        title: "iperf3 --sctp with messages of 64 KiB under 'anabranch run', and 'anabranch perf' with the same",
        unit: "ratio",
        target: Target::AtLeast(0.4),
        measure: share,
    },
    Single {
        key: "run_vs_tcp",
        title: "iperf3 --sctp under 'anabranch run', and iperf3 over the kernel's TCP, packets of 1,500 bytes",
        unit: "ratio",
        target: Target::AtLeast(0.4),
        measure: vs_tcp,
    },
    Single {
        key: "run_1k",
        title: "iperf3 --sctp with messages of 1 KiB under 'anabranch run'",
        unit: "Gbit/s",
        target: Target::None,
        measure: |bench| Ok(Sample { value: iperf(bench, "1K")?, notes: Vec::new() }),
    },
    Single {
        key: "run_ping",
        title: "64 bytes there and back, median: a program under 'anabranch run', and the same with the C library",
        unit: "ratio",
        target: Target::AtMost(1.7),
        measure: ping,
    },
    Single {
        key: "run_idle",
        title: "memory of the engine for each of 10,000 idle associations of a program",
        unit: "bytes",
        target: Target::None,
        measure: idle,
    },
    Single {
        key: "shim_iperf",
        title: "iperf3 under 'anabranch run --tcp' at both ends, and over the kernel's TCP, packets of 1,500 bytes",
        unit: "ratio",
        target: Target::AtLeast(0.4),
        measure: tcp::iperf,
    },
    Single {
        key: "shim_redis",
        title: "redis-benchmark, one connection, under 'anabranch run --tcp' at both ends, and over the kernel's TCP",
        unit: "ratio",
        target: Target::AtLeast(0.35),
        measure: tcp::redis,
    },
    Single {
        key: "shim_fallback",
        title: "99th percentile of the time to connect to a host that is known to have no SCTP, above that of TCP",
        unit: "ms",
        target: Target::AtMost(1.0),
        measure: tcp::fallback,
    },
    Single {
        key: "shim_fallback_first",
        title: "the same for hosts that are not known, and whose UDP port says nothing",
        unit: "ms",
        target: Target::AtMost(50.0),
        measure: tcp::first,
    },
    Single {
        key: "shim_other",
        title: "a datagram and a message through a pipe under 'anabranch run --tcp', and without the library",
        unit: "ratio",
        target: Target::AtMost(1.05),
        measure: tcp::other,
    },
];

/// 5201, the port of iperf3, is 1451 in the kernel's table.
const IPERF: &str = r#"
"$1" run --library "$2" -- iperf3 -s -1 >/dev/null &
tcp_listens 1451
"$1" run --library "$2" --udp-port 0 -- iperf3 --sctp -c 127.0.0.1 -l "$3" -t "$4" -J
wait $!
"#;

pub(crate) const TCP: &str = r#"
iperf3 -s -1 >/dev/null &
tcp_listens 1451
iperf3 -c 127.0.0.1 -l 64K -t "$1" -J
wait $!
"#;

/// 9899 is 26AB there.
const PERF: &str = r#"
"$1" perf server --listen 127.0.0.1:5000 >/dev/null &
udp_is_bound 26AB
"$1" perf client 127.0.0.1:5000 --size 64Ki --time "$2s" --interval 0s --json
kill $!
"#;

/// With the program for the kernel's SCTP, and with that for the library.
const PING: &str = r#"
"$1" run --library "$2" -- "$3" echo &
udp_is_bound 26AB
"$1" run --library "$2" --udp-port 0 -- "$3" ping "$5"
wait $!
ANABRANCH_UDP_PORT=9899 "$4" echo &
udp_is_bound 26AB
ANABRANCH_UDP_PORT=0 ANABRANCH_REMOTE_UDP_PORT=9899 "$4" ping "$5"
wait $!
"#;

/// Prints KiB of both engines and both programs with one association, and with all.
const IDLE: &str = r#"
resident() {
    for process; do
        sed -n 's/^VmRSS:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$process/status"
    done
}
child() { cat "/proc/$1/task/$1/children"; }
said() { until grep -qs "$1" "$2"; do sleep 0.05; done; }
"$1" run --library "$2" -- "$3" hold & server=$!
udp_is_bound 26AB
"$1" run --library "$2" --udp-port 0 -- "$3" idle "$4" >"$5" & client=$!
said begun "$5"
all="$client $server $(child $client) $(child $server)"
resident $all
said done "$5"
resident $all
"#;

fn share(bench: &Bench<'_>) -> Result<Sample, Trouble> {
    let built = Built::find(bench)?;
    let said = host::run(PERF, &[built.program.as_os_str(), OsStr::new(seconds(bench))])?;
    let summary = said.lines().last().unwrap_or_default();
    let perf = number(summary, &["sent", "bits_per_second"])? * 1e-9;
    let run = iperf(bench, "64K")?;
    Ok(Sample { value: run / perf, notes: vec![("Gbit/s", run), ("Gbit/s of perf", perf)] })
}

fn vs_tcp(bench: &Bench<'_>) -> Result<Sample, Trouble> {
    let tcp = received(&host::run(TCP, &[OsStr::new(seconds(bench))])?)?;
    let run = iperf(bench, "64K")?;
    Ok(Sample { value: run / tcp, notes: vec![("Gbit/s", run), ("Gbit/s of TCP", tcp)] })
}

pub(crate) fn seconds(bench: &Bench<'_>) -> &'static str {
    if bench.quick() { "1" } else { "10" }
}

/// Gbit/s of iperf3 with messages of this size under `anabranch run`.
fn iperf(bench: &Bench<'_>, size: &str) -> Result<f64, Trouble> {
    let built = Built::find(bench)?;
    let (program, library) = (built.program.as_os_str(), built.preload.as_os_str());
    let arguments = [program, library, OsStr::new(size), OsStr::new(seconds(bench))];
    received(&host::run(IPERF, &arguments)?)
}

/// Gbit/s in a report of iperf3.
pub(crate) fn received(report: &str) -> Result<f64, Trouble> {
    Ok(number(report, &["end", "sum_received", "bits_per_second"])? * 1e-9)
}

/// A number in a JSON document.
fn number(document: &str, keys: &[&str]) -> Result<f64, Trouble> {
    let document: Value = serde_json::from_str(document).map_err(Trouble::failed)?;
    let found = keys.iter().try_fold(&document, |value, key| value.get(key));
    let number = found.and_then(Value::as_f64);
    number.ok_or_else(|| Trouble::Failed(format!("no {} in {document}", keys.join("."))))
}

/// The numbers that a script prints.
pub(crate) fn numbers<const COUNT: usize>(said: &str) -> Result<[f64; COUNT], Trouble> {
    let numbers: Option<Vec<f64>> = said.split_whitespace().map(|word| word.parse().ok()).collect();
    let numbers = numbers.and_then(|numbers| numbers.try_into().ok());
    numbers.ok_or_else(|| Trouble::Failed(format!("these are not {COUNT} numbers: {said}")))
}

fn ping(bench: &Bench<'_>) -> Result<Sample, Trouble> {
    let (built, folder) = (Built::find(bench)?, Folder::new().map_err(Trouble::failed)?);
    let (ends, of_library) = (built.ends(&folder, false)?, built.ends(&folder, true)?);
    let count = bench.many(100_000).to_string();
    let files = [&built.program, &built.preload, &ends, &of_library].map(|file| file.as_os_str());
    let said = host::run(PING, &[&files[..], &[OsStr::new(&count)]].concat())?;
    let [run, library] = numbers(&said)?.map(|nanoseconds: f64| nanoseconds * 1e-3);
    Ok(Sample { value: run / library, notes: vec![("us", run), ("us of the C library", library)] })
}

fn idle(bench: &Bench<'_>) -> Result<Sample, Trouble> {
    let (built, folder) = (Built::find(bench)?, Folder::new().map_err(Trouble::failed)?);
    let ends = built.ends(&folder, false)?;
    let count = bench.many(10_000);
    let (log, text) = (folder.file("log"), count.to_string());
    let files = [&built.program, &built.preload, &ends].map(|file| file.as_os_str());
    let arguments = [&files[..], &[OsStr::new(&text), log.as_os_str()]].concat();
    let kib: [f64; 8] = numbers(&host::run(IDLE, &arguments)?)?;
    let each = |place: usize| (kib[place + 4] - kib[place]) * 1024.0 / (count - 1) as f64;
    let notes = vec![("server's engine", each(1)), ("client", each(2)), ("server", each(3))];
    Ok(Sample { value: each(0), notes })
}
