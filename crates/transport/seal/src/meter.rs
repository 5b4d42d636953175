//! Counts against a rate.

use std::time::Duration;

use anabranch_units::Instant;

/// A rate with a burst.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rate {
    pub(crate) interval: Duration,
    pub(crate) burst: u32,
}

/// The time up to which past arrivals fill a [`Rate`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Meter(Instant);

impl Meter {
    pub(crate) const EMPTY: Self = Self(Instant::ZERO);

    /// Whether one more is allowed at this rate, which then counts.
    pub(crate) fn take(&mut self, rate: Rate, now: Instant) -> bool {
        let Rate { interval, burst } = rate;
        // If the clock has gone back, it must not stay full until the old time comes again.
        self.0 = self.0.min(now + interval * burst);
        let most = interval * (burst - 1);
        if self.0.saturating_since(now) > most {
            return false;
        }
        self.0 = self.0.max(now) + interval;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_meter_allows_a_burst_and_then_a_rate() {
        let rate = Rate { interval: Duration::from_millis(20), burst: 32 };
        let mut meter = Meter::EMPTY;
        let mut count =
            |now| std::iter::repeat_with(|| meter.take(rate, now)).take_while(|ok| *ok).count();
        assert_eq!(count(Instant::ZERO), 32);
        assert_eq!(count(Instant::from_millis(20)), 1);
        assert_eq!(count(Instant::from_millis(60)), 2);
        assert_eq!(count(Instant::from_secs(100)), 32);
        // The clock goes back.
        assert_eq!(count(Instant::from_secs(50)), 0);
        assert_eq!(count(Instant::from_secs(50) + rate.interval * 3), 3);
    }
}
