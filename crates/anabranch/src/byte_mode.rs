//! How messages carry byte streams, as defined in `docs/byte-mode.md`.
//!
//! SCTP streams have neither an end nor empty messages, so a direction of a byte stream ends with a
//! message of one byte under a separate payload protocol identifier, [`MARK`]: 0 when all was
//! written, 1 when the writer gave up before. Bytes travel in ordered messages under [`BYTES`]; a
//! reader takes messages of any other identifier as bytes, too. The reader of a stream sends its
//! credit, and a request to stop, under [`SIGNAL`]; these messages are internal and never returned by
//! `recv`.
//!
//! So an unread byte stream does not hold up others, and writing fails on one whose reader is gone.
//! Peers of version 1 ([`BYTES_1`]) neither send nor receive signals.

pub use anabranch_proto::byte_mode::{BYTES, BYTES_1, MARK, SIGNAL};
use anabranch_proto::byte_mode::{Ledger, Mark, Signal};
use anabranch_proto::{Association, Instant, Message, OutgoingMessage, SendErrorReason};
use std::collections::VecDeque;
use std::task::Waker;

use crate::state::AssociationState;

/// State of an association that has byte streams.
#[derive(Debug)]
pub(crate) struct ByteStreams {
    pub(crate) ledger: Ledger,
    /// End marks of dropped streams that wait for room.
    owed_marks: VecDeque<OutgoingMessage>,
}

impl ByteStreams {
    /// Made when they are used first.
    pub(crate) fn of<'a>(
        kept: &'a mut Option<Box<Self>>,
        association: &Association,
    ) -> &'a mut Self {
        kept.get_or_insert_with(|| {
            let ledger = Ledger::new(association.config().receiving.receive_buffer);
            Box::new(Self { ledger, owed_marks: VecDeque::new() })
        })
    }

    /// Sends the mark of a stream now or when there is room. `false` if it must wait.
    pub(crate) fn end(
        &mut self,
        now: Instant,
        association: &mut Association,
        mark: OutgoingMessage,
    ) -> bool {
        let stream = mark.stream;
        match association.send(now, mark) {
            Err(refused) if refused.reason == SendErrorReason::Blocked => {
                self.owed_marks.push_back(refused.message);
                false
            }
            _ => {
                self.ledger.on_ended(stream);
                true
            }
        }
    }

    /// Sends due signals to the peer; the rest is sent when there is room.
    fn tell(&mut self, now: Instant, association: &mut Association) {
        if self.ledger.owes() {
            self.ledger.tell(|message| match association.send(now, message) {
                Ok(()) => true,
                Err(refused) => refused.reason != SendErrorReason::Blocked,
            });
        }
    }
}

/// Whether a message belongs to a byte stream.
pub(crate) fn is_of_bytes(message: &Message) -> bool {
    matches!(message.ppid, BYTES | MARK | SIGNAL)
}

impl AssociationState {
    /// Updates the account of byte streams with a received message. A signal is not passed on: the
    /// result is `None` then.
    pub(crate) fn enter(
        &mut self,
        now: Instant,
        association: &mut Association,
        message: Message,
        woken: &mut Vec<Waker>,
    ) -> Option<Message> {
        let streams = ByteStreams::of(&mut self.bytes, association);
        match message.ppid {
            BYTES => streams.ledger.on_bytes(message.stream, message.payload.len()),
            MARK if Mark::of(&message).is_some() => streams.ledger.on_mark(message.stream),
            SIGNAL => {
                self.heed(now, association, &message, woken);
                return None;
            }
            _ => {}
        }
        Some(message)
    }

    /// The peer has room, or wants no more of a stream.
    fn heed(
        &mut self,
        now: Instant,
        association: &mut Association,
        message: &Message,
        woken: &mut Vec<Waker>,
    ) {
        let signal = Signal::of(message).filter(|(stream, _)| *stream < self.outbound_streams);
        let (Some((stream, signal)), Some(streams)) = (signal, &mut self.bytes) else { return };
        if streams.ledger.on_signal(stream, signal) {
            let given_up = association.discard_stream(now, stream);
            streams.ledger.on_discarded(stream, given_up);
            // If there is no writer, and none can appear after accept, report EOF now.
            let is_stopped = streams.ledger.credit(stream).is_err();
            if is_stopped && !self.sending.contains(&stream) && !self.inbound.is_unclaimed(stream) {
                let _later = streams.end(now, association, Mark::Abandoned.message(stream));
            }
        }
        woken.extend(self.senders.wake_stream(stream));
    }

    /// Bytes of a stream were removed from its queue.
    pub(crate) fn on_taken(&mut self, message: &Message) {
        if message.ppid == BYTES {
            self.on_read(message.stream, message.payload.len());
        }
    }

    pub(crate) fn on_read(&mut self, stream: u16, length: usize) {
        if let Some(streams) = &mut self.bytes {
            streams.ledger.on_read(stream, length);
        }
    }

    /// Data received on a stream is thrown away until its end; a peer that keeps an account is
    /// notified.
    pub(crate) fn stop(&mut self, stream: u16) -> u32 {
        let gone = self.inbound.discard(stream);
        if let Some(streams) = &mut self.bytes {
            streams.ledger.on_read(stream, gone.bytes);
            if !gone.ended {
                streams.ledger.stop(stream);
            }
        }
        gone.charge
    }

    /// Whether signals or marks for the peer are due.
    pub(crate) fn owes(&self) -> bool {
        self.bytes.as_ref().is_some_and(|streams| streams.ledger.owes())
    }

    /// Whether marks wait for room.
    pub(crate) fn owes_marks(&self) -> bool {
        self.bytes.as_ref().is_some_and(|streams| !streams.owed_marks.is_empty())
    }

    /// Sends what is due as far as there is room, marks first. Streams whose mark was sent are free.
    /// `false` if some must wait.
    pub(crate) fn tell(
        &mut self,
        now: Instant,
        association: &mut Association,
        woken: &mut Vec<Waker>,
    ) -> bool {
        let Some(streams) = &mut self.bytes else { return true };
        let mut freed = Vec::new();
        while let Some(mark) = streams.owed_marks.pop_front() {
            let stream = mark.stream;
            if !streams.end(now, association, mark) {
                // It is the last now, and was the first: so are all others.
                streams.owed_marks.rotate_right(1);
                break;
            }
            freed.push(stream);
        }
        streams.tell(now, association);
        let done = streams.owed_marks.is_empty();
        for stream in freed {
            woken.extend(self.give_back_sender(stream));
        }
        done
    }
}
