//! State Cookies: the state that an endpoint needs to create an association, which the peer keeps
//! meanwhile (RFC 9260 sections 5.1.3 to 5.1.5).
//!
//! Layout, in network byte order: generation of the key (4 bytes), HMAC-SHA256 over everything after
//! it, truncated to 16 bytes (RFC 2104 section 5), then the contents.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use hmac::{Hmac, Mac};
use sha2::Sha256;

use crate::authentication::{KeyVector, KeyVectors};
use crate::config::EndpointConfig;
use crate::features::Features;
use crate::time::{Instant, nanos};

/// Transmitted bytes of the MAC: half of the hash, the minimum that RFC 2104 recommends.
const MAC_LENGTH: usize = 16;

/// Maximum number of peer addresses in a cookie; further ones in an INIT are ignored.
pub(crate) const MAX_ADDRESSES: usize = 32;

/// The contents of a cookie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CookieContents {
    /// When it was made, and how long it may be used (whole milliseconds).
    pub(crate) created: Instant,
    pub(crate) lifetime: Duration,
    /// SCTP ports.
    pub(crate) local_port: u16,
    pub(crate) remote_port: u16,
    /// Verification Tags: of packets to this side, of packets to the peer.
    pub(crate) local_tag: u32,
    pub(crate) peer_tag: u32,
    pub(crate) local_initial_tsn: u32,
    pub(crate) peer_initial_tsn: u32,
    pub(crate) peer_rwnd: u32,
    /// Number of streams, as negotiated.
    pub(crate) outbound_streams: u16,
    pub(crate) inbound_streams: u16,
    /// Tie-Tags of the association that existed when the INIT arrived; 0 if there was none.
    pub(crate) local_tie_tag: u32,
    pub(crate) peer_tie_tag: u32,
    /// Addresses and UDP port of the packet with the INIT.
    pub(crate) local: IpAddr,
    pub(crate) remote: IpAddr,
    pub(crate) remote_udp_port: u16,
    /// Features that both sides support and want.
    pub(crate) features: Features,
    pub(crate) adaptation_indication: Option<u32>,
    /// The addresses that the peer listed, at most [`MAX_ADDRESSES`].
    pub(crate) addresses: Vec<IpAddr>,
    /// What both sides said of authentication, if it was agreed on; no secrets.
    // req: rfc4895 6.3 "chunk MUST NOT contain any endpoint pair"
    pub(crate) vectors: Option<KeyVectors>,
}

/// Why a cookie was not accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CookieError {
    /// It was not made by this endpoint, or not for this packet; discard it silently.
    Invalid,
    /// It is too old, by this much.
    Stale {
        by: Duration,
        /// The contents are still valid if they match an existing association (section 5.2.4).
        contents: Box<CookieContents>,
    },
}

/// The properties of the packet with the COOKIE ECHO that a cookie is checked against.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CookiePacket {
    pub(crate) local_port: u16,
    pub(crate) remote_port: u16,
    pub(crate) verification_tag: u32,
}

/// A key and the generation it belongs to.
#[derive(Clone)]
struct Key {
    generation: u32,
    mac: Hmac<Sha256>,
}

/// Makes and checks cookies. Stores nothing for a cookie.
pub(crate) struct CookieJar {
    seed: Hmac<Sha256>,
    /// Nanoseconds for which a key is used; the previous key is accepted for another period.
    period: u64,
    /// The latest keys, the newer one first.
    keys: [Option<Key>; 2],
}

impl std::fmt::Debug for CookieJar {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CookieJar").finish_non_exhaustive()
    }
}

impl CookieJar {
    /// A jar that derives all its secrets from `seed`.
    pub(crate) fn new(config: &EndpointConfig, seed: [u8; 32]) -> Self {
        // A key of at most the block length is used unchanged, so this cannot fail.
        let seed = <Hmac<Sha256> as Mac>::new(&{
            let mut block = hmac::digest::generic_array::GenericArray::default();
            block[..seed.len()].copy_from_slice(&seed);
            block
        });
        Self { seed, period: nanos(config.cookie_secret_lifetime).max(1), keys: [None, None] }
    }

    fn generation(&self, now: Instant) -> u32 {
        // Two generations that are accepted at the same time never have the same low bits.
        (now.as_nanos() / self.period) as u32
    }

    /// The key of a generation, which is derived when it is first needed.
    // req: rfc9260 5.1.3 "The secret key SHOULD be changed reasonably"
    // req: rfc9260 5.1.3 "The secret key SHOULD be random"
    fn key(&mut self, generation: u32) -> Hmac<Sha256> {
        if let Some(key) = self.keys.iter().flatten().find(|key| key.generation == generation) {
            return key.mac.clone();
        }
        let mut mac = self.seed.clone();
        mac.update(b"State Cookie");
        mac.update(&generation.to_be_bytes());
        let mut block = hmac::digest::generic_array::GenericArray::default();
        block[..32].copy_from_slice(&mac.finalize().into_bytes());
        let mac = <Hmac<Sha256> as Mac>::new(&block);
        self.keys.swap(0, 1);
        self.keys[0] = Some(Key { generation, mac: mac.clone() });
        mac
    }

    /// Makes the cookie for these contents.
    // req: rfc9260 5.1.3 "State Cookie SHOULD also contain a timestamp"
    // req: rfc9260 5.1.3 "MAC with acceptable security properties SHOULD"
    // req: rfc9260 5.1.3 "SHOULD make the cookie as small as"
    // req: rfc9260 3.3.11 "SHOULD make the cookie as small as"
    pub(crate) fn seal(&mut self, contents: &CookieContents, now: Instant) -> Vec<u8> {
        let generation = self.generation(now);
        let mut cookie = Vec::with_capacity(160);
        cookie.extend_from_slice(&generation.to_be_bytes());
        cookie.extend_from_slice(&[0; MAC_LENGTH]);
        contents.write(&mut cookie);
        // req: rfc9260 5.1.3 "the sender MUST include a MAC"
        let mut mac = self.key(generation);
        mac.update(&cookie[4 + MAC_LENGTH..]);
        let tag = mac.finalize().into_bytes();
        cookie[4..4 + MAC_LENGTH].copy_from_slice(&tag[..MAC_LENGTH]);
        cookie
    }

    /// Checks a cookie received in `packet` and returns its contents.
    ///
    /// # Errors
    /// [`CookieError`]; the contents of an invalid cookie are not read.
    pub(crate) fn open(
        &mut self,
        cookie: &[u8],
        packet: CookiePacket,
        now: Instant,
    ) -> Result<CookieContents, CookieError> {
        let mut reader = Reader(cookie);
        let (generation, tag) =
            reader.u32().zip(reader.take::<MAC_LENGTH>()).ok_or(CookieError::Invalid)?;
        // req: rfc9260 5.1.5 "the packet containing the COOKIE ECHO"
        if self.generation(now).wrapping_sub(generation) > 1 {
            return Err(CookieError::Invalid);
        }
        let mut mac = self.key(generation);
        mac.update(reader.0);
        // req: rfc9260 5.1.5 "including the COOKIE ECHO chunk and any DATA"
        mac.verify_truncated_left(&tag).map_err(|_| CookieError::Invalid)?;
        let contents = CookieContents::read(reader).ok_or(CookieError::Invalid)?;
        // req: rfc9260 5.1.5 "the packet MUST be silently discarded"
        if contents.local_port != packet.local_port
            || contents.remote_port != packet.remote_port
            || contents.local_tag != packet.verification_tag
        {
            return Err(CookieError::Invalid);
        }
        let by = now.saturating_since(contents.created + contents.lifetime);
        if by.is_zero() {
            Ok(contents)
        } else {
            Err(CookieError::Stale { by, contents: Box::new(contents) })
        }
    }
}

impl CookieContents {
    // req: rfc9260 5.1.3 "it MUST NOT contain information that is"
    fn write(&self, out: &mut Vec<u8>) {
        let lifetime = u32::try_from(self.lifetime.as_millis()).unwrap_or(u32::MAX);
        out.extend_from_slice(&self.created.as_nanos().to_be_bytes());
        for value in [
            lifetime,
            self.local_tag,
            self.peer_tag,
            self.local_initial_tsn,
            self.peer_initial_tsn,
            self.peer_rwnd,
            self.local_tie_tag,
            self.peer_tie_tag,
            self.features.bits(),
        ] {
            out.extend_from_slice(&value.to_be_bytes());
        }
        for value in [
            self.local_port,
            self.remote_port,
            self.outbound_streams,
            self.inbound_streams,
            self.remote_udp_port,
        ] {
            out.extend_from_slice(&value.to_be_bytes());
        }
        out.push(u8::from(self.adaptation_indication.is_some()));
        if let Some(indication) = self.adaptation_indication {
            out.extend_from_slice(&indication.to_be_bytes());
        }
        for vector in self.vectors.iter().flat_map(|both| [&both.own, &both.peer]) {
            let length = u16::try_from(vector.bytes().len()).unwrap_or(0);
            out.extend_from_slice(&length.to_be_bytes());
            out.extend_from_slice(vector.bytes());
        }
        write_address(self.local, out);
        write_address(self.remote, out);
        self.addresses.iter().take(MAX_ADDRESSES).for_each(|&address| write_address(address, out));
    }

    fn read(mut reader: Reader<'_>) -> Option<Self> {
        let created = Instant::from_nanos(u64::from_be_bytes(reader.take()?));
        let lifetime = Duration::from_millis(u64::from(reader.u32()?));
        let mut contents = Self {
            created,
            lifetime,
            local_tag: reader.u32()?,
            peer_tag: reader.u32()?,
            local_initial_tsn: reader.u32()?,
            peer_initial_tsn: reader.u32()?,
            peer_rwnd: reader.u32()?,
            local_tie_tag: reader.u32()?,
            peer_tie_tag: reader.u32()?,
            features: Features::from_bits(reader.u32()?),
            local_port: reader.u16()?,
            remote_port: reader.u16()?,
            outbound_streams: reader.u16()?,
            inbound_streams: reader.u16()?,
            remote_udp_port: reader.u16()?,
            adaptation_indication: match reader.take()? {
                [0] => None,
                _ => Some(reader.u32()?),
            },
            // Only with this feature is there something before the addresses.
            vectors: None,
            local: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            remote: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            addresses: Vec::new(),
        };
        if contents.features.has(Features::AUTHENTICATION) {
            contents.vectors = Some(KeyVectors { own: reader.vector()?, peer: reader.vector()? });
        }
        contents.local = reader.address()?;
        contents.remote = reader.address()?;
        while !reader.0.is_empty() {
            if contents.addresses.len() == MAX_ADDRESSES {
                return None;
            }
            contents.addresses.push(reader.address()?);
        }
        Some(contents)
    }
}

fn write_address(address: IpAddr, out: &mut Vec<u8>) {
    match address {
        IpAddr::V4(address) => {
            out.push(4);
            out.extend_from_slice(&address.octets());
        }
        IpAddr::V6(address) => {
            out.push(6);
            out.extend_from_slice(&address.octets());
        }
    }
}

/// The rest of the bytes.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, tail) = self.0.split_first_chunk()?;
        self.0 = tail;
        Some(*head)
    }

    fn u16(&mut self) -> Option<u16> {
        self.take().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_be_bytes)
    }

    fn vector(&mut self) -> Option<KeyVector> {
        let length = usize::from(self.u16()?);
        let (vector, rest) = self.0.split_at_checked(length.min(KeyVector::MOST))?;
        self.0 = rest;
        Some(KeyVector::from_bytes(vector))
    }

    fn address(&mut self) -> Option<IpAddr> {
        match self.take()? {
            [4] => self.take::<4>().map(|octets| Ipv4Addr::from(octets).into()),
            [6] => self.take::<16>().map(|octets| Ipv6Addr::from(octets).into()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PACKET: CookiePacket =
        CookiePacket { local_port: 36_412, remote_port: 50_000, verification_tag: 0xdead_beef };

    fn jar(seed: u8) -> CookieJar {
        CookieJar::new(&EndpointConfig::default(), [seed; 32])
    }

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    fn contents() -> CookieContents {
        CookieContents {
            created: at(1000),
            lifetime: Duration::from_secs(60),
            local_port: PACKET.local_port,
            remote_port: PACKET.remote_port,
            local_tag: PACKET.verification_tag,
            peer_tag: 2,
            local_initial_tsn: 3,
            peer_initial_tsn: u32::MAX,
            peer_rwnd: 1 << 20,
            outbound_streams: 10,
            inbound_streams: 65_535,
            local_tie_tag: 0,
            peer_tie_tag: 7,
            local: IpAddr::from([10, 0, 0, 1]),
            remote: "2001:db8::7".parse().unwrap(),
            remote_udp_port: 9899,
            features: Features::NR_SACK,
            adaptation_indication: Some(4),
            addresses: vec![IpAddr::from([10, 0, 0, 2]), "2001:db8::8".parse().unwrap()],
            vectors: None,
        }
    }

    #[test]
    // test: rfc9260 5.1.3 "the sender MUST include a MAC"
    // test: rfc9260 3.3.3.1.1 "MUST contain all the necessary state and"
    fn what_is_sealed_can_be_opened() {
        let mut jar = jar(1);
        let cookie = jar.seal(&contents(), at(1000));
        assert_eq!(jar.open(&cookie, PACKET, at(1001)), Ok(contents()));
        assert!(cookie.len() < 160, "{}", cookie.len());
        let few = CookieContents { addresses: vec![], adaptation_indication: None, ..contents() };
        let cookie = jar.seal(&few, at(1000));
        assert_eq!(jar.open(&cookie, PACKET, at(1001)), Ok(few));
        let own = KeyVector::from_bytes(&[1; 36]);
        let peer = KeyVector::from_bytes(&[2; KeyVector::MOST]);
        let features = Features::AUTHENTICATION;
        let long =
            CookieContents { vectors: Some(KeyVectors { own, peer }), features, ..contents() };
        let cookie = jar.seal(&long, at(1000));
        assert_eq!(jar.open(&cookie, PACKET, at(1001)), Ok(long));
    }

    #[test]
    fn no_more_than_32_addresses() {
        let many = vec![IpAddr::from([10, 0, 0, 9]); 40];
        let mut jar = jar(1);
        let cookie = jar.seal(&CookieContents { addresses: many, ..contents() }, at(1000));
        assert_eq!(jar.open(&cookie, PACKET, at(1000)).unwrap().addresses.len(), MAX_ADDRESSES);
    }

    #[test]
    // test: rfc9260 5.1.5 "including the COOKIE ECHO chunk and any DATA"
    // test: rfc9260 4 "the receiver MUST silently discard the packet"
    // test: rfc9260 5.1.5 "the packet containing the COOKIE ECHO"
    fn every_byte_counts() {
        let mut jar = jar(1);
        let cookie = jar.seal(&contents(), at(1000));
        for at_byte in 0..cookie.len() {
            let mut forged = cookie.clone();
            forged[at_byte] ^= 1;
            assert_eq!(jar.open(&forged, PACKET, at(1000)), Err(CookieError::Invalid));
            let cut = &cookie[..at_byte];
            assert_eq!(jar.open(cut, PACKET, at(1000)), Err(CookieError::Invalid));
        }
        let longer = [&cookie[..], &[0]].concat();
        assert_eq!(jar.open(&longer, PACKET, at(1000)), Err(CookieError::Invalid));
        assert_eq!(self::jar(2).open(&cookie, PACKET, at(1000)), Err(CookieError::Invalid));
    }

    #[test]
    // test: rfc9260 5.1.5 "the packet MUST be silently discarded"
    fn the_packet_must_be_the_right_one() {
        let mut jar = jar(1);
        let cookie = jar.seal(&contents(), at(1000));
        for packet in [
            CookiePacket { local_port: 1, ..PACKET },
            CookiePacket { remote_port: 1, ..PACKET },
            CookiePacket { verification_tag: 1, ..PACKET },
        ] {
            assert_eq!(jar.open(&cookie, packet, at(1000)), Err(CookieError::Invalid));
        }
    }

    #[test]
    fn old_cookies_are_stale() {
        let mut jar = jar(1);
        let cookie = jar.seal(&contents(), at(1000));
        assert!(jar.open(&cookie, PACKET, at(1060)).is_ok());
        let Err(CookieError::Stale { by, contents: opened }) = jar.open(&cookie, PACKET, at(1063))
        else {
            panic!("not stale")
        };
        assert_eq!((by, *opened), (Duration::from_secs(3), contents()));
    }

    #[test]
    // test: rfc9260 5.1.3 "The secret key SHOULD be changed reasonably"
    // test: rfc9260 5.1.5 "the packet containing the COOKIE ECHO"
    fn keys_rotate() {
        let mut jar = jar(1);
        let long = CookieContents { lifetime: Duration::from_secs(9999), ..contents() };
        // Secrets change at 600, 1200, 1800 s.
        let cookie = jar.seal(&long, at(1000));
        let next = jar.seal(&long, at(1250));
        assert_ne!(cookie[..20], next[..20]);
        assert_eq!(jar.open(&cookie, PACKET, at(1799)), Ok(long.clone()));
        assert_eq!(jar.open(&cookie, PACKET, at(1800)), Err(CookieError::Invalid));
        assert_eq!(jar.open(&next, PACKET, at(1800)), Ok(long));
        assert_eq!(jar.open(&next, PACKET, at(1100)), Err(CookieError::Invalid), "future");
    }

    proptest! {
        #[test]
        fn garbage_is_invalid(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert_eq!(jar(1).open(&bytes, PACKET, at(0)), Err(CookieError::Invalid));
        }

        /// Tests the reader alone, as if the MAC had been valid.
        #[test]
        fn lengths_are_checked(bytes in proptest::collection::vec(0_u8..8, 0..300)) {
            if let Some(contents) = CookieContents::read(Reader(&bytes)) {
                let mut again = Vec::new();
                contents.write(&mut again);
                prop_assert_eq!(CookieContents::read(Reader(&again)), Some(contents));
            }
        }
    }
}
