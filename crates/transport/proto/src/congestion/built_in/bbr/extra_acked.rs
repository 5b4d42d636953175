//! How much more is acknowledged at once than the rate explains (BBR draft, section 5.5.9): networks and receivers
//! collect acknowledgements, and the window must allow data to be sent in the meantime.

use super::amount;
use super::windowed_max::WindowedMax;
use crate::time::Instant;

/// The excess is the maximum of this many rounds, or of one in Startup, where the rate still grows.
const ROUNDS: u64 = 10;

/// The interval in which acknowledged bytes are counted, and the excess.
#[derive(Clone, Copy, Debug)]
pub(super) struct ExtraAcked {
    since: Instant,
    bytes: u64,
    max: WindowedMax,
}

impl ExtraAcked {
    pub(super) fn new(now: Instant) -> Self {
        Self { since: now, bytes: 0, max: WindowedMax::default() }
    }

    /// Bytes.
    pub(super) fn get(&self) -> u64 {
        self.max.get()
    }

    /// Begins the interval after a pause.
    pub(super) fn restart(&mut self, now: Instant) {
        self.since = now;
    }

    /// `bytes` are acknowledged where `rate` bytes per second were expected; `most` bounds the excess.
    pub(super) fn update(&mut self, now: Instant, bytes: u64, rate: u64, most: u64, at: Round) {
        let mut expected = amount::product(rate, now.saturating_since(self.since));
        // Acknowledgements are slower than expected: the excess begins here. One that takes many windows to arise is an
        // error of the rate, and would grow without end.
        if self.bytes <= expected || self.bytes > most.saturating_mul(ROUNDS) {
            (self.bytes, self.since, expected) = (0, now, 0);
        }
        self.bytes = self.bytes.saturating_add(bytes);
        let extra = self.bytes.saturating_sub(expected).min(most);
        let window = if at.full { ROUNDS } else { 1 };
        self.max.update(window, at.count, extra);
    }
}

/// The round of an acknowledgement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Round {
    /// Its number.
    pub(super) count: u64,
    /// The path has been full once.
    pub(super) full: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acknowledgements_in_bunches_are_an_excess_and_steady_ones_are_not() {
        let full = |count| Round { count, full: true };
        let mut steady = ExtraAcked::new(Instant::ZERO);
        let mut bunched = steady;
        for number in 1..200 {
            // A packet of 1,000 bytes each millisecond.
            let now = Instant::from_millis(number);
            steady.update(now, 1000, 1_000_000, 1 << 20, full(number / 10));
            if number % 20 == 0 {
                bunched.update(now, 20_000, 1_000_000, 1 << 20, full(number / 10));
            }
        }
        assert!(steady.get() <= 2000, "{}", steady.get());
        assert_eq!(bunched.get(), 20_000);
        bunched.update(Instant::from_millis(200), 90_000, 1_000_000, 30_000, full(20));
        assert_eq!(bunched.get(), 30_000, "bounded by the window");
        // A rate that is 1 % too low is no excess, however long it lasts.
        let mut slow = ExtraAcked::new(Instant::ZERO);
        for number in 1..20_000 {
            slow.update(Instant::from_millis(number), 1000, 990_000, 50_000, full(number / 50));
        }
        assert!(slow.get() < 8000, "{}", slow.get());
        for number in 21..60 {
            let now = Instant::from_millis(number * 10);
            bunched.update(now, 1000, 1_000_000, 30_000, full(number));
        }
        assert!(bunched.get() <= 2000, "forgotten: {}", bunched.get());
    }
}
