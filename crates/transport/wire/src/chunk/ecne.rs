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
/// |            number of marked packets (not in a CWR)            |
/// +---------------+---------------+---------------+---------------+
/// ```
///
/// The number is that of FreeBSD and usrsctp (draft-stewart-tsvwg-sctpecn), which skip a report without it and
/// everything behind it. Linux skips the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ecne {
    /// Lowest TSN in the marked packet.
    pub lowest_tsn: Tsn,
    /// How many packets were marked since the last CWR, if the chunk says so.
    pub marked_packets: Option<u32>,
}

/// Answers an ECNE, with the same TSN.
pub type Cwr = Ecne;

impl Ecne {
    /// Reads the chunk; its type is not checked.
    ///
    /// # Errors
    ///
    /// [`ChunkError::ValueTooShort`] for less than 4 bytes of value.
    pub fn parse(chunk: &RawChunk<'_>) -> Result<Self, ChunkError> {
        chunk.fields(|r| Some(Self { lowest_tsn: Tsn(r.u32()?), marked_packets: r.u32() }))
    }

    pub(super) fn encode_value(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.lowest_tsn.0.to_be_bytes());
        if let Some(packets) = self.marked_packets {
            out.extend_from_slice(&packets.to_be_bytes());
        }
    }
}

impl fmt::Display for Ecne {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tsn {}", self.lowest_tsn)?;
        self.marked_packets.map_or(Ok(()), |packets| write!(f, ", packets {packets}"))
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
            assert_eq!((ecne.lowest_tsn, ecne.marked_packets), (Tsn(255), None));
        });
        capture("0c00000c 000000ff 00000003", "ECNE tsn 255, packets 3", |chunk| {
            let Chunk::Ecne(ecne) = chunk else { unreachable!() };
            assert_eq!(ecne.marked_packets, Some(3));
        });
        capture("0d000008 000000ff", "CWR tsn 255", |chunk| {
            assert!(matches!(chunk, Chunk::Cwr(_)));
        });
        assert_eq!(error("0d000004"), ChunkError::ValueTooShort { kind: 13, len: 0 });
    }
}
