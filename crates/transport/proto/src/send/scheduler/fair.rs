//! Streams share the capacity in bytes, equally or by their weights (RFC 8260 sections 3.5 and 3.6).
//!
//! This is start-time fair queueing. Each stream has a virtual time, which advances by the bytes that it sends, divided
//! by its weight. The stream whose time is the earliest sends next. A stream that had nothing to send begins at the time
//! of the one in service, so that it does not make up for its silence.

use std::collections::{BTreeMap, BTreeSet};

use super::stream_queue::StreamQueue;
use super::{AHEAD, Queued, key};

/// Virtual time for a byte at weight 1.
const UNIT: u64 = 1 << 16;

/// A queue per stream, and the streams with messages in the order of their virtual times.
#[derive(Debug, Default)]
pub(crate) struct Fair {
    streams: BTreeMap<u32, Served>,
    /// Time and key of the streams with messages.
    order: BTreeSet<(u64, u32)>,
    /// The times of streams without messages that are ahead of `now`, and the same in the order of the times.
    idle: BTreeMap<u32, u64>,
    idle_order: BTreeSet<(u64, u32)>,
    /// The time of the stream in service.
    now: u64,
    /// The stream that has sent and whose turn has not ended.
    holds: Option<u32>,
    /// Streams have weights.
    weighted: bool,
}

#[derive(Debug)]
struct Served {
    queue: StreamQueue,
    time: u64,
    weight: u16,
}

impl Fair {
    /// Streams have weights.
    // req: rfc8260 3 "MUST implement the Weighted Fair Queueing Scheduler"
    pub(super) fn weighted() -> Self {
        Self { weighted: true, ..Self::default() }
    }

    /// `weight`: share of its stream, 0 counts as 1.
    pub(super) fn push(&mut self, message: Queued, weight: u16) {
        let own = u32::from(message.stream);
        let begun = self.streams.get(&own).and_then(|served| served.queue.begun());
        if message.ahead && begun.is_some_and(|message| !message.holds_turn) {
            if let Some(served) = self.streams.get_mut(&own) {
                served.queue.push_next(message);
            }
            return;
        }
        let key = key(&message);
        let weight = if self.weighted { weight.max(1) } else { 1 };
        if message.holds_turn {
            self.holds = Some(key);
        }
        if let Some(served) = self.streams.get_mut(&key) {
            served.weight = weight;
            served.queue.push(message);
            return;
        }
        // What comes before all streams has no time.
        let time = match key {
            AHEAD => 0,
            _ => self.wake(key).max(self.now),
        };
        let mut queue = StreamQueue::default();
        queue.push(message);
        self.streams.insert(key, Served { queue, time, weight });
        self.order.insert((time, key));
    }

    /// The time of a stream that had no messages.
    fn wake(&mut self, key: u32) -> u64 {
        let time = self.idle.remove(&key).unwrap_or(0);
        self.idle_order.remove(&(time, key));
        time
    }

    fn next(&self) -> Option<u32> {
        if let Some(held) = self.holds {
            return Some(held);
        }
        if self.streams.contains_key(&AHEAD) {
            return Some(AHEAD);
        }
        self.order.first().map(|(_, key)| *key)
    }

    pub(super) fn peek(&self) -> Option<&Queued> {
        self.streams.get(&self.next()?)?.queue.first()
    }

    pub(super) fn peek_mut(&mut self) -> Option<&mut Queued> {
        let key = self.next()?;
        self.streams.get_mut(&key)?.queue.first_mut()
    }

    pub(super) fn pop(&mut self) -> Option<Queued> {
        let key = self.next()?;
        self.holds = None;
        let message = self.streams.get_mut(&key)?.queue.pop();
        self.settle(key);
        message
    }

    /// Removes a stream without messages.
    fn settle(&mut self, key: u32) {
        let Some(served) = self.streams.get(&key).filter(|served| served.queue.is_empty()) else {
            return;
        };
        self.order.remove(&(served.time, key));
        if key != AHEAD && served.time > self.now {
            self.idle.insert(key, served.time);
            self.idle_order.insert((served.time, key));
        }
        self.streams.remove(&key);
        if self.streams.is_empty() {
            // Nobody is behind anybody.
            self.now = 0;
            (self.idle, self.idle_order) = (BTreeMap::new(), BTreeSet::new());
        }
    }

    pub(super) fn take_out(
        &mut self,
        which: &mut dyn FnMut(&Queued) -> bool,
        gone: &mut Vec<Queued>,
    ) {
        self.streams.values_mut().for_each(|served| served.queue.take_out(which, gone));
        let empty: Vec<u32> = (self.streams.iter())
            .filter(|(_, served)| served.queue.is_empty())
            .map(|(key, _)| *key)
            .collect();
        for key in empty {
            self.settle(key);
        }
        self.holds = self.holds.filter(|key| self.streams.contains_key(key));
    }

    pub(super) fn queued_bytes(&self, stream: u16) -> usize {
        self.streams.get(&u32::from(stream)).map_or(0, |served| served.queue.bytes())
    }

    pub(super) fn divisible_bytes(&self, stream: u16) -> usize {
        self.streams.get(&u32::from(stream)).map_or(0, |served| served.queue.divisible_bytes())
    }

    pub(super) fn has_others(&self) -> bool {
        self.streams.len() > 1
    }

    pub(super) fn on_cut(&mut self, stream: u16, length: usize) {
        if let Some(served) = self.streams.get_mut(&u32::from(stream)) {
            served.queue.on_cut(length);
        }
    }

    pub(super) fn begun_mut(&mut self, stream: u16) -> Option<&mut Queued> {
        let keys = [u32::from(stream), AHEAD];
        let key = keys.into_iter().find(|key| {
            let begun = self.streams.get(key).and_then(|served| served.queue.begun());
            begun.is_some_and(|message| message.stream == stream)
        })?;
        self.streams.get_mut(&key)?.queue.first_mut()
    }

    /// The next stream sent `length` bytes. Its turn lasts until its message is popped or [`end_turn`](Self::end_turn).
    pub(super) fn on_sent(&mut self, length: usize) {
        let Some(key) = self.next() else { return };
        self.holds = Some(key);
        if key == AHEAD {
            return;
        }
        let Some(served) = self.streams.get_mut(&key) else { return };
        self.order.remove(&(served.time, key));
        self.now = self.now.max(served.time);
        let time = length as u64 * UNIT / u64::from(served.weight);
        served.time = served.time.saturating_add(time);
        self.order.insert((served.time, key));
        while let Some(&(time, key)) = self.idle_order.first().filter(|(time, _)| *time <= self.now)
        {
            self.idle_order.remove(&(time, key));
            self.idle.remove(&key);
        }
    }

    pub(super) fn end_turn(&mut self) {
        self.holds = None;
    }
}
