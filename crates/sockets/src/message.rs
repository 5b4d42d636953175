//! Ancillary data: what comes with a message in either direction (RFC 6458 section 5.3).

use anabranch_proto::Ppid;
use bitflags::bitflags;

use crate::assoc_id::AssocId;
use crate::error::Error;

bitflags! {
    /// `snd_flags` and `sinfo_flags` (RFC 6458 sections 5.3.2 and 5.3.4), with the numbers of Linux.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct SendFlags: u16 {
        /// SCTP_UNORDERED: the peer delivers the message at once.
        const UNORDERED = 1;
        /// SCTP_ADDR_OVER: to one address only, which is not supported.
        const ADDRESS_OVER = 1 << 1;
        /// SCTP_ABORT: aborts the association, with the data as the reason.
        const ABORT = 1 << 2;
        /// SCTP_SACK_IMMEDIATELY: the peer acknowledges the message at once.
        const SACK_IMMEDIATELY = 1 << 3;
        /// SCTP_SENDALL: a copy to each association of a one-to-many socket.
        const SEND_ALL = 1 << 6;
        /// SCTP_EOF: shuts the association down after the message.
        const EOF = 1 << 9;
        // The policy of partial reliability, and bits of future flags.
        const _ = !0;
    }
}

impl SendFlags {
    /// The bits that hold a policy of partial reliability (RFC 6458 section 5.3.7).
    pub const POLICY: u16 = 0x30;
    /// SCTP_PR_SCTP_TTL: the message has a lifetime.
    pub const POLICY_LIFETIME: Self = Self::from_bits_retain(0x10);

    /// Whether the policy is a lifetime; `false` for no policy.
    ///
    /// # Errors
    /// [`Error::NotSupported`]: it is another policy, whose value is not a time.
    pub fn limits_lifetime(self) -> Result<bool, Error> {
        match self.bits() & Self::POLICY {
            0 => Ok(false),
            policy if policy == Self::POLICY_LIFETIME.bits() => Ok(true),
            _ => Err(Error::NotSupported),
        }
    }
}

/// How to send a message: SCTP_SNDINFO (RFC 6458 section 5.3.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendInfo {
    /// Stream identifier.
    pub stream: u16,
    /// Flags.
    pub flags: SendFlags,
    /// Payload protocol identifier.
    pub ppid: Ppid,
    /// Comes back if the message cannot be sent.
    pub context: u32,
    /// The association; [`AssocId::FUTURE`] leaves it to the address.
    pub id: AssocId,
}

/// A received message: SCTP_RCVINFO (RFC 6458 section 5.3.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiveInfo {
    /// Stream identifier.
    pub stream: u16,
    /// Stream sequence number; without a meaning if unordered.
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

/// The message after a received one: SCTP_NXTINFO (RFC 6458 section 5.3.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextInfo {
    /// Stream identifier.
    pub stream: u16,
    /// The message was sent unordered.
    pub unordered: bool,
    /// `length` is that of the whole message.
    pub complete: bool,
    /// Payload protocol identifier.
    pub ppid: Ppid,
    /// Bytes that have arrived.
    pub length: usize,
    /// The association.
    pub id: AssocId,
}
