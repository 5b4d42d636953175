//! Hands messages to an association, and holds one for which it has no room.

use std::sync::Arc;

use anabranch::{Association, OutgoingMessage, Reliability, SendErrorReason};
use tokio::sync::Notify;

use super::link::Link;
use super::{Peer, Socket, State};
use crate::assoc_id::AssocId;
use crate::error::Error;
use crate::lock::lock;

/// A message that the association has no room for yet.
#[derive(Debug, Default)]
pub(super) struct OutgoingState {
    /// There is such a message.
    pub(super) busy: bool,
    /// The message, if it waits until the association is established.
    pub(super) early: Option<OutgoingMessage>,
    /// What a task waits to send, once the association is established.
    waiting: Option<Arc<Waiting>>,
    /// Shut down the association after the message, or once it is established.
    finish: bool,
}

/// What is known of a message while a task waits to send it.
#[derive(Debug)]
struct Waiting {
    stream: u16,
    importance: Option<u32>,
    /// Notified when a more important message takes its place.
    displaced: Notify,
}

impl Waiting {
    fn new(association: &Association, message: &OutgoingMessage) -> Arc<Self> {
        let (stream, importance) = (message.stream, importance(association, message));
        Arc::new(Self { stream, importance, displaced: Notify::new() })
    }
}

/// The priority of a message that may be given up for a more important one; smaller is more important (RFC 7496 section
/// 4.2).
fn importance(association: &Association, message: &OutgoingMessage) -> Option<u32> {
    let reliability = match message.reliability {
        Reliability::Usual => association.config().sending.reliability,
        own => own,
    };
    match reliability {
        Reliability::Priority(value) => Some(value),
        _ => None,
    }
}

impl Socket {
    /// Passes a message to an association, or to a task that waits for room; `None` if another message waits.
    pub(super) fn offer(
        &self,
        id: AssocId,
        peer: &Peer,
        message: OutgoingMessage,
    ) -> Option<Result<(), Error>> {
        let mut slot = lock(&peer.link.outgoing);
        let Some(association) = &peer.association else {
            if slot.busy {
                return None;
            }
            slot.busy = true;
            slot.early = Some(message);
            return Some(Ok(()));
        };
        let message = match slot.make_way(association, message) {
            Ok(message) => message,
            Err(done) => return done,
        };
        match association.try_send(message) {
            Ok(()) => Some(Ok(())),
            Err(error) if error.reason == SendErrorReason::Blocked => {
                let (link, association) = (peer.link.clone(), association.clone());
                let waiting = slot.hold(&association, &error.message);
                self.host.reactor.spawn(async move {
                    deliver(&link, id, &association, error.message, &waiting).await;
                });
                Some(Ok(()))
            }
            Err(error) => Some(Err(Error::from(&error.reason))),
        }
    }

    /// Shuts an association down gracefully, after the message that waits.
    pub(super) fn start_finishing(&self, peer: &Peer) {
        let mut outgoing = lock(&peer.link.outgoing);
        if outgoing.busy || peer.association.is_none() {
            outgoing.finish = true;
        } else if let Some(association) = peer.association.clone() {
            self.host.reactor.spawn(async move {
                let _ = association.close().await;
            });
        }
    }
}

impl OutgoingState {
    fn hold(&mut self, association: &Association, message: &OutgoingMessage) -> Arc<Waiting> {
        let waiting = Waiting::new(association, message);
        self.busy = true;
        self.waiting = Some(waiting.clone());
        waiting
    }

    /// Returns a message if none waits any more: a less important one is given up. Otherwise returns what the call has
    /// to report: a message may overtake one of another stream by displacing others in the send buffer.
    fn make_way(
        &mut self,
        association: &Association,
        mut message: OutgoingMessage,
    ) -> Result<OutgoingMessage, Option<Result<(), Error>>> {
        if !self.busy {
            return Ok(message);
        }
        let own = self.waiting.as_ref().and_then(|_| importance(association, &message));
        let (Some(waiting), Some(own)) = (&self.waiting, own) else { return Err(None) };
        if waiting.stream != message.stream {
            message = match association.try_send(message) {
                Ok(()) => return Err(Some(Ok(()))),
                Err(error) if error.reason == SendErrorReason::Blocked => error.message,
                Err(error) => return Err(Some(Err(Error::from(&error.reason)))),
            };
        }
        if waiting.importance.is_none_or(|value| value <= own) {
            return Err(None);
        }
        waiting.displaced.notify_one();
        self.waiting = None;
        self.busy = false;
        Ok(message)
    }
}

/// Sends the message and shuts down, if calls requested that during setup.
pub(super) async fn begin(link: &Link, id: AssocId, association: &Association) {
    let (early, finish) = {
        let mut outgoing = lock(&link.outgoing);
        let early = outgoing.early.take();
        let early = early.map(|message| (outgoing.hold(association, &message), message));
        (early, outgoing.finish)
    };
    match early {
        Some((waiting, message)) => deliver(link, id, association, message, &waiting).await,
        None if finish => {
            let _ = association.close().await;
        }
        None => {}
    }
}

/// Sends a message, waiting for room unless it is displaced, and then shuts down if a call requested it meanwhile.
async fn deliver(
    link: &Link,
    id: AssocId,
    association: &Association,
    message: OutgoingMessage,
    waiting: &Arc<Waiting>,
) {
    let copy = message.clone();
    let displaced = tokio::select! {
        biased;
        // Notifications report the outcome.
        _ = association.send(message) => false,
        () = waiting.displaced.notified() => true,
    };
    let finish = {
        let mut outgoing = lock(&link.outgoing);
        let is_last = outgoing.waiting.as_ref().is_some_and(|last| Arc::ptr_eq(last, waiting));
        if is_last {
            outgoing.waiting = None;
            outgoing.busy = false;
        }
        is_last && outgoing.finish
    };
    if displaced {
        link.with(id, |_, state| state.displaced(id, &copy));
    } else if let Some(socket) = link.socket() {
        socket.with(|_| ());
    }
    if finish {
        let _ = association.close().await;
    }
}

impl State {
    /// Records that a message was given up for a more important one, before the association had it.
    fn displaced(&mut self, id: AssocId, message: &OutgoingMessage) {
        if let Some(peer) = self.peers.get_mut(&id) {
            *peer.displaced.entry(message.stream).or_default() += 1;
        }
        self.send_failed(id, message, false);
    }
}
