//! SHUTDOWN COMPLETE.

use core::fmt;

use alloc::vec::Vec;

use super::RawChunk;
use crate::error::ChunkError;

/// Completes the graceful end of an association (RFC 9260 section 3.3.13).
///
/// ```text
/// +---------------+---------------+---------------+---------------+
/// |      14       | reserved    T |            length             |
/// +---------------+---------------+---------------+---------------+
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShutdownComplete {
    /// T bit: the packet's verification tag is the one that its receiver sent, because the sender
    /// has no association (RFC 9260 section 8.5.1).
    pub tag_reflected: bool,
}

impl ShutdownComplete {
    /// Reads the chunk; its type is not checked.
    ///
    /// # Errors
    ///
    /// Never so far; all chunks have the same signature.
    pub fn parse(chunk: &RawChunk<'_>) -> Result<Self, ChunkError> {
        Ok(Self { tag_reflected: chunk.flags & 1 != 0 })
    }

    pub(super) const fn flags(&self) -> u8 {
        self.tag_reflected as u8
    }

    pub(super) fn encode_value(&self, _: &mut Vec<u8>) {}
}

impl fmt::Display for ShutdownComplete {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.tag_reflected { "T" } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use super::super::Chunk;
    use super::super::testing::capture;
    use super::*;

    // test: rfc9260 3.3.13 "the T bit MUST be set to 1"
    #[test]
    fn tells_whether_the_tag_is_reflected() {
        for (text, shown, tag_reflected) in
            [("0e000004", "SHUTDOWN COMPLETE", false), ("0e010004", "SHUTDOWN COMPLETE T", true)]
        {
            capture(text, shown, |chunk| {
                let expected = ShutdownComplete { tag_reflected };
                assert_eq!(chunk, Chunk::ShutdownComplete(expected));
            });
        }
    }
}
