//! The transmitter of a link, which sends at its rate, and the queue of waiting packets.

use std::collections::VecDeque;

use crate::Packet;
use crate::QueueLimit;
use crate::discipline::{CoDelState, codel::Head};
use crate::pattern::Marks;

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// A packet in the transmitter.
#[derive(Debug)]
pub(crate) struct Job<T> {
    /// `None` if the packet is lost: then the job only occupies the queue and uses the rate.
    pub(crate) packet: Option<T>,
    /// Size including overhead.
    pub(crate) bytes: usize,
    /// Position among the packets offered to the link.
    pub(crate) number: u64,
    /// When it was offered.
    pub(crate) entered: u64,
    /// Effects of patterns on the packet.
    pub(crate) marks: Option<Box<Marks>>,
}

/// What CoDel has done to packets before the one that it chose.
#[derive(Debug, Default)]
pub(crate) struct Effects {
    /// The numbers of those that it dropped.
    pub(crate) dropped: Vec<u64>,
    /// How many it marked.
    pub(crate) marked: u64,
}

impl<T> Job<T> {
    /// The rate that a pattern sets for this packet.
    fn own_rate(&self) -> Option<u64> {
        self.marks.as_ref().and_then(|marks| marks.rate)
    }
}

/// The queue length of a transmitter, integrated over time. The difference of two integrals,
/// divided by the difference of their times, is the mean queue length between these times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueIntegral {
    /// Packets, not including the one being sent, times nanoseconds.
    pub packet_nanos: u128,
    /// Bytes, including overhead, times nanoseconds.
    pub byte_nanos: u128,
    /// The end of the integration.
    pub until: u64,
}

impl QueueIntegral {
    /// Mean packets and bytes since `earlier`; 0 if no time has passed.
    pub fn mean_since(&self, earlier: &Self) -> (f64, f64) {
        let nanos = self.until.saturating_sub(earlier.until);
        if nanos == 0 {
            return (0.0, 0.0);
        }
        let mean = |now: u128, then: u128| now.saturating_sub(then) as f64 / nanos as f64;
        let packets = mean(self.packet_nanos, earlier.packet_nanos);
        (packets, mean(self.byte_nanos, earlier.byte_nanos))
    }
}

/// Sends one packet at a time; the rest wait in order.
#[derive(Debug)]
pub(crate) struct Transmitter<T> {
    current: Option<Job<T>>,
    /// When the last bit of `current` is sent.
    end: u64,
    /// Sum of the rounding errors in this busy period: a fraction of a nanosecond times the rate.
    /// Without it fast links would be too fast by up to a nanosecond per packet.
    carry: u64,
    waiting: VecDeque<Job<T>>,
    waiting_bytes: usize,
    /// Packets in `current` and `waiting`, not counting jobs without a packet.
    packets: usize,
    integral: QueueIntegral,
    /// While the rate is 0, the bits that `current` still needs, times nanoseconds per second;
    /// `end` has no meaning then.
    stalled: Option<u128>,
}

impl<T> Transmitter<T> {
    pub(crate) fn new() -> Self {
        Self {
            current: None,
            end: 0,
            carry: 0,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            packets: 0,
            integral: QueueIntegral::default(),
            stalled: None,
        }
    }

    /// Updates the integral to `now`. Must be called before the queue changes.
    fn integrate(&mut self, now: u64) {
        if now > self.integral.until {
            if !self.waiting.is_empty() {
                let nanos = u128::from(now - self.integral.until);
                self.integral.packet_nanos += nanos * self.waiting.len() as u128;
                self.integral.byte_nanos += nanos * self.waiting_bytes as u128;
            }
            self.integral.until = now;
        }
    }

    /// Returns the integral until `now`.
    pub(crate) fn integral(&self, now: u64) -> QueueIntegral {
        let mut integral = self.integral;
        let nanos = u128::from(now.saturating_sub(integral.until));
        integral.packet_nanos += nanos * self.waiting.len() as u128;
        integral.byte_nanos += nanos * self.waiting_bytes as u128;
        integral.until = integral.until.max(now);
        integral
    }

    /// Number of nanoseconds for which nothing was being sent.
    pub(crate) fn idle(&self, now: u64) -> u64 {
        if self.current.is_some() { 0 } else { now.saturating_sub(self.end) }
    }

    /// Whether a packet of `bytes` bytes may enter.
    pub(crate) fn has_room(&self, limit: QueueLimit, bytes: usize) -> bool {
        if self.current.is_none() {
            return true;
        }
        match limit {
            QueueLimit::Unlimited => true,
            QueueLimit::Packets(most) => self.waiting.len() < most,
            QueueLimit::Bytes(most) => self.waiting_bytes.saturating_add(bytes) <= most,
        }
    }

    pub(crate) fn push(&mut self, now: u64, rate: Option<u64>, job: Job<T>) {
        self.packets += usize::from(job.packet.is_some());
        if self.current.is_none() {
            self.carry = 0;
            self.start(now, rate, job);
        } else {
            self.integrate(now);
            self.waiting_bytes = self.waiting_bytes.saturating_add(job.bytes);
            self.waiting.push_back(job);
        }
    }

    /// When the current packet has been sent; `None` if there is none or the rate is 0.
    pub(crate) fn next_departure(&self) -> Option<u64> {
        if self.stalled.is_some() {
            return None;
        }
        self.current.as_ref().map(|_| self.end)
    }

    /// Whether there is a packet to send, at any rate.
    pub(crate) fn is_busy(&self) -> bool {
        self.current.is_some()
    }

    /// The numbers of the packets in the transmitter.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = u64> {
        let jobs = self.current.iter().chain(&self.waiting);
        jobs.filter(|job| job.packet.is_some()).map(|job| job.number)
    }

    /// Removes the packet that has been sent and starts the next one at that time.
    pub(crate) fn depart(&mut self, rate: Option<u64>) -> Option<Job<T>> {
        let done = self.leave()?;
        if let Some(next) = self.waiting.pop_front() {
            self.waiting_bytes = self.waiting_bytes.saturating_sub(next.bytes);
            self.start(self.end, rate, next);
        }
        Some(done)
    }

    /// As [`depart`](Self::depart), but `codel` decides which packet is next. Adds what it does to others
    /// to `effects`.
    pub(crate) fn depart_by(
        &mut self,
        rate: Option<u64>,
        codel: &mut CoDelState,
        effects: &mut Effects,
    ) -> Option<Job<T>>
    where
        T: Packet,
    {
        let done = self.leave()?;
        let mut first = true;
        while let Some(mut next) = self.waiting.pop_front() {
            self.waiting_bytes = self.waiting_bytes.saturating_sub(next.bytes);
            let head = Head {
                waited: self.end.saturating_sub(next.entered),
                bytes: next.bytes,
                behind: self.waiting_bytes,
            };
            let acts = codel.drops(self.end, head, std::mem::take(&mut first));
            if acts && codel.marks() && next.packet.as_mut().is_some_and(Packet::mark) {
                codel.marked();
                effects.marked += 1;
            } else if acts {
                let whole = next.packet.is_some();
                self.packets -= usize::from(whole);
                effects.dropped.extend(whole.then_some(next.number));
                continue;
            }
            self.start(self.end, rate, next);
            break;
        }
        if self.current.is_none() {
            codel.empty();
        }
        Some(done)
    }

    /// Removes the packet that has been sent completely.
    fn leave(&mut self) -> Option<Job<T>> {
        let done = self.current.take()?;
        self.packets -= usize::from(done.packet.is_some());
        if !self.waiting.is_empty() {
            self.integrate(self.end);
        }
        Some(done)
    }

    /// Changes the rate: the rest of the current packet continues at the new rate, or waits while
    /// it is 0.
    pub(crate) fn change_rate(&mut self, now: u64, old: Option<u64>, new: Option<u64>) {
        if self.current.as_ref().is_some_and(|job| job.own_rate().is_some()) {
            // A packet with its own rate is not affected.
            return;
        }
        if let Some(needed) = self.stalled.take() {
            match new {
                Some(0) => self.stalled = Some(needed),
                Some(rate) => self.end = now.saturating_add(saturate(needed / u128::from(rate))),
                None => self.end = now,
            }
            self.carry = 0;
            return;
        }
        if let (true, Some(0)) = (self.current.is_some(), new) {
            let remaining = u128::from(self.end.saturating_sub(now));
            self.stalled = Some(remaining.saturating_mul(u128::from(old.unwrap_or(0))));
            return;
        }
        let remaining = u128::from(self.end.saturating_sub(now));
        let scaled = match (old, new) {
            (Some(old), Some(new)) => {
                let bits = remaining.saturating_mul(u128::from(old));
                saturate(bits.checked_div(u128::from(new)).unwrap_or(0))
            }
            _ => 0,
        };
        self.end = now.saturating_add(scaled);
        self.carry = 0;
    }

    /// Drops everything at `now`; returns the number of packets.
    pub(crate) fn clear(&mut self, now: u64) -> usize {
        self.integrate(now);
        self.current = None;
        self.stalled = None;
        self.waiting.clear();
        self.waiting_bytes = 0;
        std::mem::take(&mut self.packets)
    }

    pub(crate) fn packets(&self) -> usize {
        self.packets
    }

    /// Number of packets and bytes waiting, without the packet being sent.
    pub(crate) fn backlog(&self) -> (usize, usize) {
        (self.waiting.len(), self.waiting_bytes)
    }

    fn start(&mut self, at: u64, rate: Option<u64>, job: Job<T>) {
        let rate = job.own_rate().or(rate);
        let time = match rate {
            Some(0) => {
                let needed = job.bytes as u128 * 8 * u128::from(NANOS_PER_SECOND);
                self.stalled = Some(needed);
                0
            }
            Some(rate) if rate > 0 => {
                // 64 bits suffice for real packet sizes, and such a division is several times
                // faster.
                if job.bytes < 1 << 30 {
                    let needed = job.bytes as u64 * (8 * NANOS_PER_SECOND) + self.carry;
                    self.carry = needed % rate;
                    needed / rate
                } else {
                    let needed = job.bytes as u128 * 8 * u128::from(NANOS_PER_SECOND)
                        + u128::from(self.carry);
                    let rate = u128::from(rate);
                    self.carry = saturate(needed % rate);
                    saturate(needed / rate)
                }
            }
            _ => 0,
        };
        self.end = at.saturating_add(time);
        self.current = Some(job);
    }
}

fn saturate(nanos: u128) -> u64 {
    u64::try_from(nanos).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(number: u64, bytes: usize) -> Job<()> {
        Job { packet: Some(()), bytes, number, entered: 0, marks: None }
    }

    #[test]
    fn long_busy_periods_keep_the_exact_rate() {
        // 1452 bytes at 10 Gbit/s take 1161.6 ns.
        let rate = Some(10_000_000_000);
        let mut transmitter = Transmitter::new();
        for number in 0..1000 {
            transmitter.push(0, rate, job(number, 1452));
        }
        let mut ends = Vec::new();
        while let Some(end) = transmitter.next_departure() {
            ends.push(end);
            transmitter.depart(rate);
        }
        assert_eq!(ends[..5], [1161, 2323, 3484, 4646, 5808]);
        assert_eq!(ends[999], 1_161_600);
    }

    #[test]
    fn absurd_times_do_not_overflow() {
        let mut transmitter = Transmitter::new();
        transmitter.push(u64::MAX - 1, Some(1), job(1, usize::MAX));
        assert_eq!(transmitter.next_departure(), Some(u64::MAX));
        transmitter.change_rate(0, Some(u64::MAX), Some(1));
        assert_eq!(transmitter.next_departure(), Some(u64::MAX));
    }

    #[test]
    fn jobs_without_packet_use_room_but_do_not_count() {
        let mut transmitter = Transmitter::new();
        transmitter.push(0, Some(8), job(1, 1));
        let taken = Job { packet: None, bytes: 5, number: 2, entered: 0, marks: None };
        transmitter.push(0, Some(8), taken);
        assert_eq!(transmitter.packets(), 1);
        assert_eq!(transmitter.backlog(), (1, 5));
        assert!(!transmitter.has_room(QueueLimit::Packets(1), 1));
        assert!(transmitter.has_room(QueueLimit::Bytes(6), 1));
        assert!(!transmitter.has_room(QueueLimit::Bytes(6), 2));
        assert_eq!(transmitter.clear(0), 1);
        assert_eq!(transmitter.packets(), 0);
    }
}
