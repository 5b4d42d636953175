//! FORWARD TSN.

use core::fmt;

use alloc::vec::Vec;

use super::RawChunk;
use crate::error::ChunkError;
use crate::list::{Element, List};
use crate::serial::{Ssn, Tsn};

/// Asks the peer to skip abandoned data (RFC 3758 section 3.2).
///
/// ```text
/// +---------------+---------------+---------------+---------------+
/// |     0xc0      |       0       |            length             |
/// +---------------+---------------+---------------+---------------+
/// |                      new cumulative TSN                       |
/// +---------------+---------------+---------------+---------------+
/// |       stream (n times)        |         SSN (n times)         |
/// +---------------+---------------+---------------+---------------+
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForwardTsn<'a, T: Element = SkippedStream> {
    /// The sender will not send anything more up to here.
    pub new_cumulative_tsn: Tsn,
    /// Streams with ordered messages among the abandoned data; with interleaving, all messages.
    pub streams: List<'a, T>,
}

/// The last abandoned ordered message of one stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SkippedStream {
    /// Stream identifier.
    pub stream: u16,
    /// The highest abandoned SSN.
    pub ssn: Ssn,
}

impl Element for SkippedStream {
    const LEN: usize = 4;

    #[inline]
    fn read(bytes: &[u8]) -> Self {
        let [a, b, c, d] = bytes.first_chunk().copied().unwrap_or_default();
        Self { stream: u16::from_be_bytes([a, b]), ssn: Ssn(u16::from_be_bytes([c, d])) }
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.stream.to_be_bytes());
        out.extend_from_slice(&self.ssn.0.to_be_bytes());
    }
}

impl fmt::Display for SkippedStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.stream, self.ssn)
    }
}

impl<'a, T: Element> ForwardTsn<'a, T> {
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

impl<T: Element> fmt::Display for ForwardTsn<'_, T> {
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
    fn skips_streams() {
        capture(
            "c0000010 00000064 00010002 00050006",
            "FORWARD TSN cum 100 streams 1:2,5:6",
            |chunk| {
                let Chunk::ForwardTsn(forward) = chunk else { unreachable!() };
                assert_eq!(forward.new_cumulative_tsn, Tsn(100));
                assert_eq!(
                    forward.streams.iter().next(),
                    Some(SkippedStream { stream: 1, ssn: Ssn(2) })
                );
            },
        );
        capture("c0000008 00000064", "FORWARD TSN cum 100", |_| {});
        assert_eq!(error("c0000004"), ChunkError::ValueTooShort { kind: 0xc0, len: 0 });
    }
}
