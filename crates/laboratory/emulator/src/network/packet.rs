//! Packets between devices, in reusable buffers.

use anabranch_impair::pattern::Facts;
use anabranch_impair::{Packet, Rng, flip};
use tun_rs::VIRTIO_NET_HDR_LEN;

use super::join::Piece;

/// An IP packet, preceded by room for the kernel's head.
#[derive(Clone, Debug)]
pub(crate) struct IpPacket {
    /// The head and the packet; bytes after `end` are not part of it.
    pub(crate) buffer: Vec<u8>,
    pub(crate) end: usize,
    /// The attachment of its destination.
    pub(crate) to: usize,
    /// Its place among the packets that a kernel handed over together; the head describes all of these.
    pub(crate) piece: Option<Piece>,
}

impl IpPacket {
    pub(crate) fn bytes(&self) -> &[u8] {
        self.buffer.get(VIRTIO_NET_HDR_LEN..self.end).unwrap_or_default()
    }

    /// With an empty head: no checksum to compute, no pieces.
    pub(crate) fn with_head(&mut self) -> &[u8] {
        if let Some(head) = self.buffer.get_mut(..VIRTIO_NET_HDR_LEN) {
            head.fill(0);
        }
        self.buffer.get(..self.end).unwrap_or_default()
    }

    /// With the head from the kernel.
    pub(crate) fn with_given_head(&self) -> &[u8] {
        self.buffer.get(..self.end).unwrap_or_default()
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        self.buffer.get_mut(VIRTIO_NET_HDR_LEN..self.end).unwrap_or_default()
    }

    /// Counts a hop at a router. Returns false if the hop limit is exceeded.
    pub(crate) fn hop(&mut self) -> bool {
        let bytes = self.bytes_mut();
        match bytes.first().map(|first| first >> 4) {
            Some(4) if bytes.len() >= 20 => {
                if bytes[8] <= 1 {
                    return false;
                }
                bytes[8] -= 1;
                grow_checksum(bytes, 0x0100);
                true
            }
            Some(6) if bytes.len() >= 40 => {
                let hops = bytes[7];
                bytes[7] = hops.saturating_sub(1);
                hops > 1
            }
            _ => false,
        }
    }
}

/// Adds a number to the checksum of an IPv4 header (RFC 1624).
fn grow_checksum(bytes: &mut [u8], by: u32) {
    let sum = u32::from(u16::from_be_bytes([bytes[10], bytes[11]])) + by;
    let sum = (sum & 0xffff) + (sum >> 16);
    bytes[10..12].copy_from_slice(&(sum as u16).to_be_bytes());
}

impl Packet for IpPacket {
    const HAS_FACTS: bool = true;

    fn facts(&self) -> Option<Facts> {
        Facts::of_ip(self.bytes())
    }

    fn size(&self) -> usize {
        self.end.saturating_sub(VIRTIO_NET_HDR_LEN)
    }

    fn flip(&mut self, bit: i64) -> bool {
        // The checksum must stay as it is.
        self.piece = None;
        flip(self.bytes_mut(), bit)
    }

    fn corrupt(&mut self, rng: &mut Rng) -> bool {
        let bits = self.size() as u64 * 8;
        let bit = i64::try_from(rng.below(bits)).unwrap_or(0);
        bits > 0 && self.flip(bit)
    }

    fn mark(&mut self) -> bool {
        // The head of pieces that arrived together describes all of them.
        self.piece = None;
        // RFC 3168 section 5: 0 is 'not ECN-capable', 3 'congestion experienced'.
        let bytes = self.bytes_mut();
        match bytes.first().map(|first| first >> 4) {
            Some(4) if bytes.len() >= 20 && bytes[1] & 3 != 0 => {
                // A larger header makes a smaller sum.
                let added = 3 - u32::from(bytes[1] & 3);
                bytes[1] |= 3;
                grow_checksum(bytes, 0xffff - added);
                true
            }
            Some(6) if bytes.len() >= 40 && bytes[1] & 0x30 != 0 => {
                bytes[1] |= 0x30;
                true
            }
            _ => false,
        }
    }

    fn duplicate(&self) -> Option<Self> {
        Some(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hop_keeps_the_checksum_right() {
        let mut packet =
            IpPacket { buffer: vec![0; VIRTIO_NET_HDR_LEN + 20], end: 0, to: 0, piece: None };
        packet.end = packet.buffer.len();
        let bytes = packet.bytes_mut();
        bytes[0] = 0x45;
        bytes[8] = 2;
        bytes[9] = 6;
        bytes[12..20].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        let sum = |bytes: &[u8]| {
            let sum: u32 =
                bytes.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
            let sum = (sum & 0xffff) + (sum >> 16);
            ((sum & 0xffff) + (sum >> 16)) as u16
        };
        let check = !sum(bytes);
        bytes[10..12].copy_from_slice(&check.to_be_bytes());
        assert_eq!(sum(packet.bytes()), 0xffff);
        assert!(packet.hop());
        assert_eq!((packet.bytes()[8], sum(packet.bytes())), (1, 0xffff));
        assert!(!packet.mark(), "it is not ECN-capable");
        for codepoint in [1, 2, 3] {
            packet.bytes_mut()[1] = 0xb8 | codepoint;
            packet.bytes_mut()[10..12].fill(0);
            let check = !sum(packet.bytes());
            packet.bytes_mut()[10..12].copy_from_slice(&check.to_be_bytes());
            assert!(packet.mark());
            assert_eq!((packet.bytes()[1], sum(packet.bytes())), (0xbb, 0xffff));
        }
        assert!(!packet.hop());
    }
}
