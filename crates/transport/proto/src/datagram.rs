//! Packets as a driver passes them to and from the engine.

use std::net::IpAddr;

/// ECN codepoint of an IP packet (RFC 3168).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ecn {
    /// ECN-capable transport, codepoint 10.
    Ect0,
    /// ECN-capable transport, codepoint 01.
    Ect1,
    /// Congestion experienced.
    Ce,
}

impl Ecn {
    /// Marks a packet with this codepoint, as a router does (RFC 3168 section 5). Returns false for a packet that is not
    /// ECN-capable, which does not change.
    pub fn mark(codepoint: &mut Option<Self>) -> bool {
        match codepoint {
            Some(ecn) => *ecn = Self::Ce,
            None => return false,
        }
        true
    }

    /// The two bits of the field in the IP header; never 00, which means 'not ECN-capable'.
    pub const fn bits(self) -> u8 {
        match self {
            Self::Ect1 => 1,
            Self::Ect0 => 2,
            Self::Ce => 3,
        }
    }
}

/// Source and destination of a received batch of packets.
#[derive(Clone, Copy, Debug)]
pub struct Received {
    /// Address of this host that they were sent to.
    pub local: IpAddr,
    /// Source address.
    pub remote: IpAddr,
    /// UDP source port; 0 for IP protocol 132.
    pub remote_udp_port: u16,
    /// ECN codepoint.
    pub ecn: Option<Ecn>,
    /// Size of each packet of the batch, except the last, which may be shorter.
    pub segment_size: usize,
}

/// Packets to be sent: `len` bytes at the end of the buffer given to
/// [`Endpoint::poll_transmit`](crate::Endpoint::poll_transmit).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// Source address.
    pub local: IpAddr,
    /// Destination address.
    pub remote: IpAddr,
    /// Destination UDP port; 0 for IP protocol 132.
    pub remote_udp_port: u16,
    /// ECN codepoint to set.
    pub ecn: Option<Ecn>,
    /// Number of bytes in total.
    pub len: usize,
    /// Size of each packet, except the last, which may be shorter.
    pub segment_size: usize,
    /// Routers must not fragment these packets.
    pub dont_fragment: bool,
    /// Answers a packet that does not belong to an association or a listener of this endpoint. If another
    /// stack on the host receives the same packets, it may be responsible for the answer.
    pub out_of_the_blue: bool,
    /// The destination has not answered yet: this answers an unknown peer, or verifies an address that a
    /// peer has listed. The host may take a long time to resolve the destination, or to find that it is
    /// unreachable, so a driver sends such packets from a separate buffer.
    pub unverified: bool,
    /// The association follows the host's addresses (option `roam`): a driver should send over the interface that has the
    /// source address, where the routes allow it.
    pub roams: bool,
}
