//! Byte streams: both users write, end, read and stop at random, and an observer compares the bytes.
//!
//! The value of a byte depends on its offset in the writer's ledger, so a reader with a different ledger finds wrong
//! bytes.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use anabranch_impair::Rng;
use anabranch_proto::byte_mode::{self, BYTES, FIRST_CREDIT, Ledger, MARK, Mark, SIGNAL, Signal};
use anabranch_proto::{
    Association, AssociationId, Instant, Message, SendErrorReason, StreamPriority,
};
use bytes::Buf;

use super::Run;
use crate::options::{ByteTraffic, Draw};

/// One user's byte streams.
#[derive(Debug)]
pub(super) struct ByteUser {
    node: usize,
    draw: Draw,
    traffic: ByteTraffic,
    ledger: Ledger,
    writing: BTreeMap<u16, Writing>,
    reading: BTreeMap<u16, Reading>,
    written: usize,
    pub(super) next: Option<Instant>,
    /// Start nothing new, and end open streams.
    ending: bool,
    /// Also read streams that were left unread so far.
    reading_all: bool,
}

#[derive(Debug, Default)]
struct Writing {
    /// Offset in the ledger.
    offset: u64,
    open: bool,
    /// A mark that waits for room.
    owed: Option<Mark>,
}

#[derive(Debug, Default)]
struct Reading {
    offset: u64,
    /// Lengths and charges of unread data.
    unread: VecDeque<(usize, u32)>,
    stopping: bool,
    /// Number of byte streams that have ended, and of those that were stopped early.
    ended: u64,
    stopped: u64,
}

/// The byte that `node` writes at an offset of a stream.
fn byte_at(node: usize, stream: u16, offset: u64) -> u8 {
    let mixed = (offset ^ (u64::from(stream) << 40) ^ ((node as u64) << 60))
        .wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 56) as u8
}

impl ByteUser {
    pub(super) fn new(
        seed: u64,
        node: usize,
        traffic: ByteTraffic,
        buffer: usize,
        start: Instant,
    ) -> Self {
        Self {
            node,
            draw: Draw(Rng::stream(seed, 200 + node as u64)),
            traffic,
            ledger: Ledger::new(buffer),
            writing: BTreeMap::new(),
            reading: BTreeMap::new(),
            written: 0,
            next: Some(start),
            ending: false,
            reading_all: false,
        }
    }

    /// Whether a stream is currently left unread.
    fn is_unread(&self, stream: u16) -> bool {
        stream < self.traffic.unread && !self.reading_all
    }

    /// Performs some random actions.
    fn turn(&mut self, now: Instant, association: &mut Association) {
        if self.ending {
            self.next = Some(now + Duration::from_secs(1));
            return self.follow_up(now, association);
        }
        self.next = Some(now + self.traffic.pause);
        let [end, stop, prioritise] = self.traffic.weights;
        for _ in 0..self.traffic.burst {
            let streams = self.traffic.streams.min(association.outbound_streams()).max(1);
            let stream = self.draw.0.below(u64::from(streams)) as u16;
            let mut which = self.draw.0.below(u64::from(20 + end + stop + prioritise)) as u32;
            let mut is = |weight: u32| {
                let is = which < weight;
                which = which.wrapping_sub(weight);
                is
            };
            if is(10) {
                self.write(now, association, stream);
            } else if is(10) {
                let most = self.draw.scale(1, 100_000) as usize;
                if !self.is_unread(stream) {
                    self.read(association, stream, most);
                }
            } else if is(end) {
                self.end(now, association, stream, Mark::End);
            } else if is(stop) {
                self.stop(association, stream);
            } else {
                let urgency = self.draw.between(0, 7) as u16;
                let incremental = self.draw.one_in(2);
                association.set_stream_priority(stream, StreamPriority { urgency, incremental });
            }
        }
        self.follow_up(now, association);
    }

    fn write(&mut self, now: Instant, association: &mut Association, stream: u16) {
        let longest = self.traffic.longest.min(self.traffic.bytes - self.written);
        if longest == 0 || self.ending || self.owes_mark(stream) {
            return;
        }
        let length = self.draw.scale(1, longest as u64);
        let Ok(credit) = self.ledger.credit(stream) else {
            return self.end(now, association, stream, Mark::Abandoned);
        };
        let length = credit.min(length) as usize;
        if length == 0 || association.room_for_bytes(stream).is_none() {
            return;
        }
        let writing = self.writing.entry(stream).or_default();
        let (node, from) = (self.node, writing.offset);
        let data: Vec<u8> =
            (from..from + length as u64).map(|o| byte_at(node, stream, o)).collect();
        if association.send(now, byte_mode::bytes(stream, data)).is_ok() {
            writing.open = true;
            writing.offset += length as u64;
            self.written += length;
            self.ledger.on_written(stream, length);
        }
    }

    fn owes_mark(&self, stream: u16) -> bool {
        self.writing.get(&stream).is_some_and(|writing| writing.owed.is_some())
    }

    /// Ends the stream being written, or a stream that the peer wants to end.
    fn end(&mut self, now: Instant, association: &mut Association, stream: u16, mark: Mark) {
        let stopped = self.ledger.credit(stream).is_err();
        let writing = self.writing.entry(stream).or_default();
        let Some(mark) = writing.owed.or((writing.open || stopped).then_some(mark)) else { return };
        writing.owed = match association.send(now, mark.message(stream)) {
            Ok(()) => {
                self.ledger.on_ended(stream);
                writing.open = false;
                writing.offset += 1;
                None
            }
            Err(refused) if refused.reason == SendErrorReason::Blocked => Some(mark),
            Err(_) => None,
        };
    }

    fn read(&mut self, association: &mut Association, stream: u16, most: usize) {
        let Some(reading) = self.reading.get_mut(&stream) else { return };
        let (mut length, mut charge) = (0, 0);
        while length < most
            && let Some((next, charged)) = reading.unread.pop_front()
        {
            length += next;
            charge += charged;
        }
        self.ledger.on_read(stream, length);
        association.release(charge);
    }

    /// Stops reading if data has arrived without an end.
    fn stop(&mut self, association: &mut Association, stream: u16) {
        if self.ending || stream >= association.inbound_streams() {
            return;
        }
        let reading = self.reading.entry(stream).or_default();
        if reading.stopping {
            return;
        }
        reading.stopping = true;
        self.ledger.stop(stream);
        self.read(association, stream, usize::MAX);
    }

    /// Follow-up of any action: due marks, and signals to the peer.
    fn follow_up(&mut self, now: Instant, association: &mut Association) {
        let streams: Vec<u16> = self.writing.keys().copied().collect();
        for stream in streams {
            let stopped = self.ledger.credit(stream).is_err();
            let writing = &self.writing[&stream];
            if writing.owed.is_some() || stopped || (self.ending && writing.open) {
                let mark = if stopped { Mark::Abandoned } else { Mark::End };
                self.end(now, association, stream, mark);
            }
        }
        if self.ending {
            let streams: Vec<u16> = self.reading.keys().copied().collect();
            for stream in streams {
                if !self.is_unread(stream) {
                    self.read(association, stream, usize::MAX);
                }
            }
        }
        self.ledger.tell(|message| association.send(now, message).is_ok());
    }

    /// Processes a byte-mode message.
    fn receive(&mut self, now: Instant, association: &mut Association, message: Message) {
        let (stream, charge) = (message.stream, message.charge());
        match message.ppid {
            BYTES => {
                let length = message.payload.len();
                self.compare(&message);
                self.ledger.on_bytes(stream, length);
                let reading = self.reading.entry(stream).or_default();
                reading.unread.push_back((length, charge));
                if reading.stopping {
                    self.read(association, stream, usize::MAX);
                }
            }
            MARK => {
                assert!(Mark::of(&message).is_some(), "an invalid mark: {message:?}");
                self.ledger.on_mark(stream);
                let reading = self.reading.entry(stream).or_default();
                reading.offset += 1;
                reading.ended += 1;
                reading.stopped += u64::from(std::mem::take(&mut reading.stopping));
                association.release(charge);
            }
            _ => {
                let (stream, signal) = Signal::of(&message).expect("the peer sends no others");
                if self.ledger.on_signal(stream, signal) {
                    let gone = association.discard_stream(now, stream);
                    self.ledger.on_discarded(stream, gone);
                    self.writing.entry(stream).or_default().offset -= gone as u64;
                }
                association.release(charge);
            }
        }
        self.follow_up(now, association);
    }

    fn compare(&mut self, message: &Message) {
        let (writer, stream) = (1 - self.node, message.stream);
        let reading = self.reading.entry(stream).or_default();
        let mut payload = message.payload.clone();
        while payload.has_remaining() {
            let expected = byte_at(writer, stream, reading.offset);
            let found = payload.get_u8();
            assert!(found == expected, "stream {stream}: another byte at {}", reading.offset);
            reading.offset += 1;
        }
    }

    fn unread(&self) -> usize {
        self.reading
            .values()
            .flat_map(|reading| &reading.unread)
            .map(|(_, charge)| *charge as usize)
            .sum()
    }
}

/// Whether a message belongs to byte mode.
pub(super) fn is_of_bytes(message: &Message) -> bool {
    matches!(message.ppid, BYTES | MARK | SIGNAL)
}

impl Run {
    /// Handles a byte-mode message that a user has received.
    pub(super) fn byte_message(&mut self, node: usize, id: AssociationId, message: Message) {
        let now = self.net.now();
        let alone = self.byte_association(node) == Some(id);
        let endpoint = &mut self.net.node_mut(node).endpoint;
        let Some(mut association) = endpoint.association_mut(now, id) else { return };
        match &mut self.byte_users {
            Some(users) if alone => users[node].receive(now, &mut association, message),
            _ => association.release(message.charge()),
        }
    }

    /// The association that byte streams use: the first and only one, while it is up.
    fn byte_association(&self, node: usize) -> Option<AssociationId> {
        match self.users[node].ends.as_slice() {
            [end] if end.up && end.closed.is_none() => Some(end.id),
            _ => None,
        }
    }

    /// Performs random actions of both users.
    pub(super) fn byte_turns(&mut self) {
        let now = self.net.now();
        if self.byte_streams_are_void() {
            return self.give_up_byte_streams();
        }
        for node in 0..2 {
            let id = self.byte_association(node);
            let Some(users) = &mut self.byte_users else { return };
            let user = &mut users[node];
            if user.next.is_none_or(|at| at > now) {
                continue;
            }
            user.next = Some(now + user.traffic.pause.max(Duration::from_millis(100)));
            let endpoint = &mut self.net.node_mut(node).endpoint;
            if let Some(mut association) = id.and_then(|id| endpoint.association_mut(now, id)) {
                user.turn(now, &mut association);
            }
        }
    }

    /// Whether the state of byte streams is undefined: an end is over or being shut down, or there was a second
    /// association.
    fn byte_streams_are_void(&self) -> bool {
        self.users.iter().any(|user| {
            let over = |end: &super::End| end.closed.is_some() || end.shut.is_some();
            user.ends.len() > 1 || user.ends.iter().any(over)
        })
    }

    /// Returns unread buffer space, and gives up the byte streams.
    fn give_up_byte_streams(&mut self) {
        let now = self.net.now();
        let Some(users) = self.byte_users.take() else { return };
        for (node, user) in users.into_iter().enumerate() {
            let Some(end) = self.users[node].ends.first() else { continue };
            let id = end.id;
            let unread = user.unread() as u32;
            if let Some(mut association) = self.net.node_mut(node).endpoint.association_mut(now, id)
            {
                association.release(unread);
            }
        }
    }

    /// Starts nothing new; with `all`, also reads all streams.
    pub(super) fn end_byte_streams(&mut self, all: bool) {
        for user in self.byte_users.iter_mut().flatten() {
            user.ending = true;
            user.reading_all = all;
            user.next = Some(self.net.now());
        }
    }

    /// Whether all byte streams that are read have ended, both ledgers agree, and both users may write, as far as can
    /// be determined.
    pub(super) fn byte_streams_are_done(&self) -> bool {
        let Some(users) = &self.byte_users else { return true };
        if self.byte_streams_are_void() || (0..2).any(|node| self.byte_association(node).is_none())
        {
            return true;
        }
        (0..2).all(|node| {
            let (writer, reader) = (&users[node], &users[1 - node]);
            let rest = Reading::default();
            let done = |stream: u16, writing: &Writing| {
                let reading = reader.reading.get(&stream).unwrap_or(&rest);
                let credit = writer.ledger.credit(stream);
                let is_over = !writing.open && writing.owed.is_none();
                is_over
                    && reading.offset == writing.offset
                    && credit.is_ok_and(|credit| credit >= FIRST_CREDIT / 2)
            };
            let read = |stream: &u16| !reader.is_unread(*stream);
            let mut stopped = reader.reading.iter().filter(|(stream, _)| read(stream));
            // A peer that has never sent a byte may not know signals, and receives none.
            let told = writer.written > 0;
            !(told && stopped.any(|(_, reading)| reading.stopping))
                && writer.writing.iter().filter(|(s, _)| read(s)).all(|(s, w)| done(*s, w))
        })
    }

    /// Whether there is so little unread data that nothing else waits because of it.
    pub(super) fn unread_is_little(&self) -> bool {
        let users = self.byte_users.iter().flatten().zip(&self.options.configs);
        let little = |(user, config): (&ByteUser, &anabranch_proto::AssociationConfig)| {
            let window = config.receiving.first_receive_buffer();
            let most = usize::from(user.traffic.unread) * FIRST_CREDIT as usize;
            2 * user.unread() <= window && 4 * most <= window
        };
        users.into_iter().all(little)
    }

    /// Describes the state of the byte streams.
    pub(super) fn where_byte_streams_are(&self) -> String {
        let mut text = String::new();
        let Some(users) = &self.byte_users else { return text };
        for (node, writer) in users.iter().enumerate() {
            for (stream, writing) in &writer.writing {
                let reading = users[1 - node].reading.get(stream);
                let credit = writer.ledger.credit(*stream);
                text += &format!("\nnode {node} {stream}: {writing:?} {credit:?} {reading:?}");
            }
        }
        text
    }

    /// Adds the results of byte streams to the report.
    pub(super) fn count_byte_streams(&mut self) {
        for user in self.byte_users.iter().flatten() {
            for reading in user.reading.values() {
                self.report.byte_streams += reading.ended;
                self.report.stopped += reading.stopped;
                self.report.streamed += reading.offset - reading.ended;
            }
        }
    }
}
