//! The most important stream first; equals take turns (RFC 8260 section 3.4).

use std::collections::BTreeMap;

use super::Queued;
use super::round_robin::RoundRobin;

/// A round of streams for each priority value in use.
#[derive(Debug, Default)]
pub(crate) struct Priority {
    priorities: BTreeMap<u16, u16>,
    rounds: BTreeMap<u16, RoundRobin>,
    /// Priority of the message that may have been begun last.
    current: Option<u16>,
}

impl Priority {
    /// Takes effect once the stream's queued messages are gone, since they must keep their order.
    pub(super) fn set_priority(&mut self, stream: u16, priority: u16) {
        self.priorities.insert(stream, priority);
    }

    pub(super) fn push(&mut self, message: Queued) {
        let stream = message.stream;
        let priority = self
            .rounds
            .iter()
            .find_map(|(priority, round)| round.has(stream).then_some(*priority))
            .or_else(|| self.priorities.get(&stream).copied())
            .unwrap_or(0);
        self.rounds.entry(priority).or_default().push(message);
    }

    /// The priority whose turn it is: of a message that was begun, or else the first one.
    fn choose(&self) -> Option<u16> {
        let begun = self.current.filter(|priority| {
            let round = self.rounds.get(priority);
            round.and_then(RoundRobin::peek).is_some_and(|message| message.begun)
        });
        begun.or_else(|| self.rounds.keys().next().copied())
    }

    pub(super) fn peek(&self) -> Option<&Queued> {
        self.rounds.get(&self.choose()?)?.peek()
    }

    pub(super) fn peek_mut(&mut self) -> Option<&mut Queued> {
        self.current = self.choose();
        self.rounds.get_mut(&self.current?)?.peek_mut()
    }

    pub(super) fn pop(&mut self) -> Option<Queued> {
        let priority = self.choose()?;
        let round = self.rounds.get_mut(&priority)?;
        let message = round.pop();
        if round.is_empty() {
            self.rounds.remove(&priority);
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

    pub(super) fn shrink(&mut self) {}
}
