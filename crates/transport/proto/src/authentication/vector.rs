//! What both sides say of authentication in the handshake, from which keys are derived.

use std::cmp::Ordering;

use anabranch_wire::{Parameter, RawParameter, U16List, parameter_kind as kind};

use super::{AuthenticationConfig, ChunkTypes, HmacAlgorithm};
use crate::rng::Rng;

/// Bytes of the random number.
const RANDOM: usize = 32;
/// Bytes of a parameter's header.
const HEADER: usize = 4;
/// The longest list of chunks with its header.
const LONGEST_CHUNKS: usize = 260;
/// The longest list of algorithms that is kept, with its header; two are known.
const LONGEST_ALGORITHMS: usize = HEADER + 2 * 16;

/// The key vector of one side (RFC 4895 section 6.1): the parameters RANDOM, CHUNKS and HMAC-ALGO of its INIT or INIT ACK,
/// in this order and without padding.
// req: rfc4895 6.1 "all padding MUST be removed from this"
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyVector(Box<[u8]>);

impl KeyVector {
    /// The most bytes of one.
    pub(crate) const MOST: usize = HEADER + RANDOM + LONGEST_CHUNKS + LONGEST_ALGORITHMS;

    /// This side's, with a new random number. It accepts `chunks` only if they are authenticated.
    // req: rfc4895 6.1 "willing to receive or send authenticated chunks MUST"
    // req: rfc4895 6.1 "parameter MUST contain a 32-byte Random Number"
    // req: rfc4895 6.1 "Each SCTP endpoint MUST include in the INIT"
    // req: rfc4895 6.1 "on SHA-1 MUST be supported and included"
    // req: rfc4895 3.1 "The RANDOM parameter MUST be included once"
    // req: rfc4895 3.2 "The CHUNKS parameter MUST be included once"
    // req: rfc4895 3.3 "The HMAC-ALGO parameter MUST be included once"
    pub(crate) fn own(config: &AuthenticationConfig, chunks: &ChunkTypes, rng: &mut Rng) -> Self {
        let mut bytes = Vec::with_capacity(64);
        let random: Vec<u8> = (0..RANDOM / 8).flat_map(|_| rng.next_u64().to_be_bytes()).collect();
        // Each is encoded with its padding, which is not part of the vector.
        put(&Parameter::Random(&random), &mut bytes);
        let chunks: Vec<u8> = chunks.iter().collect();
        if !chunks.is_empty() {
            put(&Parameter::ChunkList(&chunks), &mut bytes);
        }
        let accepted: Vec<u16> =
            config.authentication_hmac.accepted().iter().map(|one| one.identifier()).collect();
        let mut list = Vec::new();
        put(&Parameter::RequestedHmacAlgorithm(U16List::encode(&accepted, &mut list)), &mut bytes);
        Self(bytes.into())
    }

    /// One from a cookie.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Self {
        Self(bytes.into())
    }

    /// Its bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Appends the parameters to the value of an INIT or INIT ACK.
    pub(crate) fn write(&self, value: &mut Vec<u8>) {
        for (_, bytes) in self.parameters() {
            value.extend_from_slice(bytes);
            value.resize(value.len().next_multiple_of(4), 0);
        }
    }

    /// The chunks that this side accepts only if they are authenticated.
    pub(crate) fn chunks(&self) -> ChunkTypes {
        self.value(kind::CHUNK_LIST).map_or(ChunkTypes::NONE, ChunkTypes::of)
    }

    /// Whether this side accepts the algorithm.
    pub(crate) fn accepts(&self, identifier: u16) -> bool {
        self.identifiers().any(|known| known == identifier)
    }

    /// The first algorithm in its list that is known here.
    // req: rfc4895 6.1 "HMAC-ALGO parameter SHOULD use the first"
    // req: rfc4895 3.3 "list the HMAC Identifiers the peer MUST use"
    pub(crate) fn algorithm(&self) -> Option<HmacAlgorithm> {
        self.identifiers().find_map(HmacAlgorithm::of)
    }

    fn identifiers(&self) -> impl Iterator<Item = u16> + '_ {
        U16List::new(self.value(kind::REQUESTED_HMAC_ALGORITHM).unwrap_or_default()).iter()
    }

    fn value(&self, wanted: u16) -> Option<&[u8]> {
        let (_, bytes) = self.parameters().find(|(kind, _)| *kind == wanted)?;
        bytes.get(HEADER..)
    }

    /// The parameters with their headers.
    fn parameters(&self) -> impl Iterator<Item = (u16, &[u8])> {
        let mut rest = &*self.0;
        std::iter::from_fn(move || {
            let [a, b, c, d] = *rest.first_chunk()?;
            let length = usize::from(u16::from_be_bytes([c, d])).max(HEADER);
            let (parameter, after) = rest.split_at_checked(length)?;
            rest = after;
            Some((u16::from_be_bytes([a, b]), parameter))
        })
    }

    /// Compares two vectors as numbers. Both begin with the type of the same parameter, which is not zero, so the longer
    /// one is the larger.
    fn compare(&self, other: &Self) -> Ordering {
        self.0.len().cmp(&other.0.len()).then_with(|| self.0.cmp(&other.0))
    }
}

fn put(parameter: &Parameter<'_>, bytes: &mut Vec<u8>) {
    let start = bytes.len();
    parameter.encode(bytes);
    let length = bytes.get(start + 2..start + HEADER).and_then(|length| length.try_into().ok());
    let length = length.map_or(0, u16::from_be_bytes);
    bytes.truncate(start + usize::from(length));
}

/// The vectors of both sides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyVectors {
    pub(crate) own: KeyVector,
    pub(crate) peer: KeyVector,
}

impl KeyVectors {
    /// The association shared key for a secret (RFC 4895 section 6.1).
    pub(crate) fn key(&self, secret: &[u8]) -> Vec<u8> {
        let (smaller, larger) = match self.own.compare(&self.peer) {
            Ordering::Greater => (&self.peer, &self.own),
            Ordering::Less | Ordering::Equal => (&self.own, &self.peer),
        };
        [secret, smaller.bytes(), larger.bytes()].concat()
    }
}

/// The parameters of an INIT or INIT ACK of the peer that are about authentication, as they were received.
#[derive(Debug, Default)]
pub(crate) struct Offer {
    random: Option<Box<[u8]>>,
    chunks: Option<Box<[u8]>>,
    algorithms: Option<Box<[u8]>>,
}

impl Offer {
    /// Takes note of a parameter, if it is about authentication.
    pub(crate) fn note(&mut self, parameter: &RawParameter<'_>) {
        let place = match parameter.kind {
            kind::RANDOM => &mut self.random,
            kind::CHUNK_LIST => &mut self.chunks,
            kind::REQUESTED_HMAC_ALGORITHM => &mut self.algorithms,
            _ => return,
        };
        place.get_or_insert_with(|| parameter.bytes().into());
    }

    /// Whether the random number has a wrong length.
    pub(crate) fn is_invalid(&self) -> bool {
        self.random.as_ref().is_some_and(|random| random.len() != HEADER + RANDOM)
    }

    /// The peer's key vector. `None` if it does not offer authentication, or only with algorithms that are unknown here,
    /// or with absurdly long lists.
    pub(crate) fn vector(&self) -> Option<KeyVector> {
        let (random, algorithms) = self.random.as_ref().zip(self.algorithms.as_ref())?;
        let chunks = self.chunks.as_deref().unwrap_or_default();
        if chunks.len() > LONGEST_CHUNKS || algorithms.len() > LONGEST_ALGORITHMS {
            return None;
        }
        let vector = KeyVector([random, chunks, algorithms].concat().into());
        vector.algorithm().is_some().then_some(vector)
    }
}

#[cfg(test)]
mod tests {
    use anabranch_wire::Parameters;

    use super::*;

    fn config(chunks: &[u8], hmac: HmacAlgorithm) -> AuthenticationConfig {
        AuthenticationConfig {
            authentication: true,
            authenticated_chunks: ChunkTypes::of(chunks),
            authentication_hmac: hmac,
            ..AuthenticationConfig::default()
        }
    }

    fn own_of(chunks: &[u8], hmac: HmacAlgorithm, rng: &mut Rng) -> KeyVector {
        let config = config(chunks, hmac);
        KeyVector::own(&config, &config.authenticated_chunks, rng)
    }

    fn offer(value: &[u8]) -> Offer {
        let mut offer = Offer::default();
        for parameter in Parameters::new(value).iter() {
            offer.note(&parameter.unwrap());
        }
        offer
    }

    #[test]
    // test: rfc4895 6.1 "willing to receive or send authenticated chunks MUST"
    // test: rfc4895 6.1 "parameter MUST contain a 32-byte Random Number"
    // test: rfc4895 6.1 "Each SCTP endpoint MUST include in the INIT"
    // test: rfc4895 6.1 "HMAC-ALGO parameter SHOULD use the first"
    fn what_one_side_writes_the_other_reads() {
        let mut rng = Rng::from_key((1, 2));
        for (chunks, hmac, length) in [
            (&[][..], HmacAlgorithm::Sha256, 36 + 8),
            (&[0, 0xc1, 0x80], HmacAlgorithm::Sha256, 36 + 7 + 8),
            (&[0], HmacAlgorithm::Sha1, 36 + 5 + 6),
        ] {
            let own = own_of(chunks, hmac, &mut rng);
            assert_eq!(own.bytes().len(), length);
            let mut value = Vec::new();
            own.write(&mut value);
            assert_eq!(value.len() % 4, 0);
            let read = offer(&value);
            assert!(!read.is_invalid());
            let read = read.vector().unwrap();
            assert_eq!(read, own);
            assert_eq!(read.chunks(), ChunkTypes::of(chunks));
            assert_eq!(read.algorithm(), Some(hmac));
            assert!(read.accepts(1));
            assert_eq!(read.accepts(3), hmac == HmacAlgorithm::Sha256);
            assert!(own.bytes().len() <= KeyVector::MOST);
            assert_ne!(own, own_of(chunks, hmac, &mut rng));
        }
    }

    #[test]
    fn incomplete_and_absurd_offers() {
        let value = |random: usize, algorithms: &[u16], chunks: usize| {
            let mut value = Vec::new();
            Parameter::Random(&vec![1; random]).encode(&mut value);
            let mut list = Vec::new();
            if !algorithms.is_empty() {
                let list = U16List::encode(algorithms, &mut list);
                Parameter::RequestedHmacAlgorithm(list).encode(&mut value);
            }
            Parameter::ChunkList(&vec![0; chunks]).encode(&mut value);
            offer(&value)
        };
        assert!(offer(&[]).vector().is_none());
        assert!(value(32, &[1], 1).vector().is_some());
        assert!(value(32, &[], 1).vector().is_none(), "no algorithm");
        assert!(value(32, &[2, 4], 1).vector().is_none(), "unknown algorithms");
        assert_eq!(value(32, &[4, 1, 3], 1).vector().unwrap().algorithm(), HmacAlgorithm::of(1));
        assert!(value(32, &[1], 257).vector().is_none());
        assert!(value(32, &[1; 17], 1).vector().is_none());
        assert!(value(31, &[1], 1).is_invalid() && value(33, &[1], 1).is_invalid());
    }

    /// The example in words of RFC 4895 section 6.1.
    #[test]
    fn the_smaller_vector_comes_first() {
        let vector = |bytes: &[u8]| KeyVector::from_bytes(bytes);
        let key = |own: &[u8], peer: &[u8]| {
            KeyVectors { own: vector(own), peer: vector(peer) }.key(b"secret")
        };
        for (smaller, larger) in
            [(&b"\x80\x02a"[..], &b"\x80\x02b"[..]), (b"\x80\x02b", b"\x80\x02aa")]
        {
            let expected = [b"secret", smaller, larger].concat();
            assert_eq!(key(smaller, larger), expected);
            assert_eq!(key(larger, smaller), expected, "the same on both sides");
        }
        assert_eq!(key(b"\x80\x02", b"\x80\x02"), b"secret\x80\x02\x80\x02");
    }
}
