//! Answers of routers to packets that they cannot forward.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::join::{folded, sum};

const ICMP: u8 = 1;
const ICMPV6: u8 = 58;
/// Maximum size of an answer in bytes (RFC 1812 section 4.3.2.3, RFC 4443 section 2.4 (c)).
const MOST: (usize, usize) = (576, 1280);
const HOPS: u8 = 64;

/// Why a packet is not forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// Its hop limit is exceeded.
    TimeExceeded,
    /// The next link only carries packets up to this size in bytes.
    TooBig(u16),
}

/// The answer of a router with the addresses `own` to a packet. `None` for packets that must not be answered: errors,
/// fragments other than the first, and packets whose source is not a single host.
pub(super) fn answer(packet: &[u8], own: [IpAddr; 2], reason: Reason) -> Option<Vec<u8>> {
    let [IpAddr::V4(v4), IpAddr::V6(v6)] = own else { return None };
    match packet.first()? >> 4 {
        4 => answer_v4(packet, v4, reason),
        6 => answer_v6(packet, v6, reason),
        _ => None,
    }
}

fn answer_v4(packet: &[u8], own: Ipv4Addr, reason: Reason) -> Option<Vec<u8>> {
    let header = usize::from(packet.first()? & 15) * 4;
    let source: [u8; 4] = packet.get(12..16)?.try_into().ok()?;
    let from = Ipv4Addr::from(source);
    let fragment = u16::from_be_bytes([*packet.get(6)?, *packet.get(7)?]) & 0x1fff;
    let is_error = packet.get(9) == Some(&ICMP)
        && packet.get(header).is_none_or(|kind| [3, 4, 5, 11, 12].contains(kind));
    if fragment > 0 || is_error || from.is_multicast() || from.is_unspecified() {
        return None;
    }
    // Without 'don't fragment' it would be fragmented; links let such packets pass.
    let (kind, code, mtu) = match reason {
        Reason::TimeExceeded => (11, 0, 0),
        Reason::TooBig(mtu) => (3, 4, mtu),
    };
    let quoted = packet.get(..packet.len().min(MOST.0 - 28))?;
    let size = u16::try_from(28 + quoted.len()).ok()?.to_be_bytes();
    let mut bytes = vec![0x45, 0xc0, size[0], size[1], 0, 0, 0, 0, HOPS, ICMP, 0, 0];
    bytes.extend_from_slice(&own.octets());
    bytes.extend_from_slice(&source);
    let check = (!folded(sum(&bytes))).to_be_bytes();
    bytes.get_mut(10..12)?.copy_from_slice(&check);
    let mtu = mtu.to_be_bytes();
    bytes.extend_from_slice(&[kind, code, 0, 0, 0, 0, mtu[0], mtu[1]]);
    bytes.extend_from_slice(quoted);
    let check = (!folded(sum(bytes.get(20..)?))).to_be_bytes();
    bytes.get_mut(22..24)?.copy_from_slice(&check);
    Some(bytes)
}

fn answer_v6(packet: &[u8], own: Ipv6Addr, reason: Reason) -> Option<Vec<u8>> {
    let source: [u8; 16] = packet.get(8..24)?.try_into().ok()?;
    let from = Ipv6Addr::from(source);
    let is_error = packet.get(6) == Some(&ICMPV6) && packet.get(40).is_none_or(|kind| *kind < 128);
    if is_error || from.is_multicast() || from.is_unspecified() {
        return None;
    }
    let (kind, mtu) = match reason {
        Reason::TimeExceeded => (3, 0),
        Reason::TooBig(mtu) => (2, mtu),
    };
    let quoted = packet.get(..packet.len().min(MOST.1 - 48))?;
    let size = u16::try_from(8 + quoted.len()).ok()?;
    let length = size.to_be_bytes();
    let mut bytes = vec![0x60, 0, 0, 0, length[0], length[1], ICMPV6, HOPS];
    bytes.extend_from_slice(&own.octets());
    bytes.extend_from_slice(&source);
    let mtu = u32::from(mtu).to_be_bytes();
    bytes.extend_from_slice(&[kind, 0, 0, 0]);
    bytes.extend_from_slice(&mtu);
    bytes.extend_from_slice(quoted);
    let pseudo = sum(bytes.get(8..40)?) + u32::from(size) + u32::from(ICMPV6);
    let check = (!folded(pseudo + sum(bytes.get(40..)?))).to_be_bytes();
    bytes.get_mut(42..44)?.copy_from_slice(&check);
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: [IpAddr; 2] = [
        IpAddr::V4(Ipv4Addr::new(10, 0, 1, 2)),
        IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 1, 0, 0, 0, 2)),
    ];

    fn v4(protocol: u8, inner: &[u8]) -> Vec<u8> {
        let mut packet = vec![0x45, 0, 0, 0, 0, 1, 0x40, 0, 1, protocol, 0, 0];
        packet.extend_from_slice(&[10, 0, 0, 1, 10, 0, 9, 9]);
        packet.extend_from_slice(inner);
        packet
    }

    #[test]
    fn answers_quote_the_packet_and_have_right_checksums() {
        let packet = v4(17, &[7; 2000]);
        let bytes = answer(&packet, OWN, Reason::TimeExceeded).unwrap();
        assert_eq!((bytes.len(), bytes[2..4].to_vec()), (576, vec![2, 64]));
        assert_eq!(
            (bytes[16..20].to_vec(), bytes[20..22].to_vec()),
            (vec![10, 0, 0, 1], vec![11, 0])
        );
        assert_eq!((folded(sum(&bytes[..20])), folded(sum(&bytes[20..]))), (0xffff, 0xffff));
        assert_eq!(bytes[28..], packet[..548]);
        let bytes = answer(&packet, OWN, Reason::TooBig(1400)).unwrap();
        assert_eq!(bytes[20..28], [3, 4, bytes[22], bytes[23], 0, 0, 5, 120]);
        let mut six = vec![0x60, 0, 0, 0, 0, 4, 17, 1];
        six.extend_from_slice(&[0xfd; 16]);
        six.extend_from_slice(&[9; 20]);
        let bytes = answer(&six, OWN, Reason::TooBig(1300)).unwrap();
        assert_eq!((bytes.len(), bytes[6], bytes[40]), (48 + 44, ICMPV6, 2));
        assert_eq!(
            (bytes[24..40].to_vec(), bytes[44..48].to_vec()),
            (vec![0xfd; 16], vec![0, 0, 5, 20])
        );
        let pseudo = sum(&bytes[8..40]) + 52 + 58;
        assert_eq!(folded(pseudo + sum(&bytes[40..])), 0xffff);
    }

    #[test]
    fn some_packets_are_not_answered() {
        let mut fragment = v4(17, &[0; 20]);
        fragment[7] = 5;
        let mut many = v4(17, &[0; 20]);
        many[12] = 224;
        for packet in [v4(ICMP, &[11, 0]), v4(ICMP, &[]), fragment, many, Vec::new(), vec![0x45; 8]]
        {
            assert_eq!(answer(&packet, OWN, Reason::TimeExceeded), None, "{packet:?}");
        }
        assert!(answer(&v4(ICMP, &[8, 0]), OWN, Reason::TimeExceeded).is_some());
    }
}
