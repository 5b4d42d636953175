//! Receiving SCTP packets from a raw socket.
//!
//! One call receives as many packets as possible into the socket's own buffers. Consecutive packets
//! of one sender are then passed on as one batch, as receive offload does for UDP, so one
//! acknowledgement is enough for many of them.

use std::io::{self, IoSliceMut};

use etherparse::Ipv4HeaderSlice;
use quinn_udp::{BATCH_SIZE, RecvMeta};

use super::SCTP;
use crate::runtime::{Batch, udp};

/// Maximum length of an IP packet.
const MOST_BYTES: usize = 65_535;

/// Packets that were received and not yet passed on.
#[derive(Debug)]
pub(super) struct Inbox {
    /// Packets are received with their IPv4 header.
    has_header: bool,
    /// One buffer for each packet. The system allocates its memory when a packet needs it.
    buffers: Vec<Vec<u8>>,
    metas: [RecvMeta; BATCH_SIZE],
    /// Packets received with the last call, and the number of those passed on.
    received: usize,
    taken: usize,
}

impl Inbox {
    pub(super) fn new(has_header: bool) -> Self {
        let metas = [RecvMeta::default(); BATCH_SIZE];
        let buffers = (0..metas.len()).map(|_| vec![0; MOST_BYTES]).collect();
        Self { has_header, buffers, metas, received: 0, taken: 0 }
    }

    /// Whether all packets were passed on.
    pub(super) fn is_empty(&self) -> bool {
        self.taken == self.received
    }

    /// Receives packets with `receive`, if all earlier ones were passed on. Returns whether the call
    /// returned as many as it can.
    pub(super) fn fill(
        &mut self,
        receive: impl FnOnce(&mut [IoSliceMut<'_>], &mut [RecvMeta]) -> io::Result<usize>,
    ) -> io::Result<bool> {
        (self.received, self.taken) = (0, 0);
        let mut slices = self.buffers.iter_mut().map(|buffer| IoSliceMut::new(buffer));
        let mut slices: [IoSliceMut<'_>; BATCH_SIZE] =
            std::array::from_fn(|_| slices.next().unwrap_or_else(|| IoSliceMut::new(&mut [])));
        self.received = receive(&mut slices, &mut self.metas)?.min(BATCH_SIZE);
        Ok(self.received == BATCH_SIZE)
    }

    /// Appends batches to the `count` existing ones, as long as there is room. Returns the new number
    /// of batches.
    pub(super) fn hand_on(
        &mut self,
        buffers: &mut [IoSliceMut<'_>],
        batches: &mut [Batch],
        mut count: usize,
    ) -> usize {
        while self.taken < self.received {
            let (Some(meta), Some(buffer)) =
                (self.metas.get(self.taken), self.buffers.get(self.taken))
            else {
                break;
            };
            if let Some(packet) = sctp_packet(self.has_header, buffer.get(..meta.len)) {
                let mut batch = udp::from_meta(meta);
                batch.source.set_port(0);
                (batch.len, batch.segment_size) = (packet.len(), packet.len());
                if !join(packet, &batch, buffers, batches, count) {
                    if !begin(packet, batch, buffers, batches, count) {
                        break;
                    }
                    count += 1;
                }
            }
            self.taken += 1;
        }
        count
    }
}

/// Appends a packet to the last of `count` batches, if both can be one batch.
fn join(
    packet: &[u8],
    batch: &Batch,
    buffers: &mut [IoSliceMut<'_>],
    batches: &mut [Batch],
    count: usize,
) -> bool {
    let Some(last) = count.checked_sub(1) else { return false };
    let (Some(open), Some(buffer)) = (batches.get_mut(last), buffers.get_mut(last)) else {
        return false;
    };
    // In a batch, only the last packet may be shorter.
    let follows = open.source == batch.source
        && open.destination == batch.destination
        && open.ecn == batch.ecn
        && open.len.is_multiple_of(open.segment_size)
        && packet.len() <= open.segment_size;
    match buffer.get_mut(open.len..open.len + packet.len()) {
        Some(room) if follows => {
            room.copy_from_slice(packet);
            open.len += packet.len();
            true
        }
        _ => false,
    }
}

/// Begins a batch with a packet, unless there is no room for one.
fn begin(
    packet: &[u8],
    batch: Batch,
    buffers: &mut [IoSliceMut<'_>],
    batches: &mut [Batch],
    count: usize,
) -> bool {
    let (Some(entry), Some(buffer)) = (batches.get_mut(count), buffers.get_mut(count)) else {
        return false;
    };
    let Some(room) = buffer.get_mut(..packet.len()) else { return false };
    room.copy_from_slice(packet);
    *entry = batch;
    true
}

/// Returns the SCTP packet in the received bytes, if they are valid.
fn sctp_packet(has_header: bool, received: Option<&[u8]>) -> Option<&[u8]> {
    let received = received?;
    let packet = if has_header { received.get(strip_ipv4(received)?) } else { Some(received) };
    packet.filter(|packet| !packet.is_empty())
}

/// Returns the range of the SCTP packet in an IPv4 packet; `None` if the packet is malformed.
fn strip_ipv4(packet: &[u8]) -> Option<std::ops::Range<usize>> {
    let header = Ipv4HeaderSlice::from_slice(packet).ok()?;
    if header.protocol() != SCTP || header.is_fragmenting_payload() {
        return None;
    }
    let from = header.slice().len();
    // Some systems give the total length without the header, or in host byte order. Then the received
    // length decides.
    let total = usize::from(header.total_len());
    let to = if (from..packet.len()).contains(&total) { total } else { packet.len() };
    Some(from..to)
}

#[cfg(test)]
mod tests {
    use etherparse::IpNumber;

    use super::*;

    /// A whole IPv4 packet.
    fn packet(protocol: IpNumber, payload: &[u8]) -> Vec<u8> {
        let length = u16::try_from(payload.len()).unwrap();
        let header =
            etherparse::Ipv4Header::new(length, 64, protocol, [10, 0, 0, 1], [10, 0, 0, 2]);
        [&header.unwrap().to_bytes()[..], payload].concat()
    }

    #[test]
    fn headers_are_checked_and_removed() {
        let good = packet(SCTP, b"sctp packet");
        assert_eq!(strip_ipv4(&good), Some(20..31));
        // Padding by the link layer does not belong to the packet.
        assert_eq!(strip_ipv4(&[&good[..], &[0; 9]].concat()), Some(20..31));
        // An impossible total length.
        let mut odd = good.clone();
        odd[2..4].copy_from_slice(&[0, 5]);
        assert_eq!(strip_ipv4(&odd), Some(20..31));
        // With options.
        let mut options = [&good[..20], &[1, 1, 1, 0], &good[20..]].concat();
        options[0] = 0x46;
        options[3] = 35;
        assert_eq!(strip_ipv4(&options), Some(24..35));
        assert_eq!(strip_ipv4(&packet(IpNumber::UDP, b"sctp packet")), None);
        for (at, value) in [(0, 0x65), (0, 0x41), (0, 0x4f), (6, 0x20), (7, 3)] {
            let mut bad = good.clone();
            bad[at] = value;
            assert_eq!(strip_ipv4(&bad), None, "byte {at} is {value}");
        }
        (0..20).for_each(|len| assert_eq!(strip_ipv4(&good[..len]), None));
    }

    fn inbox(has_header: bool, packets: &[(u8, &[u8])]) -> Inbox {
        let mut inbox = Inbox::new(has_header);
        let full = inbox.fill(|buffers, metas| {
            for (index, (source, payload)) in packets.iter().enumerate() {
                let bytes = if has_header { packet(SCTP, payload) } else { payload.to_vec() };
                metas[index].addr = ([10, 0, 0, *source], 132).into();
                metas[index].len = bytes.len();
                buffers[index][..bytes.len()].copy_from_slice(&bytes);
            }
            Ok(packets.len())
        });
        assert_eq!(full.unwrap(), packets.len() == BATCH_SIZE);
        inbox
    }

    /// Lets the inbox pass batches into `slots` buffers of `size` bytes; returns their sources,
    /// segment sizes and bytes.
    fn handed_on(inbox: &mut Inbox, size: usize, slots: usize) -> Vec<(u8, usize, Vec<u8>)> {
        let mut buffers = vec![vec![0; size]; slots];
        let mut batches = vec![Batch::default(); slots];
        let mut slices: Vec<_> = buffers.iter_mut().map(|b| IoSliceMut::new(b)).collect();
        let count = inbox.hand_on(&mut slices, &mut batches, 0);
        let found = batches[..count].iter().zip(&buffers).map(|(batch, buffer)| {
            assert_eq!(batch.source.port(), 0);
            let std::net::IpAddr::V4(source) = batch.source.ip() else { panic!("IPv4") };
            (source.octets()[3], batch.segment_size, buffer[..batch.len].to_vec())
        });
        found.collect()
    }

    #[test]
    fn packets_of_one_sender_come_together() {
        for has_header in [false, true] {
            let found = |packets: &[(u8, &[u8])]| {
                let mut inbox = inbox(has_header, packets);
                let found = handed_on(&mut inbox, 200, 8);
                assert!(inbox.is_empty());
                found
            };
            assert_eq!(
                found(&[(1, b"aaaa"), (1, b"bbbb"), (1, b"cc"), (1, b"dd")]),
                [(1, 4, b"aaaabbbbcc".to_vec()), (1, 2, b"dd".to_vec())]
            );
            let apart = [(1, 2, "aa"), (2, 2, "bb"), (1, 2, "cc"), (1, 4, "dddd")];
            assert_eq!(
                found(&[(1, b"aa"), (2, b"bb"), (1, b"cc"), (1, b"dddd")]),
                apart.map(|(s, size, text)| (s, size, text.as_bytes().to_vec()))
            );
            assert_eq!(found(&[(1, b""), (1, b"aa")]), [(1, 2, b"aa".to_vec())]);
            // More than a buffer holds.
            let long = [7; 90];
            let lengths = found(&[(1, &long), (1, &long), (1, &long)]);
            assert_eq!(lengths.iter().map(|batch| batch.2.len()).collect::<Vec<_>>(), [180, 90]);
        }
    }

    #[test]
    fn what_finds_no_room_is_handed_on_later() {
        let mut inbox = inbox(true, &[(1, b"aa"), (2, b"bb"), (2, b"cc"), (3, b"dd")]);
        assert_eq!(handed_on(&mut inbox, 200, 1), [(1, 2, b"aa".to_vec())]);
        assert!(!inbox.is_empty());
        assert_eq!(handed_on(&mut inbox, 200, 1), [(2, 2, b"bbcc".to_vec())]);
        assert_eq!(handed_on(&mut inbox, 200, 1), [(3, 2, b"dd".to_vec())]);
        assert!(inbox.is_empty());
        assert_eq!(handed_on(&mut inbox, 200, 1), []);
    }
}
