//! Receive buffers that become the payload of messages without a copy.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

/// Size of a buffer: the largest GRO batch.
const SIZE: usize = 65_535;

/// Batches of at least this length are passed on with their buffer; shorter ones are copied out of
/// it. So a reader never holds more than twice the memory that its data needs.
const WORTH_LENDING: usize = SIZE / 2;

/// Maximum number of lent buffers; any more are allocated, and dropped after use.
const MOST_LENT: usize = 64;

/// A pool of buffers of equal size. Lent ones return when all messages in them are dropped.
#[derive(Debug, Default)]
pub(crate) struct BufferPool {
    /// Whole buffers with slices in use, oldest first.
    lent: VecDeque<Bytes>,
}

impl BufferPool {
    /// Takes a buffer to receive into.
    pub(crate) fn take(&mut self) -> BytesMut {
        // Messages are read approximately in order of arrival.
        for _ in 0..self.lent.len().min(4) {
            let Some(buffer) = self.lent.pop_front() else {
                break;
            };
            match buffer.try_into_mut() {
                Ok(buffer) => return buffer,
                Err(in_use) => self.lent.push_back(in_use),
            }
        }
        BytesMut::zeroed(SIZE)
    }

    /// Splits off the first `len` bytes of `buffer`; if it is lent for that, `buffer` becomes a new
    /// one.
    pub(crate) fn detach(&mut self, buffer: &mut BytesMut, len: usize) -> Bytes {
        if len < WORTH_LENDING {
            return Bytes::copy_from_slice(buffer.get(..len).unwrap_or_default());
        }
        let fresh = self.take();
        let whole = std::mem::replace(buffer, fresh).freeze();
        let batch = whole.slice(..len.min(whole.len()));
        if self.lent.len() < MOST_LENT {
            self.lent.push_back(whole);
        }
        batch
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_batches_are_copied_and_large_ones_are_not() {
        let mut pool = BufferPool::default();
        let mut buffer = pool.take();
        assert_eq!(buffer.len(), SIZE);
        buffer[..3].copy_from_slice(b"abc");
        let at = buffer.as_ptr();
        let small = pool.detach(&mut buffer, 3);
        assert_eq!((&small[..], buffer.as_ptr()), (&b"abc"[..], at));
        let large = pool.detach(&mut buffer, SIZE - 1);
        assert_eq!((large.len(), large.as_ptr()), (SIZE - 1, at));
        assert_ne!(buffer.as_ptr(), at);
    }

    #[test]
    fn a_buffer_comes_back_when_its_messages_are_gone() {
        let mut pool = BufferPool::default();
        let mut buffer = pool.take();
        let at = buffer.as_ptr();
        let batch = pool.detach(&mut buffer, SIZE);
        let message = batch.slice(10..20);
        drop(batch);
        let other = pool.take();
        assert_ne!(other.as_ptr(), at);
        drop(message);
        let again = pool.take();
        assert_eq!((again.as_ptr(), again.len()), (at, SIZE));
    }
}
