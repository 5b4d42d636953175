//! Measurements of two processes that communicate over the loopback interface.

use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use anabranch_bench::suite::Options;
use serde_json::Value;

use crate::heap;
use crate::measure::Sample;

/// The program with this project's and other transports; each end is a separate process.
const WIRE_END: &str = env!("CARGO_BIN_EXE_wire-end");

/// Number of associations in the figures about many.
pub(crate) const MANY: usize = 10_000;

/// Number of associations that share the loopback interface.
pub(crate) const SHARED: usize = 100;

/// The engines or transports at both ends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ends {
    /// A transport of `wire-end` by its name there, on one thread per process.
    Wire(&'static str),
    /// The same on tokio's multi-threaded runtime.
    WireMulti(&'static str),
    /// This project with this many associations on one endpoint.
    Crowded(usize),
    /// usrsctp.
    Usrsctp,
}

/// The measured quantity.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Task {
    /// Megabytes per second with messages of `message` bytes.
    Bulk { message: usize },
    /// Microseconds of the median round trip of 64 bytes, or of the slowest in a hundred.
    Ping { slowest: bool },
    /// Seconds that many associations take.
    ManySeconds,
    /// Megabytes of memory of a client with many associations.
    ManyMemory,
    /// Jain's index of many associations' rates.
    Fairness,
}

/// Takes one measurement.
pub(crate) fn sample(ends: Ends, task: Task, options: &Options) -> Result<Sample, String> {
    match (task, ends) {
        (Task::Bulk { message }, Ends::Usrsctp) => usrsctp(message, options),
        (Task::Bulk { message }, _) => bulk(ends, message, options),
        (Task::Ping { slowest }, _) => ping(ends, slowest, options),
        (Task::ManySeconds, Ends::Crowded(count)) => crowd(count, "seconds"),
        (Task::ManyMemory, Ends::Crowded(count)) => crowd(count, "rss"),
        (Task::Fairness, Ends::Crowded(count)) => fairness(count, options),
        _ => Err("is not measured with these ends".into()),
    }
}

/// A child process that is killed when this value is dropped.
struct End {
    name: String,
    child: Child,
    out: BufReader<Box<dyn Read>>,
}

impl Drop for End {
    fn drop(&mut self) {
        // Killing a process that has already ended fails, which does not matter.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl End {
    fn start(program: &str, arguments: &[String]) -> Result<Self, String> {
        let name = format!("{program} {}", arguments.join(" "));
        let mut command = Command::new(program);
        heap::as_usual(&mut command);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|error| format!("{name}: {error}"))?;
        let out = child.stdout.take().ok_or("a pipe is missing")?;
        Ok(Self { name, child, out: BufReader::new(Box::new(out)) })
    }

    /// Reads the next line.
    fn line(&mut self) -> Result<String, String> {
        let mut line = String::new();
        match self.out.read_line(&mut line) {
            Ok(0) => Err(format!("{}: ended early", self.name)),
            Ok(_) => Ok(line.trim().to_owned()),
            Err(error) => Err(format!("{}: {error}", self.name)),
        }
    }

    /// The rest of its lines after it has ended.
    fn finish(mut self) -> Result<Vec<String>, String> {
        let mut text = String::new();
        self.out.read_to_string(&mut text).map_err(|error| format!("{}: {error}", self.name))?;
        let status = self.child.wait().map_err(|error| format!("{}: {error}", self.name))?;
        if !status.success() {
            return Err(format!("{}: {status}", self.name));
        }
        Ok(text.lines().map(str::to_owned).collect())
    }

    /// The JSON in its last line.
    fn report(self) -> Result<Value, String> {
        let name = self.name.clone();
        let lines = self.finish()?;
        let last = lines.last().ok_or(format!("{name}: says nothing"))?;
        serde_json::from_str(last).map_err(|error| format!("{name}: {error}"))
    }
}

fn words(text: &[&str]) -> Vec<String> {
    text.iter().map(|word| (*word).to_owned()).collect()
}

/// Starts both ends of `wire-end`, waits for them and returns their reports, that of the listening
/// end first.
fn pair(
    roles: [&str; 2],
    transport: &str,
    arguments: &[String],
    pinned: bool,
) -> Result<[Value; 2], String> {
    let all = |role: &str, port: Option<&str>, cpu: &str| {
        let mut all = words(&[role, transport]);
        all.extend(port.map(str::to_owned));
        all.extend_from_slice(arguments);
        if pinned {
            all.extend(words(&["--pin", cpu]));
        }
        all
    };
    let mut listens = End::start(WIRE_END, &all(roles[0], None, "0"))?;
    let line = listens.line()?;
    let port = line.strip_prefix("listening ").ok_or("no port is printed")?;
    let connects = End::start(WIRE_END, &all(roles[1], Some(port), "1"))?.report()?;
    // Ends that serve pings report nothing.
    let served = if roles[0] == "echo" { Value::Null } else { listens.report()? };
    Ok([served, connects])
}

fn number(value: &Value, key: &str) -> Result<f64, String> {
    value.get(key).and_then(Value::as_f64).ok_or(format!("'{key}' is not reported"))
}

fn arguments(ends: Ends) -> Result<(&'static str, Vec<String>), String> {
    match ends {
        Ends::Wire(transport) => Ok((transport, Vec::new())),
        Ends::WireMulti(transport) => Ok((transport, words(&["--runtime", "multi"]))),
        Ends::Crowded(count) => Ok(("anabranch", words(&["--associations", &count.to_string()]))),
        Ends::Usrsctp => Err("usrsctp is not measured so".into()),
    }
}

fn seconds(options: &Options) -> f64 {
    if options.quick { 0.3 } else { 2.0 }
}

fn bulk(ends: Ends, message: usize, options: &Options) -> Result<Sample, String> {
    let (transport, mut rest) = arguments(ends)?;
    rest.extend(words(&["--size", &message.to_string()]));
    rest.extend(words(&["--seconds", &seconds(options).to_string()]));
    let [sink, source] = pair(["sink", "source"], transport, &rest, false)?;
    transfer(
        number(&sink, "bytes")?,
        number(&sink, "seconds")?,
        number(&source, "cpu")?,
        number(&sink, "cpu")?,
    )
}

/// The rate of a transfer, and the CPU seconds per gigabyte at either end.
fn transfer(bytes: f64, seconds: f64, sender: f64, receiver: f64) -> Result<Sample, String> {
    if bytes <= 0.0 || seconds <= 0.0 {
        return Err("nothing arrived".into());
    }
    let notes = vec![
        ("sender CPU s/GB", sender / (bytes / 1e9)),
        ("receiver CPU s/GB", receiver / (bytes / 1e9)),
    ];
    Ok(Sample { value: bytes / seconds / 1e6, cpu: sender + receiver, notes })
}

fn ping(ends: Ends, slowest: bool, options: &Options) -> Result<Sample, String> {
    let (transport, mut rest) = arguments(ends)?;
    let count = if options.quick { "2000" } else { "20000" };
    rest.extend(words(&["--size", "64", "--count", count]));
    // Several threads on one CPU would slow each other down.
    let pinned = !matches!(ends, Ends::WireMulti(_));
    let [_, ping] = pair(["echo", "ping"], transport, &rest, pinned)?;
    let per_trip = number(&ping, "cpu")? * 1e6 / number(&ping, "round_trips")?;
    let notes = vec![("CPU us a round trip", per_trip)];
    let value = number(&ping, if slowest { "p99" } else { "p50" })?;
    Ok(Sample { value, cpu: number(&ping, "cpu")?, notes })
}

fn crowd(count: usize, key: &str) -> Result<Sample, String> {
    let (transport, rest) = arguments(Ends::Crowded(count))?;
    let [_, client] = pair(["echo", "crowd"], transport, &rest, false)?;
    let idle = number(&client, "idle_cpu")?;
    let notes = vec![("CPU % while idle", 100.0 * idle)];
    Ok(Sample { value: number(&client, key)?, cpu: 0.0, notes })
}

fn fairness(count: usize, options: &Options) -> Result<Sample, String> {
    let (transport, mut rest) = arguments(Ends::Crowded(count))?;
    rest.extend(words(&["--seconds", &seconds(options).to_string()]));
    let [sink, source] = pair(["sink", "source"], transport, &rest, false)?;
    let index =
        sink.get("more").map_or(Err("no index is printed".into()), |more| number(more, "jain"))?;
    Ok(Sample { value: index, cpu: number(&source, "cpu")?, notes: Vec::new() })
}

/// The peer program on usrsctp, built on first use.
fn usrsctp_program() -> Result<&'static PathBuf, String> {
    static PROGRAM: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let build = || {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../interop/usrsctp/build");
        let output = Command::new(script).output().map_err(|e| format!("{script}: {e}"))?;
        if !output.status.success() {
            let why = String::from_utf8_lossy(&output.stderr);
            return Err(format!("{script} failed (scripts/setup installs usrsctp): {why}"));
        }
        let text = String::from_utf8_lossy(&output.stdout);
        let path = PathBuf::from(text.trim());
        Ok(match path.is_absolute() {
            true => path,
            false => PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../..")).join(path),
        })
    };
    PROGRAM.get_or_init(build).as_ref().map_err(Clone::clone)
}

/// A number in a line such as `sent bytes=1 seconds=2.5`.
fn field(line: &str, key: &str) -> Result<f64, String> {
    let found = line.split_whitespace().find_map(|word| word.strip_prefix(key)?.strip_prefix('='));
    found.and_then(|text| text.parse().ok()).ok_or(format!("no {key} in '{line}'"))
}

fn usrsctp(message: usize, options: &Options) -> Result<Sample, String> {
    let program = usrsctp_program()?.to_string_lossy();
    // usrsctp cannot choose its UDP ports.
    let [here, there] = [(); 2].map(|()| anabranch_ports::free_udp_port().to_string());
    let common =
        ["--mtu", "1500", "--streams", "1", "--size", &message.to_string()].map(str::to_owned);
    let mut listen = words(&["listen", "--mode", "sink", "--local", "127.0.0.1"]);
    listen.extend(words(&["--udp", &here, "--remote-udp", &there, "--associations", "1"]));
    listen.extend_from_slice(&common);
    let mut sink = End::start(&program, &listen)?;
    sink.line()?;
    let mut connect = words(&["connect", "--mode", "source", "--remote", "127.0.0.1"]);
    connect.extend(words(&["--udp", &there, "--remote-udp", &here]));
    connect.extend(words(&["--seconds", &seconds(options).to_string()]));
    connect.extend_from_slice(&common);
    let source = End::start(&program, &connect)?.finish()?;
    let sink = sink.finish()?;
    let find = |lines: &[String], word: &str| {
        let line = lines.iter().find(|line| line.starts_with(word)).cloned();
        line.ok_or(format!("usrsctp did not say '{word}'"))
    };
    let (sent, received) = (find(&source, "sent ")?, find(&sink, "received ")?);
    transfer(
        field(&received, "bytes")?,
        field(&received, "seconds")?,
        field(&sent, "cpu")?,
        field(&received, "cpu")?,
    )
}
