//! Address families of sockets, and IPv4-mapped addresses.

use std::net::{IpAddr, SocketAddr};

/// The family of a socket's addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// AF_INET: IPv4 only.
    Ipv4,
    /// AF_INET6: IPv6 and IPv4.
    Ipv6,
}

impl Family {
    /// Whether a socket of this family can use an address.
    #[must_use]
    pub fn fits(self, ip: IpAddr) -> bool {
        ip.is_ipv4() || self == Self::Ipv6
    }
}

/// The mapped form of an IPv4 address (`::ffff:192.0.2.1`), for SCTP_I_WANT_MAPPED_V4_ADDR.
pub fn mapped(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V4(v4) => SocketAddr::new(v4.ip().to_ipv6_mapped().into(), v4.port()),
        v6 @ SocketAddr::V6(_) => v6,
    }
}
