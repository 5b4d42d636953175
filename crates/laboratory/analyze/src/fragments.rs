//! Reassembles IP fragments in bounded memory.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;

use crate::bytes::Piece;
use crate::decode::{Fragment, Network, Place};

/// Maximum number of incomplete packets, of their bytes, and of fragments of one packet.
const MOST_WAITING: usize = 4096;
const MOST_BYTES: usize = 1 << 24;
const MOST_PARTS: usize = 128;
/// Maximum length of an IP packet.
const LONGEST: usize = 65_535;
/// How long a packet waits for its fragments in nanoseconds (RFC 8200 section 4.5).
const PATIENCE: u64 = 60_000_000_000;

/// The key that all fragments of a packet share (RFC 791 section 3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    place: Place,
    from: IpAddr,
    to: IpAddr,
    protocol: u8,
    identification: u32,
}

#[derive(Debug, Default)]
struct Waiting {
    /// Offset, length on the wire and captured bytes of each fragment, in order.
    parts: Vec<(usize, usize, Vec<u8>)>,
    /// The total length, known from the last fragment.
    total: Option<usize>,
    /// When the first fragment was seen, and the number of captured packets.
    begun: u64,
    packets: u64,
    protocol: Option<u8>,
}

/// Packets that wait for fragments.
#[derive(Debug, Default)]
pub(crate) struct Fragments {
    waiting: HashMap<Key, Waiting>,
    /// Packets by age, the oldest first; includes packets that have been completed.
    order: VecDeque<(Key, u64)>,
    bytes: usize,
    /// Number of fragments that were given up.
    lost: u64,
}

/// A reassembled packet.
#[derive(Debug)]
pub(crate) struct Whole {
    /// Number of fragments.
    pub(crate) parts: u64,
    /// The protocol that its first fragment names.
    pub(crate) protocol: u8,
    bytes: Vec<u8>,
    length: usize,
}

impl Whole {
    /// The packet, which `last` has completed.
    pub(crate) fn network<'a>(&'a self, last: &Network<'_>) -> Network<'a> {
        Network {
            from: last.from,
            to: last.to,
            protocol: self.protocol,
            identification: last.identification,
            size: last.size - last.payload.whole + self.length,
            payload: Piece::new(&self.bytes, self.length),
            fragment: None,
        }
    }
}

impl Fragments {
    /// Adds a fragment. Returns the packet if it is now complete.
    pub(crate) fn take(
        &mut self,
        packet: &Network<'_>,
        fragment: Fragment,
        place: Place,
        time: u64,
    ) -> Option<Whole> {
        // In IPv6 only the first fragment has a reliable protocol number (RFC 8200 section 4.5).
        let is_v6 = packet.from.is_ipv6();
        let key = Key {
            place,
            from: packet.from,
            to: packet.to,
            protocol: if is_v6 { 0 } else { packet.protocol },
            identification: fragment.identification,
        };
        self.give_up_old(&key, time);
        if !self.waiting.contains_key(&key) {
            self.order.push_back((key, time));
            while self.order.len() > MOST_WAITING {
                self.give_up_oldest();
            }
        }
        let waiting = self
            .waiting
            .entry(key)
            .or_insert_with(|| Waiting { begun: time, ..Waiting::default() });
        waiting.packets += 1;
        let (length, captured) = (packet.payload.whole, packet.payload.data);
        let end = fragment.offset + length;
        let is_known = waiting.parts.iter().any(|(at, ..)| *at == fragment.offset);
        if end > LONGEST || waiting.parts.len() >= MOST_PARTS || is_known {
            return None;
        }
        if fragment.offset == 0 {
            waiting.protocol = Some(packet.protocol);
        }
        if !fragment.more {
            waiting.total = Some(end);
        }
        let at = waiting.parts.partition_point(|(at, ..)| *at < fragment.offset);
        waiting.parts.insert(at, (fragment.offset, length, captured.to_vec()));
        self.bytes += captured.len();
        let whole = waiting.whole();
        if whole.is_some() {
            self.forget(&key);
        }
        while self.bytes > MOST_BYTES && self.give_up_oldest() {}
        whole
    }

    fn forget(&mut self, key: &Key) -> Option<Waiting> {
        let waiting = self.waiting.remove(key)?;
        self.bytes -= waiting.parts.iter().map(|(.., bytes)| bytes.len()).sum::<usize>();
        Some(waiting)
    }

    /// Gives up an old packet, because identifications are reused.
    fn give_up_old(&mut self, key: &Key, time: u64) {
        let is_old = |waiting: &Waiting| time.saturating_sub(waiting.begun) > PATIENCE;
        if self.waiting.get(key).is_some_and(is_old)
            && let Some(waiting) = self.forget(key)
        {
            self.lost += waiting.packets;
        }
    }

    /// Gives up the oldest packet. Returns false if there is none.
    fn give_up_oldest(&mut self) -> bool {
        let Some((key, begun)) = self.order.pop_front() else { return false };
        let is_it = self.waiting.get(&key).is_some_and(|waiting| waiting.begun == begun);
        if is_it && let Some(waiting) = self.forget(&key) {
            self.lost += waiting.packets;
        }
        true
    }

    /// Number of fragments of incomplete packets: those given up, and those that still wait.
    pub(crate) fn lost(&self) -> u64 {
        self.lost + self.waiting.values().map(|waiting| waiting.packets).sum::<u64>()
    }
}

impl Waiting {
    /// The whole packet if no fragment is missing. A gap in the captured bytes ends the readable
    /// part.
    fn whole(&self) -> Option<Whole> {
        let (total, protocol) = (self.total?, self.protocol?);
        let mut end = 0;
        for (at, length, _) in &self.parts {
            if *at > end {
                return None;
            }
            end = end.max(at + length);
        }
        if end < total {
            return None;
        }
        let mut bytes = Vec::with_capacity(total);
        for (at, length, captured) in &self.parts {
            if *at > bytes.len() {
                break;
            }
            bytes.extend_from_slice(captured.get(bytes.len() - at..).unwrap_or_default());
            if captured.len() < *length && bytes.len() < at + length {
                break;
            }
        }
        bytes.truncate(total);
        Some(Whole { parts: self.packets, protocol, bytes, length: total })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part<'a>(
        data: &'a [u8],
        identification: u32,
        offset: usize,
        more: bool,
    ) -> (Network<'a>, Fragment) {
        let fragment = Fragment { identification, offset, more };
        let packet = Network {
            from: [10, 0, 0, 1].into(),
            to: [10, 0, 0, 2].into(),
            protocol: 132,
            identification: Some(identification as u16),
            size: 20 + data.len(),
            payload: Piece::new(data, data.len()),
            fragment: Some(fragment),
        };
        (packet, fragment)
    }

    #[test]
    fn parts_in_any_order_are_a_packet() {
        let all: Vec<u8> = (0..24).collect();
        for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0], [0, 2, 1]] {
            let mut fragments = Fragments::default();
            let mut whole = None;
            for index in order {
                assert!(whole.is_none());
                let (packet, fragment) = part(&all[index * 8..][..8], 7, index * 8, index < 2);
                whole = fragments.take(&packet, fragment, Place::default(), 0);
                if let Some(whole) = &whole {
                    let network = whole.network(&packet);
                    assert_eq!((network.payload.data, network.size), (&all[..], 44));
                    assert_eq!((network.protocol, whole.parts), (132, 3));
                }
            }
            assert!(whole.is_some());
            assert_eq!((fragments.lost(), fragments.bytes), (0, 0));
        }
    }

    #[test]
    fn a_cut_part_ends_what_can_be_read_but_not_the_length() {
        let mut fragments = Fragments::default();
        let (mut packet, fragment) = part(&[1; 8], 7, 0, true);
        packet.payload = Piece::new(&[1; 4], 8);
        assert!(fragments.take(&packet, fragment, Place::default(), 0).is_none());
        let (packet, fragment) = part(&[2; 8], 7, 8, false);
        let whole = fragments.take(&packet, fragment, Place::default(), 0).unwrap();
        assert_eq!((whole.bytes.as_slice(), whole.length), (&[1; 4][..], 16));
    }

    #[test]
    fn what_never_ends_takes_bounded_memory_and_is_counted() {
        let mut fragments = Fragments::default();
        let data = [0; 65_000];
        for id in 0..10_000 {
            let length = if id % 2 == 0 { 65_000 } else { 8 };
            let (packet, fragment) = part(&data[..length], id, 0, true);
            assert!(fragments.take(&packet, fragment, Place::default(), 0).is_none());
            assert!(fragments.bytes <= MOST_BYTES && fragments.order.len() <= MOST_WAITING);
            assert!(fragments.waiting.len() <= MOST_WAITING);
        }
        assert_eq!(fragments.lost(), 10_000);
        // The identification is reused later: the old fragments must not be combined with the new
        // ones.
        let mut fragments = Fragments::default();
        let (packet, fragment) = part(&[1; 8], 7, 8, false);
        assert!(fragments.take(&packet, fragment, Place::default(), 0).is_none());
        let (packet, fragment) = part(&[2; 8], 7, 0, true);
        assert!(fragments.take(&packet, fragment, Place::default(), PATIENCE + 1).is_none());
        assert_eq!(fragments.lost(), 2);
    }
}
