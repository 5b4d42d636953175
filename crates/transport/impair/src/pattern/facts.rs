//! The properties of a packet that filters test.

use std::net::IpAddr;

const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMPV6: u8 = 58;
const SCTP: u8 = 132;
/// The UDP port of SCTP (RFC 6951 section 6.1).
const SCTP_PORT: u16 = 9899;
/// Maximum number of chunks examined in a packet.
const MOST_CHUNKS: usize = 256;

/// Addresses, ports and contents of a packet, as far as they are known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Source address.
    pub source: Option<IpAddr>,
    /// Destination address.
    pub destination: Option<IpAddr>,
    /// IP protocol. A transport encapsulated in UDP has UDP's number.
    pub protocol: u8,
    /// Source port; 0 if the protocol has no ports.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
    /// Bytes after the TCP, UDP or IP header; for SCTP, bytes of user data.
    pub payload: u32,
    /// TCP flags; FIN is the lowest bit.
    pub tcp_flags: u8,
    /// A bit for each type of SCTP chunk in the packet.
    chunks: [u64; 4],
}

/// Identifies the packets of one flow in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowKey {
    /// Source address.
    pub source: Option<IpAddr>,
    /// Destination address.
    pub destination: Option<IpAddr>,
    /// IP protocol.
    pub protocol: u8,
    /// Source port.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
}

impl Facts {
    /// Facts of an IPv4 or IPv6 packet; `None` if it is neither.
    pub fn of_ip(packet: &[u8]) -> Option<Self> {
        match packet.first()? >> 4 {
            4 => {
                let header = usize::from(packet.first()? & 15) * 4;
                let source: [u8; 4] = packet.get(12..16)?.try_into().ok()?;
                let destination: [u8; 4] = packet.get(16..20)?.try_into().ok()?;
                let first = be16(packet, 6)? & 0x1fff == 0;
                let protocol = *packet.get(9)?;
                let inner = packet.get(header..)?;
                Some(Self::within(source.into(), destination.into(), protocol, inner, first))
            }
            6 => {
                let source: [u8; 16] = packet.get(8..24)?.try_into().ok()?;
                let destination: [u8; 16] = packet.get(24..40)?.try_into().ok()?;
                let (protocol, at, first) = skip_extensions(packet)?;
                let inner = packet.get(at..)?;
                Some(Self::within(source.into(), destination.into(), protocol, inner, first))
            }
            _ => None,
        }
    }

    /// Facts of an SCTP packet with unknown addresses.
    pub fn of_sctp(packet: &[u8]) -> Self {
        let mut facts = Self { protocol: SCTP, ..Self::default() };
        facts.look_at_sctp(packet);
        facts
    }

    /// Facts of a packet when only its IP protocol and payload length are known.
    pub fn of_protocol(protocol: u8, payload: u32) -> Self {
        Self { protocol, payload, ..Self::default() }
    }

    /// Adds addresses.
    #[must_use]
    pub fn between(self, source: IpAddr, destination: IpAddr) -> Self {
        Self { source: Some(source), destination: Some(destination), ..self }
    }

    fn within(
        source: IpAddr,
        destination: IpAddr,
        protocol: u8,
        inner: &[u8],
        first: bool,
    ) -> Self {
        let mut facts = Self {
            source: Some(source),
            destination: Some(destination),
            protocol,
            payload: length(inner),
            ..Self::default()
        };
        // Only the first fragment has the ports.
        if !first {
            return facts;
        }
        match protocol {
            TCP => {
                facts.look_at_ports(inner);
                facts.tcp_flags = inner.get(13).copied().unwrap_or(0);
                let header = usize::from(inner.get(12).copied().unwrap_or(0) >> 4) * 4;
                facts.payload = length(inner.get(header..).unwrap_or_default());
            }
            UDP => {
                facts.look_at_ports(inner);
                let payload = inner.get(8..).unwrap_or_default();
                if facts.source_port == SCTP_PORT || facts.destination_port == SCTP_PORT {
                    facts.look_at_chunks(payload.get(12..).unwrap_or_default());
                }
                facts.payload = length(payload);
            }
            SCTP => facts.look_at_sctp(inner),
            _ => {}
        }
        facts
    }

    fn look_at_ports(&mut self, inner: &[u8]) {
        self.source_port = be16(inner, 0).unwrap_or(0);
        self.destination_port = be16(inner, 2).unwrap_or(0);
    }

    fn look_at_sctp(&mut self, packet: &[u8]) {
        self.look_at_ports(packet);
        self.payload = self.look_at_chunks(packet.get(12..).unwrap_or_default());
    }

    /// Records the chunks; returns the bytes of user data.
    fn look_at_chunks(&mut self, mut rest: &[u8]) -> u32 {
        let mut data = 0;
        for _ in 0..MOST_CHUNKS {
            let (Some(kind), Some(size)) = (rest.first(), be16(rest, 2)) else { break };
            let size = usize::from(size);
            if size < 4 {
                break;
            }
            self.chunks[usize::from(kind >> 6)] |= 1 << (kind & 63);
            if *kind == 0 {
                data += u32::try_from(size.saturating_sub(16)).unwrap_or(0);
            }
            rest = rest.get(size.next_multiple_of(4)..).unwrap_or_default();
        }
        data
    }

    /// Whether the packet contains an SCTP chunk of this type.
    pub fn has_chunk(&self, kind: u8) -> bool {
        self.chunks[usize::from(kind >> 6)] & (1 << (kind & 63)) != 0
    }

    /// The flow that it belongs to.
    pub fn flow(&self) -> FlowKey {
        FlowKey {
            source: self.source,
            destination: self.destination,
            protocol: self.protocol,
            source_port: self.source_port,
            destination_port: self.destination_port,
        }
    }

    /// The numbers of a named protocol.
    pub(crate) fn protocol_named(name: &str) -> Option<&'static [u8]> {
        Some(match name {
            "tcp" => &[TCP],
            "udp" => &[UDP],
            "sctp" => &[SCTP],
            "icmp" => &[ICMP, ICMPV6],
            _ => return None,
        })
    }
}

impl std::fmt::Display for FlowKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = match self.protocol {
            TCP => "tcp",
            UDP => "udp",
            SCTP => "sctp",
            ICMP | ICMPV6 => "icmp",
            0 => "ip",
            other => return write!(f, "proto{other},{}", Ends(self)),
        };
        write!(f, "{name},{}", Ends(self))
    }
}

struct Ends<'a>(&'a FlowKey);

impl std::fmt::Display for Ends<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let end = |address: Option<IpAddr>, port: u16| match (address, port) {
            (None, port) => format!("*:{port}"),
            (Some(address), 0) => address.to_string(),
            (Some(address), port) => std::net::SocketAddr::new(address, port).to_string(),
        };
        let (from, to) = (
            end(self.0.source, self.0.source_port),
            end(self.0.destination, self.0.destination_port),
        );
        write!(f, "{from},{to}")
    }
}

/// The transport protocol of an IPv6 packet, its offset, and whether this is the first fragment.
fn skip_extensions(packet: &[u8]) -> Option<(u8, usize, bool)> {
    let mut next = *packet.get(6)?;
    let mut at = 40;
    let mut first = true;
    // Hop-by-hop, routing, fragment, destination: a packet with many more extension headers is an
    // attack.
    for _ in 0..8 {
        let size = match next {
            0 | 43 | 60 => 8 + 8 * usize::from(*packet.get(at + 1)?),
            44 => {
                first &= be16(packet, at + 2)? >> 3 == 0;
                8
            }
            _ => break,
        };
        next = *packet.get(at)?;
        at += size;
    }
    Some((next, at, first))
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn length(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).unwrap_or(u32::MAX)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// An IPv4 packet.
    pub(crate) fn ipv4(protocol: u8, inner: &[u8]) -> Vec<u8> {
        let mut packet = vec![0; 20];
        packet[0] = 0x45;
        packet[9] = protocol;
        packet[12..20].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        packet.extend_from_slice(inner);
        packet
    }

    /// A TCP segment with these flags and bytes.
    pub(crate) fn tcp(flags: u8, bytes: usize) -> Vec<u8> {
        let mut segment = vec![0; 20 + bytes];
        segment[..4].copy_from_slice(&[0x10, 0, 0, 80]);
        segment[12] = 0x50;
        segment[13] = flags;
        segment
    }

    #[test]
    fn transports_are_found_in_both_versions() {
        let facts = Facts::of_ip(&ipv4(6, &tcp(0x12, 5))).unwrap();
        assert_eq!((facts.protocol, facts.source_port, facts.destination_port), (6, 4096, 80));
        assert_eq!((facts.tcp_flags, facts.payload), (0x12, 5));
        assert_eq!(facts.flow().to_string(), "tcp,10.0.0.1:4096,10.0.0.2:80");
        // SCTP after an extension header of IPv6: SACK and DATA with 3 bytes.
        let mut six = vec![0x60; 40];
        six[6] = 60;
        six.extend_from_slice(&[132, 0, 0, 0, 0, 0, 0, 0]);
        six.extend_from_slice(&[0, 7, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0]);
        six.extend_from_slice(&[3, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        six.extend_from_slice(&[0, 3, 0, 19]);
        six.extend_from_slice(&[0; 16]);
        let facts = Facts::of_ip(&six).unwrap();
        assert_eq!((facts.protocol, facts.source_port, facts.payload), (132, 7, 3));
        assert!(facts.has_chunk(0) && facts.has_chunk(3) && !facts.has_chunk(1));
    }

    #[test]
    fn what_is_cut_short_is_no_packet_or_has_no_ports() {
        let whole = ipv4(6, &tcp(2, 0));
        for length in 0..whole.len() {
            let facts = Facts::of_ip(&whole[..length]);
            assert_eq!(facts.is_some(), length >= 20, "{length}");
        }
        assert_eq!(Facts::of_ip(&[0x70; 60]), None);
        let mut fragment = ipv4(6, &tcp(2, 0));
        fragment[7] = 1;
        assert_eq!(Facts::of_ip(&fragment).unwrap().source_port, 0);
    }
}
