//! SHUTDOWN.

use core::fmt;

use alloc::vec::Vec;

use super::RawChunk;
use crate::error::ChunkError;
use crate::serial::Tsn;

/// Starts the graceful end of an association (RFC 9260 section 3.3.8).
///
/// ```text
/// +---------------+---------------+---------------+---------------+
/// |       7       |       0       |            length             |
/// +---------------+---------------+---------------+---------------+
/// |                      cumulative TSN ack                       |
/// +---------------+---------------+---------------+---------------+
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shutdown {
    /// Everything up to here has arrived; gaps cannot be reported.
    pub cumulative_tsn_ack: Tsn,
}

impl Shutdown {
    /// Reads the chunk; its type is not checked.
    ///
    /// # Errors
    ///
    /// [`ChunkError::ValueTooShort`] for less than 4 bytes of value.
    pub fn parse(chunk: &RawChunk<'_>) -> Result<Self, ChunkError> {
        chunk.fields(|r| Some(Self { cumulative_tsn_ack: Tsn(r.u32()?) }))
    }

    pub(super) fn encode_value(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.cumulative_tsn_ack.0.to_be_bytes());
    }
}

impl fmt::Display for Shutdown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cum {}", self.cumulative_tsn_ack)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Chunk;
    use super::super::testing::{capture, error};
    use super::*;

    #[test]
    fn carries_the_cumulative_ack() {
        capture("07000008 0000002a", "SHUTDOWN cum 42", |chunk| {
            let Chunk::Shutdown(shutdown) = chunk else { unreachable!() };
            assert_eq!(shutdown.cumulative_tsn_ack, Tsn(42));
        });
        assert_eq!(error("07000007 00000000"), ChunkError::ValueTooShort { kind: 7, len: 3 });
    }
}
