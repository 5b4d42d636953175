//! What a log says about a connection.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::status::Status;

/// How a client of the near side asked for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Asked {
    /// A request through the HTTP proxy, with its method.
    Http,
    /// CONNECT of HTTP.
    Connect,
    /// CONNECT of SOCKS5.
    Socks5,
    /// A connection of a command that has its network through the near side.
    Command,
    /// UDP ASSOCIATE of SOCKS5, or a flow of UDP from the near side.
    Udp,
    /// A stream from the near side.
    Stream,
}

impl Asked {
    /// A short word for logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Connect => "connect",
            Self::Socks5 => "socks5",
            Self::Command => "command",
            Self::Udp => "udp",
            Self::Stream => "stream",
        }
    }
}

/// A connection or request that has ended.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Access {
    /// How it was asked for.
    pub asked: Asked,
    /// The client of the near side, or the near side itself.
    pub client: Option<SocketAddr>,
    /// The method and URL of a request, or the target of a connection; empty if the request was malformed.
    pub target: String,
    /// The address that the far side connected to.
    pub address: Option<SocketAddr>,
    /// Whether it was connected.
    pub status: Status,
    /// The status code of the answer to a request.
    pub code: Option<u16>,
    /// Bytes towards the target.
    pub bytes_sent: u64,
    /// Bytes from the target.
    pub bytes_received: u64,
    /// From the request to the end.
    pub took: Duration,
    /// Why it ended, if not by the will of its ends.
    pub error: Option<String>,
}

/// Receives the log; must not block.
pub type Log = Arc<dyn Fn(Access) + Send + Sync>;
