//! The phases of an association, and how it ends.

use std::task::Waker;

use anabranch_proto::CloseReason;

use crate::error::{AssociationError, CloseError};
use crate::wakers::WakerSet;

/// The phases.
#[derive(Clone, Debug)]
pub(crate) enum Phase {
    /// This side has sent INIT and waits for the answer.
    Connecting,
    /// Data can be sent in at least one direction.
    Up,
    /// It has ended.
    Closed(AssociationError),
}

/// The phase of one association, and the tasks that wait for the next one.
#[derive(Debug)]
pub(crate) struct Life {
    phase: Phase,
    /// All handles were dropped.
    orphaned: bool,
    /// This side asked for a graceful shutdown.
    shutting_down: bool,
    /// The graceful shutdown must wait until end marks are sent.
    shutdown_owed: bool,
    /// The peer will not send more data.
    peer_shut_down: bool,
    /// The peer restarted after this side had requested a graceful shutdown, so data sent before may
    /// not have arrived.
    cut_off: bool,
    /// Number of messages that the engine abandoned.
    undelivered: u64,
    /// Tasks that wait for the end of the handshake.
    connecting: WakerSet,
    /// Tasks that wait for the end of the association.
    closers: WakerSet,
}

impl Life {
    pub(super) fn new() -> Self {
        Self {
            phase: Phase::Connecting,
            orphaned: false,
            shutting_down: false,
            shutdown_owed: false,
            peer_shut_down: false,
            cut_off: false,
            undelivered: 0,
            connecting: WakerSet::default(),
            closers: WakerSet::default(),
        }
    }

    pub(crate) fn phase(&self) -> &Phase {
        &self.phase
    }

    /// How the association ended; `None` if it has not.
    pub(crate) fn error(&self) -> Option<&AssociationError> {
        match &self.phase {
            Phase::Closed(error) => Some(error),
            Phase::Connecting | Phase::Up => None,
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.error().is_some()
    }

    /// Records that data can be sent. Returns the tasks that wait for that.
    pub(super) fn up(&mut self) -> impl Iterator<Item = Waker> + use<'_> {
        self.phase = Phase::Up;
        self.connecting.drain()
    }

    /// The result of the handshake, once there is one.
    pub(crate) fn handshake(&self) -> Option<Result<(), AssociationError>> {
        match &self.phase {
            Phase::Connecting => None,
            Phase::Up => Some(Ok(())),
            Phase::Closed(error) => Some(Err(error.clone())),
        }
    }

    /// Records that the peer restarted and sends again.
    pub(super) fn restarted(&mut self) {
        self.peer_shut_down = false;
        self.cut_off |= self.shutting_down;
    }

    /// Records that the peer will not send more data.
    pub(crate) fn peer_shut_down(&mut self) {
        self.peer_shut_down = true;
    }

    /// Counts a message that the engine abandoned.
    pub(crate) fn count_undelivered(&mut self) {
        self.undelivered += 1;
    }

    /// Records that all handles were dropped.
    pub(crate) fn orphan(&mut self) {
        self.orphaned = true;
    }

    pub(crate) fn is_orphaned(&self) -> bool {
        self.orphaned
    }

    /// Begins a graceful shutdown. `false` if it began earlier or the association has ended.
    pub(crate) fn begin_shutdown(&mut self) -> bool {
        let begins = !self.shutting_down && !self.is_closed();
        self.shutting_down |= begins;
        begins
    }

    /// Postpones the shutdown until end marks are sent.
    pub(crate) fn owe_shutdown(&mut self) {
        self.shutdown_owed = true;
    }

    /// Whether a shutdown was postponed; the caller must begin it now.
    pub(crate) fn take_owed_shutdown(&mut self) -> bool {
        std::mem::take(&mut self.shutdown_owed)
    }

    /// Why nothing can be sent; `None` if something can.
    pub(crate) fn send_refusal(&self) -> Option<AssociationError> {
        match self.error() {
            Some(error) => Some(error.clone()),
            None if self.shutting_down || self.peer_shut_down => {
                Some(AssociationError::ShuttingDown)
            }
            None => None,
        }
    }

    /// `Some` if nothing more will be received: `Ok` after a graceful end.
    pub(crate) fn receive_end(&self) -> Option<Result<(), AssociationError>> {
        match self.error() {
            Some(AssociationError::Closed(CloseReason::Shutdown)) => Some(Ok(())),
            Some(error) => Some(Err(error.clone())),
            None => self.peer_shut_down.then_some(Ok(())),
        }
    }

    /// The result of the association once it has ended: `Ok` if all data was delivered.
    pub(crate) fn end(&self) -> Option<Result<(), CloseError>> {
        let failed = |error: &AssociationError| {
            Err(CloseError { error: error.clone(), undelivered: self.undelivered })
        };
        self.error().map(|error| match error {
            AssociationError::Closed(CloseReason::Shutdown) if self.cut_off => {
                failed(&AssociationError::Restarted)
            }
            AssociationError::Closed(CloseReason::Shutdown) => Ok(()),
            error => failed(error),
        })
    }

    /// Records the end. Returns the tasks that wait for the handshake or for the end.
    pub(super) fn close(&mut self, error: AssociationError) -> Vec<Waker> {
        self.phase = Phase::Closed(error);
        self.connecting.drain().chain(self.closers.drain()).collect()
    }

    pub(crate) fn connecting(&mut self) -> &mut WakerSet {
        &mut self.connecting
    }

    pub(crate) fn closers(&mut self) -> &mut WakerSet {
        &mut self.closers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shutdown_begins_once_and_its_end_is_graceful() {
        let mut life = Life::new();
        life.up().for_each(drop);
        assert!(life.send_refusal().is_none() && life.receive_end().is_none());
        assert!(life.begin_shutdown() && !life.begin_shutdown());
        assert_eq!(life.send_refusal(), Some(AssociationError::ShuttingDown));
        assert_eq!(life.receive_end(), None, "the peer may still send");
        life.peer_shut_down();
        assert_eq!(life.receive_end(), Some(Ok(())));
        assert_eq!(life.end(), None);
        life.close(AssociationError::Closed(CloseReason::Shutdown));
        assert_eq!(life.end(), Some(Ok(())));
        assert!(!life.begin_shutdown(), "it is over");
    }

    #[test]
    fn a_restart_amid_a_shutdown_may_have_lost_data() {
        let mut life = Life::new();
        life.up().for_each(drop);
        life.peer_shut_down();
        life.begin_shutdown();
        life.count_undelivered();
        life.restarted();
        assert_eq!(life.receive_end(), None, "the new incarnation sends");
        life.close(AssociationError::Closed(CloseReason::Shutdown));
        let error = AssociationError::Restarted;
        assert_eq!(life.end(), Some(Err(CloseError { error, undelivered: 1 })));
    }
}
