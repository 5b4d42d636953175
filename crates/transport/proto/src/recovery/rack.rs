//! RACK (RFC 8985): a packet is lost if a later packet has arrived and there was enough time for the
//! earlier one to arrive, too. The time allowed depends on the reordering seen.

use std::time::Duration;

use crate::per_path::PathId;
use crate::send::{Outstanding, SentPacket};
use crate::time::Instant;

/// The number of recoveries without a spurious retransmission after which the reordering window returns
/// to its initial size (RFC 8985 section 6.2, step 4).
const PERSISTENCE: u8 = 16;

/// How long the smallest round-trip time remains valid.
const MIN_RTT_WINDOW: Duration = Duration::from_secs(300);

/// The arrivals of a path's packets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rack {
    /// The most recently sent packet of those that arrived, and its round-trip time.
    newest: Option<SentPacket>,
    rtt: Duration,
    /// The smallest round-trip time, that of the previous period, and the beginning of the current
    /// period.
    min_rtt: Option<Duration>,
    min_rtt_before: Option<Duration>,
    min_rtt_since: Instant,
    /// The reordering window in quarters of the smallest round-trip time.
    quarters: u32,
    /// The number of recoveries for which the window keeps this size.
    persistence: u8,
    /// The window has grown, and does not grow again before this packet has arrived.
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

/// Inputs of a decision other than the arrivals.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Surroundings {
    /// The number of later packets whose arrival proves a loss without waiting; `None` once reordering
    /// was seen.
    pub(crate) threshold: Option<u32>,
    /// The path is in fast recovery.
    pub(crate) in_recovery: bool,
    /// Smoothed round-trip time.
    pub(crate) srtt: Option<Duration>,
}

impl Rack {
    /// The smallest round-trip time of the last minutes.
    pub(crate) fn min_rtt(&self) -> Option<Duration> {
        match (self.min_rtt, self.min_rtt_before) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Whether an acknowledgement this long after a retransmission must be for the earlier packet. RFC
    /// 8985 section 6.2, step 2, uses the minimum round trip as the bound. That often results from few
    /// packets, and the delay of hosts varies a little, so an acknowledgement up to an eighth sooner may
    /// still be for the retransmission.
    pub(crate) fn is_too_soon(&self, rtt: Duration) -> bool {
        self.min_rtt().is_some_and(|least| rtt < least - least / 8)
    }

    /// Restores the smallest round-trip time from before the association was idle. It is valid for some
    /// more minutes.
    pub(crate) fn recall(&mut self, now: Instant, least: Duration) {
        if self.min_rtt().is_none() {
            (self.min_rtt, self.min_rtt_since) = (Some(least), now);
        }
    }

    /// Records the arrival of a packet (RFC 8985 section 6.2, steps 1 and 2). `again`: its contents had
    /// been sent before, so the acknowledgement may be for the earlier packet.
    pub(crate) fn on_arrived(&mut self, now: Instant, packet: SentPacket, again: bool) {
        let rtt = now.saturating_since(packet.at);
        if again && self.is_too_soon(rtt) {
            return;
        }
        if !again {
            if now.saturating_since(self.min_rtt_since) > MIN_RTT_WINDOW {
                (self.min_rtt_before, self.min_rtt) = (self.min_rtt, None);
                self.min_rtt_since = now;
            }
            self.min_rtt = Some(self.min_rtt.map_or(rtt, |least| least.min(rtt)));
        }
        if self.newest.is_none_or(|newest| newest.number <= packet.number) {
            (self.newest, self.rtt) = (Some(packet), rtt);
        }
    }

    /// Records that a retransmission was spurious: the window is too small. `next` is the number of the
    /// next packet.
    pub(crate) fn on_needless(&mut self, next: u64) {
        if self.newest.is_some_and(|newest| newest.number < self.grown_at) {
            return;
        }
        self.quarters = self.quarters.saturating_add(1);
        (self.grown_at, self.persistence) = (next, PERSISTENCE);
    }

    /// Records that a recovery was spurious. Arrivals were attributed to the retransmissions, which were
    /// sent after many packets that are still in flight.
    pub(crate) fn on_undone(&mut self) {
        self.newest = None;
    }

    /// Records the end of a recovery.
    pub(crate) fn on_recovered(&mut self) {
        self.persistence = self.persistence.saturating_sub(1);
        if self.persistence == 0 {
            self.quarters = 1;
        }
    }

    /// The reordering window (RFC 8985 section 6.2, step 4).
    fn window(&self, around: &Surroundings) -> Duration {
        if around.threshold.is_some() && around.in_recovery {
            return Duration::ZERO;
        }
        let least = self.min_rtt().or(around.srtt).unwrap_or_default();
        let window = (least / 4).saturating_mul(self.quarters);
        around.srtt.map_or(window, |srtt| window.min(srtt))
    }

    /// How long after its transmission a packet may still arrive; `None` if nothing has arrived yet.
    pub(crate) fn patience(&self, around: &Surroundings) -> Option<Duration> {
        self.newest.map(|_| self.rtt + self.window(around))
    }

    /// Finds losses on a path and appends their TSNs to `lost` (RFC 8985 section 6.2, step 5). Returns
    /// the time of the next check if chunks may only be late.
    pub(crate) fn detect(
        &self,
        now: Instant,
        path: PathId,
        around: &Surroundings,
        out: &Outstanding,
        lost: &mut Vec<u64>,
    ) -> Option<Instant> {
        let newest = self.newest?;
        let patience = self.patience(around)?;
        let mut at = out.oldest_counted(path);
        while let Some(tsn) = at {
            let slot = out.get(tsn).filter(|slot| slot.packet < newest.number)?;
            let counted =
                around.threshold.is_some_and(|n| slot.packet + u64::from(n) <= newest.number);
            let deadline = out.sent_at(tsn)? + patience;
            if !counted && deadline > now {
                // Packets sent later are not due earlier.
                return Some(deadline);
            }
            lost.push(tsn);
            at = out.sent_after(tsn);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    fn packet(number: u64, millis: u64) -> SentPacket {
        SentPacket { number, at: at(millis) }
    }

    const QUIET: Surroundings = Surroundings {
        threshold: Some(3),
        in_recovery: false,
        srtt: Some(Duration::from_millis(100)),
    };

    #[test]
    fn the_window_grows_once_a_round_trip_and_is_forgotten_after_sixteen_recoveries() {
        let mut rack = Rack::default();
        rack.on_arrived(at(80), packet(1, 0), false);
        let seen = Surroundings { threshold: None, ..QUIET };
        assert_eq!(rack.window(&seen), Duration::from_millis(20));
        rack.on_needless(9);
        rack.on_needless(9);
        assert_eq!(rack.window(&seen), Duration::from_millis(40), "once before packet 9 arrives");
        rack.on_arrived(at(170), packet(9, 90), false);
        rack.on_needless(20);
        assert_eq!(rack.window(&seen), Duration::from_millis(60));
        rack.quarters = 100;
        assert_eq!(rack.window(&seen), Duration::from_millis(100), "no more than SRTT");
        (0..PERSISTENCE).for_each(|_| rack.on_recovered());
        assert_eq!(rack.window(&seen), Duration::from_millis(20));
        let recovering = Surroundings { in_recovery: true, ..QUIET };
        assert_eq!(rack.window(&recovering), Duration::ZERO, "no reordering was seen");
    }

    #[test]
    fn an_answer_that_comes_too_soon_is_the_earlier_packets() {
        let mut rack = Rack::default();
        rack.on_arrived(at(80), packet(1, 0), false);
        rack.on_arrived(at(120), packet(5, 100), true);
        assert_eq!(rack.newest, Some(packet(1, 0)));
        rack.on_arrived(at(175), packet(4, 100), true);
        assert_eq!(rack.newest, Some(packet(4, 100)), "a little sooner than all before");
        rack.on_arrived(at(190), packet(5, 100), true);
        assert_eq!((rack.newest, rack.rtt), (Some(packet(5, 100)), Duration::from_millis(90)));
    }

    #[test]
    fn the_least_round_trip_is_forgotten_in_the_end() {
        let mut rack = Rack::default();
        rack.on_arrived(at(10), packet(1, 0), false);
        for (minutes, least) in [(4, 10), (6, 10), (14, 50)] {
            let sent = at(minutes * 60_000);
            let arrived = sent + Duration::from_millis(50);
            rack.on_arrived(arrived, SentPacket { number: 1 + minutes, at: sent }, false);
            assert_eq!(rack.min_rtt(), Some(Duration::from_millis(least)), "{minutes}");
        }
    }
}
