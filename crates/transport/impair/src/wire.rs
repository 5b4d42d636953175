//! Packets on the wire, ordered by arrival time.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};

/// A packet on the wire.
#[derive(Debug)]
pub(crate) struct InFlight<T> {
    /// When it arrives.
    pub(crate) due: u64,
    /// Position among the packets offered to the link.
    pub(crate) number: u64,
    pub(crate) packet: T,
    /// Breaks ties: among packets due at the same time, the one launched first arrives first.
    launched: u64,
}

impl<T> Ord for InFlight<T> {
    /// The greatest element of the heap arrives next.
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

/// Packets almost always arrive in the order in which they were launched, so most are in a queue.
/// Only packets that overtake or are overtaken are in the heap.
#[derive(Debug)]
pub(crate) struct Wire<T> {
    queue: VecDeque<InFlight<T>>,
    heap: BinaryHeap<InFlight<T>>,
    launched: u64,
}

impl<T> Wire<T> {
    pub(crate) fn new() -> Self {
        Self { queue: VecDeque::new(), heap: BinaryHeap::new(), launched: 0 }
    }

    pub(crate) fn launch(&mut self, due: u64, number: u64, packet: T) {
        self.launched += 1;
        let packet = InFlight { due, number, packet, launched: self.launched };
        if self.queue.back().is_none_or(|last| last.due <= due) {
            self.queue.push_back(packet);
        } else {
            self.heap.push(packet);
        }
    }

    pub(crate) fn next_arrival(&self) -> Option<u64> {
        let queued = self.queue.front().map(|next| next.due);
        if self.heap.is_empty() {
            return queued;
        }
        let heaped = self.heap.peek().map(|next| next.due);
        queued.into_iter().chain(heaped).min()
    }

    /// Removes the next packet that has arrived by `now`.
    pub(crate) fn arrive(&mut self, now: u64) -> Option<InFlight<T>> {
        if self.heap.is_empty() {
            let arrived = self.queue.front().is_some_and(|next| next.due <= now);
            return if arrived { self.queue.pop_front() } else { None };
        }
        if self.next_arrival()? > now {
            return None;
        }
        // The greater of the two arrives first.
        if self.heap.peek() > self.queue.front() { self.heap.pop() } else { self.queue.pop_front() }
    }

    /// Drops packets that would arrive after `now`; returns their number.
    pub(crate) fn clear_after(&mut self, now: u64) -> usize {
        let before = self.len();
        self.queue.retain(|packet| packet.due <= now);
        self.heap.retain(|packet| packet.due <= now);
        before - self.len()
    }

    /// The packets that would arrive after `now`.
    pub(crate) fn numbers_after(&self, now: u64) -> impl Iterator<Item = u64> {
        let all = self.queue.iter().chain(&self.heap);
        all.filter(move |packet| packet.due > now).map(|packet| packet.number)
    }

    pub(crate) fn len(&self) -> usize {
        self.queue.len() + self.heap.len()
    }
}
