//! Invariants of an endpoint that hold after every event; checked in tests and simulators.

use super::Endpoint;
use super::demux::{Key, Tag};
use crate::event::AssociationId;
use crate::time::Instant;

impl Endpoint {
    /// Checks every association and the tables of the endpoint. Call it when all output has been
    /// taken.
    ///
    /// # Errors
    /// A description of the violated invariant.
    pub fn check_invariants(&mut self, now: Instant) -> Result<(), String> {
        let ids: Vec<AssociationId> = self.associations().collect();
        for id in ids {
            let next = self.next_deadline();
            let Some(association) = self.get_mut(id) else { continue };
            let wanted = association.next_deadline();
            if wanted.is_some_and(|wanted| next.is_none_or(|next| next > wanted)) {
                return Err(format!("association {id}: deadline {wanted:?} is not scheduled"));
            }
            association.check_invariants().map_err(|what| format!("association {id}: {what}"))?;
            // Packets that a timer releases at this instant are sent once the timer is handled.
            // Packets held up by a message that has just expired can be sent now.
            let quiet = !association.is_closed() && wanted.is_none_or(|wanted| wanted > now);
            let turn = association.wanted_turn(now);
            if quiet
                && !association.has_events()
                && let Some(turn) = turn
            {
                return Err(format!("association {id} has no turn, but something to send: {turn}"));
            }
            self.after(now, id);
            self.check_entries(id).map_err(|what| format!("association {id}: {what}"))?;
        }
        Ok(())
    }

    /// Checks that an association can be found by its tag, and by those known addresses of its peer
    /// that no other association has, but not by other addresses.
    fn check_entries(&self, id: AssociationId) -> Result<(), String> {
        let Some(association) = self.association(id) else { return Ok(()) };
        let (remote_port, local_port) = (association.remote_port(), association.local_port());
        let by_tag = self.demux.find_tag(&Tag::of(association));
        if association.is_closed() {
            return if by_tag == Some(id) { Err("closed, and found".into()) } else { Ok(()) };
        }
        if association.is_established() && by_tag.is_none() {
            return Err("not found by its tag".into());
        }
        for (remote, udp_port, verified) in association.addresses() {
            let exact = Key::new(remote, udp_port, remote_port, local_port);
            let key = if association.is_incoming() { exact } else { exact.of_any_port() };
            let owner = self.demux.owner(&key);
            let vouched = association.addresses().any(|(other, port, verified)| {
                verified && other == remote && (!association.is_incoming() || port == udp_port)
            });
            if verified && owner.is_none() {
                return Err(format!("not found by {remote}, port {udp_port}"));
            }
            if !vouched && owner == Some(id) {
                return Err(format!("found by {remote}, which is not verified"));
            }
        }
        Ok(())
    }
}
