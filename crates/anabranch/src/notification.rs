//! Notifications: events of an association besides its data (RFC 9260 section 11.2).

use std::collections::VecDeque;
use std::future::poll_fn;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use anabranch_proto::{CloseReason, Event, Features, OutgoingMessage, PathId, PathState};
use bytes::Bytes;

use crate::handle::AssociationRef;
use crate::wakers::{Key, WakerSet};

/// An event of an association, from [`Events`].
///
/// ```
/// use anabranch::Notification;
///
/// /// The alarm to raise for an event, if any.
/// fn alarm(event: &Notification) -> Option<String> {
///     match event {
///         Notification::FailedOver { remote, .. } => Some(format!("data goes to {remote} now")),
///         Notification::Closed(reason) => Some(format!("the association is over: {reason}")),
///         _ => None,
///     }
/// }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Notification {
    /// The association is up: COMMUNICATION UP of RFC 9260 section 11.2. The first of all, of an
    /// association that was connected to or accepted.
    Up {
        /// The peer took the first step.
        incoming: bool,
        /// Streams this side may send on.
        outbound_streams: u16,
        /// Streams the peer may send on.
        inbound_streams: u16,
        /// Extensions to RFC 9260 that the peer agreed on.
        features: Features,
    },
    /// A path changed its state.
    PathChanged {
        /// The path.
        path: PathId,
        /// Its local address.
        local: IpAddr,
        /// Its remote address.
        remote: IpAddr,
        /// Its new state.
        state: PathState,
    },
    /// New data goes to another address from now on.
    ActivePathChanged {
        /// The path.
        path: PathId,
        /// Its remote address.
        remote: IpAddr,
    },
    /// The path in use failed, or its failover became permanent.
    FailedOver {
        /// The path that new data leaves.
        from: PathId,
        /// The path that has it from now on.
        to: PathId,
        /// Its remote address.
        remote: IpAddr,
        /// It is the primary path from now on; otherwise data returns when the primary answers.
        permanent: bool,
    },
    /// No path is active any more.
    Dormant,
    /// A path that had failed answers, and data returns to it.
    Recovered {
        /// The path.
        path: PathId,
        /// Its remote address.
        remote: IpAddr,
    },
    /// The peer lost its state and set the association up again.
    Restarted {
        /// Streams this side may send on.
        outbound_streams: u16,
        /// Streams the peer may send on.
        inbound_streams: u16,
        /// Extensions to RFC 9260 that the new incarnation agreed on.
        features: Features,
    },
    /// All sent messages are acknowledged or abandoned, after
    /// [`Association::tell_when_dry`](crate::Association::tell_when_dry) asked for it.
    SenderDry,
    /// A message was abandoned.
    SendFailed {
        /// The message, with the part of its data that was not acknowledged.
        message: Box<OutgoingMessage>,
        /// Whether the peer may have received part of it.
        sent: bool,
    },
    /// The peer reported an error that does not end the association.
    PeerError {
        /// The cause's code.
        code: u16,
        /// The cause as received, up to 2,048 bytes of it.
        cause: Bytes,
    },
    /// The peer announced an adaptation layer (RFC 5061 section 4.2.6).
    AdaptationIndication(u32),
    /// The peer sends nothing more.
    PeerShutdown,
    /// The association ended. Nothing follows.
    Closed(CloseReason),
    /// This many notifications were dropped because they were not read in time.
    Missed(u64),
}

impl Notification {
    /// Bytes that it brings with it.
    fn payload(&self) -> usize {
        match self {
            Self::SendFailed { message, .. } => size_of_val(&**message) + message.data.len(),
            Self::PeerError { cause, .. } => cause.len().max(1),
            _ => 0,
        }
    }

    /// Memory that it needs, if it may be left out when there is none: a message that comes back
    /// takes the memory that it had in the send buffer.
    pub(crate) fn needs_memory(&self) -> Option<usize> {
        match self {
            Self::PeerError { cause, .. } => Some(cause.len()),
            _ => None,
        }
    }

    /// The notification for an engine's event, if there is one.
    pub(crate) fn of(event: Event) -> Option<Self> {
        Some(match event {
            Event::Connected { incoming, outbound_streams, inbound_streams, features } => {
                Self::Up { incoming, outbound_streams, inbound_streams, features }
            }
            Event::PathChanged { path, local, remote, state } => {
                Self::PathChanged { path, local, remote, state }
            }
            Event::ActivePathChanged { path, remote } => Self::ActivePathChanged { path, remote },
            Event::FailedOver { from, to, remote, permanent } => {
                Self::FailedOver { from, to, remote, permanent }
            }
            Event::Dormant => Self::Dormant,
            Event::Recovered { path, remote } => Self::Recovered { path, remote },
            Event::Restarted { outbound_streams, inbound_streams, features } => {
                Self::Restarted { outbound_streams, inbound_streams, features }
            }
            Event::SenderDry => Self::SenderDry,
            Event::SendFailed { message, sent } => Self::SendFailed { message, sent },
            Event::PeerError { code, cause } => Self::PeerError { code, cause },
            Event::AdaptationIndication(value) => Self::AdaptationIndication(value),
            Event::PeerShutdown => Self::PeerShutdown,
            Event::Closed(reason) => Self::Closed(reason),
            _ => return None,
        })
    }
}

/// Notifications that wait for a reader at the most; the oldest are dropped.
const MOST: usize = 256;

/// The same while no user has asked for any.
const MOST_UNASKED: usize = 16;

/// The notifications of one association that not all readers have taken.
///
/// Without readers only the latest few are kept, and none with a payload. The rest is bounded by
/// number and by size, and charged to the association by its owner.
#[derive(Debug, Default)]
pub(crate) struct NotificationLog {
    kept: VecDeque<Notification>,
    /// Number of the first one kept.
    first: u64,
    /// Payload bytes of the kept ones.
    payload: usize,
    /// The number of each reader's next notification.
    readers: Vec<(Key, u64)>,
    next_reader: Key,
    closed: bool,
    waiting: WakerSet,
}

impl NotificationLog {
    /// Adds a notification and returns whom to wake. At most `most_payload` bytes of payload are
    /// kept; the latest notification may bring more.
    pub(crate) fn push(
        &mut self,
        notification: Notification,
        most_payload: usize,
    ) -> impl Iterator<Item = Waker> + use<'_> {
        let payload = notification.payload();
        // Messages given back without a reader would only hold memory.
        if !self.readers.is_empty() || payload == 0 {
            self.payload += payload;
            self.kept.push_back(notification);
            let most = if self.readers.is_empty() { MOST_UNASKED } else { MOST };
            while self.kept.len() > most || self.payload > most_payload && self.kept.len() > 1 {
                self.drop_first();
            }
        }
        self.waiting.drain()
    }

    /// Leaves a notification out; readers will notice that they missed one.
    pub(crate) fn leave_out(&mut self) {
        if !self.readers.is_empty() {
            let missed = match self.kept.pop_back() {
                Some(Notification::Missed(missed)) => missed + 1,
                Some(other) => {
                    self.kept.push_back(other);
                    1
                }
                None => 1,
            };
            self.kept.push_back(Notification::Missed(missed));
            if self.kept.len() > MOST {
                self.drop_first();
            }
        }
    }

    /// Bytes that are stored for readers.
    pub(crate) fn held(&self) -> usize {
        self.payload + self.kept.len().saturating_sub(MOST_UNASKED) * size_of::<Notification>()
    }

    /// Nothing follows.
    pub(crate) fn close(&mut self) -> impl Iterator<Item = Waker> + use<'_> {
        self.closed = true;
        self.waiting.drain()
    }

    fn subscribe(&mut self) -> Key {
        let reader = self.next_reader;
        self.next_reader += 1;
        self.readers.push((reader, self.first));
        reader
    }

    fn unsubscribe(&mut self, reader: Key) {
        self.readers.retain(|(known, _)| *known != reader);
        self.drop_taken();
        if self.readers.is_empty() {
            // Only those that would have been kept without readers.
            self.kept.retain(|notification| notification.payload() == 0);
            self.payload = 0;
            self.kept.drain(..self.kept.len().saturating_sub(MOST_UNASKED));
            self.kept.shrink_to_fit();
        }
    }

    fn next(&mut self, reader: Key) -> Option<Option<Notification>> {
        let first = self.first;
        let (_, position) = self.readers.iter_mut().find(|(known, _)| *known == reader)?;
        if *position < first {
            let missed = first - *position;
            *position = first;
            return Some(Some(Notification::Missed(missed)));
        }
        let index = usize::try_from(*position - first).ok()?;
        match self.kept.get(index) {
            Some(notification) => {
                let notification = notification.clone();
                *position += 1;
                self.drop_taken();
                Some(Some(notification))
            }
            None => self.closed.then_some(None),
        }
    }

    /// Drops the notifications that all readers have read.
    fn drop_taken(&mut self) {
        let Some(taken) = self.readers.iter().map(|(_, position)| *position).min() else { return };
        while self.first < taken && !self.kept.is_empty() {
            self.drop_first();
        }
        if self.kept.is_empty() {
            self.kept.shrink_to(1);
        }
    }

    fn drop_first(&mut self) {
        if let Some(notification) = self.kept.pop_front() {
            self.payload -= notification.payload();
            self.first += 1;
        }
    }
}

/// The notifications of an association, from [`Association::events`](crate::Association::events).
///
/// A `Stream`. Keeps the association open as any handle does.
///
/// A notification is kept until every `Events` of the association has read it. If one falls behind by
/// more than 256 of them, by more bytes of payload than the option `send_buffer`, or while the
/// endpoint's `memory_limit` is used up, it gets [`Notification::Missed`] in place of the oldest. Kept
/// notifications count in `memory_limit`. Without any `Events` the latest 16 are kept, and no messages
/// or causes.
///
/// ```
/// # async fn example(association: anabranch::Association) {
/// use anabranch::Notification;
///
/// let mut events = association.events();
/// while let Some(event) = events.next().await {
///     match event {
///         Notification::PathChanged { path, remote, state, .. } => {
///             println!("path {} to {remote} is {state}", path);
///         }
///         Notification::SendFailed { message, .. } => {
///             println!("message {} did not arrive", message.context);
///         }
///         Notification::Closed(reason) => println!("{reason}"),
///         _ => {}
///     }
/// }
/// # }
/// ```
#[derive(Debug)]
pub struct Events {
    association: Arc<AssociationRef>,
    reader: Key,
    key: Option<Key>,
}

impl Events {
    pub(crate) fn new(association: Arc<AssociationRef>) -> Self {
        let reader = association.with(|state| state.notifications.subscribe());
        Self { association, reader, key: None }
    }

    /// Waits for the next notification; `None` after the last one. Cancel-safe.
    pub async fn next(&mut self) -> Option<Notification> {
        poll_fn(|cx| self.poll_notification(cx)).await
    }

    /// The next notification if there is one already.
    pub fn try_next(&mut self) -> Option<Notification> {
        self.association.with(|state| state.notifications.next(self.reader)).flatten()
    }

    fn poll_notification(&mut self, cx: &mut Context<'_>) -> Poll<Option<Notification>> {
        let (reader, key) = (self.reader, &mut self.key);
        self.association.with(|state| match state.notifications.next(reader) {
            Some(next) => Poll::Ready(next),
            None => {
                state.notifications.waiting.register(key, cx.waker());
                Poll::Pending
            }
        })
    }
}

impl futures_core::Stream for Events {
    type Item = Notification;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Notification>> {
        self.get_mut().poll_notification(cx)
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        self.association.with(|state| {
            if let Some(key) = self.key {
                state.notifications.waiting.remove(key);
            }
            state.notifications.unsubscribe(self.reader);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST_PAYLOAD: usize = 1 << 20;

    fn push(log: &mut NotificationLog, notification: Notification) {
        log.push(notification, MOST_PAYLOAD).for_each(Waker::wake);
    }

    fn next(log: &mut NotificationLog, reader: Key) -> Option<Notification> {
        log.next(reader).flatten()
    }

    fn cause(bytes: usize) -> Notification {
        Notification::PeerError { code: 77, cause: vec![0; bytes].into() }
    }

    #[test]
    fn a_slow_reader_learns_what_it_missed() {
        let mut log = NotificationLog::default();
        let reader = log.subscribe();
        assert!(log.next(reader).is_none());
        for value in 0..300 {
            push(&mut log, Notification::AdaptationIndication(value));
        }
        assert!(matches!(next(&mut log, reader), Some(Notification::Missed(44))));
        let after = next(&mut log, reader);
        assert!(matches!(after, Some(Notification::AdaptationIndication(44))));
        while next(&mut log, reader).is_some() {}
        assert!(log.next(reader).is_none());
        log.close().for_each(Waker::wake);
        assert!(matches!(log.next(reader), Some(None)));
    }

    #[test]
    fn what_is_read_is_not_kept() {
        let mut log = NotificationLog::default();
        let (fast, slow) = (log.subscribe(), log.subscribe());
        for _ in 0..100 {
            push(&mut log, cause(2000));
            assert!(next(&mut log, fast).is_some());
        }
        assert!(log.held() >= 200_000, "one has not read them");
        while next(&mut log, slow).is_some() {}
        assert_eq!((log.held(), log.kept.len()), (0, 0));
        push(&mut log, cause(2000));
        log.unsubscribe(slow);
        assert!(next(&mut log, fast).is_some());
        assert_eq!(log.kept.len(), 0, "the one that waited has gone");
    }

    #[test]
    fn without_readers_a_few_small_ones_are_kept() {
        let mut log = NotificationLog::default();
        push(&mut log, cause(60_000));
        (0..1000).for_each(|value| push(&mut log, Notification::AdaptationIndication(value)));
        assert_eq!((log.held(), log.kept.len()), (0, MOST_UNASKED));
        let reader = log.subscribe();
        let first = next(&mut log, reader);
        assert!(matches!(first, Some(Notification::AdaptationIndication(984))), "{first:?}");
        push(&mut log, cause(2000));
        log.unsubscribe(reader);
        assert_eq!((log.held(), log.kept.len()), (0, MOST_UNASKED - 1));
    }

    #[test]
    fn payload_is_bounded_and_what_is_left_out_is_missed() {
        let mut log = NotificationLog::default();
        let reader = log.subscribe();
        (0..100).for_each(|_| log.push(cause(2000), 20_000).for_each(Waker::wake));
        assert!(log.held() <= 20_000, "{}", log.held());
        assert!(matches!(next(&mut log, reader), Some(Notification::Missed(90))));
        log.leave_out();
        log.leave_out();
        let rest: Vec<_> = std::iter::from_fn(|| next(&mut log, reader)).collect();
        assert_eq!(rest.len(), 11);
        assert!(matches!(rest.last(), Some(Notification::Missed(2))), "{:?}", rest.last());
        assert_eq!(log.held(), 0);
    }
}
