//! The queue of senders that wait for room in the send buffer.

use std::collections::VecDeque;
use std::task::Waker;

use crate::wakers::Key;

/// Senders that wait for room in the send buffer, in order of arrival.
///
/// When there is room, all are woken in that order, and those that fail again keep their place. A
/// woken sender does not block others, because it may never try again, for example if the writer of
/// a byte stream does something else now.
#[derive(Debug, Default)]
pub(crate) struct Senders {
    queue: VecDeque<Sender>,
    next_key: Key,
}

#[derive(Debug)]
struct Sender {
    key: Key,
    stream: u16,
    waker: Waker,
    /// It was woken and has not failed since.
    woken: bool,
    /// It failed although the association had room, because of its stream's own limit.
    held_back: bool,
    /// It was refused because others were before it in the queue. It must wait until those are
    /// woken.
    turned_away: bool,
}

impl Senders {
    /// Whether a sender may try; `key` is its place in the queue, if it has one.
    ///
    /// A sender must not overtake those that still wait, unless all of those are held back by the
    /// limit of another stream.
    pub(crate) fn may_try(&self, key: Option<Key>, stream: u16) -> bool {
        let mut ahead = self.queue.iter().take_while(|sender| Some(sender.key) != key);
        ahead.all(|sender| sender.woken || (sender.held_back && sender.stream != stream))
    }

    /// Queues a sender, or keeps its place. `has_room`: the association has room, so the stream's
    /// own limit holds the sender back.
    pub(crate) fn wait(
        &mut self,
        key: &mut Option<Key>,
        stream: u16,
        waker: &Waker,
        has_room: bool,
        turned_away: bool,
    ) {
        let known = key.and_then(|key| self.queue.iter_mut().find(|sender| sender.key == key));
        match known {
            Some(sender) => {
                sender.waker.clone_from(waker);
                sender.woken = false;
                sender.held_back = has_room;
                sender.turned_away = turned_away;
            }
            None => {
                let new = self.next_key;
                self.next_key += 1;
                *key = Some(new);
                let waker = waker.clone();
                let sender = Sender {
                    key: new,
                    stream,
                    waker,
                    woken: false,
                    held_back: has_room,
                    turned_away,
                };
                self.queue.push_back(sender);
            }
        }
    }

    /// Removes a waiting sender. Returns the wakers of senders that may have waited only for this
    /// one.
    #[must_use]
    pub(crate) fn remove(&mut self, key: Key) -> Vec<Waker> {
        let Some(at) = self.queue.iter().position(|sender| sender.key == key) else {
            return Vec::new();
        };
        self.queue.remove(at);
        let behind = self.queue.iter_mut().skip(at);
        let behind = behind.filter(|sender| sender.turned_away && !sender.woken).map(|sender| {
            sender.woken = true;
            sender.waker.clone()
        });
        behind.collect()
    }

    /// Marks the senders of one stream as woken and returns their wakers.
    pub(crate) fn wake_stream(&mut self, stream: u16) -> impl Iterator<Item = Waker> {
        let waiting = self.queue.iter_mut().filter(move |sender| sender.stream == stream);
        waiting.filter(|sender| !sender.woken).map(|sender| {
            sender.woken = true;
            sender.waker.clone()
        })
    }

    /// Marks all senders as woken, because there is room, and returns their wakers.
    pub(crate) fn wake_all(&mut self) -> impl Iterator<Item = Waker> {
        self.queue.iter_mut().filter(|sender| !sender.woken).map(|sender| {
            sender.woken = true;
            sender.waker.clone()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn senders_keep_their_order() {
        let mut senders = Senders::default();
        let waker = Waker::noop();
        let (mut first, mut second) = (None, None);
        assert!(senders.may_try(None, 0));
        senders.wait(&mut first, 0, waker, false, false);
        assert!(!senders.may_try(None, 1), "a newcomer waits behind the queue");
        senders.wait(&mut second, 1, waker, false, false);
        assert!(senders.may_try(first, 0));
        assert!(!senders.may_try(second, 1));
        assert_eq!(senders.wake_all().count(), 2);
        assert_eq!(senders.wake_all().count(), 0, "nobody is woken twice");
        assert!(senders.may_try(second, 1), "one that was woken bars nobody");
        senders.wait(&mut first, 0, waker, false, false);
        assert!(!senders.may_try(second, 1), "it does when it waits again");
        assert!(senders.remove(first.unwrap()).is_empty());
        assert!(senders.may_try(second, 1));
    }

    #[test]
    fn a_full_stream_holds_up_nobody_else() {
        let mut senders = Senders::default();
        let waker = Waker::noop();
        let mut full = None;
        senders.wait(&mut full, 0, waker, true, false);
        assert!(!senders.may_try(None, 0), "order within the stream is kept");
        assert!(senders.may_try(None, 1));
        let mut other = None;
        senders.wait(&mut other, 1, waker, true, false);
        assert_eq!(senders.wake_stream(0).count(), 1);
        assert_eq!(senders.wake_stream(0).count(), 0, "nobody is woken twice");
        assert_eq!(senders.wake_all().count(), 1);
    }
}
