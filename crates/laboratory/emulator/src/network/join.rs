//! Hands packets that arrived together to the kernel together.
//!
//! Segments that a kernel handed over as one packet were cut so that the link sees single packets. A link that does
//! nothing to them emits them as they went in, and handing them to the kernel one by one would only cost time. The same
//! holds for datagrams of one flow and one size. On all other links packets stay separate, because joining them would
//! change how many acknowledgements a receiver sends.

use super::packet::IpPacket;
use tun_rs::VIRTIO_NET_HDR_LEN;

const TCP: u8 = 6;
const UDP: u8 = 17;
/// In the head: datagrams of one size follow.
const DATAGRAMS: u8 = 5;
/// Maximum number of datagrams that the kernel accepts in one call.
const MOST_DATAGRAMS: usize = 64;
/// Flag in the head: the checksum is still to be computed.
const NEEDS_CHECKSUM: u8 = 1;
/// Offset of the flags in the TCP header.
const TCP_FLAGS: usize = 13;
/// FIN and PSH, which belong to the last segment.
const AT_THE_END: u8 = 0x09;

/// How the kernel handed a packet over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// Together with others: the number of the group, and the segment's place in it.
    Segment(u64, u16),
    /// On its own: a datagram without its checksum.
    Datagram,
}

impl Piece {
    /// The piece at place `index` of the packets that one read returned; `head` is their head. `together` is the number
    /// of the group; `datagrams` says whether the kernel accepts several datagrams at once.
    pub(crate) fn of(
        head: &[u8],
        index: usize,
        count: usize,
        together: u64,
        datagrams: bool,
    ) -> Option<Self> {
        if count > 1 {
            return u16::try_from(index).ok().map(|index| Self::Segment(together, index));
        }
        // Only a checksum that was computed here is known to be correct.
        let unfinished = head.first().is_some_and(|flags| flags & NEEDS_CHECKSUM != 0);
        let alone = unfinished && head.get(1) == Some(&0) && head.get(8) == Some(&6);
        (alone && datagrams).then_some(Self::Datagram)
    }
}

/// Pieces that wait for those behind them, stored as one packet with the head from the kernel.
#[derive(Debug, Default)]
pub(super) struct Joiner {
    buffer: Vec<u8>,
    /// The destination port of the pieces, and the last piece.
    last: Option<(usize, Piece)>,
    pieces: usize,
    /// Bytes of user data in each datagram.
    each: u16,
}

impl Joiner {
    /// Appends a packet for a port if it continues the waiting pieces.
    pub(super) fn add(&mut self, port: usize, packet: &IpPacket) -> bool {
        let (Some((at, last)), Some(piece)) = (self.last, packet.piece) else { return false };
        let Some(layout) = Layout::of(&self.buffer).filter(|_| at == port) else { return false };
        let bytes = packet.bytes();
        let next = match (last, piece) {
            (Piece::Segment(one, last), Piece::Segment(other, next)) => {
                one == other && last.checked_add(1) == Some(next)
            }
            (Piece::Datagram, Piece::Datagram) => self.same_flow(&layout, bytes),
            _ => false,
        };
        if !next {
            return false;
        }
        let Some(payload) = bytes.get(layout.payload..) else { return false };
        if self.buffer.len() - VIRTIO_NET_HDR_LEN + payload.len() > usize::from(u16::MAX) {
            return false;
        }
        if layout.protocol == TCP
            && let (Some(flags), Some(own)) = (
                bytes.get(layout.transport + TCP_FLAGS),
                self.buffer.get_mut(VIRTIO_NET_HDR_LEN + layout.transport + TCP_FLAGS),
            )
        {
            *own |= flags & AT_THE_END;
        }
        self.buffer.extend_from_slice(payload);
        self.last = Some((port, piece));
        self.pieces += 1;
        true
    }

    /// Whether a datagram may follow the waiting ones: only the lengths, the checksums and the identification may
    /// differ, and only the last datagram may be shorter.
    fn same_flow(&self, layout: &Layout, bytes: &[u8]) -> bool {
        let waiting = self.buffer.get(VIRTIO_NET_HDR_LEN..).unwrap_or_default();
        let each = usize::from(self.each);
        let whole = waiting.len() == layout.payload + self.pieces * each;
        let fits = bytes.len() > layout.payload && bytes.len() - layout.payload <= each;
        if !whole || !fits || self.pieces >= MOST_DATAGRAMS || layout.transport < 20 {
            return false;
        }
        let alike = |range: std::ops::Range<usize>| {
            waiting.get(range.clone()).is_some_and(|own| bytes.get(range) == Some(own))
        };
        let ports = layout.transport..layout.transport + 4;
        match bytes.first().map(|first| first >> 4) {
            // The identification only matters if the packet may be fragmented.
            Some(4) => {
                let whole = bytes.get(6).is_some_and(|flags| flags & 0x40 != 0);
                whole && alike(0..2) && alike(6..10) && alike(12..layout.transport) && alike(ports)
            }
            Some(6) => alike(0..4) && alike(6..layout.transport) && alike(ports),
            _ => false,
        }
    }

    /// Starts with a packet if others may follow it; nothing may be waiting.
    pub(super) fn begin(&mut self, port: usize, packet: &IpPacket) -> bool {
        let Some(piece) = packet.piece else { return false };
        self.buffer.clear();
        self.buffer.extend_from_slice(packet.with_given_head());
        self.last = Some((port, piece));
        self.pieces = 1;
        if piece == Piece::Datagram {
            let payload = Layout::of(&self.buffer)
                .map(|layout| packet.bytes().len().saturating_sub(layout.payload));
            self.each = payload.and_then(|payload| u16::try_from(payload).ok()).unwrap_or(0);
            // The head for several datagrams.
            let each = self.each.to_le_bytes();
            for (at, byte) in [(1, DATAGRAMS), (4, each[0]), (5, each[1])] {
                if let Some(place) = self.buffer.get_mut(at) {
                    *place = byte;
                }
            }
        }
        true
    }

    /// Takes the waiting packet with the kernel's head, ready for its port.
    pub(super) fn take(&mut self) -> Option<(usize, &[u8])> {
        let (port, _) = self.last.take()?;
        if self.pieces == 1 {
            // A single piece is sent as is: its checksum was computed when it was cut.
            if let Some(head) = self.buffer.get_mut(..VIRTIO_NET_HDR_LEN) {
                head.fill(0);
            }
        } else {
            finish(&mut self.buffer)?;
        }
        Some((port, &self.buffer))
    }
}

/// Offsets of the parts of a packet, from the start of its IP header.
struct Layout {
    protocol: u8,
    transport: usize,
    payload: usize,
}

impl Layout {
    /// Reads the layout from the head, which says where the kernel expects the transport's checksum.
    fn of(buffer: &[u8]) -> Option<Self> {
        let number = |at: usize| Some(u16::from_le_bytes(buffer.get(at..at + 2)?.try_into().ok()?));
        let transport = usize::from(number(6)?);
        let protocol = if number(8)? == 16 { TCP } else { UDP };
        let header = match protocol {
            TCP => {
                let offset = buffer.get(VIRTIO_NET_HDR_LEN + transport + 12)?;
                usize::from(offset >> 4) * 4
            }
            _ => 8,
        };
        Some(Self { protocol, transport, payload: transport + header })
    }
}

/// Sets lengths and checksums so that several pieces form one packet.
fn finish(buffer: &mut [u8]) -> Option<()> {
    let layout = Layout::of(buffer)?;
    let (head, packet) = buffer.split_at_mut_checked(VIRTIO_NET_HDR_LEN)?;
    *head.first_mut()? = NEEDS_CHECKSUM;
    head.get_mut(2..4)?.copy_from_slice(&u16::try_from(layout.payload).ok()?.to_le_bytes());
    let checksum =
        layout.transport + usize::from(u16::from_le_bytes([*head.get(8)?, *head.get(9)?]));
    let whole = u16::try_from(packet.len()).ok()?;
    let inner = u16::try_from(packet.len().checked_sub(layout.transport)?).ok()?;
    let addresses = if packet.first()? >> 4 == 4 {
        packet.get_mut(2..4)?.copy_from_slice(&whole.to_be_bytes());
        packet.get_mut(10..12)?.fill(0);
        let sum = !folded(sum(packet.get(..layout.transport)?));
        packet.get_mut(10..12)?.copy_from_slice(&sum.to_be_bytes());
        12..20
    } else {
        packet.get_mut(4..6)?.copy_from_slice(&whole.checked_sub(40)?.to_be_bytes());
        8..40
    };
    if layout.protocol != TCP {
        packet
            .get_mut(layout.transport + 4..layout.transport + 6)?
            .copy_from_slice(&inner.to_be_bytes());
    }
    // The kernel adds the rest when it needs the checksum.
    let pseudo = sum(packet.get(addresses)?) + u32::from(layout.protocol) + u32::from(inner);
    packet.get_mut(checksum..checksum + 2)?.copy_from_slice(&folded(pseudo).to_be_bytes());
    Some(())
}

/// Sum of 16-bit words (RFC 1071) of up to 64 KB.
pub(super) fn sum(bytes: &[u8]) -> u32 {
    let words = bytes
        .chunks(2)
        .map(|word| u32::from(u16::from_be_bytes([word[0], word.get(1).copied().unwrap_or(0)])));
    words.sum()
}

pub(super) fn folded(sum: u32) -> u16 {
    let once = (sum & 0xffff) + (sum >> 16);
    ((once & 0xffff) + (once >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three segments after cutting: two of 100 bytes, the last of 40.
    fn pieces() -> Vec<IpPacket> {
        let piece = |index: u16| {
            let payload = if index == 2 { 40 } else { 100 };
            // Flags, kind (TCP over IPv4), header length, segment size, start and offset of the checksum.
            let mut buffer = vec![1, 1, 0, 0, 100, 0, 20, 0, 16, 0];
            buffer.extend_from_slice(&[0x45, 0, 0, 40 + payload, 0, 7, 0x40, 0, 64, 6, 0, 0]);
            buffer.extend_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2, 0, 80, 16, 0]);
            buffer.extend_from_slice(&(1000 + u32::from(index) * 100).to_be_bytes());
            buffer.extend_from_slice(&[0, 0, 0, 1, 0x50, if index == 2 { 0x18 } else { 0x10 }]);
            buffer.extend_from_slice(&[1, 0, 0xaa, 0xbb, 0, 0]);
            buffer.resize(buffer.len() + usize::from(payload), index as u8);
            let end = buffer.len();
            // Buffers are longer than their contents.
            buffer.resize(end + 50, 0xff);
            IpPacket { buffer, end, to: 0, piece: Some(Piece::Segment(9, index)) }
        };
        (0..3).map(piece).collect()
    }

    #[test]
    fn pieces_in_order_become_one_packet_again() {
        let (mut joiner, pieces) = (Joiner::default(), pieces());
        assert!(joiner.begin(4, &pieces[0]));
        assert!(joiner.add(4, &pieces[1]) && joiner.add(4, &pieces[2]));
        let (port, bytes) = joiner.take().unwrap();
        assert_eq!((port, bytes.len()), (4, 10 + 40 + 240));
        assert_eq!(bytes[..10], [1, 1, 40, 0, 100, 0, 20, 0, 16, 0]);
        let packet = &bytes[10..];
        assert_eq!(packet[2..4], 280_u16.to_be_bytes());
        assert_eq!(folded(sum(&packet[..20])), 0xffff);
        assert_eq!(packet[24..28], 1000_u32.to_be_bytes());
        // PSH of the last segment.
        assert_eq!(packet[33], 0x18);
        let pseudo = sum(&packet[12..20]) + 6 + 260;
        assert_eq!(packet[36..38], folded(pseudo).to_be_bytes());
        assert_eq!((packet[40], packet[140], packet[240], packet[279]), (0, 1, 2, 2));
        assert!(joiner.take().is_none());
    }

    #[test]
    fn what_does_not_continue_is_not_taken() {
        let (mut joiner, pieces) = (Joiner::default(), pieces());
        assert!(!joiner.add(4, &pieces[0]));
        assert!(joiner.begin(4, &pieces[0]));
        // A gap, another port, another group, a packet that was never with others.
        assert!(!joiner.add(4, &pieces[2]) && !joiner.add(5, &pieces[1]));
        let other = Some(Piece::Segment(8, 1));
        assert!(!joiner.add(4, &IpPacket { piece: other, ..pieces[1].clone() }));
        let alone = IpPacket { piece: None, ..pieces[1].clone() };
        assert!(!joiner.add(4, &alone) && !joiner.begin(4, &alone));
        // It is sent as it was cut.
        let (_, bytes) = joiner.take().unwrap();
        assert_eq!(bytes[..10], [0; 10]);
        assert_eq!(bytes[10..], *pieces[0].bytes());
    }

    /// A datagram with `payload` bytes of data, to a port.
    fn datagram(payload: u8, port: u8) -> IpPacket {
        let mut buffer = vec![1, 0, 0, 0, 0, 0, 20, 0, 6, 0];
        buffer.extend_from_slice(&[0x45, 0, 0, 28 + payload, 0, payload, 0x40, 0, 64, 17, 0, 0]);
        buffer.extend_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2, 0, 80, 16, port]);
        buffer.extend_from_slice(&[0, 8 + payload, 0xaa, payload]);
        buffer.resize(buffer.len() + usize::from(payload), payload);
        let piece = Piece::of(&buffer, 0, 1, 7, true);
        assert_eq!((piece, Piece::of(&buffer, 0, 1, 7, false)), (Some(Piece::Datagram), None));
        IpPacket { end: buffer.len(), buffer, to: 0, piece }
    }

    #[test]
    fn datagrams_of_a_flow_and_size_go_together() {
        let mut joiner = Joiner::default();
        assert!(joiner.begin(4, &datagram(50, 1)));
        assert!(joiner.add(4, &datagram(50, 1)));
        // Another flow, and a longer datagram.
        assert!(!joiner.add(4, &datagram(50, 2)) && !joiner.add(4, &datagram(51, 1)));
        assert!(joiner.add(4, &datagram(20, 1)));
        // The shorter one was the last.
        assert!(!joiner.add(4, &datagram(20, 1)) && !joiner.add(4, &datagram(50, 1)));
        let (_, bytes) = joiner.take().unwrap();
        assert_eq!(bytes[..10], [1, 5, 28, 0, 50, 0, 20, 0, 6, 0]);
        let packet = &bytes[10..];
        assert_eq!((packet.len(), packet[2..4].to_vec()), (28 + 120, vec![0, 148]));
        assert_eq!((packet[24..26].to_vec(), folded(sum(&packet[..20]))), (vec![0, 128], 0xffff));
        let pseudo = sum(&packet[12..20]) + 17 + 128;
        assert_eq!(packet[26..28], folded(pseudo).to_be_bytes());
        for (count, size) in [(MOST_DATAGRAMS, 10), (1, 0)] {
            let mut joiner = Joiner::default();
            assert!(joiner.begin(4, &datagram(size, 1)));
            let taken = (1..100).take_while(|_| joiner.add(4, &datagram(size, 1))).count();
            assert_eq!(taken + 1, count);
        }
        // A single datagram is sent as it was.
        assert!(joiner.begin(4, &datagram(50, 1)));
        assert_eq!(joiner.take().unwrap().1[..10], [0; 10]);
    }
}
