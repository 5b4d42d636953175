//! Random numbers without a random source: SipHash as a pseudo-random function of a counter.
//!
//! Values that peers can see (tags, initial TSNs, nonces, jitter) and values that must stay secret
//! (cookie keys) are derived from different keys, which do not reveal each other.

use std::hash::Hasher;

use hmac::{Hmac, Mac};
use sha2::Sha256;
use siphasher::sip::SipHasher13;

/// A stream of unpredictable numbers.
#[derive(Clone, Debug)]
pub(crate) struct Rng {
    key: (u64, u64),
    counter: u64,
}

impl Rng {
    /// A stream that depends only on the two parts of `key`.
    pub(crate) fn from_key(key: (u64, u64)) -> Self {
        Self { key, counter: 0 }
    }

    /// 64 unpredictable bits.
    pub(crate) fn next_u64(&mut self) -> u64 {
        self.counter += 1;
        let mut hasher = SipHasher13::new_with_keys(self.key.0, self.key.1);
        hasher.write_u64(self.counter);
        hasher.finish()
    }

    /// 32 unpredictable bits.
    pub(crate) fn next_u32(&mut self) -> u32 {
        (self.next_u64() >> 32) as u32
    }

    /// A number below `bound` (at least 1); the bias is below 2^-32 for bounds below 2^32.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound.max(1))) >> 64) as u64
    }

    /// A verification tag: any value except 0.
    // req: rfc9260 5.3.1 "Initiate Tag values SHOULD be selected from"
    // req: rfc9260 5.1 "SHOULD be a random number in the range"
    pub(crate) fn tag(&mut self) -> u32 {
        loop {
            let tag = self.next_u32();
            if tag != 0 {
                return tag;
            }
        }
    }

    /// An independent stream for a part of the program.
    pub(crate) fn fork(&mut self) -> Self {
        Self::from_key((self.next_u64(), self.next_u64()))
    }
}

/// 32 bytes that depend on `seed` and `purpose` and reveal neither the seed nor the bytes for
/// another purpose.
pub(crate) fn derive(seed: &[u8; 32], purpose: &[u8]) -> [u8; 32] {
    let mut mac =
        <Hmac<Sha256> as Mac>::new_from_slice(seed).expect("HMAC takes keys of every length");
    mac.update(purpose);
    mac.finalize().into_bytes().into()
}

/// The stream for values that peers may see, from the endpoint's seed.
pub(crate) fn public(seed: &[u8; 32]) -> Rng {
    let bytes = derive(seed, b"public");
    let half = |at: usize| {
        bytes[at..at + 8].iter().fold(0u64, |value, byte| (value << 8) | u64::from(*byte))
    };
    Rng::from_key((half(0), half(8)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_seed_same_numbers() {
        let mut a = public(&[1; 32]);
        let mut b = public(&[1; 32]);
        let mut c = public(&[2; 32]);
        let numbers: Vec<_> = (0..10).map(|_| a.next_u64()).collect();
        assert!(numbers.iter().all(|n| *n == b.next_u64()));
        assert!(numbers.iter().all(|n| *n != c.next_u64()));
        assert_ne!(derive(&[1; 32], b"public"), derive(&[1; 32], b"secret"));
    }

    #[test]
    fn bounds_hold() {
        let mut rng = public(&[3; 32]);
        let mut seen = [false; 7];
        for _ in 0..1000 {
            seen[rng.below(7) as usize] = true;
            assert_ne!(rng.tag(), 0);
        }
        assert_eq!(seen, [true; 7]);
        assert_eq!(rng.below(0), 0);
    }
}
