//! Decoding errors, with the data that an answer to the peer needs.

use core::fmt;

use crate::chunk::kind;

/// Why bytes are not a valid SCTP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PacketError {
    /// There are fewer bytes than in the common header.
    TooShort {
        /// Number of bytes.
        len: usize,
    },
}

impl fmt::Display for PacketError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooShort { len } => {
                write!(f, "{len} bytes are too few for an SCTP common header")
            }
        }
    }
}

impl core::error::Error for PacketError {}

/// Why bytes are not a valid chunk, or why a chunk's value cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChunkError {
    /// One to three bytes remain where a chunk header of four should be.
    HeaderCut {
        /// Offset in the packet, in bytes.
        offset: usize,
    },
    /// The length field is smaller than the chunk header.
    LengthTooSmall {
        /// Where in the packet the chunk starts.
        offset: usize,
        /// The chunk's type.
        kind: u8,
        /// The value of its length field.
        length: u16,
    },
    /// The length field points past the end of the packet.
    BeyondPacket {
        /// Where in the packet the chunk starts.
        offset: usize,
        /// The chunk's type.
        kind: u8,
        /// The value of its length field.
        length: u16,
        /// Bytes remaining in the packet from the chunk's start.
        available: usize,
    },
    /// The value is too short for the fields of this chunk type.
    ValueTooShort {
        /// The chunk's type.
        kind: u8,
        /// Length of the value in bytes.
        len: usize,
    },
    /// A mandatory parameter of the chunk is malformed, missing or of another
    /// type.
    Parameter {
        /// The chunk's type.
        kind: u8,
        /// The error; offsets count from the start of the chunk's value.
        error: ParameterError,
    },
}

impl ChunkError {
    /// Type of the malformed chunk, if it is known.
    #[must_use]
    pub const fn kind(&self) -> Option<u8> {
        match *self {
            Self::HeaderCut { .. } => None,
            Self::LengthTooSmall { kind, .. }
            | Self::BeyondPacket { kind, .. }
            | Self::ValueTooShort { kind, .. }
            | Self::Parameter { kind, .. } => Some(kind),
        }
    }
}

impl fmt::Display for ChunkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::HeaderCut { offset } => write!(f, "chunk header cut short at byte {offset}"),
            Self::LengthTooSmall { offset, kind: k, length } => {
                write!(f, "{} at byte {offset} has the impossible length {length}", kind::Name(k))
            }
            Self::BeyondPacket { offset, kind: k, length, available } => write!(
                f,
                "{} at byte {offset} has length {length}, but {available} bytes are left",
                kind::Name(k)
            ),
            Self::ValueTooShort { kind: k, len } => {
                write!(f, "{} has only {len} bytes of value", kind::Name(k))
            }
            Self::Parameter { kind: k, error } => write!(f, "{}: {error}", kind::Name(k)),
        }
    }
}

impl core::error::Error for ChunkError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Parameter { error, .. } => Some(error),
            Self::HeaderCut { .. }
            | Self::LengthTooSmall { .. }
            | Self::BeyondPacket { .. }
            | Self::ValueTooShort { .. } => None,
        }
    }
}

/// Why bytes are not a valid parameter (or error cause), or why its value cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ParameterError {
    /// Fewer than four bytes remain where a parameter header should be.
    HeaderCut {
        /// Offset from the start of the parameters, in bytes.
        offset: usize,
    },
    /// The length field is smaller than the parameter header.
    LengthTooSmall {
        /// Where the parameter starts.
        offset: usize,
        /// Its type.
        kind: u16,
        /// The value of its length field.
        length: u16,
    },
    /// The length field points past the end of the chunk.
    BeyondEnd {
        /// Where the parameter starts.
        offset: usize,
        /// Its type.
        kind: u16,
        /// The value of its length field.
        length: u16,
        /// Bytes remaining from the parameter's start.
        available: usize,
    },
    /// The value has a size that this type cannot have.
    ValueLength {
        /// The parameter's type.
        kind: u16,
        /// Length of the value in bytes.
        len: usize,
    },
    /// A parameter of another type is where only one type is allowed.
    UnexpectedKind {
        /// The actual type.
        kind: u16,
        /// The required type.
        expected: u16,
    },
}

impl fmt::Display for ParameterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::HeaderCut { offset } => write!(f, "parameter header cut short at byte {offset}"),
            Self::LengthTooSmall { offset, kind, length } => write!(
                f,
                "parameter 0x{kind:04x} at byte {offset} has the impossible length {length}"
            ),
            Self::BeyondEnd { offset, kind, length, available } => write!(
                f,
                "parameter 0x{kind:04x} at byte {offset} has length {length}, \
                 but {available} bytes are left"
            ),
            Self::ValueLength { kind, len } => {
                write!(f, "parameter 0x{kind:04x} cannot have {len} bytes of value")
            }
            Self::UnexpectedKind { kind, expected } => {
                write!(f, "parameter 0x{kind:04x} where 0x{expected:04x} has to be")
            }
        }
    }
}

impl core::error::Error for ParameterError {}

#[cfg(test)]
mod tests {
    use super::*;
    use core::error::Error as _;

    #[test]
    fn errors_say_where_and_what() {
        let cut = ParameterError::HeaderCut { offset: 3 };
        assert_eq!(cut.to_string(), "parameter header cut short at byte 3");
        let error = ChunkError::Parameter { kind: 4, error: cut };
        assert_eq!(error.to_string(), "HEARTBEAT: parameter header cut short at byte 3");
        assert!(error.source().is_some());
        assert_eq!(error.kind(), Some(4));
        let error = ChunkError::HeaderCut { offset: 12 };
        assert_eq!(error.kind(), None);
        assert!(error.source().is_none());
        assert_eq!(error.to_string(), "chunk header cut short at byte 12");
        assert_eq!(
            ChunkError::ValueTooShort { kind: 3, len: 4 }.to_string(),
            "SACK has only 4 bytes of value"
        );
        assert_eq!(
            ParameterError::UnexpectedKind { kind: 7, expected: 1 }.to_string(),
            "parameter 0x0007 where 0x0001 has to be"
        );
        assert_eq!(
            ChunkError::BeyondPacket { offset: 12, kind: 0, length: 20, available: 8 }.to_string(),
            "DATA at byte 12 has length 20, but 8 bytes are left"
        );
        assert_eq!(
            ChunkError::LengthTooSmall { offset: 12, kind: 0xfe, length: 3 }.to_string(),
            "chunk 0xfe at byte 12 has the impossible length 3"
        );
        assert_eq!(
            PacketError::TooShort { len: 11 }.to_string(),
            "11 bytes are too few for an SCTP common header"
        );
    }
}
