//! Delivers messages to the user in the order of their streams (RFC 9260 sections 6.5 and 6.6). The number of a message
//! in its stream is the SSN, or the message identifier of RFC 8260.

use std::collections::{BTreeMap, VecDeque};

use crate::message::Message;
use crate::pages::Pages;
use crate::receive::reassembly::{Assembled, Violation};
use crate::receive::tsns::Tsns;
use crate::stream_set::StreamSet;

/// The capacity in messages that is kept while the queue is empty.
const KEPT: usize = 4;

/// Messages that wait for earlier ones, and those that can be delivered.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    next: Numbers,
    /// Complete messages that follow a missing one.
    held: Held,
    ready: VecDeque<Message>,
}

impl Streams {
    /// Accepts a complete message, and releases messages that waited for it. Calls `deliverable` with the
    /// first and last TSN of the data that can be delivered now.
    ///
    /// # Errors
    /// Its number is impossible.
    #[inline]
    pub(crate) fn deliver(
        &mut self,
        assembled: Assembled,
        cumulative: u64,
        mut deliverable: impl FnMut(u64, u64),
    ) -> Result<(), Violation> {
        let Assembled { tsns, message } = assembled;
        // req: rfc9260 3.3.1 "MUST be dispatched to the upper layer by"
        if message.unordered {
            tsns.ranges().for_each(|(first, last)| deliverable(first, last));
            self.make_ready(message);
            return Ok(());
        }
        let (stream, number) = (message.stream, message.sequence);
        // req: rfc9260 6.6 "MUST deliver DATA chunks received with the U"
        let ahead = self.next.distance(self.next.get(stream), number);
        if ahead != 0 {
            return self.wait(ahead, cumulative, Assembled { tsns, message });
        }
        tsns.ranges().for_each(|(first, last)| deliverable(first, last));
        self.make_ready(message);
        let next = self.next.after(number, 1);
        let next = match self.held.is_empty() {
            true => next,
            false => self.release_all(stream, next, &mut deliverable),
        };
        self.next.set(stream, next);
        Ok(())
    }

    #[inline]
    fn make_ready(&mut self, message: Message) {
        if message.begin || self.next.are_mids() {
            self.ready.push_back(message);
        } else {
            // The end of a message that was taken in part goes before messages that became complete meanwhile.
            self.ready.push_front(message);
        }
    }

    /// Keeps a message that is `ahead` messages after the one that its stream waits for.
    ///
    /// # Errors
    /// Its number is impossible.
    fn wait(&mut self, ahead: u32, cumulative: u64, early: Assembled) -> Result<(), Violation> {
        let Assembled { mut tsns, message } = early;
        let (first_tsn, last_tsn) = (tsns.first(), tsns.last());
        // Message identifiers that were used before do not come to here.
        if !self.next.are_mids() && !may_be_ahead(ahead, first_tsn, cumulative) {
            return Err("a stream sequence number that was used before or is too far ahead");
        }
        self.next.store_ranges(&mut tsns);
        let (number, highest) = (message.sequence, self.next.highest());
        self.held.insert(number, Waiting { first_tsn, last_tsn, message }, highest)
    }

    /// Delivers the messages of a stream up to the number `last` that have arrived, and those that follow them, and no
    /// longer waits for the others. Calls `deliverable` with the first and last TSN of the data that can be delivered
    /// now.
    pub(crate) fn skip(&mut self, stream: u16, last: u32, mut deliverable: impl FnMut(u64, u64)) {
        let mut next = self.next.get(stream);
        // How many numbers to pass.
        let mut left = self.next.distance(next, self.next.after(last, 1));
        // It is not news if the stream has passed it.
        if left == 0 || left > self.next.highest() / 2 + 1 {
            return;
        }
        while left > 0 {
            let first = self.held.first_from(stream, next);
            let near = first.filter(|first| self.next.distance(next, *first) < left);
            let Some(first) = near else {
                next = self.next.after(next, left);
                break;
            };
            let skipped = self.next.distance(next, first);
            let delivered = self.release(stream, first, &mut deliverable);
            next = self.next.after(first, delivered);
            left = left.saturating_sub(skipped + delivered);
        }
        next = self.release_all(stream, next, &mut deliverable);
        self.next.set(stream, next);
    }

    /// Delivers the runs of a stream from this number; returns the number after them.
    fn release_all(
        &mut self,
        stream: u16,
        mut next: u32,
        deliverable: &mut impl FnMut(u64, u64),
    ) -> u32 {
        loop {
            match self.release(stream, next, deliverable) {
                0 => return next,
                delivered => next = self.next.after(next, delivered),
            }
        }
    }

    /// Delivers the run of a stream that begins with this number; returns how many messages it has.
    fn release(&mut self, stream: u16, first: u32, deliverable: &mut impl FnMut(u64, u64)) -> u32 {
        let Some(run) = self.held.take(stream, first) else { return 0 };
        let length = run.len();
        for waiting in run {
            let tsns = self.next.tsns(&waiting);
            tsns.ranges().for_each(|(first, last)| deliverable(first, last));
            self.ready.push_back(waiting.message);
        }
        // A run cannot have more messages than there are TSNs.
        length as u32
    }

    /// The number of the next ordered message of a stream.
    pub(crate) fn next(&self, stream: u16) -> u32 {
        self.next.get(stream)
    }

    /// Whether the next ordered message of `stream` is the one with this number.
    pub(crate) fn is_next(&self, stream: u16, number: u32) -> bool {
        self.next.get(stream) == number
    }

    /// Whether a stream waits for a later message than the one with this number.
    pub(crate) fn has_passed(&self, stream: u16, number: u32) -> bool {
        let behind = self.next.distance(number, self.next.get(stream));
        behind != 0 && behind <= self.next.highest() / 2
    }

    /// Whether the message with this number can still come, in a chunk with this TSN.
    pub(crate) fn may_come(&self, stream: u16, number: u32, tsn: u64, cumulative: u64) -> bool {
        let ahead = self.next.distance(self.next.get(stream), number);
        ahead == 0 || may_be_ahead(ahead, tsn, cumulative)
    }

    /// Whether a message can be taken.
    pub(crate) fn is_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Messages that can be taken.
    pub(crate) fn ready_len(&self) -> usize {
        self.ready.len()
    }

    /// Takes the next message.
    pub(crate) fn pop(&mut self) -> Option<Message> {
        let message = self.ready.pop_front();
        if self.ready.is_empty() && self.ready.capacity() > KEPT {
            self.ready = VecDeque::new();
        }
        message
    }

    /// Drops the messages that wait for earlier ones, reach the TSN `from` and begin above `above`, if
    /// `may_drop` returns true for their TSNs and their charge.
    pub(crate) fn drop_upper(
        &mut self,
        above: u64,
        from: u64,
        mut may_drop: impl FnMut(&Tsns, u32) -> bool,
    ) {
        let held = std::mem::take(&mut self.held);
        let highest = self.next.highest();
        for ((_, first), run) in held.runs {
            for (number, waiting) in (first..=highest).zip(run) {
                let mut tsns = self.next.tsns(&waiting);
                let drops = tsns.first() > above
                    && tsns.last() >= from
                    && may_drop(&tsns, waiting.message.charge);
                if !drops {
                    self.next.store_ranges(&mut tsns);
                }
                // Inserting joins neighbours again.
                let kept = drops || self.held.insert(number, waiting, highest).is_ok();
                debug_assert!(kept, "two messages with one SSN");
            }
        }
    }

    /// First and last TSN of all waiting messages, for tests.
    #[cfg(any(test, feature = "invariants"))]
    pub(crate) fn held_tsns(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.held.runs.values().flatten().flat_map(|waiting| {
            let one = [(waiting.first_tsn, waiting.last_tsn)];
            let mids = self.next.mids.as_ref();
            let ranges = mids.and_then(|mids| mids.scattered.get(&waiting.first_tsn));
            ranges.map_or(one.to_vec(), |ranges| ranges.to_vec())
        })
    }

    /// Memory of messages that wait for earlier ones.
    pub(crate) fn held_charge(&self) -> usize {
        self.held.charge
    }

    /// Memory of messages that can be taken.
    #[cfg(any(test, feature = "invariants"))]
    pub(crate) fn ready_charge(&self) -> usize {
        self.ready.iter().map(|message| message.charge as usize).sum()
    }

    /// Expects number 0 next on these streams. All that was sent before has arrived or was given up, so messages that
    /// wait for earlier ones are delivered. Calls `deliverable` with the first and last TSN of the data that can be
    /// delivered now.
    pub(crate) fn reset(&mut self, streams: &StreamSet, mut deliverable: impl FnMut(u64, u64)) {
        let next = &self.next;
        let waits = self.held.runs.keys().filter(|(stream, _)| streams.has(*stream));
        let mut waits: Vec<_> =
            waits.map(|&(s, first)| (s, next.distance(next.get(s), first), first)).collect();
        waits.sort_unstable();
        for (stream, _, first) in waits {
            self.release(stream, first, &mut deliverable);
        }
        match streams {
            StreamSet::All => self.next = Numbers::new(self.next.mids.is_some()),
            StreamSet::Some(streams) => {
                for stream in streams {
                    if self.next.get(*stream) != 0 {
                        self.next.set(*stream, 0);
                    }
                }
            }
        }
    }

    /// Restarts all streams; the numbers are message identifiers from then on, or SSNs. Keeps messages that can already
    /// be delivered.
    pub(crate) fn restart(&mut self, interleaved: bool) {
        self.next = Numbers::new(interleaved);
        self.held = Held::default();
    }

    /// Releases unused memory.
    pub(crate) fn trim(&mut self) {
        if self.ready.is_empty() {
            self.ready = VecDeque::new();
        }
    }
}

/// Whether a message can be `ahead` messages after the one that its stream waits for.
///
/// The messages of a stream have their TSNs in the order of their SSNs. So the message that the stream waits for has a
/// TSN above `cumulative`, and each message between that one and this one has at least one TSN. A peer that skips
/// messages (RFC 3758) moves the stream on before, or in the same chunk as, the cumulative TSN.
///
/// TSNs say nothing about message identifiers.
// req: rfc8260 2.2.3 "The receiver MUST NOT make any assumption about the"
fn may_be_ahead(ahead: u32, first_tsn: u64, cumulative: u64) -> bool {
    first_tsn > cumulative + u64::from(ahead)
}

/// The number of the next message of each stream.
#[derive(Debug, Default)]
struct Numbers {
    ssns: Pages<u16>,
    /// What is used instead if messages are interleaved.
    mids: Option<Box<Mids>>,
}

/// The state of the streams if messages are interleaved.
#[derive(Debug, Default)]
struct Mids {
    /// Message identifiers of the next messages.
    next: Pages<u32>,
    /// The ranges of TSNs of waiting messages that have several, by their lowest TSN.
    scattered: BTreeMap<u64, Vec<(u64, u64)>>,
}

impl Numbers {
    fn new(interleaved: bool) -> Self {
        Self { ssns: Pages::default(), mids: interleaved.then(Box::default) }
    }

    /// Whether they are message identifiers.
    #[inline]
    fn are_mids(&self) -> bool {
        self.mids.is_some()
    }

    /// The highest number, which 0 follows.
    #[inline]
    fn highest(&self) -> u32 {
        if self.mids.is_some() { u32::MAX } else { u16::MAX.into() }
    }

    #[inline]
    fn get(&self, stream: u16) -> u32 {
        match &self.mids {
            None => self.ssns.get(stream).into(),
            Some(mids) => mids.next.get(stream),
        }
    }

    #[inline]
    fn set(&mut self, stream: u16, number: u32) {
        match &mut self.mids {
            None => *self.ssns.entry(stream) = number as u16,
            Some(mids) => *mids.next.entry(stream) = number,
        }
    }

    /// Stores the ranges of the TSNs of a message that waits, if there are several.
    fn store_ranges(&mut self, tsns: &mut Tsns) {
        if let Some(mids) = &mut self.mids
            && let Some(ranges) = tsns.take_ranges()
        {
            mids.scattered.insert(tsns.first(), ranges);
        }
    }

    /// The TSNs of a message that waited.
    fn tsns(&mut self, waiting: &Waiting) -> Tsns {
        let mids = self.mids.as_mut();
        let ranges = mids.and_then(|mids| mids.scattered.remove(&waiting.first_tsn));
        Tsns::restore(waiting.first_tsn, waiting.last_tsn, ranges)
    }

    /// The number that comes `count` after this one.
    #[inline]
    fn after(&self, number: u32, count: u32) -> u32 {
        number.wrapping_add(count) & self.highest()
    }

    /// How many numbers `to` comes after `from`.
    #[inline]
    fn distance(&self, from: u32, to: u32) -> u32 {
        to.wrapping_sub(from) & self.highest()
    }
}

/// A message that waits for an earlier one.
#[derive(Debug)]
struct Waiting {
    first_tsn: u64,
    last_tsn: u64,
    message: Message,
}

/// Messages that wait for earlier ones of their streams, in runs of consecutive numbers.
///
/// While one packet of a large window is missing, all later messages are stored here, nearly always in
/// order. Each is appended to the previous one, so a search goes through the runs, one per gap, not
/// through all messages in the window.
#[derive(Debug, Default)]
struct Held {
    /// By stream and the number of the run's first message. A run ends at the highest number at the latest.
    runs: BTreeMap<(u16, u32), VecDeque<Waiting>>,
    charge: usize,
}

impl Held {
    fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Adds a message; `highest` is the highest number.
    fn insert(&mut self, number: u32, waiting: Waiting, highest: u32) -> Result<(), Violation> {
        let stream = waiting.message.stream;
        let charge = waiting.message.charge as usize;
        // The following run, if this message comes right before it.
        let next = number.checked_add(1).filter(|next| *next <= highest);
        let follower = next.and_then(|next| self.runs.remove(&(stream, next)));
        let mut run = follower.unwrap_or_default();
        let before = self.runs.range_mut((stream, 0)..=(stream, number)).next_back();
        match before {
            Some((&(_, first), before)) if ((number - first) as usize) < before.len() => {
                return Err("two messages with one stream sequence number");
            }
            Some((&(_, first), before)) if (number - first) as usize == before.len() => {
                before.push_back(waiting);
                if before.len() >= run.len() {
                    before.append(&mut run);
                } else {
                    // Move the shorter one: then joining is cheap in any order.
                    while let Some(message) = before.pop_back() {
                        run.push_front(message);
                    }
                    *before = run;
                }
            }
            _ => {
                // Reserve room for one: a message between two missing ones must not cost more than its
                // own charge.
                run.reserve_exact(usize::from(run.is_empty()));
                run.push_front(waiting);
                self.runs.insert((stream, number), run);
            }
        }
        self.charge += charge;
        Ok(())
    }

    /// The number of the first message of a stream at or after `number`; numbers wrap.
    fn first_from(&self, stream: u16, number: u32) -> Option<u32> {
        let from = self.runs.range((stream, number)..=(stream, u32::MAX)).next();
        let wrapped = || self.runs.range((stream, 0)..(stream, number)).next();
        from.or_else(wrapped).map(|(&(_, first), _)| first)
    }

    /// Takes the run of a stream that begins with this number.
    fn take(&mut self, stream: u16, number: u32) -> Option<VecDeque<Waiting>> {
        let run = self.runs.remove(&(stream, number))?;
        self.charge -= run.iter().map(|waiting| waiting.message.charge as usize).sum::<usize>();
        Some(run)
    }
}

#[cfg(test)]
mod tests {
    use anabranch_wire::Ppid;
    use bytes::Bytes;

    use super::*;
    use crate::message::Payload;

    fn message(stream: u16, ssn: u16, first_tsn: u64) -> Assembled {
        let payload = Payload::from(Bytes::copy_from_slice(&ssn.to_be_bytes()));
        let message = Message {
            stream,
            ppid: Ppid(0),
            unordered: false,
            begin: true,
            end: true,
            sequence: ssn.into(),
            tsn: first_tsn as u32,
            payload,
            charge: 1,
        };
        Assembled { tsns: Tsns::one(first_tsn), message }
    }

    fn pages(streams: &Streams) -> usize {
        streams.next.ssns.pages()
    }

    fn deliver(streams: &mut Streams, message: Assembled, cum: u64) -> Result<(), Violation> {
        streams.deliver(message, cum, |_, _| {})
    }

    fn ready(streams: &mut Streams) -> Vec<(u16, u16)> {
        std::iter::from_fn(|| streams.pop())
            .map(|m| {
                let bytes = m.payload.into_bytes();
                (m.stream, u16::from_be_bytes([bytes[0], bytes[1]]))
            })
            .collect()
    }

    #[test]
    // test: rfc9260 6.6 "the endpoint MUST hold the received"
    // test: rfc9260 6.6 "MUST deliver DATA chunks received with the U"
    fn order_is_kept_in_a_stream_and_not_between_streams() {
        let mut streams = Streams::default();
        deliver(&mut streams, message(3, 2, 12), 9).unwrap();
        deliver(&mut streams, message(3, 1, 11), 9).unwrap();
        deliver(&mut streams, message(4, 0, 13), 9).unwrap();
        assert_eq!(streams.held_charge(), 2);
        assert_eq!(ready(&mut streams), [(4, 0)]);
        deliver(&mut streams, message(3, 0, 10), 13).unwrap();
        assert_eq!(ready(&mut streams), [(3, 0), (3, 1), (3, 2)]);
        assert_eq!(streams.held_charge(), 0);
        assert!(!streams.is_ready());
    }

    #[test]
    // test: rfc9260 3.3.1 "MUST be dispatched to the upper layer by"
    fn unordered_messages_wait_for_nothing() {
        let mut streams = Streams::default();
        let mut unordered = message(1, 77, 20);
        unordered.message.unordered = true;
        deliver(&mut streams, unordered, 9).unwrap();
        assert_eq!(ready(&mut streams), [(1, 77)]);
        assert!(streams.is_next(1, 0));
    }

    #[test]
    // test: rfc9260 6.5 "Stream Sequence Number MUST be set to 0"
    fn ssns_wrap() {
        let mut streams = Streams::default();
        for i in 0..200_000_u64 {
            deliver(&mut streams, message(40, (i & 0xffff) as u16, i + 1), i + 1).unwrap();
            assert_eq!(streams.pop().map(|m| m.stream), Some(40));
        }
        assert!(streams.is_next(40, 200_000 & 0xffff));
    }

    #[test]
    fn impossible_ssns_are_violations() {
        let mut streams = Streams::default();
        deliver(&mut streams, message(1, 0, 10), 10).unwrap();
        assert!(deliver(&mut streams, message(1, 0, 11), 11).is_err(), "used before");
        assert!(deliver(&mut streams, message(1, 2, 11), 11).is_err(), "1 was skipped");
        assert!(deliver(&mut streams, message(1, 4, 13), 10).is_err(), "2 TSNs for 3 messages");
        deliver(&mut streams, message(1, 3, 13), 10).unwrap();
        assert!(deliver(&mut streams, message(1, 3, 14), 10).is_err(), "twice");
    }

    #[test]
    fn as_many_messages_as_a_window_can_hold() {
        let mut streams = Streams::default();
        for ssn in (1..=u16::MAX).rev() {
            deliver(&mut streams, message(0, ssn, 100 + u64::from(ssn)), 99).unwrap();
        }
        deliver(&mut streams, message(0, 0, 100), 100 + 0xffff).unwrap();
        assert_eq!(ready(&mut streams).len(), 65_536);
        assert!(streams.is_next(0, 0));
    }

    #[test]
    fn messages_are_held_in_whatever_order_they_come() {
        // All orders of six messages after the missing one, across a wrap of the SSNs.
        let mut order: Vec<u16> = (1..=6).collect();
        let mut orders = Vec::new();
        permute(&mut order, 0, &mut orders);
        assert_eq!(orders.len(), 720);
        for order in orders {
            let mut streams = Streams::default();
            streams.next.set(7, 65_532);
            let ssn = |ahead: u16| 65_532_u16.wrapping_add(ahead);
            for ahead in &order {
                let tsn = 10 + u64::from(*ahead);
                deliver(&mut streams, message(7, ssn(*ahead), tsn), 9).unwrap();
                assert!(
                    deliver(&mut streams, message(7, ssn(*ahead), tsn + 10), 9).is_err(),
                    "twice"
                );
            }
            assert_eq!(streams.held_charge(), 6);
            assert!(!streams.is_ready());
            deliver(&mut streams, message(7, ssn(0), 10), 9).unwrap();
            let expected: Vec<_> = (0..=6).map(|ahead| (7, ssn(ahead))).collect();
            assert_eq!(ready(&mut streams), expected, "{order:?}");
            assert_eq!(streams.held_charge(), 0);
            assert!(streams.held.is_empty());
        }
    }

    fn permute(order: &mut Vec<u16>, from: usize, all: &mut Vec<Vec<u16>>) {
        if from == order.len() {
            all.push(order.clone());
        }
        for at in from..order.len() {
            order.swap(from, at);
            permute(order, from + 1, all);
            order.swap(from, at);
        }
    }

    #[test]
    fn unused_streams_cost_nothing() {
        let mut streams = Streams::default();
        deliver(&mut streams, message(31, 0, 1), 1).unwrap();
        assert!(streams.is_next(65_534, 0));
        assert_eq!(pages(&streams), 1);
        deliver(&mut streams, message(65_534, 0, 2), 2).unwrap();
        assert!(streams.is_next(65_534, 1) && streams.is_next(65_533, 0));
        assert_eq!(pages(&streams), 2);
        ready(&mut streams);
        streams.trim();
        assert_eq!(streams.ready.capacity(), 0);
    }
}
