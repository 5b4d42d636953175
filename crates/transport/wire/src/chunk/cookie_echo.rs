//! COOKIE ECHO.

use core::fmt;

use alloc::vec::Vec;

use super::RawChunk;
use crate::error::ChunkError;

/// Returns the state cookie of an INIT ACK (RFC 9260 section 3.3.11).
///
/// ```text
/// +---------------+---------------+---------------+---------------+
/// |      10       |       0       |            length             |
/// +---------------+---------------+---------------+---------------+
/// |                            cookie                             |
/// +---------------+---------------+---------------+---------------+
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CookieEcho<'a> {
    /// Value of the INIT ACK's State Cookie parameter.
    pub cookie: &'a [u8],
}

impl<'a> CookieEcho<'a> {
    /// Reads the chunk; its type is not checked.
    ///
    /// # Errors
    ///
    /// Never so far; all chunks have the same signature.
    pub fn parse(chunk: &RawChunk<'a>) -> Result<Self, ChunkError> {
        Ok(Self { cookie: chunk.value })
    }

    pub(super) fn encode_value(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.cookie);
    }
}

impl fmt::Display for CookieEcho<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.cookie.len())
    }
}

#[cfg(test)]
mod tests {
    use super::super::Chunk;
    use super::super::testing::capture;

    #[test]
    fn brings_the_cookie() {
        capture("0a000009 0102030405000000", "COOKIE ECHO 5 bytes", |chunk| {
            let Chunk::CookieEcho(echo) = chunk else { unreachable!() };
            assert_eq!(echo.cookie, [1, 2, 3, 4, 5]);
        });
    }
}
