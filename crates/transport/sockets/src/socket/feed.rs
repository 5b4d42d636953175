//! Moves messages and notifications from an association to its socket.
//!
//! The end is reported after the messages received before it.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use anabranch::{Association, AssociationError, Events, Message, Notification};

use super::link::Link;
use super::{Socket, State};
use crate::assoc_id::AssocId;

/// The output of a future that is ready now.
pub(super) fn at_once<T>(future: impl Future<Output = T>) -> Option<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

/// Moves messages and events of an association to its socket, until the association ends or the socket drops it.
#[derive(Debug)]
pub(super) struct Feed {
    id: AssocId,
    association: Association,
    events: Events,
    /// The end, held back until the messages before it are received.
    held: Vec<Notification>,
    /// The socket needs the next message.
    wants: bool,
    received_all: bool,
    reported_all: bool,
}

impl Feed {
    pub(super) fn new(id: AssocId, association: Association) -> Self {
        let events = association.events();
        Self {
            id,
            association,
            events,
            held: Vec::new(),
            wants: true,
            received_all: false,
            reported_all: false,
        }
    }

    /// Hands over what is available now. Returns whether that was the last.
    pub(super) fn catch_up(&mut self, socket: &Socket, state: &mut State) -> bool {
        while let Some(event) = self.events.try_next() {
            if self.event(socket, state, event) {
                return true;
            }
        }
        match at_once(self.association.recv()) {
            Some(message) => self.message(socket, state, message),
            None => false,
        }
    }

    /// Hands over messages and events as they arrive. When the socket has dropped the association, takes what the peer
    /// still sends, because the peer cannot shut down with data that has no room.
    pub(super) async fn run(self, link: Arc<Link>) {
        let association = self.association.clone();
        if self.until_dropped(&link).await {
            while let Ok(Some(_)) = association.recv().await {}
        }
    }

    /// Returns whether the socket has dropped the association; otherwise the association has ended.
    async fn until_dropped(mut self, link: &Link) -> bool {
        let (id, association) = (self.id, self.association.clone());
        loop {
            tokio::select! {
                biased;
                event = self.events.next(), if !self.reported_all => {
                    let Some(event) = event else {
                        // The notifications held back were the last ones.
                        if self.received_all {
                            return false;
                        }
                        self.reported_all = true;
                        continue;
                    };
                    let mut event = Some(event);
                    let done = link.with(id, |socket, state| {
                        event.take().is_some_and(|event| self.event(socket, state, event))
                    });
                    if done != Some(false) {
                        return done.is_none();
                    }
                }
                message = association.recv(), if self.wants && !self.received_all => {
                    let mut message = Some(message);
                    let done = link.with(id, |socket, state| {
                        message.take().is_some_and(|message| self.message(socket, state, message))
                    });
                    if done != Some(false) {
                        return done.is_none();
                    }
                }
                () = link.taken.notified() => {
                    let empty = |_: &Socket, state: &mut State| {
                        state.peers.get(&id).is_none_or(|peer| peer.head.is_none())
                    };
                    match link.with(id, empty) {
                        Some(empty) => self.wants = empty,
                        None => return true,
                    }
                }
            }
        }
    }

    /// Hands over an event. Returns whether it was the last.
    fn event(&mut self, socket: &Socket, state: &mut State, event: Notification) -> bool {
        let is_end = matches!(event, Notification::PeerShutdown | Notification::Closed(_));
        if is_end && !self.received_all {
            self.held.push(event);
            return false;
        }
        if matches!(event, Notification::Restarted { .. }) {
            // The peer restarted: the end of the previous incarnation does not count.
            self.held.clear();
            self.received_all = false;
        }
        state.happened(socket, self.id, &event);
        let cuts = matches!(
            event,
            Notification::PartialDeliveryAborted { .. } | Notification::Restarted { .. }
        );
        if cuts && !self.received_all && state.has_none_of(self.id) {
            match at_once(self.association.recv()) {
                Some(part) => return self.message(socket, state, part),
                None => state.all_taken(self.id),
            }
        }
        matches!(event, Notification::Closed(_))
    }

    /// Hands over a message, or reports that there are no more. Returns whether the association has ended.
    fn message(
        &mut self,
        socket: &Socket,
        state: &mut State,
        message: Result<Option<Message>, AssociationError>,
    ) -> bool {
        let Ok(Some(message)) = message else {
            self.received_all = true;
            let end = message.map(|_| ());
            // The user must see the notification before the end.
            while let Some(event) = self.events.try_next() {
                self.held.push(event);
            }
            state.received_all(self.id, &end);
            let mut closed = false;
            for event in self.held.drain(..) {
                closed |= matches!(event, Notification::Closed(_));
                state.happened(socket, self.id, &event);
            }
            return closed;
        };
        self.wants = false;
        state.give(self.id, message);
        false
    }
}
