//! How byte streams are carried by messages.
//!
//! SCTP streams have neither an end nor empty messages, so a direction of a byte stream ends
//! with a message of one byte under a payload protocol identifier of its own, [`MARK`]: 0 when
//! all was written, 1 when the writer gave up before. Bytes travel in ordered messages under
//! [`BYTES`]; a reader takes messages of any other identifier as bytes, too.

use anabranch_proto::{Message, OutgoingMessage, Ppid};
use bytes::{Buf, Bytes};

/// Payload protocol identifier of the bytes of a byte stream ("anbd").
pub const BYTES: Ppid = Ppid(0x616e_6264);

/// Payload protocol identifier of the one-byte message that ends a byte stream ("anbe").
pub const MARK: Ppid = Ppid(0x616e_6265);

/// Longest message that a byte stream is cut into: long enough to cost little, short enough not
/// to hold up other streams.
pub(crate) const MAX_MESSAGE: usize = 16 * 1024;

/// How a direction of a byte stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    /// All was written.
    End,
    /// The writer gave up.
    Abandoned,
}

impl Mark {
    /// The mark that a message is, if it is one.
    pub(crate) fn of(message: &Message) -> Option<Self> {
        if message.ppid != MARK || !message.is_whole() || message.payload.len() != 1 {
            return None;
        }
        match message.payload.chunk() {
            [0] => Some(Self::End),
            [1] => Some(Self::Abandoned),
            _ => None,
        }
    }

    /// The message that carries this mark.
    pub(crate) fn message(self, stream: u16) -> OutgoingMessage {
        let byte: &'static [u8] = match self {
            Self::End => &[0],
            Self::Abandoned => &[1],
        };
        OutgoingMessage::new(stream, MARK, Bytes::from_static(byte))
    }
}
