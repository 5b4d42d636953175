//! Reports the activity of associations to a log; see [`set_log`](crate::Endpoint::set_log).

use std::fmt;

use anabranch_wire::Packet;

use super::{Endpoint, Transmit};
use crate::association::{Arrival, Association};
use crate::event::{AssociationId, Event};
use crate::per_path::PathId;
use crate::sender::Decision;
use crate::time::Instant;

/// Receives the actions and decisions of an endpoint's associations; see [`Endpoint::set_log`].
///
/// The engine calls it during its work, so it must be fast. Calls are in the order of events; events of
/// one step have the same time.
pub trait Log: fmt::Debug + Send {
    /// Called when a packet of an association has been processed, or is about to be sent.
    fn packet(&mut self, now: Instant, id: AssociationId, packet: &LoggedPacket<'_>);

    /// Called when something happened to an association, so that all its statistics may have changed,
    /// with the decisions since the last call. The first call for an association reports its beginning.
    fn changed(
        &mut self,
        now: Instant,
        id: AssociationId,
        association: &Association,
        decisions: &[Decision],
    );

    /// Called when an event of an association is passed to its user.
    fn event(&mut self, now: Instant, id: AssociationId, association: &Association, event: &Event);

    /// Called when an association was removed. No more calls for it follow.
    fn removed(&mut self, now: Instant, id: AssociationId, association: &Association);
}

/// A packet of an association.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct LoggedPacket<'a> {
    /// Whether this side sends it.
    pub sent: bool,
    /// Its path, if it has one.
    pub path: Option<PathId>,
    /// The SCTP packet.
    pub bytes: &'a [u8],
}

impl Endpoint {
    /// Reports all activity of associations to a log from now on. This has no other effect.
    pub fn set_log(&mut self, log: Box<dyn Log>) {
        self.log = Some(log);
        self.keep_journals(true);
    }

    /// Ends the log.
    pub fn take_log(&mut self) -> Option<Box<dyn Log>> {
        self.keep_journals(false);
        self.log.take()
    }

    fn keep_journals(&mut self, keep: bool) {
        let ids: Vec<AssociationId> = self.associations().collect();
        for id in ids {
            self.get_mut(id).into_iter().for_each(|association| association.keep_journal(keep));
        }
    }

    /// Returns the log together with an association.
    fn log_and(&mut self, id: AssociationId) -> Option<(&mut dyn Log, &mut Association)> {
        let Self { log, slots, .. } = self;
        let slot = slots.get_mut(id.slot as usize)?;
        let association = slot.association.as_deref_mut()?;
        (slot.generation == id.generation).then_some((&mut **log.as_mut()?, association))
    }

    /// Logs a packet received for an association.
    #[inline]
    pub(super) fn log_received(
        &mut self,
        now: Instant,
        id: AssociationId,
        arrival: &Arrival,
        packet: &Packet<'_>,
    ) {
        if self.log.is_some()
            && let Some((log, association)) = self.log_and(id)
        {
            let path = association.path_of(arrival.local, arrival.remote);
            log.packet(now, id, &LoggedPacket { sent: false, path, bytes: packet.bytes() });
        }
    }

    /// Logs packets that an association sends, which are the last bytes of `buf`.
    #[inline]
    pub(super) fn log_sent(
        &mut self,
        now: Instant,
        id: AssociationId,
        transmit: &Transmit,
        buf: &[u8],
    ) {
        if self.log.is_none() {
            return;
        }
        if let Some((log, association)) = self.log_and(id) {
            let path = association.path_of(transmit.local, transmit.remote);
            let packets = buf.get(buf.len().saturating_sub(transmit.len)..).unwrap_or_default();
            for bytes in packets.chunks(transmit.segment_size.max(1)) {
                log.packet(now, id, &LoggedPacket { sent: true, path, bytes });
            }
        }
        self.log_changes(now, id);
    }

    /// Logs that something happened to an association.
    #[inline]
    pub(super) fn log_changes(&mut self, now: Instant, id: AssociationId) {
        if self.log.is_some() {
            self.log_decisions(now, id);
        }
    }

    #[inline(never)]
    fn log_decisions(&mut self, now: Instant, id: AssociationId) {
        if let Some((log, association)) = self.log_and(id) {
            let decisions = association.take_decisions();
            log.changed(now, id, association, &decisions);
        }
    }

    /// Logs an event of an association.
    #[inline]
    pub(super) fn log_event(&mut self, id: AssociationId, event: &Event) {
        let now = self.latest;
        if self.log.is_some()
            && let Some((log, association)) = self.log_and(id)
        {
            log.event(now, id, association, event);
        }
    }
}
