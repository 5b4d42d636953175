//! Families of addresses: those of a socket, and IPv4 addresses that look like IPv6 ones.

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

/// The IPv6 form of an IPv4 address (`::ffff:192.0.2.1`), as SCTP_I_WANT_MAPPED_V4_ADDR asks for it.
pub fn mapped(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V4(v4) => SocketAddr::new(v4.ip().to_ipv6_mapped().into(), v4.port()),
        v6 @ SocketAddr::V6(_) => v6,
    }
}
