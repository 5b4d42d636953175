//! What all handles of an association share, and how they wait.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use anabranch_proto::{AssociationId, Instant, OutgoingMessage, SendErrorReason as Refused};

use crate::byte_mode::Mark;
use crate::error::{AssociationError, SendError, SendErrorReason};
use crate::shared::Shared;
use crate::state::{AssociationState, Phase};
use crate::wakers::{Key, WakerSet};

/// The one owner of an association's state; dropped with the last handle.
#[derive(Debug)]
pub(crate) struct AssociationRef {
    pub(crate) shared: Arc<Shared>,
    pub(crate) id: AssociationId,
    /// Never used twice in a process.
    pub(crate) number: u64,
}

impl Drop for AssociationRef {
    fn drop(&mut self) {
        let now = self.shared.runtime.now();
        self.shared.lock().let_go(now, self.id);
    }
}

/// One stream, as long as the peer keeps its state.
#[derive(Clone, Debug)]
pub(crate) struct StreamOf {
    pub(crate) association: Arc<AssociationRef>,
    pub(crate) stream: u16,
    /// The incarnation of the peer that it belongs to.
    pub(crate) incarnation: u32,
}

impl AssociationRef {
    /// Waits for the peer's answer.
    pub(crate) async fn connected(&self) -> Result<(), AssociationError> {
        let connected = |state: &mut AssociationState| match &state.phase {
            Phase::Connecting => None,
            Phase::Up => Some(Ok(())),
            Phase::Closed(error) => Some(Err(error.clone())),
        };
        self.wait(|state| &mut state.connecting, connected).await
    }

    /// Looks at the driver's part of the association. What was consumed of its messages meanwhile
    /// goes back to the receive buffer.
    pub(crate) fn with<T>(&self, look: impl FnOnce(&mut AssociationState) -> T) -> T {
        let mut guard = self.shared.lock();
        let state = guard.associations.get_mut(&self.id);
        let state = state.expect("the state is kept while there are handles");
        let result = look(state);
        let consumed = std::mem::take(&mut state.consumed);
        if consumed > 0 {
            let now = self.shared.runtime.now();
            guard.release(now, self.id, consumed);
        }
        result
    }

    /// Does something to the engine's part of the association while it lives.
    pub(crate) fn engine<T>(
        &self,
        act: impl FnOnce(&mut anabranch_proto::Association, Instant) -> T,
    ) -> Option<T> {
        let now = self.shared.runtime.now();
        let mut guard = self.shared.lock();
        let mut association = guard.engine.association_mut(now, self.id)?;
        let result = act(&mut association, now);
        drop(association);
        guard.wake_driver();
        Some(result)
    }

    /// Waits until `ready` has something.
    pub(crate) async fn wait<T>(
        &self,
        set: fn(&mut AssociationState) -> &mut WakerSet,
        mut ready: impl FnMut(&mut AssociationState) -> Option<T>,
    ) -> T {
        let mut turn = Turn { association: self, set, key: None };
        poll_fn(|cx| {
            self.with(|state| match ready(state) {
                Some(result) => Poll::Ready(result),
                None => {
                    set(state).register(&mut turn.key, cx.waker());
                    Poll::Pending
                }
            })
        })
        .await
    }

    /// Offers the engine a message; it stays where it is if it is refused. It is not moved otherwise:
    /// a small one costs more to copy than to send.
    ///
    /// If there is no room now, the reason is `Blocked`, and with a waker the sender is queued.
    pub(crate) fn offer(
        &self,
        incarnation: Option<u32>,
        key: &mut Option<Key>,
        waker: Option<&Waker>,
        message: &mut Option<OutgoingMessage>,
    ) -> Result<(), SendErrorReason> {
        let Some(stream) = message.as_ref().map(|message| message.stream) else {
            return Ok(());
        };
        self.offer_with(stream, incarnation, key, waker, |association, now| {
            let Some(offered) = message.take() else {
                return Ok(());
            };
            association.send(now, offered).map_err(|refused| {
                *message = Some(refused.message);
                refused.reason
            })
        })
    }

    /// Lets `send` send on a stream if it is this sender's turn, and the peer is still the incarnation
    /// that the sender knows, if it knows one.
    pub(crate) fn offer_with(
        &self,
        stream: u16,
        incarnation: Option<u32>,
        key: &mut Option<Key>,
        waker: Option<&Waker>,
        send: impl FnOnce(&mut anabranch_proto::Association, Instant) -> Result<(), Refused>,
    ) -> Result<(), SendErrorReason> {
        let now = self.shared.runtime.now();
        let mut guard = self.shared.lock();
        let state = &mut *guard;
        let Some(entry) = state.associations.get_mut(&self.id) else {
            return Err(SendErrorReason::Association(AssociationError::EndpointClosed));
        };
        if let Some(error) = entry.send_refusal() {
            return Err(SendErrorReason::Association(error));
        }
        if incarnation.is_some_and(|known| known != entry.incarnation) {
            if let Some(key) = key.take() {
                entry.senders.remove(key);
            }
            return Err(SendErrorReason::Association(AssociationError::Restarted));
        }
        let Some(mut association) = state.engine.association_mut(now, self.id) else {
            return Err(SendErrorReason::Association(AssociationError::ShuttingDown));
        };
        let result = if entry.senders.may_try(*key, stream) {
            send(&mut association, now)
        } else {
            Err(Refused::Blocked)
        };
        if let (Err(Refused::Blocked), Some(waker)) = (&result, waker) {
            let has_room = association.send_buffer_free() > 0;
            entry.senders.wait(key, stream, waker, has_room);
        } else if let Some(key) = key.take() {
            entry.senders.remove(key);
        }
        drop(association);
        match result {
            Ok(()) => {
                state.wake_driver();
                Ok(())
            }
            Err(Refused::Blocked) => Err(SendErrorReason::Blocked),
            Err(Refused::Empty) => Err(SendErrorReason::Empty),
            Err(Refused::TooLong) => Err(SendErrorReason::TooLong),
            Err(Refused::NoSuchStream(count)) => Err(SendErrorReason::NoSuchStream(count)),
            Err(_) => Err(SendErrorReason::Association(AssociationError::ShuttingDown)),
        }
    }

    /// Sends a message, waiting for room.
    pub(crate) async fn send(
        &self,
        incarnation: Option<u32>,
        message: OutgoingMessage,
    ) -> Result<(), SendError> {
        let mut turn = SendTurn { association: self, key: None };
        let mut message = Some(message);
        let offer = |cx: &mut Context<'_>| match self.offer(
            incarnation,
            &mut turn.key,
            Some(cx.waker()),
            &mut message,
        ) {
            Err(SendErrorReason::Blocked) => Poll::Pending,
            result => Poll::Ready(result),
        };
        let result = poll_fn(offer).await;
        SendError::of(result, message)
    }
}

/// What streams give back when they are dropped. The number of one of an earlier incarnation of the
/// peer may be another handle's by now.
impl StreamOf {
    /// The sending half of a stream is dropped, with the end mark that it owes the peer.
    pub(crate) fn give_back_sender(&self, key: Option<Key>, owed: Option<Mark>) {
        let (stream, shared, id) = (self.stream, &self.association.shared, self.association.id);
        let now = shared.runtime.now();
        let mut guard = shared.lock();
        let state = &mut *guard;
        let Some(entry) = state.associations.get_mut(&id) else {
            return;
        };
        if let Some(key) = key {
            entry.senders.remove(key);
        }
        if entry.incarnation != self.incarnation {
            return;
        }
        if let (Some(mark), Some(mut association)) = (owed, state.engine.association_mut(now, id))
            && let Err(refused) = association.send(now, mark.message(stream))
            && refused.reason == anabranch_proto::SendErrorReason::Blocked
        {
            // The stream stays in use until the mark is sent.
            entry.owed_marks.push_back(refused.message);
            return;
        }
        let woken = entry.give_back_sender(stream);
        state.wake(woken);
        state.wake_driver();
    }

    /// The receiving half of a stream is dropped, with or without what is not read.
    pub(crate) fn give_back_receiver(&self, discard: bool, charge: u32) {
        let stream = self.stream;
        let woken = self.association.with(|state| {
            state.consumed += charge;
            if state.incarnation != self.incarnation {
                return Vec::new();
            }
            if discard {
                state.consumed += state.inbound.discard(stream);
            } else {
                state.inbound.unclaim(stream);
            }
            let mut woken: Vec<Waker> = state.maybe_free(stream).collect();
            if state.inbound.announce(stream) {
                woken.extend(state.acceptors.drain());
                woken.extend(state.receivers.drain());
            }
            woken
        });
        woken.into_iter().for_each(Waker::wake);
    }
}

/// A place in a set of waiting futures, given up when the future is dropped.
struct Turn<'a> {
    association: &'a AssociationRef,
    set: fn(&mut AssociationState) -> &mut WakerSet,
    key: Option<Key>,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.association.with(|state| (self.set)(state).remove(key));
        }
    }
}

/// A place in the queue of senders, given up when the future is dropped.
struct SendTurn<'a> {
    association: &'a AssociationRef,
    key: Option<Key>,
}

impl Drop for SendTurn<'_> {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.association.with(|state| state.senders.remove(key));
        }
    }
}
