//! The notifications that wait on a socket until the program takes them.
//!
//! Peers cause them, and must not fill the memory of a program that does not look. So their number is bounded
//! and so are their bytes: a message that comes back is part of its notification. Those beyond are lost.

use std::collections::VecDeque;
use std::net::SocketAddr;

use bytes::Bytes;

/// Notifications that wait at most.
const MOST: usize = 4096;

/// Those of no more bytes are bounded by their number alone, so that messages that come back do not keep out
/// the end of their association.
const SMALL: usize = 256;

/// Bytes that a notification holds besides its own.
const OVERHEAD: usize = size_of::<Told>();

/// A notification, or the rest of one, that waits to be taken.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) id: i32,
    /// The peer's address, which the socket may no longer know when this is taken.
    pub(super) from: Option<SocketAddr>,
    pub(super) bytes: Vec<u8>,
}

/// The notifications of a socket, oldest first.
#[derive(Debug, Default)]
pub(super) struct Notifications {
    queue: VecDeque<Told>,
    /// Bytes that they hold.
    held: usize,
}

impl Notifications {
    /// Adds one, unless it is large and `most_bytes` are exceeded with it. One that is larger than that on its
    /// own is taken when no other waits.
    pub(super) fn push(&mut self, told: Told, most_bytes: usize) {
        let held = self.held + told.bytes.len() + OVERHEAD;
        let fits = told.bytes.len() <= SMALL || held <= most_bytes || self.queue.is_empty();
        if fits && self.queue.len() < MOST {
            self.held = held;
            self.queue.push_back(told);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub(super) fn front(&self) -> Option<&Told> {
        self.queue.front()
    }

    /// Up to `room` bytes of the oldest one, with its address and whether they are its last ones. They stay if
    /// the caller only wants to peek.
    pub(super) fn take(
        &mut self,
        room: usize,
        peek: bool,
    ) -> Option<(Option<SocketAddr>, Bytes, bool)> {
        let told = self.queue.front_mut()?;
        let piece = Bytes::copy_from_slice(&told.bytes[..told.bytes.len().min(room)]);
        let (from, end) = (told.from, piece.len() == told.bytes.len());
        if !peek {
            told.bytes.drain(..piece.len());
            self.held -= piece.len();
            if end {
                self.queue.pop_front();
                self.held -= OVERHEAD;
            }
        }
        Some((from, piece, end))
    }

    /// Moves those of an association out.
    pub(super) fn split_off(&mut self, id: i32) -> Self {
        let (moved, kept) =
            std::mem::take(&mut self.queue).into_iter().partition(|told| told.id == id);
        *self = Self::of(kept);
        Self::of(moved)
    }

    fn of(queue: VecDeque<Told>) -> Self {
        let held = queue.iter().map(|told| told.bytes.len() + OVERHEAD).sum();
        Self { queue, held }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(id: i32, length: usize) -> Told {
        Told { id, from: None, bytes: vec![7; length] }
    }

    #[test]
    fn their_number_is_bounded() {
        let mut waiting = Notifications::default();
        (0..2 * MOST).for_each(|_| waiting.push(told(1, 8), usize::MAX));
        assert_eq!(waiting.queue.len(), MOST);
    }

    #[test]
    fn their_bytes_are_bounded() {
        const LIMIT: usize = 100_000;
        let mut waiting = Notifications::default();
        (0..1000).for_each(|_| waiting.push(told(1, 1000), LIMIT));
        let before = waiting.queue.len();
        assert!((80..100).contains(&before), "{before}");
        assert!(waiting.held <= LIMIT);
        let mut others = Notifications::default();
        (0..1000).for_each(|_| others.push(told(1, 1000), LIMIT));
        others.push(told(1, 20), LIMIT);
        assert_eq!(others.queue.len(), before + 1, "a small one still comes");
        // What is taken makes room, also in pieces; what is looked at does not.
        assert!(waiting.take(1000, true).is_some_and(|(_, piece, end)| piece.len() == 1000 && end));
        waiting.push(told(2, 1000), LIMIT);
        assert_eq!(waiting.queue.len(), before);
        assert!(waiting.take(600, false).is_some_and(|(_, piece, end)| piece.len() == 600 && !end));
        assert!(waiting.take(600, false).is_some_and(|(_, piece, end)| piece.len() == 400 && end));
        waiting.push(told(2, 1000), LIMIT);
        assert_eq!(waiting.queue.len(), before);
        assert_eq!(waiting.split_off(2).queue.len(), 1);
        while waiting.take(usize::MAX, false).is_some() {}
        assert_eq!(waiting.held, 0);
    }

    #[test]
    fn a_large_one_comes_alone() {
        let mut waiting = Notifications::default();
        (0..2).for_each(|_| waiting.push(told(1, 1 << 20), 1000));
        assert_eq!(waiting.queue.len(), 1);
    }
}
