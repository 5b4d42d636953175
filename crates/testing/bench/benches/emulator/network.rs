//! Runs of the emulator: two hosts and a link.

use std::fs;
use std::path::Path;
use std::process::Command;

use anabranch_bench::folder::Folder;
use anabranch_bench::suite::Trouble;
use serde_json::Value;

use crate::ends::{MARK, PORT};
use crate::machine::{self, PROCESSORS};

/// The reports of an emulator run and of its sink.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) report: Value,
    pub(crate) sink: Value,
}

impl Ran {
    /// A quantile of the delay error in milliseconds, by the clock `whose`: the sink's `kernel` or its `program`.
    pub(crate) fn error(&self, whose: &str, part: &str) -> f64 {
        let found = self.sink.get(whose).and_then(|errors| errors.get(part));
        found.and_then(Value::as_f64).unwrap_or(f64::NAN) * 1e-6
    }

    /// A number from the sink's report.
    pub(crate) fn sink(&self, key: &str) -> f64 {
        self.sink.get(key).and_then(Value::as_f64).unwrap_or(f64::NAN)
    }

    /// Packets that the link has delivered from the first host to the second, and processor time in microseconds per
    /// packet delivered in either direction.
    pub(crate) fn cost(&self) -> (f64, f64) {
        let links = self.report.get("links").and_then(Value::as_array);
        let delivered = |link: &Value| link.get("delivered").and_then(Value::as_f64);
        let counts: Vec<f64> = links.into_iter().flatten().filter_map(delivered).collect();
        let all: f64 = counts.iter().sum();
        let spent = self.report.get("cpu_ns").and_then(Value::as_f64).unwrap_or(f64::NAN);
        (counts.first().copied().unwrap_or(0.0), spent / all / 1000.0)
    }

    /// How late the emulator handed on packets by its own measurement, in microseconds, 99th percentile.
    pub(crate) fn late(&self) -> f64 {
        self.report.get("late_p99_ns").and_then(Value::as_f64).unwrap_or(f64::NAN) / 1000.0
    }
}

/// Runs a source at the first host of a network and a sink at the second. `link` is the configuration of the link.
/// `kind` is `udp`; `paced-udp`, where the source sleeps between packets; `timed-udp`, where the sink also reports the
/// difference between delays and the delay in nanoseconds given as `more`; or `tcp`.
pub(crate) fn run(
    program: &Path,
    link: &str,
    kind: &str,
    source: &[String],
    more: &str,
) -> Result<Ran, Trouble> {
    let folder = Folder::new().map_err(Trouble::failed)?;
    let text = format!(
        "seed = 1\n[[host]]\nname = \"a\"\n[[host]]\nname = \"b\"\n[[link]]\nname = \"line\"\n\
         between = [\"a\", \"b\"]\n{link}\n"
    );
    let (network, report) = (folder.file("net.toml"), folder.file("report.json"));
    let sink = folder.file("sink.json");
    fs::write(&network, text).map_err(Trouble::failed)?;
    let own = std::env::current_exe().map_err(Trouble::failed)?;
    let at = format!("exec '{}' {MARK} {kind}-sink '{}' {more}", own.display(), sink.display());
    let mut command = Command::new(program);
    command.arg("emulate").arg(&network).arg("--quiet").arg("--report").arg(&report);
    command.args(["--at", "b", &at, "--"]).arg(&own).arg(MARK).arg(format!("{kind}-source"));
    command.arg(format!("10.0.0.2:{PORT}")).args(source);
    // Datagrams measure one processor. The ends of a connection need both processors as much as the emulator does.
    let output = match kind {
        "tcp" => command.output(),
        _ => machine::pinned(PROCESSORS[0], || command.output()),
    };
    let output = output.map_err(Trouble::failed)?;
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if !output.status.success() {
        let missing = ["does not allow", "cannot be made"].iter().any(|part| said.contains(part));
        return Err(if missing { Trouble::Missing(said) } else { Trouble::Failed(said) });
    }
    Ok(Ran { report: read(&report)?, sink: read(&sink)? })
}

/// A JSON document.
pub(crate) fn read(path: &Path) -> Result<Value, Trouble> {
    let text = fs::read_to_string(path)
        .map_err(|error| Trouble::Failed(format!("an end has left nothing behind: {error}")))?;
    serde_json::from_str(&text).map_err(Trouble::failed)
}
