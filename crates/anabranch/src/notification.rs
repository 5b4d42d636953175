//! Notifications: what happens to an association beside its data (RFC 9260 section 11.2).

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

/// Something that happened to an association, from [`Events`].
///
/// ```
/// use anabranch::Notification;
///
/// /// What a monitor is to hear of, if anything.
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
        /// What was agreed on with the peer beside RFC 9260.
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
    /// The peer lost its state and set the association up anew.
    Restarted {
        /// Streams this side may send on.
        outbound_streams: u16,
        /// Streams the peer may send on.
        inbound_streams: u16,
        /// What was agreed on with the new incarnation beside RFC 9260.
        features: Features,
    },
    /// All messages that were sent are acknowledged or given up, after
    /// [`Association::tell_when_dry`](crate::Association::tell_when_dry) asked for it.
    SenderDry,
    /// A message was given up.
    SendFailed {
        /// The message, with what was not acknowledged of its data.
        message: Box<OutgoingMessage>,
        /// Whether the peer may have got a part of it.
        sent: bool,
    },
    /// The peer reported an error that does not end the association.
    PeerError {
        /// The cause's code.
        code: u16,
        /// The whole cause as received.
        cause: Bytes,
    },
    /// The peer announced an adaptation layer (RFC 5061 section 4.2.6).
    AdaptationIndication(u32),
    /// The peer sends nothing more.
    PeerShutdown,
    /// The association ended. Nothing follows.
    Closed(CloseReason),
    /// So many notifications were lost because they were not taken in time.
    Missed(u64),
}

impl Notification {
    /// The notification that an engine's event is, if it is one.
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

/// Notifications kept for those who have not taken them yet; the oldest give way.
const KEPT: usize = 256;

/// The latest notifications of one association.
#[derive(Debug, Default)]
pub(crate) struct NotificationLog {
    kept: VecDeque<Notification>,
    /// Number of the first one kept.
    first: u64,
    /// Someone has asked for notifications.
    wanted: bool,
    closed: bool,
    waiting: WakerSet,
}

impl NotificationLog {
    /// Adds a notification and returns whom to wake.
    pub(crate) fn push(
        &mut self,
        notification: Notification,
    ) -> impl Iterator<Item = Waker> + use<'_> {
        // Messages given back to nobody would only hold memory.
        if self.wanted || !matches!(notification, Notification::SendFailed { .. }) {
            self.kept.push_back(notification);
            if self.kept.len() > KEPT {
                self.kept.pop_front();
                self.first += 1;
            }
        }
        self.waiting.drain()
    }

    /// Nothing follows.
    pub(crate) fn close(&mut self) -> impl Iterator<Item = Waker> + use<'_> {
        self.closed = true;
        self.waiting.drain()
    }

    fn next(&mut self, cursor: &mut u64) -> Option<Option<Notification>> {
        if *cursor < self.first {
            let missed = self.first - *cursor;
            *cursor = self.first;
            return Some(Some(Notification::Missed(missed)));
        }
        let index = usize::try_from(*cursor - self.first).ok()?;
        match self.kept.get(index) {
            Some(notification) => {
                *cursor += 1;
                Some(Some(notification.clone()))
            }
            None => self.closed.then_some(None),
        }
    }
}

/// The notifications of an association, from [`Association::events`](crate::Association::events).
///
/// A `Stream`. Keeps the association open as any handle does.
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
    cursor: u64,
    key: Option<Key>,
}

impl Events {
    pub(crate) fn new(association: Arc<AssociationRef>) -> Self {
        let cursor = association.with(|state| {
            state.notifications.wanted = true;
            state.notifications.first
        });
        Self { association, cursor, key: None }
    }

    /// Waits for the next notification; `None` after the last one. Cancel-safe.
    pub async fn next(&mut self) -> Option<Notification> {
        poll_fn(|cx| self.poll_notification(cx)).await
    }

    /// The next notification if there is one already.
    pub fn try_next(&mut self) -> Option<Notification> {
        self.association.with(|state| state.notifications.next(&mut self.cursor)).flatten()
    }

    fn poll_notification(&mut self, cx: &mut Context<'_>) -> Poll<Option<Notification>> {
        let (cursor, key) = (&mut self.cursor, &mut self.key);
        self.association.with(|state| match state.notifications.next(cursor) {
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
        if let Some(key) = self.key {
            self.association.with(|state| state.notifications.waiting.remove(key));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_reader_is_told_what_it_missed() {
        let mut log = NotificationLog::default();
        let mut cursor = 0;
        assert!(log.next(&mut cursor).is_none());
        for value in 0..300 {
            log.push(Notification::AdaptationIndication(value)).for_each(Waker::wake);
        }
        let next = |log: &mut NotificationLog, cursor: &mut u64| log.next(cursor).flatten();
        assert!(matches!(next(&mut log, &mut cursor), Some(Notification::Missed(44))));
        assert!(matches!(
            next(&mut log, &mut cursor),
            Some(Notification::AdaptationIndication(44))
        ));
        cursor = 300;
        assert!(log.next(&mut cursor).is_none());
        log.close().for_each(Waker::wake);
        assert!(matches!(log.next(&mut cursor), Some(None)));
    }
}
