//! The messages of one stream.

use std::collections::VecDeque;

use super::Queued;

/// The waiting messages of a stream, in their order. Only the first one can be sent in part.
#[derive(Debug, Default)]
pub(super) struct StreamQueue {
    messages: VecDeque<Queued>,
    /// Bytes of divisible messages.
    divisible: usize,
}

impl StreamQueue {
    pub(super) fn push(&mut self, message: Queued) {
        self.count(&message);
        self.messages.push_back(message);
    }

    /// Adds a message as the next one, after the one that was sent in part.
    pub(super) fn push_next(&mut self, message: Queued) {
        self.count(&message);
        let at = usize::from(self.begun().is_some());
        self.messages.insert(at, message);
    }

    fn count(&mut self, message: &Queued) {
        if message.divisible {
            self.divisible += message.rest.len();
        }
    }

    #[inline]
    pub(super) fn first(&self) -> Option<&Queued> {
        self.messages.front()
    }

    #[inline]
    pub(super) fn first_mut(&mut self) -> Option<&mut Queued> {
        self.messages.front_mut()
    }

    /// The message that was sent in part.
    pub(super) fn begun(&self) -> Option<&Queued> {
        self.first().filter(|message| message.begun)
    }

    pub(super) fn pop(&mut self) -> Option<Queued> {
        let message = self.messages.pop_front();
        if let Some(gone) = message.as_ref().filter(|message| message.divisible) {
            self.on_cut(gone.rest.len());
        }
        message
    }

    pub(super) fn take_out(
        &mut self,
        which: &mut dyn FnMut(&Queued) -> bool,
        gone: &mut Vec<Queued>,
    ) {
        let before = gone.len();
        super::take_out(&mut self.messages, which, gone);
        let divisible = gone.iter().skip(before).filter(|message| message.divisible);
        let bytes = divisible.map(|message| message.rest.len()).sum();
        self.on_cut(bytes);
    }

    /// Records that bytes of divisible messages are gone.
    pub(super) fn on_cut(&mut self, bytes: usize) {
        self.divisible = self.divisible.saturating_sub(bytes);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    pub(super) fn bytes(&self) -> usize {
        self.messages.iter().map(|message| message.rest.len()).sum()
    }

    pub(super) fn divisible_bytes(&self) -> usize {
        self.divisible
    }
}
