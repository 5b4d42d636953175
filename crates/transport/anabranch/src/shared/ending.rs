//! Ends associations, whichever side ended them.

use anabranch_proto::{AssociationId, CloseReason, Instant, Notification};

use super::State;
use crate::error::AssociationError;
use crate::state::Phase;

impl State {
    /// Handles the end of an association: received data stays readable, and all waiting tasks are
    /// woken.
    pub(super) fn end(&mut self, now: Instant, id: AssociationId, reason: CloseReason) {
        tracing::debug!(name: "connectivity:association_closed", association = %id, %reason);
        self.take_in(now, id);
        let Self { engine, associations, wakes, live, lingering, .. } = self;
        let Some(state) = associations.get_mut(&id) else {
            engine.remove(id);
            return;
        };
        if !state.life.is_orphaned()
            && let Some(ended) = engine.association(id)
        {
            state.keep_last(ended);
        }
        engine.remove(id);
        if let Some(at) = state.lingering.end() {
            lingering.remove(&(at, id));
        }
        let closed = Notification::Closed(reason.clone());
        wakes.extend(state.notifications.push(closed, usize::MAX));
        state.count_nothing();
        *live -= 1;
        let orphaned = state.life.is_orphaned();
        wakes.extend(state.close(AssociationError::Closed(reason)));
        if orphaned {
            self.associations.remove(&id);
        }
        if self.live == 0 {
            self.wakes.extend(self.idle.drain());
        }
    }

    /// Starts the graceful shutdown of an association, after the end marks that are due.
    pub(crate) fn shut_down(&mut self, now: Instant, id: AssociationId) {
        let Some(state) = self.associations.get_mut(&id) else {
            return;
        };
        if !state.life.begin_shutdown() {
            return;
        }
        let woken = state.streams.wake_senders();
        if !state.streams.owes_marks() {
            if let Some(mut association) = self.engine.association_mut(now, id) {
                association.shutdown(now);
            }
        } else {
            state.life.owe_shutdown();
        }
        self.wakes.extend(woken);
        self.wake_driver();
    }

    /// Aborts an association.
    pub(crate) fn abort(&mut self, now: Instant, id: AssociationId, reason: &[u8]) {
        if let Some(mut association) = self.engine.association_mut(now, id) {
            association.abort(now, reason);
        }
        self.wake_driver();
    }

    /// Handles the drop of the last handle of an association.
    pub(crate) fn let_go(&mut self, now: Instant, id: AssociationId) {
        let Some(state) = self.associations.get_mut(&id) else {
            return;
        };
        state.life.orphan();
        let (linger, unread) = (state.lingering.interval(), state.streams.clear());
        match state.life.phase() {
            Phase::Closed(_) => {
                self.associations.remove(&id);
                self.wake_driver();
            }
            Phase::Up if !linger.is_zero() => {
                self.give_back(now, id, unread);
                self.linger(now, id, linger);
                self.shut_down(now, id);
                self.wake_driver();
            }
            Phase::Up | Phase::Connecting => self.abort(now, id, b"no longer wanted"),
        }
    }

    /// Refuses an association that the application will not accept.
    pub(crate) fn reject(&mut self, now: Instant, id: AssociationId) {
        let Some(state) = self.associations.get_mut(&id) else {
            return;
        };
        state.lingering.forbid();
        self.let_go(now, id);
    }

    /// Handles the end of the driver, for whatever reason: all operations fail from now on.
    pub(crate) fn close_all(&mut self) {
        self.closing = true;
        self.driver_gone = true;
        self.live = 0;
        let Self { associations, listeners, wakes, idle, .. } = self;
        for state in associations.values_mut() {
            if !state.life.is_closed() {
                wakes.extend(state.close(AssociationError::EndpointClosed));
            }
        }
        associations.retain(|_, state| !state.life.is_orphaned());
        listeners.values_mut().for_each(|listener| wakes.extend(listener.waiting.drain()));
        wakes.extend(idle.drain());
    }
}
