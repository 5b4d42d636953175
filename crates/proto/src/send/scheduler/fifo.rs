//! First come, first served, whatever the stream.

use std::collections::VecDeque;

use super::Queued;

/// One queue for all streams: the cheapest scheduler.
#[derive(Debug, Default)]
pub(crate) struct Fifo {
    queue: VecDeque<Queued>,
}

impl Fifo {
    pub(super) fn push(&mut self, message: Queued) {
        self.queue.push_back(message);
    }

    pub(super) fn peek(&self) -> Option<&Queued> {
        self.queue.front()
    }

    pub(super) fn peek_mut(&mut self) -> Option<&mut Queued> {
        self.queue.front_mut()
    }

    pub(super) fn pop(&mut self) -> Option<Queued> {
        self.queue.pop_front()
    }

    pub(super) fn take_out(
        &mut self,
        which: &mut dyn FnMut(&Queued) -> bool,
        gone: &mut Vec<Queued>,
    ) {
        super::take_out(&mut self.queue, which, gone);
    }

    pub(super) fn queued_bytes(&self, stream: u16) -> usize {
        self.queue.iter().filter(|m| m.stream == stream).map(|m| m.rest.len()).sum()
    }

    pub(super) fn shrink(&mut self) {
        if self.queue.is_empty() {
            self.queue.shrink_to(1);
        }
    }
}
