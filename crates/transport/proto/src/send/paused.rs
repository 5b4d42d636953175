//! Streams whose new messages wait, because their sequence numbers are being reset (RFC 6525 section 5.1.2).

use std::collections::VecDeque;

use super::{Queued, SendQueue};
use crate::stream_set::StreamSet;

/// Streams that are paused, and their messages.
#[derive(Debug, Default)]
pub(super) struct Paused {
    streams: StreamSet,
    /// The number of their messages that were given before the pause and are in the queue.
    left: usize,
    /// Messages that were given since then, in their order.
    held: VecDeque<Queued>,
    /// Their bytes.
    bytes: usize,
}

impl Paused {
    /// Bytes of a stream's messages that wait.
    pub(super) fn bytes_of(&self, stream: u16) -> usize {
        let of_stream = self.held.iter().filter(|message| message.stream == stream);
        of_stream.map(|message| message.rest.len()).sum()
    }

    /// Bytes of all messages that wait.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Records that a message left the queue.
    pub(super) fn on_gone(&mut self, stream: u16) {
        if self.streams.has(stream) {
            self.left = self.left.saturating_sub(1);
        }
    }

    /// Takes the selected messages out.
    fn take_out(&mut self, mut which: impl FnMut(&Queued) -> bool) -> Vec<Queued> {
        let all = std::mem::take(&mut self.held).into_iter();
        let (gone, held): (Vec<_>, Vec<_>) = all.partition(|message| which(message));
        self.held = held.into();
        self.bytes = self.held.iter().map(|message| message.rest.len()).sum();
        gone
    }
}

impl SendQueue {
    /// Holds back all further messages of these streams. Those that are in the queue are still sent.
    // req: rfc6525 5.1.2 "The sender MUST stop assigning new SSNs to new user data"
    pub(crate) fn pause(&mut self, streams: &StreamSet) {
        let mut left = 0;
        self.scheduler.for_each(&mut |message| left += usize::from(streams.has(message.stream)));
        let paused = self.paused.get_or_insert_default();
        paused.streams.add(streams);
        paused.left += left;
    }

    /// Whether all messages are sent that were given to the paused streams before the pause.
    pub(crate) fn is_drained(&self) -> bool {
        self.paused.as_ref().is_none_or(|paused| paused.left == 0)
    }

    /// Whether a message waits for the end of a pause.
    pub(crate) fn holds_messages(&self) -> bool {
        self.paused.as_ref().is_some_and(|paused| !paused.held.is_empty())
    }

    /// Ends the pause of these streams; with `reset`, their next ordered messages have the SSN 0.
    pub(crate) fn resume(&mut self, streams: &StreamSet, reset: bool) {
        if reset {
            self.streams.reset(streams);
        }
        let Some(mut paused) = self.paused.take() else { return };
        let released = paused.take_out(|message| streams.has(message.stream));
        paused.streams.remove(streams);
        if paused.streams.is_empty() {
            paused.left = 0;
        } else {
            self.paused = Some(paused);
        }
        for message in released {
            self.enqueue(message);
        }
    }

    /// Whether new messages of a stream have to wait.
    #[inline]
    pub(super) fn is_paused(&self, stream: u16) -> bool {
        self.paused.as_ref().is_some_and(|paused| paused.streams.has(stream))
    }

    /// Takes a message of a paused stream.
    pub(super) fn hold(&mut self, message: Queued) {
        let paused = self.paused.get_or_insert_default();
        paused.bytes += message.rest.len();
        paused.held.push_back(message);
    }

    /// Bytes that cannot be sent now because their streams are paused.
    pub(super) fn held_bytes(&self) -> usize {
        self.paused.as_ref().map_or(0, |paused| paused.bytes())
    }

    /// The same of one stream.
    pub(super) fn held_bytes_of(&self, stream: u16) -> usize {
        self.paused.as_ref().map_or(0, |paused| paused.bytes_of(stream))
    }

    /// Takes the selected messages out of those that wait.
    pub(super) fn take_out_held(&mut self, which: impl FnMut(&Queued) -> bool) -> Vec<Queued> {
        self.paused.as_deref_mut().map(|paused| paused.take_out(which)).unwrap_or_default()
    }

    /// Whether the next ordered message of each of these streams has the SSN 0.
    pub(crate) fn are_reset(&mut self, streams: &StreamSet) -> bool {
        self.streams.are_reset(streams)
    }
}
