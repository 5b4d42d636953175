//! Streams with messages take turns, message by message (RFC 8260 section 3.2).

use std::collections::{BTreeMap, VecDeque};

use super::Queued;

/// A queue a stream, and the streams with messages in the order of their turns.
#[derive(Debug, Default)]
pub(crate) struct RoundRobin {
    streams: BTreeMap<u16, VecDeque<Queued>>,
    turns: VecDeque<u16>,
}

impl RoundRobin {
    pub(super) fn push(&mut self, message: Queued) {
        let stream = message.stream;
        let queue = self.streams.entry(stream).or_default();
        if queue.is_empty() {
            self.turns.push_back(stream);
        }
        queue.push_back(message);
    }

    pub(super) fn peek(&self) -> Option<&Queued> {
        self.streams.get(self.turns.front()?)?.front()
    }

    pub(super) fn peek_mut(&mut self) -> Option<&mut Queued> {
        self.streams.get_mut(self.turns.front()?)?.front_mut()
    }

    pub(super) fn pop(&mut self) -> Option<Queued> {
        let stream = self.turns.pop_front()?;
        let queue = self.streams.get_mut(&stream)?;
        let message = queue.pop_front();
        if queue.is_empty() {
            self.streams.remove(&stream);
        } else {
            self.turns.push_back(stream);
        }
        message
    }

    pub(super) fn take_out(
        &mut self,
        which: &mut dyn FnMut(&Queued) -> bool,
        gone: &mut Vec<Queued>,
    ) {
        let streams = &mut self.streams;
        streams.values_mut().for_each(|queue| super::take_out(queue, which, gone));
        streams.retain(|_, queue| !queue.is_empty());
        self.turns.retain(|stream| streams.contains_key(stream));
    }

    pub(super) fn has(&self, stream: u16) -> bool {
        self.streams.contains_key(&stream)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    pub(super) fn queued_bytes(&self, stream: u16) -> usize {
        self.streams.get(&stream).map_or(0, |queue| queue.iter().map(|m| m.rest.len()).sum())
    }

    pub(super) fn shrink(&mut self) {
        if self.turns.is_empty() {
            self.turns.shrink_to(4);
        }
    }
}
