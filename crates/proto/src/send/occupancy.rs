//! What the retransmission queue holds, over time.

use crate::stats::RetransmissionQueue;
use crate::time::{Instant, nanos};

/// Occupancy of the retransmission queue, weighted by time while there is something in it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Occupancy {
    since: Instant,
    /// Nanoseconds with something in the queue, and byte-nanoseconds: of all that it held, and of
    /// what the peer had acknowledged.
    busy: u64,
    held: f64,
    acked: f64,
    peak: usize,
}

impl Occupancy {
    /// Until `now`, when this is about to change, so many bytes were held, and of them so many
    /// acknowledged.
    pub(crate) fn note(&mut self, now: Instant, held: usize, acked: usize) {
        if held > 0 {
            let time = nanos(now.saturating_since(self.since));
            self.busy += time;
            self.held += held as f64 * time as f64;
            self.acked += acked as f64 * time as f64;
        }
        self.since = now;
        self.peak = self.peak.max(held);
    }

    /// What it came to until it changed last, with what is held now.
    pub(crate) fn statistics(&self, held: usize) -> RetransmissionQueue {
        let share = |part: f64, of: f64| if of > 0.0 { part / of } else { 0.0 };
        RetransmissionQueue {
            bytes: held,
            peak_bytes: self.peak.max(held),
            mean_bytes: share(self.held, self.busy as f64),
            acknowledged_share: share(self.acked, self.held),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_mean_is_over_the_time_with_something_in_the_queue() {
        let at = |millis| Instant::ZERO + Duration::from_millis(millis);
        let mut occupancy = Occupancy::default();
        assert_eq!(occupancy.statistics(0), RetransmissionQueue::default());
        // 10 ms with 1,000 bytes, 30 ms with 3,000 of which 1,000 are acknowledged, a pause, and
        // 10 ms with 1,000 again.
        for (time, held, acked) in
            [(100, 0, 0), (110, 1000, 0), (140, 3000, 1000), (900, 0, 0), (910, 1000, 0)]
        {
            occupancy.note(at(time), held, acked);
        }
        let expected = RetransmissionQueue {
            bytes: 500,
            peak_bytes: 3000,
            mean_bytes: 110_000.0 / 50.0,
            acknowledged_share: 30_000.0 / 110_000.0,
        };
        assert_eq!(occupancy.statistics(500), expected);
    }
}
