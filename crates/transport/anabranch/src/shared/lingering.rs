//! Aborts associations whose shutdown makes no progress.

use std::time::Duration;

use anabranch_proto::{AssociationId, Instant};

use super::State;

impl State {
    /// Lets an association continue its shutdown as long as some of its sent data is delivered in
    /// each `interval`.
    pub(crate) fn linger(&mut self, now: Instant, id: AssociationId, interval: Duration) {
        let left = self.engine.association(id).map_or(0, |association| association.pending_bytes());
        let Some(state) = self.associations.get_mut(&id) else {
            return;
        };
        let Some((at, before)) = state.lingering.begin(now, interval, left) else {
            return;
        };
        if let Some(before) = before {
            self.lingering.remove(&(before, id));
        }
        self.lingering.insert((at, id));
    }

    /// Aborts associations that made no progress in their interval.
    pub(crate) fn end_lingering(&mut self, now: Instant) {
        while let Some(&(deadline, id)) = self.lingering.first() {
            if deadline > now {
                break;
            }
            self.lingering.pop_first();
            let left = self.engine.association(id).map(|association| association.pending_bytes());
            let state = self.associations.get_mut(&id).zip(left);
            match state.and_then(|(state, left)| state.lingering.check(now, left)) {
                Some(at) => _ = self.lingering.insert((at, id)),
                None => self.abort(now, id, b"not shut down in time"),
            }
        }
    }
}
