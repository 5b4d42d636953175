//! ECNE and CWR.

use core::fmt;

use alloc::vec::Vec;

use super::RawChunk;
use crate::error::ChunkError;
use crate::serial::Tsn;

/// Reports a congestion mark, or answers such a report (RFC 4960 appendix A;
/// reserved in RFC 9260 section 3.2).
///
/// ```text
/// +---------------+---------------+---------------+---------------+
/// |   12 or 13    |       0       |            length             |
/// +---------------+---------------+---------------+---------------+
/// |                          lowest TSN                           |
/// +---------------+---------------+---------------+---------------+
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ecne {
    /// Lowest TSN in the marked packet.
    pub lowest_tsn: Tsn,
}

/// Answers an ECNE, with the same field.
pub type Cwr = Ecne;

impl Ecne {
    /// Reads the chunk; its type is not checked.
    ///
    /// # Errors
    ///
    /// [`ChunkError::ValueTooShort`] for less than 4 bytes of value.
    pub fn parse(chunk: &RawChunk<'_>) -> Result<Self, ChunkError> {
        chunk.fields(|r| Some(Self { lowest_tsn: Tsn(r.u32()?) }))
    }

    pub(super) fn encode_value(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.lowest_tsn.0.to_be_bytes());
    }
}

impl fmt::Display for Ecne {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tsn {}", self.lowest_tsn)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Chunk;
    use super::super::testing::{capture, error};
    use super::*;

    #[test]
    fn report_and_answer() {
        capture("0c000008 000000ff", "ECNE tsn 255", |chunk| {
            let Chunk::Ecne(ecne) = chunk else { unreachable!() };
            assert_eq!(ecne.lowest_tsn, Tsn(255));
        });
        capture("0d000008 000000ff", "CWR tsn 255", |chunk| {
            assert!(matches!(chunk, Chunk::Cwr(_)));
        });
        assert_eq!(error("0d000004"), ChunkError::ValueTooShort { kind: 13, len: 0 });
    }
}
