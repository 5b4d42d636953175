//! I-FORWARD-TSN.

use core::fmt;

use alloc::vec::Vec;

use super::RawChunk;
use crate::error::ChunkError;
use crate::list::{Element, List};
use crate::serial::Tsn;

/// Tells the peer to go on without abandoned interleaved messages
/// (RFC 8260 section 2.3.1).
///
/// ```text
/// +---------------+---------------+---------------+---------------+
/// |     0xc2      |       0       |            length             |
/// +---------------+---------------+---------------+---------------+
/// |                      new cumulative TSN                       |
/// +---------------+---------------+---------------+---------------+
/// |       stream (n times)        |     reserved, U (n times)     |
/// +---------------+---------------+---------------+---------------+
/// |                 message identifier (n times)                  |
/// +---------------+---------------+---------------+---------------+
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IForwardTsn<'a> {
    /// Up to here nothing more will come.
    pub new_cumulative_tsn: Tsn,
    /// Streams with messages among the abandoned data.
    pub streams: List<'a, SkippedMessage>,
}

/// How far the messages of one stream were abandoned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SkippedMessage {
    /// Stream identifier.
    pub stream: u16,
    /// Whether the unordered messages of the stream are meant.
    pub unordered: bool,
    /// The highest message identifier that was abandoned.
    pub mid: u32,
}

impl Element for SkippedMessage {
    const LEN: usize = 8;

    #[inline]
    fn read(bytes: &[u8]) -> Self {
        let [a, b, _, d, e, f, g, h] = bytes.first_chunk().copied().unwrap_or_default();
        Self {
            stream: u16::from_be_bytes([a, b]),
            unordered: d & 1 != 0,
            mid: u32::from_be_bytes([e, f, g, h]),
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.stream.to_be_bytes());
        out.extend_from_slice(&[0, u8::from(self.unordered)]);
        out.extend_from_slice(&self.mid.to_be_bytes());
    }
}

impl fmt::Display for SkippedMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unordered = if self.unordered { "U" } else { "" };
        write!(f, "{}:{}{unordered}", self.stream, self.mid)
    }
}

impl<'a> IForwardTsn<'a> {
    /// Reads the chunk; its type is not checked.
    ///
    /// # Errors
    ///
    /// [`ChunkError::ValueTooShort`] for less than 4 bytes of value.
    pub fn parse(chunk: &RawChunk<'a>) -> Result<Self, ChunkError> {
        chunk.fields(|r| {
            Some(Self { new_cumulative_tsn: Tsn(r.u32()?), streams: List::new(r.rest()) })
        })
    }

    pub(super) fn encode_value(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.new_cumulative_tsn.0.to_be_bytes());
        out.extend_from_slice(self.streams.bytes());
    }
}

impl fmt::Display for IForwardTsn<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cum {}", self.new_cumulative_tsn)?;
        if !self.streams.is_empty() {
            write!(f, " streams {}", self.streams)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::Chunk;
    use super::super::testing::{capture, error};
    use super::*;

    #[test]
    fn skips_messages() {
        capture(
            "c2000018 00000064 00010000 00000002 00050001 00000006",
            "I-FORWARD-TSN cum 100 streams 1:2,5:6U",
            |chunk| {
                let Chunk::IForwardTsn(forward) = chunk else { unreachable!() };
                assert_eq!(forward.new_cumulative_tsn, Tsn(100));
                assert_eq!(
                    forward.streams.iter().next_back(),
                    Some(SkippedMessage { stream: 5, unordered: true, mid: 6 })
                );
            },
        );
        capture("c2000008 00000064", "I-FORWARD-TSN cum 100", |_| {});
        assert_eq!(error("c2000004"), ChunkError::ValueTooShort { kind: 0xc2, len: 0 });
    }
}
