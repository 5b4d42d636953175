//! Ancillary data of sent and received messages (RFC 6458 section 5.3).

use anabranch_proto::{Message, OutgoingMessage, Ppid, Reliability};
use bitflags::bitflags;
use bytes::Bytes;

use crate::assoc_id::AssocId;
use crate::error::Error;

bitflags! {
    /// `snd_flags` and `sinfo_flags` (RFC 6458 sections 5.3.2 and 5.3.4), with the numbers of Linux.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct SendFlags: u16 {
        /// SCTP_UNORDERED: the peer delivers the message as soon as it is complete.
        const UNORDERED = 1;
        /// SCTP_ADDR_OVER: to one address only, which is not supported.
        const ADDRESS_OVER = 1 << 1;
        /// SCTP_ABORT: aborts the association, with the data as the reason.
        const ABORT = 1 << 2;
        /// SCTP_SACK_IMMEDIATELY: the peer acknowledges the message without delay.
        const SACK_IMMEDIATELY = 1 << 3;
        /// SCTP_SENDALL: a copy to each association of a one-to-many socket.
        const SEND_ALL = 1 << 6;
        /// SCTP_EOF: shuts the association down after the message.
        const EOF = 1 << 9;
        /// SCTP_EOR: the message ends here, with SCTP_EXPLICIT_EOR. Linux has no such flag; the number is that of
        /// FreeBSD and usrsctp.
        const END_OF_RECORD = 1 << 13;
        // The policy of partial reliability, and bits of future flags.
        const _ = !0;
    }
}

impl SendFlags {
    /// The flag with this name in C, such as `SCTP_UNORDERED`.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        NAMES.iter().find(|(known, _)| *known == name).map(|(_, flag)| *flag)
    }

    /// Those that say what ends with the message.
    #[cfg(all(feature = "driver", target_os = "linux"))]
    pub(crate) fn ending(self) -> Self {
        self & (Self::EOF | Self::ABORT | Self::END_OF_RECORD)
    }

    /// Whether the association ends with the message: [`EOF`](Self::EOF) or [`ABORT`](Self::ABORT).
    #[must_use]
    pub fn ends_association(self) -> bool {
        self.intersects(Self::EOF | Self::ABORT)
    }
}

/// The names of flags in C.
const NAMES: [(&str, SendFlags); 11] = [
    ("SCTP_UNORDERED", SendFlags::UNORDERED),
    ("SCTP_ADDR_OVER", SendFlags::ADDRESS_OVER),
    ("SCTP_ABORT", SendFlags::ABORT),
    ("SCTP_SACK_IMMEDIATELY", SendFlags::SACK_IMMEDIATELY),
    ("SCTP_PR_SCTP_NONE", SendFlags::empty()),
    ("SCTP_PR_SCTP_TTL", SendFlags::POLICY_LIFETIME),
    ("SCTP_PR_SCTP_RTX", SendFlags::POLICY_RETRANSMISSIONS),
    ("SCTP_PR_SCTP_PRIO", SendFlags::POLICY_PRIORITY),
    ("SCTP_SENDALL", SendFlags::SEND_ALL),
    ("SCTP_EOF", SendFlags::EOF),
    ("SCTP_EOR", SendFlags::END_OF_RECORD),
];

/// How to send a message: SCTP_SNDINFO (RFC 6458 section 5.3.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendInfo {
    /// Stream identifier.
    pub stream: u16,
    /// Flags.
    pub flags: SendFlags,
    /// Payload protocol identifier.
    pub ppid: Ppid,
    /// Returned with the message if it cannot be sent.
    pub context: u32,
    /// The association; [`AssocId::FUTURE`] selects it by address.
    pub id: AssocId,
}

impl SendInfo {
    /// Checks whether a message of `length` bytes can be sent like this.
    ///
    /// # Errors
    /// [`Error::NotSupported`]: [`ADDRESS_OVER`](SendFlags::ADDRESS_OVER). [`Error::Invalid`]: the message is empty
    /// and does not end the association.
    pub fn check(&self, length: usize) -> Result<(), Error> {
        // The path of a single message cannot be chosen.
        if self.flags.contains(SendFlags::ADDRESS_OVER) {
            return Err(Error::NotSupported);
        }
        if length == 0 && !self.flags.ends_association() {
            return Err(Error::Invalid);
        }
        Ok(())
    }

    /// The message for the engine. The policy in the flags does not count, only `reliability`.
    #[must_use]
    pub fn message(&self, data: Bytes, reliability: Reliability) -> OutgoingMessage {
        let mut message = OutgoingMessage::new(self.stream, self.ppid, data);
        message.unordered = self.flags.contains(SendFlags::UNORDERED);
        message.sack_immediately = self.flags.contains(SendFlags::SACK_IMMEDIATELY);
        message.reliability = reliability;
        message.context = u64::from(self.context);
        message
    }
}

/// A received message: SCTP_RCVINFO (RFC 6458 section 5.3.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiveInfo {
    /// Stream identifier.
    pub stream: u16,
    /// Stream sequence number; meaningless if unordered. With interleaving it is the lower half of the message
    /// identifier (RFC 8260 section 4.1).
    pub ssn: u16,
    /// The message was sent unordered.
    pub unordered: bool,
    /// Payload protocol identifier.
    pub ppid: Ppid,
    /// TSN of the first chunk.
    pub tsn: u32,
    /// Cumulative TSN of the association, if it was looked up; otherwise `tsn`.
    pub cumulative_tsn: u32,
    /// SCTP_CONTEXT of the association.
    pub context: u32,
    /// The association.
    pub id: AssocId,
}

impl ReceiveInfo {
    /// The information about a message of this association.
    #[must_use]
    pub fn of(message: &Message, id: AssocId) -> Self {
        Self {
            stream: message.stream,
            ssn: message.sequence as u16,
            unordered: message.unordered,
            ppid: message.ppid,
            tsn: message.tsn,
            cumulative_tsn: message.tsn,
            context: 0,
            id,
        }
    }

    /// The flags as in C: [`UNORDERED`](SendFlags::UNORDERED) or none.
    #[must_use]
    pub fn flags(&self) -> SendFlags {
        if self.unordered { SendFlags::UNORDERED } else { SendFlags::empty() }
    }
}

/// The message after a received one: SCTP_NXTINFO (RFC 6458 section 5.3.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextInfo {
    /// Stream identifier.
    pub stream: u16,
    /// The message was sent unordered.
    pub unordered: bool,
    /// The whole message has arrived.
    pub complete: bool,
    /// Payload protocol identifier.
    pub ppid: Ppid,
    /// Bytes that have arrived.
    pub length: usize,
    /// The association.
    pub id: AssocId,
}
