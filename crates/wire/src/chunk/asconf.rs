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
    /// Number of the request that is answered.
    pub serial: u32,
    /// What became of the requests; none means that all succeeded.
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
