//! An application's view of a transfer, over any stack and on any platform.

use std::time::Duration;

use anabranch_sim::{Histogram, Outcome, TcpFlowResult, TransferResult};

use crate::metrics::{MAX_FLOWS, Metrics};

/// The observations of a transfer. Times count from the start of the run.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// When it started.
    pub started: Duration,
    /// When the first data arrived.
    pub first_data: Option<Duration>,
    /// When all data had arrived.
    pub completed: Option<Duration>,
    /// User bytes that arrived.
    pub bytes: u64,
    /// Longest time without arriving data.
    pub longest_gap: Duration,
    /// Start of that time.
    pub longest_gap_at: Duration,
    /// The delay of each message, if there are messages.
    pub delays: Histogram,
    /// Messages that were given up.
    pub given_up: u64,
}

/// Quantiles of the delays of messages that a loss delayed: percent, and the metric.
const LATE_QUANTILES: [(u32, &str); 7] = [
    (5, "delay_late_p5_s"),
    (10, "delay_late_p10_s"),
    (25, "delay_late_p25_s"),
    (50, "delay_late_p50_s"),
    (75, "delay_late_p75_s"),
    (90, "delay_late_p90_s"),
    (99, "delay_late_p99_s"),
];

impl Observed {
    /// The simulator's observations of an association.
    pub(crate) fn of_association(result: &TransferResult) -> Self {
        let since = |at: anabranch_sim::Instant| Duration::from_nanos(at.as_nanos());
        let complete = result.outcome == Outcome::Complete;
        Self {
            started: since(result.started_at),
            first_data: result.first_data_at.map(since),
            completed: result.completed_at.filter(|_| complete).map(since),
            bytes: result.bytes,
            longest_gap: result.longest_gap,
            longest_gap_at: since(result.longest_gap_at),
            delays: result.delays.clone(),
            given_up: result.given_up,
        }
    }

    /// The simulator's observations of a TCP connection.
    pub(crate) fn of_connection(result: &TcpFlowResult, delays: Option<&Histogram>) -> Self {
        let since = |at: anabranch_sim::Instant| Duration::from_nanos(at.as_nanos());
        Self {
            started: since(result.started_at),
            first_data: result.first_data_at.map(since),
            completed: result.last_data_at.filter(|_| result.all_delivered).map(since),
            bytes: result.delivered,
            longest_gap: result.longest_gap,
            longest_gap_at: since(result.longest_gap_at),
            delays: delays.cloned().unwrap_or_default(),
            given_up: 0,
        }
    }

    /// The simulator's observations of a repeated transfer. Each repetition counts as a message whose delay is the time
    /// of the transfer.
    pub(crate) fn of_repeated(results: impl Iterator<Item = TcpFlowResult>) -> Self {
        let mut all: Option<Self> = None;
        for result in results {
            let one = Self::of_connection(&result, None);
            let sum = all.get_or_insert_with(|| Self {
                completed: Some(Duration::ZERO),
                bytes: 0,
                ..one.clone()
            });
            if let Some(time) = one.transfer_time() {
                sum.delays.record(time);
            }
            sum.bytes += one.bytes;
            sum.first_data = sum.first_data.or(one.first_data);
            sum.completed = sum.completed.zip(one.completed).map(|(sum, one)| sum.max(one));
            if one.longest_gap > sum.longest_gap {
                (sum.longest_gap, sum.longest_gap_at) = (one.longest_gap, one.longest_gap_at);
            }
        }
        all.unwrap_or_default()
    }

    /// Time from its start until all data had arrived.
    pub fn transfer_time(&self) -> Option<Duration> {
        Some(self.completed?.saturating_sub(self.started))
    }

    /// How many of the first transfer's messages arrived within this time, and how many were given up.
    pub fn measure_in_time(&self, limit: Duration, metrics: &mut Metrics) {
        let arrived = self.delays.count();
        let all = (arrived + self.given_up) as f64;
        if all > 0.0 {
            let late = self.delays.mean_above(limit).map_or(0, |(_, count)| count);
            metrics.set("in_time_percent", 100.0 * (arrived - late) as f64 / all);
            metrics.set("late_percent", 100.0 * late as f64 / all);
            metrics.set("given_up_percent", 100.0 * self.given_up as f64 / all);
        }
    }

    /// The metrics of the first transfer, in a run that ended at `ended`.
    pub fn measure(&self, ended: Duration, metrics: &mut Metrics) {
        let seconds = |at: Duration| at.saturating_sub(self.started).as_secs_f64();
        metrics.set("ended_s", seconds(ended));
        if let Some(time) = self.transfer_time().map(|time| time.as_secs_f64()) {
            metrics.set("transfer_time_s", time);
            if time > 0.0 {
                metrics.set("goodput_kbit_s", self.bytes as f64 * 8e-3 / time);
            }
            if let (Some(first), Some(last)) = (self.first_data, self.completed) {
                let time = last.saturating_sub(first).as_secs_f64();
                metrics.set("transfer_time_from_first_data_s", time);
            }
        }
        metrics.set("longest_gap_s", self.longest_gap.as_secs_f64());
        metrics.set("longest_gap_end_s", seconds(self.longest_gap_at + self.longest_gap));
        let delays = [
            ("delay_mean_s", self.delays.mean()),
            ("delay_median_s", self.delays.quantile(500)),
            ("delay_p95_s", self.delays.quantile(950)),
            ("delay_p99_s", self.delays.quantile(990)),
            ("delay_max_s", self.delays.max()),
            ("delay_p5_s", self.delays.quantile(50)),
            ("delay_p10_s", self.delays.quantile(100)),
            ("delay_p25_s", self.delays.quantile(250)),
            ("delay_p75_s", self.delays.quantile(750)),
            ("delay_p90_s", self.delays.quantile(900)),
        ];
        for (name, delay) in delays {
            if let Some(delay) = delay {
                metrics.set(name, delay.as_secs_f64());
            }
        }
        // The queues of thin flows are shorter than half of the minimum delay: a longer delay means that a loss delayed
        // the message.
        if let Some(least) = self.delays.min()
            && let Some((late, count)) = self.delays.mean_above(least + least / 2)
        {
            metrics.set("delay_late_mean_s", late.as_secs_f64());
            let share = count as f64 / self.delays.count() as f64;
            metrics.set("delay_late_percent", 100.0 * share);
            for (percent, name) in LATE_QUANTILES {
                if let Some(time) = self.delays.quantile_above(least + least / 2, 10 * percent) {
                    metrics.set(name, time.as_secs_f64());
                }
            }
        }
    }

    /// Throughput in kbit/s, from the later of `from` and its start until it was complete, or until `now` if it is not.
    fn throughput(&self, from: Duration, before: u64, now: Duration) -> f64 {
        let end = self.completed.unwrap_or(now);
        let seconds = end.saturating_sub(from.max(self.started)).as_secs_f64();
        let bytes = self.bytes.saturating_sub(before) as f64;
        if seconds > 0.0 { bytes * 8e-3 / seconds } else { 0.0 }
    }

    fn measure_as(&self, number: usize, rate: f64, metrics: &mut Metrics) {
        let seconds = |time: Option<Duration>| time.map(|time| time.as_secs_f64());
        let values = [
            ("throughput", "_kbit_s", Some(rate)),
            ("transfer_time", "_s", seconds(self.transfer_time())),
            ("longest_gap", "_s", seconds(Some(self.longest_gap))),
            ("delay_mean", "_s", seconds(self.delays.mean())),
            ("delay_p95", "_s", seconds(self.delays.quantile(950))),
        ];
        for (name, unit, value) in values {
            metrics.set(&format!("{name}_flow{number}{unit}"), value.unwrap_or(f64::NAN));
        }
    }
}

/// The share of each of several transfers, and their fairness; a single transfer needs only the other metrics. Measures
/// from `from`, when `before` bytes of each had arrived, until `now`.
pub fn compare(
    all: &[Observed],
    (from, before): (Duration, &[u64]),
    now: Duration,
    metrics: &mut Metrics,
) {
    if all.len() < 2 {
        return;
    }
    let mut rates = Vec::new();
    for (index, observed) in all.iter().enumerate() {
        let before = before.get(index).copied().unwrap_or(0);
        let rate = observed.throughput(from, before, now);
        rates.push(rate);
        if index < MAX_FLOWS {
            observed.measure_as(index + 1, rate, metrics);
        }
    }
    metrics.set("throughput_all_kbit_s", rates.iter().sum());
    if let Some(index) = jain(&rates) {
        metrics.set("jain_index", index);
    }
}

/// (Jain, Chiu, Hawe 1984) The square of the sum over n times the sum of squares; `None` if all
/// rates are zero.
fn jain(rates: &[f64]) -> Option<f64> {
    let sum: f64 = rates.iter().sum();
    let squares: f64 = rates.iter().map(|rate| rate * rate).sum();
    (squares > 0.0).then(|| sum * sum / (rates.len() as f64 * squares))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_of_jain_is_one_for_equals() {
        assert_eq!(jain(&[3.0, 3.0, 3.0]), Some(1.0));
        assert_eq!(jain(&[6.0, 0.0]), Some(0.5));
        assert_eq!(jain(&[0.0, 0.0]), None);
        // (1 + 2 + 3) squared is 36, over 3 times 14.
        assert!((jain(&[1.0, 2.0, 3.0]).unwrap() - 36.0 / 42.0).abs() < 1e-12);
    }
}
