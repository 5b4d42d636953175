//! Streams with messages take turns, message by message (RFC 8260 section 3.2).

use std::collections::{BTreeMap, VecDeque};

use super::Queued;

/// The queue of messages that are sent before those of all streams, as if it were a separate
/// stream.
const AHEAD: u32 = 1 << 16;

/// A queue per stream, and the streams with messages in the order of their turns.
#[derive(Debug, Default)]
pub(crate) struct RoundRobin {
    streams: BTreeMap<u32, StreamQueue>,
    turns: VecDeque<u32>,
}

#[derive(Debug, Default)]
struct StreamQueue {
    messages: VecDeque<Queued>,
    /// Bytes of divisible messages.
    divisible: usize,
}

impl RoundRobin {
    pub(super) fn push(&mut self, message: Queued) {
        let key = if message.ahead { AHEAD } else { u32::from(message.stream) };
        let is_new = self.streams.get(&key).is_none_or(|queue| queue.messages.is_empty());
        if is_new && message.ahead {
            let begun = self.peek().is_some_and(|message| message.begun);
            self.turns.insert(usize::from(begun), key);
        } else if is_new {
            self.turns.push_back(key);
        }
        let queue = self.streams.entry(key).or_default();
        if message.divisible {
            queue.divisible += message.rest.len();
        }
        queue.messages.push_back(message);
    }

    pub(super) fn peek(&self) -> Option<&Queued> {
        self.streams.get(self.turns.front()?)?.messages.front()
    }

    pub(super) fn peek_mut(&mut self) -> Option<&mut Queued> {
        self.streams.get_mut(self.turns.front()?)?.messages.front_mut()
    }

    pub(super) fn pop(&mut self) -> Option<Queued> {
        let key = self.turns.pop_front()?;
        let queue = self.streams.get_mut(&key)?;
        let message = queue.messages.pop_front();
        if let Some(gone) = message.as_ref().filter(|message| message.divisible) {
            queue.divisible = queue.divisible.saturating_sub(gone.rest.len());
        }
        if queue.messages.is_empty() {
            self.streams.remove(&key);
        } else if key == AHEAD {
            self.turns.push_front(key);
        } else {
            self.turns.push_back(key);
        }
        message
    }

    pub(super) fn take_out(
        &mut self,
        which: &mut dyn FnMut(&Queued) -> bool,
        gone: &mut Vec<Queued>,
    ) {
        let streams = &mut self.streams;
        for queue in streams.values_mut() {
            let before = gone.len();
            super::take_out(&mut queue.messages, which, gone);
            let divisible = gone.iter().skip(before).filter(|message| message.divisible);
            let bytes = divisible.map(|message| message.rest.len()).sum();
            queue.divisible = queue.divisible.saturating_sub(bytes);
        }
        streams.retain(|_, queue| !queue.messages.is_empty());
        self.turns.retain(|key| streams.contains_key(key));
    }

    pub(super) fn has(&self, stream: u16) -> bool {
        self.streams.contains_key(&u32::from(stream))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    pub(super) fn queued_bytes(&self, stream: u16) -> usize {
        let of_stream = self.streams.get(&u32::from(stream));
        of_stream.map_or(0, |queue| queue.messages.iter().map(|m| m.rest.len()).sum())
    }

    pub(super) fn divisible_bytes(&self, stream: u16) -> usize {
        self.streams.get(&u32::from(stream)).map_or(0, |queue| queue.divisible)
    }

    #[inline]
    pub(super) fn has_others(&self) -> bool {
        self.turns.len() > 1
    }

    pub(super) fn on_cut(&mut self, length: usize) {
        if let Some(queue) = self.turns.front().and_then(|key| self.streams.get_mut(key)) {
            queue.divisible = queue.divisible.saturating_sub(length);
        }
    }

    pub(super) fn end_turn(&mut self) {
        if !self.turns.is_empty() {
            self.turns.rotate_left(1);
        }
    }

    pub(super) fn shrink(&mut self) {
        if self.turns.is_empty() {
            self.turns.shrink_to(4);
        }
    }
}
