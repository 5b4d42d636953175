//! Serves the stream with the highest priority first (RFC 8260 section 3.4, RFC 9218 section 10).

use std::collections::BTreeMap;

use super::round_robin::RoundRobin;
use super::{Queued, StreamPriority};

/// The position of a group of streams in the order of service; the streams of a group alternate.
/// Messages sent before all others come first. For each urgency, the streams served one by one come
/// before those that alternate.
type Rank = u64;

/// The rank before any message was begun.
const NONE: Rank = 0;
/// The rank of messages that are sent before those of all streams.
const AHEAD: Rank = 1;
/// This bit of a rank marks streams that alternate; without it, the number of the stream follows.
const SHARED: Rank = 1 << 16;
/// The urgency plus one starts at this bit.
const URGENCY: u32 = 17;

fn rank(stream: u16, priority: StreamPriority) -> Rank {
    let class = if priority.incremental { SHARED } else { Rank::from(stream) };
    ((Rank::from(priority.urgency) + 1) << URGENCY) | class
}

/// A round of streams for each rank in use.
#[derive(Debug, Default)]
pub(crate) struct Priority {
    rounds: BTreeMap<Rank, RoundRobin>,
    /// The rank of the message that was begun last.
    current: Rank,
}

impl Priority {
    pub(super) fn push(&mut self, message: Queued, priority: StreamPriority) {
        let stream = message.stream;
        if message.ahead
            && let Some(round) = self.rounds.values_mut().find(|round| round.has_begun(stream))
        {
            round.push(message);
            return;
        }
        let of_stream = || {
            let waiting = self.rounds.iter().find(|(_, round)| round.has(stream));
            waiting.map_or_else(|| rank(stream, priority), |(rank, _)| *rank)
        };
        let rank = if message.ahead { AHEAD } else { of_stream() };
        if message.holds_turn {
            self.current = rank;
        }
        self.rounds.entry(rank).or_default().push(message);
    }

    /// The rank to serve: that of a message that must be finished first, or else the first one. After a stream
    /// that does not alternate, those of its urgency that do are served.
    fn choose(&self) -> Option<Rank> {
        let begun = self.rounds.get(&self.current).and_then(RoundRobin::peek);
        if begun.is_some_and(|message| message.holds_turn) {
            return Some(self.current);
        }
        let first = *self.rounds.keys().next()?;
        let shared = (first >> URGENCY << URGENCY) | SHARED;
        let alone_before = self.current >> URGENCY == first >> URGENCY && self.current < shared;
        let is_alone = first != AHEAD && first < shared;
        if is_alone && alone_before && self.rounds.contains_key(&shared) {
            return Some(shared);
        }
        Some(first)
    }

    pub(super) fn peek(&self) -> Option<&Queued> {
        self.rounds.get(&self.choose()?)?.peek()
    }

    pub(super) fn peek_mut(&mut self) -> Option<&mut Queued> {
        let rank = self.choose()?;
        let message = self.rounds.get_mut(&rank)?.peek_mut();
        self.current = rank;
        message
    }

    pub(super) fn pop(&mut self) -> Option<Queued> {
        let rank = self.choose()?;
        let round = self.rounds.get_mut(&rank)?;
        let message = round.pop();
        if round.is_empty() {
            self.rounds.remove(&rank);
        }
        message
    }

    pub(super) fn take_out(
        &mut self,
        which: &mut dyn FnMut(&Queued) -> bool,
        gone: &mut Vec<Queued>,
    ) {
        self.rounds.values_mut().for_each(|round| round.take_out(which, gone));
        self.rounds.retain(|_, round| !round.is_empty());
    }

    pub(super) fn queued_bytes(&self, stream: u16) -> usize {
        self.rounds.values().map(|round| round.queued_bytes(stream)).sum()
    }

    pub(super) fn divisible_bytes(&self, stream: u16) -> usize {
        self.rounds.values().map(|round| round.divisible_bytes(stream)).sum()
    }

    pub(super) fn has_others(&self) -> bool {
        self.rounds.len() > 1 || self.rounds.values().any(RoundRobin::has_others)
    }

    pub(super) fn on_cut(&mut self, stream: u16, length: usize) {
        if let Some(round) = self.rounds.values_mut().find(|round| round.has(stream)) {
            round.on_cut(stream, length);
        }
    }

    pub(super) fn begun_mut(&mut self, stream: u16) -> Option<&mut Queued> {
        self.rounds.values_mut().find_map(|round| round.begun_mut(stream))
    }

    pub(super) fn end_turn(&mut self, length: usize, least: usize) {
        if let Some(round) = self.rounds.get_mut(&self.current) {
            round.end_turn(length, least);
        }
    }

    pub(super) fn shrink(&mut self) {
        if self.rounds.is_empty() {
            self.current = NONE;
        }
    }
}
