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
    /// Bytes in flight when the acknowledged packet was sent, with that packet.
    pub in_flight: u64,
    /// Bytes that were lost, or considered lost, between its departure and its acknowledgement.
    pub lost: u64,
}

impl RateSample {
    /// Bytes per second.
    pub fn rate(&self) -> u64 {
        let nanos = self.interval.as_nanos().max(1);
        u64::try_from(u128::from(self.bytes) * 1_000_000_000 / nanos).unwrap_or(u64::MAX)
    }
}

/// A lost packet: what was known when it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LossSample {
    /// Bytes in flight when it was sent, with that packet.
    pub in_flight: u64,
    /// Bytes lost since then, with that packet.
    pub lost: u64,
    /// The sender had nothing more to send at that time.
    pub app_limited: bool,
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
    /// Bytes in flight with the packet, at most `u32::MAX`.
    in_flight: u32,
    /// Bytes lost before, modulo 2^32.
    lost: u32,
    app_limited: bool,
}

/// Takes the samples of one path. The engine has one for each path whose controller
/// [needs](super::Controller::needs) samples; others may use it to drive a controller without the engine. Packets have
/// numbers in the order in which they are sent, from 1.
#[derive(Debug, Default)]
pub struct RateSampler {
    delivered: u64,
    delivered_at: Instant,
    first_sent: Instant,
    /// Packets sent before this number of bytes is delivered are limited by the application; 0 if none
    /// are.
    limited_to: u64,
    /// Bytes per second of the latest sample.
    latest: Option<u64>,
    /// Bytes lost, modulo 2^32.
    lost: u32,
    /// The latest lost packet that was not reported yet.
    lost_packet: Option<LossSample>,
    /// Packets up to this number are acknowledged, or were overtaken by one that is.
    newest: u64,
    /// The packets since the oldest one in flight, in the order of their numbers.
    departures: VecDeque<Departure>,
}

impl RateSampler {
    /// Records that packet `number` is sent, with `in_flight` bytes in flight, its own included. `idle`: nothing else
    /// is in flight.
    pub fn on_sent(&mut self, now: Instant, number: u64, in_flight: usize, idle: bool) {
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
            in_flight: u32::try_from(in_flight).unwrap_or(u32::MAX),
            lost: self.lost,
            app_limited: self.limited_to > 0 && self.delivered <= self.limited_to,
        });
    }

    /// Records that the application has nothing more to send, with `in_flight` bytes in flight.
    pub fn on_app_limited(&mut self, in_flight: usize) {
        self.limited_to = self.delivered.saturating_add(in_flight as u64).max(1);
    }

    /// Records that `bytes` are acknowledged, and returns a sample. `packet` is the latest packet among them,
    /// `oldest` the oldest one that is still in flight.
    pub fn on_acked(
        &mut self,
        now: Instant,
        bytes: usize,
        packet: u64,
        oldest: Option<u64>,
    ) -> Option<RateSample> {
        self.delivered = self.delivered.saturating_add(bytes as u64);
        self.delivered_at = now;
        let sample = self.sample(now, packet);
        while self.departures.front().is_some_and(|first| oldest.is_none_or(|n| first.number < n)) {
            self.departures.pop_front();
        }
        sample
    }

    fn departure(&self, packet: u64) -> Option<&Departure> {
        let at = self.departures.binary_search_by_key(&packet, |departure| departure.number);
        self.departures.get(at.ok()?)
    }

    fn sample(&mut self, now: Instant, packet: u64) -> Option<RateSample> {
        // A packet that arrives after one that was sent later gives no new information.
        if packet <= self.newest {
            return None;
        }
        self.newest = packet;
        let newest = *self.departure(packet)?;
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
            in_flight: newest.in_flight.into(),
            lost: self.lost.wrapping_sub(newest.lost).into(),
        };
        let sample = (interval > Duration::ZERO).then_some(sample)?;
        self.latest = Some(sample.rate());
        Some(sample)
    }

    /// Records that `bytes` of a packet are lost, or considered lost.
    pub fn on_lost(&mut self, bytes: usize, packet: u64) {
        self.lost = self.lost.wrapping_add(bytes as u32);
        let sample = self.departure(packet).map(|departure| LossSample {
            in_flight: departure.in_flight.into(),
            lost: self.lost.wrapping_sub(departure.lost).into(),
            app_limited: departure.app_limited,
        });
        self.lost_packet = sample.or(self.lost_packet);
    }

    /// The latest lost packet since the last call, for [`LostData::sample`](super::LostData::sample).
    pub fn take_lost(&mut self) -> Option<LossSample> {
        self.lost_packet.take()
    }

    /// Bytes per second of the latest sample.
    pub fn latest(&self) -> Option<u64> {
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
            sampler.on_sent(at(millis), millis + 1, 1000, millis == 0);
        }
        for millis in 10..100 {
            let sample = sampler.on_acked(at(millis), 1000, millis - 9, Some(millis - 8)).unwrap();
            sampler.on_sent(at(millis), millis + 1, 1000, false);
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
            sampler.on_sent(at(millis), millis + 1, 1000, millis == 0);
        }
        sampler.on_acked(at(21), 1000, 1, Some(2));
        // All the others are acknowledged within a millisecond.
        let sample = sampler.on_acked(at(22), 19_000, 20, None).unwrap();
        assert!(sample.rate() <= 1_000_000, "{}", sample.rate());
    }

    #[test]
    fn pauses_do_not_count_and_are_said() {
        let mut sampler = RateSampler::default();
        sampler.on_sent(at(0), 1, 1000, true);
        assert!(!sampler.on_acked(at(10), 1000, 1, None).unwrap().app_limited);
        sampler.on_app_limited(0);
        // After a second without data.
        for number in 2..4 {
            sampler.on_sent(at(998 + number), number, 1000, number == 2);
        }
        let first = sampler.on_acked(at(1010), 1000, 2, Some(3)).unwrap();
        assert_eq!((first.rate(), first.app_limited), (100_000, true));
        sampler.on_sent(at(1010), 4, 2000, false);
        assert!(sampler.on_acked(at(1011), 1000, 3, Some(4)).unwrap().app_limited);
        let last = sampler.on_acked(at(1020), 1000, 4, None).unwrap();
        assert!(!last.app_limited, "it left after what followed the pause had arrived");
    }

    #[test]
    fn late_packets_give_no_sample_and_lost_ones_are_known_until_they_leave_the_flight() {
        let mut sampler = RateSampler::default();
        for number in 1..6 {
            sampler.on_sent(at(number - 1), number, 1000 * number as usize, number == 1);
        }
        assert!(sampler.on_acked(at(10), 1000, 4, Some(1)).is_some());
        assert_eq!(sampler.departures.len(), 5, "three may be lost or late");
        assert_eq!(sampler.on_acked(at(11), 1000, 2, Some(1)), None);
        assert_eq!(sampler.delivered, 2000);
        sampler.on_lost(1000, 1);
        let lost = sampler.take_lost().unwrap();
        assert_eq!((lost.in_flight, lost.lost, lost.app_limited), (1000, 1000, false));
        sampler.on_lost(500, 3);
        let lost = sampler.take_lost().unwrap();
        assert_eq!((lost.in_flight, lost.lost), (3000, 1500));
        // Rounds are distinguished by the bytes delivered before.
        let last = sampler.on_acked(at(12), 1000, 5, None).unwrap();
        assert_eq!((last.delivered_before, last.delivered), (0, 3000));
        assert_eq!((last.in_flight, last.lost), (5000, 1500));
        assert_eq!(sampler.departures.len(), 0);
        sampler.on_lost(500, 3);
        assert_eq!(sampler.take_lost(), None);
        sampler.on_sent(at(13), 6, 1000, true);
        assert_eq!(sampler.on_acked(at(14), 1000, 6, None).unwrap().lost, 0, "lost before it left");
    }
}
