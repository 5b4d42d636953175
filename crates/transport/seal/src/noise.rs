//! The Noise IK handshake: two messages, each with a payload, and two keys.

use std::cell::RefCell;

use snow::params::{CipherChoice, DHChoice, HashChoice};
use snow::resolvers::{CryptoResolver, DefaultResolver};
use snow::types::{Cipher, Dh, Hash};
use snow::{Builder, HandshakeState};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use crate::keys::{PublicKey, SecretKey};
use crate::random::Random;

const PROTOCOL: &str = "Noise_IK_25519_ChaChaPoly_SHA256";

/// Bytes that Noise adds to the payload of the first message: an ephemeral key, an encrypted static key, two tags.
pub(crate) const FIRST_OVERHEAD: usize = 32 + 48 + 16;

/// The same for the second message: an ephemeral key and a tag.
pub(crate) const SECOND_OVERHEAD: usize = 32 + 16;

/// The keys of a session, one for each direction.
pub(crate) struct Split {
    pub(crate) send: Zeroizing<[u8; 32]>,
    pub(crate) receive: Zeroizing<[u8; 32]>,
}

/// The side that begins, and knows the other's key.
pub(crate) struct Initiator(HandshakeState);

impl Initiator {
    /// Begins a handshake. Returns the first message; `None` if the peer's key is not usable.
    pub(crate) fn begin(
        secret: &SecretKey,
        remote: &PublicKey,
        prologue: &[u8],
        payload: &[u8],
        random: Random,
    ) -> Option<(Self, Vec<u8>)> {
        let remote = remote.as_bytes();
        let builder = builder(secret, prologue, random)?.remote_public_key(remote).ok()?;
        let mut state = builder.build_initiator().ok()?;
        let mut message = vec![0; payload.len() + FIRST_OVERHEAD];
        let len = state.write_message(payload, &mut message).ok()?;
        message.truncate(len);
        Some((Self(state), message))
    }

    /// Reads the second message. Returns its payload and the keys; `None` if it is not authentic, and then the
    /// handshake still waits for the right one.
    pub(crate) fn finish(&mut self, message: &[u8]) -> Option<(Vec<u8>, Split)> {
        let mut payload = vec![0; message.len()];
        let len = self.0.read_message(message, &mut payload).ok()?;
        payload.truncate(len);
        let (send, receive) = split(&mut self.0);
        Some((payload, Split { send, receive }))
    }
}

/// The side that answers.
pub(crate) struct Responder {
    state: HandshakeState,
    /// The initiator's key.
    pub(crate) remote: PublicKey,
    /// The payload of the first message. A copy of the message may have been recorded before.
    pub(crate) payload: Vec<u8>,
}

impl Responder {
    /// Reads the first message; `None` if it is not authentic.
    pub(crate) fn read(
        secret: &SecretKey,
        prologue: &[u8],
        message: &[u8],
        random: Random,
    ) -> Option<Self> {
        let mut state = builder(secret, prologue, random)?.build_responder().ok()?;
        let mut payload = vec![0; message.len()];
        let len = state.read_message(message, &mut payload).ok()?;
        payload.truncate(len);
        let remote = PublicKey::from_bytes(state.get_remote_static()?.try_into().ok()?);
        Some(Self { state, remote, payload })
    }

    /// Answers. Returns the second message and the keys.
    pub(crate) fn answer(mut self, payload: &[u8]) -> Option<(Vec<u8>, Split)> {
        let mut message = vec![0; payload.len() + SECOND_OVERHEAD];
        let len = self.state.write_message(payload, &mut message).ok()?;
        message.truncate(len);
        let (receive, send) = split(&mut self.state);
        Some((message, Split { send, receive }))
    }
}

fn builder<'a>(secret: &'a SecretKey, prologue: &'a [u8], random: Random) -> Option<Builder<'a>> {
    let resolver = Box::new(Resolver(RefCell::new(Some(random))));
    Builder::with_resolver(PROTOCOL.parse().ok()?, resolver)
        .local_private_key(secret.as_bytes())
        .ok()?
        .prologue(prologue)
        .ok()
}

/// The keys from the initiator and from the responder.
fn split(state: &mut HandshakeState) -> (Zeroizing<[u8; 32]>, Zeroizing<[u8; 32]>) {
    let (first, second) = state.dangerously_get_raw_split();
    (Zeroizing::new(first), Zeroizing::new(second))
}

/// The algorithms of `snow`, with our own random numbers, and X25519 that refuses keys of small order.
struct Resolver(RefCell<Option<Random>>);

impl CryptoResolver for Resolver {
    fn resolve_rng(&self) -> Option<Box<dyn snow::types::Random>> {
        Some(Box::new(self.0.borrow_mut().take()?))
    }

    fn resolve_dh(&self, choice: &DHChoice) -> Option<Box<dyn Dh>> {
        Some(Box::new(Contributory(DefaultResolver.resolve_dh(choice)?)))
    }

    fn resolve_hash(&self, choice: &HashChoice) -> Option<Box<dyn Hash>> {
        DefaultResolver.resolve_hash(choice)
    }

    fn resolve_cipher(&self, choice: &CipherChoice) -> Option<Box<dyn Cipher>> {
        DefaultResolver.resolve_cipher(choice)
    }
}

/// A Diffie-Hellman function to which both sides contribute. With a key of small order the result would be zero, and
/// anybody could use that key (RFC 7748 section 6.1).
struct Contributory(Box<dyn Dh>);

impl Dh for Contributory {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn pub_len(&self) -> usize {
        self.0.pub_len()
    }

    fn priv_len(&self) -> usize {
        self.0.priv_len()
    }

    fn set(&mut self, privkey: &[u8]) {
        self.0.set(privkey);
    }

    fn generate(&mut self, random: &mut dyn snow::types::Random) -> Result<(), snow::Error> {
        self.0.generate(random)
    }

    fn pubkey(&self) -> &[u8] {
        self.0.pubkey()
    }

    fn privkey(&self) -> &[u8] {
        self.0.privkey()
    }

    fn dh(&self, pubkey: &[u8], out: &mut [u8]) -> Result<(), snow::Error> {
        self.0.dh(pubkey, out)?;
        let shared = out.get(..self.dh_len()).ok_or(snow::Error::Dh)?;
        let zero = [0; 32];
        let is_zero: bool = shared.ct_eq(&zero[..]).into();
        if is_zero { Err(snow::Error::Dh) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn random(seed: u8) -> Random {
        Random::new([seed; 32])
    }

    fn keys() -> (SecretKey, SecretKey) {
        (SecretKey::from_bytes([1; 32]), SecretKey::from_bytes([2; 32]))
    }

    #[test]
    fn both_sides_have_the_same_keys() {
        let (near, far) = keys();
        let begun = Initiator::begin(&near, &far.public(), b"prologue", b"hello", random(3));
        let (mut initiator, first) = begun.unwrap();
        assert_eq!(first.len(), 5 + FIRST_OVERHEAD);
        let responder = Responder::read(&far, b"prologue", &first, random(4)).unwrap();
        assert_eq!((responder.remote, &responder.payload[..]), (near.public(), &b"hello"[..]));
        let (second, theirs) = responder.answer(b"welcome").unwrap();
        assert_eq!(second.len(), 7 + SECOND_OVERHEAD);
        // A forged answer does not end the handshake.
        let mut forged = second.clone();
        for index in 0..second.len() {
            forged[index] ^= 1;
            assert!(initiator.finish(&forged).is_none());
            forged[index] ^= 1;
        }
        let (payload, ours) = initiator.finish(&second).unwrap();
        assert_eq!(payload, b"welcome");
        assert_eq!((&ours.send, &ours.receive), (&theirs.receive, &theirs.send));
        assert_ne!(ours.send, ours.receive);
        assert!(initiator.finish(&second).is_none());
    }

    #[test]
    fn other_keys_prologues_and_bytes_are_refused() {
        let (near, far) = keys();
        let begin = |remote: &SecretKey| {
            Initiator::begin(&near, &remote.public(), b"prologue", b"", random(3)).unwrap().1
        };
        let read = |prologue, message: &[u8]| Responder::read(&far, prologue, message, random(4));
        assert!(read(b"prologue", &begin(&near)).is_none());
        let mut first = begin(&far);
        assert!(read(b"other", &first).is_none());
        for index in 0..first.len() {
            first[index] ^= 1;
            assert!(read(b"prologue", &first).is_none(), "{index}");
            first[index] ^= 1;
        }
        assert!(read(b"prologue", &first[1..]).is_none());
        assert!(read(b"prologue", &first).is_some());
    }

    #[test]
    fn keys_of_small_order_are_refused() {
        let (near, _) = keys();
        let mut one = [0; 32];
        one[0] = 1;
        for key in [[0; 32], one].map(PublicKey::from_bytes) {
            assert!(Initiator::begin(&near, &key, b"", b"", random(3)).is_none());
        }
    }
}
