//! What the application chooses when it connects and listens.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use anabranch_proto::AssociationConfig;

/// UDP port of SCTP over UDP (RFC 6951 section 7).
pub const SCTP_UDP_PORT: u16 = 9899;

/// How long dropped associations that are shut down may deliver nothing, unless told otherwise.
pub(crate) const LINGER: Duration = Duration::from_secs(5);

/// Options of [`Endpoint::connect`](crate::Endpoint::connect).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ConnectOptions {
    /// Options of the association.
    pub config: AssociationConfig,
    /// The peer's UDP port. 9899.
    pub remote_udp_port: u16,
    /// SCTP port of this side; `None` takes a free one.
    pub local_port: Option<u16>,
    /// How long the graceful shutdown of a dropped association may deliver nothing of what was sent
    /// before it is aborted; zero aborts at once. A slow link takes the time it needs. 5 s.
    pub linger: Duration,
}

impl Default for ConnectOptions {
    fn default() -> Self {
        AssociationConfig::default().into()
    }
}

impl From<AssociationConfig> for ConnectOptions {
    fn from(config: AssociationConfig) -> Self {
        Self { config, remote_udp_port: SCTP_UDP_PORT, local_port: None, linger: LINGER }
    }
}

/// Options of [`Endpoint::listen`](crate::Endpoint::listen).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ListenOptions {
    /// Options of the associations.
    pub config: AssociationConfig,
    /// Associations that may wait to be accepted; more are aborted. 1,024.
    pub backlog: usize,
    /// As [`ConnectOptions::linger`].
    pub linger: Duration,
}

impl Default for ListenOptions {
    fn default() -> Self {
        AssociationConfig::default().into()
    }
}

impl From<AssociationConfig> for ListenOptions {
    fn from(config: AssociationConfig) -> Self {
        Self { config, backlog: 1024, linger: LINGER }
    }
}

/// Addresses of one peer: IP addresses with its SCTP port.
///
/// Made from one address or a list of them; all must have the same port. Names are resolved by
/// the caller, for instance with `tokio::net::lookup_host`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remotes(pub(crate) Vec<SocketAddr>);

impl From<SocketAddr> for Remotes {
    fn from(address: SocketAddr) -> Self {
        Self(vec![address])
    }
}

impl<I: Into<IpAddr>> From<(I, u16)> for Remotes {
    fn from(address: (I, u16)) -> Self {
        Self(vec![address.into()])
    }
}

impl From<Vec<SocketAddr>> for Remotes {
    fn from(addresses: Vec<SocketAddr>) -> Self {
        Self(addresses)
    }
}

impl From<&[SocketAddr]> for Remotes {
    fn from(addresses: &[SocketAddr]) -> Self {
        Self(addresses.to_vec())
    }
}

impl<const N: usize> From<[SocketAddr; N]> for Remotes {
    fn from(addresses: [SocketAddr; N]) -> Self {
        Self(addresses.to_vec())
    }
}

impl FromIterator<SocketAddr> for Remotes {
    fn from_iter<T: IntoIterator<Item = SocketAddr>>(addresses: T) -> Self {
        Self(addresses.into_iter().collect())
    }
}
