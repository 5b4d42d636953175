//! ERROR.

use core::fmt;

use alloc::vec::Vec;

use super::RawChunk;
use crate::cause::Causes;
use crate::error::ChunkError;

/// Reports errors that do not end the association (RFC 9260 section 3.3.10).
///
/// ```text
/// +---------------+---------------+---------------+---------------+
/// |       9       |       0       |            length             |
/// +---------------+---------------+---------------+---------------+
/// |                         error causes                          |
/// +---------------+---------------+---------------+---------------+
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Error<'a> {
    /// The errors.
    pub causes: Causes<'a>,
}

impl<'a> Error<'a> {
    /// Reads the chunk; its type is not checked, malformed causes are kept.
    ///
    /// # Errors
    ///
    /// Never so far; all chunks have the same signature.
    pub fn parse(chunk: &RawChunk<'a>) -> Result<Self, ChunkError> {
        Ok(Self { causes: Causes::new(chunk.value) })
    }

    pub(super) fn encode_value(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.causes.bytes());
    }
}

impl fmt::Display for Error<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.causes.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Chunk;
    use super::super::testing::capture;

    #[test]
    fn two_causes() {
        capture(
            "09000014 00010008 00030000 00060008 3f000004",
            "ERROR [invalid stream 3, unrecognized chunk 0x3f000004]",
            |chunk| {
                let Chunk::Error(error) = chunk else { unreachable!() };
                assert_eq!(error.causes.iter().count(), 2);
            },
        );
    }

    #[test]
    fn broken_causes_are_kept_and_shown() {
        capture("0900000c 00010008 00030000", "ERROR [invalid stream 3]", |_| {});
        capture(
            "0900000c 0001000a 00030000",
            "ERROR [malformed (parameter 0x0001 at byte 0 has length 10, but 8 bytes are left)]",
            |_| {},
        );
        capture(
            "09000008 00010004",
            "ERROR [malformed (parameter 0x0001 cannot have 0 bytes of value)]",
            |_| {},
        );
    }
}
