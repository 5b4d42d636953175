//! Moves data between the engine and the application.

use anabranch_proto::{AssociationId, Instant};

use super::State;

impl State {
    /// Moves messages that the engine has received to the application's queues.
    pub(super) fn take_in(&mut self, now: Instant, id: AssociationId) {
        let Self { engine, associations, wakes, .. } = self;
        let Some(mut association) = engine.association_mut(now, id) else {
            return;
        };
        let Some(state) = associations.get_mut(&id) else {
            return;
        };
        let mut released = state.streams.take_consumed(false);
        state.streams.set_receive_buffer(association.receive_buffer());
        loop {
            // Messages of the old incarnation come before those of the new one.
            let restarts = association.restarts();
            if restarts != state.streams.incarnation() && !association.next_is_from_before_restart()
            {
                let streams = (association.outbound_streams(), association.inbound_streams());
                let (woken, dropped) = state.restart(restarts, streams.0, streams.1);
                wakes.extend(woken);
                released += dropped;
                if state.life.take_owed_shutdown() {
                    association.shutdown(now);
                }
            }
            let Some(message) = association.receive() else { break };
            if state.life.is_orphaned() {
                released += message.charge();
                continue;
            }
            let charge = message.charge();
            let message = state.streams.enter(now, &mut association, message, wakes);
            // The table has a row for each stream that the peer uses, as long as the association
            // exists.
            let grown = state.count_kept(&mut association);
            if grown > 0 && !association.may_keep_for_good(1) {
                association.abort_for_memory();
                break;
            }
            let Some(message) = message else {
                released += charge;
                continue;
            };
            released += state.streams.push(message, wakes);
        }
        if state.streams.owes_signals() {
            state.streams.send_due(now, &mut association, wakes);
        }
        state.count_kept(&mut association);
        if released > 0 {
            association.release(released);
        }
    }

    /// Uses room in the send buffer: first for end marks that are due, then for waiting senders.
    pub(super) fn make_use_of_room(&mut self, now: Instant, id: AssociationId) {
        let Self { engine, associations, wakes, .. } = self;
        let Some(mut association) = engine.association_mut(now, id) else {
            return;
        };
        let Some(state) = associations.get_mut(&id) else {
            return;
        };
        state.streams.send_due(now, &mut association, wakes);
        if state.streams.owes_marks() {
            return;
        }
        if state.life.take_owed_shutdown() {
            association.shutdown(now);
        }
        wakes.extend(state.streams.senders().wake_all());
    }

    /// Returns receive buffer that the application has freed to the engine, and sends the signals of
    /// byte streams that this causes. The driver is woken only if there is something to send, such as a SACK that
    /// reports an open window: a program that reads small messages frees some of the buffer with each of them.
    pub(crate) fn release(&mut self, now: Instant, id: AssociationId, charge: u32) {
        self.give_back(now, id, charge);
        // Otherwise the driver looks anyway.
        if !self.driver_is_wanted() && self.has_something_to_send(now) {
            self.wake_driver();
        }
    }

    /// The same; the caller wakes the driver.
    pub(super) fn give_back(&mut self, now: Instant, id: AssociationId, charge: u32) {
        let Self { engine, associations, wakes, .. } = self;
        if let Some(mut association) = engine.association_mut(now, id) {
            association.release(charge);
            if let Some(state) = associations.get_mut(&id) {
                state.count_kept(&mut association);
                if state.streams.owes_signals() {
                    state.streams.send_due(now, &mut association, wakes);
                }
            }
        } else if let Some(state) = associations.get_mut(&id) {
            state.count_nothing();
        }
    }

    /// Asks the engine for a packet, which the driver sends first. Only the engine can tell whether there is one, and
    /// freed memory may let other associations send, too.
    fn has_something_to_send(&mut self, now: Instant) -> bool {
        let packet = self.engine.poll_transmit(now, 1, &mut self.unsent.bytes);
        let is_packet = packet.is_some();
        self.unsent.transmits.extend(packet);
        self.handle_events(now) || is_packet
    }
}
