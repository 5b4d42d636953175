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

/// All headers between IP and SCTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Headers {
    pub(crate) encapsulation: Encapsulation,
    /// Bytes that a layer between SCTP and the encapsulation adds to each packet.
    pub(crate) shim: u8,
}

impl Headers {
    /// Bytes of an IP packet to `remote` that are not part of the SCTP packet.
    pub(crate) const fn overhead(self, remote: IpAddr) -> usize {
        self.encapsulation.overhead(remote) + self.shim as usize
    }
}

impl From<Encapsulation> for Headers {
    fn from(encapsulation: Encapsulation) -> Self {
        Self { encapsulation, shim: 0 }
    }
}
