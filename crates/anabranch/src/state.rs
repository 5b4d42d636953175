//! State of an association that the driver keeps besides the engine's part.

use std::task::Waker;
use std::time::Duration;

use anabranch_proto::{Association, AssociationConfig, Instant, Message, Statistics};

use crate::byte_mode::ByteStreams;
use crate::error::AssociationError;
use crate::notification_log::NotificationLog;
use crate::numbers::NumberSet;
use crate::streams::{Inbound, Senders};
use crate::wakers::WakerSet;

/// How far an association has got.
#[derive(Clone, Debug)]
pub(crate) enum Phase {
    /// This side has sent INIT.
    Connecting,
    /// Data can flow, perhaps in one direction only.
    Up,
    /// It is over.
    Closed(AssociationError),
}

#[derive(Debug)]
pub(crate) struct AssociationState {
    pub(crate) phase: Phase,
    /// This side accepted it.
    pub(crate) incoming: bool,
    pub(crate) outbound_streams: u16,
    pub(crate) inbound_streams: u16,
    pub(crate) linger: Duration,
    /// Bytes that were not delivered when lingering was last checked.
    pub(crate) linger_left: usize,
    /// When that is checked again.
    pub(crate) linger_at: Option<Instant>,
    /// How often the peer has restarted: handles of streams belong to one incarnation of it.
    pub(crate) incarnation: u32,
    /// The peer restarted after this side had asked for a graceful shutdown, so data sent before
    /// may not have arrived.
    pub(crate) cut_off: bool,
    /// No handle exists, and none will.
    pub(crate) orphaned: bool,
    /// This side asked for a graceful shutdown.
    pub(crate) shutting_down: bool,
    /// The graceful shutdown waits for due end marks.
    pub(crate) shutdown_owed: bool,
    /// The peer sends nothing more.
    pub(crate) peer_shut_down: bool,
    /// Messages abandoned by the engine.
    pub(crate) undelivered: u64,
    pub(crate) inbound: Inbound,
    /// The charge of messages that were consumed under the current lock.
    pub(crate) consumed: u32,
    /// Streams with a `SendStream`, or with a due end mark.
    pub(crate) sending: NumberSet<u16>,
    /// Of byte streams, once there were any.
    pub(crate) bytes: Option<Box<ByteStreams>>,
    /// All streams that `open_stream` would try before the one of this rank are in use.
    pub(crate) lowest_free: u16,
    pub(crate) connecting: WakerSet,
    pub(crate) senders: Senders,
    pub(crate) receivers: WakerSet,
    /// Tasks that wait in `accept_stream`.
    pub(crate) acceptors: WakerSet,
    /// Tasks that wait in `open_stream`.
    pub(crate) openers: WakerSet,
    pub(crate) closers: WakerSet,
    pub(crate) notifications: NotificationLog,
    /// Bytes that the program has reserved for data stored because of the peer.
    pub(crate) reserved: usize,
    /// Memory used because of the peer, as counted by the engine.
    pub(crate) counted: usize,
    /// The final values of the association when it ended.
    pub(crate) last: Option<Box<Last>>,
}

/// The state of an ended association, for remaining handles.
#[derive(Debug)]
pub(crate) struct Last {
    pub(crate) statistics: Statistics,
    pub(crate) ports: (u16, u16),
    pub(crate) config: AssociationConfig,
}

impl AssociationState {
    pub(crate) fn new(linger: Duration) -> Self {
        Self {
            phase: Phase::Connecting,
            incoming: false,
            outbound_streams: 0,
            inbound_streams: 0,
            linger,
            linger_left: 0,
            linger_at: None,
            incarnation: 0,
            cut_off: false,
            orphaned: false,
            shutting_down: false,
            shutdown_owed: false,
            peer_shut_down: false,
            undelivered: 0,
            inbound: Inbound::default(),
            consumed: 0,
            sending: NumberSet::default(),
            bytes: None,
            lowest_free: 0,
            connecting: WakerSet::default(),
            senders: Senders::default(),
            receivers: WakerSet::default(),
            acceptors: WakerSet::default(),
            openers: WakerSet::default(),
            closers: WakerSet::default(),
            notifications: NotificationLog::default(),
            reserved: 0,
            counted: 0,
            last: None,
        }
    }

    /// Bytes that are stored because of the peer in addition to those that the engine counts
    /// itself.
    pub(crate) fn kept(&self) -> usize {
        let rows = self.bytes.as_ref().map_or(0, |streams| streams.ledger.memory());
        self.notifications.held() + rows + self.reserved
    }

    /// Makes the engine count the stored data. Returns by how much it has grown.
    pub(crate) fn count_kept(&mut self, association: &mut Association) -> usize {
        let (before, now) = (self.counted, self.kept());
        if before != now {
            self.counted = now;
            association.set_kept(now);
        }
        now.saturating_sub(before)
    }

    /// The peer answered.
    pub(crate) fn connected(&mut self, outbound_streams: u16, inbound_streams: u16) {
        self.phase = Phase::Up;
        self.outbound_streams = outbound_streams;
        self.inbound_streams = inbound_streams;
    }

    /// The peer took the first step.
    pub(crate) fn accepted(&mut self, outbound_streams: u16, inbound_streams: u16) {
        self.connected(outbound_streams, inbound_streams);
        self.incoming = true;
    }

    /// The peer restarted: all streams have ended, and their numbers may differ. Returns whom to
    /// notify, and the charge of data that nobody will read.
    pub(crate) fn restart(
        &mut self,
        incarnation: u32,
        outbound_streams: u16,
        inbound_streams: u16,
    ) -> (Vec<Waker>, u32) {
        self.incarnation = incarnation;
        self.outbound_streams = outbound_streams;
        self.inbound_streams = inbound_streams;
        self.peer_shut_down = false;
        self.cut_off |= self.shutting_down;
        self.sending.clear();
        self.bytes = None;
        self.lowest_free = 0;
        let mut woken: Vec<Waker> = self.inbound.take_readers().collect();
        woken.extend(self.wake_senders());
        (woken, self.inbound.restart())
    }

    /// Why nothing can be sent, if so.
    pub(crate) fn send_refusal(&self) -> Option<AssociationError> {
        match &self.phase {
            Phase::Closed(error) => Some(error.clone()),
            _ if self.shutting_down || self.peer_shut_down => Some(AssociationError::ShuttingDown),
            _ => None,
        }
    }

    /// Whether nothing more will be received: `Ok` after a graceful end.
    pub(crate) fn receive_end(&self) -> Option<Result<(), AssociationError>> {
        use anabranch_proto::CloseReason::Shutdown;
        match &self.phase {
            Phase::Closed(AssociationError::Closed(Shutdown)) => Some(Ok(())),
            Phase::Closed(error) => Some(Err(error.clone())),
            _ if self.peer_shut_down => Some(Ok(())),
            _ => None,
        }
    }

    /// Takes the next message of a stream without handle.
    pub(crate) fn take_message(&mut self) -> Option<Message> {
        let message = self.inbound.pop()?;
        self.consumed += message.charge();
        self.on_taken(&message);
        Some(message)
    }

    /// Streams that exist in both directions.
    pub(crate) fn pairs(&self) -> u16 {
        self.outbound_streams.min(self.inbound_streams)
    }

    /// The stream that `open_stream` tries as number `rank`: the side that connected counts up, the
    /// other side down, so that they meet late.
    fn ranked(&self, rank: u16) -> u16 {
        if self.incoming { self.pairs() - 1 - rank } else { rank }
    }

    fn is_in_use(&self, stream: u16) -> bool {
        self.sending.contains(&stream) || self.inbound.uses(stream)
    }

    /// Gives both directions of a stream without a sender to a handle, of this incarnation of the
    /// peer. `None` if it has a reader.
    pub(crate) fn claim(&mut self, stream: u16) -> Option<u32> {
        self.consumed += self.inbound.claim(stream)?;
        self.sending.insert(stream);
        Some(self.incarnation)
    }

    /// Finds the next free stream.
    pub(crate) fn free_stream(&mut self) -> Option<u16> {
        while self.lowest_free < self.pairs() {
            let stream = self.ranked(self.lowest_free);
            if !self.is_in_use(stream) {
                return Some(stream);
            }
            self.lowest_free += 1;
        }
        None
    }

    /// A stream may have become free: returns the wakers of tasks that wait for one.
    pub(crate) fn maybe_free(&mut self, stream: u16) -> impl Iterator<Item = Waker> + use<'_> {
        let free = stream < self.pairs() && !self.is_in_use(stream);
        if free {
            let rank = if self.incoming { self.pairs() - 1 - stream } else { stream };
            self.lowest_free = self.lowest_free.min(rank);
        }
        free.then(|| self.openers.drain()).into_iter().flatten()
    }

    /// The sending half of a stream is free again. Data that arrived meanwhile can be accepted.
    pub(crate) fn give_back_sender(&mut self, stream: u16) -> Vec<Waker> {
        self.sending.remove(&stream);
        let mut woken = Vec::new();
        if self.inbound.announce(stream) {
            woken.extend(self.acceptors.drain());
        }
        woken.extend(self.maybe_free(stream));
        woken
    }

    /// Takes the wakers of all tasks that wait for messages or streams of the peer.
    pub(crate) fn take_receivers(&mut self) -> Vec<Waker> {
        let mut woken: Vec<Waker> = self.inbound.take_readers().collect();
        woken.extend(self.receivers.drain());
        woken.extend(self.acceptors.drain());
        woken
    }

    /// Takes the wakers of all tasks that wait to send or to open a stream.
    pub(crate) fn wake_senders(&mut self) -> Vec<Waker> {
        self.senders.wake_all().chain(self.openers.drain()).collect()
    }

    /// The association is over. Returns everyone who waits for anything.
    pub(crate) fn close(&mut self, error: AssociationError) -> Vec<Waker> {
        self.phase = Phase::Closed(error);
        self.bytes = None;
        let mut woken = self.take_receivers();
        woken.extend(self.wake_senders());
        woken.extend(self.connecting.drain());
        woken.extend(self.closers.drain());
        woken.extend(self.notifications.close());
        woken
    }
}
