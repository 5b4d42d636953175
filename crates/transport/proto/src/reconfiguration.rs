//! Changes of the streams of an association that is up (RFC 6525), as its user sees them.

use std::fmt;

use crate::named::named;

/// The streams that a reset is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StreamDirection {
    /// The streams on which the peer sends: it is asked to reset them.
    Incoming,
    /// The streams on which this side sends.
    Outgoing,
    /// Both.
    Both,
}

impl StreamDirection {
    pub(crate) fn is_incoming(self) -> bool {
        matches!(self, Self::Incoming | Self::Both)
    }

    pub(crate) fn is_outgoing(self) -> bool {
        matches!(self, Self::Outgoing | Self::Both)
    }
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReconfigurationResult {
    /// The change took place.
    Performed,
    /// The peer refused it; nothing has changed.
    Denied,
    /// It failed: the peer reported an error or never answered, the peer restarted, or the association is shutting down
    /// or has ended.
    Failed,
}

named!(ReconfigurationResult { Performed = "performed", Denied = "denied", Failed = "failed", });

/// Why a request was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReconfigurationError {
    /// The peer does not support stream reconfiguration, or the option `stream_reconfiguration` is off.
    NotNegotiated,
    /// An earlier request about the same streams, or about the association, has not ended yet. The TSNs are reset at
    /// most once in 30 seconds.
    Outstanding,
    /// The stream does not exist.
    NoSuchStream(u16),
    /// There would be more than 65,535 streams, or more than the option `inbound_streams` allows.
    TooManyStreams,
    /// The association is shutting down or closed.
    Closed,
}

impl fmt::Display for ReconfigurationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotNegotiated => f.write_str("the peer does not support stream reconfiguration"),
            Self::Outstanding => f.write_str("an earlier request has not ended yet"),
            Self::NoSuchStream(stream) => write!(f, "there is no stream {stream}"),
            Self::TooManyStreams => f.write_str("the association cannot have that many streams"),
            Self::Closed => f.write_str("the association is shutting down or closed"),
        }
    }
}

impl std::error::Error for ReconfigurationError {}
