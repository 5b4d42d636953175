//! The handle of an association.

mod events;
mod handle;
mod recv_stream;
mod reservation;
mod roaming;
mod send_stream;
mod unread;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;

use anabranch_proto::config::ConfigError;
use anabranch_proto::{
    Association as Engine, AssociationConfig, AssociationId, ChunkTypes, GivenUpBy,
    GivenUpMessages, Instant, Message, NoSuchPath, OutgoingMessage, PathStatistics,
    ReconfigurationError, Statistics, StreamDirection, StreamPriority,
};

use self::handle::{AssociationRef, StreamOf};
use crate::error::{AssociationError, CloseError, SendError, StreamError};
use crate::shared::Shared;
use crate::state::AssociationState;

pub use events::Events;
pub use recv_stream::{RecvError, RecvStream};
pub use reservation::Reservation;
pub use send_stream::SendStream;

/// An SCTP association: messages over many streams and paths.
///
/// A cheap handle; clones refer to the same association. Streams and [`Events`] are handles, too. When the last handle
/// is dropped, the association is shut down gracefully, or aborted if none of the sent data is delivered within the
/// time of the option `linger`. To learn the result, call [`close`](Self::close).
///
/// When the peer loses its state and sets the association up again
/// ([`Notification::Restarted`](crate::Notification::Restarted)), all streams end with an error, undelivered messages
/// are returned, and [`accept_stream`](Self::accept_stream) returns the streams of the new incarnation.
///
/// All methods are cancel-safe: a future that is dropped before it is ready has no effect, except that of
/// [`close`](Self::close), whose shutdown continues.
///
/// All streams share the receive window, as in every SCTP implementation: unread messages on one stream hold up the
/// other streams of the association, but not other associations. Each byte stream has its own share of the window
/// ([`byte_mode`](crate::byte_mode)), so an unread one does not hold up the others.
///
/// ```
/// # async fn example(association: anabranch::Association) -> Result<(), Box<dyn std::error::Error>> {
/// use anabranch::{OutgoingMessage, Ppid};
///
/// association.send(OutgoingMessage::new(0, Ppid(0), "in order")).await?;
/// association.send(OutgoingMessage::new(1, Ppid(0), "at any time").with_unordered()).await?;
/// while let Some(message) = association.recv().await? {
///     println!("stream {}: {:?}", message.stream, message.payload.into_bytes());
/// }
/// association.close().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Association {
    inner: Arc<AssociationRef>,
}

impl Association {
    pub(crate) fn new(shared: Arc<Shared>, id: AssociationId) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Self { inner: Arc::new(AssociationRef { shared, id, number }) }
    }

    pub(crate) async fn connected(&self) -> Result<(), AssociationError> {
        self.inner.connected().await
    }

    /// Sends a message, waiting for room in the send buffer. When this returns, the message is
    /// queued, not delivered.
    ///
    /// Cancel-safe: a message whose future was dropped before it was ready is not sent.
    ///
    /// # Errors
    /// Returns the message with the reason why it could not be sent.
    pub async fn send(&self, message: OutgoingMessage) -> Result<(), SendError> {
        self.inner.send(None, message).await
    }

    /// Sends a message if there is room for it now.
    ///
    /// # Errors
    /// Returns the message with the reason; if the send buffer is full, this is
    /// [`SendErrorReason::Blocked`](crate::SendErrorReason::Blocked).
    pub fn try_send(&self, message: OutgoingMessage) -> Result<(), SendError> {
        let mut message = Some(message);
        let result = self.inner.offer(None, &mut None, None, &mut message);
        SendError::of(result, message)
    }

    /// Waits for the next message on any stream without a [`RecvStream`], in the order of delivery. `None` when the
    /// peer has shut down and everything was read.
    ///
    /// A message larger than the option `partial_delivery_point` (at most half the receive buffer)
    /// arrives in parts, see [`Message::begin`] and [`Message::end`].
    ///
    /// # Errors
    /// The association was lost or aborted. Data received before is delivered first.
    pub async fn recv(&self) -> Result<Option<Message>, AssociationError> {
        let next = |state: &mut AssociationState| match state.streams.pop() {
            Some(message) => Some(Ok(Some(message))),
            None => state.life.receive_end().map(|end| end.map(|()| None)),
        };
        self.inner.wait(|state| state.streams.receivers(), next).await
    }

    /// Returns the next message, as [`recv`](Self::recv) does, if one is already there.
    pub fn try_recv(&self) -> Option<Message> {
        let next = |state: &mut AssociationState| match state.streams.pop() {
            Some(message) => Poll::Ready(message),
            None => Poll::Pending,
        };
        match self.inner.read(next) {
            Poll::Ready(message) => Some(message),
            Poll::Pending => None,
        }
    }

    /// The highest TSN up to which all of the peer's chunks have arrived; `None` after the end.
    pub fn cumulative_tsn(&self) -> Option<u32> {
        let guard = self.inner.shared.lock();
        guard.engine.association(self.inner.id).map(Engine::cumulative_tsn)
    }

    /// Takes both directions of a stream. While the [`RecvStream`] is held, it receives the stream's messages instead
    /// of [`recv`](Self::recv).
    ///
    /// # Errors
    /// The stream does not exist or is in use, or the association has ended.
    pub fn stream(&self, stream: u16) -> Result<(SendStream, RecvStream), StreamError> {
        let incarnation = self.inner.with(|state| {
            check_usable(state)?;
            state.streams.take(stream)
        })?;
        Ok(self.handles(stream, incarnation))
    }

    /// Opens the next free stream: one without handles here and without unread messages from the peer. Waits for one if
    /// necessary. The side that connected takes streams from 0 upwards, the other side from the last one downwards, so
    /// both can open streams without agreeing on numbers.
    ///
    /// # Errors
    /// The association has ended.
    pub async fn open_stream(&self) -> Result<(SendStream, RecvStream), StreamError> {
        let open = |state: &mut AssociationState| {
            if let Err(error) = check_usable(state) {
                return Some(Err(error));
            }
            state.streams.open().map(Ok)
        };
        let (stream, incarnation) = self.inner.wait(|state| state.streams.openers(), open).await?;
        Ok(self.handles(stream, incarnation))
    }

    /// Waits for the next stream without a handle on which the peer sent something. `None` when the
    /// peer has shut down and no such stream is left.
    ///
    /// # Errors
    /// The association was lost or aborted.
    pub async fn accept_stream(
        &self,
    ) -> Result<Option<(SendStream, RecvStream)>, AssociationError> {
        let accept = |state: &mut AssociationState| match state.streams.accept() {
            Some(stream) => Some(Ok(Some(stream))),
            None => state.life.receive_end().map(|end| end.map(|()| None)),
        };
        let stream = self.inner.wait(|state| state.streams.acceptors(), accept).await?;
        Ok(stream.map(|(stream, incarnation)| self.handles(stream, incarnation)))
    }

    fn handles(&self, stream: u16, incarnation: u32) -> (SendStream, RecvStream) {
        let of = StreamOf { association: self.inner.clone(), stream, incarnation };
        (SendStream::new(of.clone()), RecvStream::new(of))
    }

    /// Shuts the association down gracefully: sends nothing more, and waits until all sent data is delivered and the
    /// peer has shut down, too. The shutdown continues if the future is dropped. There is no time limit for a peer that
    /// is alive but does not read: to set one, use a timeout and [`abort`](Self::abort).
    ///
    /// # Errors
    /// The association ended in another way, or the peer restarted meanwhile. The error contains the number of messages
    /// that may not have arrived.
    pub async fn close(&self) -> Result<(), CloseError> {
        let now = self.inner.shared.runtime.now();
        self.inner.shared.lock().shut_down(now, self.inner.id);
        self.closed().await
    }

    /// Waits until the association has ended, whichever side ends it.
    ///
    /// # Errors
    /// It did not end gracefully.
    pub async fn closed(&self) -> Result<(), CloseError> {
        self.inner.wait(|state| state.life.closers(), |state| state.life.end()).await
    }

    /// Ends the association immediately. The peer gets `reason` as the text of the cause User-Initiated
    /// Abort (RFC 9260 section 3.3.10.12); data in flight may be lost.
    pub fn abort(&self, reason: &[u8]) {
        let now = self.inner.shared.runtime.now();
        self.inner.shared.lock().abort(now, self.inner.id, reason);
    }

    /// Subscribes to the notifications of the association: path changes, restarts, returned messages.
    pub fn events(&self) -> Events {
        Events::new(self.inner.clone())
    }

    /// Reserves memory for data that the program stores because of the peer, besides unread messages.
    /// `None` if the endpoint's `memory_limit` has no room for it.
    pub fn reserve(&self, bytes: usize) -> Option<Reservation> {
        Reservation::new(self.inner.clone(), bytes)
    }

    /// A snapshot of the counters and paths; after the end, the last one.
    ///
    /// ```
    /// # async fn example(association: anabranch::Association) -> Result<(), anabranch::CloseError> {
    /// association.close().await?;
    /// let statistics = association.statistics();
    /// assert_eq!(statistics.state, anabranch::AssociationState::Closed);
    /// println!("{} messages, {} paths", statistics.counters.messages_sent, statistics.paths.len());
    /// # Ok(())
    /// # }
    /// ```
    pub fn statistics(&self) -> Statistics {
        let guard = self.inner.shared.lock();
        guard.known(self.inner.id, Engine::statistics, |last| last.statistics.clone())
    }

    /// The current options; after the end, the last ones.
    pub fn config(&self) -> AssociationConfig {
        let guard = self.inner.shared.lock();
        guard.known(self.inner.id, |live| live.config().clone(), |last| last.config.clone())
    }

    /// Changes the options listed by [`AssociationConfig::adjusted`]; others stay as they are. Does
    /// nothing after the end.
    ///
    /// # Errors
    /// The first option that is out of range; then nothing has changed.
    pub fn reconfigure(
        &self,
        change: impl FnOnce(&mut AssociationConfig),
    ) -> Result<(), ConfigError> {
        let reconfigure = |association: &mut Engine, now: Instant| {
            let mut config = association.config().clone();
            change(&mut config);
            association.reconfigure(now, &config)
        };
        self.inner.engine(reconfigure).unwrap_or(Ok(()))
    }

    /// The messages that were given up by a policy, on one stream or on all; after the end, the last counts
    /// (RFC 7496 sections 4.3 and 4.4).
    ///
    /// ```
    /// # fn example(association: &anabranch::Association) {
    /// let late = association.given_up(anabranch::GivenUpBy::Lifetime, None);
    /// println!("{} expired before they were sent, {} later", late.unsent, late.sent);
    /// # }
    /// ```
    pub fn given_up(&self, by: GivenUpBy, stream: Option<u16>) -> GivenUpMessages {
        let guard = self.inner.shared.lock();
        let live = |association: &Engine| association.given_up(by, stream);
        guard.known(self.inner.id, live, |last| last.given_up.count(by, stream))
    }

    /// Number of streams that this side can send on, as negotiated.
    pub fn outbound_streams(&self) -> u16 {
        self.inner.with(|state| state.streams.counts().0)
    }

    /// Number of streams that the peer can send on, as negotiated.
    pub fn inbound_streams(&self) -> u16 {
        self.inner.with(|state| state.streams.counts().1)
    }

    /// Whether the association has ended.
    pub fn is_closed(&self) -> bool {
        self.inner.with(|state| state.life.is_closed())
    }

    /// SCTP ports of this side and of the peer; after the end, the last ones.
    pub fn ports(&self) -> (u16, u16) {
        let guard = self.inner.shared.lock();
        let of = |live: &Engine| (live.local_port(), live.remote_port());
        guard.known(self.inner.id, of, |last| last.ports)
    }

    /// The peer's addresses with its SCTP port, the primary one first; after the end, the last
    /// ones. Link-local ones have the number of their interface as their scope.
    ///
    /// ```
    /// # async fn example(association: anabranch::Association) {
    /// let peer = association.peer_addresses().first().copied();
    /// # let _: Option<std::net::SocketAddr> = peer;
    /// # }
    /// ```
    pub fn peer_addresses(&self) -> Vec<SocketAddr> {
        let (_, port) = self.ports();
        self.addresses(|path| path.remote, port)
    }

    /// The local addresses of its paths with its SCTP port, that of the primary path first; after
    /// the end, the last ones.
    pub fn local_addresses(&self) -> Vec<SocketAddr> {
        let (port, _) = self.ports();
        self.addresses(|path| path.local, port)
    }

    /// Each address of the paths once, the primary path's first.
    fn addresses(&self, of: impl Fn(&PathStatistics) -> IpAddr, port: u16) -> Vec<SocketAddr> {
        let known = self.statistics();
        let guard = self.inner.shared.lock();
        let of = |path: &PathStatistics| guard.with_scope(path.local, of(path), port);
        let mut addresses: Vec<_> = known.path(known.primary).into_iter().map(of).collect();
        for address in known.paths.iter().map(of) {
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
        addresses
    }

    /// A number for logs, unique among all associations of this process. It is not sent to the peer and stays valid
    /// after the end.
    pub fn id(&self) -> u64 {
        self.inner.number
    }

    /// Turns [`Notification::SenderDry`](crate::Notification::SenderDry) on or off; it is off by default. Returns
    /// whether all sent data is already acknowledged, in which case no notification follows; after the end this is
    /// true.
    pub fn tell_when_dry(&self, wanted: bool) -> bool {
        self.inner.engine(|association, _| association.tell_when_dry(wanted)).unwrap_or(true)
    }

    /// Makes this address of the peer the primary one, to which new data is sent.
    ///
    /// # Errors
    /// The peer does not have this address, or it is not confirmed.
    pub fn set_primary(&self, remote: IpAddr) -> Result<(), NoSuchPath> {
        let set = |association: &mut Engine, _: Instant| association.set_primary(remote);
        self.inner.engine(set).ok_or(NoSuchPath)?
    }

    /// Sends a HEARTBEAT to this address of the peer now.
    ///
    /// # Errors
    /// The peer does not have this address.
    pub fn request_heartbeat(&self, remote: IpAddr) -> Result<(), NoSuchPath> {
        let request =
            |association: &mut Engine, now: Instant| association.request_heartbeat(now, remote);
        self.inner.engine(request).ok_or(NoSuchPath)?
    }

    /// Resets streams (RFC 6525): the next message on each has the stream sequence number 0. No stream in the list
    /// means all. Byte streams go on as if nothing had happened, because they count bytes.
    ///
    /// Outgoing streams are reset when everything that was sent before is acknowledged or given up, and later messages
    /// wait. Incoming streams are reset by the peer, if it accepts that. For each direction
    /// [`Notification::StreamsReset`](crate::Notification::StreamsReset) reports the end.
    ///
    /// ```
    /// # async fn example(association: anabranch::Association) -> Result<(), Box<dyn std::error::Error>> {
    /// use anabranch::{Notification, StreamDirection};
    ///
    /// let mut events = association.events();
    /// association.reset_streams(StreamDirection::Outgoing, &[3])?;
    /// while let Some(event) = events.next().await {
    ///     if let Notification::StreamsReset { outgoing: true, result, .. } = event {
    ///         println!("the reset is {result}");
    ///         break;
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`ReconfigurationError`]; then nothing has happened.
    pub fn reset_streams(
        &self,
        direction: StreamDirection,
        streams: &[u16],
    ) -> Result<(), ReconfigurationError> {
        let reset = |association: &mut Engine, now: Instant| {
            association.reset_streams(now, direction, streams)
        };
        self.inner.engine(reset).unwrap_or(Err(ReconfigurationError::Closed))
    }

    /// Resets the TSNs and the sequence numbers of all streams, in both directions (RFC 6525).
    /// [`Notification::AssociationReset`](crate::Notification::AssociationReset) reports the end.
    ///
    /// # Errors
    /// [`ReconfigurationError`]; then nothing has happened.
    pub fn reset_association(&self) -> Result<(), ReconfigurationError> {
        let reset = |association: &mut Engine, now: Instant| association.reset_association(now);
        self.inner.engine(reset).unwrap_or(Err(ReconfigurationError::Closed))
    }

    /// Adds streams on which this side sends, and asks the peer to add some on which it sends (RFC 6525). For each
    /// direction [`Notification::StreamsAdded`](crate::Notification::StreamsAdded) reports the end.
    ///
    /// # Errors
    /// [`ReconfigurationError`]; then nothing has happened.
    pub fn add_streams(&self, outgoing: u16, incoming: u16) -> Result<(), ReconfigurationError> {
        let add = |association: &mut Engine, now: Instant| {
            association.add_streams(now, outgoing, incoming)
        };
        self.inner.engine(add).unwrap_or(Err(ReconfigurationError::Closed))
    }

    /// The chunks that this side accepts only if they are authenticated, and those that the peer does; none without
    /// authentication, and after the end.
    pub fn authenticated_chunks(&self) -> (ChunkTypes, ChunkTypes) {
        self.inner.engine(|association, _| association.authenticated_chunks()).unwrap_or_default()
    }

    /// Sets a stream's priority for the scheduler `Priority`: a number, where smaller ones go first
    /// and equal ones alternate, or a [`StreamPriority`].
    pub fn set_stream_priority(&self, stream: u16, priority: impl Into<StreamPriority>) {
        self.inner.engine(|association, _| association.set_stream_priority(stream, priority));
    }
}

fn check_usable(state: &AssociationState) -> Result<(), StreamError> {
    match state.life.error() {
        Some(error) => Err(StreamError::Association(error.clone())),
        None => Ok(()),
    }
}
