//! RE-CONFIG.

use core::fmt;

use alloc::vec::Vec;

use super::RawChunk;
use crate::error::ChunkError;
use crate::parameter::Parameters;

/// Changes the streams of an association (RFC 6525 section 3.1).
///
/// ```text
/// +---------------+---------------+---------------+---------------+
/// |     0x82      |       0       |            length             |
/// +---------------+---------------+---------------+---------------+
/// |             one or two requests or responses                  |
/// +---------------+---------------+---------------+---------------+
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReConfig<'a> {
    /// Requests and responses.
    pub parameters: Parameters<'a>,
}

impl<'a> ReConfig<'a> {
    /// Reads the chunk; its type is not checked, malformed parameters are kept.
    ///
    /// # Errors
    ///
    /// Never so far; all chunks have the same signature.
    pub fn parse(chunk: &RawChunk<'a>) -> Result<Self, ChunkError> {
        Ok(Self { parameters: Parameters::new(chunk.value) })
    }

    pub(super) fn encode_value(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.parameters.bytes());
    }
}

impl fmt::Display for ReConfig<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.parameters.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Chunk;
    use super::super::testing::capture;

    #[test]
    fn request_and_response_together() {
        capture(
            "82000022 0010000c 00000005 00000001 000d0012 00000006 00000005 000000ff 00030000",
            "RE-CONFIG [response 5 result 1, \
             reset outgoing request 6 response 5 last tsn 255 streams 3]",
            |chunk| {
                let Chunk::ReConfig(config) = chunk else { unreachable!() };
                assert_eq!(config.parameters.iter().count(), 2);
            },
        );
    }
}
