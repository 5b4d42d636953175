//! Draws random choices from distributions.

use std::time::Duration;

use anabranch_impair::{Probability, Rng};

/// A source of random choices.
#[derive(Debug)]
pub(crate) struct Draw(pub(crate) Rng);

impl Draw {
    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.0.below(n) == 0
    }

    /// From `low` to `high`, inclusive.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.0.below(high - low + 1)
    }

    /// From `low` to `high`, with all orders of magnitude equally likely.
    pub(crate) fn scale(&mut self, low: u64, high: u64) -> u64 {
        let (from, to) = (64 - low.max(1).leading_zeros(), 64 - high.max(1).leading_zeros());
        let bits = self.between(u64::from(from), u64::from(to));
        let top = if bits >= 64 { u64::MAX } else { (1 << bits) - 1 };
        let bottom = (1_u64 << (bits - 1)).max(low).min(high);
        self.between(bottom, top.clamp(bottom, high))
    }

    pub(crate) fn millis(&mut self, low: u64, high: u64) -> Duration {
        Duration::from_micros(self.scale(low * 1000, high * 1000))
    }

    pub(crate) fn of<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.0.below(all.len() as u64) as usize].clone()
    }

    pub(crate) fn percent(&mut self, most: u64) -> Probability {
        Probability::per_million(self.between(0, most * 10_000) as u32)
    }

    /// One of the two nodes.
    pub(crate) fn node(&mut self) -> usize {
        self.between(0, 1) as usize
    }

    /// A time in the first phase, whose length is `faults`.
    pub(crate) fn moment(&mut self, faults: Duration) -> Duration {
        Duration::from_micros(self.0.below(faults.as_micros() as u64))
    }

    /// In one of `one_in` cases, a number of occurrences up to `most`; otherwise 0.
    pub(crate) fn count(&mut self, one_in: u64, most: u64) -> u64 {
        if self.one_in(one_in) { self.scale(1, most) } else { 0 }
    }
}
