//! NR-SACK.

use core::fmt;

use alloc::vec::Vec;

use super::{RawChunk, Sack};
use crate::error::ChunkError;
use crate::list::{GapBlocks, TsnList};
use crate::reader::Reader;
use crate::serial::Tsn;

/// Acknowledges data, part of it irrevocably (draft-natarajan-tsvwg-sctp-nrsack).
///
/// ```text
/// +---------------+---------------+---------------+---------------+
/// |     0x10      |       0       |            length             |
/// +---------------+---------------+---------------+---------------+
/// |                      cumulative TSN ack                       |
/// +---------------+---------------+---------------+---------------+
/// |               advertised receiver window, bytes               |
/// +---------------+---------------+---------------+---------------+
/// |         gap blocks: n         |  non-renegable gap blocks: m  |
/// +---------------+---------------+---------------+---------------+
/// |         duplicates: x         |               0               |
/// +---------------+---------------+---------------+---------------+
/// |  start (n, then m times)      |    end (n, then m times)      |
/// +---------------+---------------+---------------+---------------+
/// |                    duplicate TSN (x times)                    |
/// +---------------+---------------+---------------+---------------+
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NrSack<'a> {
    /// Everything up to here has arrived.
    pub cumulative_tsn_ack: Tsn,
    /// Advertised receiver window in bytes.
    pub a_rwnd: u32,
    /// TSNs received beyond the cumulative TSN that may still be dropped.
    pub gap_blocks: GapBlocks<'a>,
    /// TSNs received beyond the cumulative TSN that will not be dropped.
    pub nr_gap_blocks: GapBlocks<'a>,
    /// TSNs received more than once since the last acknowledgement.
    pub duplicate_tsns: TsnList<'a>,
}

impl<'a> NrSack<'a> {
    /// Size of the chunk without blocks and duplicates, in bytes.
    pub const HEADER_LEN: usize = 20;

    /// Reads the chunk; its type is not checked.
    ///
    /// # Errors
    ///
    /// [`ChunkError::ValueTooShort`] if the counts exceed the value.
    #[inline]
    pub fn parse(chunk: &RawChunk<'a>) -> Result<Self, ChunkError> {
        chunk.fields(|r| Self::read(r, true))
    }

    /// Reads the value of an NR-SACK, or of a SACK, which has no non-renegable blocks.
    #[inline]
    pub(super) fn read(r: &mut Reader<'a>, non_renegable: bool) -> Option<Self> {
        let cumulative_tsn_ack = Tsn(r.u32()?);
        let a_rwnd = r.u32()?;
        let gaps = usize::from(r.u16()?);
        let nr_gaps = if non_renegable { usize::from(r.u16()?) } else { 0 };
        let duplicates = usize::from(r.u16()?);
        if non_renegable {
            let _reserved = r.u16()?;
        }
        Some(Self {
            cumulative_tsn_ack,
            a_rwnd,
            gap_blocks: GapBlocks::new(r.take(4 * gaps)?),
            nr_gap_blocks: GapBlocks::new(r.take(4 * nr_gaps)?),
            duplicate_tsns: TsnList::new(r.take(4 * duplicates)?),
        })
    }

    pub(super) fn encode_value(&self, out: &mut Vec<u8>) {
        self.write(out, true);
    }

    /// Appends the value of an NR-SACK, or of a SACK, which has no non-renegable blocks.
    pub(super) fn write(&self, out: &mut Vec<u8>, non_renegable: bool) {
        let nr_gaps = non_renegable.then_some(self.nr_gap_blocks.len());
        let counts = (self.gap_blocks.len(), nr_gaps, self.duplicate_tsns.len());
        put_fixed(out, self.cumulative_tsn_ack, self.a_rwnd, counts);
        out.extend_from_slice(self.gap_blocks.bytes());
        if non_renegable {
            out.extend_from_slice(self.nr_gap_blocks.bytes());
        }
        out.extend_from_slice(self.duplicate_tsns.bytes());
    }
}

/// Appends the fixed part of an NR-SACK, or of a SACK, which has no number of non-renegable blocks.
/// The numbers count gap blocks, non-renegable blocks, and duplicates. Each fits into its field because
/// its list fits into the chunk.
pub(crate) fn put_fixed(
    out: &mut Vec<u8>,
    cumulative_tsn_ack: Tsn,
    a_rwnd: u32,
    (gaps, nr_gaps, duplicates): (usize, Option<usize>, usize),
) {
    let half = |count: usize| (count as u16).to_be_bytes();
    out.extend_from_slice(&cumulative_tsn_ack.0.to_be_bytes());
    out.extend_from_slice(&a_rwnd.to_be_bytes());
    out.extend_from_slice(&half(gaps));
    match nr_gaps {
        Some(nr_gaps) => {
            out.extend_from_slice(&half(nr_gaps));
            out.extend_from_slice(&half(duplicates));
            out.extend_from_slice(&half(0));
        }
        None => out.extend_from_slice(&half(duplicates)),
    }
}

/// The same without non-renegable blocks.
impl<'a> From<Sack<'a>> for NrSack<'a> {
    fn from(sack: Sack<'a>) -> Self {
        Self {
            cumulative_tsn_ack: sack.cumulative_tsn_ack,
            a_rwnd: sack.a_rwnd,
            gap_blocks: sack.gap_blocks,
            nr_gap_blocks: GapBlocks::default(),
            duplicate_tsns: sack.duplicate_tsns,
        }
    }
}

impl fmt::Display for NrSack<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cum {} rwnd {}", self.cumulative_tsn_ack, self.a_rwnd)?;
        if !self.gap_blocks.is_empty() {
            write!(f, " gaps {}", self.gap_blocks)?;
        }
        if !self.nr_gap_blocks.is_empty() {
            write!(f, " nr-gaps {}", self.nr_gap_blocks)?;
        }
        if !self.duplicate_tsns.is_empty() {
            write!(f, " dup {}", self.duplicate_tsns)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::Chunk;
    use super::super::testing::{capture, error};
    use super::*;
    use crate::list::GapBlock;

    #[test]
    fn all_three_lists() {
        capture(
            "10000024 00000011 00010000 00010002 00010000 \
             00020003 00050005 00070009 00000009",
            "NR-SACK cum 17 rwnd 65536 gaps 2-3 nr-gaps 5-5,7-9 dup 9",
            |chunk| {
                let Chunk::NrSack(sack) = chunk else { unreachable!() };
                assert_eq!(sack.cumulative_tsn_ack, Tsn(17));
                assert_eq!(sack.gap_blocks.len(), 1);
                assert_eq!(sack.nr_gap_blocks.iter().next(), Some(GapBlock { start: 5, end: 5 }));
            },
        );
    }

    #[test]
    fn counts_have_to_hold() {
        assert_eq!(
            error("10000018 00000011 00010000 00010001 00000000 00020003"),
            ChunkError::ValueTooShort { kind: 0x10, len: 20 }
        );
        capture(
            "10000014 00000011 00010000 00000000 00000000",
            "NR-SACK cum 17 rwnd 65536",
            |_| {},
        );
    }
}
