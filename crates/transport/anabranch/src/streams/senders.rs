//! The queue of senders that wait for room in the send buffer.

use std::collections::VecDeque;
use std::task::Waker;

use anabranch_proto::{OutgoingMessage, Reliability};

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

/// What a sender wants to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wish {
    stream: u16,
    reliability: Reliability,
}

impl Wish {
    /// Something on a stream that is never given up.
    pub(crate) fn on(stream: u16) -> Self {
        Self { stream, reliability: Reliability::Full }
    }

    pub(crate) fn of(message: &OutgoingMessage) -> Self {
        let reliability = if message.divisible { Reliability::Full } else { message.reliability };
        Self { stream: message.stream, reliability }
    }

    /// The same, where the option `reliability` is `usual`.
    pub(crate) fn or(self, usual: Reliability) -> Self {
        match self.reliability {
            Reliability::Usual => Self { reliability: usual, ..self },
            _ => self,
        }
    }

    /// Its importance if it may displace less important messages and be displaced; smaller values are more important
    /// (RFC 7496 section 4.2).
    fn priority(self) -> Option<u32> {
        match self.reliability {
            Reliability::Priority(value) => Some(value),
            _ => None,
        }
    }

    /// Whether it may be sent before `other`, which has waited for longer. If the send buffer is `full`, `other` loses
    /// nothing, because there is only the room of less important messages that this one displaces.
    fn may_overtake(self, other: Self, full: bool) -> bool {
        let Some(own) = self.priority() else { return false };
        let is_less = other.priority().is_some_and(|value| value > own);
        is_less || (full && self.stream != other.stream)
    }
}

#[derive(Debug)]
struct Sender {
    key: Key,
    wish: Wish,
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
    pub(crate) fn may_try(&self, key: Option<Key>, wish: Wish) -> bool {
        let mut ahead = self.queue.iter().take_while(|sender| Some(sender.key) != key);
        ahead.all(|sender| sender.woken || (sender.held_back && sender.wish.stream != wish.stream))
    }

    /// Whether a sender may try out of turn, because its message is more important. `full`: the send buffer has no room.
    pub(crate) fn may_overtake(&self, key: Option<Key>, wish: Wish, full: bool) -> bool {
        let mut ahead = self.queue.iter().take_while(|sender| Some(sender.key) != key);
        ahead.all(|sender| sender.woken || wish.may_overtake(sender.wish, full))
    }

    /// Queues a sender, or keeps its place. `has_room`: the association has room, so the stream's
    /// own limit holds the sender back.
    pub(crate) fn wait(
        &mut self,
        key: &mut Option<Key>,
        wish: Wish,
        waker: &Waker,
        has_room: bool,
        turned_away: bool,
    ) {
        let known = key.and_then(|key| self.queue.iter_mut().find(|sender| sender.key == key));
        match known {
            Some(sender) => {
                sender.wish = wish;
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
                    wish,
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
        let waiting = self.queue.iter_mut().filter(move |sender| sender.wish.stream == stream);
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
    use anabranch_proto::Ppid;

    use super::*;

    #[test]
    fn senders_keep_their_order() {
        let mut senders = Senders::default();
        let waker = Waker::noop();
        let (mut first, mut second) = (None, None);
        assert!(senders.may_try(None, Wish::on(0)));
        senders.wait(&mut first, Wish::on(0), waker, false, false);
        assert!(!senders.may_try(None, Wish::on(1)), "a newcomer waits behind the queue");
        senders.wait(&mut second, Wish::on(1), waker, false, false);
        assert!(senders.may_try(first, Wish::on(0)));
        assert!(!senders.may_try(second, Wish::on(1)));
        assert_eq!(senders.wake_all().count(), 2);
        assert_eq!(senders.wake_all().count(), 0, "nobody is woken twice");
        assert!(senders.may_try(second, Wish::on(1)), "one that was woken bars nobody");
        senders.wait(&mut first, Wish::on(0), waker, false, false);
        assert!(!senders.may_try(second, Wish::on(1)), "it does when it waits again");
        assert!(senders.remove(first.unwrap()).is_empty());
        assert!(senders.may_try(second, Wish::on(1)));
    }

    #[test]
    fn a_full_stream_holds_up_nobody_else() {
        let mut senders = Senders::default();
        let waker = Waker::noop();
        let mut full = None;
        senders.wait(&mut full, Wish::on(0), waker, true, false);
        assert!(!senders.may_try(None, Wish::on(0)), "order within the stream is kept");
        assert!(senders.may_try(None, Wish::on(1)));
        let mut other = None;
        senders.wait(&mut other, Wish::on(1), waker, true, false);
        assert_eq!(senders.wake_stream(0).count(), 1);
        assert_eq!(senders.wake_stream(0).count(), 0, "nobody is woken twice");
        assert_eq!(senders.wake_all().count(), 1);
    }

    #[test]
    fn a_wish_knows_its_reliability() {
        let priority = Reliability::Priority(3);
        let message = OutgoingMessage::new(7, Ppid(0), "x");
        let of = |message: &OutgoingMessage| Wish::of(message).or(priority).priority();
        assert_eq!(of(&message), Some(3));
        assert_eq!(of(&message.clone().with_reliability(Reliability::Priority(4))), Some(4));
        assert_eq!(of(&message.clone().with_reliability(Reliability::Full)), None);
        assert_eq!(of(&message.with_divisible()), None);
    }

    #[test]
    fn the_more_important_one_need_not_wait_for_its_turn() {
        let wish = |stream, value| Wish { stream, reliability: Reliability::Priority(value) };
        let mut senders = Senders::default();
        let waker = Waker::noop();
        let (mut reliable, mut less) = (None, None);
        senders.wait(&mut reliable, Wish::on(0), waker, false, false);
        senders.wait(&mut less, wish(1, 5), waker, false, false);
        assert!(!senders.may_try(None, wish(1, 4)));
        assert!(senders.may_overtake(None, wish(1, 4), true));
        assert!(senders.may_overtake(None, wish(2, 9), true), "the others wait for room");
        assert!(!senders.may_overtake(None, wish(2, 4), false), "there is room for the first one");
        assert!(!senders.may_overtake(None, wish(1, 5), true), "an equal one on its stream");
        assert!(!senders.may_overtake(None, wish(0, 4), true), "a reliable one on its stream");
        assert!(!senders.may_overtake(None, Wish::on(2), true), "it displaces nothing");
        assert!(senders.may_overtake(less, wish(1, 5), true), "those behind do not count");
        let _ = senders.remove(reliable.unwrap());
        assert!(senders.may_overtake(None, wish(1, 4), false), "the other one is less important");
        assert_eq!(senders.wake_all().count(), 1);
        assert!(senders.may_overtake(None, Wish::on(2), false), "one that was woken bars nobody");
    }
}
