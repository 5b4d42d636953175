//! The state of an association that the engine does not keep.

mod given_up;
mod life;
mod lingering;

use std::task::Waker;
use std::time::Duration;

use anabranch_proto::{Association, AssociationConfig, Statistics};

use crate::error::AssociationError;
use crate::notification_log::NotificationLog;
use crate::streams::Streams;

pub(crate) use given_up::GivenUp;
pub(crate) use life::{Life, Phase};
pub(crate) use lingering::Lingering;

#[derive(Debug)]
pub(crate) struct AssociationState {
    pub(crate) life: Life,
    pub(crate) lingering: Lingering,
    pub(crate) streams: Streams,
    pub(crate) notifications: NotificationLog,
    /// Bytes that the program has reserved for data stored because of the peer.
    reserved: usize,
    /// Memory used because of the peer, as last reported to the engine.
    counted: usize,
    /// The values of the association when it ended.
    last: Option<Box<Last>>,
}

/// The values of an ended association, for handles that still exist.
#[derive(Debug)]
pub(crate) struct Last {
    pub(crate) statistics: Statistics,
    pub(crate) ports: (u16, u16),
    pub(crate) config: AssociationConfig,
    pub(crate) given_up: GivenUp,
}

impl AssociationState {
    pub(crate) fn new(linger: Duration) -> Self {
        Self {
            life: Life::new(),
            lingering: Lingering::new(linger),
            streams: Streams::default(),
            notifications: NotificationLog::default(),
            reserved: 0,
            counted: 0,
            last: None,
        }
    }

    /// Records that the handshake is complete; `incoming`: the peer initiated it. Returns the tasks
    /// that wait for that.
    pub(crate) fn connected(
        &mut self,
        incoming: bool,
        outbound: u16,
        inbound: u16,
    ) -> impl Iterator<Item = Waker> + use<'_> {
        self.streams.negotiated(incoming, outbound, inbound);
        self.life.up()
    }

    /// Handles a restart of the peer. Returns the tasks to wake, and the charge of data that will
    /// not be read.
    pub(crate) fn restart(
        &mut self,
        incarnation: u32,
        outbound: u16,
        inbound: u16,
    ) -> (Vec<Waker>, u32) {
        self.life.restarted();
        self.streams.restart(incarnation, outbound, inbound)
    }

    /// Handles the end. Returns all waiting tasks.
    pub(crate) fn close(&mut self, error: AssociationError) -> Vec<Waker> {
        let mut woken = self.streams.close();
        woken.extend(self.life.close(error));
        woken.extend(self.notifications.close());
        woken
    }

    /// Stores the values of an association that the engine is about to remove.
    pub(crate) fn keep_last(&mut self, association: &Association) {
        self.last = Some(Box::new(Last {
            statistics: association.statistics(),
            ports: (association.local_port(), association.remote_port()),
            config: association.config().clone(),
            given_up: GivenUp::of(association),
        }));
    }

    /// The values of the association when it ended.
    pub(crate) fn last(&self) -> Option<&Last> {
        self.last.as_deref()
    }
}

/// Memory that is used because of the peer.
impl AssociationState {
    /// Bytes stored because of the peer, except those that the engine counts itself.
    fn kept(&self) -> usize {
        self.notifications.held() + self.streams.memory() + self.reserved
    }

    /// Whether the value last reported to the engine is out of date.
    pub(crate) fn must_count(&self) -> bool {
        self.kept() != self.counted
    }

    /// Reports the stored bytes to the engine. Returns by how much they have grown.
    pub(crate) fn count_kept(&mut self, association: &mut Association) -> usize {
        let (before, now) = (self.counted, self.kept());
        if before != now {
            self.counted = now;
            association.set_kept(now);
        }
        now.saturating_sub(before)
    }

    /// Stops counting, because the association has ended.
    pub(crate) fn count_nothing(&mut self) {
        self.counted = self.kept();
    }

    /// Counts data that the program stores because of the peer.
    pub(crate) fn reserve(&mut self, bytes: usize) {
        self.reserved += bytes;
    }

    /// Subtracts data that the program no longer stores.
    pub(crate) fn unreserve(&mut self, bytes: usize) {
        self.reserved -= bytes.min(self.reserved);
    }
}
