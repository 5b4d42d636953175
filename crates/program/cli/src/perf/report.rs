//! Output of `perf` as text and as JSON.

use serde::Serialize;

use super::Mode;
use super::latency::{LatencyReport, time};
use super::meter::{Interval, PathInterval};
use super::protocol::{Plan, Report};
use crate::failure::Failure;
use crate::numbers::Numbers;
use crate::options::Transport;
use crate::output::{count, filled, grouped, print, print_json, table};
use crate::report::{PathEvent, megabits};

/// Maximum number of associations whose path events are shown in text; JSON has all of them.
const SHOWN: usize = 4;

/// A document of `--json`.
#[derive(Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(crate) enum Event<'a> {
    /// All associations are established.
    Connected { peer: &'a str, transport: Transport, associations: usize, seconds: f64 },
    /// An interval has ended.
    Interval(&'a Interval),
    /// The measurement has ended.
    Summary(Box<Summary>),
}

/// One direction of a measurement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Direction {
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
    /// The longest time of any association, in seconds.
    pub(crate) seconds: f64,
    pub(crate) bits_per_second: f64,
    /// The longest time in which a receiver received nothing, if receivers report it.
    pub(crate) longest_gap_seconds: Option<f64>,
}

impl Direction {
    /// The sum over the reports of receivers.
    pub(crate) fn of<'a>(reports: impl Iterator<Item = &'a Report>) -> Option<Self> {
        let mut all = Self::default();
        let mut any = false;
        for report in reports {
            any = true;
            all.messages += report.messages;
            all.bytes += report.bytes;
            all.seconds = all.seconds.max(report.seconds);
            let gaps = [all.longest_gap_seconds, report.longest_gap_seconds];
            all.longest_gap_seconds = gaps.into_iter().flatten().reduce(f64::max);
        }
        all.bits_per_second = megabits(all.bytes, all.seconds) * 1e6;
        any.then_some(all)
    }

    fn text(&self) -> String {
        let gap = self.longest_gap_seconds;
        format!(
            "{}, {} in {:.3} s: {:.1} Mb/s{}",
            count(self.bytes, "byte"),
            count(self.messages, "message"),
            self.seconds,
            self.bits_per_second / 1e6,
            gap.map_or(String::new(), |gap| format!("\n            longest gap {}", time(gap))),
        )
    }
}

/// One association.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct AssociationReport {
    /// What the peer received from this side.
    pub(crate) sent: Option<Report>,
    /// What this side received.
    pub(crate) received: Option<Report>,
    /// Time from the request until this side knew that everything had arrived.
    pub(crate) seconds: Option<f64>,
    pub(crate) error: Option<String>,
    pub(crate) counters: Option<Numbers>,
    pub(crate) events: Vec<PathEvent>,
}

/// The end of a measurement.
#[derive(Debug, Serialize)]
pub(crate) struct Summary {
    pub(crate) peer: String,
    pub(crate) transport: Transport,
    pub(crate) mode: Mode,
    pub(crate) plan: Plan,
    /// Time from the first handshake to the last byte.
    pub(crate) seconds: f64,
    /// Time from the first handshake until all associations were set up.
    pub(crate) connect_seconds: f64,
    pub(crate) sent: Option<Direction>,
    pub(crate) received: Option<Direction>,
    pub(crate) round_trip: Option<LatencyReport>,
    /// Jain's index of the associations' throughput: 1 if all are equal.
    pub(crate) fairness: Option<f64>,
    /// Processor time of this process, and of the peer's.
    pub(crate) cpu_seconds: Option<f64>,
    pub(crate) peer_cpu_seconds: Option<f64>,
    /// Counters and measurements of this side, summed over all associations.
    pub(crate) counters: Option<Numbers>,
    /// Each path over the whole measurement.
    pub(crate) paths: Vec<PathInterval>,
    pub(crate) associations: Vec<AssociationReport>,
}

/// Jain's index: (sum x)^2 / (n * sum x^2).
pub(crate) fn fairness(values: &[f64]) -> Option<f64> {
    let (sum, squares) =
        values.iter().fold((0.0, 0.0), |(sum, squares), x| (sum + x, squares + x * x));
    (squares > 0.0).then(|| sum * sum / (values.len() as f64 * squares))
}

/// The paths over `seconds` seconds. Throughput is that of user data, including retransmissions.
pub(crate) fn paths_text(paths: &[PathInterval], seconds: f64) -> String {
    if paths.is_empty() {
        return String::new();
    }
    let sum = |of: fn(&PathInterval) -> u64| paths.iter().map(of).sum::<u64>();
    let (sent, received) =
        (sum(|p| p.totals.data_bytes_sent), sum(|p| p.totals.data_bytes_received));
    let shown = [sent >= received / 16, received >= sent / 16, true, true, true];
    let rate = |bytes| format!("{:.1}", megabits(bytes, seconds));
    let row = |first: [String; 2], cells: [String; 5]| {
        let cells = cells.into_iter().zip(shown).filter_map(|(cell, show)| show.then_some(cell));
        first.into_iter().chain(cells).collect::<Vec<_>>()
    };
    let heading = ["Mb/s out", "Mb/s in", "resent", "timeouts", "rtt"].map(str::to_owned);
    let mut rows = vec![row(["path", "state"].map(str::to_owned), heading)];
    rows.extend(paths.iter().map(|path| {
        let cells = [
            rate(path.totals.data_bytes_sent),
            rate(path.totals.data_bytes_received),
            grouped(path.totals.retransmitted_chunks),
            grouped(path.totals.timeouts),
            path.srtt_seconds.map_or("-".to_owned(), time),
        ];
        row([format!("{} -> {}", path.local, path.remote), state(path)], cells)
    }));
    table(&rows)
}

/// The state of a path, with the number of associations unless all have the same state.
pub(super) fn state(path: &PathInterval) -> String {
    let all = path.associations;
    let state = match (path.active, path.potentially_failed) {
        (active, _) if active == all => "active".to_owned(),
        (0, 0) => "not active".to_owned(),
        (0, failed) if failed == all => "potentially failed".to_owned(),
        (0, failed) => format!("potentially failed in {failed}"),
        (active, 0) => format!("active in {active}"),
        (active, failed) => format!("active in {active}, potentially failed in {failed}"),
    };
    match path.primary {
        0 => state,
        primary if primary == path.associations => format!("{state}, primary"),
        primary => format!("{state}, primary in {primary}"),
    }
}

impl Summary {
    /// Prints the summary; with `paths`, also all paths and buffers.
    pub(crate) fn tell(self, json: bool, paths: bool) -> Result<(), Failure> {
        if json {
            return print_json(&Event::Summary(Box::new(self)));
        }
        print(&filled(&self.text(paths)))
    }

    fn text(&self, paths: bool) -> String {
        let associations = self.associations.len();
        let towards = if self.mode == Mode::Receive { "from" } else { "to" };
        let mut text = format!("{} {towards} {} over {}", self.mode, self.peer, self.transport);
        if associations > 1 {
            text.push_str(&format!(", {}", count(associations as u64, "association")));
        }
        text.push_str(&format!(": {:.3} s\n", self.seconds));
        text.push_str(&format!("  set up in {}\n", time(self.connect_seconds)));
        if let Some(sent) = &self.sent {
            text.push_str(&format!("  sent      {}\n", sent.text()));
        }
        if let Some(received) = &self.received {
            text.push_str(&format!("  received  {}\n", received.text()));
        }
        if let Some(latency) = &self.round_trip {
            text.push_str(&latency.text());
        }
        if let Some(fairness) = self.fairness.filter(|_| associations > 1) {
            text.push_str(&format!("  fairness (Jain's index) {fairness:.4}\n"));
        }
        text.push_str(&self.processors());
        let events = self.associations.iter().take(SHOWN).flat_map(|a| &a.events);
        let events: Vec<_> = events.filter(|event| !event.ordinary).collect();
        for event in &events {
            text.push_str(&format!("  at {:.3} s: {}\n", event.seconds, event.text));
        }
        if let Some(counters) = self.counters.as_ref().filter(|_| paths) {
            text.push_str(&counters.sender_text());
        }
        if paths || !events.is_empty() {
            text.push_str(&paths_text(&self.paths, self.transfer_seconds()));
        }
        text
    }

    /// The duration of the transfer without handshakes and shutdowns.
    fn transfer_seconds(&self) -> f64 {
        let directions = [self.sent, self.received].into_iter().flatten();
        directions.map(|d| d.seconds).reduce(f64::max).unwrap_or(self.seconds)
    }

    /// Processor time used on both sides.
    fn processors(&self) -> String {
        let bytes = self.sent.map_or(0, |d| d.bytes) + self.received.map_or(0, |d| d.bytes);
        let mut parts = Vec::new();
        for (who, seconds) in [("here", self.cpu_seconds), ("peer", self.peer_cpu_seconds)] {
            let Some(seconds) = seconds else { continue };
            let mut part = format!("{who} {seconds:.2} s");
            // For fewer bytes, the figure would measure mainly the program itself.
            if bytes >= 1_000_000 && self.mode != Mode::Ping {
                part.push_str(&format!(" ({:.2} s/GB)", seconds / (bytes as f64 / 1e9)));
            }
            parts.push(part);
        }
        if parts.is_empty() {
            return String::new();
        }
        format!("  processor {}\n", parts.join(", "))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    #[test]
    fn jains_index() {
        assert_eq!(fairness(&[]), None);
        assert_eq!(fairness(&[0.0, 0.0]), None);
        assert_eq!(fairness(&[5.0, 5.0, 5.0]), Some(1.0));
        assert_eq!(fairness(&[1.0, 0.0, 0.0, 0.0]), Some(0.25));
    }

    pub(crate) fn path() -> PathInterval {
        let mut totals = anabranch::PathTotals::default();
        totals.data_bytes_sent = 1_000_000;
        totals.retransmitted_chunks = 20;
        PathInterval {
            local: [10, 0, 0, 1].into(),
            remote: [10, 0, 0, 2].into(),
            associations: 3,
            active: 3,
            potentially_failed: 0,
            primary: 3,
            totals,
            cwnd: 40_000,
            flight: 0,
            srtt_seconds: Some(0.02),
            rto_seconds: 1.0,
            mtu: 1500,
        }
    }

    #[test]
    fn paths_have_a_throughput_and_a_state() {
        let text = paths_text(&[path()], 2.0);
        let row = text.lines().nth(1).unwrap().split_whitespace().collect::<Vec<_>>();
        let expected = ["10.0.0.1", "->", "10.0.0.2", "active,", "primary", "4.0", "20", "0"];
        assert_eq!(row[..8], expected, "one direction only: {text}");
        assert!(text.lines().all(|line| line.len() <= 80), "{text}");
        let mut both = path();
        both.totals.data_bytes_received = 500_000;
        assert!(paths_text(&[both], 2.0).contains("Mb/s in"));
        for (active, potentially_failed, expected) in [
            (3, 0, "active"),
            (2, 0, "active in 2"),
            (2, 1, "active in 2, potentially failed in 1"),
            (0, 3, "potentially failed"),
            (0, 1, "potentially failed in 1"),
            (0, 0, "not active"),
        ] {
            let path = PathInterval { active, potentially_failed, primary: 0, ..path() };
            assert_eq!(state(&path), expected);
        }
        let path = PathInterval { primary: 1, ..path() };
        assert_eq!(state(&path), "active, primary in 1");
    }

    #[test]
    fn directions_add_up() {
        assert_eq!(Direction::of([].iter()), None);
        let report = |bytes, seconds, gap| Report {
            messages: 1,
            bytes,
            seconds,
            longest_gap_seconds: gap,
            cpu_seconds: None,
        };
        let reports = [report(1000, 1.0, Some(0.5)), report(1000, 2.0, None)];
        let both = Direction::of(reports.iter()).unwrap();
        assert_eq!(both.longest_gap_seconds, Some(0.5));
        assert_eq!((both.messages, both.bytes, both.seconds), (2, 2000, 2.0));
        assert_eq!(both.bits_per_second, 8000.0);
    }
}
