//! RACK (RFC 8985): a segment is lost if a later one has arrived and this one had enough time to arrive too. How much
//! time that is depends on the reordering seen.

use std::time::Duration;

use anabranch_units::Instant;

/// Recoveries without a needless retransmission after which the reordering window is reset to its
/// initial value (RFC 8985 section 6.2, step 4).
const PERSISTENCE: u8 = 16;

/// Number of segments acknowledged by blocks that indicate a loss without waiting, as long as no reordering was seen.
const DUP_THRESH: u64 = 3;

/// How long a minimum round-trip time is used.
const MIN_RTT_WINDOW: Duration = Duration::from_secs(300);

/// One transmission that has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrived {
    /// Transmissions are numbered in sending order.
    pub(crate) number: u64,
    pub(crate) at: Instant,
}

/// The arrivals and their times.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rack {
    /// The latest transmission that has arrived, and its round-trip time.
    newest: Option<Arrived>,
    rtt: Duration,
    /// The minimum round-trip time of this period and of the previous one, and the start of this period.
    min_rtt: Option<Duration>,
    min_rtt_before: Option<Duration>,
    min_rtt_since: Instant,
    /// The reordering window in quarters of the smallest round-trip time.
    quarters: u32,
    /// For how many more recoveries it stays this large.
    persistence: u8,
    /// After growing, it does not grow again before this transmission has arrived.
    grown_at: u64,
}

impl Default for Rack {
    fn default() -> Self {
        Self {
            newest: None,
            rtt: Duration::ZERO,
            min_rtt: None,
            min_rtt_before: None,
            min_rtt_since: Instant::ZERO,
            quarters: 1,
            persistence: 0,
            grown_at: 0,
        }
    }
}

/// Other inputs of a decision.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Surroundings {
    /// Reordering was seen.
    pub(crate) reordered: bool,
    /// A loss recovery is in progress.
    pub(crate) in_recovery: bool,
    /// Number of segments acknowledged by blocks.
    pub(crate) sacked: u64,
    /// Smoothed round-trip time.
    pub(crate) srtt: Option<Duration>,
}

impl Rack {
    fn min_rtt(&self) -> Option<Duration> {
        match (self.min_rtt, self.min_rtt_before) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// A transmission arrived (section 6.2, steps 1 and 2). `again` means that it was not the first of its segment, so
    /// the acknowledgement may be for an earlier one.
    pub(crate) fn on_arrived(&mut self, now: Instant, arrived: Arrived, again: bool) {
        let rtt = now.saturating_since(arrived.at);
        if again && self.min_rtt().is_some_and(|least| rtt < least) {
            return;
        }
        if !again {
            self.measured(now, rtt);
        }
        if self.newest.is_none_or(|newest| newest.number <= arrived.number) {
            (self.newest, self.rtt) = (Some(arrived), rtt);
        }
    }

    /// A round-trip time was measured (section 6.2, step 1).
    pub(crate) fn measured(&mut self, now: Instant, rtt: Duration) {
        if now.saturating_since(self.min_rtt_since) > MIN_RTT_WINDOW {
            (self.min_rtt_before, self.min_rtt) = (self.min_rtt, None);
            self.min_rtt_since = now;
        }
        self.min_rtt = Some(self.min_rtt.map_or(rtt, |least| least.min(rtt)));
    }

    /// A retransmission proved needless, so the window is too small. `next` is the number of the next transmission.
    pub(crate) fn on_needless(&mut self, next: u64) {
        if self.newest.is_some_and(|newest| newest.number < self.grown_at) {
            return;
        }
        self.quarters = self.quarters.saturating_add(1);
        (self.grown_at, self.persistence) = (next, PERSISTENCE);
    }

    /// A recovery is over.
    pub(crate) fn on_recovered(&mut self) {
        self.persistence = self.persistence.saturating_sub(1);
        if self.persistence == 0 {
            self.quarters = 1;
        }
    }

    /// The reordering window (section 6.2, step 4).
    fn window(&self, around: &Surroundings) -> Duration {
        if !around.reordered && (around.in_recovery || around.sacked >= DUP_THRESH) {
            return Duration::ZERO;
        }
        let least = self.min_rtt().or(around.srtt).unwrap_or_default();
        let window = (least / 4).saturating_mul(self.quarters);
        around.srtt.map_or(window, |srtt| window.min(srtt))
    }

    /// Whether nothing has arrived yet.
    pub(crate) fn is_new(&self) -> bool {
        self.newest.is_none()
    }

    /// The number below which transmissions may be lost, and how long after they were sent (section 6.2, step 5).
    pub(crate) fn patience(&self, around: &Surroundings) -> Option<(u64, Duration)> {
        let newest = self.newest?;
        Some((newest.number, self.rtt + self.window(around)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    fn sent(number: u64, millis: u64) -> Arrived {
        Arrived { number, at: at(millis) }
    }

    const QUIET: Surroundings = Surroundings {
        reordered: false,
        in_recovery: false,
        sacked: 0,
        srtt: Some(Duration::from_millis(100)),
    };

    #[test]
    fn without_reordering_three_or_a_recovery_need_no_time() {
        let mut rack = Rack::default();
        assert_eq!(rack.patience(&QUIET), None);
        rack.on_arrived(at(80), sent(1, 0), false);
        let patience = |around| rack.patience(&around).unwrap().1.as_millis();
        assert_eq!(patience(QUIET), 100, "a quarter of the round trip more");
        assert_eq!(patience(Surroundings { in_recovery: true, ..QUIET }), 80);
        assert_eq!(patience(Surroundings { sacked: 3, ..QUIET }), 80);
        let seen = Surroundings { sacked: 3, reordered: true, ..QUIET };
        assert_eq!(patience(seen), 100);
    }

    #[test]
    fn the_window_grows_once_a_round_trip_and_is_forgotten_after_sixteen_recoveries() {
        let mut rack = Rack::default();
        rack.on_arrived(at(80), sent(1, 0), false);
        rack.on_needless(9);
        rack.on_needless(9);
        assert_eq!(rack.window(&QUIET), Duration::from_millis(40), "once before 9 arrives");
        rack.on_arrived(at(170), sent(9, 90), false);
        rack.on_needless(20);
        assert_eq!(rack.window(&QUIET), Duration::from_millis(60));
        rack.quarters = 100;
        assert_eq!(rack.window(&QUIET), Duration::from_millis(100), "no more than SRTT");
        (0..PERSISTENCE).for_each(|_| rack.on_recovered());
        assert_eq!(rack.window(&QUIET), Duration::from_millis(20));
    }

    #[test]
    fn an_answer_that_comes_too_soon_is_the_earlier_ones() {
        let mut rack = Rack::default();
        rack.on_arrived(at(80), sent(1, 0), false);
        rack.on_arrived(at(120), sent(5, 100), true);
        assert_eq!(rack.newest, Some(sent(1, 0)));
        rack.on_arrived(at(190), sent(5, 100), true);
        assert_eq!((rack.newest, rack.rtt), (Some(sent(5, 100)), Duration::from_millis(90)));
    }
}
