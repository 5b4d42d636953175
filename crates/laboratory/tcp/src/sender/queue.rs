//! Data that was written and has not been sent.

use std::collections::VecDeque;

use bytes::{Buf, Bytes};

/// Bytes in order.
#[derive(Debug, Default)]
pub(super) struct Queue {
    parts: VecDeque<Bytes>,
    len: u64,
}

impl Queue {
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    pub(super) fn push(&mut self, data: Bytes) {
        self.len += data.len() as u64;
        if !data.is_empty() {
            self.parts.push_back(data);
        }
    }

    /// Takes the first bytes. Copies only if a segment spans several writes.
    pub(super) fn cut(&mut self, size: usize) -> Bytes {
        let whole = match self.parts.front_mut() {
            Some(first) if first.len() >= size => first.split_to(size),
            _ => {
                let mut joined = Vec::with_capacity(size);
                while joined.len() < size
                    && let Some(first) = self.parts.front_mut()
                {
                    let part = first.len().min(size - joined.len());
                    joined.extend_from_slice(&first[..part]);
                    first.advance(part);
                    if first.is_empty() {
                        self.parts.pop_front();
                    }
                }
                joined.into()
            }
        };
        if self.parts.front().is_some_and(Bytes::is_empty) {
            self.parts.pop_front();
        }
        self.len -= whole.len() as u64;
        whole
    }
}
