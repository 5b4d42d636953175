//! State that all handles of an association share, and how they wait.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use anabranch_proto::{
    Association as Engine, AssociationId, Instant, OutgoingMessage, SendErrorReason as Refused,
    StreamPriority,
};

use crate::error::{AssociationError, SendError, SendErrorReason};
use crate::shared::Shared;
use crate::state::AssociationState;
use crate::streams::{ByteStreams, Senders, Used, Wish};
use crate::wakers::{Key, WakerSet};

/// The only owner of an association's state; dropped with the last handle.
#[derive(Debug)]
pub(crate) struct AssociationRef {
    pub(crate) shared: Arc<Shared>,
    pub(crate) id: AssociationId,
    /// Unique among all associations of the process.
    pub(crate) number: u64,
}

impl Drop for AssociationRef {
    fn drop(&mut self) {
        let now = self.shared.runtime.now();
        self.shared.lock().let_go(now, self.id);
    }
}

/// Why a sender must wait.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Held {
    /// The engine refused the message.
    Engine(Refused),
    /// The peer has no room for more of this byte stream.
    NoCredit,
    /// The peer stopped reading this byte stream.
    Stopped,
}

/// A stream that handles use, as long as the peer is the same incarnation.
#[derive(Clone, Debug)]
pub(crate) struct StreamOf {
    pub(crate) association: Arc<AssociationRef>,
    pub(crate) stream: u16,
    /// The incarnation of the peer that the stream belongs to.
    pub(crate) incarnation: u32,
}

impl AssociationRef {
    /// Waits for the peer's answer.
    pub(crate) async fn connected(&self) -> Result<(), AssociationError> {
        self.wait(|state| state.life.connecting(), |state| state.life.handshake()).await
    }

    /// Accesses the driver's part of the association, then returns the memory of consumed messages to the receive
    /// buffer.
    pub(crate) fn with<T>(&self, look: impl FnOnce(&mut AssociationState) -> T) -> T {
        self.access(|state| (look(state), false))
    }

    /// The same for a reader. While it finds something at once, and so probably reads on, the memory of many small
    /// messages is returned together.
    pub(crate) fn read<T>(&self, look: impl FnOnce(&mut AssociationState) -> Poll<T>) -> Poll<T> {
        self.access(|state| {
            let found = look(state);
            let reads_on = found.is_ready();
            (found, reads_on)
        })
    }

    /// Accesses the driver's part of the association. `look` also says whether more is read soon.
    fn access<T>(&self, look: impl FnOnce(&mut AssociationState) -> (T, bool)) -> T {
        let mut guard = self.shared.lock();
        let state = guard.associations.get_mut(&self.id);
        let state = state.expect("the state is kept while there are handles");
        let (result, reads_on) = look(state);
        let consumed = state.streams.take_consumed(reads_on);
        if consumed > 0 || state.streams.owes_signals() || state.must_count() {
            let now = self.shared.runtime.now();
            guard.release(now, self.id, consumed);
        }
        result
    }

    /// Runs `act` on the engine's part of the association while it exists.
    pub(crate) fn engine<T>(&self, act: impl FnOnce(&mut Engine, Instant) -> T) -> Option<T> {
        let now = self.shared.runtime.now();
        let mut guard = self.shared.lock();
        let mut association = guard.engine.association_mut(now, self.id)?;
        let result = act(&mut association, now);
        drop(association);
        guard.wake_driver();
        Some(result)
    }

    /// Waits until `ready` returns something.
    pub(crate) async fn wait<T>(
        &self,
        set: fn(&mut AssociationState) -> &mut WakerSet,
        mut ready: impl FnMut(&mut AssociationState) -> Option<T>,
    ) -> T {
        let mut turn = Turn { association: self, set, key: None };
        poll_fn(|cx| {
            self.read(|state| match ready(state) {
                Some(result) => Poll::Ready(result),
                None => {
                    set(state).register(&mut turn.key, cx.waker());
                    Poll::Pending
                }
            })
        })
        .await
    }

    /// Offers a message to the engine, which leaves it in place if it refuses it. The message is passed by
    /// reference, because a small one costs more to copy than to send.
    ///
    /// If there is no room now, the error is `Blocked`; if a waker is given, the sender is queued.
    pub(crate) fn offer(
        &self,
        incarnation: Option<u32>,
        key: &mut Option<Key>,
        waker: Option<&Waker>,
        message: &mut Option<OutgoingMessage>,
    ) -> Result<(), SendErrorReason> {
        let Some(wish) = message.as_ref().map(Wish::of) else {
            return Ok(());
        };
        self.offer_with(wish, incarnation, key, waker, |association, _, now| {
            let Some(offered) = message.take() else {
                return Ok(());
            };
            association.send(now, offered).map_err(|refused| {
                *message = Some(refused.message);
                Held::Engine(refused.reason)
            })
        })
    }

    /// Calls `send` if it is this sender's turn on the stream, or if it may displace less important messages. A sender
    /// that belongs to an earlier incarnation of the peer gets an error.
    pub(crate) fn offer_with(
        &self,
        wish: Wish,
        incarnation: Option<u32>,
        key: &mut Option<Key>,
        waker: Option<&Waker>,
        send: impl FnOnce(&mut Engine, &mut ByteStreams, Instant) -> Result<(), Held>,
    ) -> Result<(), SendErrorReason> {
        let now = self.shared.runtime.now();
        let mut guard = self.shared.lock();
        let state = &mut *guard;
        let Some(entry) = state.associations.get_mut(&self.id) else {
            return Err(SendErrorReason::Association(AssociationError::EndpointClosed));
        };
        if let Some(error) = entry.life.send_refusal() {
            return Err(SendErrorReason::Association(error));
        }
        if incarnation.is_some_and(|known| known != entry.streams.incarnation()) {
            if let Some(key) = key.take() {
                let woken = entry.streams.senders().remove(key);
                state.wake(woken);
            }
            return Err(SendErrorReason::Association(AssociationError::Restarted));
        }
        let Some(mut association) = state.engine.association_mut(now, self.id) else {
            return Err(SendErrorReason::Association(AssociationError::ShuttingDown));
        };
        let wish = wish.or(association.config().sending.reliability);
        let (may_try, mut woken) = turn(entry.streams.senders(), *key, wish, &association);
        let result = if may_try {
            send(&mut association, entry.streams.bytes(), now)
        } else {
            Err(Held::Engine(Refused::Blocked))
        };
        entry.count_kept(&mut association);
        let waits = matches!(result, Err(Held::Engine(Refused::Blocked) | Held::NoCredit));
        if let (true, Some(waker)) = (waits, waker) {
            // A sender that waits for credit has not asked for room, and must not block others.
            let has_room =
                matches!(result, Err(Held::NoCredit)) || association.send_buffer_free() > 0;
            entry.streams.senders().wait(key, wish, waker, has_room, !may_try);
        } else if let Some(key) = key.take() {
            woken.extend(entry.streams.senders().remove(key));
        }
        drop(association);
        state.wake(woken);
        match result {
            Ok(()) => {
                state.wake_driver();
                Ok(())
            }
            Err(Held::NoCredit | Held::Engine(Refused::Blocked)) => Err(SendErrorReason::Blocked),
            Err(Held::Stopped) => Err(SendErrorReason::Stopped),
            Err(Held::Engine(Refused::Empty)) => Err(SendErrorReason::Empty),
            Err(Held::Engine(Refused::TooLong)) => Err(SendErrorReason::TooLong),
            Err(Held::Engine(Refused::NoSuchStream(count))) => {
                Err(SendErrorReason::NoSuchStream(count))
            }
            Err(Held::Engine(_)) => {
                Err(SendErrorReason::Association(AssociationError::ShuttingDown))
            }
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

/// Whether it is the turn of a sender, or it may overtake others; and the wakers of others that must try before.
fn turn(
    senders: &mut Senders,
    key: Option<Key>,
    wish: Wish,
    association: &Engine,
) -> (bool, Vec<Waker>) {
    if senders.may_try(key, wish) {
        return (true, Vec::new());
    }
    let is_full = association.send_buffer_free() == 0;
    if senders.may_overtake(key, wish, is_full) {
        return (true, Vec::new());
    }
    // The others wait for more room, but use the little that there is. After that, this one displaces less important
    // messages.
    let gives_way = !is_full && senders.may_overtake(key, wish, true);
    (false, if gives_way { senders.wake_all().collect() } else { Vec::new() })
}

/// The state of a sending half when it is dropped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Left {
    /// Bytes were written, but not the end mark.
    pub(crate) begun: bool,
    /// The end mark was written.
    pub(crate) ended: bool,
    /// The stream was given its own priority.
    pub(crate) prioritised: bool,
}

/// Give a stream back when a handle is dropped. A number from an earlier incarnation of the peer may belong to another
/// handle by now.
impl StreamOf {
    /// Gives back the sending half.
    pub(crate) fn give_back_sender(&self, key: Option<Key>, left: Left) {
        let (stream, shared, id) = (self.stream, &self.association.shared, self.association.id);
        let now = shared.runtime.now();
        let mut guard = shared.lock();
        let state = &mut *guard;
        let Some(entry) = state.associations.get_mut(&id) else {
            return;
        };
        let woken = key.map(|key| entry.streams.senders().remove(key)).unwrap_or_default();
        state.wakes.extend(woken);
        if entry.streams.incarnation() != self.incarnation {
            return;
        }
        // The peer still waits for the end mark even after it has stopped reading.
        let is_stopped = !left.ended && entry.streams.bytes().is_stopped(stream);
        if let Some(mut association) = state.engine.association_mut(now, id) {
            if left.prioritised {
                association.set_stream_priority(stream, StreamPriority::default());
            }
            let is_due = left.begun || is_stopped;
            if is_due && !entry.streams.bytes().abandon(now, &mut association, stream) {
                // The stream stays in use until the mark is sent.
                return;
            }
        }
        let woken = entry.streams.give_back_sender(stream);
        state.wake(woken);
        state.wake_driver();
    }

    /// Gives back the receiving half; with `discard`, throws away the unread data.
    pub(crate) fn give_back_receiver(&self, discard: bool, used: Used) {
        let stream = self.stream;
        let woken = self.association.with(|state| {
            state.streams.consume(stream, self.incarnation, used);
            if state.streams.incarnation() != self.incarnation {
                return Vec::new();
            }
            state.streams.give_back_receiver(stream, discard)
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
            let woken = self.association.with(|state| state.streams.senders().remove(key));
            woken.into_iter().for_each(Waker::wake);
        }
    }
}
