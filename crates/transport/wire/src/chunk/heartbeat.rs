//! HEARTBEAT and HEARTBEAT ACK.

use core::fmt;

use alloc::vec::Vec;

use super::RawChunk;
use crate::error::{ChunkError, ParameterError};
use crate::parameter::{Parameter, Parameters, kind as parameter_kind};

/// Probes a path, or answers a probe with the same contents
/// (RFC 9260 sections 3.3.5, 3.3.6).
///
/// ```text
/// +---------------+---------------+---------------+---------------+
/// |    4 or 5     |       0       |            length             |
/// +---------------+---------------+---------------+---------------+
/// |    1 (Heartbeat Info)         |           length              |
/// +---------------+---------------+---------------+---------------+
/// |             opaque to all but the HEARTBEAT's sender          |
/// +---------------+---------------+---------------+---------------+
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heartbeat<'a> {
    /// Value of the Heartbeat Info parameter.
    pub info: &'a [u8],
}

/// Answers a HEARTBEAT, with the same field.
pub type HeartbeatAck<'a> = Heartbeat<'a>;

impl<'a> Heartbeat<'a> {
    /// Reads the chunk; its type is not checked.
    ///
    /// # Errors
    ///
    /// [`ChunkError::Parameter`] if it does not start with a well-formed Heartbeat Info parameter;
    /// the rest is ignored.
    pub fn parse(chunk: &RawChunk<'a>) -> Result<Self, ChunkError> {
        let error = match Parameters::new(chunk.value).iter().next() {
            Some(Ok(raw)) if raw.kind == parameter_kind::HEARTBEAT_INFO => {
                return Ok(Self { info: raw.value });
            }
            Some(Ok(raw)) => ParameterError::UnexpectedKind {
                kind: raw.kind,
                expected: parameter_kind::HEARTBEAT_INFO,
            },
            Some(Err(error)) => error,
            None => ParameterError::HeaderCut { offset: 0 },
        };
        Err(ChunkError::Parameter { kind: chunk.kind, error })
    }

    pub(super) fn encode_value(&self, out: &mut Vec<u8>) {
        let start = out.len();
        let parameter = Parameter::HeartbeatInfo(self.info);
        parameter.encode(out);
        // The last parameter's padding belongs to the chunk.
        out.truncate(start + 4 + self.info.len());
    }
}

impl fmt::Display for Heartbeat<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.info.len())
    }
}

#[cfg(test)]
mod tests {
    use super::super::Chunk;
    use super::super::testing::{capture, error};
    use super::*;
    use crate::chunk::kind;

    #[test]
    fn request_and_answer() {
        capture("0400000b 00010007 61626300", "HEARTBEAT 3 bytes", |chunk| {
            let Chunk::Heartbeat(heartbeat) = chunk else { unreachable!() };
            assert_eq!(heartbeat.info, b"abc");
        });
        capture("05000008 00010004", "HEARTBEAT ACK 0 bytes", |chunk| {
            assert!(matches!(chunk, Chunk::HeartbeatAck(_)));
        });
    }

    #[test]
    fn needs_its_parameter() {
        let parameter = |text| match error(text) {
            ChunkError::Parameter { kind, error } if kind == kind::HEARTBEAT => error,
            other => panic!("{other}"),
        };
        assert_eq!(parameter("04000004"), ParameterError::HeaderCut { offset: 0 });
        assert_eq!(
            parameter("04000008 00020004"),
            ParameterError::UnexpectedKind { kind: 2, expected: 1 }
        );
        assert_eq!(
            parameter("04000008 00010003"),
            ParameterError::LengthTooSmall { offset: 0, kind: 1, length: 3 }
        );
        assert_eq!(
            parameter("04000008 00010009"),
            ParameterError::BeyondEnd { offset: 0, kind: 1, length: 9, available: 4 }
        );
    }
}
