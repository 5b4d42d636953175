//! I-FORWARD-TSN.

use core::fmt;

use alloc::vec::Vec;

use super::ForwardTsn;
use crate::list::Element;

/// Asks the peer to skip abandoned interleaved messages (RFC 8260 section 2.3.1).
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
pub type IForwardTsn<'a> = ForwardTsn<'a, SkippedMessage>;

/// The last abandoned message of one stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SkippedMessage {
    /// Stream identifier.
    pub stream: u16,
    /// Whether this is about the unordered messages of the stream.
    pub unordered: bool,
    /// The highest abandoned message identifier.
    pub mid: u32,
}

impl Element for SkippedMessage {
    const LEN: usize = 8;

    #[inline]
    fn read(bytes: &[u8]) -> Self {
        let [a, b, _, d, e, f, g, h] = bytes.first_chunk().copied().unwrap_or_default();
        Self {
            stream: u16::from_be_bytes([a, b]),
            // req: rfc8260 2.3.1 "MUST be set to 0 by the sender and MUST be ignored by the receiver"
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

#[cfg(test)]
mod tests {
    use super::super::Chunk;
    use super::super::testing::{capture, error};
    use super::*;
    use crate::error::ChunkError;
    use crate::serial::Tsn;

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
