//! The minimum round-trip time of the last ten seconds, and when it must be measured again (BBR draft, section
//! 5.3.4.3).

use std::time::Duration;

use crate::time::Instant;

/// How long the minimum is valid.
const FILTER_LEN: Duration = Duration::from_secs(10);
/// Without as short a measurement for this long, the queue must be drained to get one.
const PROBE_INTERVAL: Duration = Duration::from_secs(5);

/// The two minima.
#[derive(Clone, Copy, Debug)]
pub(super) struct MinRtt {
    min: Option<Duration>,
    since: Instant,
    recent: Option<Duration>,
    recent_since: Instant,
    /// The recent minimum is older than [`PROBE_INTERVAL`].
    pub(super) expired: bool,
}

impl MinRtt {
    pub(super) fn new(now: Instant) -> Self {
        Self { min: None, since: now, recent: None, recent_since: now, expired: false }
    }

    /// The minimum; `None` before the first measurement.
    pub(super) fn get(&self) -> Option<Duration> {
        self.min
    }

    /// Evaluates an acknowledgement with or without a measurement. A clock that stands measures nothing.
    pub(super) fn update(&mut self, now: Instant, rtt: Option<Duration>) {
        self.expired = now.saturating_since(self.recent_since) > PROBE_INTERVAL;
        if let Some(rtt) = rtt.filter(|rtt| *rtt > Duration::ZERO)
            && (self.expired || self.recent.is_none_or(|recent| rtt < recent))
        {
            (self.recent, self.recent_since) = (Some(rtt), now);
        }
        let old = now.saturating_since(self.since) > FILTER_LEN;
        if let Some(recent) = self.recent
            && (old || self.min.is_none_or(|min| recent < min))
        {
            (self.min, self.since) = (Some(recent), self.recent_since);
        }
    }

    /// The queue was drained: the next time is due after another interval.
    pub(super) fn probed(&mut self, now: Instant) {
        self.recent_since = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_longer_path_is_believed_only_after_its_queue_was_drained_twice() {
        let millis = Duration::from_millis;
        let mut rtt = MinRtt::new(Instant::ZERO);
        assert_eq!(rtt.get(), None);
        rtt.update(Instant::from_millis(10), Some(Duration::ZERO));
        assert_eq!(rtt.get(), None, "the clock stood");
        rtt.update(Instant::from_millis(100), Some(millis(50)));
        rtt.update(Instant::from_millis(200), Some(millis(80)));
        assert_eq!((rtt.get(), rtt.expired), (Some(millis(50)), false));
        rtt.update(Instant::from_millis(5_101), Some(millis(90)));
        assert_eq!((rtt.get(), rtt.expired), (Some(millis(50)), true), "remembered");
        rtt.probed(Instant::from_millis(5_500));
        rtt.update(Instant::from_millis(10_101), Some(millis(95)));
        assert_eq!(rtt.get(), Some(millis(90)), "the minimum of the last interval");
        rtt.update(Instant::from_millis(10_200), Some(millis(40)));
        assert_eq!(rtt.get(), Some(millis(40)), "at once");
    }
}
