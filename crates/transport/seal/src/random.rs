//! Random numbers that follow from a seed, but not from each other.

use ring::hmac::{HMAC_SHA256, Key, sign};
use zeroize::Zeroizing;

/// A generator that replaces its key after each use: who learns its state cannot compute earlier numbers.
pub(crate) struct Random(Zeroizing<[u8; 32]>);

impl Random {
    /// A generator for a seed with 256 bits of entropy.
    pub(crate) fn new(seed: [u8; 32]) -> Self {
        Self(Zeroizing::new(seed))
    }

    /// Fills `bytes`.
    pub(crate) fn fill(&mut self, bytes: &mut [u8]) {
        let key = Key::new(HMAC_SHA256, &*self.0);
        for (index, chunk) in (1u64..).zip(bytes.chunks_mut(32)) {
            let block = sign(&key, &index.to_be_bytes());
            chunk.iter_mut().zip(block.as_ref()).for_each(|(to, from)| *to = *from);
        }
        self.0.copy_from_slice(sign(&key, &0u64.to_be_bytes()).as_ref());
    }

    /// An array of random bytes.
    pub(crate) fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        self.fill(&mut bytes);
        bytes
    }

    /// A number other than 0.
    pub(crate) fn word(&mut self) -> u32 {
        loop {
            let word = u32::from_be_bytes(self.array());
            if word != 0 {
                return word;
            }
        }
    }

    /// An independent generator.
    pub(crate) fn fork(&mut self) -> Self {
        Self::new(self.array())
    }
}

impl std::fmt::Debug for Random {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Random(..)")
    }
}

impl snow::types::Random for Random {
    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), snow::Error> {
        self.fill(bytes);
        Ok(())
    }
}
