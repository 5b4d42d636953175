//! The notifications of an association, kept until all readers have taken them.

use std::collections::VecDeque;
use std::task::Waker;

use anabranch_proto::Notification;

use crate::wakers::{Key, WakerSet};

/// The memory that a notification needs, if it may be omitted when memory is short. Returned messages do not count,
/// because their memory still counts in the send buffer.
pub(crate) fn needed_memory(notification: &Notification) -> Option<usize> {
    match notification {
        Notification::PeerError { cause, .. } => Some(cause.len()),
        _ => None,
    }
}

/// Maximum number of notifications kept for readers, besides returned messages; beyond that the oldest are dropped.
const MOST: usize = 256;

/// The maximum while there are no readers.
const MOST_UNASKED: usize = 16;

/// How much payload may be kept for readers. All messages in the send buffer may be given up at once, and a returned
/// message has more than its data.
pub(crate) fn most_payload(send_buffer: usize) -> usize {
    send_buffer.saturating_mul(2).max(256 << 10)
}

fn is_returned(notification: &Notification) -> bool {
    matches!(notification, Notification::SendFailed { .. })
}

/// The notifications of one association that not all readers have taken yet.
///
/// Without readers, only the latest few are kept, and none with a payload. With readers, number and size are limited;
/// the owner charges the memory to the association.
#[derive(Debug, Default)]
pub(crate) struct NotificationLog {
    kept: VecDeque<Notification>,
    /// Number of the first notification kept.
    first: u64,
    /// Payload bytes of all notifications kept.
    payload: usize,
    /// Number of returned messages kept. The user has sent them, so payload alone bounds them.
    returned: usize,
    /// The number of each reader's next notification.
    readers: Vec<(Key, u64)>,
    next_reader: Key,
    closed: bool,
    waiting: WakerSet,
}

impl NotificationLog {
    /// Adds a notification and returns the tasks to wake. At most `most_payload` bytes of payload are
    /// kept; only the latest notification may exceed that.
    pub(crate) fn push(
        &mut self,
        notification: Notification,
        most_payload: usize,
    ) -> impl Iterator<Item = Waker> + use<'_> {
        let payload = notification.payload();
        // Without a reader, returned messages would only hold memory.
        if !self.readers.is_empty() || payload == 0 {
            self.payload += payload;
            self.returned += usize::from(is_returned(&notification));
            self.kept.push_back(notification);
            let most = if self.readers.is_empty() { MOST_UNASKED } else { MOST };
            while self.others() > most || self.payload > most_payload && self.kept.len() > 1 {
                self.drop_first();
            }
        }
        self.waiting.drain()
    }

    /// Omits a notification; readers will notice that they missed one.
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
            while self.others() > MOST {
                self.drop_first();
            }
        }
    }

    /// Number of notifications kept that are no returned messages.
    fn others(&self) -> usize {
        self.kept.len() - self.returned
    }

    /// Bytes kept for readers.
    pub(crate) fn held(&self) -> usize {
        self.payload + self.kept.len().saturating_sub(MOST_UNASKED) * size_of::<Notification>()
    }

    /// Ends the log. Returns the tasks to wake.
    pub(crate) fn close(&mut self) -> impl Iterator<Item = Waker> + use<'_> {
        self.closed = true;
        self.waiting.drain()
    }

    /// Adds a reader, which starts with the notifications kept.
    pub(crate) fn subscribe(&mut self) -> Key {
        let reader = self.next_reader;
        self.next_reader += 1;
        self.readers.push((reader, self.first));
        reader
    }

    /// Removes a reader.
    pub(crate) fn unsubscribe(&mut self, reader: Key) {
        self.readers.retain(|(known, _)| *known != reader);
        self.drop_taken();
        if self.readers.is_empty() {
            // Keep only those that would have been kept without readers.
            self.kept.retain(|notification| notification.payload() == 0);
            (self.payload, self.returned) = (0, 0);
            self.kept.drain(..self.kept.len().saturating_sub(MOST_UNASKED));
            self.kept.shrink_to_fit();
        }
    }

    /// The next notification for a reader: `Some(None)` after the last one, `None` if it must wait.
    pub(crate) fn next(&mut self, reader: Key) -> Option<Option<Notification>> {
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

    /// Tasks that wait for a notification.
    pub(crate) fn waiting(&mut self) -> &mut WakerSet {
        &mut self.waiting
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
            self.returned -= usize::from(is_returned(&notification));
            self.first += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use anabranch_proto::{OutgoingMessage, Ppid};

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
    fn bytes_alone_bound_returned_messages() {
        let returned = |length| {
            let message = Box::new(OutgoingMessage::new(0, Ppid(0), vec![0; length]));
            Notification::SendFailed { message, sent: false }
        };
        let mut log = NotificationLog::default();
        let reader = log.subscribe();
        (0..1000).for_each(|_| push(&mut log, returned(100)));
        (0..MOST as u32)
            .for_each(|value| push(&mut log, Notification::AdaptationIndication(value)));
        let all = std::iter::from_fn(|| next(&mut log, reader)).count();
        assert_eq!(all, 1000 + MOST, "nothing is missed");
        assert_eq!((log.held(), log.returned, log.kept.len()), (0, 0, 0));
        (0..1000).for_each(|_| push(&mut log, returned(10_000)));
        assert!((90..=104).contains(&log.returned), "{}", log.returned);
        log.unsubscribe(reader);
        assert_eq!((log.held(), log.others()), (0, 0));
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
