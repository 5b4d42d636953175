//! Received messages that the application has not read yet, by stream.
//!
//! A stream belongs either to a [`RecvStream`](crate::RecvStream) or to the association, whose
//! `recv` takes messages of all such streams in the order in which they were delivered.

use std::collections::VecDeque;
use std::task::Waker;

use anabranch_proto::Message;
use anabranch_proto::byte_mode::Mark;

use crate::byte_mode::{BYTES, BYTES_1};
use crate::numbers::NumberMap;

/// The queues of one association.
#[derive(Debug, Default)]
pub(crate) struct Inbound {
    streams: NumberMap<u16, Queue>,
    /// Messages of unclaimed streams in order of delivery: their number and stream. Entries of
    /// streams claimed since then are stale.
    arrivals: VecDeque<(u64, u16)>,
    /// Entries of `arrivals` that are not stale.
    unclaimed: usize,
    /// Unclaimed streams on which something arrived, for `accept_stream`.
    fresh: VecDeque<u16>,
    next_number: u64,
    /// Messages below this number came before the peer restarted; streams of the new incarnation do
    /// not begin with them.
    restarted_at: u64,
}

#[derive(Debug, Default)]
struct Queue {
    messages: VecDeque<(u64, Message)>,
    claimed: bool,
    reader: Option<Waker>,
    /// Received data is thrown away until the end mark.
    discarding: bool,
    /// In `fresh`.
    announced: bool,
}

impl Queue {
    fn is_unused(&self) -> bool {
        self.messages.is_empty() && !self.claimed && !self.discarding
    }
}

/// Whom to notify of a message, and whether it is kept.
#[derive(Debug)]
pub(crate) enum Pushed {
    /// It waits for the stream's reader.
    Reader(Option<Waker>),
    /// It waits for `recv` or `accept_stream`.
    Unclaimed,
    /// The message is not wanted; the charge goes back to the engine.
    Discarded(u32),
}

/// Discarded data.
#[derive(Debug, Default)]
pub(crate) struct Discarded {
    /// To be released.
    pub(crate) charge: u32,
    /// Bytes of the byte stream.
    pub(crate) bytes: usize,
    /// Its end was among it.
    pub(crate) ended: bool,
}

impl Inbound {
    /// Takes a message from the engine.
    pub(crate) fn push(&mut self, message: Message) -> Pushed {
        let stream = message.stream;
        let queue = self.streams.entry(stream).or_default();
        if queue.discarding {
            queue.discarding = Mark::of(&message).is_none();
            let charge = message.charge();
            self.forget_if_unused(stream);
            return Pushed::Discarded(charge);
        }
        let number = self.next_number;
        self.next_number += 1;
        queue.messages.push_back((number, message));
        if queue.claimed {
            return Pushed::Reader(queue.reader.take());
        }
        if !queue.announced {
            queue.announced = true;
            self.fresh.push_back(stream);
        }
        self.arrivals.push_back((number, stream));
        self.unclaimed += 1;
        Pushed::Unclaimed
    }

    /// Takes the next message of an unclaimed stream.
    pub(crate) fn pop(&mut self) -> Option<Message> {
        while let Some((number, stream)) = self.arrivals.pop_front() {
            let Some(queue) = self.streams.get_mut(&stream).filter(|queue| !queue.claimed) else {
                continue;
            };
            if queue.messages.front().is_none_or(|front| front.0 != number) {
                continue;
            }
            let message = queue.messages.pop_front().map(|(_, message)| message);
            self.unclaimed -= 1;
            self.forget_if_unused(stream);
            return message;
        }
        None
    }

    /// Takes the next message of a claimed stream, or registers its reader.
    pub(crate) fn pop_stream(&mut self, stream: u16, reader: &Waker) -> Option<Message> {
        let queue = self.streams.get_mut(&stream)?;
        let message = queue.messages.pop_front().map(|(_, message)| message);
        if message.is_none() {
            queue.reader = Some(reader.clone());
        }
        message
    }

    /// The next unclaimed stream on which something arrived and for which `is_free` returns true;
    /// the others must be announced again.
    pub(crate) fn next_fresh(&mut self, is_free: impl Fn(u16) -> bool) -> Option<u16> {
        while let Some(stream) = self.fresh.pop_front() {
            let Some(queue) = self.streams.get_mut(&stream) else {
                continue;
            };
            queue.announced = false;
            if !queue.claimed && !queue.messages.is_empty() && is_free(stream) {
                return Some(stream);
            }
        }
        None
    }

    /// Offers a stream to `next_fresh` if it is unclaimed and holds messages. Returns whether so.
    pub(crate) fn announce(&mut self, stream: u16) -> bool {
        match self.streams.get_mut(&stream) {
            Some(queue) if !queue.claimed && !queue.messages.is_empty() => {
                if !queue.announced {
                    queue.announced = true;
                    self.fresh.push_back(stream);
                }
                true
            }
            _ => false,
        }
    }

    /// Gives a stream to a reader. `None` if it has one; else the charge of data that came before
    /// the peer restarted, and is dropped.
    pub(crate) fn claim(&mut self, stream: u16) -> Option<u32> {
        let queue = self.streams.entry(stream).or_default();
        if queue.claimed {
            return None;
        }
        queue.claimed = true;
        self.unclaimed -= queue.messages.len();
        let mut dropped = 0;
        while queue.messages.front().is_some_and(|(at, _)| *at < self.restarted_at) {
            dropped += queue.messages.pop_front().map_or(0, |(_, old)| old.charge());
        }
        self.drop_stale();
        Some(dropped)
    }

    /// The peer restarted. Its readers end, and data that they have not read is dropped, as are the
    /// bytes of streams that were not accepted; other messages can still be read. Returns the
    /// charge of the dropped data.
    pub(crate) fn restart(&mut self) -> u32 {
        let mut dropped = 0;
        self.restarted_at = self.next_number;
        self.fresh.clear();
        self.streams.retain(|_, queue| {
            let claimed = std::mem::take(&mut queue.claimed);
            (queue.discarding, queue.announced, queue.reader) = (false, false, None);
            queue.messages.retain(|(_, message)| {
                let bytes = matches!(message.ppid, BYTES | BYTES_1);
                let keep = !claimed && !bytes && Mark::of(message).is_none();
                if !keep {
                    dropped += message.charge();
                }
                keep
            });
            !queue.messages.is_empty()
        });
        self.unclaimed = self.streams.values().map(|queue| queue.messages.len()).sum();
        self.drop_stale();
        dropped
    }

    /// Takes a stream back from its reader: its messages go to `pop` again.
    pub(crate) fn unclaim(&mut self, stream: u16) {
        let Some(queue) = self.streams.get_mut(&stream) else {
            return;
        };
        queue.claimed = false;
        queue.reader = None;
        if !queue.messages.is_empty() {
            self.unclaimed += queue.messages.len();
            self.arrivals.extend(queue.messages.iter().map(|(number, _)| (*number, stream)));
            self.arrivals.make_contiguous().sort_unstable();
        }
        self.announce(stream);
        self.forget_if_unused(stream);
    }

    /// Takes a stream back from its reader and throws away data up to the end mark.
    pub(crate) fn discard(&mut self, stream: u16) -> Discarded {
        let mut gone = Discarded::default();
        if let Some(queue) = self.streams.get_mut(&stream) {
            queue.discarding = true;
            while let Some((_, message)) = queue.messages.pop_front() {
                gone.charge += message.charge();
                if message.ppid == BYTES {
                    gone.bytes += message.payload.len();
                }
                if Mark::of(&message).is_some() {
                    gone.ended = true;
                    queue.discarding = false;
                    break;
                }
            }
        }
        self.unclaim(stream);
        gone
    }

    /// Whether a stream has messages and no reader, so that it can be accepted.
    pub(crate) fn is_unclaimed(&self, stream: u16) -> bool {
        self.streams.get(&stream).is_some_and(|q| !q.claimed && !q.messages.is_empty())
    }

    /// Whether a stream is claimed, holds messages or is being discarded.
    pub(crate) fn uses(&self, stream: u16) -> bool {
        self.streams.contains_key(&stream)
    }

    /// Throws everything away. Returns the charge to release.
    pub(crate) fn clear(&mut self) -> u32 {
        let queues = std::mem::take(&mut self.streams).into_values();
        let charge = queues.flat_map(|queue| queue.messages).map(|(_, message)| message.charge());
        (self.arrivals, self.fresh, self.unclaimed) = Default::default();
        charge.sum()
    }

    /// Takes the wakers of all readers.
    pub(crate) fn take_readers(&mut self) -> impl Iterator<Item = Waker> {
        self.streams.values_mut().filter_map(|queue| queue.reader.take())
    }

    fn forget_if_unused(&mut self, stream: u16) {
        if self.streams.get(&stream).is_some_and(Queue::is_unused) {
            self.streams.remove(&stream);
        }
    }

    /// Keeps stale entries in `arrivals` from outnumbering the others if nobody calls `pop`.
    fn drop_stale(&mut self) {
        if self.arrivals.len() > 2 * self.unclaimed + 16 {
            let streams = &self.streams;
            self.arrivals.retain(|(_, stream)| streams.get(stream).is_some_and(|q| !q.claimed));
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

    fn push(inbound: &mut Inbound, stream: u16, data: &'static [u8]) -> Pushed {
        inbound.push(message(stream, Ppid(0), data))
    }

    fn pop(inbound: &mut Inbound) -> Option<(u16, Bytes)> {
        inbound.pop().map(|message| (message.stream, message.payload.into_bytes()))
    }

    #[test]
    fn messages_of_all_streams_come_in_order() {
        let mut inbound = Inbound::default();
        for (stream, data) in [(1, &b"a"[..]), (2, b"b"), (1, b"c")] {
            assert!(matches!(push(&mut inbound, stream, data), Pushed::Unclaimed));
        }
        let order: Vec<_> = std::iter::from_fn(|| pop(&mut inbound)).collect();
        assert_eq!(order, [(1, "a".into()), (2, "b".into()), (1, "c".into())]);
        assert!(!inbound.uses(1) && !inbound.uses(2));
    }

    #[test]
    fn claimed_streams_have_their_own_queue() {
        let mut inbound = Inbound::default();
        push(&mut inbound, 1, b"a");
        push(&mut inbound, 2, b"b");
        assert_eq!(inbound.claim(1), Some(0));
        assert_eq!(inbound.claim(1), None);
        assert!(matches!(push(&mut inbound, 1, b"c"), Pushed::Reader(None)));
        assert_eq!(pop(&mut inbound), Some((2, "b".into())));
        assert_eq!(pop(&mut inbound), None);
        let mut next = || inbound.pop_stream(1, Waker::noop()).map(|m| m.payload.into_bytes());
        assert_eq!((next(), next(), next()), (Some("a".into()), Some("c".into()), None));
        assert!(matches!(push(&mut inbound, 1, b"d"), Pushed::Reader(Some(_))));
        push(&mut inbound, 3, b"e");
        // Messages that the reader leaves come back in their place.
        inbound.unclaim(1);
        assert_eq!(pop(&mut inbound), Some((1, "d".into())));
        assert_eq!(pop(&mut inbound), Some((3, "e".into())));
    }

    #[test]
    fn streams_are_announced_once_until_taken() {
        let mut inbound = Inbound::default();
        push(&mut inbound, 7, b"a");
        push(&mut inbound, 7, b"b");
        push(&mut inbound, 8, b"c");
        assert_eq!(inbound.next_fresh(|stream| stream != 7), Some(8));
        assert_eq!(inbound.next_fresh(|_| true), None);
        assert!(inbound.announce(7));
        assert_eq!(inbound.next_fresh(|_| true), Some(7));
        inbound.claim(7);
        assert!(!inbound.announce(7));
        inbound.unclaim(7);
        assert_eq!(inbound.next_fresh(|_| true), Some(7));
    }

    #[test]
    fn a_stopped_stream_is_thrown_away_up_to_its_mark() {
        let mut inbound = Inbound::default();
        inbound.claim(1);
        push(&mut inbound, 1, b"a");
        inbound.discard(1);
        assert!(inbound.uses(1));
        assert!(matches!(push(&mut inbound, 1, b"b"), Pushed::Discarded(_)));
        assert!(matches!(inbound.push(message(1, MARK, b"\0")), Pushed::Discarded(_)));
        assert!(!inbound.uses(1));
        assert!(matches!(push(&mut inbound, 1, b"next"), Pushed::Unclaimed));
        // With the mark there already, the next exchange is not touched.
        inbound.claim(1);
        inbound.push(message(1, MARK, b"\0"));
        push(&mut inbound, 1, b"later");
        inbound.discard(1);
        assert_eq!(pop(&mut inbound), Some((1, "later".into())));
    }

    #[test]
    fn a_restart_leaves_whole_messages_that_nobody_had_claimed() {
        let mut inbound = Inbound::default();
        inbound.claim(1);
        push(&mut inbound, 1, b"read by a stream");
        push(&mut inbound, 2, b"kept");
        inbound.push(message(3, crate::byte_mode::BYTES, b"half a request"));
        push(&mut inbound, 4, b"kept, too");
        inbound.restart();
        assert!(!inbound.uses(1) && !inbound.uses(3));
        assert_eq!(inbound.next_fresh(|_| true), None, "nothing old begins a stream");
        // The numbers are free for the new incarnation, and old messages do not precede its own.
        assert_eq!(inbound.claim(1), Some(0));
        push(&mut inbound, 4, b"new");
        assert_eq!(inbound.next_fresh(|_| true), Some(4));
        inbound.claim(4);
        let mut next = || inbound.pop_stream(4, Waker::noop()).map(|m| m.payload.into_bytes());
        assert_eq!((next(), next()), (Some("new".into()), None));
        assert_eq!(pop(&mut inbound), Some((2, "kept".into())));
        assert_eq!(pop(&mut inbound), None);
    }

    #[test]
    fn stale_entries_do_not_pile_up() {
        let mut inbound = Inbound::default();
        for _ in 0..1000 {
            push(&mut inbound, 5, b"x");
            inbound.claim(5);
            while inbound.pop_stream(5, Waker::noop()).is_some() {}
            inbound.unclaim(5);
        }
        assert!(inbound.arrivals.len() < 100);
        assert_eq!(inbound.clear(), 0);
    }
}
