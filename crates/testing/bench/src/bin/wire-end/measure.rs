//! Clocks, and the line that an end prints.

use std::io::Write;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use serde_json::json;

use crate::Result;

/// CPU seconds of this process so far.
pub(crate) fn cpu() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// Reports the listening port to the parent process.
pub(crate) fn listening(port: u16) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "listening {port}")?;
    Ok(out.flush()?)
}

/// Counts bytes, starting with the first one.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    start: Option<(Instant, f64)>,
    bytes: u64,
    last: Duration,
}

impl Meter {
    /// A meter that starts now.
    pub(crate) fn started() -> Self {
        Self { start: Some((Instant::now(), cpu())), ..Self::default() }
    }

    /// Time since the start.
    pub(crate) fn elapsed(&self) -> Duration {
        self.start.map_or(Duration::ZERO, |(start, _)| start.elapsed())
    }

    /// Bytes per second.
    pub(crate) fn rate(&self) -> f64 {
        self.bytes as f64 / self.last.as_secs_f64()
    }

    /// Records bytes that were sent or received.
    pub(crate) fn add(&mut self, bytes: usize) {
        if self.start.is_none() {
            self.start = Some((Instant::now(), cpu()));
        }
        self.bytes += bytes as u64;
    }

    /// Stops the time: everything was received.
    pub(crate) fn stop(&mut self) {
        self.last = self.elapsed();
    }

    /// Prints bytes, seconds and CPU seconds.
    pub(crate) fn report(&self) {
        self.report_with(&json!({}));
    }

    /// Prints the same with additional values.
    pub(crate) fn report_with(&self, more: &serde_json::Value) {
        let used = self.start.map_or(0.0, |(_, before)| cpu() - before);
        let seconds = self.last.as_secs_f64();
        let more = json!({ "bytes": self.bytes, "seconds": seconds, "cpu": used, "more": more });
        println!("{more}");
    }
}

/// Round-trip times.
#[derive(Debug)]
pub(crate) struct Pings {
    nanos: Vec<u64>,
    warm_up: usize,
    cpu: f64,
}

impl Pings {
    pub(crate) fn new(count: usize) -> Self {
        Self { nanos: Vec::with_capacity(count), warm_up: count / 10, cpu: cpu() }
    }

    /// Records a round trip; the first tenth does not count.
    pub(crate) fn add(&mut self, time: Duration) {
        if self.warm_up > 0 {
            self.warm_up -= 1;
            self.cpu = cpu();
            return;
        }
        self.nanos.push(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Prints percentiles in microseconds and CPU seconds.
    pub(crate) fn report(mut self) {
        let used = cpu() - self.cpu;
        self.nanos.sort_unstable();
        let last = self.nanos.len().saturating_sub(1);
        let at = |part: usize| {
            self.nanos.get(last * part / 1000).map_or(0.0, |nanos| *nanos as f64 / 1000.0)
        };
        let (p50, p99) = (at(500), at(990));
        let round_trips = self.nanos.len();
        println!("{}", json!({ "p50": p50, "p99": p99, "cpu": used, "round_trips": round_trips }));
    }
}

/// Prints how long many associations took, the CPU time per second while they were idle, and the
/// memory of this process.
pub(crate) fn memory(seconds: f64, idle_cpu: f64) -> Result<()> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes: f64 = line
        .and_then(|line| line.trim().trim_end_matches("kB").trim().parse().ok())
        .ok_or("this system does not report the memory of a process")?;
    let rss = kilobytes * 1024.0 / 1e6;
    println!("{}", json!({ "seconds": seconds, "rss": rss, "idle_cpu": idle_cpu }));
    Ok(())
}
