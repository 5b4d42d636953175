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
    /// The two bits of the IP header's field; never 00, 'not ECN-capable'.
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
    /// Bytes of each packet of the batch but the last, which may be shorter.
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
    /// Bytes in all.
    pub len: usize,
    /// Bytes of each packet but the last, which may be shorter.
    pub segment_size: usize,
    /// Routers must not fragment these packets.
    pub dont_fragment: bool,
    /// Answers a packet that does not belong to an association or a listener of this endpoint. If another
    /// stack on the host receives the same packets, it may be responsible for the answer.
    pub out_of_the_blue: bool,
    /// The destination has not answered yet: this answers an unknown peer, or verifies an address that
    /// a peer has listed. The host may take long to resolve the destination, or to find it
    /// unreachable, so a driver sends such packets from a separate buffer.
    pub unverified: bool,
}
