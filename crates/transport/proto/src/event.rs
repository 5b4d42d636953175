//! Events that an association reports to its user (RFC 9260 section 11.2).

mod notification;

use std::fmt;

use anabranch_wire::cause_code;
use bytes::Bytes;

use crate::named::named;

pub use notification::{Detail, InQlog, InSockets, Notification, NotificationKind};

/// Identifies an association for the lifetime of its [`Endpoint`](crate::Endpoint): an identifier is never
/// used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AssociationId {
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}

impl fmt::Display for AssociationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.slot, self.generation)
    }
}

/// An event to which the user of an association should react.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// A message, or a part of one, can be received with
    /// [`Association::receive`](crate::Association::receive).
    Readable,
    /// The send buffer has room again after a send was refused.
    Writable,
    /// Something else happened to the association.
    Notification(Notification),
}

/// What happened to the authentication of an association (RFC 6458 section 6.1.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AuthenticationChange {
    /// The peer authenticates with another key from now on.
    NewKey,
    /// A key that was deactivated is no longer used. Only the socket layer reports this.
    FreeKey,
    /// The peer does not support authentication, so nothing is authenticated.
    NotSupported,
}

named!(AuthenticationChange {
    NewKey = "new-key",
    FreeKey = "free-key",
    NotSupported = "not-supported",
});

/// State of a path (RFC 9260 sections 5.4 and 8.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum PathState {
    /// It is not yet known to lead to the peer, and carries no user data.
    Unconfirmed,
    /// It is in use or ready for use.
    Active,
    /// Its error count exceeds PotentiallyFailed.Max.Retrans, but not yet Path.Max.Retrans: data takes
    /// an active path if there is one, while heartbeats probe this one (RFC 7829).
    PotentiallyFailed,
    /// Its error count exceeds Path.Max.Retrans.
    Inactive,
}

impl fmt::Display for PathState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unconfirmed => "unconfirmed",
            Self::Active => "active",
            Self::PotentiallyFailed => "potentially-failed",
            Self::Inactive => "inactive",
        })
    }
}

/// State of an association, by RFC 9260's names (section 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AssociationState {
    /// INIT was sent.
    CookieWait,
    /// COOKIE ECHO was sent.
    CookieEchoed,
    /// Data flows in both directions.
    Established,
    /// This side has requested a shutdown, and waits for its data to be acknowledged.
    ShutdownPending,
    /// SHUTDOWN was sent.
    ShutdownSent,
    /// The peer has requested a shutdown; outstanding data of this side is still delivered.
    ShutdownReceived,
    /// SHUTDOWN ACK was sent.
    ShutdownAckSent,
    /// It has ended.
    Closed,
}

impl AssociationState {
    /// The RFC's name, such as `SHUTDOWN-SENT`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::CookieWait => "COOKIE-WAIT",
            Self::CookieEchoed => "COOKIE-ECHOED",
            Self::Established => "ESTABLISHED",
            Self::ShutdownPending => "SHUTDOWN-PENDING",
            Self::ShutdownSent => "SHUTDOWN-SENT",
            Self::ShutdownReceived => "SHUTDOWN-RECEIVED",
            Self::ShutdownAckSent => "SHUTDOWN-ACK-SENT",
            Self::Closed => "CLOSED",
        }
    }
}

impl fmt::Display for AssociationState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for AssociationState {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// Why an association ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CloseReason {
    /// Graceful shutdown; all sent data is acknowledged.
    Shutdown,
    /// The local user aborted it.
    LocalAbort,
    /// The peer aborted it.
    PeerAbort {
        /// Code of the first error cause, if there was one.
        code: Option<u16>,
        /// The error causes as received.
        causes: Bytes,
    },
    /// No answer to INIT or COOKIE ECHO.
    ConnectTimeout,
    /// The peer's host does not support SCTP (ICMP protocol unreachable).
    NoSctp,
    /// Nothing listens on the UDP port of any of the peer's addresses (ICMP port unreachable).
    PortUnreachable,
    /// The peer refused a handshake of this kind, for this reason.
    HandshakeFailed(&'static str),
    /// The peer stopped answering: Association.Max.Retrans was exceeded.
    Unreachable,
    /// The peer violated the protocol, and this side aborted.
    ProtocolViolation(&'static str),
    /// The shutdown was not complete in time (T5-shutdown-guard).
    ShutdownTimeout,
    /// The endpoint had no memory or place left for others, and this association had made no progress for
    /// several RTOs.
    GaveWay,
}

impl CloseReason {
    /// The reason that the peer's user gave for an abort (User-Initiated Abort, RFC 9260 section 3.3.10.12),
    /// if there is one and it is text.
    pub fn abort_text(&self) -> Option<&str> {
        let Self::PeerAbort { code: Some(cause_code::USER_INITIATED_ABORT), causes } = self else {
            return None;
        };
        let length = causes.get(2..4)?.try_into().map(u16::from_be_bytes).ok()?;
        let said = causes.get(4..usize::from(length))?;
        str::from_utf8(said).ok().filter(|said| !said.is_empty())
    }
}

impl fmt::Display for CloseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(said) = self.abort_text() {
            // Do not trust the text: limit its length, and escape terminal commands.
            let said: String = said.chars().take(200).collect();
            return write!(f, "aborted by the peer: {said:?}");
        }
        match self {
            Self::Shutdown => f.write_str("shut down gracefully"),
            Self::LocalAbort => f.write_str("aborted by this side"),
            Self::PeerAbort { code: Some(code), .. } => {
                write!(f, "aborted by the peer with cause {code}")
            }
            Self::PeerAbort { code: None, .. } => f.write_str("aborted by the peer"),
            Self::ConnectTimeout => f.write_str("the peer did not answer"),
            Self::NoSctp => f.write_str("the peer's host has no SCTP"),
            Self::PortUnreachable => f.write_str("nothing listens on the peer's UDP port"),
            Self::HandshakeFailed(why) => write!(f, "handshake failed: {why}"),
            Self::Unreachable => f.write_str("the peer stopped answering"),
            Self::ProtocolViolation(what) => write!(f, "protocol violation by the peer: {what}"),
            Self::ShutdownTimeout => f.write_str("the peer did not complete the shutdown"),
            Self::GaveWay => f.write_str("nothing moved on it, and others needed its room"),
        }
    }
}

impl std::error::Error for CloseReason {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_peer_said_is_told() {
        let abort = |causes: &'static [u8]| CloseReason::PeerAbort {
            code: Some(u16::from_be_bytes([causes[0], causes[1]])),
            causes: Bytes::from_static(causes),
        };
        let told = abort(b"\0\x0c\0\x0ago\x1b[2m\0");
        assert_eq!(told.abort_text(), Some("go\x1b[2m"));
        assert_eq!(told.to_string(), "aborted by the peer: \"go\\u{1b}[2m\"");
        let nothing: [&[u8]; 5] = [
            b"\0\x0c\0\x04",
            b"\0\x0c\0\x06\xff\xff\0\0",
            b"\0\x0c\0\x40short",
            b"\0\x0c\0\0",
            b"\0\x0d\0\x06no\0\0",
        ];
        for causes in nothing {
            assert_eq!(abort(causes).abort_text(), None, "{causes:?}");
        }
    }
}
