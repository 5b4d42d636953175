//! What the reader of a stream has read, and returns to the association.

use anabranch_proto::Message;

use crate::byte_mode::BYTES;

/// What was read since the last time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Used {
    /// Bytes of the byte stream, for which its writer gets new credit.
    pub(crate) bytes: usize,
    /// Bytes of the receive buffer.
    pub(crate) charge: u32,
}

impl Used {
    /// All of a message.
    pub(crate) fn of(message: &Message) -> Self {
        Self { bytes: Self::bytes(message, message.payload.len()), charge: message.charge() }
    }

    /// How many of these bytes of a message belong to a byte stream.
    pub(crate) fn bytes(message: &Message, length: usize) -> usize {
        if message.ppid == BYTES { length } else { 0 }
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.charge += other.charge;
    }
}
