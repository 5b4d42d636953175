//! Verification tags that can be recognised without a list of all tags.
//!
//! Three bytes of such a tag are random. The last byte is a keyed hash of these and of the two SCTP
//! ports. A program that has the key, such as one in the kernel, can see that a packet may belong to
//! an association, without knowing the associations. It cannot be certain: only the association
//! compares the whole tag.

use crate::rng::{self, Rng};

/// Draws and recognises marked verification tags.
///
/// The hash is HalfSipHash with one round for each word and three at the end (Aumasson and Bernstein;
/// the Linux kernel's `hsiphash` on 32-bit machines), over eight bytes: it needs only 32-bit
/// additions, rotations and exclusive ors, which classic BPF supports.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TagMark {
    key: [u32; 2],
}

impl std::fmt::Debug for TagMark {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TagMark").finish_non_exhaustive()
    }
}

impl TagMark {
    /// The number of bits of a tag that hold the hash, the lowest ones; the others are random.
    pub const HASH_BITS: u32 = 8;

    const HASH_MASK: u32 = (1 << Self::HASH_BITS) - 1;

    /// A mark whose key is derived from `seed`, which must be unpredictable except in tests. It may
    /// be the seed of an [`Endpoint`](crate::Endpoint): neither reveals the other.
    pub fn from_seed(seed: &[u8; 32]) -> Self {
        let bytes = rng::derive(seed, b"tag mark");
        let word = |at: usize| u32::from_be_bytes(std::array::from_fn(|byte| bytes[at + byte]));
        Self { key: [word(0), word(4)] }
    }

    /// The key of the hash: `k0` and `k1` of HalfSipHash.
    pub fn key(&self) -> [u32; 2] {
        self.key
    }

    /// Hashes the source and destination port of an arriving packet (its first word) and the random
    /// bits of the tag.
    fn hash(&self, remote_port: u16, local_port: u16, tag: u32) -> u32 {
        let ports = u32::from(remote_port) << 16 | u32::from(local_port);
        half_sip_hash::<1, 3>(self.key, &[ports, tag >> Self::HASH_BITS])
    }

    /// The marked tag with these random bits, for packets from `remote_port` to `local_port`; it may
    /// be 0.
    pub fn mark(&self, random: u32, remote_port: u16, local_port: u16) -> u32 {
        let hash = self.hash(remote_port, local_port, random);
        (random & !Self::HASH_MASK) | (hash & Self::HASH_MASK)
    }

    /// Whether a packet from `remote_port` to `local_port` has a marked tag. One in 256 other tags is
    /// mistaken for a marked one.
    pub fn recognises(&self, tag: u32, remote_port: u16, local_port: u16) -> bool {
        self.mark(tag, remote_port, local_port) == tag
    }
}

/// A verification tag for packets from `remote_port` to `local_port`: any value except 0.
// req: rfc9260 5.3.1 "Initiate Tag values SHOULD be selected from"
pub(crate) fn draw(mark: Option<TagMark>, rng: &mut Rng, remote_port: u16, local_port: u16) -> u32 {
    loop {
        let random = rng.tag();
        let tag = mark.map_or(random, |mark| mark.mark(random, remote_port, local_port));
        if tag != 0 {
            return tag;
        }
    }
}

/// HalfSipHash of whole words: `C` rounds for each word, `D` rounds at the end.
fn half_sip_hash<const C: usize, const D: usize>(key: [u32; 2], words: &[u32]) -> u32 {
    let mut v = [key[0], key[1], 0x6c79_6765 ^ key[0], 0x7465_6462 ^ key[1]];
    let length = (words.len() as u32) << 26;
    for word in words.iter().chain([&length]) {
        v[3] ^= word;
        (0..C).for_each(|_| round(&mut v));
        v[0] ^= word;
    }
    v[2] ^= 0xff;
    (0..D).for_each(|_| round(&mut v));
    v[1] ^ v[3]
}

/// One SipRound.
fn round(v: &mut [u32; 4]) {
    v[0] = v[0].wrapping_add(v[1]);
    v[1] = v[1].rotate_left(5) ^ v[0];
    v[0] = v[0].rotate_left(16);
    v[2] = v[2].wrapping_add(v[3]);
    v[3] = v[3].rotate_left(8) ^ v[2];
    v[0] = v[0].wrapping_add(v[3]);
    v[3] = v[3].rotate_left(7) ^ v[0];
    v[2] = v[2].wrapping_add(v[1]);
    v[1] = v[1].rotate_left(13) ^ v[2];
    v[2] = v[2].rotate_left(16);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The key 00 01 .. 07 and the messages 00 01 .. of its authors' test vectors whose length is a
    /// multiple of the word length. The results are written as bytes, the lowest first.
    #[test]
    fn the_hash_is_half_sip_hash() {
        let key = [0x0302_0100, 0x0706_0504];
        let hash = |words: &[u32]| half_sip_hash::<2, 4>(key, words).to_le_bytes();
        assert_eq!(hash(&[]), [0xa9, 0x35, 0x9f, 0x5b]);
        assert_eq!(hash(&[0x0302_0100]), [0x2a, 0x6e, 0x46, 0x89]);
        assert_eq!(hash(&[0x0302_0100, 0x0706_0504]), [0xd0, 0xb8, 0x84, 0x8f]);
    }

    #[test]
    fn what_is_marked_is_recognised_with_its_ports_only() {
        let mark = TagMark::from_seed(&[7; 32]);
        let other = TagMark::from_seed(&[8; 32]);
        let mut rng = rng::public(&[1; 32]);
        let mut wrong = [0; 4];
        let drawn = 100_000;
        for _ in 0..drawn {
            let (remote, local) = (rng.next_u32() as u16, rng.next_u32() as u16);
            let tag = draw(Some(mark), &mut rng, remote, local);
            assert!(tag != 0 && mark.recognises(tag, remote, local));
            let taken = [
                mark.recognises(tag, remote ^ 1, local),
                mark.recognises(tag, remote, local ^ 1),
                mark.recognises(rng.next_u32(), remote, local),
                other.recognises(tag, remote, local),
            ];
            wrong.iter_mut().zip(taken).for_each(|(count, taken)| *count += u32::from(taken));
        }
        // One in 256 would be 390; five standard deviations are 98.
        assert!(wrong.iter().all(|count| count.abs_diff(390) < 98), "{wrong:?}");
    }

    #[test]
    fn all_random_bits_are_used() {
        let mark = TagMark::from_seed(&[7; 32]);
        let mut rng = rng::public(&[1; 32]);
        let tags: std::collections::BTreeSet<u32> =
            (0..4096).map(|_| draw(Some(mark), &mut rng, 5000, 5000)).collect();
        // Tags have 24 random bits, so about every second test run has two equal tags.
        assert!(tags.len() > 4090);
        assert_eq!(tags.iter().fold(0, |all, tag| all | tag), u32::MAX);
    }

    #[test]
    fn without_a_mark_tags_are_the_random_numbers() {
        let (mut a, mut b) = (rng::public(&[1; 32]), rng::public(&[1; 32]));
        (0..100).for_each(|_| assert_eq!(draw(None, &mut a, 1, 2), b.tag()));
    }

    #[test]
    fn the_key_is_not_shown() {
        let mark = TagMark::from_seed(&[7; 32]);
        assert_eq!(format!("{mark:?}"), "TagMark { .. }");
    }
}
