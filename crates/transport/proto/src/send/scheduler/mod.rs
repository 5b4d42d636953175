//! Chooses which stream sends next.
//!
//! A scheduler owns the queued messages. Once a message was begun, it is completed before another one
//! starts, because the fragments of a message have consecutive TSNs (RFC 9260 section 6.9). If the two
//! sides agreed on interleaving, only the messages of one stream wait for each other (RFC 8260).

mod classes;
mod fair;
mod fifo;
mod priority;
mod round_robin;
mod stream_queue;

use std::collections::VecDeque;

use anabranch_wire::Ppid;
use bytes::Bytes;

pub(crate) use self::classes::{Class, Classes};
use crate::named::named;
use crate::options::words;
use crate::reliability::Fate;

/// A queued message, or the rest of one.
#[derive(Debug)]
pub(crate) struct Queued {
    pub(crate) stream: u16,
    /// Its SSN or message identifier, once it was begun.
    pub(crate) sequence: u32,
    /// The position of its next chunk.
    pub(crate) fsn: u32,
    /// Its number among the messages with outstanding chunks, once it was begun.
    pub(crate) number: u32,
    pub(crate) ppid: Ppid,
    pub(crate) unordered: bool,
    pub(crate) sack_immediately: bool,
    /// It does not wait to share a packet.
    pub(crate) now: bool,
    /// It may be sent as several messages.
    pub(crate) divisible: bool,
    /// It is sent before messages of other streams.
    pub(crate) ahead: bool,
    /// Part of it was sent.
    pub(crate) begun: bool,
    /// No other message may be sent before it is finished.
    pub(crate) holds_turn: bool,
    pub(crate) fate: Fate,
    pub(crate) context: u64,
    pub(crate) rest: Bytes,
}

impl Queued {
    /// Whether it does not wait to share a packet: because the user requested that, or because it could
    /// only wait until its lifetime ends.
    pub(crate) fn is_urgent(&self) -> bool {
        self.now || self.fate.expires().is_some()
    }
}

/// The order in which streams send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum SchedulerKind {
    /// Messages are sent in the order of the calls.
    #[default]
    Fifo,
    /// Streams with messages take turns, message by message, or chunk by chunk if messages are interleaved.
    RoundRobin,
    /// Streams with messages take turns, packet by packet. A packet has messages of one stream only, so that its loss
    /// holds up no other.
    RoundRobinPacket,
    /// The stream with the smallest priority value sends first. Streams of equal priority take turns,
    /// unless they should be served one by one ([`StreamPriority`](crate::StreamPriority)).
    Priority,
    /// Streams share the capacity in bytes equally.
    Fair,
    /// Streams share the capacity in bytes by their weights. The weight of a stream is its
    /// [`urgency`](StreamPriority::urgency).
    WeightedFair,
}

/// A stream's priority under [`SchedulerKind::Priority`] (RFC 9218 section 4), or its weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamPriority {
    /// Smaller values are sent first. HTTP uses 0 to 7, with 3 as the default. Under
    /// [`SchedulerKind::WeightedFair`] it is the weight, and a larger value gets more; 0 counts as 1.
    pub urgency: u16,
    /// Whether the stream alternates with other streams of its urgency. Streams that do not alternate are
    /// served one by one, in the order of their numbers; all of them together count as one of the
    /// alternating streams, so none starves.
    pub incremental: bool,
}

impl Default for StreamPriority {
    /// The default priority of a stream: urgency 0, incremental.
    fn default() -> Self {
        Self { urgency: 0, incremental: true }
    }
}

impl From<u16> for StreamPriority {
    /// Alternates with other streams of this urgency.
    fn from(urgency: u16) -> Self {
        Self { urgency, incremental: true }
    }
}

/// How long the messages are into which byte streams are cut; a divisible message is sent as one message or
/// as several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Pieces {
    /// Like `Packet` while other streams have data waiting, else like `Long`.
    #[default]
    Auto,
    /// Each fills a packet.
    Packet,
    /// As long as the writer's pieces.
    Long,
}

named!(Pieces { Auto = "auto", Packet = "packet", Long = "long", });
words!(Pieces);

named!(SchedulerKind {
    Fifo = "fifo",
    RoundRobin = "round-robin",
    RoundRobinPacket = "round-robin-packet",
    Priority = "priority",
    Fair = "fair",
    WeightedFair = "weighted-fair",
});
words!(SchedulerKind);

/// The key of the messages that are sent before those of all streams, as if they were a stream.
const AHEAD: u32 = 1 << 16;

/// The key of a message's queue.
fn key(message: &Queued) -> u32 {
    if message.ahead { AHEAD } else { u32::from(message.stream) }
}

/// Takes the selected messages out of one queue, in place.
fn take_out(
    queue: &mut VecDeque<Queued>,
    which: &mut dyn FnMut(&Queued) -> bool,
    gone: &mut Vec<Queued>,
) {
    for _ in 0..queue.len() {
        let Some(message) = queue.pop_front() else { return };
        if which(&message) {
            gone.push(message);
        } else {
            queue.push_back(message);
        }
    }
}

/// The schedulers. Most associations have the first one, and the others must not make them larger.
#[derive(Debug)]
pub(crate) enum Scheduler {
    Fifo(fifo::Fifo),
    RoundRobin(Box<round_robin::RoundRobin>),
    Priority(Box<priority::Priority>),
    Fair(Box<fair::Fair>),
    Classes(Box<Classes>),
}

macro_rules! each {
    ($self:expr, $s:ident => $body:expr) => {
        match $self {
            Scheduler::Fifo($s) => $body,
            Scheduler::RoundRobin($s) => $body,
            Scheduler::Priority($s) => $body,
            Scheduler::Fair($s) => $body,
            Scheduler::Classes($s) => $body,
        }
    };
}

impl Scheduler {
    pub(crate) fn new(kind: SchedulerKind) -> Self {
        match kind {
            SchedulerKind::Fifo => Self::Fifo(fifo::Fifo::default()),
            SchedulerKind::RoundRobin => Self::RoundRobin(Box::default()),
            SchedulerKind::RoundRobinPacket => {
                Self::RoundRobin(Box::new(round_robin::RoundRobin::per_packet()))
            }
            SchedulerKind::Priority => Self::Priority(Box::default()),
            SchedulerKind::Fair => Self::Fair(Box::default()),
            SchedulerKind::WeightedFair => Self::Fair(Box::new(fair::Fair::weighted())),
        }
    }

    /// Adds a message. `priority` returns the priority of its stream, if the scheduler needs it. A change
    /// takes effect once the stream's waiting messages are sent, because they must keep their order.
    #[inline]
    pub(crate) fn push(&mut self, message: Queued, priority: impl FnOnce() -> StreamPriority) {
        match self {
            Self::Fifo(s) => s.push(message),
            Self::RoundRobin(s) => s.push(message),
            Self::Priority(s) => s.push(message, priority()),
            Self::Fair(s) => s.push(message, priority().urgency),
            Self::Classes(s) => s.push(message, priority()),
        }
    }

    /// Divides the streams into two classes: those before `from`, and the others. Nothing is queued.
    pub(crate) fn classify(&mut self, kind: SchedulerKind, from: u16) {
        *self = Self::Classes(Box::new(Classes::new(kind, from)));
    }

    /// The classes of streams, if there are any.
    #[inline]
    pub(crate) fn classes(&self) -> Option<&Classes> {
        match self {
            Self::Classes(classes) => Some(classes),
            _ => None,
        }
    }

    /// The same, mutable.
    pub(crate) fn classes_mut(&mut self) -> Option<&mut Classes> {
        match self {
            Self::Classes(classes) => Some(classes),
            _ => None,
        }
    }

    /// Moves all messages to a scheduler of another kind. Those that were sent in part stay before the others.
    pub(crate) fn change(&mut self, kind: SchedulerKind, priority: impl Fn(u16) -> StreamPriority) {
        let mut waiting = Vec::new();
        while let Some(message) = self.pop() {
            waiting.push(message);
        }
        waiting.sort_by_key(|message| !message.begun);
        match self.classes().map(|classes| classes.from) {
            Some(from) => self.classify(kind, from),
            None => *self = Self::new(kind),
        }
        for message in waiting {
            let stream = message.stream;
            self.push(message, || priority(stream));
        }
    }

    /// The next message to send. It stays the same until something is sent, and, once it holds its turn, until it is
    /// popped. A message that is pushed may go first.
    #[inline]
    pub(crate) fn peek(&self) -> Option<&Queued> {
        match self {
            Self::Fifo(s) => s.peek(),
            others => others.peek_in_others(),
        }
    }

    /// The same, apart from the usual scheduler's, which is inlined.
    #[inline(never)]
    fn peek_in_others(&self) -> Option<&Queued> {
        each!(self, s => s.peek())
    }

    /// The same message, to begin or cut it.
    #[inline]
    pub(crate) fn peek_mut(&mut self) -> Option<&mut Queued> {
        match self {
            Self::Fifo(s) => s.peek_mut(),
            others => others.peek_mut_in_others(),
        }
    }

    #[inline(never)]
    fn peek_mut_in_others(&mut self) -> Option<&mut Queued> {
        each!(self, s => s.peek_mut())
    }

    /// Removes the message that [`peek`](Self::peek) returns.
    pub(crate) fn pop(&mut self) -> Option<Queued> {
        each!(self, s => s.pop())
    }

    /// Removes the message that [`peek`](Self::peek) returns, all of which was sent.
    #[inline]
    pub(crate) fn finish(&mut self) {
        match self {
            // Inlined, so that it is not copied.
            Self::Fifo(s) => drop(s.pop()),
            others => drop(others.pop()),
        }
    }

    /// Removes all messages that `which` selects, and appends them to `gone`; the others keep their order.
    pub(crate) fn take_out(
        &mut self,
        which: &mut dyn FnMut(&Queued) -> bool,
        gone: &mut Vec<Queued>,
    ) {
        each!(self, s => s.take_out(which, gone));
    }

    /// Visits all messages.
    pub(crate) fn for_each(&mut self, look: &mut dyn FnMut(&Queued)) {
        let mut none = Vec::new();
        self.take_out(
            &mut |message| {
                look(message);
                false
            },
            &mut none,
        );
    }

    /// Bytes queued on a stream.
    pub(crate) fn queued_bytes(&self, stream: u16) -> usize {
        each!(self, s => s.queued_bytes(stream))
    }

    /// Bytes of divisible messages queued on a stream; takes constant time.
    pub(crate) fn divisible_bytes(&self, stream: u16) -> usize {
        each!(self, s => s.divisible_bytes(stream))
    }

    /// Whether more than one stream has messages waiting.
    #[inline]
    pub(crate) fn has_others(&self) -> bool {
        each!(self, s => s.has_others())
    }

    /// Records that `length` bytes of a stream's divisible messages are gone.
    pub(crate) fn on_cut(&mut self, stream: u16, length: usize) {
        each!(self, s => s.on_cut(stream, length));
    }

    /// Records that `length` bytes of the message that [`peek_mut`](Self::peek_mut) returns were sent. Its turn lasts
    /// until [`end_turn`](Self::end_turn) or [`pop`](Self::pop).
    #[inline]
    pub(crate) fn on_sent(&mut self, length: usize) {
        match self {
            Self::Fair(s) => s.on_sent(length),
            Self::Classes(s) => s.on_sent(length),
            _ => {}
        }
    }

    /// Ends the turn of the message that [`peek_mut`](Self::peek_mut) returns, after `length` bytes of it. Its rest is sent
    /// when the stream is served again. That is at once if streams take turns, and the bytes of this turn are
    /// less than `least`.
    pub(crate) fn end_turn(&mut self, length: usize, least: usize) {
        match self {
            Self::Fifo(_) => {}
            Self::RoundRobin(s) => s.end_turn(length, least),
            Self::Priority(s) => s.end_turn(length, least),
            Self::Fair(s) => s.end_turn(),
            Self::Classes(s) => s.end_turn(length, least),
        }
    }

    /// Records that a packet is full whose last message was of this stream.
    #[inline]
    pub(crate) fn end_packet(&mut self, stream: u16) {
        match self {
            Self::RoundRobin(s) => s.end_packet(stream),
            Self::Classes(s) => s.end_packet(stream),
            _ => {}
        }
    }

    /// The message of a stream that was sent in part.
    pub(crate) fn begun_mut(&mut self, stream: u16) -> Option<&mut Queued> {
        each!(self, s => s.begun_mut(stream))
    }

    /// Removes the message of a stream that was sent in part.
    pub(crate) fn take_begun(&mut self, stream: u16) -> Option<Queued> {
        let next = self.peek().is_some_and(|message| message.begun && message.stream == stream);
        if next {
            return self.pop();
        }
        let number = self.begun_mut(stream)?.number;
        let mut gone = Vec::new();
        self.take_out(&mut |message| message.begun && message.number == number, &mut gone);
        gone.pop()
    }

    /// Frees memory of empty queues.
    pub(crate) fn shrink(&mut self) {
        match self {
            Self::Fifo(s) => s.shrink(),
            Self::RoundRobin(s) => s.shrink(),
            Self::Priority(s) => s.shrink(),
            Self::Classes(s) => s.shrink(),
            // It keeps nothing.
            Self::Fair(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(stream: u16, text: &'static str) -> Queued {
        Queued {
            stream,
            sequence: 0,
            fsn: 0,
            number: 0,
            ppid: Ppid(0),
            unordered: false,
            sack_immediately: false,
            now: false,
            divisible: false,
            ahead: false,
            begun: false,
            holds_turn: false,
            fate: Fate::Sure,
            context: 0,
            rest: Bytes::from_static(text.as_bytes()),
        }
    }

    fn order(kind: SchedulerKind, priorities: &[(u16, u16)]) -> String {
        let mut scheduler = Scheduler::new(kind);
        let priority = |stream: u16| {
            let known = priorities.iter().find(|(of, _)| *of == stream);
            known.map_or(StreamPriority::default(), |(_, urgency)| (*urgency).into())
        };
        for (stream, text) in [(1, "a"), (1, "b"), (2, "c"), (3, "d"), (1, "e"), (2, "f")] {
            scheduler.push(message(stream, text), || priority(stream));
        }
        assert_eq!(scheduler.queued_bytes(1), 3);
        let mut out = String::new();
        while let Some(next) = scheduler.peek() {
            out.push_str(std::str::from_utf8(&next.rest).unwrap());
            scheduler.pop();
        }
        assert!(scheduler.pop().is_none());
        assert_eq!(scheduler.queued_bytes(1), 0);
        scheduler.shrink();
        out
    }

    #[test]
    fn schedulers_keep_their_order() {
        assert_eq!(order(SchedulerKind::Fifo, &[]), "abcdef");
        assert_eq!(order(SchedulerKind::RoundRobin, &[]), "acdbfe");
        assert_eq!(order(SchedulerKind::Priority, &[]), "acdbfe");
        assert_eq!(order(SchedulerKind::Priority, &[(1, 9), (2, 1), (3, 5)]), "cfdabe");
        assert_eq!(order(SchedulerKind::Priority, &[(1, 9), (2, 1), (3, 1)]), "cdfabe");
    }

    #[test]
    fn some_streams_share_and_others_are_served_one_by_one() {
        let mut scheduler = Scheduler::new(SchedulerKind::Priority);
        for (stream, text, urgency, incremental) in [
            (4, "aa", 3, false),
            (2, "bb", 3, false),
            (5, "cc", 3, true),
            (6, "dd", 3, true),
            (9, "ee", 1, false),
        ] {
            for index in 0..2 {
                let message = message(stream, &text[index..=index]);
                scheduler.push(message, || StreamPriority { urgency, incremental });
            }
        }
        let mut out = String::new();
        while let Some(next) = scheduler.peek_mut() {
            // As the send queue does.
            (next.begun, next.holds_turn) = (true, true);
            out.push_str(std::str::from_utf8(&next.rest).unwrap());
            scheduler.pop();
        }
        assert_eq!(out, "eebcbdacad");
    }

    #[test]
    fn what_is_taken_out_leaves_the_others_in_their_order() {
        for kind in SchedulerKind::ALL.iter().copied() {
            let mut scheduler = Scheduler::new(kind);
            for (stream, text) in [(1, "a"), (2, "b"), (1, "c"), (3, "d"), (3, "e"), (1, "f")] {
                scheduler.push(message(stream, text), StreamPriority::default);
            }
            let mut gone = Vec::new();
            scheduler.take_out(&mut |m| m.stream == 3 || m.rest == "a", &mut gone);
            let text = |m: &Queued| String::from_utf8(m.rest.to_vec()).unwrap();
            assert_eq!(gone.iter().map(text).collect::<String>(), "ade", "{kind:?}");
            assert_eq!(scheduler.queued_bytes(3), 0);
            let mut left = String::new();
            while let Some(next) = scheduler.pop() {
                left += &text(&next);
            }
            let expected = match kind {
                SchedulerKind::Fifo => "bcf",
                SchedulerKind::RoundRobin | SchedulerKind::Priority => "cbf",
                _ => "cfb",
            };
            assert_eq!(left, expected, "{kind:?}");
            assert!(scheduler.peek().is_none());
        }
    }

    #[test]
    fn a_begun_message_is_finished_first() {
        for kind in SchedulerKind::ALL.iter().copied() {
            let mut scheduler = Scheduler::new(kind);
            scheduler.push(message(2, "begun"), || 7.into());
            let first = scheduler.peek_mut().unwrap();
            (first.begun, first.holds_turn) = (true, true);
            scheduler.on_sent(1);
            scheduler.push(message(1, "more urgent"), || 0.into());
            assert_eq!(scheduler.peek().unwrap().stream, 2, "{kind:?}");
            assert_eq!(scheduler.pop().unwrap().stream, 2, "{kind:?}");
            assert_eq!(scheduler.peek().unwrap().stream, 1, "{kind:?}");
        }
    }
}
