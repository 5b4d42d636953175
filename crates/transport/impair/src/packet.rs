//! The properties of packets that a link needs.

use bytes::{Bytes, BytesMut};

use crate::Rng;
use crate::pattern::Facts;

/// A packet that a [`Link`](crate::Link) can carry. The link never examines its contents.
///
/// Drivers whose packets carry more than bytes (addresses, ECN marks) implement it for their own type and forward the
/// calls to the payload.
pub trait Packet {
    /// Whether [`facts`](Self::facts) returns anything. If not, filters of patterns can only test sizes.
    const HAS_FACTS: bool = false;

    /// The facts for filters of patterns, if the packet type has them.
    fn facts(&self) -> Option<Facts> {
        None
    }

    /// Flips a bit. Bits are counted from the first one (0), or backwards from the last one (-1). Returns false if the
    /// bit does not exist or cannot be flipped.
    fn flip(&mut self, bit: i64) -> bool {
        let _ = bit;
        false
    }

    /// Size in bytes; [`LinkConfig::overhead`](crate::LinkConfig::overhead) is added to it.
    fn size(&self) -> usize;

    /// Flips a random bit. Returns false if there is none.
    fn corrupt(&mut self, rng: &mut Rng) -> bool;

    /// Sets the ECN codepoint to 'congestion experienced' if the packet is ECN-capable (RFC 3168 section 5); if not,
    /// changes nothing and returns false. Default: it is not.
    fn mark(&mut self) -> bool {
        false
    }

    /// A copy, for the duplication model. Packets that cannot be copied return `None` and are never duplicated.
    fn duplicate(&self) -> Option<Self>
    where
        Self: Sized;

    /// Whether a link with a smaller MTU carries the packet in fragments, as IPv4 does without 'don't fragment'.
    /// Headers of fragments are not counted, and no fragment is lost separately. Default: false.
    fn may_be_fragmented(&self) -> bool {
        false
    }
}

/// Flips a random bit of `bytes`. Returns false if they are empty.
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

/// Flips a bit of `bytes`, as defined by [`Packet::flip`].
pub fn flip(bytes: &mut [u8], bit: i64) -> bool {
    let bits = i64::try_from(bytes.len()).unwrap_or(i64::MAX).saturating_mul(8);
    let bit = if bit < 0 { bit.saturating_add(bits) } else { bit };
    let index = usize::try_from(bit.div_euclid(8)).ok();
    match index.and_then(|index| bytes.get_mut(index)) {
        Some(byte) => {
            *byte ^= 0x80 >> bit.rem_euclid(8);
            true
        }
        None => false,
    }
}

/// A large packet, handled through a pointer.
impl<P: Packet> Packet for Box<P> {
    const HAS_FACTS: bool = P::HAS_FACTS;

    fn facts(&self) -> Option<Facts> {
        (**self).facts()
    }

    fn flip(&mut self, bit: i64) -> bool {
        (**self).flip(bit)
    }

    fn size(&self) -> usize {
        (**self).size()
    }

    fn corrupt(&mut self, rng: &mut Rng) -> bool {
        (**self).corrupt(rng)
    }

    fn mark(&mut self) -> bool {
        (**self).mark()
    }

    fn duplicate(&self) -> Option<Self> {
        (**self).duplicate().map(Self::new)
    }

    fn may_be_fragmented(&self) -> bool {
        (**self).may_be_fragmented()
    }
}

impl Packet for Vec<u8> {
    fn flip(&mut self, bit: i64) -> bool {
        flip(self, bit)
    }

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
    fn flip(&mut self, bit: i64) -> bool {
        flip(self, bit)
    }

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
    /// Copies the bytes first, as `corrupt` does.
    fn flip(&mut self, bit: i64) -> bool {
        let mut copy = self.to_vec();
        let changed = flip(&mut copy, bit);
        *self = Self::from(copy);
        changed
    }

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
    fn named_bits_change_from_either_end() {
        let mut packet = vec![0; 3];
        assert!(packet.flip(0) && packet.flip(-1) && packet.flip(9) && packet.flip(-24 + 7));
        assert_eq!(packet, [0x81, 0x40, 0x01]);
        assert!(!packet.flip(24) && !packet.flip(-25) && !packet.flip(i64::MAX));
        let mut shared = Bytes::from(vec![0; 2]);
        assert!(shared.flip(15) && !shared.flip(16));
        assert_eq!(shared, vec![0, 1]);
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
