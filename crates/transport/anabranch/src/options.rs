//! Options for connect and listen.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use anabranch_proto::AssociationConfig;
use anabranch_proto::config::IpVersions;

/// UDP port of SCTP over UDP (RFC 6951 section 7).
pub const SCTP_UDP_PORT: u16 = 9899;

/// The default of [`ConnectOptions::linger`].
pub(crate) const LINGER: Duration = Duration::from_secs(5);

/// Options of [`Endpoint::connect`](crate::Endpoint::connect). Set the fields, or use the methods.
///
/// ```
/// use std::time::Duration;
///
/// use anabranch::ConnectOptions;
///
/// let options = ConnectOptions::default()
///     .with_remote_udp_port(7000)
///     .with_linger(Duration::from_secs(1))
///     .with_config(|config| config.timers.rto_min = Duration::from_millis(200));
/// assert_eq!(options.config.timers.rto_min.as_millis(), 200);
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ConnectOptions {
    /// Options of the association.
    pub config: AssociationConfig,
    /// The peer's UDP port, from 1; ignored by an endpoint without UDP. Default: 9899.
    pub remote_udp_port: u16,
    /// SCTP port of this side; `None` chooses a free one.
    pub local_port: Option<u16>,
    /// The versions of IP to use. Addresses of the other version are not announced to the peer, and those of the peer
    /// are not used. Default: both.
    pub ip_versions: IpVersions,
    /// When the last handle is dropped, the association is shut down gracefully. It is aborted if none of the sent data
    /// is delivered for this time; any delivery starts the time again, so a slow link gets as long as it needs. Zero
    /// aborts immediately. Default: 5 s.
    pub linger: Duration,
}

impl Default for ConnectOptions {
    fn default() -> Self {
        AssociationConfig::default().into()
    }
}

impl From<AssociationConfig> for ConnectOptions {
    fn from(config: AssociationConfig) -> Self {
        Self {
            config,
            remote_udp_port: SCTP_UDP_PORT,
            local_port: None,
            ip_versions: IpVersions::Both,
            linger: LINGER,
        }
    }
}

impl ConnectOptions {
    /// Changes options of the association.
    #[must_use]
    pub fn with_config(mut self, change: impl FnOnce(&mut AssociationConfig)) -> Self {
        change(&mut self.config);
        self
    }

    /// Sets [`remote_udp_port`](Self::remote_udp_port).
    #[must_use]
    pub fn with_remote_udp_port(mut self, port: u16) -> Self {
        self.remote_udp_port = port;
        self
    }

    /// Sets [`ip_versions`](Self::ip_versions).
    #[must_use]
    pub fn with_ip_versions(mut self, versions: IpVersions) -> Self {
        self.ip_versions = versions;
        self
    }

    /// Sets [`local_port`](Self::local_port).
    #[must_use]
    pub fn with_local_port(mut self, port: u16) -> Self {
        self.local_port = Some(port);
        self
    }

    /// Sets [`linger`](Self::linger).
    #[must_use]
    pub fn with_linger(mut self, linger: Duration) -> Self {
        self.linger = linger;
        self
    }
}

/// Options of [`Endpoint::listen`](crate::Endpoint::listen). Set the fields, or use the methods.
///
/// ```
/// use anabranch::ListenOptions;
///
/// let options = ListenOptions::default()
///     .with_backlog(16)
///     .with_config(|config| config.receiving.inbound_streams = 100);
/// assert_eq!((options.backlog, options.config.receiving.inbound_streams), (16, 100));
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ListenOptions {
    /// Options of the associations.
    pub config: AssociationConfig,
    /// Maximum number of associations that wait to be accepted; further ones are aborted. Default: 1,024.
    pub backlog: usize,
    /// As [`ConnectOptions::ip_versions`]; packets of the other version are not answered.
    pub ip_versions: IpVersions,
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
        Self { config, backlog: 1024, ip_versions: IpVersions::Both, linger: LINGER }
    }
}

impl ListenOptions {
    /// Changes options of the associations.
    #[must_use]
    pub fn with_config(mut self, change: impl FnOnce(&mut AssociationConfig)) -> Self {
        change(&mut self.config);
        self
    }

    /// Sets [`ip_versions`](Self::ip_versions).
    #[must_use]
    pub fn with_ip_versions(mut self, versions: IpVersions) -> Self {
        self.ip_versions = versions;
        self
    }

    /// Sets [`backlog`](Self::backlog).
    #[must_use]
    pub fn with_backlog(mut self, backlog: usize) -> Self {
        self.backlog = backlog;
        self
    }

    /// Sets [`linger`](Self::linger).
    #[must_use]
    pub fn with_linger(mut self, linger: Duration) -> Self {
        self.linger = linger;
        self
    }
}

/// Addresses of one peer: IP addresses with its SCTP port.
///
/// Made from one address or a list of them; all must have the same port. Names must be resolved first, for instance
/// with `tokio::net::lookup_host`.
///
/// ```
/// use std::net::{IpAddr, SocketAddr};
///
/// use anabranch::Remotes;
///
/// let ips: [IpAddr; 2] = [[192, 0, 2, 1].into(), [198, 51, 100, 1].into()];
/// let remotes: Remotes = ips.iter().map(|ip| SocketAddr::new(*ip, 5000)).collect();
/// assert_eq!(remotes.iter().count(), 2);
/// assert_eq!(Remotes::from((ips[0], 5000)).into_iter().next(), remotes.iter().next().copied());
/// ```
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

impl Remotes {
    /// The addresses in the order in which they were given.
    pub fn iter(&self) -> std::slice::Iter<'_, SocketAddr> {
        self.0.iter()
    }
}

impl IntoIterator for Remotes {
    type Item = SocketAddr;
    type IntoIter = std::vec::IntoIter<SocketAddr>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a> IntoIterator for &'a Remotes {
    type Item = &'a SocketAddr;
    type IntoIter = std::slice::Iter<'a, SocketAddr>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
