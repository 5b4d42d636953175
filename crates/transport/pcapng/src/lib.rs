//! Packet captures in pcapng format, which Wireshark can open.
//!
//! Packets are raw IP (link type 101). An SCTP packet captured in an engine's driver or in a
//! simulator has no lower headers, so the IP header, and over UDP the UDP header, are generated
//! from its addresses.
//!
//! ```
//! use anabranch_pcapng::{Carrier, Headers, interface_description, packet, section_header};
//!
//! let mut file = Vec::new();
//! section_header(&mut file);
//! interface_description(&mut file, "eth0");
//! let headers = Headers {
//!     carrier: Carrier::Ip,
//!     from: "10.0.0.1:0".parse()?,
//!     to: "10.0.0.2:0".parse()?,
//!     ecn: 0,
//! };
//! packet(&mut file, 0, 1_500_000_000, &headers, &[0; 12]);
//! assert_eq!(file.len() % 4, 0);
//! # Ok::<(), std::net::AddrParseError>(())
//! ```
#![forbid(unsafe_code)]

use std::net::SocketAddr;

use etherparse::{IpNumber, Ipv4Header, Ipv6FlowLabel, Ipv6Header, UdpHeader};

/// Block types of pcapng.
const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const ENHANCED_PACKET: u32 = 6;

/// Link type of packets that start with their IP header.
const LINKTYPE_RAW: u16 = 101;

/// Appends a block with its lengths; `body` writes its contents.
fn block(out: &mut Vec<u8>, kind: u32, body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&kind.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    body(out);
    pad(out, start);
    let length = u32::try_from(out.len() - start + 4).unwrap_or(u32::MAX).to_le_bytes();
    out.extend_from_slice(&length);
    if let Some(field) = out.get_mut(start + 4..start + 8) {
        field.copy_from_slice(&length);
    }
}

/// Pads with zeros to a multiple of 4 bytes from `start`.
fn pad(out: &mut Vec<u8>, start: usize) {
    let length = out.len() - start;
    out.resize(start + length.next_multiple_of(4), 0);
}

/// Appends the block at the start of a file.
pub fn section_header(out: &mut Vec<u8>) {
    block(out, SECTION_HEADER, |out| {
        out.extend_from_slice(&0x1a2b_3c4d_u32.to_le_bytes());
        out.extend_from_slice(&1_u16.to_le_bytes());
        out.extend_from_slice(&0_u16.to_le_bytes());
        // The section's length is unspecified.
        out.extend_from_slice(&u64::MAX.to_le_bytes());
    });
}

/// Appends the description of an interface whose packets are raw IP with times in nanoseconds.
/// Interfaces are numbered from 0 in the order of their descriptions. A name may be empty.
pub fn interface_description(out: &mut Vec<u8>, name: &str) {
    block(out, INTERFACE_DESCRIPTION, |out| {
        out.extend_from_slice(&LINKTYPE_RAW.to_le_bytes());
        out.extend_from_slice(&[0; 2]);
        // Packet lengths are not limited.
        out.extend_from_slice(&0_u32.to_le_bytes());
        if let Ok(length @ 1..) = u16::try_from(name.len()) {
            let start = out.len();
            out.extend_from_slice(&2_u16.to_le_bytes());
            out.extend_from_slice(&length.to_le_bytes());
            out.extend_from_slice(name.as_bytes());
            pad(out, start);
        }
        // if_tsresol: nanoseconds.
        out.extend_from_slice(&9_u16.to_le_bytes());
        out.extend_from_slice(&1_u16.to_le_bytes());
        out.extend_from_slice(&[9, 0, 0, 0]);
        // opt_endofopt.
        out.extend_from_slice(&[0; 4]);
    });
}

/// Appends an SCTP packet captured at an interface at `time`, in nanoseconds since 1970.
pub fn packet(out: &mut Vec<u8>, interface: u32, time: u64, headers: &Headers, payload: &[u8]) {
    block(out, ENHANCED_PACKET, |out| {
        out.extend_from_slice(&interface.to_le_bytes());
        let [high, low] = [time >> 32, time & u64::from(u32::MAX)];
        for half in [high, low] {
            out.extend_from_slice(&u32::try_from(half).unwrap_or(0).to_le_bytes());
        }
        let lengths = out.len();
        out.extend_from_slice(&[0; 8]);
        let start = out.len();
        headers.write(out, payload);
        out.extend_from_slice(payload);
        let length = u32::try_from(out.len() - start).unwrap_or(u32::MAX).to_le_bytes();
        if let Some(field) = out.get_mut(lengths..lengths + 8) {
            let (captured, original) = field.split_at_mut(4);
            captured.copy_from_slice(&length);
            original.copy_from_slice(&length);
        }
    });
}

/// Appends an IP packet of any kind captured at an interface at `time`, in nanoseconds since 1970,
/// with a comment, which may be empty.
pub fn raw_packet(out: &mut Vec<u8>, interface: u32, time: u64, packet: &[u8], comment: &str) {
    block(out, ENHANCED_PACKET, |out| {
        let length = u32::try_from(packet.len()).unwrap_or(u32::MAX);
        let [high, low] = [time >> 32, time & u64::from(u32::MAX)];
        let halves = [high, low].map(|half| u32::try_from(half).unwrap_or(0));
        for field in [interface, halves[0], halves[1], length, length] {
            out.extend_from_slice(&field.to_le_bytes());
        }
        let start = out.len();
        out.extend_from_slice(packet);
        pad(out, start);
        if let Ok(length @ 1..) = u16::try_from(comment.len()) {
            // opt_comment, then opt_endofopt.
            out.extend_from_slice(&1_u16.to_le_bytes());
            out.extend_from_slice(&length.to_le_bytes());
            let start = out.len();
            out.extend_from_slice(comment.as_bytes());
            pad(out, start);
            out.extend_from_slice(&[0; 4]);
        }
    });
}

/// The encapsulation of an SCTP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// IP, as protocol 132.
    Ip,
    /// UDP (RFC 6951).
    Udp,
}

/// The contents of the headers before an SCTP packet.
#[derive(Clone, Copy, Debug)]
pub struct Headers {
    /// The encapsulation of the packet.
    pub carrier: Carrier,
    /// Source address, and UDP port if there is one.
    pub from: SocketAddr,
    /// Destination address, and UDP port if there is one. Of the same family.
    pub to: SocketAddr,
    /// ECN codepoint: two bits (RFC 3168 section 5); 0 is 'not ECN-capable'.
    pub ecn: u8,
}

impl Headers {
    /// Appends the IP header, and the UDP header if there is one.
    fn write(&self, out: &mut Vec<u8>, payload: &[u8]) {
        const HOPS: u8 = 64;
        let ecn = self.ecn & 3;
        let (protocol, header) = match self.carrier {
            Carrier::Udp => (IpNumber::UDP, UdpHeader::LEN),
            Carrier::Ip => (IpNumber::SCTP, 0),
        };
        let length = u16::try_from(header + payload.len()).unwrap_or(u16::MAX);
        let (source, destination) = (self.from.port(), self.to.port());
        let udp = match (self.from, self.to) {
            (SocketAddr::V4(from), SocketAddr::V4(to)) => {
                let addresses = (from.ip().octets(), to.ip().octets());
                let Ok(mut ip) = Ipv4Header::new(length, HOPS, protocol, addresses.0, addresses.1)
                else {
                    return;
                };
                ip.dont_fragment = true;
                ip.ecn = etherparse::IpEcn::try_new(ecn).unwrap_or_default();
                ip.header_checksum = ip.calc_header_checksum();
                out.extend_from_slice(&ip.to_bytes());
                UdpHeader::with_ipv4_checksum(source, destination, &ip, payload)
            }
            (SocketAddr::V6(from), SocketAddr::V6(to)) => {
                let ip = Ipv6Header {
                    traffic_class: ecn,
                    flow_label: Ipv6FlowLabel::default(),
                    payload_length: length,
                    next_header: protocol,
                    hop_limit: HOPS,
                    source: from.ip().octets(),
                    destination: to.ip().octets(),
                };
                out.extend_from_slice(&ip.to_bytes());
                UdpHeader::with_ipv6_checksum(source, destination, &ip, payload)
            }
            _ => return,
        };
        if let (Carrier::Udp, Ok(udp)) = (self.carrier, udp) {
            out.extend_from_slice(&udp.to_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_an_option_of_its_interface() {
        let (mut named, mut bare) = (Vec::new(), Vec::new());
        interface_description(&mut named, "left");
        interface_description(&mut bare, "");
        assert_eq!(named.len(), bare.len() + 8);
        assert_eq!(named[16..24], *b"\x02\x00\x04\x00left");
        for description in [&named, &bare] {
            let length = u32::try_from(description.len()).unwrap().to_le_bytes();
            assert_eq!(description[4..8], length);
            assert_eq!(description[description.len() - 4..], length);
        }
    }

    #[test]
    fn packets_name_their_interface() {
        let headers = Headers {
            carrier: Carrier::Ip,
            from: "[fd00::1]:0".parse().unwrap(),
            to: "[fd00::2]:0".parse().unwrap(),
            ecn: 0,
        };
        let mut out = Vec::new();
        packet(&mut out, 3, 7, &headers, &[1, 2, 3, 4]);
        // Type, length, interface, time, two lengths, IPv6 header, payload, length.
        assert_eq!(out.len(), 8 + 4 + 8 + 8 + 40 + 4 + 4);
        assert_eq!(out[8], 3);
        assert_eq!(out[28 + 6], 132);
        assert_eq!(out[68..72], [1, 2, 3, 4]);
    }
}
