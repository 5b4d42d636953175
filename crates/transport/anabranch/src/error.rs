//! Errors, by operation, and what to do about them.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use anabranch_proto::config::ConfigError;
use anabranch_proto::{CloseReason, OutgoingMessage};

/// Out of Resource (RFC 9260 section 3.3.10.4): the peer's endpoint has no room.
const OUT_OF_RESOURCE: u16 = 4;

/// Why an endpoint could not be bound.
#[derive(Debug)]
#[non_exhaustive]
pub enum BindError {
    /// A socket could not be opened on this address.
    Socket {
        /// Requested IP address and UDP port.
        address: SocketAddr,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A raw socket for IP protocol 132 could not be opened on this address.
    Raw {
        /// Local IP address.
        address: IpAddr,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The host's interfaces could not be listed.
    Interfaces(io::Error),
    /// The host does not have an interface with this name that is up and has an address.
    NoInterface(String),
    /// Several interfaces have this link-local address.
    AmbiguousLinkLocal(IpAddr),
    /// A socket that was passed in already open cannot be used.
    Opened(io::Error),
    /// The host has no usable address.
    NoAddress,
    /// The same local address was given twice.
    DuplicateAddress(IpAddr),
    /// No address can be added to this endpoint: it has those of the host, its sockets were passed in open, it has several
    /// shards or sealed paths, or it is closed.
    Fixed,
    /// The capture file could not be created.
    Capture {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The file of the event log could not be created.
    EventLog {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The operating system did not supply random numbers.
    Randomness,
    /// The endpoint cannot be divided into this many shards.
    Shards {
        /// The requested number of shards.
        count: usize,
        /// The reason.
        reason: &'static str,
    },
    /// The sealed paths cannot be set up.
    #[cfg(feature = "seal")]
    Seal(crate::seal::SetupError),
    /// An option of the endpoint is out of range.
    Config(ConfigError),
    /// `bind` was called outside of a tokio runtime, and no other runtime was given.
    NoRuntime,
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket { address, source } => {
                let (ip, port) = (address.ip(), address.port());
                write!(f, "cannot bind UDP port {port} on {ip}: ")?;
                match source.kind() {
                    io::ErrorKind::AddrInUse => f.write_str("address in use: choose another"),
                    io::ErrorKind::AddrNotAvailable => {
                        f.write_str("no interface of this host has this address")
                    }
                    io::ErrorKind::PermissionDenied => f.write_str(
                        "permission denied: ports below 1024 need privileges; choose a higher one",
                    ),
                    _ => source.fmt(f),
                }
            }
            Self::Raw { address, source } => {
                write!(f, "cannot open a raw socket for SCTP on {address}: ")?;
                match source.kind() {
                    io::ErrorKind::PermissionDenied => f.write_str(
                        "permission denied: run as root or give the program the capability \
                         CAP_NET_RAW (setcap cap_net_raw+ep FILE), or use SCTP over UDP, which \
                         needs neither",
                    ),
                    io::ErrorKind::AddrNotAvailable => {
                        f.write_str("no interface of this host has this address")
                    }
                    io::ErrorKind::Unsupported => {
                        f.write_str("this system has none: use SCTP over UDP")
                    }
                    _ => source.fmt(f),
                }
            }
            Self::Interfaces(source) => {
                write!(f, "cannot list this host's addresses: {source}: name the local ones")
            }
            Self::NoInterface(name) => write!(
                f,
                "there is no interface '{name}' that is up and has an address: see 'ip address'"
            ),
            Self::AmbiguousLinkLocal(ip) => {
                write!(f, "several interfaces have the address {ip}: name one, as in {ip}%eth0")
            }
            Self::Opened(source) => write!(f, "the socket given cannot be used: {source}"),
            Self::NoAddress => f.write_str("this host has no usable IP address: check its links"),
            Self::Fixed => f.write_str(
                "no address can be added to this endpoint: give addresses when it is bound",
            ),
            Self::DuplicateAddress(ip) => {
                write!(f, "the local address {ip} is given twice: by its addresses a path is known")
            }
            Self::Capture { path, source } => {
                write!(f, "cannot create the capture file {}: {source}", path.display())
            }
            Self::EventLog { path, source } => {
                write!(f, "cannot create the event log {}: {source}", path.display())
            }
            Self::Randomness => f.write_str("the operating system gives no random numbers"),
            Self::Shards { count, reason } => {
                write!(f, "an endpoint cannot have {count} shards: {reason}")
            }
            #[cfg(feature = "seal")]
            Self::Seal(error) => error.fmt(f),
            Self::Config(error) => write!(f, "cannot bind: {error}"),
            Self::NoRuntime => f.write_str("an endpoint must be bound within a tokio runtime"),
        }
    }
}

impl std::error::Error for BindError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Socket { source, .. }
            | Self::Raw { source, .. }
            | Self::Capture { source, .. }
            | Self::EventLog { source, .. } => Some(source),
            Self::Interfaces(source) | Self::Opened(source) => Some(source),
            #[cfg(feature = "seal")]
            Self::Seal(error) => error.source(),
            _ => None,
        }
    }
}

/// Why an endpoint cannot listen.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ListenError {
    /// Port 0 is not a valid SCTP port (RFC 9260 section 3.1).
    InvalidPort,
    /// This SCTP port is listened on already.
    InUse(u16),
    /// An option is out of range.
    Config(ConfigError),
    /// The endpoint was closed.
    EndpointClosed,
}

impl ListenError {
    /// The error for a port that the engine refuses to listen on.
    pub(crate) fn refused(port: u16, reason: anabranch_proto::ListenError) -> Self {
        use anabranch_proto::ListenError as Refused;
        match reason {
            Refused::Config(error) => Self::Config(error),
            Refused::InUse => Self::InUse(port),
            // The engine has no other reason at present.
            _ => Self::InvalidPort,
        }
    }
}

impl fmt::Display for ListenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InvalidPort => {
                f.write_str("cannot listen on SCTP port 0: 0 is not a valid SCTP port")
            }
            Self::InUse(port) => {
                write!(f, "cannot listen on SCTP port {port}: the SCTP port is in use")
            }
            Self::Config(error) => write!(f, "cannot listen: {error}"),
            Self::EndpointClosed => f.write_str(ENDPOINT_CLOSED),
        }
    }
}

impl std::error::Error for ListenError {}

/// Why no association was set up.
///
/// ```
/// # async fn example(endpoint: anabranch::Endpoint, peer: std::net::SocketAddr) {
/// use anabranch::{CloseReason, ConnectError, ConnectOptions};
///
/// match endpoint.connect(peer, ConnectOptions::default()).await {
///     Err(ConnectError::Failed { reason: CloseReason::ConnectTimeout, .. }) => println!("silence"),
///     Err(error) => println!("{error}"),
///     Ok(association) => drop(association),
/// }
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConnectError {
    /// The remote addresses have different SCTP ports, but an association has only one.
    PortsDiffer(u16, u16),
    /// No remote address was given.
    NoAddress,
    /// No local address reaches this remote address, nor any other that was given.
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
    /// The peer did not answer, or the handshake failed.
    Failed {
        /// The addresses tried.
        remotes: Vec<SocketAddr>,
        /// The UDP port tried; 0 for IP protocol 132.
        udp_port: u16,
        /// The reason.
        reason: CloseReason,
    },
    /// The endpoint was closed.
    EndpointClosed,
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PortsDiffer(a, b) => write!(
                f,
                "the remote addresses must have one SCTP port, not {a} and {b}: connect to each peer apart"
            ),
            Self::NoAddress => f.write_str("cannot connect: no remote address given"),
            Self::Unreachable(remote) => write!(
                f,
                "cannot connect: no local address reaches {remote}: bind to a local address of its \
                 family and scope, or to none for all"
            ),
            Self::InvalidPort => f.write_str("cannot connect: 0 is not a valid SCTP port"),
            Self::TooManyAssociations => f.write_str(
                "cannot connect: too many associations: close some, or raise max_associations",
            ),
            Self::OutOfMemory => {
                f.write_str("cannot connect: the endpoint's memory_limit is used up")
            }
            Self::AlreadyConnected => f.write_str(
                "cannot connect: an association with this peer's ports exists: use it, or choose \
                 another local port",
            ),
            Self::Config(error) => write!(f, "cannot connect: {error}"),
            Self::Failed { remotes, udp_port, reason } => failed(f, remotes, *udp_port, reason),
            Self::EndpointClosed => f.write_str(ENDPOINT_CLOSED),
        }
    }
}

impl std::error::Error for ConnectError {}

/// Why a peer could not be reached, and what to check.
fn failed(
    f: &mut fmt::Formatter<'_>,
    remotes: &[SocketAddr],
    udp_port: u16,
    reason: &CloseReason,
) -> fmt::Result {
    f.write_str("cannot connect to ")?;
    for (index, remote) in remotes.iter().enumerate() {
        write!(f, "{}{remote}", if index == 0 { "" } else { ", " })?;
    }
    let carrier = if udp_port == 0 { "IP protocol 132" } else { "UDP" };
    match udp_port {
        0 => write!(f, " over {carrier}: {reason}")?,
        port => write!(f, " over {carrier} port {port}: {reason}")?,
    }
    match reason {
        CloseReason::ConnectTimeout => {
            write!(f, ": check that a server listens there and that no firewall stops {carrier}")
        }
        // 14: restart of an association with a new encapsulation port.
        CloseReason::PeerAbort { code: Some(14), .. } => f.write_str(
            ": it began an association itself with a host at this address, \
             maybe behind the same NAT: choose another local port",
        ),
        CloseReason::PeerAbort { code: Some(OUT_OF_RESOURCE), .. } => {
            f.write_str(": the server is full, try again later")
        }
        // The peer answered with a text that explains the reason.
        CloseReason::PeerAbort { .. } if reason.abort_text().is_some() => Ok(()),
        CloseReason::PeerAbort { .. } => {
            f.write_str(": check that a server listens on this SCTP port")
        }
        CloseReason::PortUnreachable => {
            f.write_str(": check that a server runs there, and its UDP port")
        }
        CloseReason::NoSctp => f.write_str(": start a server there"),
        _ => Ok(()),
    }
}

impl ConnectError {
    /// The error for an attempt that the engine refuses.
    pub(crate) fn refused(reason: anabranch_proto::ConnectError) -> Self {
        use anabranch_proto::ConnectError as Refused;
        match reason {
            Refused::NoAddress => Self::NoAddress,
            Refused::Unreachable(remote) => Self::Unreachable(remote),
            Refused::InvalidPort => Self::InvalidPort,
            Refused::OutOfMemory => Self::OutOfMemory,
            Refused::AlreadyConnected => Self::AlreadyConnected,
            Refused::Config(error) => Self::Config(error),
            // The engine's list of reasons may grow: any other one would also mean that there is no
            // room.
            _ => Self::TooManyAssociations,
        }
    }
}

/// The association has ended, or no longer supports the operation.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AssociationError {
    /// It ended for this reason.
    Closed(CloseReason),
    /// It is being shut down and accepts no more messages.
    ShuttingDown,
    /// The peer lost its state and set the association up again: the earlier streams have ended,
    /// and undelivered messages were returned.
    Restarted,
    /// Its endpoint was closed.
    EndpointClosed,
}

impl fmt::Display for AssociationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed(reason) => write!(f, "the association ended: {reason}"),
            Self::ShuttingDown => f.write_str("the association is being shut down"),
            Self::Restarted => f.write_str("the peer restarted: open new streams and begin again"),
            Self::EndpointClosed => f.write_str(ENDPOINT_CLOSED),
        }
    }
}

impl std::error::Error for AssociationError {}

impl From<AssociationError> for io::Error {
    fn from(error: AssociationError) -> Self {
        let kind = match &error {
            AssociationError::Closed(reason) => match reason {
                CloseReason::PeerAbort { .. } => io::ErrorKind::ConnectionReset,
                CloseReason::LocalAbort | CloseReason::GaveWay => io::ErrorKind::ConnectionAborted,
                CloseReason::Shutdown => io::ErrorKind::BrokenPipe,
                CloseReason::ConnectTimeout
                | CloseReason::Unreachable
                | CloseReason::ShutdownTimeout => io::ErrorKind::TimedOut,
                _ => io::ErrorKind::Other,
            },
            AssociationError::ShuttingDown => io::ErrorKind::BrokenPipe,
            AssociationError::Restarted => io::ErrorKind::ConnectionReset,
            AssociationError::EndpointClosed => io::ErrorKind::NotConnected,
        };
        Self::new(kind, error)
    }
}

/// Why a message was not accepted; contains the message, unchanged.
///
/// ```
/// # fn example(association: anabranch::Association, message: anabranch::OutgoingMessage) {
/// use anabranch::SendErrorReason;
///
/// match association.try_send(message) {
///     Err(error) if error.reason == SendErrorReason::Blocked => {
///         println!("no room for {} bytes yet", error.message.data.len());
///     }
///     Err(error) => println!("{error}"),
///     Ok(()) => {}
/// }
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct SendError {
    /// The reason.
    pub reason: SendErrorReason,
    /// The message.
    pub message: OutgoingMessage,
}

impl SendError {
    /// The error of an attempt; `message` is present unless it was accepted.
    pub(crate) fn of(
        result: Result<(), SendErrorReason>,
        message: Option<OutgoingMessage>,
    ) -> Result<(), Self> {
        match (result, message) {
            (Err(reason), Some(message)) => Err(Self { reason, message }),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reason.fmt(f)
    }
}

impl std::error::Error for SendError {}

impl From<SendError> for io::Error {
    fn from(error: SendError) -> Self {
        error.reason.into()
    }
}

/// Reasons of a [`SendError`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SendErrorReason {
    /// The send buffer is full; only `try_send` returns this.
    Blocked,
    /// The message is empty, which SCTP does not allow.
    Empty,
    /// The message is longer than the option `max_message_size`.
    TooLong,
    /// The stream does not exist; the value is the number of outbound streams.
    NoSuchStream(u16),
    /// The peer stopped reading this byte stream.
    Stopped,
    /// The association has ended or accepts no more messages.
    Association(AssociationError),
}

impl fmt::Display for SendErrorReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Blocked => f.write_str("the send buffer is full: wait, or use send"),
            Self::Empty => f.write_str("a message has at least one byte"),
            Self::Stopped => f.write_str("the peer reads no more of this stream"),
            Self::TooLong => f.write_str("the message is longer than max_message_size"),
            Self::NoSuchStream(count) => {
                write!(f, "no such stream: there are {count}; ask for more with outbound_streams")
            }
            Self::Association(error) => error.fmt(f),
        }
    }
}

impl From<SendErrorReason> for io::Error {
    fn from(reason: SendErrorReason) -> Self {
        match reason {
            SendErrorReason::Association(error) => error.into(),
            SendErrorReason::Blocked => Self::new(io::ErrorKind::WouldBlock, reason.to_string()),
            SendErrorReason::Stopped => Self::new(io::ErrorKind::BrokenPipe, reason.to_string()),
            _ => Self::new(io::ErrorKind::InvalidInput, reason.to_string()),
        }
    }
}

/// Why a stream is not available.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StreamError {
    /// The stream does not exist; the association has this many streams in both directions.
    NoSuchStream {
        /// The requested stream.
        stream: u16,
        /// The number of streams.
        count: u16,
    },
    /// A handle of this stream exists already.
    InUse(u16),
    /// The association has ended.
    Association(AssociationError),
}

impl fmt::Display for StreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchStream { stream, count } => {
                write!(f, "no stream {stream}: there are {count}, the first is 0")
            }
            Self::InUse(stream) => write!(f, "stream {stream} is in use: drop its handles first"),
            Self::Association(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for StreamError {}

impl From<StreamError> for io::Error {
    fn from(error: StreamError) -> Self {
        match error {
            StreamError::Association(error) => error.into(),
            other => Self::new(io::ErrorKind::InvalidInput, other),
        }
    }
}

/// The association did not end gracefully.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CloseError {
    /// How the association ended.
    pub error: AssociationError,
    /// Number of messages that may not have reached the peer; each was reported by
    /// [`Notification::SendFailed`](crate::Notification::SendFailed).
    pub undelivered: u64,
}

impl fmt::Display for CloseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.undelivered {
            0 => self.error.fmt(f),
            1 => write!(f, "{}; 1 message may not have arrived", self.error),
            count => write!(f, "{}; {count} messages may not have arrived", self.error),
        }
    }
}

impl std::error::Error for CloseError {}

impl From<CloseError> for io::Error {
    fn from(error: CloseError) -> Self {
        error.error.into()
    }
}

const ENDPOINT_CLOSED: &str = "the endpoint is closed";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_say_what_to_do() {
        let error = BindError::Socket {
            address: SocketAddr::from(([10, 0, 0, 1], 9899)),
            source: io::ErrorKind::AddrInUse.into(),
        };
        assert_eq!(
            error.to_string(),
            "cannot bind UDP port 9899 on 10.0.0.1: address in use: choose another"
        );
        let error = ConnectError::Failed {
            remotes: vec![([10, 0, 0, 1], 80).into(), ([10, 0, 1, 1], 80).into()],
            udp_port: 9899,
            reason: CloseReason::ConnectTimeout,
        };
        assert_eq!(
            error.to_string(),
            "cannot connect to 10.0.0.1:80, 10.0.1.1:80 over UDP port 9899: the peer did not \
             answer: check that a server listens there and that no firewall stops UDP"
        );
    }

    #[test]
    fn a_server_that_is_full_is_told_from_one_that_is_not_there() {
        let abort = |code| ConnectError::Failed {
            remotes: vec![([10, 0, 0, 1], 80).into()],
            udp_port: 9899,
            reason: CloseReason::PeerAbort { code, causes: Default::default() },
        };
        let full = abort(Some(4)).to_string();
        assert!(full.ends_with("the server is full, try again later"), "{full}");
        assert!(abort(None).to_string().contains("check that a server listens"));
    }

    #[test]
    fn what_may_not_have_arrived_is_counted() {
        let text = |undelivered| {
            CloseError { error: AssociationError::Restarted, undelivered }.to_string()
        };
        assert!(text(1).ends_with("; 1 message may not have arrived"));
        assert!(text(2).ends_with("; 2 messages may not have arrived"));
    }

    #[test]
    fn close_reasons_map_to_io_errors() {
        let kind = |reason| io::Error::from(AssociationError::Closed(reason)).kind();
        assert_eq!(kind(CloseReason::LocalAbort), io::ErrorKind::ConnectionAborted);
        assert_eq!(kind(CloseReason::Unreachable), io::ErrorKind::TimedOut);
        let blocked = io::Error::from(SendErrorReason::Blocked);
        assert_eq!(blocked.kind(), io::ErrorKind::WouldBlock);
    }
}
