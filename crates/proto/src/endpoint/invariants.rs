//! What must hold for an endpoint after every event; for tests and simulators.

use super::Endpoint;
use crate::event::AssociationId;
use crate::time::Instant;

impl Endpoint {
    /// Checks every association and the tables of the endpoint. To be called when all output
    /// has been taken.
    ///
    /// # Errors
    /// What does not hold, in words.
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
            // What a timer lets go at this very instant goes once the timer is handled; what a
            // message held up that has just expired goes from now on.
            let quiet = !association.is_closed() && wanted.is_none_or(|wanted| wanted > now);
            let turn = association.wanted_turn(now);
            if quiet
                && !association.has_events()
                && let Some(turn) = turn
            {
                return Err(format!("association {id} has no turn, but something to send: {turn}"));
            }
            self.after(now, id);
        }
        Ok(())
    }
}
