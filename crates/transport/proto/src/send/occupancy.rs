//! Measures the contents of the retransmission queue over time (nat 3.4.2 and 3.4.3).

use std::time::Duration;

use crate::stats::RetransmissionQueue;
use crate::time::{Instant, nanos};

/// Occupancy of the retransmission queue, weighted by time, while it is not empty.
#[derive(Clone, Debug, Default)]
pub(crate) struct Occupancy {
    since: Instant,
    /// Nanoseconds during which the queue was not empty, and byte-nanoseconds: of all bytes in it, and of
    /// those that the peer had acknowledged.
    busy: u64,
    held: f64,
    acked: f64,
    /// Nanoseconds, each weighted by the share of the queue that the peer had not acknowledged.
    necessary: f64,
    peak: usize,
    /// The same during loss recovery, once there was one.
    recovery: Option<Box<Recovery>>,
}

/// Loss recovery as defined in nat 3.4.3: from an acknowledgement with gaps to one without gaps that
/// advances the cumulative TSN.
#[derive(Clone, Debug, Default)]
struct Recovery {
    lasts: bool,
    busy: u64,
    necessary: f64,
}

impl Occupancy {
    /// Must be called before a change at `now`: until then `held` bytes were held, `acked` of which were
    /// acknowledged.
    pub(crate) fn note(&mut self, now: Instant, held: usize, acked: usize) {
        if held > 0 {
            let time = nanos(now.saturating_since(self.since));
            let necessary = match acked {
                // Nearly always; a division would cost more than all of the rest.
                0 => time as f64,
                _ => (held - acked.min(held)) as f64 / held as f64 * time as f64,
            };
            self.busy += time;
            self.held += held as f64 * time as f64;
            self.acked += acked as f64 * time as f64;
            self.necessary += necessary;
            if let Some(recovery) = self.recovery.as_mut().filter(|recovery| recovery.lasts) {
                recovery.busy += time;
                recovery.necessary += necessary;
            }
        }
        self.since = now;
        self.peak = self.peak.max(held);
    }

    /// Records an acknowledgement, with or without gaps, at the instant of the last [`note`](Self::note).
    pub(crate) fn on_acknowledgement(&mut self, gaps: bool, cumulative_advanced: bool) {
        if gaps {
            self.recovery.get_or_insert_default().lasts = true;
        } else if let Some(recovery) = &mut self.recovery
            && cumulative_advanced
        {
            recovery.lasts = false;
        }
    }

    /// Whether loss recovery is in progress.
    pub(crate) fn in_recovery(&self) -> bool {
        self.recovery.as_ref().is_some_and(|recovery| recovery.lasts)
    }

    /// The totals up to the last change, and the bytes held now.
    pub(crate) fn statistics(&self, held: usize) -> RetransmissionQueue {
        let share = |part: f64, of: f64| if of > 0.0 { part / of } else { 0.0 };
        let utilization = |part: f64, of: u64| (of > 0).then(|| (part / of as f64).min(1.0));
        let (busy, necessary) =
            self.recovery.as_ref().map_or((0, 0.0), |recovery| (recovery.busy, recovery.necessary));
        RetransmissionQueue {
            bytes: held,
            peak_bytes: self.peak.max(held),
            mean_bytes: share(self.held, self.busy as f64),
            acknowledged_share: share(self.acked, self.held),
            time: Duration::from_nanos(self.busy),
            utilization: utilization(self.necessary, self.busy),
            recovery_time: Duration::from_nanos(busy),
            recovery_utilization: utilization(necessary, busy),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    #[test]
    fn the_mean_is_over_the_time_with_something_in_the_queue() {
        let mut occupancy = Occupancy::default();
        assert_eq!(occupancy.statistics(0), RetransmissionQueue::default());
        // 10 ms with 1,000 bytes, 30 ms with 3,000 bytes (1,500 acknowledged), a pause, and 10 ms
        // with 1,000 again.
        for (time, held, acked) in
            [(100, 0, 0), (110, 1000, 0), (140, 3000, 1500), (900, 0, 0), (910, 1000, 0)]
        {
            occupancy.note(at(time), held, acked);
        }
        let expected = RetransmissionQueue {
            bytes: 500,
            peak_bytes: 3000,
            mean_bytes: 110_000.0 / 50.0,
            acknowledged_share: 45_000.0 / 110_000.0,
            time: Duration::from_millis(50),
            utilization: Some(35.0 / 50.0),
            recovery_time: Duration::ZERO,
            recovery_utilization: None,
        };
        assert_eq!(occupancy.statistics(500), expected);
    }

    #[test]
    fn recovery_lasts_from_gaps_to_a_cumulative_acknowledgement_without() {
        let mut occupancy = Occupancy::default();
        occupancy.note(at(0), 0, 0);
        // Each with the previous contents of the queue: all of them are necessary until the first gap.
        for (time, acked, gaps, advanced) in [
            (20, 0, true, false),
            (30, 2000, true, true),
            // Neither of these ends recovery: no gaps but nothing new; something new but gaps.
            (40, 2000, false, false),
            (50, 3000, true, true),
            (60, 1000, false, true),
            (100, 0, false, true),
        ] {
            occupancy.note(at(time), 4000, acked);
            occupancy.on_acknowledgement(gaps, advanced);
            assert_eq!(occupancy.in_recovery(), time < 60, "at {time} ms");
        }
        let seen = occupancy.statistics(0);
        assert_eq!(seen.recovery_time, Duration::from_millis(40));
        let lost = (0.5 + 0.5 + 0.75 + 0.25) * 10.0;
        assert_eq!(seen.recovery_utilization, Some((40.0 - lost) / 40.0));
        assert_eq!(seen.utilization, Some((100.0 - lost) / 100.0));
    }
}
