//! Messages that a reader has taken from the queue of its stream and has not read to their end.

use std::collections::VecDeque;
use std::io::IoSlice;

use anabranch_proto::Message;
use bytes::Buf as _;

use crate::streams::Used;

/// The messages, in order. Without any, it has no memory.
#[derive(Debug, Default)]
pub(super) struct Unread {
    messages: VecDeque<Message>,
    used: Used,
}

impl Unread {
    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    pub(super) fn push(&mut self, message: Message) {
        self.messages.push_back(message);
    }

    /// Takes the first message, or what is left of it, as read.
    pub(super) fn pop(&mut self) -> Option<Message> {
        let message = self.messages.pop_front()?;
        self.used.add(Used::of(&message));
        self.free();
        Some(message)
    }

    /// The first piece.
    pub(super) fn piece(&self) -> &[u8] {
        self.messages.front().map_or(&[], |message| message.payload.chunk())
    }

    /// The first `most` bytes in pieces, as many as there are slices. Returns the number of pieces.
    pub(super) fn pieces<'a>(&'a self, mut most: usize, slices: &mut [IoSlice<'a>]) -> usize {
        let pieces = self.messages.iter().flat_map(|message| message.payload.pieces());
        let mut count = 0;
        for (slice, piece) in slices.iter_mut().zip(pieces) {
            if most == 0 {
                break;
            }
            let piece = piece.get(..most).unwrap_or(piece);
            *slice = IoSlice::new(piece);
            most -= piece.len();
            count += 1;
        }
        count
    }

    /// Takes the first bytes as read.
    pub(super) fn advance(&mut self, mut count: usize) {
        while let Some(message) = self.messages.front_mut() {
            let step = count.min(message.payload.chunk().len());
            message.payload.advance(step);
            self.used.bytes += Used::bytes(message, step);
            count -= step;
            if !message.payload.has_remaining() {
                self.used.charge += message.charge();
                self.messages.pop_front();
            } else if count == 0 {
                break;
            }
        }
        self.free();
    }

    /// What was read since the last call, if a message was read to its end. A reader that takes few bytes at a time does
    /// not return each of them.
    pub(super) fn take_used(&mut self) -> Option<Used> {
        (self.used.charge > 0).then(|| std::mem::take(&mut self.used))
    }

    /// Takes everything as read.
    pub(super) fn clear(&mut self) -> Used {
        while self.pop().is_some() {}
        std::mem::take(&mut self.used)
    }

    /// A stream that waits for its peer must not have memory for messages.
    fn free(&mut self) {
        if self.messages.is_empty() {
            self.messages = VecDeque::new();
        }
    }
}
