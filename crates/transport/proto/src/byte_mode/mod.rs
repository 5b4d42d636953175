//! Carries byte streams in messages, by the rules of `docs/byte-mode.md`, version 2.
//!
//! SCTP streams have no end, and SCTP has no empty messages. So each direction of a byte stream
//! ends with a message of one byte under a separate payload protocol identifier, [`MARK`]: 0 when
//! everything was written, 1 when the writer gave up before. Bytes travel in ordered messages under
//! [`BYTES`]. A reader sends credit, and a request to stop, in unordered messages under [`SIGNAL`]
//! in the other direction.
//!
//! A reset of a stream (RFC 6525) does not touch the account: offsets count bytes and marks, not sequence numbers, and
//! everything that was sent before a reset arrives before it.
//!
//! [`Ledger`] keeps the credit of one association. It neither sends nor stores data, which is up to
//! the owner of the streams.

mod ledger;
mod signal;

use anabranch_wire::Ppid;
use bytes::{Buf, Bytes};

pub use self::ledger::{Ledger, Stopped};
pub use self::signal::Signal;
use crate::message::{Message, OutgoingMessage};
use crate::reliability::Reliability;

/// Payload protocol identifier of the bytes of a byte stream ("anbf").
pub const BYTES: Ppid = Ppid(0x616e_6266);

/// The same for peers of version 1, which do not signal credit ("anbd").
pub const BYTES_1: Ppid = Ppid(0x616e_6264);

/// Payload protocol identifier of the one-byte message that ends a byte stream ("anbe").
pub const MARK: Ppid = Ppid(0x616e_6265);

/// Payload protocol identifier of signals ("anbs").
pub const SIGNAL: Ppid = Ppid(0x616e_6273);

/// Bytes that a writer may send on a stream number before its reader has signalled credit.
pub const FIRST_CREDIT: u64 = 64 << 10;

/// How a direction of a byte stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// Everything was written.
    End,
    /// The writer gave up.
    Abandoned,
}

impl Mark {
    /// The mark in a message, if it is one.
    pub fn of(message: &Message) -> Option<Self> {
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
    pub fn message(self, stream: u16) -> OutgoingMessage {
        let byte: &'static [u8] = match self {
            Self::End => &[0],
            Self::Abandoned => &[1],
        };
        OutgoingMessage::new(stream, MARK, Bytes::from_static(byte))
            .with_reliability(Reliability::Full)
    }
}

/// The message that carries bytes.
pub fn bytes(stream: u16, data: impl Into<Bytes>) -> OutgoingMessage {
    OutgoingMessage::new(stream, BYTES, data).with_divisible().with_reliability(Reliability::Full)
}
