//! The packets in flight on a path, by number: when each left, and how much of it is still out.

use std::collections::VecDeque;

use crate::time::Instant;

/// A packet that was sent and of which something is in flight.
#[derive(Clone, Copy, Debug)]
struct Record {
    at: Instant,
    /// Chunks that are in flight; 0: all were acknowledged or lost, or the packet left on another path.
    chunks: u16,
}

/// A ring of records. Its ends are packets of which something is in flight.
#[derive(Debug, Default)]
pub(super) struct SentPackets {
    records: VecDeque<Record>,
    /// Number of the first one.
    first: u64,
}

impl SentPackets {
    /// A chunk is in flight in packet `number`, which left at `at`.
    #[inline]
    pub(super) fn add(&mut self, number: u64, at: Instant) {
        let next = self.first + self.records.len() as u64;
        if number == next && !self.records.is_empty() {
            self.records.push_back(Record { at, chunks: 1 });
        } else if let Some(last) = self.records.back_mut().filter(|_| number + 1 == next) {
            last.chunks += 1;
        } else {
            self.add_elsewhere(number, at);
        }
    }

    fn add_elsewhere(&mut self, number: u64, at: Instant) {
        if self.records.is_empty() {
            self.first = number;
        }
        let empty = Record { at, chunks: 0 };
        // One that the peer has taken back may be older than all that are known.
        while number < self.first {
            self.records.push_front(empty);
            self.first -= 1;
        }
        let index = (number - self.first) as usize;
        if index >= self.records.len() {
            self.records.resize(index + 1, empty);
        }
        let record = &mut self.records[index];
        if record.chunks == 0 {
            record.at = at;
        }
        record.chunks += 1;
    }

    /// A chunk of packet `number` is no longer in flight.
    #[inline]
    pub(super) fn remove(&mut self, number: u64) {
        let index = number.wrapping_sub(self.first) as usize;
        let Some(record) = self.records.get_mut(index) else {
            debug_assert!(false, "packet {number} is not known");
            return;
        };
        record.chunks -= 1;
        if record.chunks == 0 {
            self.trim();
        }
    }

    fn trim(&mut self) {
        while self.records.front().is_some_and(|record| record.chunks == 0) {
            self.records.pop_front();
            self.first += 1;
        }
        while self.records.back().is_some_and(|record| record.chunks == 0) {
            self.records.pop_back();
        }
        if self.records.is_empty() {
            // Idle associations hold no memory for a window that they once had.
            self.records.shrink_to(1);
        }
    }

    /// When a packet left of which something is in flight.
    pub(super) fn sent_at(&self, number: u64) -> Option<Instant> {
        let record = self.records.get(number.checked_sub(self.first)? as usize)?;
        (record.chunks > 0).then_some(record.at)
    }

    /// Number of the packet in flight that left first, and when.
    pub(super) fn oldest(&self) -> Option<(u64, Instant)> {
        self.records.front().map(|record| (self.first, record.at))
    }

    /// Packets of which something is in flight.
    #[cfg(any(test, fuzzing))]
    pub(super) fn len(&self) -> usize {
        self.records.iter().filter(|record| record.chunks > 0).count()
    }

    /// Checks the records against so many chunks in flight.
    ///
    /// # Errors
    /// What does not agree.
    #[cfg(any(test, feature = "invariants"))]
    pub(super) fn check_invariants(&self, chunks: usize) -> Result<(), String> {
        let sum: usize = self.records.iter().map(|record| usize::from(record.chunks)).sum();
        if sum != chunks {
            return Err(format!("{chunks} chunks in flight, by packets {sum}"));
        }
        let ends = [self.records.front(), self.records.back()];
        if ends.into_iter().flatten().any(|record| record.chunks == 0) {
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
        // Two chunks in packet 7; packet 8 leaves on another path.
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
