//! Round-trip times of `perf --mode ping`.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::output::count;

/// Significant digits of a recorded time.
const DIGITS: u8 = 3;

/// Round-trip times in nanoseconds, of the current interval and in total.
#[derive(Debug)]
pub(crate) struct Latency {
    interval: Histogram<u64>,
    total: Histogram<u64>,
}

/// A summary of round-trip times, in seconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct LatencyReport {
    pub(crate) count: u64,
    #[serde(rename = "min_seconds")]
    pub(crate) min: f64,
    #[serde(rename = "mean_seconds")]
    pub(crate) mean: f64,
    #[serde(rename = "p50_seconds")]
    pub(crate) p50: f64,
    #[serde(rename = "p90_seconds")]
    pub(crate) p90: f64,
    #[serde(rename = "p99_seconds")]
    pub(crate) p99: f64,
    #[serde(rename = "p999_seconds")]
    pub(crate) p999: f64,
    #[serde(rename = "max_seconds")]
    pub(crate) max: f64,
}

impl Latency {
    /// Starts without measurements.
    pub(crate) fn new() -> Result<Self, hdrhistogram::CreationError> {
        Ok(Self { interval: Histogram::new(DIGITS)?, total: Histogram::new(DIGITS)? })
    }

    /// Adds a round-trip time.
    pub(crate) fn add(&mut self, time: Duration) {
        let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).max(1);
        // The histogram grows as needed, as far as memory allows.
        if self.interval.record(nanoseconds).is_err() {
            self.interval.saturating_record(nanoseconds);
        }
    }

    /// The times since the last call; `None` if there were none.
    pub(crate) fn take_interval(&mut self) -> Option<LatencyReport> {
        let report = LatencyReport::of(&self.interval);
        self.keep_interval();
        report
    }

    /// All times; `None` if there were none.
    pub(crate) fn take_total(&mut self) -> Option<LatencyReport> {
        self.keep_interval();
        LatencyReport::of(&self.total)
    }

    fn keep_interval(&mut self) {
        // Both histograms resize themselves and have the same precision, so this cannot fail.
        let _ = self.total.add(&self.interval);
        self.interval.reset();
    }
}

impl LatencyReport {
    fn of(histogram: &Histogram<u64>) -> Option<Self> {
        let seconds = |nanoseconds: u64| nanoseconds as f64 * 1e-9;
        let quantile = |quantile| seconds(histogram.value_at_quantile(quantile));
        (!histogram.is_empty()).then(|| Self {
            count: histogram.len(),
            min: seconds(histogram.min()),
            mean: histogram.mean() * 1e-9,
            p50: quantile(0.5),
            p90: quantile(0.9),
            p99: quantile(0.99),
            p999: quantile(0.999),
            max: seconds(histogram.max()),
        })
    }

    /// The report for people, in two lines.
    pub(crate) fn text(&self) -> String {
        format!(
            "  {}: min {}, mean {}, max {}\n    p50 {}, p90 {}, p99 {}, p99.9 {}\n",
            count(self.count, "round trip"),
            time(self.min),
            time(self.mean),
            time(self.max),
            time(self.p50),
            time(self.p90),
            time(self.p99),
            time(self.p999),
        )
    }
}

/// A time in a suitable unit.
pub(crate) fn time(seconds: f64) -> String {
    match seconds {
        s if s < 1e-3 => format!("{:.1} us", s * 1e6),
        s if s < 1.0 => format!("{:.2} ms", s * 1e3),
        s => format!("{s:.2} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_intervals_and_of_all() {
        let mut latency = Latency::new().unwrap();
        assert_eq!(latency.take_interval(), None);
        (1..=100).for_each(|ms| latency.add(Duration::from_millis(ms)));
        let close = |value: f64, expected: f64| (value - expected).abs() < expected * 2e-3;
        let first = latency.take_interval().unwrap();
        assert_eq!(first.count, 100);
        assert!(close(first.p50, 0.050) && close(first.p99, 0.099) && close(first.max, 0.1));
        assert!(close(first.mean, 0.0505) && close(first.min, 0.001));
        assert_eq!(latency.take_interval(), None);
        latency.add(Duration::from_secs(3));
        let total = latency.take_total().unwrap();
        assert_eq!(total.count, 101);
        assert!(close(total.max, 3.0) && close(total.p90, 0.091));
        // Times out of range count as the longest possible one.
        latency.add(Duration::MAX);
        assert_eq!(latency.take_total().unwrap().count, 102);
    }

    #[test]
    fn times_have_a_fitting_unit() {
        assert_eq!([1.25e-5, 0.0125, 1.5].map(time), ["12.5 us", "12.50 ms", "1.50 s"]);
    }
}
