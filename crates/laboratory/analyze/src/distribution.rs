//! Distributions in constant memory.

use serde::Serialize;

/// How many numbers are in each power of two: bucket 0 has 0, bucket n has 2^(n-1) to 2^n - 1.
#[derive(Clone, Debug, Serialize)]
pub struct Distribution {
    buckets: Vec<u64>,
    /// How many numbers there are.
    pub count: u64,
    /// Their sum, saturating.
    pub sum: u64,
    /// The maximum.
    pub most: u64,
}

impl Default for Distribution {
    fn default() -> Self {
        Self { buckets: vec![0; 65], count: 0, sum: 0, most: 0 }
    }
}

impl Distribution {
    /// Adds a number.
    pub fn add(&mut self, number: u64) {
        let bucket = 64 - number.leading_zeros() as usize;
        if let Some(count) = self.buckets.get_mut(bucket) {
            *count += 1;
        }
        self.count += 1;
        self.sum = self.sum.saturating_add(number);
        self.most = self.most.max(number);
    }

    /// The mean; 0 without numbers.
    pub fn mean(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum as f64 / self.count as f64 }
    }

    /// A number that this share of all numbers does not exceed. It is the end of a power of two, so it is at most twice
    /// too large.
    pub fn quantile(&self, share: f64) -> u64 {
        let wanted = (share * self.count as f64).ceil() as u64;
        let mut sum = 0;
        for (bucket, count) in self.buckets.iter().enumerate() {
            sum += count;
            if sum >= wanted && sum > 0 {
                return upper(bucket).min(self.most);
            }
        }
        self.most
    }

    /// The powers of two from the first to the last non-empty one: start, end and count.
    pub fn bars(&self) -> Vec<(u64, u64, u64)> {
        let first = self.buckets.iter().position(|count| *count > 0).unwrap_or(0);
        let last = self.buckets.iter().rposition(|count| *count > 0).map_or(0, |last| last + 1);
        let bars = self.buckets.iter().enumerate().take(last).skip(first);
        bars.map(|(bucket, count)| (lower(bucket), upper(bucket), *count)).collect()
    }
}

fn lower(bucket: usize) -> u64 {
    if bucket == 0 { 0 } else { 1 << (bucket - 1) }
}

fn upper(bucket: usize) -> u64 {
    if bucket >= 64 { u64::MAX } else { (1 << bucket) - 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_in_their_power_of_two() {
        let mut distribution = Distribution::default();
        [0, 1, 2, 3, 4, 1000, u64::MAX].into_iter().for_each(|n| distribution.add(n));
        let bars: Vec<_> = distribution.bars().into_iter().filter(|bar| bar.2 > 0).collect();
        assert_eq!(bars[..4], [(0, 0, 1), (1, 1, 1), (2, 3, 2), (4, 7, 1)]);
        assert_eq!((bars[4], bars[5].0), ((512, 1023, 1), 1 << 63));
        assert_eq!((distribution.quantile(0.5), distribution.quantile(0.0)), (3, 0));
        assert_eq!(Distribution::default().quantile(0.5), 0);
    }
}
