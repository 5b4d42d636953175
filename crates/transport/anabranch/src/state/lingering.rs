//! How long an association may take to end.

use std::time::Duration;

use anabranch_proto::Instant;

/// An association that lingers must deliver some of its sent data in each interval.
#[derive(Debug)]
pub(crate) struct Lingering {
    interval: Duration,
    /// Bytes that were not delivered when this was last checked.
    left: usize,
    /// When it is checked again.
    at: Option<Instant>,
}

impl Lingering {
    /// It does not linger yet. This is the interval once its last handle is dropped.
    pub(super) fn new(interval: Duration) -> Self {
        Self { interval, left: 0, at: None }
    }

    pub(crate) fn interval(&self) -> Duration {
        self.interval
    }

    /// It must end immediately when its last handle is dropped.
    pub(crate) fn forbid(&mut self) {
        self.interval = Duration::ZERO;
    }

    /// It lingers from now on, with `left` bytes to deliver. Returns the next check and the one that it replaces,
    /// if the check must move: a second one right after the first would find no progress.
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

    /// A check, with `left` bytes to deliver. Returns when the next one is, if there was progress.
    pub(crate) fn check(&mut self, now: Instant, left: usize) -> Option<Instant> {
        if left >= self.left {
            return None;
        }
        self.left = left;
        let at = now + self.interval;
        self.at = Some(at);
        Some(at)
    }

    /// It has ended. Returns the check that is no longer needed.
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
