//! PAD.

use core::fmt;

use alloc::vec::Vec;

use super::RawChunk;
use crate::error::ChunkError;

/// Makes a packet larger, for path MTU discovery (RFC 4820 section 3).
///
/// ```text
/// +---------------+---------------+---------------+---------------+
/// |     0x84      |       0       |            length             |
/// +---------------+---------------+---------------+---------------+
/// |                            padding                            |
/// +---------------+---------------+---------------+---------------+
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pad<'a> {
    /// Bytes without meaning.
    pub padding: &'a [u8],
}

impl<'a> Pad<'a> {
    /// Reads the chunk; its type is not checked.
    ///
    /// # Errors
    ///
    /// Never so far; all chunks have the same signature.
    pub fn parse(chunk: &RawChunk<'a>) -> Result<Self, ChunkError> {
        Ok(Self { padding: chunk.value })
    }

    pub(super) fn encode_value(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.padding);
    }
}

impl fmt::Display for Pad<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.padding.len())
    }
}

#[cfg(test)]
mod tests {
    use super::super::Chunk;
    use super::super::testing::capture;

    #[test]
    fn carries_bytes_without_meaning() {
        capture("84000009 0000000000000000", "PAD 5 bytes", |chunk| {
            assert!(matches!(chunk, Chunk::Pad(pad) if pad.padding == [0; 5]));
        });
    }
}
