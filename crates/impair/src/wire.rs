//! Packets on their way after the transmitter, by the time they arrive.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// A packet on the wire.
#[derive(Debug)]
pub(crate) struct InFlight<T> {
    /// When it arrives.
    pub(crate) due: u64,
    /// Position among the packets offered to the link.
    pub(crate) number: u64,
    pub(crate) packet: T,
    /// Breaks ties: of packets due at the same time the one launched first arrives first.
    launched: u64,
}

impl<T> Ord for InFlight<T> {
    /// The greatest of a heap is the next to arrive.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.due, other.launched).cmp(&(self.due, self.launched))
    }
}

impl<T> PartialOrd for InFlight<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for InFlight<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<T> Eq for InFlight<T> {}

#[derive(Debug)]
pub(crate) struct Wire<T> {
    heap: BinaryHeap<InFlight<T>>,
    launched: u64,
}

impl<T> Wire<T> {
    pub(crate) fn new() -> Self {
        Self { heap: BinaryHeap::new(), launched: 0 }
    }

    pub(crate) fn launch(&mut self, due: u64, number: u64, packet: T) {
        self.launched += 1;
        self.heap.push(InFlight { due, number, packet, launched: self.launched });
    }

    pub(crate) fn next_arrival(&self) -> Option<u64> {
        self.heap.peek().map(|next| next.due)
    }

    /// The next packet, when it has arrived by `now`.
    pub(crate) fn arrive(&mut self, now: u64) -> Option<InFlight<T>> {
        if self.next_arrival()? > now {
            return None;
        }
        self.heap.pop()
    }

    /// Drops what would arrive after `now`; returns the number of packets.
    pub(crate) fn clear_after(&mut self, now: u64) -> usize {
        let before = self.heap.len();
        self.heap.retain(|packet| packet.due <= now);
        before - self.heap.len()
    }

    pub(crate) fn len(&self) -> usize {
        self.heap.len()
    }
}
