//! TIMESTAMP.

use core::fmt;

use alloc::vec::Vec;

use super::RawChunk;
use crate::error::ChunkError;

/// Carries the send time of a packet and echoes the peer's, so that an acknowledgement shows which
/// transmission of a chunk it is for (caro 2.4.2).
///
/// Both values are opaque to all but their sender. The two highest bits of the chunk type are 10, so a
/// receiver that does not know the type skips it silently. The chunk is sent only to peers that list
/// it in Supported Extensions (RFC 5061 section 4.2.7).
///
/// ```text
/// +---------------+---------------+---------------+---------------+
/// |     0x9e      |    flags  |E| |          length = 12          |
/// +---------------+---------------+---------------+---------------+
/// |                             value                             |
/// +---------------+---------------+---------------+---------------+
/// |             the peer's value that is echoed, if E             |
/// +---------------+---------------+---------------+---------------+
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timestamp {
    /// The value that the peer echoes.
    pub value: u32,
    /// The value of the earliest packet with data that the acknowledgement in the same packet is
    /// the first to cover; `None` if there is nothing to echo.
    pub echo: Option<u32>,
}

impl Timestamp {
    /// Size of the chunk in bytes.
    pub const LEN: usize = 12;
    /// Flag: the echo is valid.
    const ECHO: u8 = 1;

    /// Reads the chunk; its type is not checked.
    ///
    /// # Errors
    ///
    /// [`ChunkError::ValueTooShort`] for less than 8 bytes of value.
    pub fn parse(chunk: &RawChunk<'_>) -> Result<Self, ChunkError> {
        let echoes = chunk.flags & Self::ECHO != 0;
        chunk
            .fields(|r| Some(Self { value: r.u32()?, echo: r.u32().map(Some)?.filter(|_| echoes) }))
    }

    pub(super) const fn flags(&self) -> u8 {
        if self.echo.is_some() { Self::ECHO } else { 0 }
    }

    pub(super) fn encode_value(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.value.to_be_bytes());
        out.extend_from_slice(&self.echo.unwrap_or(0).to_be_bytes());
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.value)?;
        match self.echo {
            Some(echo) => write!(f, " echo {echo}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{capture, error, hex};
    use super::super::{Chunk, UnknownAction};
    use super::*;
    use crate::chunk::kind;

    #[test]
    fn with_and_without_an_echo() {
        capture("9e01000c 000000ff 00000007", "TIMESTAMP 255 echo 7", |chunk| {
            assert_eq!(chunk, Chunk::Timestamp(Timestamp { value: 255, echo: Some(7) }));
        });
        capture("9e01000c ffffffff 00000000", "TIMESTAMP 4294967295 echo 0", |chunk| {
            assert!(matches!(chunk, Chunk::Timestamp(Timestamp { echo: Some(0), .. })));
        });
        capture("9e00000c 00000001 00000000", "TIMESTAMP 1", |chunk| {
            assert_eq!(chunk, Chunk::Timestamp(Timestamp { value: 1, echo: None }));
        });
    }

    #[test]
    fn needs_both_fields_and_ignores_other_flags() {
        let short = |len| ChunkError::ValueTooShort { kind: kind::TIMESTAMP, len };
        assert_eq!(error("9e000008 00000001"), short(4));
        assert_eq!(error("9e01000b 00000001 00000200"), short(7));
        let bytes = hex("9efe000c 00000001 00000002");
        let chunk = RawChunk::parse(&bytes).unwrap().decode().unwrap();
        assert_eq!(chunk, Chunk::Timestamp(Timestamp { value: 1, echo: None }));
    }

    #[test]
    fn who_does_not_know_it_skips_it_silently() {
        let bytes = hex("9e00000c 00000001 00000000");
        let action = RawChunk::parse(&bytes).unwrap().unknown_action();
        assert!(matches!(action, UnknownAction::Skip) && action.goes_on() && !action.reports());
        let mut out = Vec::new();
        Chunk::Timestamp(Timestamp { value: 1, echo: None }).encode(&mut out);
        assert_eq!(out.len(), Timestamp::LEN);
    }
}
