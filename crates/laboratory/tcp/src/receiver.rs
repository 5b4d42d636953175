//! The receiving half: reassembles the stream and acknowledges it.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::time::Duration;

use anabranch_units::Instant;
use bytes::{Buf, Bytes};

use crate::config::Config;
use crate::quick_acks::QuickAcks;

/// Data from the network until it is read.
#[derive(Debug)]
pub(crate) struct Receiver {
    /// First position not received (RCV.NXT).
    next: u64,
    /// Segments received out of order, by position; they do not overlap.
    early: BTreeMap<u64, Bytes>,
    /// The ranges of `early`, most recently changed first (RFC 2018 section 4).
    blocks: Vec<Range<u64>>,
    /// Data in order that has not been read.
    ready: VecDeque<Bytes>,
    readable: u64,
    buffer: u64,
    /// The widest window that it announces at present.
    widest: u64,
    /// Bytes by which the window must have grown to announce it separately.
    update: u64,
    /// End of the announced window, which never moves back.
    edge: u64,
    fin: Option<u64>,
    ended: bool,
    ack_delay: Duration,
    /// Whether duplicates are reported, and the first duplicate since the last acknowledgement.
    dsack: bool,
    duplicate: Option<Range<u64>>,
    /// Number of segments in order that wait for an acknowledgement.
    waiting: u32,
    quick: QuickAcks,
    delayed: Option<Instant>,
    ack_now: bool,
}

impl Receiver {
    /// A receiver whose first byte has this position.
    pub(crate) fn new(config: &Config, first: u64) -> Self {
        let buffer = u64::from(config.receive_buffer);
        let widest = u64::from(config.first_window());
        Self {
            next: first,
            early: BTreeMap::new(),
            blocks: Vec::new(),
            ready: VecDeque::new(),
            readable: 0,
            buffer,
            widest,
            update: u64::from(config.mss.max(1)) * u64::from(config.window_update.max(1)),
            edge: first + widest,
            fin: None,
            ended: false,
            ack_delay: config.ack_delay,
            dsack: config.dsack && config.sack,
            duplicate: None,
            waiting: 0,
            quick: QuickAcks::new(config.quick_acks),
            delayed: None,
            ack_now: false,
        }
    }

    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Whether the whole stream has been read.
    pub(crate) fn is_at_end(&self) -> bool {
        self.ended && self.ready.is_empty()
    }

    /// Ranges received out of order, latest first.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = &Range<u64>> {
        self.blocks.iter()
    }

    /// The window to announce in bytes. Its edge never moves back.
    pub(crate) fn announce(&mut self) -> u64 {
        self.edge = self.edge.max(self.next + self.room());
        self.edge - self.next
    }

    fn room(&self) -> u64 {
        self.buffer.saturating_sub(self.readable).min(self.widest)
    }

    /// Widens the window by twice the data that arrived.
    fn widen(&mut self, bytes: u64) {
        if self.widest < self.buffer {
            self.widest = (self.widest + 2 * bytes).min(self.buffer);
            self.quick.on_growth();
        }
    }

    /// Reads data that is in order.
    pub(crate) fn read(&mut self) -> Option<Bytes> {
        let data = self.ready.pop_front()?;
        self.readable -= data.len() as u64;
        // RFC 9293 section 3.8.6.2.2: announce the window if it has grown by enough.
        let gained = (self.next + self.room()).saturating_sub(self.edge);
        self.ack_now |= gained >= self.update.min(self.buffer / 2).max(1);
        Some(data)
    }

    /// Processes a segment with data or a FIN. `rto` is the current timeout of this end.
    pub(crate) fn receive(&mut self, (now, rto): (Instant, Duration), segment: (u64, Bytes, bool)) {
        let (mut start, mut payload, fin) = segment;
        let end = start + payload.len() as u64;
        if !payload.is_empty() {
            self.quick.on_data(now, rto);
            if end <= self.next {
                self.quick.on_duplicate();
            }
        }
        if fin && end <= self.edge && self.fin.is_none() {
            self.fin = Some(end);
        }
        if self.dsack {
            self.look_for_duplicates(start..end);
        }
        if start < self.next {
            let old = (self.next - start).min(payload.len() as u64);
            payload.advance(old as usize);
            start += old;
            self.ack_now = true;
        }
        let room = self.edge.saturating_sub(start);
        if (payload.len() as u64) > room {
            // Beyond the window: a probe, or a sender that ignores the window.
            payload.truncate(room as usize);
            self.ack_now = true;
        }
        if start > self.next {
            self.ack_now = true;
            if !payload.is_empty() {
                // The end of the stream has its own position: without it the sender would not consider its last segment
                // received.
                let last = start + payload.len() as u64;
                self.note(start..last + u64::from(self.fin == Some(last)));
                self.store(start, payload);
            }
            return;
        }
        if !payload.is_empty() {
            self.widen(payload.len() as u64);
            self.accept(payload);
            self.waiting += 1;
            // A segment that fills a gap is acknowledged immediately (RFC 5681 section 4.2).
            self.ack_now |= !self.early.is_empty();
            while let Some(first) = self.early.first_entry()
                && *first.key() == self.next
            {
                let data = first.remove();
                self.accept(data);
            }
            let next = self.next;
            self.blocks.retain(|block| block.start > next);
        }
        if self.fin == Some(self.next) && !self.ended {
            self.next += 1;
            self.ended = true;
            self.ack_now = true;
        }
        let at_once = self.ack_delay.is_zero() || self.quick.are_on();
        if self.waiting >= 2 || (self.waiting > 0 && at_once) {
            self.ack_now = true;
        } else if self.waiting > 0 && self.delayed.is_none() {
            self.delayed = Some(now + self.ack_delay);
        }
    }

    /// Remembers the first range of a segment that was received before, to report it (RFC 2883 section 4).
    fn look_for_duplicates(&mut self, segment: Range<u64>) {
        let there = if segment.start < self.next {
            Some(segment.start..segment.end.min(self.next))
        } else {
            let before = self.early.range(..=segment.start).next_back();
            let inside = self.early.range(segment.start..segment.end).next();
            let overlaps = before.into_iter().chain(inside).map(|(start, data)| {
                segment.start.max(*start)..segment.end.min(start + data.len() as u64)
            });
            overlaps.into_iter().find(|range| range.start < range.end)
        };
        if let Some(range) = there.filter(|range| range.start < range.end) {
            self.duplicate.get_or_insert(range);
        }
    }

    /// Duplicate data since the last acknowledgement. It becomes the first block of the next acknowledgement, once.
    pub(crate) fn take_duplicate(&mut self) -> Option<Range<u64>> {
        self.duplicate.take()
    }

    fn accept(&mut self, data: Bytes) {
        self.next += data.len() as u64;
        self.readable += data.len() as u64;
        self.ready.push_back(data);
    }

    /// Stores the missing part of a segment that came out of order.
    fn store(&mut self, mut start: u64, mut payload: Bytes) {
        if let Some((before, data)) = self.early.range(..=start).next_back() {
            let covered = (before + data.len() as u64).saturating_sub(start);
            let covered = covered.min(payload.len() as u64);
            payload.advance(covered as usize);
            start += covered;
        }
        while !payload.is_empty() {
            let end = start + payload.len() as u64;
            let after = self.early.range(start..end).next();
            let after = after.map(|(after, data)| (*after, after + data.len() as u64));
            let Some((after, after_end)) = after else {
                self.early.insert(start, payload);
                return;
            };
            let part = payload.split_to((after - start) as usize);
            if !part.is_empty() {
                self.early.insert(start, part);
            }
            payload.advance((after_end.min(end) - after) as usize);
            start = after_end;
        }
    }

    /// Puts a range first in the list of blocks, merged with those it touches.
    fn note(&mut self, mut range: Range<u64>) {
        self.blocks.retain(|block| {
            let apart = block.end < range.start || block.start > range.end;
            if !apart {
                range = range.start.min(block.start)..range.end.max(block.end);
            }
            apart
        });
        self.blocks.insert(0, range);
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.delayed
    }

    /// Requests an acknowledgement at the next opportunity.
    pub(crate) fn acknowledge_now(&mut self) {
        self.ack_now = true;
    }

    /// Whether an acknowledgement is due.
    pub(crate) fn ack_is_due(&self, now: Instant) -> bool {
        self.ack_now || self.delayed.is_some_and(|at| at <= now)
    }

    /// Records that an acknowledgement is sent.
    pub(crate) fn acknowledged(&mut self) {
        if self.ack_now || self.waiting > 0 {
            self.quick.on_sent();
        }
        (self.ack_now, self.delayed, self.waiting) = (false, None, 0);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const RTO: Duration = Duration::from_secs(1);

    /// Its delayed acknowledgements begin with the first segment.
    fn receiver() -> Receiver {
        let config = Config { receive_buffer: 1000, mss: 100, quick_acks: 0, ..Config::default() };
        Receiver::new(&config, 50)
    }

    #[test]
    fn every_second_segment_is_acknowledged_and_gaps_at_once() {
        let mut receiver = receiver();
        let now = Instant::from_secs(1);
        let segment = || Bytes::from_static(&[7; 100]);
        receiver.receive((now, RTO), (50, segment(), false));
        assert!(!receiver.ack_is_due(now));
        assert_eq!(receiver.deadline(), Some(now + Duration::from_millis(200)));
        assert!(receiver.ack_is_due(now + Duration::from_millis(200)));
        receiver.receive((now, RTO), (150, segment(), false));
        assert!(receiver.ack_is_due(now));
        receiver.acknowledged();
        receiver.receive((now, RTO), (350, segment(), false));
        assert!(receiver.ack_is_due(now));
        receiver.receive((now, RTO), (550, segment(), false));
        receiver.receive((now, RTO), (450, segment(), false));
        receiver.receive((now, RTO), (750, segment(), false));
        let blocks: Vec<_> = receiver.blocks().cloned().collect();
        assert_eq!(blocks, [750..850, 350..650], "the latest first, neighbours joined");
        receiver.acknowledged();
        receiver.receive((now, RTO), (250, segment(), false));
        assert!(receiver.ack_is_due(now), "a gap is filled");
        assert_eq!((receiver.next(), receiver.blocks().count()), (650, 1));
    }

    /// The sender's last segment includes the position of the end of the stream. A block without this position does not
    /// cover that segment, and the seventh of ten segments would have to wait for the timer.
    #[test]
    fn a_block_has_the_end_of_the_stream_in_it() {
        let mut receiver = receiver();
        let now = Instant::ZERO;
        receiver.receive((now, RTO), (150, vec![1; 100].into(), false));
        receiver.receive((now, RTO), (250, vec![1; 100].into(), true));
        assert_eq!(receiver.blocks().next(), Some(&(150..351)));
        receiver.receive((now, RTO), (50, vec![1; 100].into(), false));
        assert_eq!((receiver.next(), receiver.blocks().count()), (351, 0));
    }

    #[test]
    fn the_window_closes_and_opens() {
        let mut receiver = receiver();
        let now = Instant::ZERO;
        receiver.receive((now, RTO), (50, vec![1; 1200].into(), false));
        assert_eq!((receiver.next(), receiver.announce()), (1050, 0));
        receiver.acknowledged();
        assert_eq!(receiver.read().map(|data| data.len()), Some(1000));
        assert!(receiver.ack_is_due(now));
        assert_eq!(receiver.announce(), 1000);
        receiver.receive((now, RTO), (1050, Bytes::new(), true));
        assert!(receiver.is_at_end());
    }

    #[test]
    fn a_reader_that_is_there_leaves_acknowledgements_to_their_delay() {
        for (window_update, due) in [(1, true), (2, false)] {
            let config = Config { mss: 100, window_update, quick_acks: 0, ..Config::default() };
            let mut receiver = Receiver::new(&config, 50);
            receiver.receive((Instant::ZERO, RTO), (50, vec![1; 100].into(), false));
            assert!(receiver.read().is_some());
            assert_eq!(receiver.ack_is_due(Instant::ZERO), due, "{window_update}");
            receiver.receive((Instant::ZERO, RTO), (150, vec![1; 100].into(), false));
            assert!(receiver.read().is_some() && receiver.ack_is_due(Instant::ZERO));
        }
    }

    /// A reader takes each segment at once. Returns whether each of `count` segments is acknowledged at once.
    fn answers(config: &Config, count: u64) -> Vec<bool> {
        let mut receiver = Receiver::new(config, 50);
        let mut answer = |n: u64| {
            let position = 50 + n * u64::from(config.mss);
            receiver.receive(
                (Instant::ZERO, RTO),
                (position, vec![1; config.mss.into()].into(), false),
            );
            assert!(receiver.read().is_some());
            let due = receiver.ack_is_due(Instant::ZERO);
            if due {
                receiver.announce();
                receiver.acknowledged();
            }
            due
        };
        (0..count).map(&mut answer).collect()
    }

    /// As Linux does (`TCP_MAX_QUICKACKS`), and then RFC 5681 section 4.2.
    #[test]
    fn sixteen_segments_are_acknowledged_at_once_and_then_every_second() {
        let answers = answers(&Config { mss: 100, ..Config::default() }, 22);
        assert_eq!(answers[..16], [true; 16]);
        assert_eq!(answers[16..], [false, true, false, true, false, true]);
    }

    /// As Linux does (`tcp_grow_window`): twice what arrives, and each segment is acknowledged meanwhile.
    #[test]
    fn a_window_that_grows_is_told_of_at_once() {
        let config = Config {
            mss: 100,
            quick_acks: 0,
            window_start: 400,
            receive_buffer: 1000,
            ..Config::default()
        };
        assert_eq!(answers(&config, 7), [true, true, true, false, true, false, true]);
        let mut receiver = Receiver::new(&config, 50);
        assert_eq!(receiver.announce(), 400);
        receiver.receive((Instant::ZERO, RTO), (150, vec![1; 100].into(), false));
        receiver.receive((Instant::ZERO, RTO), (50, vec![1; 100].into(), false));
        while receiver.read().is_some() {}
        assert_eq!(receiver.announce(), 600, "what came early widens nothing");
    }

    #[test]
    fn a_segment_that_came_before_asks_for_quick_acknowledgements() {
        let mut receiver =
            Receiver::new(&Config { mss: 100, quick_acks: 2, ..Config::default() }, 50);
        let mut due = |position: u64| {
            receiver.receive((Instant::ZERO, RTO), (position, vec![1; 100].into(), false));
            let due = receiver.ack_is_due(Instant::ZERO);
            receiver.acknowledged();
            due
        };
        assert_eq!([50, 150, 250].map(&mut due), [true, true, false]);
        // The duplicate itself, and one more.
        assert_eq!([50, 350, 450].map(due), [true, true, false]);
    }

    proptest! {
        /// Segments may arrive in any order; the bytes read are the stream.
        #[test]
        fn the_stream_is_put_in_order(
            segments in proptest::collection::vec((0_usize..500, 1_usize..120), 0..60),
        ) {
            let stream: Vec<u8> = (0..600_u32).map(|n| (n * 7 / 3) as u8).collect();
            let mut receiver = receiver();
            let mut read = Vec::new();
            let all = (0..600).step_by(100).map(|start| (start, 100));
            for (start, len) in segments.into_iter().chain(all) {
                let end = (start + len).min(600);
                let payload = Bytes::copy_from_slice(&stream[start..end]);
                receiver.receive((Instant::ZERO, RTO), (50 + start as u64, payload, end == 600));
                let blocks: Vec<_> = receiver.blocks().cloned().collect();
                prop_assert!(blocks.iter().all(|block| block.start > receiver.next()));
                while let Some(data) = receiver.read() {
                    read.extend_from_slice(&data);
                }
                receiver.announce();
            }
            prop_assert_eq!(read, stream);
            prop_assert!(receiver.is_at_end() && receiver.blocks().count() == 0);
        }
    }
}
