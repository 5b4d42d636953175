//! The one-time token of an invitation.

use std::fmt;

use ring::rand::{SecureRandom, SystemRandom};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

/// A secret that admits the key of whoever uses it first. It is compared in constant time, and its `Debug` does not
/// show it.
#[derive(Clone)]
pub struct Token(Zeroizing<[u8; Token::LEN]>);

impl Token {
    /// Its length in bytes.
    pub const LEN: usize = 16;

    /// Makes a token from random numbers of the operating system.
    ///
    /// # Errors
    /// The system has none.
    pub fn generate() -> std::io::Result<Self> {
        let mut bytes = Zeroizing::new([0; Self::LEN]);
        SystemRandom::new()
            .fill(&mut *bytes)
            .map_err(|_| std::io::Error::other("the system gives no random numbers"))?;
        Ok(Self(bytes))
    }

    /// The token with these bytes.
    pub fn from_bytes(bytes: [u8; Self::LEN]) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8; Self::LEN] {
        &self.0
    }
}

impl PartialEq for Token {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0[..]).into()
    }
}

impl Eq for Token {}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}
