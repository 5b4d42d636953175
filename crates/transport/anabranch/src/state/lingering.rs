//! Limits how long the shutdown of an association may take.

use std::time::Duration;

use anabranch_proto::Instant;

/// An association whose handles are dropped must deliver some of its sent data in each interval.
#[derive(Debug)]
pub(crate) struct Lingering {
    interval: Duration,
    /// Undelivered bytes at the last check.
    left: usize,
    /// The time of the next check.
    at: Option<Instant>,
}

impl Lingering {
    /// `interval` is used when the last handle is dropped.
    pub(super) fn new(interval: Duration) -> Self {
        Self { interval, left: 0, at: None }
    }

    pub(crate) fn interval(&self) -> Duration {
        self.interval
    }

    /// Makes the association end immediately when its last handle is dropped.
    pub(crate) fn forbid(&mut self) {
        self.interval = Duration::ZERO;
    }

    /// Begins to check, with `left` bytes to deliver. Returns the time of the next check and the one that it
    /// replaces. `None` if the check is not moved: a second one right after the first would find no progress.
    pub(crate) fn begin(
        &mut self,
        now: Instant,
        interval: Duration,
        left: usize,
    ) -> Option<(Instant, Option<Instant>)> {
        self.interval = interval;
        let at = now + interval;
        if self.at.is_some_and(|before| before <= at) {
            return None;
        }
        self.left = left;
        Some((at, self.at.replace(at)))
    }

    /// Checks, with `left` bytes to deliver. If there was progress, returns the time of the next check.
    pub(crate) fn check(&mut self, now: Instant, left: usize) -> Option<Instant> {
        if left >= self.left {
            return None;
        }
        self.left = left;
        let at = now + self.interval;
        self.at = Some(at);
        Some(at)
    }

    /// Ends the checks. Returns the time of the one that is no longer needed.
    pub(crate) fn end(&mut self) -> Option<Instant> {
        self.at.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_move_only_to_an_earlier_time_and_need_progress() {
        let second = |n: u64| Instant::from_nanos(n * 1_000_000_000);
        let mut lingering = Lingering::new(Duration::from_secs(5));
        let interval = Duration::from_secs(5);
        assert_eq!(lingering.begin(second(0), interval, 100), Some((second(5), None)));
        assert_eq!(lingering.begin(second(1), interval, 100), None);
        let shorter = Duration::from_secs(2);
        assert_eq!(lingering.begin(second(1), shorter, 90), Some((second(3), Some(second(5)))));
        assert_eq!(lingering.check(second(3), 50), Some(second(5)));
        assert_eq!(lingering.check(second(5), 50), None, "nothing was delivered");
        assert_eq!(lingering.end(), Some(second(5)));
    }
}
