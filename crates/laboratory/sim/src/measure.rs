//! Measures arrival times (data timeliness).

use std::time::Duration;

/// Buckets per doubling: values are known to one part in 32.
const SUB: u32 = 32;

/// A distribution of durations in constant memory, with a precision of about 3 %.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    counts: Vec<u64>,
    count: u64,
    sum: u128,
    least: u64,
    greatest: u64,
}

impl Histogram {
    /// Adds one value.
    pub fn record(&mut self, value: Duration) {
        self.record_nanos(u64::try_from(value.as_nanos()).unwrap_or(u64::MAX));
    }

    pub(crate) fn record_nanos(&mut self, nanos: u64) {
        let bucket = bucket(nanos);
        if bucket >= self.counts.len() {
            self.counts.resize(bucket + 1, 0);
        }
        self.counts[bucket] += 1;
        self.least = if self.count == 0 { nanos } else { self.least.min(nanos) };
        self.greatest = self.greatest.max(nanos);
        self.count += 1;
        self.sum += u128::from(nanos);
    }

    /// Number of values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The exact mean; `None` without values.
    pub fn mean(&self) -> Option<Duration> {
        let mean = self.sum.checked_div(u128::from(self.count))?;
        Some(Duration::from_nanos(u64::try_from(mean).unwrap_or(u64::MAX)))
    }

    /// The exact minimum.
    pub fn min(&self) -> Option<Duration> {
        (self.count > 0).then(|| Duration::from_nanos(self.least))
    }

    /// The exact maximum.
    pub fn max(&self) -> Option<Duration> {
        (self.count > 0).then(|| Duration::from_nanos(self.greatest))
    }

    /// The mean and the number of the values above a bound, with the resolution of the buckets.
    pub fn mean_above(&self, bound: Duration) -> Option<(Duration, u64)> {
        let bound = bucket(u64::try_from(bound.as_nanos()).unwrap_or(u64::MAX));
        let above = self.counts.iter().enumerate().skip(bound + 1);
        let (sum, count) = above.fold((0, 0), |(sum, count), (bucket, values)| {
            let nanos = upper_bound(bucket).clamp(self.least, self.greatest);
            (sum + u128::from(nanos) * u128::from(*values), count + values)
        });
        let mean = sum.checked_div(u128::from(count))?;
        Some((Duration::from_nanos(u64::try_from(mean).unwrap_or(u64::MAX)), count))
    }

    /// The value that `per_mille` thousandths of all values do not exceed (500 is the median);
    /// `None` without values.
    pub fn quantile(&self, per_mille: u32) -> Option<Duration> {
        self.quantile_behind(0, self.count, per_mille)
    }

    /// The same for the values above a bound only, with the resolution of the buckets.
    pub fn quantile_above(&self, bound: Duration, per_mille: u32) -> Option<Duration> {
        let bound = bucket(u64::try_from(bound.as_nanos()).unwrap_or(u64::MAX));
        let below: u64 = self.counts.iter().take(bound + 1).sum();
        self.quantile_behind(below, self.count - below, per_mille)
    }

    /// The value that `per_mille` thousandths of `count` values after the first ones do not exceed.
    fn quantile_behind(&self, first: u64, count: u64, per_mille: u32) -> Option<Duration> {
        if count == 0 {
            return None;
        }
        let rank = (u128::from(count) * u128::from(per_mille.min(1000))).div_ceil(1000);
        let rank = first + u64::try_from(rank).ok()?.max(1);
        let mut seen = 0;
        let bucket = self.counts.iter().position(|count| {
            seen += count;
            seen >= rank
        })?;
        let nanos = upper_bound(bucket).clamp(self.least, self.greatest);
        Some(Duration::from_nanos(nanos))
    }
}

/// The bucket of a value: the value itself below `SUB`, then `SUB` buckets per doubling.
fn bucket(nanos: u64) -> usize {
    if nanos < u64::from(SUB) {
        return nanos as usize;
    }
    let doublings = nanos.ilog2() - SUB.ilog2();
    let within = (nanos >> doublings) as u32 - SUB;
    ((doublings + 1) * SUB + within) as usize
}

/// The largest value of a bucket.
fn upper_bound(bucket: usize) -> u64 {
    let (row, within) = (bucket as u64 / u64::from(SUB), bucket as u64 % u64::from(SUB));
    if row == 0 {
        return within;
    }
    let end = u128::from(within + u64::from(SUB) + 1) << (row - 1);
    u64::try_from(end - 1).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_in_order_and_narrow() {
        let mut before = 0;
        for nanos in (0..5000).chain((13..64).map(|n| 1 << n)).chain([u64::MAX]) {
            let at = bucket(nanos);
            assert!(at >= before, "{nanos}");
            before = at;
            let upper = upper_bound(at);
            assert!(upper >= nanos && upper - nanos <= nanos / u64::from(SUB), "{nanos} {upper}");
        }
    }

    #[test]
    fn quantiles_are_close() {
        let mut histogram = Histogram::default();
        assert_eq!((histogram.quantile(500), histogram.mean()), (None, None));
        for millis in 1..=1000 {
            histogram.record(Duration::from_millis(millis));
        }
        assert_eq!(histogram.mean(), Some(Duration::from_micros(500_500)));
        assert_eq!(histogram.min(), Some(Duration::from_millis(1)));
        assert_eq!(histogram.quantile(1000), Some(Duration::from_millis(1000)));
        let above = |per_mille| {
            let found = histogram.quantile_above(Duration::from_millis(900), per_mille);
            found.map(|found| found.as_secs_f64() * 1000.0)
        };
        assert!(above(500).is_some_and(|found| (930.0..970.0).contains(&found)));
        assert_eq!(above(1000), Some(1000.0));
        assert_eq!(histogram.quantile_above(Duration::from_secs(2), 500), None);
        for (per_mille, exact) in [(10, 10.0), (500, 500.0), (900, 900.0)] {
            let found = histogram.quantile(per_mille).unwrap().as_secs_f64() * 1000.0;
            assert!((found - exact).abs() <= exact / 30.0, "{per_mille}: {found}");
        }
    }
}
