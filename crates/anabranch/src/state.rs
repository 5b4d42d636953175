//! State of an association that the driver keeps besides the engine's part.

use std::task::Waker;
use std::time::Duration;

use anabranch_proto::{Association, AssociationConfig, Instant, Statistics};

use crate::error::AssociationError;
use crate::notification_log::NotificationLog;
use crate::streams::Streams;
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
    pub(crate) linger: Duration,
    /// Bytes that were not delivered when lingering was last checked.
    pub(crate) linger_left: usize,
    /// When that is checked again.
    pub(crate) linger_at: Option<Instant>,
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
    pub(crate) streams: Streams,
    pub(crate) connecting: WakerSet,
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
            linger,
            linger_left: 0,
            linger_at: None,
            cut_off: false,
            orphaned: false,
            shutting_down: false,
            shutdown_owed: false,
            peer_shut_down: false,
            undelivered: 0,
            streams: Streams::default(),
            connecting: WakerSet::default(),
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
        self.notifications.held() + self.streams.memory() + self.reserved
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

    /// The peer answered, or took the first step (`incoming`).
    pub(crate) fn connected(&mut self, incoming: bool, outbound: u16, inbound: u16) {
        self.phase = Phase::Up;
        self.streams.negotiated(incoming, outbound, inbound);
    }

    /// The peer restarted. Returns the tasks to wake, and the charge of data that nobody will read.
    pub(crate) fn restart(
        &mut self,
        incarnation: u32,
        outbound: u16,
        inbound: u16,
    ) -> (Vec<Waker>, u32) {
        self.peer_shut_down = false;
        self.cut_off |= self.shutting_down;
        self.streams.restart(incarnation, outbound, inbound)
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

    /// The association is over. Returns everyone who waits for anything.
    pub(crate) fn close(&mut self, error: AssociationError) -> Vec<Waker> {
        self.phase = Phase::Closed(error);
        let mut woken = self.streams.close();
        woken.extend(self.connecting.drain());
        woken.extend(self.closers.drain());
        woken.extend(self.notifications.close());
        woken
    }
}
