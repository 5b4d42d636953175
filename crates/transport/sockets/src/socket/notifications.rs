//! The notifications that wait on a socket until the program takes them.
//!
//! Peers cause notifications, and must not fill the memory of a program that does not read them. So their number
//! and their bytes are bounded, returned messages included. Notifications beyond the bounds are dropped.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::ops::Range;

use anabranch::OutgoingMessage;

use crate::assoc_id::AssocId;
use crate::notification::Notification;

/// Maximum number of waiting notifications.
const MOST: usize = 4096;

/// Notifications with at most this many bytes of data are bounded only by number. Otherwise returned
/// messages could prevent the report of their association's end.
const SMALL: usize = 256;

/// Bytes that a notification holds besides its data.
const OVERHEAD: usize = size_of::<Waiting>() + size_of::<OutgoingMessage>();

/// A notification that waits to be taken.
#[derive(Debug)]
pub(super) struct Waiting {
    notification: Notification,
    /// The peer's address; the socket may no longer know it when a call takes this.
    from: Option<SocketAddr>,
    /// Bytes of the caller's representation that were already taken.
    taken: usize,
}

impl Waiting {
    pub(super) fn new(notification: Notification, from: Option<SocketAddr>) -> Self {
        Self { notification, from, taken: 0 }
    }

    fn data(&self) -> usize {
        self.notification.event.data().len()
    }
}

/// A notification that a call took, or a part of one.
#[derive(Debug)]
pub(super) struct TakenNotification {
    pub(super) notification: Notification,
    /// The peer's address.
    pub(super) from: Option<SocketAddr>,
    /// The bytes of the caller's representation that this call takes.
    pub(super) part: Range<usize>,
    /// Whether they are the last ones.
    pub(super) end: bool,
}

/// The notifications of a socket, oldest first.
#[derive(Debug, Default)]
pub(super) struct Notifications {
    queue: VecDeque<Waiting>,
    /// Bytes that the notifications hold.
    held: usize,
}

impl Notifications {
    /// Adds a notification, unless its data is large and would exceed `most_bytes`. If no other waits, a
    /// notification of any size is accepted.
    pub(super) fn push(&mut self, waiting: Waiting, most_bytes: usize) {
        let held = self.held + waiting.data() + OVERHEAD;
        let fits = waiting.data() <= SMALL || held <= most_bytes || self.queue.is_empty();
        if fits && self.queue.len() < MOST {
            self.held = held;
            self.queue.push_back(waiting);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Bytes left of the oldest notification, whose representation for the caller has `length` bytes.
    pub(super) fn next_length(&self, length: impl Fn(&Notification) -> usize) -> Option<usize> {
        let waiting = self.queue.front()?;
        Some(length(&waiting.notification).saturating_sub(waiting.taken))
    }

    /// Takes up to `room` bytes of the oldest notification, whose representation for the caller has `length`
    /// bytes. If the caller only peeks, they stay.
    pub(super) fn take(
        &mut self,
        room: usize,
        peek: bool,
        length: impl Fn(&Notification) -> usize,
    ) -> Option<TakenNotification> {
        let waiting = self.queue.front_mut()?;
        let all = length(&waiting.notification);
        let part = waiting.taken..waiting.taken.saturating_add(room).min(all);
        let (from, end) = (waiting.from, part.end == all);
        if peek || !end {
            waiting.taken = if peek { waiting.taken } else { part.end };
            let notification = waiting.notification.clone();
            return Some(TakenNotification { notification, from, part, end });
        }
        let waiting = self.queue.pop_front()?;
        self.held -= waiting.data() + OVERHEAD;
        Some(TakenNotification { notification: waiting.notification, from, part, end })
    }

    /// Removes and returns the notifications of an association.
    pub(super) fn split_off(&mut self, id: AssocId) -> Self {
        let all = std::mem::take(&mut self.queue).into_iter();
        let (moved, kept) = all.partition(|waiting| waiting.notification.id == id);
        *self = Self::of(kept);
        Self::of(moved)
    }

    fn of(queue: VecDeque<Waiting>) -> Self {
        let held = queue.iter().map(|waiting| waiting.data() + OVERHEAD).sum();
        Self { queue, held }
    }
}

#[cfg(test)]
mod tests {
    use anabranch::Ppid;

    use super::*;
    use crate::notification::{Event, FailedMessage};

    /// A returned message of this many bytes.
    fn failed(id: i32, length: usize) -> Waiting {
        let message = Box::new(OutgoingMessage::new(0, Ppid(0), vec![7; length]));
        let event = Event::SendFailedEvent(FailedMessage { message, sent: false });
        Waiting::new(Notification { id: AssocId(id), event }, None)
    }

    fn length(notification: &Notification) -> usize {
        notification.event.data().len()
    }

    #[test]
    fn their_number_is_bounded() {
        let mut waiting = Notifications::default();
        (0..2 * MOST).for_each(|_| waiting.push(failed(1, 8), usize::MAX));
        assert_eq!(waiting.queue.len(), MOST);
    }

    #[test]
    fn their_bytes_are_bounded() {
        const LIMIT: usize = 120_000;
        let mut waiting = Notifications::default();
        (0..1000).for_each(|_| waiting.push(failed(1, 1000), LIMIT));
        let before = waiting.queue.len();
        assert!((80..110).contains(&before), "{before}");
        assert!(waiting.held <= LIMIT);
        let mut others = Notifications::default();
        (0..1000).for_each(|_| others.push(failed(1, 1000), LIMIT));
        others.push(failed(1, 20), LIMIT);
        assert_eq!(others.queue.len(), before + 1, "a small one still comes");
        // Taking a notification makes room; peeking, or taking a part, does not.
        assert!(waiting.take(1000, true, length).is_some_and(|taken| taken.end));
        assert!(waiting.take(600, false, length).is_some_and(|taken| !taken.end));
        waiting.push(failed(2, 1000), LIMIT);
        assert_eq!(waiting.queue.len(), before);
        assert_eq!(waiting.next_length(length), Some(400));
        let rest = waiting.take(600, false, length).unwrap();
        assert_eq!((rest.part, rest.end), (600..1000, true));
        waiting.push(failed(2, 1000), LIMIT);
        assert_eq!(waiting.queue.len(), before);
        assert_eq!(waiting.split_off(AssocId(2)).queue.len(), 1);
        while waiting.take(usize::MAX, false, length).is_some() {}
        assert_eq!(waiting.held, 0);
    }

    #[test]
    fn a_large_one_comes_alone() {
        let mut waiting = Notifications::default();
        (0..2).for_each(|_| waiting.push(failed(1, 1 << 20), 1000));
        assert_eq!(waiting.queue.len(), 1);
    }
}
