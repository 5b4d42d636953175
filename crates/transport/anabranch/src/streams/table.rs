//! The streams in use, with the received messages that the application has not read yet.
//!
//! A stream belongs either to a [`RecvStream`](crate::RecvStream) (it is claimed) or to the association, whose
//! `recv` takes messages of all such streams in the order of delivery.

use std::collections::VecDeque;
use std::task::Waker;

use anabranch_proto::Message;
use anabranch_proto::byte_mode::Mark;

use crate::byte_mode::{BYTES, BYTES_1};
use crate::numbers::NumberMap;

/// The streams of one association.
#[derive(Debug, Default)]
pub(crate) struct Table {
    /// The streams in use.
    streams: NumberMap<u16, Stream>,
    /// Messages of unclaimed streams in order of delivery: their number and stream. Entries of
    /// streams claimed since then are stale.
    arrivals: VecDeque<(u64, u16)>,
    /// Entries of `arrivals` that are not stale.
    unclaimed: usize,
    /// Unclaimed streams on which something arrived, for `accept_stream`.
    fresh: VecDeque<u16>,
    next_number: u64,
    /// Messages with lower numbers were received before the peer restarted; streams of the new incarnation do not
    /// begin with them.
    restarted_at: u64,
}

#[derive(Debug, Default)]
struct Stream {
    messages: VecDeque<(u64, Message)>,
    /// The stream has a `RecvStream`.
    claimed: bool,
    /// The stream has a `SendStream`, or its end mark is due.
    sending: bool,
    reader: Option<Waker>,
    /// Received data is thrown away until the end mark.
    discarding: bool,
    /// The stream is in `fresh`.
    announced: bool,
}

impl Stream {
    fn is_unused(&self) -> bool {
        self.messages.is_empty() && !self.claimed && !self.sending && !self.discarding
    }
}

/// What happened to a pushed message, and which task to wake.
#[derive(Debug)]
pub(crate) enum Pushed {
    /// It waits for the stream's reader, whose waker is returned if it waits.
    Reader(Option<Waker>),
    /// It waits for `recv` or `accept_stream`.
    Unclaimed,
    /// It was thrown away; the charge must be returned to the engine.
    Discarded(u32),
}

/// Discarded data.
#[derive(Debug, Default)]
pub(crate) struct Discarded {
    /// Charge to release.
    pub(crate) charge: u32,
    /// Bytes of the byte stream.
    pub(crate) bytes: usize,
    /// The end of the byte stream was discarded, too.
    pub(crate) ended: bool,
}

impl Table {
    /// Adds a message from the engine.
    pub(crate) fn push(&mut self, message: Message) -> Pushed {
        let stream = message.stream;
        let row = self.streams.entry(stream).or_default();
        if row.discarding {
            row.discarding = Mark::of(&message).is_none();
            let charge = message.charge();
            self.forget_if_unused(stream);
            return Pushed::Discarded(charge);
        }
        let number = self.next_number;
        self.next_number += 1;
        row.messages.push_back((number, message));
        if row.claimed {
            return Pushed::Reader(row.reader.take());
        }
        if !row.announced {
            row.announced = true;
            self.fresh.push_back(stream);
        }
        self.arrivals.push_back((number, stream));
        self.unclaimed += 1;
        Pushed::Unclaimed
    }

    /// Takes the next message of an unclaimed stream.
    pub(crate) fn pop(&mut self) -> Option<Message> {
        while let Some((number, stream)) = self.arrivals.pop_front() {
            let Some(row) = self.streams.get_mut(&stream).filter(|row| !row.claimed) else {
                continue;
            };
            if row.messages.front().is_none_or(|front| front.0 != number) {
                continue;
            }
            let message = row.messages.pop_front().map(|(_, message)| message);
            self.unclaimed -= 1;
            self.forget_if_unused(stream);
            return message;
        }
        None
    }

    /// Takes the next message of a claimed stream. If there is none, registers its reader, if given.
    pub(crate) fn pop_stream(&mut self, stream: u16, reader: Option<&Waker>) -> Option<Message> {
        let row = self.streams.get_mut(&stream)?;
        let message = row.messages.pop_front().map(|(_, message)| message);
        if let (None, Some(reader)) = (&message, reader) {
            row.reader = Some(reader.clone());
        }
        message
    }

    /// The next stream without handles on which something arrived. Those that have a sender must be announced
    /// again later.
    pub(crate) fn next_fresh(&mut self) -> Option<u16> {
        while let Some(stream) = self.fresh.pop_front() {
            let Some(row) = self.streams.get_mut(&stream) else {
                continue;
            };
            row.announced = false;
            if !row.claimed && !row.sending && !row.messages.is_empty() {
                return Some(stream);
            }
        }
        None
    }

    /// Queues a stream for `next_fresh` if it is unclaimed and has messages. Returns whether it did.
    pub(crate) fn announce(&mut self, stream: u16) -> bool {
        match self.streams.get_mut(&stream) {
            Some(row) if !row.claimed && !row.messages.is_empty() => {
                if !row.announced {
                    row.announced = true;
                    self.fresh.push_back(stream);
                }
                true
            }
            _ => false,
        }
    }

    /// Takes both directions of a stream for handles. `None` if it has a reader; otherwise the charge of data
    /// from before a restart of the peer, which is dropped.
    pub(crate) fn claim(&mut self, stream: u16) -> Option<u32> {
        let row = self.streams.entry(stream).or_default();
        if row.claimed {
            return None;
        }
        (row.claimed, row.sending) = (true, true);
        self.unclaimed -= row.messages.len();
        let mut dropped = 0;
        while row.messages.front().is_some_and(|(at, _)| *at < self.restarted_at) {
            dropped += row.messages.pop_front().map_or(0, |(_, old)| old.charge());
        }
        self.drop_stale();
        Some(dropped)
    }

    /// Handles a restart of the peer. All handles end. Data that their owners have not read is dropped, and so
    /// are the bytes of streams that were not accepted; other messages can still be read. Returns the charge of
    /// the dropped data.
    pub(crate) fn restart(&mut self) -> u32 {
        let mut dropped = 0;
        self.restarted_at = self.next_number;
        self.fresh.clear();
        self.streams.retain(|_, row| {
            let claimed = std::mem::take(&mut row.claimed);
            (row.discarding, row.announced, row.reader) = (false, false, None);
            row.sending = false;
            row.messages.retain(|(_, message)| {
                let bytes = matches!(message.ppid, BYTES | BYTES_1);
                let keep = !claimed && !bytes && Mark::of(message).is_none();
                if !keep {
                    dropped += message.charge();
                }
                keep
            });
            !row.messages.is_empty()
        });
        self.unclaimed = self.streams.values().map(|row| row.messages.len()).sum();
        self.drop_stale();
        dropped
    }

    /// Returns a stream from its reader: `pop` takes its messages again.
    pub(crate) fn unclaim(&mut self, stream: u16) {
        let Some(row) = self.streams.get_mut(&stream) else {
            return;
        };
        row.claimed = false;
        row.reader = None;
        if !row.messages.is_empty() {
            self.unclaimed += row.messages.len();
            self.arrivals.extend(row.messages.iter().map(|(number, _)| (*number, stream)));
            self.arrivals.make_contiguous().sort_unstable();
        }
        self.announce(stream);
        self.forget_if_unused(stream);
    }

    /// Returns a stream from its reader, and throws away data up to the end mark.
    pub(crate) fn discard(&mut self, stream: u16) -> Discarded {
        let mut gone = Discarded::default();
        if let Some(row) = self.streams.get_mut(&stream) {
            row.discarding = true;
            while let Some((_, message)) = row.messages.pop_front() {
                gone.charge += message.charge();
                if message.ppid == BYTES {
                    gone.bytes += message.payload.len();
                }
                if Mark::of(&message).is_some() {
                    gone.ended = true;
                    row.discarding = false;
                    break;
                }
            }
        }
        self.unclaim(stream);
        gone
    }

    /// Whether a stream has messages but no reader, so it can be accepted.
    pub(crate) fn is_unclaimed(&self, stream: u16) -> bool {
        self.streams.get(&stream).is_some_and(|row| !row.claimed && !row.messages.is_empty())
    }

    /// Frees the sending half of a stream.
    pub(crate) fn free_sender(&mut self, stream: u16) {
        if let Some(stream) = self.streams.get_mut(&stream) {
            stream.sending = false;
        }
        self.forget_if_unused(stream);
    }

    /// Whether a stream has a sender, or an end mark is due.
    pub(crate) fn has_sender(&self, stream: u16) -> bool {
        self.streams.get(&stream).is_some_and(|stream| stream.sending)
    }

    /// Whether a stream has a handle, holds messages or is being discarded.
    pub(crate) fn uses(&self, stream: u16) -> bool {
        self.streams.contains_key(&stream)
    }

    /// Throws all messages away. Returns the charge to release. Streams with a due end mark stay in use.
    pub(crate) fn clear(&mut self) -> u32 {
        let mut charge = 0;
        self.streams.retain(|_, stream| {
            let old = std::mem::take(stream);
            charge += old.messages.iter().map(|(_, message)| message.charge()).sum::<u32>();
            stream.sending = old.sending;
            stream.sending
        });
        (self.arrivals, self.fresh, self.unclaimed) = Default::default();
        charge
    }

    /// Takes the wakers of all readers.
    pub(crate) fn take_readers(&mut self) -> impl Iterator<Item = Waker> {
        self.streams.values_mut().filter_map(|row| row.reader.take())
    }

    fn forget_if_unused(&mut self, stream: u16) {
        if self.streams.get(&stream).is_some_and(Stream::is_unused) {
            self.streams.remove(&stream);
        }
    }

    /// Removes stale entries of `arrivals` when they outnumber the others, in case `pop` is never called.
    fn drop_stale(&mut self) {
        if self.arrivals.len() > 2 * self.unclaimed + 16 {
            let streams = &self.streams;
            self.arrivals.retain(|(_, stream)| streams.get(stream).is_some_and(|row| !row.claimed));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use anabranch_proto::Ppid;
    use bytes::Bytes;

    use super::*;
    use crate::byte_mode::MARK;

    fn message(stream: u16, ppid: Ppid, data: &'static [u8]) -> Message {
        Message::new(stream, ppid, Bytes::from_static(data))
    }

    fn push(table: &mut Table, stream: u16, data: &'static [u8]) -> Pushed {
        table.push(message(stream, Ppid(0), data))
    }

    fn pop(table: &mut Table) -> Option<(u16, Bytes)> {
        table.pop().map(|message| (message.stream, message.payload.into_bytes()))
    }

    #[test]
    fn messages_of_all_streams_come_in_order() {
        let mut table = Table::default();
        for (stream, data) in [(1, &b"a"[..]), (2, b"b"), (1, b"c")] {
            assert!(matches!(push(&mut table, stream, data), Pushed::Unclaimed));
        }
        let order: Vec<_> = std::iter::from_fn(|| pop(&mut table)).collect();
        assert_eq!(order, [(1, "a".into()), (2, "b".into()), (1, "c".into())]);
        assert!(!table.uses(1) && !table.uses(2));
    }

    #[test]
    fn claimed_streams_have_their_own_queue() {
        let mut table = Table::default();
        push(&mut table, 1, b"a");
        push(&mut table, 2, b"b");
        assert_eq!(table.claim(1), Some(0));
        assert_eq!(table.claim(1), None);
        assert!(matches!(push(&mut table, 1, b"c"), Pushed::Reader(None)));
        assert_eq!(pop(&mut table), Some((2, "b".into())));
        assert_eq!(pop(&mut table), None);
        let mut next = || table.pop_stream(1, Some(Waker::noop())).map(|m| m.payload.into_bytes());
        assert_eq!((next(), next(), next()), (Some("a".into()), Some("c".into()), None));
        assert!(matches!(push(&mut table, 1, b"d"), Pushed::Reader(Some(_))));
        push(&mut table, 3, b"e");
        // Messages that the reader did not take return to their place.
        table.unclaim(1);
        assert_eq!(pop(&mut table), Some((1, "d".into())));
        assert_eq!(pop(&mut table), Some((3, "e".into())));
    }

    #[test]
    fn streams_are_announced_once_until_taken() {
        let mut table = Table::default();
        table.claim(7);
        table.unclaim(7);
        push(&mut table, 7, b"a");
        push(&mut table, 7, b"b");
        push(&mut table, 8, b"c");
        assert_eq!(table.next_fresh(), Some(8), "the other one has a sender");
        assert_eq!(table.next_fresh(), None);
        table.free_sender(7);
        assert!(table.announce(7));
        assert_eq!(table.next_fresh(), Some(7));
        table.claim(7);
        assert!(!table.announce(7));
        table.unclaim(7);
        table.free_sender(7);
        assert_eq!(table.next_fresh(), Some(7));
    }

    #[test]
    fn a_stopped_stream_is_thrown_away_up_to_its_mark() {
        let mut table = Table::default();
        table.claim(1);
        push(&mut table, 1, b"a");
        table.discard(1);
        table.free_sender(1);
        assert!(table.uses(1));
        assert!(matches!(push(&mut table, 1, b"b"), Pushed::Discarded(_)));
        assert!(matches!(table.push(message(1, MARK, b"\0")), Pushed::Discarded(_)));
        assert!(!table.uses(1));
        assert!(matches!(push(&mut table, 1, b"next"), Pushed::Unclaimed));
        // The mark is there already, so the next exchange is not affected.
        table.claim(1);
        table.push(message(1, MARK, b"\0"));
        push(&mut table, 1, b"later");
        table.discard(1);
        assert_eq!(pop(&mut table), Some((1, "later".into())));
    }

    #[test]
    fn a_stream_with_a_sender_stays_in_use() {
        let mut table = Table::default();
        table.claim(1);
        table.unclaim(1);
        assert!(table.has_sender(1) && table.uses(1));
        assert_eq!(table.clear(), 0);
        assert!(table.has_sender(1), "its end mark may be due after the last handle is gone");
        table.free_sender(1);
        assert!(!table.has_sender(1) && !table.uses(1));
    }

    #[test]
    fn a_restart_leaves_whole_messages_that_nobody_had_claimed() {
        let mut table = Table::default();
        table.claim(1);
        push(&mut table, 1, b"read by a stream");
        push(&mut table, 2, b"kept");
        table.push(message(3, crate::byte_mode::BYTES, b"half a request"));
        push(&mut table, 4, b"kept, too");
        table.restart();
        assert!(!table.uses(1) && !table.has_sender(1) && !table.uses(3));
        assert_eq!(table.next_fresh(), None, "nothing old begins a stream");
        // The numbers are free for the new incarnation, and old messages do not precede its messages.
        assert_eq!(table.claim(1), Some(0));
        push(&mut table, 4, b"new");
        assert_eq!(table.next_fresh(), Some(4));
        table.claim(4);
        let mut next = || table.pop_stream(4, Some(Waker::noop())).map(|m| m.payload.into_bytes());
        assert_eq!((next(), next()), (Some("new".into()), None));
        assert_eq!(pop(&mut table), Some((2, "kept".into())));
        assert_eq!(pop(&mut table), None);
    }

    #[test]
    fn stale_entries_do_not_pile_up() {
        let mut table = Table::default();
        for _ in 0..1000 {
            push(&mut table, 5, b"x");
            table.claim(5);
            while table.pop_stream(5, Some(Waker::noop())).is_some() {}
            table.unclaim(5);
        }
        assert!(table.arrivals.len() < 100);
        assert_eq!(table.clear(), 0);
    }
}
