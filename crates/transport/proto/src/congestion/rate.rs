//! Samples the delivery rate of a path (draft-cheng-iccrg-delivery-rate-estimation-02; the BBR draft,
//! draft-ietf-ccwg-bbr, section 4.1).
//!
//! Each packet records how much had been delivered when it was sent. When it is acknowledged, the
//! bytes delivered since then, divided by the elapsed time, are a sample of the rate. Acknowledgements
//! may come in bunches, so the time is the longer of the interval between the two deliveries and the
//! interval between the two departures.

use std::collections::VecDeque;
use std::time::Duration;

use crate::time::Instant;

/// A sample of a path's delivery rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RateSample {
    /// Bytes delivered in the interval.
    pub bytes: u64,
    /// Duration of the interval, above zero.
    pub interval: Duration,
    /// The sender had nothing more to send for part of the interval: the path may be faster.
    pub app_limited: bool,
    /// Bytes delivered on the path since it was created.
    pub delivered: u64,
    /// The same when the acknowledged packet was sent. A round trip ends when this reaches the
    /// value of `delivered` at the end of the previous round trip.
    pub delivered_before: u64,
}

impl RateSample {
    /// Bytes per second.
    pub fn rate(&self) -> u64 {
        let nanos = self.interval.as_nanos().max(1);
        u64::try_from(u128::from(self.bytes) * 1_000_000_000 / nanos).unwrap_or(u64::MAX)
    }
}

/// The state when a packet was sent.
#[derive(Clone, Copy, Debug)]
struct Departure {
    number: u64,
    at: Instant,
    delivered: u64,
    delivered_at: Instant,
    /// Send time of the packet whose delivery starts the send interval.
    first_sent: Instant,
    app_limited: bool,
}

/// Takes the samples of one path.
#[derive(Debug, Default)]
pub(crate) struct RateSampler {
    delivered: u64,
    delivered_at: Instant,
    first_sent: Instant,
    /// Packets sent before this number of bytes is delivered are limited by the application; 0 if none
    /// are.
    limited_to: u64,
    /// Bytes per second of the latest sample.
    latest: Option<u64>,
    /// Packets in flight, and lost ones until a later one arrives, in the order of their numbers.
    departures: VecDeque<Departure>,
}

impl RateSampler {
    /// Records that packet `number` is sent. `idle`: nothing is in flight.
    pub(crate) fn on_sent(&mut self, now: Instant, number: u64, idle: bool) {
        if self.departures.back().is_some_and(|last| last.number >= number) {
            return;
        }
        if idle {
            self.departures.clear();
            (self.first_sent, self.delivered_at) = (now, now);
        }
        self.departures.push_back(Departure {
            number,
            at: now,
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent: self.first_sent,
            app_limited: self.limited_to > 0 && self.delivered <= self.limited_to,
        });
    }

    /// Records that the application has nothing more to send, with `in_flight` bytes in flight.
    pub(crate) fn on_app_limited(&mut self, in_flight: usize) {
        self.limited_to = (self.delivered + in_flight as u64).max(1);
    }

    /// Records that `bytes` are acknowledged, and returns a sample. `packet` is the latest packet
    /// among them.
    pub(crate) fn on_acked(
        &mut self,
        now: Instant,
        bytes: usize,
        packet: u64,
    ) -> Option<RateSample> {
        self.delivered += bytes as u64;
        self.delivered_at = now;
        let mut newest = None;
        while self.departures.front().is_some_and(|first| first.number <= packet) {
            newest = self.departures.pop_front();
        }
        // A packet that arrives after one that was sent later gives no new information.
        let newest = newest.filter(|departure| departure.number == packet)?;
        self.first_sent = newest.at;
        let sending = newest.at.saturating_since(newest.first_sent);
        let arriving = now.saturating_since(newest.delivered_at);
        let interval = sending.max(arriving);
        let sample = RateSample {
            bytes: self.delivered - newest.delivered,
            interval,
            app_limited: newest.app_limited,
            delivered: self.delivered,
            delivered_before: newest.delivered,
        };
        let sample = (interval > Duration::ZERO).then_some(sample)?;
        self.latest = Some(sample.rate());
        Some(sample)
    }

    /// Bytes per second of the latest sample.
    pub(crate) fn latest(&self) -> Option<u64> {
        self.latest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    #[test]
    fn a_steady_path_has_one_rate() {
        let mut sampler = RateSampler::default();
        // A packet of 1,000 bytes every millisecond, with a round trip of 10 ms.
        for millis in 0..10 {
            sampler.on_sent(at(millis), millis, millis == 0);
        }
        for millis in 10..100 {
            let sample = sampler.on_acked(at(millis), 1000, millis - 10).unwrap();
            sampler.on_sent(at(millis), millis, false);
            if millis >= 20 {
                assert_eq!(sample.rate(), 1_000_000, "after {millis} ms");
                assert!(!sample.app_limited);
            }
        }
    }

    #[test]
    fn acknowledgements_in_a_bunch_make_no_path_faster() {
        let mut sampler = RateSampler::default();
        for millis in 0..20 {
            sampler.on_sent(at(millis), millis, millis == 0);
        }
        sampler.on_acked(at(21), 1000, 0);
        // All the others are acknowledged within a millisecond.
        let sample = sampler.on_acked(at(22), 19_000, 19).unwrap();
        assert!(sample.rate() <= 1_000_000, "{}", sample.rate());
    }

    #[test]
    fn pauses_do_not_count_and_are_said() {
        let mut sampler = RateSampler::default();
        sampler.on_sent(at(0), 0, true);
        assert!(!sampler.on_acked(at(10), 1000, 0).unwrap().app_limited);
        sampler.on_app_limited(0);
        // After a second without data.
        for number in 1..3 {
            sampler.on_sent(at(999 + number), number, number == 1);
        }
        let first = sampler.on_acked(at(1010), 1000, 1).unwrap();
        assert_eq!((first.rate(), first.app_limited), (100_000, true));
        sampler.on_sent(at(1010), 3, false);
        assert!(sampler.on_acked(at(1011), 1000, 2).unwrap().app_limited);
        let last = sampler.on_acked(at(1020), 1000, 3).unwrap();
        assert!(!last.app_limited, "it left after what followed the pause had arrived");
    }

    #[test]
    fn what_is_lost_is_forgotten_and_late_packets_give_no_sample() {
        let mut sampler = RateSampler::default();
        for number in 0..5 {
            sampler.on_sent(at(number), number, number == 0);
        }
        assert!(sampler.on_acked(at(10), 1000, 3).is_some());
        assert_eq!(sampler.departures.len(), 1);
        assert_eq!(sampler.on_acked(at(11), 1000, 1), None);
        assert_eq!(sampler.delivered, 2000);
        // Rounds are distinguished by the bytes delivered before.
        let last = sampler.on_acked(at(12), 1000, 4).unwrap();
        assert_eq!((last.delivered_before, last.delivered), (0, 3000));
    }
}
