//! The report of a run of a network.

use std::io::Write as _;
use std::path::Path;

use anabranch_emulator::{Summary, Way};
use anabranch_impair::LinkStats;
use serde::Serialize;

use crate::emulate::sink;
use crate::failure::Failure;
use crate::output::{count, grouped, printable, table};

#[derive(Serialize)]
struct Report<'a> {
    schema: &'static str,
    version: &'static str,
    seed: u64,
    links: Vec<WayReport<'a>>,
    astray: u64,
    late_median_ns: u64,
    late_p99_ns: u64,
    cpu_ns: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    replayed: Option<Replayed>,
}

#[derive(Serialize)]
struct WayReport<'a> {
    link: &'a str,
    from: &'a str,
    to: &'a str,
    #[serde(flatten)]
    statistics: &'a LinkStats,
}

#[derive(Serialize)]
struct Replayed {
    compared: u64,
    in_the_log: u64,
}

/// Writes the report as JSON.
pub(super) fn save(path: &Path, ways: &[Way], summary: &Summary, seed: u64) -> Result<(), Failure> {
    let links = ways.iter().zip(&summary.statistics).map(|(way, statistics)| WayReport {
        link: &way.link,
        from: &way.from,
        to: &way.to,
        statistics,
    });
    let report = Report {
        schema: "emulate",
        version: env!("CARGO_PKG_VERSION"),
        seed,
        links: links.collect(),
        astray: summary.astray,
        late_median_ns: summary.late.0,
        late_p99_ns: summary.late.1,
        cpu_ns: summary.cpu,
        replayed: summary.replayed.map(|(compared, in_the_log)| Replayed { compared, in_the_log }),
    };
    let failed = |error: String| {
        Failure::failed(format!("the report {} cannot be written: {error}", path.display()))
    };
    let text = serde_json::to_string_pretty(&report).map_err(|error| failed(error.to_string()))?;
    let written = sink::open(path)
        .and_then(|mut out| out.write_all((text + "\n").as_bytes()).and_then(|()| out.flush()));
    written.map_err(|error| failed(error.to_string()))
}

/// Prints the report to standard error, because standard output belongs to the command.
pub(super) fn tell(ways: &[Way], summary: &Summary) {
    let heading =
        ["link", "offered", "delivered", "lost", "cut", "queue full", "early", "too big", "late"];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    for (way, statistics) in ways.iter().zip(&summary.statistics) {
        let mut row = vec![format!("{}: {} > {}", way.link, way.from, way.to)];
        let counts = [
            statistics.offered,
            statistics.delivered,
            statistics.lost_model,
            statistics.lost_down,
            statistics.queue_drops,
            statistics.early_drops,
            statistics.too_big,
            statistics.reordered,
        ];
        row.extend(counts.map(grouped));
        rows.push(row);
    }
    let mut text = table(&rows);
    let under_way: u64 = summary.statistics.iter().map(under_way).sum();
    if under_way > 0 {
        text.push_str(&format!("  {} still in transit at the end\n", count(under_way, "packet")));
    }
    if let Some((compared, all)) = summary.replayed {
        text.push_str(&format!(
            "  {compared} of the {all} packets in the log compared: all alike\n"
        ));
    }
    // If standard error is closed, nobody reads the report.
    let _ = std::io::stderr().write_all(printable(&text).as_bytes());
}

/// Number of packets that were still in a link at the end.
fn under_way(statistics: &LinkStats) -> u64 {
    let s = statistics;
    let gone = [s.delivered, s.lost_model, s.lost_down, s.queue_drops, s.early_drops, s.too_big];
    (s.offered + s.duplicated).saturating_sub(gone.iter().sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_neither_delivered_nor_lost_is_under_way() {
        let mut statistics = LinkStats::default();
        (statistics.offered, statistics.duplicated) = (6, 1);
        (statistics.delivered, statistics.lost_model, statistics.queue_drops) = (3, 1, 1);
        assert_eq!(under_way(&statistics), 2);
    }
}
