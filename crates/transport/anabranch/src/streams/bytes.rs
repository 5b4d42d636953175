//! The state of an association's byte streams, and the marks and signals to send to the peer.

use std::collections::VecDeque;

use anabranch_proto::byte_mode::{BYTES, Ledger, MARK, Mark, Signal, Stopped};
use anabranch_proto::{Association, Instant, Message, OutgoingMessage, SendErrorReason};

/// The byte streams of an association. Without any, it takes no memory.
#[derive(Debug, Default)]
pub(crate) struct ByteStreams(Option<Box<Account>>);

#[derive(Debug)]
struct Account {
    ledger: Ledger,
    /// End marks of dropped streams that wait for room in the send buffer.
    owed_marks: VecDeque<OutgoingMessage>,
}

impl Account {
    /// Sends the mark of a stream now, or queues it. `false` if it must wait for room.
    fn end(&mut self, now: Instant, association: &mut Association, mark: OutgoingMessage) -> bool {
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

    /// Sends queued marks. Returns the streams whose marks were sent.
    fn end_owed(&mut self, now: Instant, association: &mut Association) -> Vec<u16> {
        let mut ended = Vec::new();
        while let Some(mark) = self.owed_marks.pop_front() {
            let stream = mark.stream;
            if !self.end(now, association, mark) {
                // `end` put the mark at the back of the queue; move it to the front again.
                self.owed_marks.rotate_right(1);
                break;
            }
            ended.push(stream);
        }
        ended
    }

    /// Sends the signals that are due, as far as there is room.
    fn signal(&mut self, now: Instant, association: &mut Association) {
        if self.ledger.owes() {
            self.ledger.set_receive_buffer(association.receive_buffer());
            self.ledger.tell(|message| match association.send(now, message) {
                Ok(()) => true,
                Err(refused) => refused.reason != SendErrorReason::Blocked,
            });
        }
    }
}

impl ByteStreams {
    fn account(&mut self, association: &Association) -> &mut Account {
        self.0.get_or_insert_with(|| {
            let ledger = Ledger::new(association.receive_buffer());
            Box::new(Account { ledger, owed_marks: VecDeque::new() })
        })
    }

    /// The number of bytes that may be sent on a stream now.
    ///
    /// # Errors
    /// The peer stopped reading this byte stream.
    pub(crate) fn credit(
        &mut self,
        association: &Association,
        stream: u16,
    ) -> Result<u64, Stopped> {
        self.account(association).ledger.credit(stream)
    }

    /// Counts bytes that the engine accepted for sending.
    pub(crate) fn on_written(&mut self, stream: u16, length: usize) {
        if let Some(account) = &mut self.0 {
            account.ledger.on_written(stream, length);
        }
    }

    /// Records that the engine accepted a mark for sending.
    pub(crate) fn on_ended(&mut self, stream: u16) {
        if let Some(account) = &mut self.0 {
            account.ledger.on_ended(stream);
        }
    }

    /// Whether the peer stopped reading the byte stream that this side is writing.
    pub(crate) fn is_stopped(&self, stream: u16) -> bool {
        self.0.as_ref().is_some_and(|account| account.ledger.credit(stream).is_err())
    }

    /// Ends a stream whose writer gave up: sends the mark now, or queues it. `false` if it must wait for
    /// room.
    pub(crate) fn abandon(
        &mut self,
        now: Instant,
        association: &mut Association,
        stream: u16,
    ) -> bool {
        self.account(association).end(now, association, Mark::Abandoned.message(stream))
    }

    /// Records data or a mark received from the peer.
    pub(super) fn on_received(&mut self, association: &Association, message: &Message) {
        let ledger = &mut self.account(association).ledger;
        match message.ppid {
            BYTES => ledger.on_bytes(message.stream, message.payload.len()),
            MARK if Mark::of(message).is_some() => ledger.on_mark(message.stream),
            _ => {}
        }
    }

    /// Applies a signal received from the peer. `None` if it is invalid.
    pub(super) fn on_signal(
        &mut self,
        now: Instant,
        association: &mut Association,
        message: &Message,
        outbound_streams: u16,
    ) -> Option<Signalled> {
        let (stream, signal) =
            Signal::of(message).filter(|(stream, _)| *stream < outbound_streams)?;
        let ledger = &mut self.account(association).ledger;
        let gives_up = ledger.on_signal(stream, signal);
        if gives_up {
            let discarded = association.discard_stream(now, stream);
            ledger.on_discarded(stream, discarded);
        }
        Some(Signalled { stream, stopped: gives_up && ledger.credit(stream).is_err() })
    }

    /// Counts received bytes that were read or thrown away.
    pub(super) fn on_read(&mut self, stream: u16, length: usize) {
        if let Some(account) = &mut self.0 {
            account.ledger.on_read(stream, length);
        }
    }

    /// Throws away data received on a stream until its end, and notifies a peer that supports signals.
    pub(super) fn stop(&mut self, stream: u16) {
        if let Some(account) = &mut self.0 {
            account.ledger.stop(stream);
        }
    }

    /// Whether signals for the peer are due.
    pub(super) fn owes_signals(&self) -> bool {
        self.0.as_ref().is_some_and(|account| account.ledger.owes())
    }

    /// Whether end marks wait for room.
    pub(super) fn owes_marks(&self) -> bool {
        self.0.as_ref().is_some_and(|account| !account.owed_marks.is_empty())
    }

    /// Sends marks that are due, then signals, as far as there is room. Returns the streams whose mark
    /// was sent.
    pub(super) fn send_due(&mut self, now: Instant, association: &mut Association) -> Vec<u16> {
        let Some(account) = &mut self.0 else { return Vec::new() };
        let ended = account.end_owed(now, association);
        account.signal(now, association);
        ended
    }

    /// Memory used for byte streams, in bytes.
    pub(super) fn memory(&self) -> usize {
        self.0.as_ref().map_or(0, |account| account.ledger.memory())
    }
}

/// The effect of a signal.
#[derive(Clone, Copy, Debug)]
pub(super) struct Signalled {
    pub(super) stream: u16,
    /// The peer has just stopped reading the byte stream that this side is writing.
    pub(super) stopped: bool,
}
