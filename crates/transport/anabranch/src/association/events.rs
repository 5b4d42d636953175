//! Reading the notifications of an association.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use anabranch_proto::Notification;

use super::handle::AssociationRef;
use crate::wakers::Key;

/// The notifications of an association, from [`Association::events`](crate::Association::events).
///
/// A `Stream`. Keeps the association open as any handle does.
///
/// A notification is kept until every `Events` of the association has read it. A reader that falls behind loses the
/// oldest ones and gets [`Notification::Missed`] instead: beyond 256 notifications that are no returned messages, and
/// beyond twice as many bytes of payload as the send buffer holds, or 256 KiB if that is more. A returned message counts
/// with its data and the size of an `OutgoingMessage`; so a late reader gets all that an association returns at its end,
/// unless most of a full send buffer are messages shorter than that. A slow reader also loses some while the endpoint's
/// `memory_limit` is used up. Kept notifications count in `memory_limit`. Without any `Events`, only the latest 16 are
/// kept, and none that carry messages or causes.
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

    /// Returns the next notification if one is already there.
    pub fn try_next(&mut self) -> Option<Notification> {
        self.association.with(|state| state.notifications.next(self.reader)).flatten()
    }

    fn poll_notification(&mut self, cx: &mut Context<'_>) -> Poll<Option<Notification>> {
        let (reader, key) = (self.reader, &mut self.key);
        self.association.with(|state| match state.notifications.next(reader) {
            Some(next) => Poll::Ready(next),
            None => {
                state.notifications.waiting().register(key, cx.waker());
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
                state.notifications.waiting().remove(key);
            }
            state.notifications.unsubscribe(self.reader);
        });
    }
}
