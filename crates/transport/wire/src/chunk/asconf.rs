//! ASCONF and ASCONF-ACK.

use core::fmt;

use alloc::vec::Vec;

use super::RawChunk;
use crate::error::ChunkError;
use crate::parameter::Parameters;

/// Changes the addresses of the sender (RFC 5061 section 4.1.1).
///
/// ```text
/// +---------------+---------------+---------------+---------------+
/// |     0xc1      |       0       |            length             |
/// +---------------+---------------+---------------+---------------+
/// |                            serial                             |
/// +---------------+---------------+---------------+---------------+
/// |           address parameter of the sender, requests           |
/// +---------------+---------------+---------------+---------------+
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asconf<'a> {
    /// Number of the request.
    pub serial: u32,
    /// An address of the sender, then the requests.
    pub parameters: Parameters<'a>,
}

/// Answers an ASCONF (RFC 5061 section 4.1.2).
///
/// ```text
/// +---------------+---------------+---------------+---------------+
/// |     0x80      |       0       |            length             |
/// +---------------+---------------+---------------+---------------+
/// |                            serial                             |
/// +---------------+---------------+---------------+---------------+
/// |                           responses                           |
/// +---------------+---------------+---------------+---------------+
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AsconfAck<'a> {
    /// Number of the answered request.
    pub serial: u32,
    /// The results of the requests; an empty list means that all succeeded.
    pub parameters: Parameters<'a>,
}

macro_rules! serial_and_parameters {
    ($name:ident) => {
        impl<'a> $name<'a> {
            /// Reads the chunk; its type is not checked, broken parameters are kept.
            ///
            /// # Errors
            ///
            /// [`ChunkError::ValueTooShort`] for less than 4 bytes of value.
            pub fn parse(chunk: &RawChunk<'a>) -> Result<Self, ChunkError> {
                chunk.fields(|r| {
                    Some(Self { serial: r.u32()?, parameters: Parameters::new(r.rest()) })
                })
            }

            pub(super) fn encode_value(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.serial.to_be_bytes());
                out.extend_from_slice(self.parameters.bytes());
            }
        }

        impl fmt::Display for $name<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "serial {} {}", self.serial, self.parameters)
            }
        }
    };
}

serial_and_parameters!(Asconf);
serial_and_parameters!(AsconfAck);

#[cfg(test)]
mod tests {
    use super::super::Chunk;
    use super::super::testing::{capture, error};
    use crate::error::ChunkError;

    #[test]
    fn request() {
        // The address of the sender, then the example of RFC 5061 section 4.2.1.
        capture(
            "c1000020 00000007 00050008 c0000202 c0010010 01023474 00050008 c0000201",
            "ASCONF serial 7 [192.0.2.2, add [192.0.2.1] id 16921716]",
            |chunk| {
                let Chunk::Asconf(asconf) = chunk else { unreachable!() };
                assert_eq!(asconf.serial, 7);
                assert_eq!(asconf.parameters.iter().count(), 2);
            },
        );
    }

    #[test]
    fn answer() {
        capture("80000008 00000007", "ASCONF-ACK serial 7 []", |chunk| {
            let Chunk::AsconfAck(ack) = chunk else { unreachable!() };
            assert_eq!(ack.serial, 7);
        });
        // The example of RFC 5061 section 4.3.1.
        capture(
            "80000024 00000008 c003001c 01023476 00a00014 c0020010 01023476 00050008 c0000201",
            "ASCONF-ACK serial 8 [failed [delete last address \
             0xc00200100102347600050008c0000201] id 16921718]",
            |_| {},
        );
    }

    #[test]
    fn too_short() {
        assert_eq!(error("c1000007 00000000"), ChunkError::ValueTooShort { kind: 0xc1, len: 3 });
        assert_eq!(error("80000004"), ChunkError::ValueTooShort { kind: 0x80, len: 0 });
    }
}
