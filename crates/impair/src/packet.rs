//! What a link needs to know of the packets it carries.

use bytes::{Bytes, BytesMut};

use crate::Rng;

/// A packet that a [`Link`](crate::Link) can carry. The link never looks inside.
///
/// Drivers that carry more than bytes (addresses, ECN marks) implement it for their own type and
/// pass the calls on to the payload.
pub trait Packet {
    /// Size in bytes; [`LinkConfig::overhead`](crate::LinkConfig::overhead) comes on top.
    fn size(&self) -> usize;

    /// Flips one random bit; false when there is none to flip.
    fn corrupt(&mut self, rng: &mut Rng) -> bool;

    /// A second copy, for the duplication model. `None`, for packets that cannot be copied, means
    /// that none is ever duplicated.
    fn duplicate(&self) -> Option<Self>
    where
        Self: Sized;

    /// Whether a link of a smaller MTU carries it in pieces, as IPv4 does without 'don't fragment'. The
    /// headers of the pieces are not counted, and none of them is lost alone. No.
    fn may_be_fragmented(&self) -> bool {
        false
    }
}

/// Flips one random bit of `bytes`; false when it is empty.
fn flip_bit(bytes: &mut [u8], rng: &mut Rng) -> bool {
    let index = rng.below(bytes.len() as u64) as usize;
    let bit = rng.below(8);
    match bytes.get_mut(index) {
        Some(byte) => {
            *byte ^= 1 << bit;
            true
        }
        None => false,
    }
}

impl Packet for Vec<u8> {
    fn size(&self) -> usize {
        self.len()
    }

    fn corrupt(&mut self, rng: &mut Rng) -> bool {
        flip_bit(self, rng)
    }

    fn duplicate(&self) -> Option<Self> {
        Some(self.clone())
    }
}

impl Packet for BytesMut {
    fn size(&self) -> usize {
        self.len()
    }

    fn corrupt(&mut self, rng: &mut Rng) -> bool {
        flip_bit(self, rng)
    }

    fn duplicate(&self) -> Option<Self> {
        Some(self.clone())
    }
}

impl Packet for Bytes {
    fn size(&self) -> usize {
        self.len()
    }

    /// Copies the bytes first: others may hold the same buffer.
    fn corrupt(&mut self, rng: &mut Rng) -> bool {
        let mut copy = self.to_vec();
        let changed = flip_bit(&mut copy, rng);
        *self = Self::from(copy);
        changed
    }

    fn duplicate(&self) -> Option<Self> {
        Some(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn differing_bits(a: &[u8], b: &[u8]) -> u32 {
        assert_eq!(a.len(), b.len());
        a.iter().zip(b).map(|(x, y)| (x ^ y).count_ones()).sum()
    }

    #[test]
    fn one_bit_changes() {
        let mut rng = Rng::new(1);
        let original = [0x5a; 40];
        for _ in 0..100 {
            let mut vec = original.to_vec();
            assert!(vec.corrupt(&mut rng));
            assert_eq!(differing_bits(&vec, &original), 1);
            let mut mutable = BytesMut::from(&original[..]);
            assert!(mutable.corrupt(&mut rng));
            assert_eq!(differing_bits(&mutable, &original), 1);
        }
    }

    #[test]
    fn every_bit_can_change() {
        let mut rng = Rng::new(2);
        let mut hit = [0u8; 2];
        for _ in 0..500 {
            let mut packet = vec![0; 2];
            packet.corrupt(&mut rng);
            hit[0] |= packet[0];
            hit[1] |= packet[1];
        }
        assert_eq!(hit, [0xff, 0xff]);
    }

    #[test]
    fn shared_bytes_stay_whole() {
        let mut rng = Rng::new(3);
        let shared = Bytes::from(vec![7; 10]);
        let mut mine = shared.clone();
        assert!(mine.corrupt(&mut rng));
        assert_eq!(differing_bits(&mine, &shared), 1);
        assert_eq!(shared, vec![7; 10]);
    }

    #[test]
    fn empty_packets_have_nothing_to_corrupt() {
        let mut rng = Rng::new(4);
        assert!(!Vec::new().corrupt(&mut rng));
        assert!(!Bytes::new().corrupt(&mut rng));
        assert!(!BytesMut::new().corrupt(&mut rng));
    }
}
