//! Events that an association reports to its user (RFC 9260 section 11.2).

use std::fmt;
use std::net::IpAddr;

use anabranch_wire::cause_code;
use bytes::Bytes;

use crate::features::Features;
use crate::message::OutgoingMessage;
use crate::per_path::PathId;

/// Identifies an association of an [`Endpoint`](crate::Endpoint) for as long as the endpoint
/// lives: a number is never given to two associations.
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

/// Something that happened to an association.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// COMMUNICATION UP. The first event of every association that comes to be, but for messages that
    /// were given before and come back because the peer does not take their streams.
    Connected {
        /// Whether the peer took the first step: a listener's association.
        incoming: bool,
        /// Streams this side may send on.
        outbound_streams: u16,
        /// Streams the peer may send on.
        inbound_streams: u16,
        /// Extensions to RFC 9260 that both sides agreed on.
        features: Features,
    },
    /// RESTART: the peer lost its state and set the association up again. Everything that it had not
    /// acknowledged, sent or not, has already come back as [`Event::SendFailed`]; stream sequence
    /// numbers start at 0 again, and the numbers of streams may differ. A graceful shutdown that was
    /// requested continues with the new incarnation.
    Restarted {
        /// Streams this side may send on.
        outbound_streams: u16,
        /// Streams the peer may send on.
        inbound_streams: u16,
        /// Extensions to RFC 9260 that both sides agreed on with the new incarnation.
        features: Features,
    },
    /// A message, or a part of one, can be taken with
    /// [`Association::receive`](crate::Association::receive).
    Readable,
    /// The send buffer has room again after a send was refused.
    Writable,
    /// All messages that were given are acknowledged or given up, after
    /// [`Association::tell_when_dry`](crate::Association::tell_when_dry) asked for it.
    SenderDry,
    /// SEND FAILURE: a message that was given up.
    SendFailed {
        /// The message with the part of its data that was not acknowledged. The data is empty if
        /// the peer acknowledged all of it for good, but may not have delivered it.
        message: Box<OutgoingMessage>,
        /// Whether part of it was sent, so that the peer may have it.
        sent: bool,
    },
    /// NETWORK STATUS CHANGE.
    PathChanged {
        /// The path.
        path: PathId,
        /// Its local address.
        local: IpAddr,
        /// Its remote address.
        remote: IpAddr,
        /// Its new state.
        state: PathState,
    },
    /// New data goes over another path from now on.
    ActivePathChanged {
        /// The path.
        path: PathId,
        /// Its remote address.
        remote: IpAddr,
    },
    /// The path in use failed, perhaps only potentially, or its failover became permanent.
    FailedOver {
        /// The path that new data leaves.
        from: PathId,
        /// The path for new data.
        to: PathId,
        /// Its remote address.
        remote: IpAddr,
        /// It is the primary path from now on (caro 3.4); otherwise data returns to the primary
        /// path when that answers.
        permanent: bool,
    },
    /// Every path has failed: data goes where the dormant behaviour says until a path answers or
    /// the association is given up (caro 3.3.6, RFC 7829 section 4).
    Dormant,
    /// A path that had failed answers, and new data returns to it.
    Recovered {
        /// The path.
        path: PathId,
        /// Its remote address.
        remote: IpAddr,
    },
    /// COMMUNICATION ERROR: the peer reported an error that does not end the association.
    PeerError {
        /// The cause's code.
        code: u16,
        /// The whole cause as received.
        cause: Bytes,
    },
    /// The peer announced an adaptation layer (RFC 5061 section 4.2.6).
    AdaptationIndication(u32),
    /// The peer sends nothing more; outstanding data of this side is still delivered.
    PeerShutdown,
    /// COMMUNICATION LOST or SHUTDOWN COMPLETE. The last event of an association. Received
    /// messages can still be taken until the association is removed.
    Closed(CloseReason),
}

/// State of a path (RFC 9260 sections 5.4 and 8.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum PathState {
    /// Not yet known to lead to the peer; carries no user data.
    Unconfirmed,
    /// In use or ready for use.
    Active,
    /// Its error count exceeds PotentiallyFailed.Max.Retrans, and Path.Max.Retrans not yet: data
    /// takes an active path if there is one, and heartbeats find out (RFC 7829).
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
    /// This side wants to end it and waits for its data to be acknowledged.
    ShutdownPending,
    /// SHUTDOWN was sent.
    ShutdownSent,
    /// The peer wants to end the association; outstanding data of this side is still delivered.
    ShutdownReceived,
    /// SHUTDOWN ACK was sent.
    ShutdownAckSent,
    /// It has ended.
    Closed,
}

impl AssociationState {
    /// The RFC's word for it, as in `SHUTDOWN-SENT`.
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
    /// Graceful shutdown; all that was sent is acknowledged.
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
    /// The peer refuses what this side's handshake needs.
    HandshakeFailed(&'static str),
    /// The peer stopped answering: Association.Max.Retrans was exceeded.
    Unreachable,
    /// The peer broke the protocol, and this side aborted.
    ProtocolViolation(&'static str),
    /// The shutdown was not completed in time (T5-shutdown-guard).
    ShutdownTimeout,
    /// The endpoint had no memory or place left for others, and nothing had moved on this
    /// association for several RTOs.
    GaveWay,
}

impl CloseReason {
    /// The reason that the peer's user gave with its abort (User-Initiated Abort, RFC 9260 section 3.3.10.12),
    /// if it gave one and it is text.
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
            // The text is not trusted: limit its length and drop what a terminal takes for a
            // command.
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
