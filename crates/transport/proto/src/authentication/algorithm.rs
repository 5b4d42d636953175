//! The algorithms of AUTH chunks.

use std::fmt;

use hmac::{Hmac, Mac as _};
use sha1::Sha1;
use sha2::Sha256;

use crate::named::named;
use crate::options::words;

/// An algorithm for the MACs of AUTH chunks (RFC 4895 section 3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HmacAlgorithm {
    /// SHA-256, with 32 bytes.
    Sha256,
    /// SHA-1, with 20 bytes: every peer has it.
    Sha1,
}

named!(HmacAlgorithm { Sha256 = "sha-256", Sha1 = "sha-1", });
words!(HmacAlgorithm);

impl HmacAlgorithm {
    /// The algorithm with this identifier.
    pub(crate) fn of(identifier: u16) -> Option<Self> {
        Self::ALL.iter().copied().find(|algorithm| algorithm.identifier() == identifier)
    }

    /// Its identifier in AUTH chunks and in HMAC-ALGO.
    pub const fn identifier(self) -> u16 {
        match self {
            Self::Sha1 => 1,
            Self::Sha256 => 3,
        }
    }

    /// Bytes of its MACs, a multiple of 4.
    pub const fn length(self) -> usize {
        match self {
            Self::Sha1 => 20,
            Self::Sha256 => 32,
        }
    }

    /// What a peer is asked to use when this one is preferred, the best first.
    // req: rfc4895 3.3 "Every endpoint supporting SCTP chunk authentication MUST support the"
    pub const fn accepted(self) -> &'static [Self] {
        match self {
            Self::Sha256 => &[Self::Sha256, Self::Sha1],
            Self::Sha1 => &[Self::Sha1],
        }
    }
}

/// Where the MAC is in an AUTH chunk.
const FIELD: usize = 8;
/// The longest MAC.
const LONGEST: usize = 32;

/// A MAC with its key, which was expanded once.
#[derive(Clone)]
pub(crate) enum Mac {
    Sha1(Hmac<Sha1>),
    Sha256(Hmac<Sha256>),
}

impl Mac {
    /// A key may have any length.
    pub(crate) fn new(algorithm: HmacAlgorithm, key: &[u8]) -> Option<Self> {
        Some(match algorithm {
            HmacAlgorithm::Sha1 => Self::Sha1(Hmac::new_from_slice(key).ok()?),
            HmacAlgorithm::Sha256 => Self::Sha256(Hmac::new_from_slice(key).ok()?),
        })
    }

    /// Writes the MAC into an AUTH chunk, which begins `chunks`: the rest of the packet from there on. The chunk is as long
    /// as the algorithm needs.
    pub(crate) fn fill(&self, chunks: &mut [u8]) {
        match self {
            Self::Sha1(mac) => fill(mac, HmacAlgorithm::Sha1.length(), chunks),
            Self::Sha256(mac) => fill(mac, HmacAlgorithm::Sha256.length(), chunks),
        }
    }

    /// Whether the AUTH chunk that begins `chunks` has the right MAC for itself and the rest of the packet. The comparison
    /// takes the same time wherever they differ.
    pub(crate) fn verifies(&self, chunks: &[u8]) -> bool {
        match self {
            Self::Sha1(mac) => verifies(mac, HmacAlgorithm::Sha1.length(), chunks),
            Self::Sha256(mac) => verifies(mac, HmacAlgorithm::Sha256.length(), chunks),
        }
    }
}

/// Keys are not shown.
impl fmt::Debug for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Mac")
    }
}

/// The MAC over an AUTH chunk with zeros in place of the MAC, and the chunks after it.
// req: rfc4895 6.2 "The sender MUST calculate the Message Authentication Code"
// req: rfc4895 6.2 "authenticated MUST be included in the HMAC computation"
fn over<M: hmac::Mac + Clone>(mac: &M, length: usize, chunks: &[u8]) -> Option<M> {
    let (head, rest) = chunks.split_at_checked(FIELD)?;
    let (_, covered) = rest.split_at_checked(length)?;
    Some(mac.clone().chain_update(head).chain_update(&[0; LONGEST][..length]).chain_update(covered))
}

fn fill<M: hmac::Mac + Clone>(mac: &M, length: usize, chunks: &mut [u8]) {
    let Some(tag) = over(mac, length, chunks).map(|mac| mac.finalize().into_bytes()) else {
        return;
    };
    if let Some(field) = chunks.get_mut(FIELD..FIELD + length) {
        field.copy_from_slice(&tag);
    }
}

fn verifies<M: hmac::Mac + Clone>(mac: &M, length: usize, chunks: &[u8]) -> bool {
    let field = chunks.get(FIELD..FIELD + length);
    over(mac, length, chunks).zip(field).is_some_and(|(mac, tag)| mac.verify_slice(tag).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An AUTH chunk with an empty field for the MAC, and a chunk after it.
    fn chunks(algorithm: HmacAlgorithm) -> Vec<u8> {
        let length = algorithm.length();
        let mut chunks = vec![15, 0, 0, 8 + length as u8, 0, 0, 0, algorithm.identifier() as u8];
        chunks.resize(FIELD + length, 0);
        chunks.extend([0x0b, 0, 0, 4]);
        chunks
    }

    /// The values are from an independent implementation: Python's `hmac`.
    #[test]
    // test: rfc4895 6.2 "The sender MUST calculate the Message Authentication Code"
    fn macs_are_those_of_rfc_2104() {
        let expected = [
            (HmacAlgorithm::Sha1, "8fb1399f99575b28e31d045146340e0530ef08eb"),
            (
                HmacAlgorithm::Sha256,
                "1d07be3f705c3f1c3efec1f0f47ad499c5b4a2cc4a854aa5fc44e0eaf7608875",
            ),
        ];
        for (algorithm, hex) in expected {
            let mut chunks = chunks(algorithm);
            Mac::new(algorithm, b"a key").unwrap().fill(&mut chunks);
            let tag: String = (chunks[FIELD..FIELD + algorithm.length()].iter())
                .map(|byte| format!("{byte:02x}"))
                .collect();
            assert_eq!(tag, hex);
        }
    }

    #[test]
    // test: rfc4895 6.2 "authenticated MUST be included in the HMAC computation"
    fn every_byte_counts() {
        for &algorithm in HmacAlgorithm::ALL {
            let mac = Mac::new(algorithm, &[7; 200]).unwrap();
            let mut good = chunks(algorithm);
            mac.fill(&mut good);
            assert!(mac.verifies(&good));
            for at in 0..good.len() {
                let mut forged = good.clone();
                forged[at] ^= 0x40;
                assert!(!mac.verifies(&forged), "{at}");
                assert!(!mac.verifies(&good[..at]), "{at}");
            }
            assert!(!Mac::new(algorithm, &[8; 200]).unwrap().verifies(&good));
        }
    }

    #[test]
    fn identifiers() {
        assert_eq!(HmacAlgorithm::of(1), Some(HmacAlgorithm::Sha1));
        assert_eq!(HmacAlgorithm::of(3), Some(HmacAlgorithm::Sha256));
        assert_eq!([0, 2, 4].map(HmacAlgorithm::of), [None; 3]);
        assert!(
            HmacAlgorithm::ALL.iter().all(|one| one.length() % 4 == 0 && one.length() <= LONGEST)
        );
    }
}
