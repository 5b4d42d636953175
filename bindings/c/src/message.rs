//! Ancillary data: what comes with a message in either direction (RFC 6458 section 5.3).

use anabranch::Ppid;
use bitflags::bitflags;

use crate::assoc_id::AssocId;
use crate::error::Error;

bitflags! {
    /// `snd_flags` and `sinfo_flags` (RFC 6458 sections 5.3.2 and 5.3.4), with the numbers of Linux.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub(crate) struct SendFlags: u16 {
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
    pub(crate) const POLICY: u16 = 0x30;
    /// SCTP_PR_SCTP_TTL: the message has a lifetime.
    pub(crate) const POLICY_LIFETIME: Self = Self::from_bits_retain(0x10);

    /// Whether the policy is a lifetime; `false` for no policy.
    ///
    /// # Errors
    /// [`Error::NotSupported`]: it is another policy, whose value is not a time.
    pub(crate) fn limits_lifetime(self) -> Result<bool, Error> {
        match self.bits() & Self::POLICY {
            0 => Ok(false),
            policy if policy == Self::POLICY_LIFETIME.bits() => Ok(true),
            _ => Err(Error::NotSupported),
        }
    }
}

/// How to send a message: SCTP_SNDINFO (RFC 6458 section 5.3.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SendInfo {
    /// Stream identifier.
    pub(crate) stream: u16,
    /// Flags.
    pub(crate) flags: SendFlags,
    /// Payload protocol identifier.
    pub(crate) ppid: Ppid,
    /// Comes back if the message cannot be sent.
    pub(crate) context: u32,
    /// The association; [`AssocId::FUTURE`] leaves it to the address.
    pub(crate) id: AssocId,
}

/// A received message: SCTP_RCVINFO (RFC 6458 section 5.3.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReceiveInfo {
    /// Stream identifier.
    pub(crate) stream: u16,
    /// Stream sequence number; without a meaning if unordered.
    pub(crate) ssn: u16,
    /// The message was sent unordered.
    pub(crate) unordered: bool,
    /// Payload protocol identifier.
    pub(crate) ppid: Ppid,
    /// TSN of the first chunk.
    pub(crate) tsn: u32,
    /// Cumulative TSN of the association, if it was looked up; otherwise `tsn`.
    pub(crate) cumulative_tsn: u32,
    /// SCTP_CONTEXT of the association.
    pub(crate) context: u32,
    /// The association.
    pub(crate) id: AssocId,
}

/// The message after a received one: SCTP_NXTINFO (RFC 6458 section 5.3.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NextInfo {
    /// Stream identifier.
    pub(crate) stream: u16,
    /// The message was sent unordered.
    pub(crate) unordered: bool,
    /// `length` is that of the whole message.
    pub(crate) complete: bool,
    /// Payload protocol identifier.
    pub(crate) ppid: Ppid,
    /// Bytes that have arrived.
    pub(crate) length: usize,
    /// The association.
    pub(crate) id: AssocId,
}
