//! The fingerprint of a run.

use anabranch_proto::Instant;

/// Number of bytes at the start of a packet that are hashed: its headers and first chunks.
const HASHED: usize = 64;

/// A hash of all packets that hosts send, in order.
///
/// Two runs with the same hash sent the same packets at the same times. It is not a cryptographic
/// hash.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TraceHash(u64);

impl TraceHash {
    /// One packet that enters the network at an address.
    pub(crate) fn packet(&mut self, now: Instant, source: u32, destination: u32, bytes: &[u8]) {
        self.word(now.as_nanos());
        self.word(u64::from(source) << 32 | u64::from(destination));
        self.word(bytes.len() as u64);
        let head = &bytes[..bytes.len().min(HASHED)];
        let (words, rest) = head.as_chunks::<8>();
        for word in words {
            self.word(u64::from_le_bytes(*word));
        }
        if !rest.is_empty() {
            let mut last = [0; 8];
            last[..rest.len()].copy_from_slice(rest);
            self.word(u64::from_le_bytes(last));
        }
    }

    fn word(&mut self, word: u64) {
        // Multiplying by an odd number and folding lets each bit affect all others.
        let mixed = (self.0.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 32);
    }

    pub(crate) fn value(self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(at: u64, source: u32, bytes: &[u8]) -> u64 {
        let mut hash = TraceHash::default();
        hash.packet(Instant::from_nanos(at), source, 9, bytes);
        hash.value()
    }

    #[test]
    fn everything_counts() {
        let packet = [7; 70];
        let base = hash(1, 2, &packet);
        assert_eq!(base, hash(1, 2, &packet));
        assert_ne!(base, hash(2, 2, &packet));
        assert_ne!(base, hash(1, 3, &packet));
        assert_ne!(base, hash(1, 2, &packet[..69]));
        for at in 0..HASHED {
            let mut changed = packet;
            changed[at] ^= 1;
            assert_ne!(base, hash(1, 2, &changed), "{at}");
        }
    }

    #[test]
    fn order_counts() {
        let mut hashes = [TraceHash::default(); 2];
        for (at, hash) in hashes.iter_mut().enumerate() {
            hash.packet(Instant::ZERO, 1, 2, &[at as u8]);
            hash.packet(Instant::ZERO, 1, 2, &[1 - at as u8]);
        }
        assert_ne!(hashes[0].value(), hashes[1].value());
    }
}
