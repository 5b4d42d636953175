//! The table of `anabranch demo --headless --cut`.

use std::time::Duration;

use serde::Serialize;

use super::compute::{Carried, CutConditions, PathSettings};
use super::events::{Event, Events, LATEST};
use super::summary::{Outcome, summary};

/// A file over two paths. The first path is cut. Times are in seconds from the start of the handshake.
#[derive(Debug, Serialize)]
pub(crate) struct CutReport {
    bytes: u64,
    paths: Vec<Path>,
    cut_s: f64,
    repair_s: Option<f64>,
    rows: Vec<Row>,
    summary: String,
}

#[derive(Debug, Serialize)]
struct Path {
    rate_kbit: f64,
    rtt_ms: f64,
}

/// One way to carry the file.
#[derive(Debug, Serialize)]
struct Row {
    carriage: &'static str,
    /// Bytes of the file that arrived.
    arrived_bytes: u64,
    /// `None` if it did not arrive completely.
    completed_s: Option<f64>,
    /// When the connection ended before that.
    failed_s: Option<f64>,
    longest_pause_s: f64,
    /// When the computation ended.
    ended_s: f64,
    /// Hash of all packets and their times.
    trace: String,
}

/// Computes the page's file over its paths. The first path is cut at a time, and may be repaired.
///
/// # Errors
/// The times are not possible.
pub(crate) fn cut_report(cut_s: f64, repair_s: Option<f64>) -> Result<CutReport, String> {
    if let Some(repair) = repair_s.filter(|repair| *repair <= cut_s) {
        return Err(format!("--repair {repair} must be later than --cut {cut_s}"));
    }
    let mut events = Vec::new();
    for (at, is_cut) in [(Some(cut_s), true), (repair_s, false)] {
        let Some(at) = at else { continue };
        if !(0.0..=LATEST).contains(&at) {
            return Err(format!("{at} s must lie between 0 and {LATEST}"));
        }
        let at = Duration::from_millis((at * 1e3).round() as u64);
        events.push(Event { path: 0, at, is_cut });
    }
    let path = |rate, rtt| PathSettings { rate, rtt: Duration::from_millis(rtt) };
    let conditions = CutConditions {
        bytes: 12_000_000,
        paths: [path(10_000_000, 40), path(5_000_000, 60)],
        loss: 0.0,
        seed: 1,
        events: Events::new(events)?,
    };
    let outcomes = Outcome::compute_all(&conditions, &Carried::ALL)?;
    let path = |path: &PathSettings| Path {
        rate_kbit: path.rate as f64 / 1e3,
        rtt_ms: path.rtt.as_secs_f64() * 1e3,
    };
    Ok(CutReport {
        bytes: conditions.bytes as u64,
        paths: conditions.paths.iter().map(path).collect(),
        cut_s,
        repair_s,
        rows: outcomes.iter().map(row).collect(),
        summary: summary(&conditions.events, &outcomes),
    })
}

fn row(outcome: &Outcome) -> Row {
    let done = &outcome.done;
    let seconds = |time: Duration| time.as_secs_f64();
    Row {
        carriage: outcome.way.key(),
        arrived_bytes: done.arrivals.last().map_or(0, |(_, bytes)| *bytes),
        completed_s: done.completed.map(seconds),
        failed_s: done.failed.as_ref().map(|(at, _)| seconds(*at)),
        longest_pause_s: seconds(outcome.pause()),
        ended_s: seconds(done.ended),
        trace: format!("{:016x}", done.trace),
    }
}

impl CutReport {
    /// A table, and sentences about it.
    pub(crate) fn text(&self) -> String {
        let head = ["carried by", "arrived", "complete", "longest pause"];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        for row in &self.rows {
            let name = Carried::from_key(row.carriage).map_or("", Carried::name);
            let percent = 100 * row.arrived_bytes / self.bytes.max(1);
            let complete = row.completed_s.map_or("never".to_owned(), |at| format!("{at:.1} s"));
            let pause = format!("{:.2} s", row.longest_pause_s);
            rows.push(vec![name.to_owned(), format!("{percent} %"), complete, pause]);
        }
        format!("{}\n{}\n", crate::output::table(&rows), self.summary)
    }
}
