//! The streams of an association: which are in use, their received data, and the tasks that wait for them.

mod bytes;
mod numbering;
mod senders;
mod table;
mod used;

use std::task::Waker;

use anabranch_proto::{Association, Instant, Message};

use self::bytes::Signalled;
use self::numbering::Numbering;
use self::table::{Pushed, Table};
use crate::byte_mode::{BYTES, MARK, SIGNAL};
use crate::error::StreamError;
use crate::wakers::WakerSet;

pub(crate) use bytes::ByteStreams;
pub(crate) use senders::{Senders, Wish};
pub(crate) use used::Used;

/// At most 1/64 of the receive buffer is returned late. The engine opens the window in steps of a quarter of the buffer.
const LATE_SHARE: usize = 64;

/// The most that may be returned late, in bytes.
const MOST_LATE: usize = 32 << 10;

/// All streams of an association, in both directions.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    numbering: Numbering,
    /// How often the peer has restarted: handles of streams belong to one incarnation of the peer.
    incarnation: u32,
    table: Table,
    bytes: ByteStreams,
    /// The charge of messages that were consumed and not yet returned to the engine.
    consumed: u32,
    /// A reader that reads on returns as much as this together, in bytes.
    step: u32,
    senders: Senders,
    /// Tasks that wait in `recv`.
    receivers: WakerSet,
    /// Tasks that wait in `accept_stream`.
    acceptors: WakerSet,
    /// Tasks that wait in `open_stream`.
    openers: WakerSet,
}

/// Numbers and incarnations.
impl Streams {
    /// Records the result of the handshake; `incoming`: the peer initiated it.
    pub(crate) fn negotiated(&mut self, incoming: bool, outbound: u16, inbound: u16) {
        self.numbering.negotiated(outbound, inbound);
        if incoming {
            self.numbering.accepted();
        }
    }

    /// Handles a restart of the peer: all streams have ended, and their numbers may differ. Returns the tasks
    /// to wake, and the charge of data that will not be read.
    pub(crate) fn restart(
        &mut self,
        incarnation: u32,
        outbound: u16,
        inbound: u16,
    ) -> (Vec<Waker>, u32) {
        self.incarnation = incarnation;
        self.numbering.negotiated(outbound, inbound);
        self.bytes = ByteStreams::default();
        let mut woken: Vec<Waker> = self.table.take_readers().collect();
        woken.extend(self.wake_senders());
        (woken, self.table.restart())
    }

    /// Records that there may be more streams. Returns the tasks that wait for one.
    pub(crate) fn added(&mut self, outbound: u16, inbound: u16) -> Vec<Waker> {
        self.numbering.negotiated(outbound, inbound);
        self.openers.drain().collect()
    }

    pub(crate) fn incarnation(&self) -> u32 {
        self.incarnation
    }

    /// Whether this side accepted the association.
    pub(crate) fn is_incoming(&self) -> bool {
        self.numbering.is_incoming()
    }

    /// Outbound and inbound streams, as negotiated.
    pub(crate) fn counts(&self) -> (u16, u16) {
        self.numbering.counts()
    }
}

/// Handles.
impl Streams {
    /// Takes both directions of a stream for new handles. Returns their incarnation.
    pub(crate) fn take(&mut self, stream: u16) -> Result<u32, StreamError> {
        let (outbound, inbound) = self.counts();
        let count = outbound.max(inbound);
        if stream >= count {
            return Err(StreamError::NoSuchStream { stream, count });
        }
        if self.table.has_sender(stream) {
            return Err(StreamError::InUse(stream));
        }
        self.claim(stream).ok_or(StreamError::InUse(stream))
    }

    /// Takes the next free stream. Returns it with its incarnation.
    pub(crate) fn open(&mut self) -> Option<(u16, u32)> {
        let Self { numbering, table, .. } = self;
        let stream = numbering.find(|stream| table.uses(stream))?;
        Some((stream, self.claim(stream)?))
    }

    /// Takes the next stream without handles on which something arrived. Returns it with its incarnation.
    pub(crate) fn accept(&mut self) -> Option<(u16, u32)> {
        let stream = self.table.next_fresh()?;
        Some((stream, self.claim(stream)?))
    }

    /// Takes both directions of a stream without a sender. `None` if it has a reader.
    fn claim(&mut self, stream: u16) -> Option<u32> {
        self.consumed += self.table.claim(stream)?;
        Some(self.incarnation)
    }

    /// Frees the sending half of a stream. Data that arrived meanwhile can be accepted.
    pub(crate) fn give_back_sender(&mut self, stream: u16) -> Vec<Waker> {
        self.table.free_sender(stream);
        let mut woken = Vec::new();
        if self.table.announce(stream) {
            woken.extend(self.acceptors.drain());
        }
        woken.extend(self.wake_openers(stream));
        woken
    }

    /// Frees the receiving half of a stream. With `discard`, its data is thrown away up to the end.
    pub(crate) fn give_back_receiver(&mut self, stream: u16, discard: bool) -> Vec<Waker> {
        if discard {
            self.discard(stream);
        } else {
            self.table.unclaim(stream);
        }
        let mut woken = self.wake_openers(stream);
        if self.table.announce(stream) {
            woken.extend(self.acceptors.drain());
            woken.extend(self.receivers.drain());
        }
        woken
    }

    fn discard(&mut self, stream: u16) {
        let discarded = self.table.discard(stream);
        self.bytes.on_read(stream, discarded.bytes);
        if !discarded.ended {
            self.bytes.stop(stream);
        }
        self.consumed += discarded.charge;
    }
}

/// Received messages.
impl Streams {
    /// Updates the state of byte streams with a received message. Returns the message, or `None` if it was a
    /// signal.
    pub(crate) fn enter(
        &mut self,
        now: Instant,
        association: &mut Association,
        message: Message,
        woken: &mut Vec<Waker>,
    ) -> Option<Message> {
        match message.ppid {
            BYTES | MARK => self.bytes.on_received(association, &message),
            SIGNAL => {
                self.heed(now, association, &message, woken);
                return None;
            }
            _ => {}
        }
        Some(message)
    }

    /// Applies the peer's signal: there is more credit, or the peer stopped reading.
    fn heed(
        &mut self,
        now: Instant,
        association: &mut Association,
        message: &Message,
        woken: &mut Vec<Waker>,
    ) {
        let (outbound, _) = self.counts();
        let signalled = self.bytes.on_signal(now, association, message, outbound);
        let Some(Signalled { stream, stopped }) = signalled else { return };
        // If there is no writer, and none can appear after accept, report EOF now.
        if stopped && !self.table.has_sender(stream) && !self.table.is_unclaimed(stream) {
            let _later = self.bytes.abandon(now, association, stream);
        }
        woken.extend(self.senders.wake_stream(stream));
    }

    /// Queues a received message, or throws it away. In the latter case, returns the charge to release.
    pub(crate) fn push(&mut self, message: Message, woken: &mut Vec<Waker>) -> u32 {
        let (stream, bytes) = (message.stream, Used::of(&message).bytes);
        match self.table.push(message) {
            Pushed::Reader(waker) => woken.extend(waker),
            Pushed::Unclaimed => {
                woken.extend(self.receivers.drain());
                woken.extend(self.acceptors.drain());
            }
            Pushed::Discarded(charge) => {
                self.bytes.on_read(stream, bytes);
                // The mark of a byte stream that nobody wanted frees its number.
                woken.extend(self.wake_openers(stream));
                return charge;
            }
        }
        0
    }

    /// Takes the next message of a stream without a handle.
    pub(crate) fn pop(&mut self) -> Option<Message> {
        let message = self.table.pop()?;
        self.consume(message.stream, self.incarnation, Used::of(&message));
        Some(message)
    }

    /// Takes the next message of a stream with a handle. If there is none, registers its reader, if given. The caller
    /// says later what it has used.
    pub(crate) fn pop_stream(&mut self, stream: u16, reader: Option<&Waker>) -> Option<Message> {
        self.table.pop_stream(stream, reader)
    }

    /// Records what the reader of a stream has used. A byte stream from before a restart of the peer gets no credit.
    pub(crate) fn consume(&mut self, stream: u16, incarnation: u32, used: Used) {
        self.consumed += used.charge;
        if incarnation == self.incarnation && used.bytes > 0 {
            self.bytes.on_read(stream, used.bytes);
        }
    }

    /// The charge of consumed messages to return to the engine now. If the reader reads on, that is nothing until there
    /// is enough: each return costs as much as reading a small message.
    pub(crate) fn take_consumed(&mut self, reads_on: bool) -> u32 {
        if reads_on && self.consumed < self.step {
            return 0;
        }
        std::mem::take(&mut self.consumed)
    }

    /// Notes the size of the receive buffer. A small part of it may be returned late.
    pub(crate) fn set_receive_buffer(&mut self, bytes: usize) {
        let step = (bytes / LATE_SHARE).min(MOST_LATE);
        self.step = u32::try_from(step).unwrap_or(u32::MAX);
    }

    /// Throws all messages away. Returns the charge to release.
    pub(crate) fn clear(&mut self) -> u32 {
        std::mem::take(&mut self.consumed) + self.table.clear()
    }
}

/// Byte streams.
impl Streams {
    pub(crate) fn bytes(&mut self) -> &mut ByteStreams {
        &mut self.bytes
    }

    /// Memory used for byte streams, in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.bytes.memory()
    }

    /// Whether signals for the peer are due.
    pub(crate) fn owes_signals(&self) -> bool {
        self.bytes.owes_signals()
    }

    /// Whether end marks wait for room.
    pub(crate) fn owes_marks(&self) -> bool {
        self.bytes.owes_marks()
    }

    /// Sends marks that are due, and signals, as far as there is room. Streams whose mark was sent are free.
    pub(crate) fn send_due(
        &mut self,
        now: Instant,
        association: &mut Association,
        woken: &mut Vec<Waker>,
    ) {
        for stream in self.bytes.send_due(now, association) {
            woken.extend(self.give_back_sender(stream));
        }
    }
}

/// Waiting tasks.
impl Streams {
    /// Tasks that wait for room in the send buffer.
    pub(crate) fn senders(&mut self) -> &mut Senders {
        &mut self.senders
    }

    pub(crate) fn receivers(&mut self) -> &mut WakerSet {
        &mut self.receivers
    }

    pub(crate) fn acceptors(&mut self) -> &mut WakerSet {
        &mut self.acceptors
    }

    pub(crate) fn openers(&mut self) -> &mut WakerSet {
        &mut self.openers
    }

    /// Wakes tasks that wait for a free stream, if this one is free.
    fn wake_openers(&mut self, stream: u16) -> Vec<Waker> {
        let is_free = !self.table.uses(stream) && self.numbering.freed(stream);
        if is_free { self.openers.drain().collect() } else { Vec::new() }
    }

    /// Takes the wakers of all tasks that wait for messages or streams of the peer.
    pub(crate) fn take_receivers(&mut self) -> Vec<Waker> {
        let mut woken: Vec<Waker> = self.table.take_readers().collect();
        woken.extend(self.receivers.drain());
        woken.extend(self.acceptors.drain());
        woken
    }

    /// Takes the wakers of all tasks that wait to send or to open a stream.
    pub(crate) fn wake_senders(&mut self) -> Vec<Waker> {
        self.senders.wake_all().chain(self.openers.drain()).collect()
    }

    /// Handles the end of the association: nothing more is sent, but received messages can still be read.
    /// Returns all waiting tasks.
    pub(crate) fn close(&mut self) -> Vec<Waker> {
        self.bytes = ByteStreams::default();
        let mut woken = self.take_receivers();
        woken.extend(self.wake_senders());
        woken
    }
}
