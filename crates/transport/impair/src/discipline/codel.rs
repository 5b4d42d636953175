//! Controlled delay (RFC 8289 section 5).

use super::CoDel;

/// 1 as a fixed-point number, for the square root.
const ONE: u64 = 1 << 16;

/// The state of CoDel.
#[derive(Debug)]
pub(crate) struct CoDelState {
    target: u64,
    interval: u64,
    ecn: bool,
    /// When waits will have exceeded the target for an interval, unless one is shorter before.
    first_above: Option<u64>,
    /// When the next packet is dropped, in the dropping state.
    drop_next: u64,
    dropping: bool,
    /// Number of drops since the dropping state was last entered, and that number when it was
    /// entered.
    count: u64,
    last_count: u64,
    /// The largest packet seen: a queue with no more bytes than that is not drained further.
    largest: usize,
}

/// The packet at the head of the queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    /// Nanoseconds that it has waited.
    pub(crate) waited: u64,
    pub(crate) bytes: usize,
    /// Bytes after it in the queue.
    pub(crate) behind: usize,
}

impl CoDelState {
    pub(crate) fn new(config: CoDel) -> Self {
        let nanos = |span: std::time::Duration| u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        Self {
            target: nanos(config.target),
            interval: nanos(config.interval),
            ecn: config.ecn,
            first_above: None,
            drop_next: 0,
            dropping: false,
            count: 0,
            last_count: 0,
            largest: 0,
        }
    }

    /// Whether the packet at the head may be dropped at `now`.
    fn above(&mut self, now: u64, head: Head) -> bool {
        self.largest = self.largest.max(head.bytes);
        if head.waited < self.target || head.behind <= self.largest {
            self.first_above = None;
            return false;
        }
        match self.first_above {
            None => {
                self.first_above = Some(now.saturating_add(self.interval));
                false
            }
            Some(since) => now >= since,
        }
    }

    /// Whether ECN-capable packets are marked instead of dropped.
    pub(crate) fn marks(&self) -> bool {
        self.ecn
    }

    /// Records that the packet was marked instead of dropped, and stays.
    pub(crate) fn marked(&mut self) {
        self.drop_next = self.later(self.drop_next);
    }

    /// Whether the packet that becomes the head at `now` is dropped. Call it for one packet after
    /// another until one is kept; `first` is true for the first of them.
    pub(crate) fn drops(&mut self, now: u64, head: Head, first: bool) -> bool {
        let above = self.above(now, head);
        if self.dropping {
            if !above {
                self.dropping = false;
                return false;
            }
            if !first {
                // The previous packet was dropped at the planned time.
                self.drop_next = self.later(self.drop_next);
            }
            if now < self.drop_next {
                return false;
            }
            self.count += 1;
            return true;
        }
        if !first || !above {
            return false;
        }
        self.dropping = true;
        // If the queue was controlled recently, continue at the previous drop rate.
        let delta = self.count - self.last_count;
        let recent = now.saturating_sub(self.drop_next) < 16 * self.interval;
        self.count = if delta > 1 && recent { delta } else { 1 };
        self.last_count = self.count;
        self.drop_next = now;
        true
    }

    /// Records that the queue has become empty.
    pub(crate) fn empty(&mut self) {
        self.first_above = None;
        self.dropping = false;
    }

    /// Returns `at` plus the interval divided by the square root of the count.
    fn later(&self, at: u64) -> u64 {
        let root = (self.count.min(1 << 31) << 32).isqrt().max(1);
        let step = u128::from(self.interval) * u128::from(ONE) / u128::from(root);
        at.saturating_add(u64::try_from(step).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLI: u64 = 1_000_000;

    fn head(waited_ms: u64) -> Head {
        Head { waited: waited_ms * MILLI, bytes: 1000, behind: 50_000 }
    }

    /// Offers one packet per millisecond, each of which has waited 20 ms. Returns the times of
    /// drops in milliseconds.
    fn drop_times(codel: &mut CoDelState, from: u64, until: u64) -> Vec<u64> {
        let mut times = Vec::new();
        for ms in from..until {
            let mut first = true;
            while codel.drops(ms * MILLI, head(20), first) {
                times.push(ms);
                first = false;
            }
        }
        times
    }

    #[test]
    fn drops_begin_after_an_interval_and_come_faster() {
        let mut codel = CoDelState::new(CoDel::default());
        let times = drop_times(&mut codel, 0, 500);
        // 100 ms above the target; then 100, 100/sqrt(2), 100/sqrt(3), ... ms.
        assert_eq!(times, [100, 200, 271, 329, 379, 424, 464]);
    }

    #[test]
    fn short_waits_and_short_queues_are_left_alone() {
        let mut codel = CoDelState::new(CoDel::default());
        for ms in 0..1000 {
            let short = Head { behind: 1000, ..head(20) };
            assert!(!codel.drops(ms * MILLI, short, true));
            assert!(!codel.drops(ms * MILLI, head(4), true));
        }
    }

    #[test]
    fn one_short_wait_ends_it_and_a_relapse_goes_on_faster() {
        let mut codel = CoDelState::new(CoDel::default());
        drop_times(&mut codel, 0, 500);
        assert!(!codel.drops(500 * MILLI, head(1), true));
        let times = drop_times(&mut codel, 501, 700);
        // An interval passes first; then drops continue at the pace of six drops.
        assert_eq!(times[..2], [601, 642]);
        codel.empty();
        assert_eq!(drop_times(&mut codel, 700, 800), [] as [u64; 0]);
    }
}
