//! What the retransmission queue holds, over time.

use crate::stats::RetransmissionQueue;
use crate::time::Instant;

/// Occupancy of the retransmission queue, weighted by time while there is something in it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Occupancy {
    /// Bytes held, and of them those that the peer has acknowledged.
    now: (usize, usize),
    since: Instant,
    /// Nanoseconds with something in the queue, and byte-nanoseconds.
    busy: u128,
    held: u128,
    acked: u128,
    peak: usize,
}

impl Occupancy {
    /// From `now` on so many bytes are held, and of them so many acknowledged.
    pub(crate) fn note(&mut self, now: Instant, held: usize, acked: usize) {
        if self.now.0 > 0 {
            let time = now.saturating_since(self.since).as_nanos();
            self.busy += time;
            self.held += self.now.0 as u128 * time;
            self.acked += self.now.1 as u128 * time;
        }
        (self.now, self.since) = ((held, acked), now);
        self.peak = self.peak.max(held);
    }

    /// What it came to until it changed last.
    pub(crate) fn statistics(&self) -> RetransmissionQueue {
        let share = |part: u128, of: u128| if of == 0 { 0.0 } else { part as f64 / of as f64 };
        RetransmissionQueue {
            bytes: self.now.0,
            peak_bytes: self.peak,
            mean_bytes: share(self.held, self.busy),
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
        assert_eq!(occupancy.statistics(), RetransmissionQueue::default());
        // 10 ms with 1,000 bytes, 30 ms with 3,000 of which 1,000 are acknowledged, a pause, and
        // 10 ms with 1,000 again.
        for (time, held, acked) in
            [(100, 1000, 0), (110, 3000, 1000), (140, 0, 0), (900, 1000, 0), (910, 500, 0)]
        {
            occupancy.note(at(time), held, acked);
        }
        let expected = RetransmissionQueue {
            bytes: 500,
            peak_bytes: 3000,
            mean_bytes: 110_000.0 / 50.0,
            acknowledged_share: 30_000.0 / 110_000.0,
        };
        assert_eq!(occupancy.statistics(), expected);
    }
}
