//! Applies the engine's events to the state of the handles.

use std::time::Duration;

use anabranch_proto::{AssociationId, Event, Instant, Notification};

use super::State;
use crate::notification_log::{most_payload, needed_memory};
use crate::state::AssociationState;

impl State {
    /// Processes all events of the engine. Returns whether there were any.
    pub(crate) fn handle_events(&mut self, now: Instant) -> bool {
        let mut any = false;
        while let Some((id, event)) = self.engine.poll_event() {
            self.handle_event(now, id, event);
            any = true;
        }
        any
    }

    fn handle_event(&mut self, now: Instant, id: AssociationId, event: Event) {
        match event {
            Event::Readable => self.take_in(now, id),
            Event::Writable => self.make_use_of_room(now, id),
            Event::Notification(notification) => self.handle_notification(now, id, notification),
            _ => {}
        }
    }

    fn handle_notification(&mut self, now: Instant, id: AssociationId, event: Notification) {
        match event {
            Notification::Up { incoming: true, outbound_streams, inbound_streams, .. } => {
                tracing::debug!(name: "connectivity:association_accepted", association = %id);
                self.queue_incoming(now, id, outbound_streams, inbound_streams);
                self.notify(now, id, event);
            }
            Notification::Up { incoming: false, outbound_streams, inbound_streams, .. } => {
                tracing::debug!(name: "connectivity:association_connected", association = %id);
                let Self { associations, wakes, .. } = self;
                if let Some(state) = associations.get_mut(&id) {
                    wakes.extend(state.connected(false, outbound_streams, inbound_streams));
                }
                self.notify(now, id, event);
            }
            Notification::Closed(reason) => self.end(now, id, reason),
            other => {
                tracing::debug!(name: "connectivity:event", association = %id, event = ?other);
                // What arrived before must be there for those who are notified.
                if matches!(
                    other,
                    Notification::PeerShutdown
                        | Notification::Restarted { .. }
                        | Notification::PartialDeliveryAborted { .. }
                        | Notification::StreamsReset { .. }
                        | Notification::AssociationReset { .. }
                ) {
                    self.take_in(now, id);
                }
                let Self { associations, wakes, .. } = self;
                let Some(state) = associations.get_mut(&id) else {
                    return;
                };
                match &other {
                    Notification::StreamsAdded { outbound_streams, inbound_streams, .. } => {
                        wakes.extend(state.streams.added(*outbound_streams, *inbound_streams));
                    }
                    Notification::SendFailed { .. } => state.life.count_undelivered(),
                    Notification::PeerShutdown => {
                        state.life.peer_shut_down();
                        wakes.extend(state.streams.take_receivers());
                        // Messages that wait for room will not be sent.
                        wakes.extend(state.streams.wake_senders());
                    }
                    _ => {}
                }
                self.notify(now, id, other);
            }
        }
    }

    /// Keeps a notification for its readers, if there is memory.
    fn notify(&mut self, now: Instant, id: AssociationId, notification: Notification) {
        let Self { engine, associations, wakes, .. } = self;
        let (Some(state), Some(mut association)) =
            (associations.get_mut(&id), engine.association_mut(now, id))
        else {
            return;
        };
        if needed_memory(&notification).is_some_and(|bytes| !association.may_keep(bytes)) {
            state.notifications.leave_out();
        } else {
            let most = most_payload(association.send_buffer());
            wakes.extend(state.notifications.push(notification, most));
        }
        state.count_kept(&mut association);
    }

    /// Queues an association that a peer initiated for its listener, unless the backlog is full.
    fn queue_incoming(&mut self, now: Instant, id: AssociationId, outbound: u16, inbound: u16) {
        let Some(association) = self.engine.association(id) else {
            return;
        };
        let listener = self.listeners.get_mut(&association.local_port());
        let linger = listener.as_ref().map_or(Duration::ZERO, |listener| listener.linger);
        let mut state = AssociationState::new(linger);
        self.wakes.extend(state.connected(true, outbound, inbound));
        match listener {
            Some(listener) if listener.backlog.len() < listener.limit && !self.closing => {
                listener.backlog.push_back(id);
                self.wakes.extend(listener.waiting.drain());
            }
            _ => {
                state.life.orphan();
                if let Some(mut association) = self.engine.association_mut(now, id) {
                    association.abort(now, b"too many associations wait to be accepted");
                }
            }
        }
        self.live += 1;
        self.associations.insert(id, state);
    }
}
