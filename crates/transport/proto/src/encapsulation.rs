//! Encapsulation of SCTP packets, and the size of its headers.

use std::net::IpAddr;

/// The layer below SCTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encapsulation {
    /// IP protocol 132.
    Ip,
    /// UDP (RFC 6951).
    Udp,
}

impl Encapsulation {
    /// Bytes of an IP packet to `remote` that precede the SCTP packet.
    pub const fn overhead(self, remote: IpAddr) -> usize {
        let ip = if remote.is_ipv4() { 20 } else { 40 };
        match self {
            Self::Ip => ip,
            Self::Udp => ip + 8,
        }
    }
}
