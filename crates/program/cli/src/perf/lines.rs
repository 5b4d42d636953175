//! Prints a line for each interval.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use super::latency::time;
use super::meter::{Interval, PathInterval, Totals};
use super::report::{Event, paths_text, state};
use crate::failure::Failure;
use crate::output::{count, filled, print, print_json};
use crate::report::megabits;

/// Reports one interval after another.
#[derive(Debug)]
pub(crate) struct Lines {
    json: bool,
    /// With a table of the paths.
    paths: bool,
    /// The directions of the messages.
    sent: bool,
    received: bool,
    headed: bool,
    /// At least one interval was reported.
    told: bool,
    /// The last reported states of the paths that have been active.
    states: HashMap<(IpAddr, IpAddr), String>,
}

impl Lines {
    pub(crate) fn new(json: bool, paths: bool, sent: bool, received: bool) -> Self {
        Self { json, paths, sent, received, headed: false, told: false, states: HashMap::new() }
    }

    /// Reports an interval.
    pub(crate) fn tell(&mut self, interval: &Interval) -> Result<(), Failure> {
        self.told = true;
        if self.json {
            return print_json(&Event::Interval(interval));
        }
        let text = self.text(interval);
        print(&text)
    }

    /// Reports the time since the last interval, if that is useful. Intervals last `length`.
    pub(crate) fn tell_rest(&mut self, rest: &Interval, length: Duration) -> Result<(), Failure> {
        if self.counts(rest, length) { self.tell(rest) } else { Ok(()) }
    }

    /// Whether to report the rest. A very short rest, such as the end of the last message, has no
    /// meaningful rate. But JSON output needs at least one interval, so that it can be drawn.
    fn counts(&self, rest: &Interval, length: Duration) -> bool {
        let data = self.sent || self.received;
        let moved = rest.round_trip.is_some() || (data && rest.totals != Totals::default());
        let seconds = rest.to_seconds - rest.from_seconds;
        moved && ((self.json && !self.told) || seconds >= length.as_secs_f64() / 10.0)
    }

    fn text(&mut self, interval: &Interval) -> String {
        let mut text = String::new();
        let ping = interval.round_trip.is_some();
        if !self.headed && !ping {
            self.headed = true;
            text.push_str(&self.heading());
        }
        let from_to = format!("{:.1}-{:.1} s", interval.from_seconds, interval.to_seconds);
        text.push_str(&format!("{from_to:>16}"));
        match &interval.round_trip {
            Some(latency) => text.push_str(&format!(
                "  {}, p50 {}, p99 {}, max {}",
                count(latency.count, "round trip"),
                time(latency.p50),
                time(latency.p99),
                time(latency.max)
            )),
            None => text.push_str(&self.figures(interval)),
        }
        text.push('\n');
        for (path, state) in self.changes(&interval.paths) {
            text.push_str(&filled(&format!("  {} -> {} is {state}\n", path.0, path.1)));
        }
        if self.paths {
            let seconds = interval.to_seconds - interval.from_seconds;
            text.push_str(&paths_text(&interval.paths, seconds));
        }
        text
    }

    fn heading(&self) -> String {
        let mut text = format!("{:>16}", "interval");
        for (name, shown) in [("sent", self.sent), ("received", self.received)] {
            if shown {
                text.push_str(&format!("{name:>12}{:>11}", "Mb/s"));
            }
        }
        text.push_str(&format!("{:>9}", "resent"));
        text.push('\n');
        text
    }

    fn figures(&self, interval: &Interval) -> String {
        let seconds = interval.to_seconds - interval.from_seconds;
        let totals = interval.totals;
        let mut text = String::new();
        for (bytes, shown) in
            [(totals.bytes_sent, self.sent), (totals.bytes_received, self.received)]
        {
            if shown {
                let rate = megabits(bytes, seconds);
                text.push_str(&format!("{:>12}{rate:>11.1}", short(bytes)));
            }
        }
        let resent: u64 = interval.paths.iter().map(|path| path.totals.retransmitted_chunks).sum();
        text.push_str(&format!("{resent:>9}"));
        text
    }

    /// The paths whose state has changed, except those that become active for the first time.
    fn changes(&mut self, paths: &[PathInterval]) -> Vec<((IpAddr, IpAddr), String)> {
        let mut changes = Vec::new();
        for path in paths {
            let key = (path.local, path.remote);
            let state = state(path);
            match self.states.get_mut(&key) {
                Some(known) if *known != state => {
                    known.clone_from(&state);
                    changes.push((key, state));
                }
                Some(_) => {}
                None if path.active > 0 => {
                    self.states.insert(key, state);
                }
                None => {}
            }
        }
        changes
    }
}

/// Bytes in a suitable unit, as in lines of figures: `11.9 MB`.
pub(crate) fn short(bytes: u64) -> String {
    let bytes = bytes as f64;
    match bytes {
        b if b < 1e3 => format!("{b:.0} B"),
        b if b < 1e6 => format!("{:.1} kB", b / 1e3),
        b if b < 1e9 => format!("{:.1} MB", b / 1e6),
        b => format!("{:.2} GB", b / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::tests::path;
    use super::*;

    fn interval(from_seconds: f64, path: PathInterval) -> Interval {
        Interval {
            from_seconds,
            to_seconds: from_seconds + 1.0,
            associations: 3,
            totals: Totals { bytes_sent: 11_912_345, bytes_received: 70, ..Totals::default() },
            round_trip: None,
            paths: vec![path],
        }
    }

    #[test]
    fn an_interval_is_one_line_as_long_as_the_paths_stay() {
        let mut lines = Lines::new(false, false, true, false);
        let text = lines.text(&interval(0.0, path()));
        let expected = "        interval        sent       Mb/s   resent\n       \
                        0.0-1.0 s     11.9 MB       95.3       20\n";
        assert_eq!(text, expected);
        let text = lines.text(&interval(1.0, path()));
        assert_eq!(text, "       1.0-2.0 s     11.9 MB       95.3       20\n");
        let failed = PathInterval { active: 0, potentially_failed: 3, primary: 0, ..path() };
        let text = lines.text(&interval(2.0, failed.clone()));
        assert!(text.ends_with("\n  10.0.0.1 -> 10.0.0.2 is potentially failed\n"), "{text}");
        assert_eq!(lines.text(&interval(3.0, failed)).lines().count(), 1);
        assert!(lines.text(&interval(4.0, path())).ends_with(" is active, primary\n"));
    }

    #[test]
    fn a_rest_counts_if_it_is_long_or_all_there_is() {
        let mut lines = Lines::new(true, false, true, false);
        let rest = |seconds| {
            let rest = interval(3.0, path());
            Interval { to_seconds: rest.from_seconds + seconds, ..rest }
        };
        assert!(lines.counts(&rest(0.001), Duration::from_secs(1)));
        let people = Lines::new(false, false, true, false);
        assert!(!people.counts(&rest(0.001), Duration::from_secs(1)));
        lines.told = true;
        assert!(!lines.counts(&rest(0.001), Duration::from_secs(1)));
        assert!(lines.counts(&rest(0.5), Duration::from_secs(1)));
        let nothing = Interval { totals: Totals::default(), ..rest(0.5) };
        assert!(!lines.counts(&nothing, Duration::from_secs(1)));
    }

    #[test]
    fn all_lines_fit_eighty_columns() {
        let mut lines = Lines::new(false, false, true, true);
        let text = lines.text(&interval(1000.0, path()));
        assert!(text.lines().all(|line| line.len() <= 80), "{text}");
        assert_eq!(text.lines().nth(1).unwrap().len(), text.lines().next().unwrap().len());
    }

    #[test]
    fn bytes_have_a_fitting_unit() {
        let short = [999, 1000, 11_912_345, 2_500_000_000].map(short);
        assert_eq!(short, ["999 B", "1.0 kB", "11.9 MB", "2.50 GB"]);
    }
}
