//! First come, first served, regardless of the stream.

use std::collections::{BTreeMap, VecDeque};

use super::Queued;

/// One queue for all streams: the cheapest scheduler.
#[derive(Debug, Default)]
pub(crate) struct Fifo {
    queue: VecDeque<Queued>,
    /// The number of messages that are followed by one of another stream.
    changes: usize,
    /// Bytes of divisible messages by stream, while there are any.
    #[expect(clippy::box_collection, reason = "an idle association pays for a pointer only")]
    divisible: Option<Box<BTreeMap<u16, usize>>>,
}

impl Fifo {
    #[inline]
    pub(super) fn push(&mut self, message: Queued) {
        if message.divisible {
            self.note_divisible(message.stream, message.rest.len());
        }
        if message.ahead {
            return self.push_ahead(message);
        }
        if self.queue.back().is_some_and(|last| last.stream != message.stream) {
            self.changes += 1;
        }
        self.queue.push_back(message);
    }

    #[inline]
    pub(super) fn peek(&self) -> Option<&Queued> {
        self.queue.front()
    }

    #[inline]
    pub(super) fn peek_mut(&mut self) -> Option<&mut Queued> {
        self.queue.front_mut()
    }

    #[inline]
    pub(super) fn pop(&mut self) -> Option<Queued> {
        let message = self.queue.pop_front()?;
        if self.queue.front().is_some_and(|next| next.stream != message.stream) {
            self.changes -= 1;
        }
        if message.divisible {
            self.forget(message.stream, message.rest.len());
        }
        Some(message)
    }

    pub(super) fn take_out(
        &mut self,
        which: &mut dyn FnMut(&Queued) -> bool,
        gone: &mut Vec<Queued>,
    ) {
        let before = gone.len();
        super::take_out(&mut self.queue, which, gone);
        for message in gone.iter().skip(before).filter(|message| message.divisible) {
            self.forget(message.stream, message.rest.len());
        }
        if gone.len() > before {
            self.changes = self.count_changes();
        }
    }

    pub(super) fn queued_bytes(&self, stream: u16) -> usize {
        self.queue.iter().filter(|m| m.stream == stream).map(|m| m.rest.len()).sum()
    }

    pub(super) fn divisible_bytes(&self, stream: u16) -> usize {
        self.divisible.as_ref().and_then(|bytes| bytes.get(&stream)).copied().unwrap_or(0)
    }

    #[inline]
    pub(super) fn has_others(&self) -> bool {
        self.changes > 0
    }

    pub(super) fn on_cut(&mut self, stream: u16, length: usize) {
        self.forget(stream, length);
    }

    /// Messages that were sent in part are the first ones.
    pub(super) fn begun_mut(&mut self, stream: u16) -> Option<&mut Queued> {
        let begun = self.queue.iter_mut().take_while(|message| message.begun);
        begun.into_iter().find(|message| message.stream == stream)
    }

    pub(super) fn shrink(&mut self) {
        if self.queue.is_empty() {
            self.queue.shrink_to(1);
        }
    }

    #[inline(never)]
    fn note_divisible(&mut self, stream: u16, length: usize) {
        *self.divisible.get_or_insert_default().entry(stream).or_default() += length;
    }

    /// Adds a message that is sent before those of other streams.
    #[inline(never)]
    fn push_ahead(&mut self, message: Queued) {
        let stays = |queued: &&Queued| queued.begun || queued.ahead;
        let at = self.queue.iter().take_while(stays).count();
        let before = at.checked_sub(1).and_then(|at| self.queue.get(at)).map(|m| m.stream);
        let behind = self.queue.get(at).map(|m| m.stream);
        let differs = |other: Option<u16>| usize::from(other.is_some_and(|o| o != message.stream));
        self.changes += differs(before) + differs(behind);
        if before.is_some() && behind.is_some() && before != behind {
            self.changes -= 1;
        }
        self.queue.insert(at, message);
    }

    fn count_changes(&self) -> usize {
        let next = self.queue.iter().skip(1);
        self.queue.iter().zip(next).filter(|(one, other)| one.stream != other.stream).count()
    }

    fn forget(&mut self, stream: u16, length: usize) {
        let Some(bytes) = &mut self.divisible else { return };
        if let Some(of_stream) = bytes.get_mut(&stream) {
            *of_stream = of_stream.saturating_sub(length);
            if *of_stream == 0 {
                bytes.remove(&stream);
            }
        }
        if bytes.is_empty() {
            self.divisible = None;
        }
    }
}
