//! The packets of a handshake: the initiator's hello, the responder's welcome, and a cookie instead of the welcome when
//! the responder has much to do.
//!
//! A hello is as long as the largest packet that every path carries, so no answer is longer than it. Its first
//! authenticator shows that the sender knows the responder's public key: others get no answer and cost one HMAC.

use ring::digest::{Context, SHA256};
use ring::hmac::{HMAC_SHA256, Key, sign};
use subtle::ConstantTimeEq;

use crate::PATHS;
use crate::keys::{PublicKey, SecretKey};
use crate::noise::{FIRST_OVERHEAD, Initiator, Responder, Split};
use crate::random::Random;
use crate::record::Suite;
use crate::token::Token;

/// Length of a hello.
pub(crate) const HELLO: usize = 1200;

/// Length of an authenticator.
pub(crate) const MAC: usize = 16;

pub(crate) type Mac = [u8; MAC];

/// The fifth byte of the packets; records have smaller ones.
const TYPE_HELLO: u8 = 0x81;
const TYPE_WELCOME: u8 = 0x82;
const TYPE_COOKIE: u8 = 0x83;

const VERSION: u8 = 1;

/// The hello's parts: type and version, session word, proof of the address, proof of the key, Noise message.
const WORD: usize = 8;
const ADDRESS_PROOF: usize = 12;
const KEY_PROOF: usize = ADDRESS_PROOF + MAC;
const FIRST: usize = KEY_PROOF + MAC;

/// Words and types before the Noise message of a welcome.
const SECOND: usize = 8;

/// Bytes of the hello's payload, which ends with zeros.
const PAYLOAD: usize = HELLO - FIRST - FIRST_OVERHEAD;

/// What the initiator says, encrypted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Offer {
    /// Distinguishes initiators with one key.
    pub(crate) instance: u64,
    /// The number of this handshake of the instance, from 1.
    pub(crate) number: u64,
    /// AES-GCM is faster for the initiator.
    pub(crate) fast_aes: bool,
    /// The token of an invitation.
    pub(crate) token: Option<Token>,
}

impl Offer {
    fn encode(&self) -> Vec<u8> {
        let mut payload = Vec::with_capacity(PAYLOAD);
        payload.extend(self.instance.to_be_bytes());
        payload.extend(self.number.to_be_bytes());
        payload.push(u8::from(self.fast_aes));
        payload.push(u8::from(self.token.is_some()));
        payload.extend(self.token.as_ref().map_or(&[0; Token::LEN], Token::as_bytes));
        payload.resize(PAYLOAD, 0);
        payload
    }

    fn decode(payload: &[u8]) -> Option<Self> {
        let (instance, rest) = payload.split_first_chunk()?;
        let (number, rest) = rest.split_first_chunk()?;
        let ([fast_aes, has_token], rest) = rest.split_first_chunk()?;
        let token = Token::from_bytes(*rest.first_chunk()?);
        Some(Self {
            instance: u64::from_be_bytes(*instance),
            number: u64::from_be_bytes(*number),
            fast_aes: *fast_aes == 1,
            token: (*has_token == 1).then_some(token),
        })
    }
}

/// What the responder says, encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    /// The responder's word for the session.
    pub(crate) word: u32,
    pub(crate) suite: Suite,
}

impl Choice {
    fn encode(self) -> [u8; 8] {
        let mut payload = [0; 8];
        payload[..4].copy_from_slice(&self.word.to_be_bytes());
        payload[4..6].copy_from_slice(&[self.suite.code(), PATHS]);
        payload
    }

    fn decode(payload: &[u8]) -> Option<Self> {
        let (word, rest) = payload.split_first_chunk()?;
        let suite = Suite::of_code(*rest.first()?)?;
        let word = u32::from_be_bytes(*word);
        (word != 0).then_some(Self { word, suite })
    }
}

/// The authenticator with which senders show that they know a public key.
fn key_proof(responder: &PublicKey, hello: &[u8]) -> Option<Mac> {
    let mut hash = Context::new(&SHA256);
    hash.update(b"anabranch seal key proof");
    hash.update(responder.as_bytes());
    let mut mac = ring::hmac::Context::with_key(&Key::new(HMAC_SHA256, hash.finish().as_ref()));
    mac.update(hello.get(..ADDRESS_PROOF)?);
    mac.update(hello.get(FIRST..)?);
    mac.sign().as_ref().first_chunk().copied()
}

/// The authenticator with which senders show that they have received a cookie.
pub(crate) fn address_proof(cookie: &Mac, key_proof: &Mac) -> Mac {
    let tag = sign(&Key::new(HMAC_SHA256, cookie), key_proof);
    std::array::from_fn(|index| tag.as_ref()[index])
}

/// Whether a hello claims to prove its address.
pub(crate) fn has_address_proof(hello: &[u8]) -> bool {
    hello.get(ADDRESS_PROOF..KEY_PROOF).is_some_and(|proof| proof != [0; MAC])
}

/// The initiator's side of one handshake.
pub(crate) struct Attempt {
    noise: Initiator,
    /// The hello; the same one is sent until there is an answer.
    hello: Vec<u8>,
    /// The initiator's word for the session.
    pub(crate) word: u32,
}

impl Attempt {
    /// Begins a handshake; `None` if the peer's key is not usable.
    pub(crate) fn begin(
        secret: &SecretKey,
        remote: &PublicKey,
        word: u32,
        offer: &Offer,
        random: Random,
    ) -> Option<Self> {
        let mut hello = vec![0; FIRST];
        hello[4..6].copy_from_slice(&[TYPE_HELLO, VERSION]);
        hello[WORD..ADDRESS_PROOF].copy_from_slice(&word.to_be_bytes());
        let (noise, first) =
            Initiator::begin(secret, remote, &hello[..ADDRESS_PROOF], &offer.encode(), random)?;
        hello.extend(first);
        let proof = key_proof(remote, &hello)?;
        hello[KEY_PROOF..FIRST].copy_from_slice(&proof);
        Some(Self { noise, hello, word })
    }

    /// The hello to send.
    pub(crate) fn hello(&self) -> &[u8] {
        &self.hello
    }

    /// Reads the responder's welcome. Returns its choice and the keys; `None` if it is not authentic.
    pub(crate) fn finish(&mut self, welcome: &[u8]) -> Option<(Choice, Split)> {
        let (payload, split) = self.noise.finish(welcome.get(SECOND..)?)?;
        Some((Choice::decode(&payload)?, split))
    }

    /// Reads a cookie: later hellos prove the address. Returns whether the cookie answers this hello.
    pub(crate) fn take_cookie(&mut self, packet: &[u8]) -> bool {
        let ours: Option<&Mac> = self.hello.get(KEY_PROOF..).and_then(<[u8]>::first_chunk);
        let theirs = packet.get(SECOND..).and_then(|rest| rest.split_first_chunk::<MAC>());
        let (Some(ours), Some((proof, cookie))) = (ours, theirs) else { return false };
        let (Ok(cookie), true) = (Mac::try_from(cookie), proof == ours) else { return false };
        let proof = address_proof(&cookie, ours);
        self.hello[ADDRESS_PROOF..KEY_PROOF].copy_from_slice(&proof);
        true
    }
}

impl std::fmt::Debug for Attempt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Attempt").field("word", &self.word).finish_non_exhaustive()
    }
}

/// A hello whose sender knows this side's public key.
pub(crate) struct Hello<'a> {
    packet: &'a [u8],
    /// The initiator's word for the session.
    pub(crate) word: u32,
    /// Its proof of the key, which also names the hello: copies have the same one.
    pub(crate) key_proof: Mac,
    /// Its proof of the address, if it has one.
    pub(crate) address_proof: Mac,
}

impl<'a> Hello<'a> {
    /// Reads a hello to the endpoint with this key; `None` if the sender does not know the key.
    pub(crate) fn read(packet: &'a [u8], own: &PublicKey) -> Option<Self> {
        if packet.len() != HELLO || packet.get(..8)? != [0, 0, 0, 0, TYPE_HELLO, VERSION, 0, 0] {
            return None;
        }
        let word = u32::from_be_bytes(*packet.get(WORD..)?.first_chunk()?);
        let address_proof = *packet.get(ADDRESS_PROOF..)?.first_chunk()?;
        let claimed: Mac = *packet.get(KEY_PROOF..)?.first_chunk()?;
        let right: bool = key_proof(own, packet)?.ct_eq(&claimed).into();
        (right && word != 0).then_some(Self { packet, word, key_proof: claimed, address_proof })
    }

    /// Reads the encrypted part, which takes two Diffie-Hellman computations.
    pub(crate) fn decrypt(&self, secret: &SecretKey, random: Random) -> Option<Guest> {
        let prologue = self.packet.get(..ADDRESS_PROOF)?;
        let noise = Responder::read(secret, prologue, self.packet.get(FIRST..)?, random)?;
        let offer = Offer::decode(&noise.payload)?;
        Some(Guest { noise, offer, word: self.word })
    }

    /// The answer that tells a sender to prove its address.
    pub(crate) fn cookie_reply(&self, cookie: &Mac) -> Vec<u8> {
        let start = start(self.word, TYPE_COOKIE);
        [&start[..], &self.key_proof, cookie].concat()
    }
}

/// An initiator that has shown that it has the secret key of its public one.
pub(crate) struct Guest {
    noise: Responder,
    pub(crate) offer: Offer,
    /// Its word for the session.
    pub(crate) word: u32,
}

impl Guest {
    pub(crate) fn key(&self) -> PublicKey {
        self.noise.remote
    }

    /// The welcome and the keys.
    pub(crate) fn welcome(self, choice: Choice) -> Option<(Vec<u8>, Split)> {
        let (second, split) = self.noise.answer(&choice.encode())?;
        Some(([&start(self.word, TYPE_WELCOME)[..], &second].concat(), split))
    }
}

fn start(word: u32, kind: u8) -> [u8; SECOND] {
    let mut bytes = [0; SECOND];
    bytes[..4].copy_from_slice(&word.to_be_bytes());
    bytes[4] = kind;
    bytes
}

/// The kind of a handshake packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packet {
    Hello,
    /// For the initiator with this word.
    Welcome(u32),
    /// For the initiator with this word.
    Cookie(u32),
}

impl Packet {
    /// The kind of a packet; `None` if it is not of a handshake.
    pub(crate) fn of(packet: &[u8]) -> Option<Self> {
        let (word, rest) = packet.split_first_chunk()?;
        let word = u32::from_be_bytes(*word);
        match (*rest.first()?, word) {
            (TYPE_HELLO, 0) => Some(Self::Hello),
            (TYPE_WELCOME, 1..) => Some(Self::Welcome(word)),
            (TYPE_COOKIE, 1..) => Some(Self::Cookie(word)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn keys() -> (SecretKey, SecretKey) {
        (SecretKey::from_bytes([1; 32]), SecretKey::from_bytes([2; 32]))
    }

    fn offer() -> Offer {
        let token = Some(Token::from_bytes([9; Token::LEN]));
        Offer { instance: 7, number: 3, fast_aes: true, token }
    }

    fn attempt() -> Attempt {
        let (near, far) = keys();
        Attempt::begin(&near, &far.public(), 77, &offer(), Random::new([3; 32])).unwrap()
    }

    fn decrypt(hello: &[u8]) -> Option<Guest> {
        let (_, far) = keys();
        Hello::read(hello, &far.public())?.decrypt(&far, Random::new([4; 32]))
    }

    #[test]
    fn a_handshake_ends_with_keys_and_choices() {
        let (near, _) = keys();
        let mut attempt = attempt();
        assert_eq!(
            (Packet::of(attempt.hello()), attempt.hello().len()),
            (Some(Packet::Hello), HELLO)
        );
        let guest = decrypt(attempt.hello()).unwrap();
        assert_eq!((guest.key(), guest.offer.clone(), guest.word), (near.public(), offer(), 77));
        let choice = Choice { word: 99, suite: Suite::ChaCha20Poly1305 };
        let (welcome, theirs) = guest.welcome(choice).unwrap();
        assert!(welcome.len() * 3 < HELLO);
        assert_eq!(Packet::of(&welcome), Some(Packet::Welcome(77)));
        let (chosen, ours) = attempt.finish(&welcome).unwrap();
        assert_eq!(chosen, choice);
        assert_eq!((ours.send, ours.receive), (theirs.receive, theirs.send));
    }

    /// The vectors of `docs/sealed.md`, which were computed by another implementation of Noise.
    #[test]
    fn the_format_stays() {
        let hex = |bytes: &[u8]| data_encoding::HEXLOWER.encode(bytes);
        let mut attempt = attempt();
        assert_eq!(
            hex(ring::digest::digest(&SHA256, attempt.hello()).as_ref()),
            "a7f475766c5189b3f7056440fc9421dfbeaa10d8f1014360076164f03cd2bcf7"
        );
        assert_eq!(hex(&attempt.hello()[KEY_PROOF..FIRST]), "873a22c7b1c0a959e1b656f3ecc83451");
        let proof = attempt.hello()[KEY_PROOF..FIRST].try_into().unwrap();
        let proof = address_proof(&[5; MAC], &proof);
        assert_eq!(hex(&proof), "bc19a1a916f63d3d693c44a6b7545322");
        let guest = decrypt(attempt.hello()).unwrap();
        let choice = Choice { word: 99, suite: Suite::Aes256Gcm };
        let (welcome, theirs) = guest.welcome(choice).unwrap();
        assert_eq!(
            hex(&welcome),
            "0000004d82000000596a48e9ced98f4fb79d90d891d2abbacf908621c960efcd87a6bb0681903b20\
             4c0049dfa8a167c8d482c302ed0a96835080ae2bc2a0908e"
        );
        assert_eq!(
            (hex(&*theirs.receive), hex(&*theirs.send)),
            (
                "9d846a65b008e63940af9cf9a57aec76402d4e9053a2b0b0008efd7a0d76ab01".to_owned(),
                "709fdb8529deb3dde588b597e4d643502553de77f41ac1a96536aebbbd8d5543".to_owned()
            )
        );
        assert!(attempt.finish(&welcome).is_some());
    }

    #[test]
    fn a_cookie_proves_the_address() {
        let (_, far) = keys();
        let mut attempt = attempt();
        let before = attempt.hello().to_vec();
        let hello = Hello::read(&before, &far.public()).unwrap();
        let reply = hello.cookie_reply(&[5; MAC]);
        assert_eq!(Packet::of(&reply), Some(Packet::Cookie(77)));
        let mut forged = reply.clone();
        forged[SECOND] ^= 1;
        assert!(!attempt.take_cookie(&forged) && attempt.hello() == before);
        assert!(attempt.take_cookie(&reply));
        let after = Hello::read(attempt.hello(), &far.public()).unwrap();
        assert_eq!(after.address_proof, address_proof(&[5; MAC], &hello.key_proof));
        assert!(decrypt(attempt.hello()).is_some());
    }

    #[test]
    fn who_does_not_know_the_key_is_not_heard() {
        let (near, far) = keys();
        let attempt = attempt();
        assert!(Hello::read(attempt.hello(), &near.public()).is_none());
        let mut hello = attempt.hello().to_vec();
        for index in (0..HELLO).filter(|index| !(ADDRESS_PROOF..KEY_PROOF).contains(index)) {
            hello[index] ^= 1;
            assert!(Hello::read(&hello, &far.public()).is_none(), "{index}");
            hello[index] ^= 1;
        }
        assert!(Hello::read(&hello[..HELLO - 1], &far.public()).is_none());
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(mut bytes: Vec<u8>, kind in 0x80u8..0x84, word: u32) {
            let (_, far) = keys();
            let _ = (Packet::of(&bytes), Hello::read(&bytes, &far.public()), Offer::decode(&bytes));
            if let Some(start) = bytes.first_chunk_mut::<SECOND>() {
                *start = super::start(word, kind);
            }
            let mut attempt = attempt();
            prop_assert!(Packet::of(&bytes).is_none_or(|packet| packet != Packet::Hello || word == 0));
            prop_assert!(attempt.finish(&bytes).is_none() && !attempt.take_cookie(&bytes));
        }
    }
}
