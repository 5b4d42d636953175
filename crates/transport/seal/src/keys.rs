//! The keys of an endpoint. Its public key is its identity.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use ring::rand::{SecureRandom, SystemRandom};
use snow::params::DHChoice;
use snow::resolvers::{CryptoResolver, DefaultResolver};
use zeroize::Zeroizing;

use crate::text::{Kind, ParseError};
use crate::virtual_network::VirtualNetwork;

const PUBLIC: Kind = Kind { name: "a public key", prefix: "anbk:" };
const SECRET: Kind = Kind { name: "a secret key", prefix: "anbs:" };

/// A public X25519 key, which identifies an endpoint. As text it begins with `anbk:`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicKey([u8; 32]);

impl PublicKey {
    /// The key with these bytes (RFC 7748 section 5).
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The bytes of the key.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The virtual addresses of a listening endpoint with this key, with an SCTP port: what a program connects to.
    pub fn remotes(&self, port: u16) -> Vec<SocketAddr> {
        let network = VirtualNetwork::of(self, 0);
        network.addresses().map(|ip| SocketAddr::new(ip.into(), port)).collect()
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&PUBLIC.format(&self.0))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for PublicKey {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let bytes = PUBLIC.parse(text)?;
        bytes.try_into().map(Self).map_err(|_| PUBLIC.damaged())
    }
}

/// A secret X25519 key. It is erased from memory when dropped, and its `Debug` does not show it.
#[derive(Clone)]
pub struct SecretKey {
    bytes: Zeroizing<[u8; 32]>,
    public: PublicKey,
}

impl SecretKey {
    /// Makes a key from random numbers of the operating system.
    ///
    /// # Errors
    /// The system has none.
    pub fn generate() -> std::io::Result<Self> {
        let mut bytes = Zeroizing::new([0; 32]);
        SystemRandom::new()
            .fill(&mut *bytes)
            .map_err(|_| std::io::Error::other("the system gives no random numbers"))?;
        Ok(Self::from_bytes(*bytes))
    }

    /// The key with these bytes (RFC 7748 section 5).
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        let mut key = Self { bytes: Zeroizing::new(bytes), public: PublicKey([0; 32]) };
        let dh = DefaultResolver.resolve_dh(&DHChoice::Curve25519);
        if let Some(mut dh) = dh {
            dh.set(&*key.bytes);
            key.public.0.copy_from_slice(dh.pubkey());
        }
        key
    }

    /// The public key that belongs to it.
    pub fn public(&self) -> PublicKey {
        self.public
    }

    /// The bytes of the key, for a handshake or a file.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.bytes
    }

    /// The text of a key file, which begins with `anbs:`.
    pub(crate) fn to_text(&self) -> Zeroizing<String> {
        Zeroizing::new(SECRET.format(&*self.bytes))
    }

    /// Reads the text of a key file.
    pub(crate) fn from_text(text: &str) -> Result<Self, ParseError> {
        let bytes = Zeroizing::new(SECRET.parse(text)?);
        let bytes = <[u8; 32]>::try_from(&bytes[..]).map_err(|_| SECRET.damaged())?;
        Ok(Self::from_bytes(bytes))
    }
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecretKey").field("public", &self.public).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn hex(text: &str) -> [u8; 32] {
        data_encoding::HEXLOWER.decode(text.as_bytes()).unwrap().try_into().unwrap()
    }

    /// RFC 7748 section 6.1: Alice's keys.
    #[test]
    fn the_public_key_follows_from_the_secret_one() {
        let secret = hex("77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a");
        let public = hex("8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a");
        assert_eq!(SecretKey::from_bytes(secret).public().as_bytes(), &public);
    }

    #[test]
    fn debug_does_not_show_secrets() {
        let key = SecretKey::from_bytes([7; 32]);
        let shown = format!("{key:?}");
        assert!(shown.contains(&key.public().to_string()));
        assert!(!shown.contains("7, 7") && !shown.contains(key.to_text().as_str()));
    }

    proptest! {
        #[test]
        fn keys_pass_through_text(bytes: [u8; 32]) {
            let public = PublicKey::from_bytes(bytes);
            prop_assert_eq!(public.to_string().parse(), Ok(public));
            let secret = SecretKey::from_bytes(bytes);
            let read = SecretKey::from_text(&secret.to_text()).unwrap();
            prop_assert_eq!(read.as_bytes(), &bytes);
            prop_assert!(read.to_text().parse::<PublicKey>().is_err());
        }

        #[test]
        fn a_damaged_key_is_refused(bytes: [u8; 32], at in 0usize..53, with in "[A-Za-z0-9_-]") {
            let text = PublicKey::from_bytes(bytes).to_string();
            let mut damaged = text.clone();
            damaged.replace_range(at..=at, &with);
            if damaged != text {
                prop_assert!(damaged.parse::<PublicKey>().is_err());
            }
            prop_assert!(text[..at].parse::<PublicKey>().is_err());
        }

        #[test]
        fn any_text_is_read_or_refused(text: String) {
            let _ = text.parse::<PublicKey>();
            let _ = format!("anbk:{text}").parse::<PublicKey>();
        }
    }
}
