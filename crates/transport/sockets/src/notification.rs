//! Notifications: events that a socket reports besides messages (RFC 6458 section 6.1).

use std::net::SocketAddr;

use anabranch_proto::{AuthenticationChange, CloseReason, OutgoingMessage, ReconfigurationResult};
use bytes::Bytes;

use crate::assoc_id::AssocId;
use crate::error::Error;

/// Notification types, which users subscribe to (RFC 6458 section 6.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EventKind {
    /// SCTP_DATA_IO_EVENT: ancillary data with each message, not a notification.
    DataIo,
    /// SCTP_ASSOC_CHANGE (section 6.1.1).
    AssocChange,
    /// SCTP_PEER_ADDR_CHANGE (section 6.1.2).
    PeerAddrChange,
    /// SCTP_SEND_FAILED (section 6.1.4), which [`SendFailedEvent`](Self::SendFailedEvent) replaces.
    SendFailed,
    /// SCTP_REMOTE_ERROR (section 6.1.3).
    RemoteError,
    /// SCTP_SHUTDOWN_EVENT (section 6.1.5).
    Shutdown,
    /// SCTP_PARTIAL_DELIVERY_EVENT (section 6.1.7).
    PartialDelivery,
    /// SCTP_ADAPTATION_INDICATION (section 6.1.6).
    Adaptation,
    /// SCTP_AUTHENTICATION_EVENT (section 6.1.8).
    Authentication,
    /// SCTP_SENDER_DRY_EVENT (section 6.1.9).
    SenderDry,
    /// SCTP_STREAM_RESET_EVENT (RFC 6525 section 6.1.1).
    StreamReset,
    /// SCTP_ASSOC_RESET_EVENT (RFC 6525 section 6.1.2).
    AssocReset,
    /// SCTP_STREAM_CHANGE_EVENT (RFC 6525 section 6.1.3).
    StreamChange,
    /// SCTP_SEND_FAILED_EVENT (section 6.1.11).
    SendFailedEvent,
    /// ANABRANCH_EVENT, our own: an event that has no notification in the RFC.
    Named,
}

/// Something that happened to an association.
#[derive(Clone, Debug)]
pub struct Notification {
    /// The association.
    pub id: AssocId,
    /// What happened.
    pub event: Event,
}

/// What happened to an association.
#[derive(Clone, Debug)]
pub enum Event {
    /// SCTP_ASSOC_CHANGE: it began or ended.
    AssocChange(AssocChange),
    /// SCTP_PEER_ADDR_CHANGE: the state of a peer address changed.
    PeerAddrChange {
        /// The address, with the peer's port.
        address: SocketAddr,
        /// How it changed.
        change: AddressChange,
    },
    /// SCTP_REMOTE_ERROR: the peer reported an error that does not end the association.
    RemoteError {
        /// Code of the cause (RFC 9260 section 3.3.10).
        code: u16,
        /// The cause as received, at most 2,048 bytes.
        cause: Bytes,
    },
    /// SCTP_SEND_FAILED: a message was not sent, or not acknowledged.
    SendFailed(FailedMessage),
    /// SCTP_SEND_FAILED_EVENT: the same in its newer form.
    SendFailedEvent(FailedMessage),
    /// SCTP_PARTIAL_DELIVERY_EVENT: the rest of a partly taken message does not come.
    PartialDelivery(CutShort),
    /// SCTP_SHUTDOWN_EVENT: the peer sends nothing more.
    Shutdown,
    /// SCTP_ADAPTATION_INDICATION: the peer announced its adaptation layer.
    Adaptation(u32),
    /// SCTP_SENDER_DRY_EVENT: everything that was sent is acknowledged.
    SenderDry,
    /// SCTP_STREAM_RESET_EVENT: streams were reset, or a request for that ended.
    StreamReset {
        /// SCTP_STREAM_RESET_OUTGOING_SSN: streams of this side; otherwise SCTP_STREAM_RESET_INCOMING_SSN.
        outgoing: bool,
        /// The streams; none means all.
        streams: Box<[u16]>,
        /// How it ended.
        result: ReconfigurationResult,
    },
    /// SCTP_ASSOC_RESET_EVENT: all TSNs were reset, or a request for that ended.
    AssocReset {
        /// The next TSN of this side.
        local_tsn: u32,
        /// The next TSN of the peer.
        remote_tsn: u32,
        /// How it ended.
        result: ReconfigurationResult,
    },
    /// SCTP_STREAM_CHANGE_EVENT: streams were added, or a request for that ended.
    StreamChange {
        /// Streams that this side may send on.
        outbound_streams: u16,
        /// Streams that the peer may send on.
        inbound_streams: u16,
        /// How it ended.
        result: ReconfigurationResult,
    },
    /// SCTP_AUTHENTICATION_EVENT: the authentication of chunks changed.
    Authentication {
        /// How it changed.
        change: AuthenticationChange,
        /// The number of the secret.
        key: u16,
    },
    /// ANABRANCH_EVENT: an event that has no notification in the RFC.
    Named {
        /// Its name, as in `docs/events.md`.
        name: &'static str,
        /// A null-terminated sentence for people.
        text: Bytes,
    },
}

/// The beginning or end of an association (`sac_state`).
#[derive(Clone, Debug)]
pub enum AssocChange {
    /// SCTP_COMM_UP: it is established.
    Up {
        /// Streams that this side may send on.
        outbound_streams: u16,
        /// Streams that the peer may send on.
        inbound_streams: u16,
    },
    /// SCTP_COMM_LOST: it failed or was aborted.
    Lost {
        /// Code of the first cause in the peer's ABORT, or 0.
        code: u16,
        /// All causes as received; empty without an ABORT of the peer.
        causes: Bytes,
    },
    /// SCTP_RESTART: the peer lost its state and set up the association again.
    Restart {
        /// Streams that this side may send on.
        outbound_streams: u16,
        /// Streams that the peer may send on.
        inbound_streams: u16,
    },
    /// SCTP_SHUTDOWN_COMP: it ended gracefully.
    ShutdownComplete,
    /// SCTP_CANT_STR_ASSOC: it could not be set up.
    CannotStart(Error),
}

impl AssocChange {
    /// The change to report when an association ends.
    #[must_use]
    pub fn of_end(reason: &CloseReason) -> Self {
        match reason {
            CloseReason::Shutdown => Self::ShutdownComplete,
            CloseReason::PeerAbort { code, causes } => {
                // A copy: a slice would keep the whole received buffer.
                let causes = Bytes::copy_from_slice(causes);
                Self::Lost { code: code.unwrap_or(0), causes }
            }
            _ => Self::Lost { code: 0, causes: Bytes::new() },
        }
    }
}

/// What changed about an address of the peer (`spc_state`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AddressChange {
    /// SCTP_ADDR_AVAILABLE: it can be reached again.
    Available,
    /// SCTP_ADDR_UNREACHABLE: it can no longer be reached.
    Unreachable,
    /// SCTP_ADDR_REMOVED: it is no longer the peer's.
    Removed,
    /// SCTP_ADDR_ADDED: it is the peer's, too.
    Added,
    /// SCTP_ADDR_MADE_PRIM: data goes there from now on.
    MadePrimary,
    /// SCTP_ADDR_CONFIRMED: it was verified.
    Confirmed,
    /// SCTP_ADDR_POTENTIALLY_FAILED (RFC 7829 section 7.1): it may have failed.
    PotentiallyFailed,
}

/// A message that could not be delivered.
#[derive(Clone, Debug)]
pub struct FailedMessage {
    /// The message, with only the part of its data that was not acknowledged.
    pub message: Box<OutgoingMessage>,
    /// SCTP_DATA_SENT: the peer may have received a part of it; otherwise SCTP_DATA_UNSENT.
    pub sent: bool,
}

/// A partly taken message whose rest does not come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CutShort {
    /// Stream identifier.
    pub stream: u16,
    /// Stream sequence number; 0 if unordered.
    pub ssn: u16,
    /// The message was sent unordered.
    pub unordered: bool,
}

impl Event {
    /// The type that a user subscribes to.
    #[must_use]
    pub const fn kind(&self) -> EventKind {
        match self {
            Self::AssocChange(_) => EventKind::AssocChange,
            Self::PeerAddrChange { .. } => EventKind::PeerAddrChange,
            Self::RemoteError { .. } => EventKind::RemoteError,
            Self::SendFailed(_) => EventKind::SendFailed,
            Self::SendFailedEvent(_) => EventKind::SendFailedEvent,
            Self::PartialDelivery(_) => EventKind::PartialDelivery,
            Self::Shutdown => EventKind::Shutdown,
            Self::Adaptation(_) => EventKind::Adaptation,
            Self::SenderDry => EventKind::SenderDry,
            Self::StreamReset { .. } => EventKind::StreamReset,
            Self::AssocReset { .. } => EventKind::AssocReset,
            Self::StreamChange { .. } => EventKind::StreamChange,
            Self::Authentication { .. } => EventKind::Authentication,
            Self::Named { .. } => EventKind::Named,
        }
    }

    /// The data of the notification: causes, or the message. Empty for most.
    #[must_use]
    pub fn data(&self) -> &Bytes {
        static NONE: Bytes = Bytes::new();
        match self {
            Self::RemoteError { cause, .. } => cause,
            Self::Named { text, .. } => text,
            Self::AssocChange(AssocChange::Lost { causes, .. }) => causes,
            Self::SendFailed(failed) | Self::SendFailedEvent(failed) => &failed.message.data,
            _ => &NONE,
        }
    }
}
