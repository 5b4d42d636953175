//! SACK.

use core::fmt;

use alloc::vec::Vec;

use super::{NrSack, RawChunk};
use crate::error::ChunkError;
use crate::list::{GapBlocks, TsnList};
use crate::serial::Tsn;

/// Acknowledges data (RFC 9260 section 3.3.4).
///
/// ```text
/// +---------------+---------------+---------------+---------------+
/// |       3       |       0       |            length             |
/// +---------------+---------------+---------------+---------------+
/// |                      cumulative TSN ack                       |
/// +---------------+---------------+---------------+---------------+
/// |               advertised receiver window, bytes               |
/// +---------------+---------------+---------------+---------------+
/// |         gap blocks: n         |       duplicates: x           |
/// +---------------+---------------+---------------+---------------+
/// |     start (n times)           |     end (n times)             |
/// +---------------+---------------+---------------+---------------+
/// |                    duplicate TSN (x times)                    |
/// +---------------+---------------+---------------+---------------+
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sack<'a> {
    /// Everything up to here has arrived.
    pub cumulative_tsn_ack: Tsn,
    /// Advertised receiver window in bytes.
    pub a_rwnd: u32,
    /// TSNs received beyond the cumulative TSN; order and overlap are not checked.
    pub gap_blocks: GapBlocks<'a>,
    /// TSNs received more than once since the last SACK.
    pub duplicate_tsns: TsnList<'a>,
}

impl<'a> Sack<'a> {
    /// Size of the chunk without gap blocks and duplicates, in bytes.
    pub const HEADER_LEN: usize = 16;

    /// Reads the chunk; its type is not checked.
    ///
    /// # Errors
    ///
    /// [`ChunkError::ValueTooShort`] if the counts exceed the value.
    #[inline]
    pub fn parse(chunk: &RawChunk<'a>) -> Result<Self, ChunkError> {
        chunk.fields(|r| {
            let NrSack { cumulative_tsn_ack, a_rwnd, gap_blocks, duplicate_tsns, .. } =
                NrSack::read(r, false)?;
            Some(Self { cumulative_tsn_ack, a_rwnd, gap_blocks, duplicate_tsns })
        })
    }

    // req: rfc9260 3.3.4 "The SACK chunk MUST contain the Cumulative"
    // req: rfc9260 3.3.4 "part of the SACK chunk MUST be constructed"
    pub(super) fn encode_value(&self, out: &mut Vec<u8>) {
        NrSack::from(*self).write(out, false);
    }
}

impl fmt::Display for Sack<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        NrSack::from(*self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Chunk;
    use super::super::testing::{capture, error};
    use super::*;
    use crate::list::GapBlock;

    #[test]
    // test: rfc9260 3.3.4 "The SACK chunk MUST contain the Cumulative"
    // test: rfc9260 3.3.4 "part of the SACK chunk MUST be constructed"
    fn gaps_and_duplicates() {
        // The example of RFC 9260 section 3.3.4, with a duplicate.
        capture(
            "0300001c 0000000c 00001240 00020001 00020003 00050005 00000009",
            "SACK cum 12 rwnd 4672 gaps 2-3,5-5 dup 9",
            |chunk| {
                let Chunk::Sack(sack) = chunk else { unreachable!() };
                assert_eq!(sack.cumulative_tsn_ack, Tsn(12));
                assert_eq!(sack.a_rwnd, 4672);
                assert_eq!(
                    sack.gap_blocks.iter().collect::<Vec<_>>(),
                    [GapBlock { start: 2, end: 3 }, GapBlock { start: 5, end: 5 }]
                );
                assert_eq!(sack.duplicate_tsns.iter().collect::<Vec<_>>(), [Tsn(9)]);
            },
        );
    }

    #[test]
    fn counts_have_to_hold() {
        assert_eq!(
            error("03000014 0000000c 00001240 00020000 00020003"),
            ChunkError::ValueTooShort { kind: 3, len: 16 }
        );
        assert_eq!(
            error("03000010 0000000c 00001240 0000ffff"),
            ChunkError::ValueTooShort { kind: 3, len: 12 }
        );
        assert_eq!(
            error("0300000c 0000000c 00001240"),
            ChunkError::ValueTooShort { kind: 3, len: 8 }
        );
    }
}
