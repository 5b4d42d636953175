//! Sealed packets: a header of 12 bytes, the encrypted content, a tag of 16 bytes.
//!
//! The header is the session word, a byte with kind and path number, and the number of the packet on its path. The last
//! two are the nonce, and all of it is authenticated.

use ring::aead::{AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use ring::hmac::{HMAC_SHA256, Key as MacKey, sign};
use zeroize::Zeroizing;

use crate::PATHS;

/// Bytes before the content.
pub(crate) const HEADER: usize = 12;

/// Bytes after the content.
pub(crate) const TAG: usize = 16;

/// Bytes that the seal adds to a packet.
pub const OVERHEAD: usize = HEADER + TAG;

/// Numbers of packets have 56 bits.
const MOST_NUMBER: u64 = (1 << 56) - 1;

/// What a record carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A packet of the layer above.
    Data,
    /// Messages of this layer.
    Control,
}

/// The header of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// The receiver's name for the session.
    pub(crate) word: u32,
    pub(crate) kind: Kind,
    /// Path number.
    pub(crate) path: u8,
    /// Number of the record on this path, in this direction, under this key.
    pub(crate) number: u64,
}

impl Header {
    pub(crate) fn encode(&self) -> [u8; HEADER] {
        let kind = match self.kind {
            Kind::Data => 0,
            Kind::Control => 1,
        };
        let mut bytes = [0; HEADER];
        bytes[..4].copy_from_slice(&self.word.to_be_bytes());
        bytes[4..].copy_from_slice(&(self.number & MOST_NUMBER).to_be_bytes());
        bytes[4] = kind << 4 | self.path;
        bytes
    }

    /// Reads the header of a record; `None` if it cannot be one.
    pub(crate) fn decode(record: &[u8]) -> Option<Self> {
        let (word, rest) = record.split_first_chunk()?;
        let (number, _) = rest.split_first_chunk()?;
        if record.len() < OVERHEAD {
            return None;
        }
        let number = u64::from_be_bytes(*number);
        let (kind, path) = ((number >> 60) as u8, (number >> 56 & 15) as u8);
        let kind = match kind {
            0 => Kind::Data,
            1 => Kind::Control,
            _ => return None,
        };
        let known = path < PATHS;
        let word = u32::from_be_bytes(*word);
        known.then_some(Self { word, kind, path, number: number & MOST_NUMBER })
    }

    fn nonce(&self) -> Nonce {
        let mut nonce = [0; 12];
        nonce[4..].copy_from_slice(&self.encode()[4..]);
        Nonce::assume_unique_for_key(nonce)
    }
}

/// An algorithm for records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Suite {
    Aes256Gcm,
    ChaCha20Poly1305,
}

impl Suite {
    /// The code of the algorithm in handshakes.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Aes256Gcm => 1,
            Self::ChaCha20Poly1305 => 2,
        }
    }

    pub(crate) fn of_code(code: u8) -> Option<Self> {
        [Self::Aes256Gcm, Self::ChaCha20Poly1305].into_iter().find(|suite| suite.code() == code)
    }
}

/// Whether this processor computes AES-GCM faster than ChaCha20-Poly1305.
pub fn has_fast_aes() -> bool {
    #[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
    {
        std::arch::is_x86_feature_detected!("aes")
            && std::arch::is_x86_feature_detected!("pclmulqdq")
    }
    #[cfg(target_arch = "aarch64")]
    {
        std::arch::is_aarch64_feature_detected!("aes")
            && std::arch::is_aarch64_feature_detected!("pmull")
    }
    #[cfg(not(any(target_arch = "x86", target_arch = "x86_64", target_arch = "aarch64")))]
    {
        false
    }
}

/// The key of one direction of a session.
pub(crate) struct RecordKey(LessSafeKey);

impl RecordKey {
    /// The key for records that follows from a key of Noise's `Split()`.
    pub(crate) fn new(suite: Suite, split: &[u8; 32]) -> Option<Self> {
        let mut bytes = Zeroizing::new([0; 32]);
        let label = [b"anabranch seal records ", &[suite.code()][..]].concat();
        bytes.copy_from_slice(sign(&MacKey::new(HMAC_SHA256, split), &label).as_ref());
        let algorithm = match suite {
            Suite::Aes256Gcm => &AES_256_GCM,
            Suite::ChaCha20Poly1305 => &CHACHA20_POLY1305,
        };
        Some(Self(LessSafeKey::new(UnboundKey::new(algorithm, &*bytes).ok()?)))
    }

    /// Appends a sealed record to `out`. The caller never repeats a header under one key.
    pub(crate) fn seal(&self, header: &Header, content: &[u8], out: &mut Vec<u8>) -> Option<()> {
        let bytes = header.encode();
        let begin = out.len();
        out.extend_from_slice(&bytes);
        out.extend_from_slice(content);
        let sealed = out.get_mut(begin + HEADER..)?;
        let tag = self.0.seal_in_place_separate_tag(header.nonce(), Aad::from(bytes), sealed);
        match tag {
            Ok(tag) => out.extend_from_slice(tag.as_ref()),
            Err(_) => {
                out.truncate(begin);
                return None;
            }
        }
        Some(())
    }

    /// Opens the record that begins at `begin` of `buffer`, and moves its content to the start of `buffer`. Returns the
    /// length of the content; `None` if the record is not authentic, and then the content of `buffer` is undefined.
    pub(crate) fn open(&self, header: &Header, buffer: &mut [u8], begin: usize) -> Option<usize> {
        let aad = Aad::from(header.encode());
        let content = self.0.open_within(header.nonce(), aad, buffer, begin + HEADER..).ok()?;
        Some(content.len())
    }
}

impl std::fmt::Debug for RecordKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RecordKey(..)")
    }
}

#[cfg(test)]
mod tests {
    use data_encoding::HEXLOWER;
    use proptest::prelude::*;

    use super::*;

    fn header() -> Header {
        Header { word: 0x0102_0304, kind: Kind::Data, path: 5, number: 0x0a0b_0c0d }
    }

    fn sealed(key: &RecordKey, header: &Header, content: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        key.seal(header, content, &mut out).unwrap();
        out
    }

    /// The vectors of `docs/sealed.md`, which another implementation of the algorithms has confirmed.
    #[test]
    fn the_format_stays() {
        let split: [u8; 32] = std::array::from_fn(|index| index as u8);
        for (suite, expected) in
            [(Suite::Aes256Gcm, AES_VECTOR), (Suite::ChaCha20Poly1305, CHACHA_VECTOR)]
        {
            let key = RecordKey::new(suite, &split).unwrap();
            let record = sealed(&key, &header(), b"sealed");
            assert_eq!(HEXLOWER.encode(&record), expected);
        }
    }

    const AES_VECTOR: &str = "01020304050000000a0b0c0daec4ef2791d9f0134d2d09c503c0fcc8da2623f00513";
    const CHACHA_VECTOR: &str =
        "01020304050000000a0b0c0dd27b990205ecaebf24377124ba03259b67d9d33066d8";

    #[test]
    fn keys_of_directions_and_suites_differ() {
        let record = |suite, split| sealed(&RecordKey::new(suite, split).unwrap(), &header(), b"x");
        let aes = record(Suite::Aes256Gcm, &[1; 32]);
        assert_ne!(aes, record(Suite::Aes256Gcm, &[2; 32]));
        assert_ne!(aes, record(Suite::ChaCha20Poly1305, &[1; 32]));
    }

    proptest! {
        #[test]
        fn headers_pass_through_bytes(word: u32, path in 0..PATHS, number in 0..=MOST_NUMBER, control: bool) {
            let kind = if control { Kind::Control } else { Kind::Data };
            let header = Header { word, kind, path, number };
            let mut record = header.encode().to_vec();
            prop_assert_eq!(Header::decode(&record), None);
            record.extend([0; TAG]);
            prop_assert_eq!(Header::decode(&record), Some(header));
        }

        #[test]
        fn any_bytes_are_a_header_or_not(bytes: Vec<u8>) {
            if let Some(header) = Header::decode(&bytes) {
                prop_assert_eq!(&header.encode()[..], &bytes[..HEADER]);
            }
        }

        /// A changed bit anywhere, or a missing byte, and the record is not authentic.
        #[test]
        fn altered_records_are_refused(
            content in prop::collection::vec(any::<u8>(), 0..200),
            bit: prop::sample::Index,
            gap in 0usize..40,
            chacha: bool,
        ) {
            let suite = if chacha { Suite::ChaCha20Poly1305 } else { Suite::Aes256Gcm };
            let key = RecordKey::new(suite, &[3; 32]).unwrap();
            let record = sealed(&key, &header(), &content);
            prop_assert_eq!(record.len(), content.len() + OVERHEAD);
            let mut buffer = [&vec![0; gap], &record[..]].concat();
            prop_assert_eq!(key.open(&header(), &mut buffer, gap), Some(content.len()));
            prop_assert_eq!(&buffer[..content.len()], &content[..]);
            let mut altered = record.clone();
            let bit = bit.index(record.len() * 8);
            altered[bit / 8] ^= 1 << (bit % 8);
            if let Some(header) = Header::decode(&altered) {
                prop_assert_eq!(key.open(&header, &mut altered, 0), None);
            }
            let mut cut = record[..record.len() - 1].to_vec();
            prop_assert_eq!(key.open(&header(), &mut cut, 0), None);
        }
    }
}
