//! Streams with messages take turns (RFC 8260 section 3.2): message by message, or chunk by chunk if messages are
//! interleaved. A variant changes turns with each packet only, so that the loss of a packet holds up one stream (RFC
//! 8260 section 3.3).

use std::collections::{BTreeMap, VecDeque};

use super::stream_queue::StreamQueue;
use super::{AHEAD, Queued, key};

/// A queue per stream, and the streams with messages in the order of their turns.
#[derive(Debug, Default)]
pub(crate) struct RoundRobin {
    streams: BTreeMap<u32, StreamQueue>,
    turns: VecDeque<u32>,
    /// Bytes of a message that the first of them has sent in its turn.
    sent: usize,
    /// A turn is a packet.
    per_packet: bool,
}

impl RoundRobin {
    /// A turn is a packet.
    pub(super) fn per_packet() -> Self {
        Self { per_packet: true, ..Self::default() }
    }

    pub(super) fn push(&mut self, message: Queued) {
        if message.ahead && self.has_begun(message.stream) {
            if let Some(queue) = self.streams.get_mut(&u32::from(message.stream)) {
                queue.push_next(message);
            }
            return;
        }
        let key = key(&message);
        let is_new = self.streams.get(&key).is_none_or(StreamQueue::is_empty);
        if is_new && message.ahead {
            let holds = self.peek().is_some_and(|message| message.holds_turn);
            self.turns.insert(usize::from(holds), key);
        } else if is_new {
            self.turns.push_back(key);
        }
        self.streams.entry(key).or_default().push(message);
    }

    /// Whether a message of the stream was sent in part and is interleaved with others.
    pub(super) fn has_begun(&self, stream: u16) -> bool {
        let begun = self.streams.get(&u32::from(stream)).and_then(StreamQueue::begun);
        begun.is_some_and(|message| !message.holds_turn)
    }

    pub(super) fn peek(&self) -> Option<&Queued> {
        self.streams.get(self.turns.front()?)?.first()
    }

    pub(super) fn peek_mut(&mut self) -> Option<&mut Queued> {
        self.streams.get_mut(self.turns.front()?)?.first_mut()
    }

    pub(super) fn pop(&mut self) -> Option<Queued> {
        let key = self.turns.pop_front()?;
        self.sent = 0;
        let queue = self.streams.get_mut(&key)?;
        let message = queue.pop();
        if queue.is_empty() {
            self.streams.remove(&key);
        } else if key == AHEAD || self.per_packet {
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
        streams.values_mut().for_each(|queue| queue.take_out(which, gone));
        streams.retain(|_, queue| !queue.is_empty());
        self.turns.retain(|key| streams.contains_key(key));
        // The first one may be gone.
        self.sent = 0;
    }

    pub(super) fn has(&self, stream: u16) -> bool {
        self.streams.contains_key(&u32::from(stream))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    pub(super) fn queued_bytes(&self, stream: u16) -> usize {
        self.streams.get(&u32::from(stream)).map_or(0, StreamQueue::bytes)
    }

    pub(super) fn divisible_bytes(&self, stream: u16) -> usize {
        self.streams.get(&u32::from(stream)).map_or(0, StreamQueue::divisible_bytes)
    }

    #[inline]
    pub(super) fn has_others(&self) -> bool {
        self.turns.len() > 1
    }

    pub(super) fn on_cut(&mut self, stream: u16, length: usize) {
        if let Some(queue) = self.streams.get_mut(&u32::from(stream)) {
            queue.on_cut(length);
        }
    }

    pub(super) fn begun_mut(&mut self, stream: u16) -> Option<&mut Queued> {
        let keys = [u32::from(stream), AHEAD];
        let key = keys.into_iter().find(|key| {
            let begun = self.streams.get(key).and_then(StreamQueue::begun);
            begun.is_some_and(|message| message.stream == stream)
        })?;
        self.streams.get_mut(&key)?.first_mut()
    }

    /// The next stream is served, unless a turn is a packet, or what comes before all streams is not finished, or the turn
    /// has too few bytes.
    pub(super) fn end_turn(&mut self, length: usize, least: usize) {
        self.sent += length;
        if !self.per_packet && self.turns.front() != Some(&AHEAD) && self.sent >= least {
            self.rotate();
        }
    }

    /// Ends the turn of the stream that a packet was filled with.
    pub(super) fn end_packet(&mut self, stream: u16) {
        let next = self.peek().filter(|message| message.stream == stream && !message.holds_turn);
        if self.per_packet && next.is_some() && self.turns.front() != Some(&AHEAD) {
            self.rotate();
        }
    }

    fn rotate(&mut self) {
        self.sent = 0;
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
