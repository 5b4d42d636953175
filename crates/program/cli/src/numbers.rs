//! The counters and measurements of associations as JSON and as text, under the names of the
//! engine's table.

use std::collections::BTreeMap;

use anabranch::{Counter, CounterKind, Number, Statistics};
use serde::{Deserialize, Serialize};

use crate::output::{count, grouped};
use crate::perf::time;

/// Numbers of one association, or sums over several, by their names in JSON.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(transparent)]
pub(crate) struct Numbers(BTreeMap<String, Option<serde_json::Number>>);

/// Means over time, with the field that holds the time each one covers.
const MEANS: [(&str, &str); 2] = [
    ("retransmission_queue_utilization", "retransmission_queue_used_seconds"),
    ("recovery_utilization", "recovery_seconds"),
];

fn in_json(number: Number) -> Option<serde_json::Number> {
    match number {
        Number::Whole(count) => Some(count.into()),
        number => serde_json::Number::from_f64(number.as_f64()),
    }
}

impl Numbers {
    /// All numbers of an association.
    pub(crate) fn of(statistics: &Statistics) -> Self {
        Self::by(Statistics::counters(), |row| (row.get)(statistics))
    }

    /// Numbers with the names of these rows.
    pub(crate) fn by<S: 'static>(
        rows: impl Iterator<Item = &'static Counter<S>>,
        value: impl Fn(&Counter<S>) -> Option<Number>,
    ) -> Self {
        Self(rows.map(|row| (row.json_name(), value(row).and_then(in_json))).collect())
    }

    /// The value of a number by its name in JSON; `None` if it is unknown.
    pub(crate) fn get(&self, name: &str) -> Option<f64> {
        self.0.get(name)?.as_ref()?.as_f64()
    }

    /// The value of a count by its name in JSON; 0 if it is unknown.
    pub(crate) fn whole(&self, name: &str) -> u64 {
        self.0.get(name).and_then(Option::as_ref).and_then(serde_json::Number::as_u64).unwrap_or(0)
    }

    /// Sets a number.
    pub(crate) fn set(&mut self, name: &str, value: impl Into<serde_json::Number>) {
        self.0.insert(name.to_owned(), Some(value.into()));
    }

    /// Adds to a number.
    pub(crate) fn add_to(&mut self, name: &str, value: &serde_json::Number) {
        let sum = self.0.entry(name.to_owned()).or_default();
        *sum = match sum.as_ref() {
            None => Some(value.clone()),
            Some(sum) => match (sum.as_u64(), value.as_u64()) {
                (Some(sum), Some(value)) => Some(sum.saturating_add(value).into()),
                _ => serde_json::Number::from_f64(
                    sum.as_f64().unwrap_or(0.0) + value.as_f64().unwrap_or(0.0),
                ),
            },
        };
    }

    /// Adds the numbers of another association. Sizes of queues, times and counts are summed. Means
    /// over time are weighted by the time they cover. Other gauges are omitted.
    pub(crate) fn add(&mut self, other: &Self) {
        for (name, time) in MEANS {
            let parts = [&*self, other]
                .into_iter()
                .filter_map(|numbers| Some((numbers.get(name)?, numbers.get(time)?)));
            let (sum, weight) = parts.fold((0.0, 0.0), |(sum, all), (value, weight)| {
                (sum + value * weight, all + weight)
            });
            let mean = if weight > 0.0 { sum / weight } else { f64::NAN };
            self.0.insert(name.to_owned(), serde_json::Number::from_f64(mean));
        }
        for row in Statistics::counters() {
            let name = row.json_name();
            match row.kind {
                CounterKind::Counter | CounterKind::Amount => {
                    if let Some(Some(value)) = other.0.get(&name) {
                        self.add_to(&name, value);
                    }
                }
                _ if MEANS.iter().any(|(mean, _)| *mean == name) => {}
                _ => {
                    self.0.insert(name, None);
                }
            }
        }
    }

    /// The sender's measurements of its buffers, in a few lines; empty if it sent nothing.
    pub(crate) fn sender_text(&self) -> String {
        let utilization = |name| Some(self.get(name)? * 100.0);
        let Some(percent) = utilization("retransmission_queue_utilization") else {
            return String::new();
        };
        let mut text = format!(
            "  retransmission queue: mean {}, {percent:.1} % not yet acknowledged\n",
            count(self.get("retransmission_queue_mean_bytes").unwrap_or(0.0) as u64, "byte"),
        );
        if let Some(percent) = utilization("recovery_utilization") {
            text.push_str(&format!(
                "    in {} of loss recovery: {percent:.1} % not yet acknowledged\n",
                time(self.get("recovery_seconds").unwrap_or(0.0)),
            ));
        }
        for (what, buffer) in
            [("a full send buffer", "send_buffer"), ("the peer's window", "receive_window")]
        {
            if self.whole(&format!("{buffer}_blocks")) > 0 {
                text.push_str(&format!("  held up by {what}: {}\n", self.blocked_text(buffer)));
            }
        }
        text
    }

    fn blocked_text(&self, buffer: &str) -> String {
        let seconds =
            |what: &str| self.get(&format!("{buffer}_blocked{what}_seconds")).unwrap_or(0.0);
        let times = match self.whole(&format!("{buffer}_blocks")) {
            1 => "once".to_owned(),
            times => format!("{} times", grouped(times)),
        };
        let mut text = format!("{times}, {}", time(seconds("")));
        for (part, what) in [("_recovery", "in loss recovery"), ("_timeouts", "around timeouts")] {
            if seconds(part) > 0.0 {
                text.push_str(&format!(", {} {what}", time(seconds(part))));
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sender(seconds: f64, utilization: Option<f64>) -> Numbers {
        let real = |value| serde_json::Number::from_f64(value).unwrap();
        let mut numbers = Numbers::default();
        numbers.set("retransmission_queue_mean_bytes", real(1000.0));
        numbers.set("retransmission_queue_used_seconds", real(seconds));
        if let Some(share) = utilization {
            numbers.set("retransmission_queue_utilization", real(share));
        }
        numbers.set("send_buffer_blocks", 2_u64);
        numbers.set("send_buffer_blocked_seconds", real(0.5));
        numbers.set("send_buffer_blocked_timeouts_seconds", real(0.25));
        numbers.set("peer_rwnd", 77_u64);
        numbers
    }

    #[test]
    fn utilizations_are_weighted_by_time() {
        let mut sum = Numbers::default();
        for (seconds, utilization) in [(1.0, Some(0.5)), (0.0, None), (3.0, Some(1.0))] {
            sum.add(&sender(seconds, utilization));
        }
        assert_eq!(sum.get("retransmission_queue_utilization"), Some(0.875));
        assert_eq!(sum.get("recovery_utilization"), None);
        assert_eq!(sum.get("retransmission_queue_mean_bytes"), Some(3000.0));
        assert_eq!(sum.get("retransmission_queue_used_seconds"), Some(4.0));
        assert_eq!(sum.whole("send_buffer_blocks"), 6);
        assert_eq!(sum.get("send_buffer_blocked_seconds"), Some(1.5));
        assert_eq!(sum.get("peer_rwnd"), None, "a sum of windows means nothing");
    }

    /// The text reads numbers by name.
    #[test]
    fn the_text_has_what_the_table_has() {
        assert_eq!(sender(0.0, None).sender_text(), "");
        let text = sender(1.0, Some(0.5)).sender_text();
        assert!(text.contains("mean 1,000 bytes, 50.0 % not yet acknowledged\n"), "{text}");
        let blocked = "a full send buffer: 2 times, 500.00 ms, 250.00 ms around timeouts\n";
        assert!(text.ends_with(blocked) && !text.contains("window"), "{text}");
        assert!(text.lines().all(|line| line.len() <= 80), "{text}");
        let known: Vec<_> = Statistics::counters().map(Counter::json_name).collect();
        for name in sender(1.0, Some(0.5)).0.keys() {
            assert!(known.contains(name), "{name}");
        }
        for name in MEANS.iter().flat_map(|(mean, time)| [mean, time]) {
            assert!(known.iter().any(|known| known == name), "{name}");
        }
    }
}
