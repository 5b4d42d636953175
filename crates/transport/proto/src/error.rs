//! Errors, by operation.

use std::fmt;
use std::net::IpAddr;

use crate::message::OutgoingMessage;
use crate::options::ConfigError;

/// Why [`Endpoint::connect`](crate::Endpoint::connect) failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConnectError {
    /// There is no remote address.
    NoAddress,
    /// No local address reaches any of the remote addresses: add one, or check the routes.
    Unreachable(IpAddr),
    /// Port 0 is not a valid SCTP port (RFC 9260 section 3.1).
    InvalidPort,
    /// The endpoint has reached its maximum number of associations.
    TooManyAssociations,
    /// The buffers of the endpoint's associations have reached the memory limit.
    OutOfMemory,
    /// An association with these ports and addresses exists.
    AlreadyConnected,
    /// An option is out of range.
    Config(ConfigError),
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoAddress => f.write_str("no remote address given"),
            Self::Unreachable(remote) => write!(f, "no local address reaches {remote}"),
            Self::InvalidPort => f.write_str("0 is not a valid SCTP port"),
            Self::TooManyAssociations => f.write_str("too many associations"),
            Self::OutOfMemory => f.write_str("the endpoint's memory_limit is used up"),
            Self::AlreadyConnected => f.write_str("an association with this peer's ports exists"),
            Self::Config(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ConnectError {}

/// Why [`Endpoint::listen`](crate::Endpoint::listen) failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ListenError {
    /// Port 0 is not a valid SCTP port.
    InvalidPort,
    /// Another listener uses the port.
    InUse,
    /// An option is out of range.
    Config(ConfigError),
}

impl fmt::Display for ListenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InvalidPort => f.write_str("0 is not a valid SCTP port"),
            Self::InUse => f.write_str("the SCTP port is in use"),
            Self::Config(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ListenError {}

/// Why a message was not accepted; contains the message, unchanged.
#[derive(Clone, Debug)]
pub struct SendError {
    /// The reason.
    pub reason: SendErrorReason,
    /// The message.
    pub message: OutgoingMessage,
}

/// Reasons of a [`SendError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SendErrorReason {
    /// The send buffer is full: wait for [`Event::Writable`](crate::Event::Writable).
    Blocked,
    /// The message is empty, which SCTP does not allow.
    Empty,
    /// The message is longer than `max_message_size`.
    TooLong,
    /// The stream does not exist; the value is the number of outbound streams.
    NoSuchStream(u16),
    /// The association is shutting down or closed.
    Closed,
    /// A byte stream cannot lose a part of its data, so its messages have no [`Reliability`](crate::Reliability).
    ByteStream,
}

impl fmt::Display for SendErrorReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Blocked => f.write_str("the send buffer is full"),
            Self::Empty => f.write_str("a message has at least one byte"),
            Self::TooLong => f.write_str("the message is longer than max_message_size"),
            Self::NoSuchStream(count) => {
                write!(f, "no such stream: the association has {count} outbound streams")
            }
            Self::Closed => f.write_str("the association is shutting down or closed"),
            Self::ByteStream => f.write_str("a byte stream cannot lose a part of its data"),
        }
    }
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reason.fmt(f)
    }
}

impl std::error::Error for SendError {}

/// The association does not have this path, or cannot use it for the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoSuchPath;

impl fmt::Display for NoSuchPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the association has no such confirmed path")
    }
}

impl std::error::Error for NoSuchPath {}
