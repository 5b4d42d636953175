//! Hash maps with small numbers as keys: streams, ports, associations.
//!
//! The standard library's hash prevents attackers from choosing keys that collide, but costs more
//! than the look-up. It is not needed here: this side chooses the numbers of associations, and
//! there are only 65,536 streams and ports, and at most 256 of them can be made to collide in a
//! table that holds them all.

use std::hash::{BuildHasherDefault, Hasher};

/// A hash map with numbers as keys.
pub(crate) type NumberMap<K, V> = std::collections::HashMap<K, V, BuildHasherDefault<NumberHasher>>;

/// Multiplication by an odd constant, 2^64 divided by the golden ratio (Knuth).
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// Hashes numbers by multiplication.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NumberHasher(u64);

impl NumberHasher {
    fn add(&mut self, number: u64) {
        self.0 = (self.0.rotate_left(5) ^ number).wrapping_mul(MULTIPLIER);
    }
}

impl Hasher for NumberHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.add(u64::from(*byte)));
    }

    fn write_u16(&mut self, number: u16) {
        self.add(u64::from(number));
    }

    fn write_u32(&mut self, number: u32) {
        self.add(u64::from(number));
    }

    fn finish(&self) -> u64 {
        // Tables use the lowest bits, but multiplication mixes the upper bits best.
        self.0 ^ (self.0 >> 32)
    }
}

#[cfg(test)]
mod tests {
    use std::hash::{BuildHasher, Hash};

    use super::*;

    fn hash(value: impl Hash) -> u64 {
        BuildHasherDefault::<NumberHasher>::default().hash_one(value)
    }

    #[test]
    fn neighbours_and_multiples_are_spread() {
        for step in [1_u16, 2, 64, 256] {
            let mut taken = [0; 256];
            (0..256).for_each(|n: u16| taken[(hash(n.wrapping_mul(step)) % 256) as usize] += 1);
            assert!(taken.iter().all(|n| *n < 12), "{step}: {taken:?}");
        }
        assert_ne!(hash((1_u32, 2_u32)), hash((2_u32, 1_u32)));
    }
}
