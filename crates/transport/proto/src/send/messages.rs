//! The table of messages with outstanding chunks.
//!
//! Messages that wait for their first transmission belong to the scheduler. When the first chunk of
//! a message is sent, the message gets an entry here, and all its chunks refer to the entry by its
//! number. Attributes of a message as a whole are stored here, not in its chunks.

use std::collections::VecDeque;

use anabranch_wire::{Ppid, Ssn};

use super::Fragment;
use crate::reliability::Fate;

/// A message with outstanding chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OutMessage {
    /// TSN of its first chunk.
    pub(crate) first: u64,
    /// The user's value, returned with the message if it cannot be delivered.
    pub(crate) context: u64,
    pub(crate) ppid: Ppid,
    /// The number of its chunks that were sent; they have consecutive TSNs.
    pub(crate) chunks: u32,
    pub(crate) stream: u16,
    /// 0 if it is unordered.
    pub(crate) ssn: Ssn,
    pub(crate) unordered: bool,
    /// Its last chunk has been sent.
    pub(crate) complete: bool,
    /// It was given up: none of its chunks is sent again.
    pub(crate) given_up: bool,
    pub(crate) fate: Fate,
}

/// The number of entries that stay allocated while no message is outstanding, until a timer frees
/// them, too.
const FEW: usize = 64;

/// Messages in the order in which they were begun. Numbers wrap around.
///
/// There are at most as many messages as chunks, and the send buffer is charged for the chunks.
#[derive(Debug, Default)]
pub(super) struct OutMessages {
    ring: VecDeque<OutMessage>,
    /// Number of the first one.
    base: u32,
}

impl OutMessages {
    /// Records that a chunk is sent as `tsn`. Returns the number of its message.
    #[inline]
    pub(super) fn on_chunk(&mut self, tsn: u64, fragment: &Fragment) -> u32 {
        if fragment.flags.begin() {
            self.ring.push_back(OutMessage {
                first: tsn,
                context: fragment.context,
                ppid: fragment.ppid,
                chunks: 0,
                stream: fragment.stream,
                ssn: fragment.ssn,
                unordered: fragment.flags.unordered(),
                complete: false,
                given_up: false,
                fate: fragment.fate,
            });
        }
        if let Some(message) = self.ring.back_mut() {
            message.chunks += 1;
            message.complete = fragment.flags.end();
        }
        self.base.wrapping_add(self.ring.len() as u32).wrapping_sub(1)
    }

    /// The message with a number.
    #[inline]
    pub(super) fn get(&self, number: u32) -> Option<&OutMessage> {
        self.ring.get(number.wrapping_sub(self.base) as usize)
    }

    /// The message that was begun last.
    pub(super) fn last(&self) -> Option<(u32, &OutMessage)> {
        let number = self.base.wrapping_add(self.ring.len() as u32).wrapping_sub(1);
        self.ring.back().map(|message| (number, message))
    }

    /// Records that the message with this number was given up. If its last chunk was not sent, another chunk ends it.
    /// Returns whether that is so.
    pub(super) fn give_up(&mut self, number: u32) -> bool {
        let index = number.wrapping_sub(self.base) as usize;
        let Some(message) = self.ring.get_mut(index) else { return false };
        message.given_up = true;
        let was_complete = std::mem::replace(&mut message.complete, true);
        message.chunks += u32::from(!was_complete);
        !was_complete
    }

    /// Removes the first message, whose last chunk is no longer outstanding.
    #[inline]
    pub(super) fn pop(&mut self) {
        if self.ring.pop_front().is_some() {
            self.base = self.base.wrapping_add(1);
        }
        if self.ring.is_empty() && self.ring.capacity() > FEW {
            // An idle association does not keep memory for a large window of the past.
            self.ring.shrink_to(FEW);
        }
    }

    /// Frees unused memory; messages being sent stay.
    pub(super) fn shrink(&mut self) {
        self.ring.shrink_to_fit();
    }

    #[cfg(any(test, feature = "invariants"))]
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &OutMessage)> {
        let number = |index: usize| self.base.wrapping_add(index as u32);
        self.ring.iter().enumerate().map(move |(index, message)| (number(index), message))
    }
}

#[cfg(test)]
mod tests {
    use anabranch_wire::DataFlags;
    use bytes::Bytes;

    use super::*;

    fn fragment(stream: u16, flags: u8) -> Fragment {
        Fragment {
            stream,
            ssn: Ssn(7),
            ppid: Ppid(9),
            flags: DataFlags(flags),
            context: 11,
            fate: Fate::Sure,
            payload: Bytes::from_static(b"x"),
        }
    }

    #[test]
    fn chunks_find_their_message_across_the_wrap() {
        let mut messages = OutMessages { base: u32::MAX, ..OutMessages::default() };
        let begin = messages.on_chunk(10, &fragment(1, DataFlags::BEGIN));
        let middle = messages.on_chunk(11, &fragment(1, 0));
        let other = messages.on_chunk(12, &fragment(1, DataFlags::END));
        let whole = DataFlags::BEGIN | DataFlags::END | DataFlags::UNORDERED;
        let next = messages.on_chunk(13, &fragment(2, whole));
        assert_eq!((begin, middle, other, next), (u32::MAX, u32::MAX, u32::MAX, 0));
        let first = *messages.get(begin).unwrap();
        assert_eq!((first.first, first.chunks, first.stream), (10, 3, 1));
        assert!(first.complete && !first.unordered);
        assert!(messages.get(next).unwrap().unordered);
        messages.pop();
        assert_eq!((messages.get(begin), messages.get(1)), (None, None));
        assert_eq!(messages.get(next).unwrap().first, 13);
        messages.pop();
        assert_eq!(messages.get(next), None);
    }
}
