//! The table of messages with outstanding chunks.
//!
//! Messages that wait for their first transmission belong to the scheduler. When the first chunk of
//! a message is sent, the message gets an entry here, and all its chunks refer to the entry by its
//! number. Attributes of a message as a whole are stored here, not in its chunks.

use anabranch_wire::Ppid;
use slab::Slab;

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
    /// The number of TSNs from that of its first chunk to that of its last one so far. If messages are interleaved,
    /// some of them are of other messages.
    pub(crate) span: u32,
    pub(crate) stream: u16,
    /// Its SSN, 0 if it is unordered, or its message identifier.
    pub(crate) sequence: u32,
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

/// Messages by number. The number of a message is free again when the message is gone.
///
/// A message that is interleaved with others may outlive many of them. There are at most as many messages as chunks,
/// and the send buffer is charged for the chunks.
#[derive(Debug, Default)]
pub(super) struct OutMessages(Slab<OutMessage>);

impl OutMessages {
    /// The number of the next message.
    #[inline]
    pub(super) fn next_number(&self) -> u32 {
        // There are fewer messages than chunks, and 65,535 chunks at most.
        self.0.vacant_key() as u32
    }

    /// Records that a chunk is sent as `tsn`. Returns the number of its message.
    #[inline]
    pub(super) fn on_chunk(&mut self, tsn: u64, fragment: &Fragment) -> u32 {
        if fragment.flags.begin() {
            let number = self.0.insert(OutMessage {
                first: tsn,
                context: fragment.context,
                ppid: fragment.ppid,
                span: 1,
                stream: fragment.stream,
                sequence: fragment.sequence,
                unordered: fragment.flags.unordered(),
                complete: fragment.flags.end(),
                given_up: false,
                fate: fragment.fate,
            });
            debug_assert_eq!(number, fragment.message as usize, "another number was announced");
        } else if let Some(message) = self.0.get_mut(fragment.message as usize) {
            message.on_chunk(tsn);
            message.complete = fragment.flags.end();
        }
        fragment.message
    }

    /// The message with a number.
    #[inline]
    pub(super) fn get(&self, number: u32) -> Option<&OutMessage> {
        self.0.get(number as usize)
    }

    /// Records that the message with this number was given up. If its last chunk was not sent, another chunk ends it,
    /// with this TSN. Returns whether that is so.
    pub(super) fn give_up(&mut self, number: u32, tsn: u64) -> bool {
        let Some(message) = self.0.get_mut(number as usize) else { return false };
        message.given_up = true;
        let was_complete = std::mem::replace(&mut message.complete, true);
        if !was_complete {
            message.on_chunk(tsn);
        }
        !was_complete
    }

    /// Removes a message whose last chunk is no longer outstanding.
    #[inline]
    pub(super) fn remove(&mut self, number: u32) {
        self.0.try_remove(number as usize);
        if self.0.is_empty() && self.0.capacity() > FEW {
            // An idle association does not keep memory for a large window of the past.
            self.0 = Slab::with_capacity(FEW);
        }
    }

    /// Frees unused memory; messages being sent stay.
    pub(super) fn shrink(&mut self) {
        self.0.shrink_to_fit();
    }

    #[cfg(any(test, feature = "invariants"))]
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &OutMessage)> {
        self.0.iter().map(|(number, message)| (number as u32, message))
    }
}

impl OutMessage {
    /// Records that another chunk of the message has this TSN.
    fn on_chunk(&mut self, tsn: u64) {
        self.span = u32::try_from(tsn - self.first + 1).unwrap_or(u32::MAX);
    }

    /// The TSN of its last chunk so far.
    pub(crate) fn last(&self) -> u64 {
        self.first + u64::from(self.span) - 1
    }
}

#[cfg(test)]
mod tests {
    use anabranch_wire::DataFlags;
    use bytes::Bytes;

    use super::*;

    fn fragment(message: u32, stream: u16, flags: u8) -> Fragment {
        Fragment {
            message,
            stream,
            sequence: 7,
            fsn: 0,
            interleaved: true,
            ppid: Ppid(9),
            flags: DataFlags(flags),
            context: 11,
            fate: Fate::Sure,
            payload: Bytes::from_static(b"x"),
        }
    }

    #[test]
    fn chunks_of_several_messages_alternate() {
        let mut messages = OutMessages::default();
        let long = messages.next_number();
        messages.on_chunk(10, &fragment(long, 1, DataFlags::BEGIN));
        let short = messages.next_number();
        let whole = DataFlags::BEGIN | DataFlags::END | DataFlags::UNORDERED;
        messages.on_chunk(11, &fragment(short, 2, whole));
        messages.on_chunk(12, &fragment(long, 1, 0));
        assert!(messages.get(short).unwrap().unordered && messages.get(short).unwrap().complete);
        assert_eq!(messages.get(short).unwrap().last(), 11);
        messages.remove(short);
        assert_eq!(messages.get(short), None);
        assert_eq!(messages.next_number(), short, "it is free again");
        messages.on_chunk(13, &fragment(long, 1, DataFlags::END));
        let first = *messages.get(long).unwrap();
        assert_eq!((first.first, first.last(), first.stream), (10, 13, 1));
        assert!(first.complete && !first.unordered);
        assert!(!messages.give_up(long, 14), "it has its last chunk");
        assert!(messages.get(long).unwrap().given_up);
    }

    #[test]
    fn a_large_window_of_the_past_takes_no_memory() {
        let mut messages = OutMessages::default();
        for tsn in 0..1000 {
            let number = messages.next_number();
            messages.on_chunk(tsn, &fragment(number, 1, DataFlags::BEGIN));
        }
        for number in 0..1000 {
            messages.remove(number);
        }
        assert!(messages.0.capacity() <= FEW);
        messages.shrink();
        assert_eq!(messages.0.capacity(), 0);
    }
}
