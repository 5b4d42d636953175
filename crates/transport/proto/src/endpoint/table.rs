//! The table of associations. Changes also update the demultiplexer, the schedule and the memory
//! account.

use std::ops::{Deref, DerefMut};

use super::demux::{Key, Tag};
use super::{Endpoint, LoggedPacket};
use crate::association::Association;
use crate::event::AssociationId;
use crate::time::Instant;

#[derive(Debug, Default)]
pub(super) struct Slot {
    pub(super) generation: u32,
    /// The association's memory according to the account.
    held: u32,
    /// The association has ended, and waits to be removed.
    ended: bool,
    pub(super) association: Option<Box<Association>>,
    /// The association's keys in the demultiplexer, as owner or not.
    keys: Vec<Key>,
    tag: Option<Tag>,
}

impl Endpoint {
    /// An association, read-only.
    pub fn association(&self, id: AssociationId) -> Option<&Association> {
        let slot = self.slots.get(id.slot as usize)?;
        if slot.generation != id.generation {
            return None;
        }
        slot.association.as_deref()
    }

    /// An association, for changes. The endpoint processes their effects when the guard is dropped.
    pub fn association_mut(
        &mut self,
        now: Instant,
        id: AssociationId,
    ) -> Option<AssociationMut<'_>> {
        self.association(id)?;
        Some(AssociationMut { endpoint: self, now, id })
    }

    /// All associations.
    pub fn associations(&self) -> impl Iterator<Item = AssociationId> + '_ {
        self.slots
            .iter()
            .enumerate()
            .filter(|(_, slot)| slot.association.is_some())
            .map(|(index, slot)| AssociationId { slot: index as u32, generation: slot.generation })
    }

    /// Removes an association. If it is not closed, the peer is not notified; the last packet of a
    /// closed one is still sent.
    pub fn remove(&mut self, id: AssociationId) {
        let Some(slot) = self.slots.get_mut(id.slot as usize) else { return };
        if slot.generation != id.generation {
            return;
        }
        if slot.association.is_none() {
            return;
        }
        if !slot.ended {
            self.remember(self.latest, id);
        }
        let Some(slot) = self.slots.get_mut(id.slot as usize) else { return };
        let Some(mut association) = slot.association.take() else { return };
        slot.generation = slot.generation.wrapping_add(1);
        self.surroundings.common.memory.leave(std::mem::take(&mut slot.held));
        self.ending -= usize::from(std::mem::take(&mut slot.ended));
        let keys = std::mem::take(&mut slot.keys);
        for key in &keys {
            self.demux.remove(key, id);
        }
        if let Some(tag) = slot.tag.take() {
            self.demux.remove_tag(&tag, id);
            self.ended.push(self.latest, tag.tag, association.peer_waits_for_complete());
        }
        // Its last packet, an ABORT or SHUTDOWN COMPLETE, is still sent.
        let mut bytes = Vec::new();
        if association.is_closed()
            && self.replies.len() < self.config.max_stateless_replies
            && let Some(transmit) = association.poll_transmit(Instant::ZERO, 1, &mut bytes)
        {
            if let Some(log) = &mut self.log {
                let path = association.path_of(transmit.local, transmit.remote);
                log.packet(self.latest, id, &LoggedPacket { sent: true, path, bytes: &bytes });
            }
            self.replies.push_back((transmit, bytes));
        }
        if let Some(log) = &mut self.log {
            log.removed(self.latest, id, &association);
        }
        self.schedule.forget(id);
        self.free.push(id.slot);
        self.bequeath(&keys);
    }

    /// Number of associations.
    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(super) fn insert(&mut self, now: Instant, association: Association) -> AssociationId {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            (self.slots.len() - 1) as u32
        });
        self.surroundings.common.memory.enter();
        let generation = self.slots[slot as usize].generation;
        let id = AssociationId { slot, generation };
        let mut association = Box::new(association);
        if self.log.is_some() {
            association.keep_journal(true);
        }
        self.slots[slot as usize].association = Some(association);
        self.after(now, id);
        id
    }

    pub(super) fn get_mut(&mut self, id: AssociationId) -> Option<&mut Association> {
        let slot = self.slots.get_mut(id.slot as usize)?;
        if slot.generation != id.generation {
            return None;
        }
        slot.association.as_deref_mut()
    }

    /// Updates the endpoint's tables after something happened to an association.
    pub(super) fn after(&mut self, now: Instant, id: AssociationId) {
        self.note(now, id);
        let Some(association) = self.get_mut(id) else { return };
        // Looking for data to send may abandon messages, which causes an event.
        let wants_to_send = association.wants_to_send(now);
        let has_events = association.has_events();
        if wants_to_send {
            self.schedule.ready(id);
        }
        if has_events {
            self.schedule.has_events(id);
        }
        self.schedule.deadline_changed(id);
    }

    /// The same after a call of the user. An association queued for sending provides its data and
    /// deadline when it reaches the front, so that a user who sends one message after another does not
    /// pay for that each time.
    fn after_use(&mut self, now: Instant, id: AssociationId) {
        if !self.schedule.is_ready(id) {
            self.after(now, id);
            return;
        }
        self.note(now, id);
        if self.get_mut(id).is_some_and(Association::has_events) {
            self.schedule.has_events(id);
        }
    }

    /// Updates an association's memory, progress and keys.
    #[inline]
    fn note(&mut self, now: Instant, id: AssociationId) {
        let Some(slot) = self.slots.get_mut(id.slot as usize) else { return };
        if slot.generation != id.generation {
            return;
        }
        let Some(association) = slot.association.as_deref_mut() else { return };
        let memory = &self.surroundings.common.memory;
        let held = association.memory();
        slot.held = memory.account(slot.held, held);
        association.on_accounted(held);
        self.pressure.note(now, memory.is_short());
        association.note_progress(now);
        self.latest = now;
        let changed = association.take_paths_changed();
        if changed || association.is_closed() {
            self.note_keys(now, id, changed);
        }
        self.log_changes(now, id);
    }

    /// Updates the keys of an association whose paths have `changed`, or that has ended.
    #[cold]
    fn note_keys(&mut self, now: Instant, id: AssociationId, changed: bool) {
        let Some(slot) = self.slots.get_mut(id.slot as usize) else { return };
        let closed = slot.association.as_ref().is_some_and(|association| association.is_closed());
        let ends = closed && !slot.ended;
        if ends {
            slot.ended = true;
            self.ending += 1;
        }
        // Packets for an association that has ended are out of the blue.
        if changed || closed && !slot.keys.is_empty() {
            self.enter(id);
        }
        if ends {
            self.remember(now, id);
        } else if changed {
            self.recall(now, id);
        }
    }

    /// Updates the keys of an association in the demultiplexer: the addresses that are known to be its
    /// peer's, or none if it has ended.
    fn enter(&mut self, id: AssociationId) {
        let Some(slot) = self.slots.get_mut(id.slot as usize) else { return };
        let before = std::mem::take(&mut slot.keys);
        for key in &before {
            self.demux.remove(key, id);
        }
        self.enter_keys(id);
        self.bequeath(&before);
    }

    /// Passes addresses that an association no longer has to another one that has verified them, too: a
    /// host that lost its state may have begun another association from some of its addresses.
    fn bequeath(&mut self, keys: &[Key]) {
        for key in keys {
            let heir = self.demux.heirs(key).into_iter().find(|heir| {
                self.association(*heir).is_some_and(|association| {
                    let (remote_port, local_port) =
                        (association.remote_port(), association.local_port());
                    !association.is_closed()
                        && association.addresses().any(|(remote, udp_port, verified)| {
                            let exact = Key::new(remote, udp_port, remote_port, local_port);
                            let incoming = association.is_incoming();
                            let own = if incoming { exact } else { exact.of_any_port() };
                            verified && own == *key
                        })
                })
            });
            if let Some(heir) = heir {
                self.demux.insert(*key, heir);
            }
        }
    }

    fn enter_keys(&mut self, id: AssociationId) {
        let slot = &mut self.slots[id.slot as usize];
        let Some(association) = slot.association.as_deref_mut() else { return };
        let (remote_port, local_port) = (association.remote_port(), association.local_port());
        let tag = Tag::of(association);
        let wanted = (!association.is_closed()).then_some(tag);
        // The cookies of an abandoned tag must not be used again.
        if let Some(old) = slot.tag.filter(|old| Some(*old) != wanted) {
            self.demux.remove_tag(&old, id);
            self.ended.push(self.latest, old.tag, association.peer_waits_for_complete());
            slot.tag = None;
        }
        if association.is_closed() {
            return;
        }
        if slot.tag.is_none() {
            self.demux.insert_tag(tag, id, association.is_established());
            slot.tag = Some(tag);
        }
        // Associations with different addresses may turn out to have the same peer. An ABORT would
        // carry the tags of the other one and end it.
        // req: rfc9260 1.3 "MUST NOT have more than one SCTP association"
        let newcomer = !association.is_incoming() && !association.is_established();
        let mut shared = false;
        for (remote, udp_port, verified) in association.addresses() {
            let exact = Key::new(remote, udp_port, remote_port, local_port);
            let key = if association.is_incoming() { exact } else { exact.of_any_port() };
            if newcomer {
                let others = [self.demux.owner(&key), self.demux.owner(&exact)];
                shared |= others.into_iter().flatten().any(|other| other != id);
            }
            self.demux.note(&key, id);
            if verified {
                self.demux.insert(key, id);
            }
            if !slot.keys.contains(&key) {
                slot.keys.push(key);
            }
        }
        slot.keys.shrink_to_fit();
        if shared {
            association.give_way();
            self.enter(id);
        }
    }
}

/// An association in use; see [`Endpoint::association_mut`].
#[derive(Debug)]
pub struct AssociationMut<'a> {
    endpoint: &'a mut Endpoint,
    now: Instant,
    id: AssociationId,
}

impl AssociationMut<'_> {
    fn slot(&self) -> &Slot {
        &self.endpoint.slots[self.id.slot as usize]
    }
}

impl Deref for AssociationMut<'_> {
    type Target = Association;

    fn deref(&self) -> &Association {
        self.slot().association.as_deref().expect("checked when the guard was made")
    }
}

impl DerefMut for AssociationMut<'_> {
    fn deref_mut(&mut self) -> &mut Association {
        let slot = &mut self.endpoint.slots[self.id.slot as usize];
        slot.association.as_deref_mut().expect("checked when the guard was made")
    }
}

impl Drop for AssociationMut<'_> {
    fn drop(&mut self) {
        self.endpoint.after_use(self.now, self.id);
    }
}
