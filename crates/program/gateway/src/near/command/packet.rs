//! Packets of IP with TCP and UDP: reading, changing addresses, and writing.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::status::Status;

/// Numbers of protocols (RFC 9293, RFC 768, RFC 792, RFC 4443).
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMP: u8 = 1;
const ICMP_6: u8 = 58;

const HEADER_4: usize = 20;
const HEADER_6: usize = 40;

/// Flags of TCP.
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const ACK: u8 = 0x10;

/// Hops that written packets may take. They take none.
const HOPS: u8 = 64;

/// Most bytes of a packet that a report about it quotes: within 576 bytes (RFC 1812 section 4.3.2.3).
const QUOTE: usize = 500;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Tcp,
    Udp,
}

/// What is read of a packet. Everything it says has been checked against the length of the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) from: SocketAddr,
    pub(super) to: SocketAddr,
    pub(super) protocol: Protocol,
    /// Where the header of TCP or UDP begins.
    at: usize,
    /// Where the packet ends; what follows is padding.
    end: usize,
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

impl Header {
    /// Reads a packet. `None` for fragments, options of IPv6, other protocols, and what is malformed.
    pub(super) fn parse(packet: &[u8]) -> Option<Self> {
        let (from, to, protocol, at, end) = match packet.first()? >> 4 {
            4 => {
                let at = usize::from(packet[0] & 15) * 4;
                let end = usize::from(u16_at(packet, 2)?);
                let is_fragment = u16_at(packet, 6)? & 0x3fff != 0;
                if at < HEADER_4 || is_fragment {
                    return None;
                }
                let from = Ipv4Addr::from(u32_at(packet, 12)?);
                let to = Ipv4Addr::from(u32_at(packet, 16)?);
                (IpAddr::from(from), IpAddr::from(to), packet[9], at, end)
            }
            6 => {
                let end = HEADER_6 + usize::from(u16_at(packet, 4)?);
                let from = Ipv6Addr::from(*packet.get(8..)?.first_chunk::<16>()?);
                let to = Ipv6Addr::from(*packet.get(24..)?.first_chunk::<16>()?);
                (from.into(), to.into(), packet[6], HEADER_6, end)
            }
            _ => return None,
        };
        let transport = packet.get(at..end)?;
        let (protocol, shortest) = match protocol {
            TCP => (Protocol::Tcp, 20),
            UDP => (Protocol::Udp, 8),
            _ => return None,
        };
        if transport.len() < shortest {
            return None;
        }
        let from = SocketAddr::new(from, u16_at(transport, 0)?);
        let to = SocketAddr::new(to, u16_at(transport, 2)?);
        Some(Self { from, to, protocol, at, end })
    }

    /// Whether this asks for a connection.
    pub(super) fn is_syn(&self, packet: &[u8]) -> bool {
        let flags = packet.get(self.at + 13).copied().unwrap_or(0);
        self.protocol == Protocol::Tcp && flags & (SYN | ACK | RST) == SYN
    }

    /// The payload of a packet of UDP.
    pub(super) fn payload<'a>(&self, packet: &'a [u8]) -> &'a [u8] {
        packet.get(self.at + 8..self.end).unwrap_or_default()
    }

    /// Changes addresses and ports to others of the same version of IP. The checksums change by the difference, so
    /// that a packet that was corrupted before stays so (RFC 1624).
    pub(super) fn rewrite(&self, packet: &mut [u8], from: SocketAddr, to: SocketAddr) {
        let old = addresses(self.from.ip(), self.to.ip());
        let new = addresses(from.ip(), to.ip());
        let (at, in_ip) = match self.from {
            SocketAddr::V4(_) => (12, Some(10)),
            SocketAddr::V6(_) => (8, None),
        };
        if old.len() != new.len() {
            return;
        }
        packet[at..at + new.len()].copy_from_slice(&new);
        if let Some(at) = in_ip {
            adjust(packet, at, &old, &new);
        }
        let ports = |from: SocketAddr, to: SocketAddr| {
            [from.port().to_be_bytes(), to.port().to_be_bytes()].concat()
        };
        let (old, new) =
            ([old, ports(self.from, self.to)].concat(), [new, ports(from, to)].concat());
        packet[self.at..self.at + 4].copy_from_slice(&new[new.len() - 4..]);
        let at = match self.protocol {
            Protocol::Tcp => self.at + 16,
            Protocol::Udp => self.at + 6,
        };
        adjust(packet, at, &old, &new);
    }
}

/// Both addresses as a packet has them.
fn addresses(from: IpAddr, to: IpAddr) -> Vec<u8> {
    let bytes = |ip| match ip {
        IpAddr::V4(ip) => Ipv4Addr::octets(&ip).to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    };
    [bytes(from), bytes(to)].concat()
}

/// The sum of 16-bit words, not yet inverted (RFC 1071).
fn sum(bytes: &[u8]) -> u64 {
    let words = bytes.chunks(2).map(|word| match word {
        [high, low] => u64::from(u16::from_be_bytes([*high, *low])),
        [high] => u64::from(*high) << 8,
        _ => 0,
    });
    words.sum()
}

fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    // It fits now.
    u16::try_from(sum).unwrap_or(u16::MAX)
}

/// Changes the checksum at this place as the change of some words demands (RFC 1624, equation 3).
fn adjust(packet: &mut [u8], at: usize, old: &[u8], new: &[u8]) {
    let Some(before) = u16_at(packet, at) else { return };
    let inverted: Vec<u8> = old.iter().map(|byte| !byte).collect();
    let after = !fold(u64::from(!before) + sum(&inverted) + sum(new));
    packet[at..at + 2].copy_from_slice(&after.to_be_bytes());
}

/// A packet with this header and content, whose checksum is at `checksum` of the content.
fn packet(protocol: u8, from: IpAddr, to: IpAddr, content: &[u8], checksum: usize) -> Vec<u8> {
    // The callers bound the content.
    let length = u16::try_from(content.len()).unwrap_or(u16::MAX);
    let addresses = addresses(from, to);
    let mut packet = match from {
        IpAddr::V4(_) => {
            let total = length.saturating_add(20).to_be_bytes();
            let mut packet = vec![0x45, 0, total[0], total[1], 0, 0, 0x40, 0, HOPS, protocol, 0, 0];
            packet.extend(&addresses);
            let sum = !fold(sum(&packet));
            packet[10..12].copy_from_slice(&sum.to_be_bytes());
            packet
        }
        IpAddr::V6(_) => {
            let length = length.to_be_bytes();
            let mut packet = vec![0x60, 0, 0, 0, length[0], length[1], protocol, HOPS];
            packet.extend(&addresses);
            packet
        }
    };
    let at = packet.len() + checksum;
    packet.extend(content);
    // ICMP of IPv4 has no pseudo-header.
    let pseudo = match protocol {
        ICMP => 0,
        _ => sum(&addresses) + u64::from(length) + u64::from(protocol),
    };
    let sum = match !fold(pseudo + sum(content)) {
        // It would mean that there is none (RFC 768).
        0 if protocol == UDP => u16::MAX,
        sum => sum,
    };
    packet[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    packet
}

/// A packet of UDP. `None` if the versions of IP differ, or the payload is too long.
pub(super) fn udp(from: SocketAddr, to: SocketAddr, payload: &[u8]) -> Option<Vec<u8>> {
    if from.is_ipv4() != to.is_ipv4() || payload.len() > crate::udp::MOST_PAYLOAD {
        return None;
    }
    let length = u16::try_from(8 + payload.len()).ok()?.to_be_bytes();
    let (source, target) = (from.port().to_be_bytes(), to.port().to_be_bytes());
    let content = [&source[..], &target, &length, &[0, 0], payload].concat();
    Some(packet(UDP, from.ip(), to.ip(), &content, 6))
}

/// The answer to a SYN, or a datagram, whose target cannot be reached: a reset, or a report by ICMP that it is
/// unreachable.
pub(super) fn unreachable(about: &[u8], status: Status) -> Option<Vec<u8>> {
    let header = Header::parse(about)?;
    if status == Status::Refused && header.protocol == Protocol::Tcp {
        return reset(about, &header);
    }
    let (protocol, kind, code) = match (header.from, status) {
        (SocketAddr::V4(_), Status::Refused) => (ICMP, 3, 3),
        (SocketAddr::V4(_), Status::Forbidden) => (ICMP, 3, 13),
        (SocketAddr::V4(_), Status::NetworkUnreachable) => (ICMP, 3, 0),
        (SocketAddr::V4(_), _) => (ICMP, 3, 1),
        (SocketAddr::V6(_), Status::Refused) => (ICMP_6, 1, 4),
        (SocketAddr::V6(_), Status::Forbidden) => (ICMP_6, 1, 1),
        (SocketAddr::V6(_), Status::NetworkUnreachable) => (ICMP_6, 1, 0),
        (SocketAddr::V6(_), _) => (ICMP_6, 1, 3),
    };
    let quote = &about[..about.len().min(QUOTE)];
    let content = [&[kind, code, 0, 0, 0, 0, 0, 0], quote].concat();
    Some(packet(protocol, header.to.ip(), header.from.ip(), &content, 2))
}

/// The reset that answers a SYN (RFC 9293 section 3.5.2).
fn reset(syn: &[u8], header: &Header) -> Option<Vec<u8>> {
    let acknowledged = u32_at(syn, header.at + 4)?.wrapping_add(1).to_be_bytes();
    let (source, target) = (header.to.port().to_be_bytes(), header.from.port().to_be_bytes());
    let content =
        [&source[..], &target, &[0; 4], &acknowledged, &[5 << 4, RST | ACK, 0, 0, 0, 0, 0, 0]]
            .concat();
    Some(packet(TCP, header.to.ip(), header.from.ip(), &content, 16))
}

/// A SYN for tests.
#[cfg(test)]
pub(super) fn syn(from: SocketAddr, to: SocketAddr) -> Vec<u8> {
    tcp(from, to, SYN)
}

/// A packet of TCP for tests.
#[cfg(test)]
pub(super) fn tcp(from: SocketAddr, to: SocketAddr, flags: u8) -> Vec<u8> {
    let (source, target) = (from.port().to_be_bytes(), to.port().to_be_bytes());
    let rest = [0, 0, 1, 0, 0, 0, 0, 0, 5 << 4, flags, 255, 255, 0, 0, 0, 0];
    packet(TCP, from.ip(), to.ip(), &[&source[..], &target, &rest].concat(), 16)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn addresses_of(v6: bool) -> impl Strategy<Value = (SocketAddr, SocketAddr)> {
        let one = move || {
            (any::<[u8; 16]>(), 1..=u16::MAX).prop_map(move |(ip, port)| match v6 {
                true => SocketAddr::from((ip, port)),
                false => SocketAddr::from(([ip[0], ip[1], ip[2], ip[3]], port)),
            })
        };
        (one(), one())
    }

    fn pair() -> impl Strategy<Value = ((SocketAddr, SocketAddr), (SocketAddr, SocketAddr))> {
        any::<bool>().prop_flat_map(|v6| (addresses_of(v6), addresses_of(v6)))
    }

    /// Whether both checksums of a packet hold.
    fn is_sound(packet: &[u8]) -> bool {
        let (at, protocol, addresses) = match packet[0] >> 4 {
            4 => (HEADER_4, packet[9], &packet[12..20]),
            _ => (HEADER_6, packet[6], &packet[8..40]),
        };
        let pseudo = match protocol {
            ICMP => 0,
            _ => sum(addresses) + (packet.len() - at) as u64 + u64::from(protocol),
        };
        let header = packet[0] >> 4 == 6 || fold(sum(&packet[..at])) == 0xffff;
        header && fold(pseudo + sum(&packet[at..])) == 0xffff
    }

    proptest! {
        #[test]
        fn datagrams_survive(((from, to), _) in pair(), payload in any::<Vec<u8>>()) {
            let packet = udp(from, to, &payload).unwrap();
            let header = Header::parse(&packet).unwrap();
            prop_assert_eq!((header.from, header.to, header.protocol), (from, to, Protocol::Udp));
            prop_assert_eq!(header.payload(&packet), &payload[..]);
            prop_assert!(is_sound(&packet));
        }

        #[test]
        fn new_addresses_keep_the_checksums(((from, to), (source, target)) in pair()) {
            for mut packet in [udp(from, to, b"odd").unwrap(), syn(from, to)] {
                let header = Header::parse(&packet).unwrap();
                header.rewrite(&mut packet, source, target);
                let changed = Header::parse(&packet).unwrap();
                prop_assert_eq!((changed.from, changed.to), (source, target));
                prop_assert!(is_sound(&packet));
            }
        }

        #[test]
        fn refusals_are_sound(((from, to), _) in pair(), number in 1..=10_u8) {
            let status = Status::of_number(number);
            for packet in [udp(from, to, &[1; 3000]).unwrap(), syn(from, to)] {
                let report = unreachable(&packet, status).unwrap();
                prop_assert!(is_sound(&report) && report.len() < 576);
                // Nothing is reported about a report.
                prop_assert!(unreachable(&report, status).is_none() || status == Status::Refused);
            }
        }

        #[test]
        fn anything_is_read_or_dropped(bytes in any::<Vec<u8>>(), ((from, to), _) in pair()) {
            let kinds = [0x45, 0x4f, 0x60].map(|first| [&[first], &bytes[..]].concat());
            for mut packet in kinds.into_iter().chain([bytes]) {
                let _ = unreachable(&packet, Status::Refused);
                if let Some(header) = Header::parse(&packet) {
                    let _ = (header.is_syn(&packet), header.payload(&packet));
                    header.rewrite(&mut packet, from, to);
                }
            }
        }
    }

    #[test]
    fn a_refused_connection_is_reset() {
        let (from, to) = ("192.0.2.1:1000".parse().unwrap(), "192.0.2.2:80".parse().unwrap());
        let reset = unreachable(&syn(from, to), Status::Refused).unwrap();
        let header = Header::parse(&reset).unwrap();
        assert_eq!((header.from, header.to), (to, from));
        assert_eq!((u32_at(&reset, 28), reset[33]), (Some(257), RST | ACK));
        assert!(!header.is_syn(&reset));
    }
}
