//! A chunk before it is decoded.

use core::fmt;

use super::{Chunk, kind};
use crate::error::ChunkError;
use crate::reader::Reader;

/// One chunk in wire format (RFC 9260 section 3.2).
///
/// ```text
/// +---------------+---------------+---------------+---------------+
/// |     type      |     flags     |   length, without padding     |
/// +---------------+---------------+---------------+---------------+
/// |                       value, padded to 4                      |
/// +---------------+---------------+---------------+---------------+
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawChunk<'a> {
    /// Chunk type, see [`kind`].
    pub kind: u8,
    /// Chunk flags.
    pub flags: u8,
    /// The bytes after the header, without padding.
    pub value: &'a [u8],
    bytes: &'a [u8],
}

impl<'a> RawChunk<'a> {
    /// Reads the chunk that starts at `bytes`; bytes after it are ignored.
    ///
    /// # Errors
    ///
    /// [`ChunkError`] if the chunk is not complete; offsets count from `bytes`.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ChunkError> {
        Self::split(bytes, 0)
    }

    /// Reads the chunk that starts at `bytes`, which begin at `offset` in the packet.
    #[inline]
    pub(crate) fn split(bytes: &'a [u8], offset: usize) -> Result<Self, ChunkError> {
        let Some(&[kind, flags, c, d]) = bytes.first_chunk() else {
            return Err(ChunkError::HeaderCut { offset });
        };
        let length = u16::from_be_bytes([c, d]);
        if length < 4 {
            return Err(ChunkError::LengthTooSmall { offset, kind, length });
        }
        let whole = bytes.get(..usize::from(length));
        match whole.and_then(|whole| Some((whole, whole.get(4..)?))) {
            Some((bytes, value)) => Ok(Self { kind, flags, value, bytes }),
            None => Err(ChunkError::BeyondPacket { offset, kind, length, available: bytes.len() }),
        }
    }

    /// Decodes the chunk.
    ///
    /// # Errors
    ///
    /// [`ChunkError::ValueTooShort`] or [`ChunkError::Parameter`]. An unknown type is not an error
    /// but [`Chunk::Unknown`].
    #[inline]
    pub fn decode(&self) -> Result<Chunk<'a>, ChunkError> {
        Chunk::decode(*self)
    }

    /// How a receiver that does not know the type handles it: its upper two bits.
    #[must_use]
    pub const fn unknown_action(&self) -> UnknownAction {
        UnknownAction::from_bits(self.kind >> 6)
    }

    /// Header and value in bytes, without padding: the chunk's length field.
    #[inline]
    #[must_use]
    pub const fn raw_len(&self) -> usize {
        self.bytes.len()
    }

    /// Header and value without padding, as an error cause reports them.
    #[inline]
    #[must_use]
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Decodes the value with `fields`, which returns `None` if the value ends too early.
    #[inline]
    pub(super) fn fields<T>(
        &self,
        fields: impl FnOnce(&mut Reader<'a>) -> Option<T>,
    ) -> Result<T, ChunkError> {
        fields(&mut Reader::new(self.value))
            .ok_or(ChunkError::ValueTooShort { kind: self.kind, len: self.value.len() })
    }
}

impl fmt::Display for RawChunk<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.decode() {
            Ok(chunk) => chunk.fmt(f),
            Err(error) => write!(f, "{} malformed ({error})", kind::Name(self.kind)),
        }
    }
}

/// What to do with a chunk or parameter of an unknown type
/// (RFC 9260 sections 3.2 and 3.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UnknownAction {
    /// Ignore it and everything after it.
    Stop,
    /// Ignore it and everything after it, and report it.
    StopAndReport,
    /// Ignore it and continue.
    Skip,
    /// Ignore it, continue, and report it.
    SkipAndReport,
}

impl UnknownAction {
    /// The action encoded in two bits; other bits are ignored.
    pub(crate) const fn from_bits(bits: u8) -> Self {
        match bits & 3 {
            0 => Self::Stop,
            1 => Self::StopAndReport,
            2 => Self::Skip,
            _ => Self::SkipAndReport,
        }
    }

    /// Whether the chunks or parameters after it are still processed.
    #[must_use]
    pub const fn goes_on(self) -> bool {
        matches!(self, Self::Skip | Self::SkipAndReport)
    }

    /// Whether it is reported to the sender.
    #[must_use]
    pub const fn reports(self) -> bool {
        matches!(self, Self::StopAndReport | Self::SkipAndReport)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{capture, hex};
    use super::*;

    #[test]
    fn takes_one_chunk_and_no_more() {
        let bytes = hex("0b000004 ffff");
        let chunk = RawChunk::parse(&bytes).unwrap();
        assert_eq!((chunk.kind, chunk.flags), (kind::COOKIE_ACK, 0));
        assert!(chunk.value.is_empty());
        assert_eq!(chunk.bytes(), &bytes[..4]);
        assert_eq!(chunk.raw_len(), 4);
        assert_eq!(chunk.to_string(), "COOKIE ACK");
    }

    #[test]
    fn says_what_is_wrong() {
        assert_eq!(RawChunk::parse(&[1, 2, 3]), Err(ChunkError::HeaderCut { offset: 0 }));
        assert_eq!(
            RawChunk::split(&hex("07000003"), 12),
            Err(ChunkError::LengthTooSmall { offset: 12, kind: 7, length: 3 })
        );
        assert_eq!(
            RawChunk::split(&hex("07000009 00000000"), 12),
            Err(ChunkError::BeyondPacket { offset: 12, kind: 7, length: 9, available: 8 })
        );
        let broken = hex("07000004");
        assert_eq!(
            RawChunk::parse(&broken).unwrap().to_string(),
            "SHUTDOWN malformed (SHUTDOWN has only 0 bytes of value)"
        );
    }

    #[test]
    fn upper_bits_say_what_to_do() {
        for (kind, action, goes_on, reports) in [
            (0x3f, UnknownAction::Stop, false, false),
            (0x7f, UnknownAction::StopAndReport, false, true),
            (0xbf, UnknownAction::Skip, true, false),
            (0xff, UnknownAction::SkipAndReport, true, true),
        ] {
            let bytes = [kind, 0, 0, 4];
            let chunk = RawChunk::parse(&bytes).unwrap();
            assert_eq!(chunk.unknown_action(), action);
            assert_eq!(chunk.decode(), Ok(Chunk::Unknown(chunk)));
            assert_eq!(action.goes_on(), goes_on);
            assert_eq!(action.reports(), reports);
        }
    }

    #[test]
    fn unknown_chunks_stay_as_they_are() {
        capture("fe0a0006 01020000", "chunk 0xfe 6 bytes", |_| {});
        capture("08000004", "SHUTDOWN ACK", |_| {});
    }
}
