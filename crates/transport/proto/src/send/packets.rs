//! The packets in flight on a path, by number: when each was sent, and how many of its chunks are
//! still in flight.

use crate::time::Instant;

/// A packet that was sent and has chunks in flight.
#[derive(Clone, Copy, Debug)]
struct Record {
    at: Instant,
    /// Number of chunks in flight; 0 if all were acknowledged or lost, or if the packet was sent on
    /// another path.
    chunks: u16,
}

/// A packet in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SentPacket {
    /// Its number.
    pub(crate) number: u64,
    /// When it was sent.
    pub(crate) at: Instant,
}

/// A ring with at least this many packets only doubles when it is full; smaller rings grow faster.
const AMPLE: usize = 1024;

/// A ring of records. The first and last packet always have chunks in flight.
#[derive(Debug, Default)]
pub(super) struct SentPackets {
    /// The length is a power of two, or 0. A packet's index is its number modulo that.
    records: Box<[Record]>,
    /// Number of the first packet.
    first: u64,
    /// The number of packets from the first to the last one, and how many of them have chunks in
    /// flight.
    span: u32,
    live: u32,
}

impl SentPackets {
    /// The number after that of the last packet.
    #[inline]
    fn next(&self) -> u64 {
        self.first + u64::from(self.span)
    }

    fn place(&self, number: u64) -> usize {
        number as usize & self.records.len().wrapping_sub(1)
    }

    fn record(&mut self, number: u64) -> Option<&mut Record> {
        let place = self.place(number);
        self.records.get_mut(place)
    }

    fn is_dead(&self, number: u64) -> bool {
        self.records.get(self.place(number)).is_none_or(|record| record.chunks == 0)
    }

    /// Records a chunk in flight in packet `number`, which was sent at `at`.
    #[inline]
    pub(super) fn add(&mut self, number: u64, at: Instant) {
        let next = self.next();
        if number + 1 == next && self.span > 0 {
            // Another chunk of the packet that is being written.
            self.record(number).into_iter().for_each(|record| record.chunks += 1);
        } else if number == next
            && self.span > 0
            && (self.span as usize) < self.records.len()
            && let Some(record) = self.record(number)
        {
            *record = Record { at, chunks: 1 };
            self.span += 1;
            self.live += 1;
        } else {
            self.add_elsewhere(number, at);
        }
    }

    #[cold]
    fn add_elsewhere(&mut self, number: u64, at: Instant) {
        if self.span == 0 {
            self.first = number;
        }
        // A packet with a reneged chunk may be older than all recorded ones.
        let (first, next) = (self.first.min(number), self.next().max(number + 1));
        self.grow(next - first);
        let empty = Record { at, chunks: 0 };
        let added = (first..self.first).chain(self.next()..next);
        for number in added {
            self.record(number).into_iter().for_each(|record| *record = empty);
        }
        // The span is bounded by the packets sent on all paths within a timeout.
        (self.first, self.span) = (first, u32::try_from(next - first).unwrap_or(u32::MAX));
        if let Some(record) = self.record(number) {
            let was_dead = record.chunks == 0;
            if was_dead {
                record.at = at;
            }
            record.chunks += 1;
            self.live += u32::from(was_dead);
        }
    }

    /// Makes room for `span` packets.
    #[cold]
    fn grow(&mut self, span: u64) {
        if span <= self.records.len() as u64 {
            return;
        }
        let empty = Record { at: Instant::ZERO, chunks: 0 };
        // A growing window then copies its records three times instead of ten.
        let ahead = if self.records.len() < AMPLE { 4 * self.records.len() } else { 0 };
        let size = ahead.max((span as usize).next_power_of_two());
        let mut larger = Self { records: vec![empty; size].into_boxed_slice(), ..*self };
        for number in self.first..self.next() {
            if let (Some(to), Some(from)) = (larger.record(number), self.record(number)) {
                *to = *from;
            }
        }
        *self = larger;
    }

    /// Records that a chunk of packet `number` is no longer in flight. Returns whether it was the
    /// last one of the packet.
    #[inline]
    pub(super) fn remove(&mut self, number: u64) -> bool {
        let known = (self.first..self.next()).contains(&number);
        let Some(record) = self.record(number).filter(|_| known) else {
            debug_assert!(false, "packet {number} is not known");
            return false;
        };
        record.chunks -= 1;
        let last = record.chunks == 0;
        if last {
            self.live -= 1;
            self.trim(number);
        }
        last
    }

    /// Removes a packet that no longer has chunks in flight.
    #[inline]
    fn trim(&mut self, number: u64) {
        if number == self.first {
            self.first += 1;
            self.span -= 1;
            while self.span > 0 && self.is_dead(self.first) {
                self.first += 1;
                self.span -= 1;
            }
        } else if number + 1 == self.next() {
            // The loop ends: the first packet has chunks in flight.
            self.span -= 1;
            while self.is_dead(self.next() - 1) {
                self.span -= 1;
            }
        }
        if self.span == 0 && self.records.len() > 1 {
            // Idle associations do not keep memory for a large window of the past.
            self.records = Box::default();
        }
    }

    /// The send time of a packet, if it has chunks in flight.
    pub(super) fn sent_at(&self, number: u64) -> Option<Instant> {
        let known = (self.first..self.next()).contains(&number);
        let record = self.records.get(self.place(number)).filter(|_| known)?;
        (record.chunks > 0).then_some(record.at)
    }

    /// Number of the earliest packet in flight, and its send time.
    pub(super) fn oldest(&self) -> Option<(u64, Instant)> {
        Some((self.first, self.sent_at(self.first)?))
    }

    /// The number of packets with chunks in flight.
    pub(super) fn len(&self) -> usize {
        self.live as usize
    }

    /// Checks the records against the number of chunks in flight.
    ///
    /// # Errors
    /// A description of the mismatch.
    #[cfg(any(test, feature = "invariants"))]
    pub(super) fn check_invariants(&self, chunks: usize) -> Result<(), String> {
        let all = (self.first..self.next()).filter_map(|n| self.records.get(self.place(n)));
        let sum: usize = all.map(|record| usize::from(record.chunks)).sum();
        if sum != chunks {
            return Err(format!("{chunks} chunks in flight, by packets {sum}"));
        }
        let live = (self.first..self.next()).filter(|number| !self.is_dead(*number)).count();
        if live != self.len() {
            return Err(format!("{live} packets in flight, {} counted", self.live));
        }
        let ends = [self.first, self.next().saturating_sub(1)];
        if self.span > 0 && ends.into_iter().any(|number| self.is_dead(number)) {
            return Err("the ring of packets ends with one that is not in flight".into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    #[test]
    fn the_oldest_is_known_whatever_leaves_the_flight() {
        let mut packets = SentPackets::default();
        assert_eq!((packets.oldest(), packets.len()), (None, 0));
        // Two chunks in packet 7; packet 8 is sent on another path.
        for (number, time) in [(7, 1), (7, 1), (9, 3), (10, 4)] {
            packets.add(number, at(time));
        }
        assert_eq!((packets.oldest(), packets.len()), (Some((7, at(1))), 3));
        assert_eq!((packets.sent_at(8), packets.sent_at(9)), (None, Some(at(3))));
        packets.check_invariants(4).unwrap();
        packets.remove(9);
        packets.remove(7);
        assert_eq!(packets.oldest(), Some((7, at(1))), "one of its chunks is in flight");
        packets.remove(7);
        assert_eq!((packets.oldest(), packets.len()), (Some((10, at(4))), 1));
        packets.remove(10);
        assert_eq!((packets.oldest(), packets.sent_at(10)), (None, None));
    }

    #[test]
    fn what_is_taken_back_may_be_older_than_all_others() {
        let mut packets = SentPackets::default();
        packets.add(20, at(5));
        packets.add(17, at(9));
        assert_eq!((packets.oldest(), packets.len()), (Some((17, at(9))), 2));
        packets.check_invariants(2).unwrap();
        packets.remove(17);
        assert_eq!(packets.oldest(), Some((20, at(5))));
    }
}
