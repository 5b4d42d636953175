//! INIT and INIT ACK.

use core::fmt;

use alloc::vec::Vec;

use super::RawChunk;
use crate::error::ChunkError;
use crate::parameter::Parameters;
use crate::serial::Tsn;

/// Opens an association, or answers the request (RFC 9260 sections 3.3.2, 3.3.3).
///
/// ```text
/// +---------------+---------------+---------------+---------------+
/// |    1 or 2     |       0       |            length             |
/// +---------------+---------------+---------------+---------------+
/// |                         initiate tag                          |
/// +---------------+---------------+---------------+---------------+
/// |               advertised receiver window, bytes               |
/// +---------------+---------------+---------------+---------------+
/// |       outbound streams        |        inbound streams        |
/// +---------------+---------------+---------------+---------------+
/// |                          initial TSN                          |
/// +---------------+---------------+---------------+---------------+
/// |                          parameters                           |
/// +---------------+---------------+---------------+---------------+
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Init<'a> {
    /// The verification tag that the receiver must use.
    pub initiate_tag: u32,
    /// Advertised receiver window in bytes.
    pub a_rwnd: u32,
    /// Number of streams that the sender wants to send on.
    pub outbound_streams: u16,
    /// Maximum number of streams that the sender accepts.
    pub inbound_streams: u16,
    /// The sender's first TSN.
    pub initial_tsn: Tsn,
    /// Optional and variable parameters.
    pub parameters: Parameters<'a>,
}

/// Answers an INIT, with the same fields.
pub type InitAck<'a> = Init<'a>;

impl<'a> Init<'a> {
    /// Reads the chunk; its type and the fields' values are not checked.
    ///
    /// # Errors
    ///
    /// [`ChunkError::ValueTooShort`] for less than 16 bytes of value.
    pub fn parse(chunk: &RawChunk<'a>) -> Result<Self, ChunkError> {
        chunk.fields(|r| {
            Some(Self {
                initiate_tag: r.u32()?,
                a_rwnd: r.u32()?,
                outbound_streams: r.u16()?,
                inbound_streams: r.u16()?,
                initial_tsn: Tsn(r.u32()?),
                parameters: Parameters::new(r.rest()),
            })
        })
    }

    // req: rfc9260 3.3.2.1 "fields MUST be placed after the fixed"
    // req: rfc9260 3.3.3.1 "fields MUST be placed after the fixed"
    pub(super) fn encode_value(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.initiate_tag.to_be_bytes());
        out.extend_from_slice(&self.a_rwnd.to_be_bytes());
        out.extend_from_slice(&self.outbound_streams.to_be_bytes());
        out.extend_from_slice(&self.inbound_streams.to_be_bytes());
        out.extend_from_slice(&self.initial_tsn.0.to_be_bytes());
        out.extend_from_slice(self.parameters.bytes());
    }
}

impl fmt::Display for Init<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "tag 0x{:08x} rwnd {} streams {} out {} in tsn {} {}",
            self.initiate_tag,
            self.a_rwnd,
            self.outbound_streams,
            self.inbound_streams,
            self.initial_tsn,
            self.parameters
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::Chunk;
    use super::super::testing::{capture, error};
    use super::*;
    use crate::parameter::kind as parameter_kind;

    #[test]
    // test: rfc9260 3.3.2.1 "fields MUST be placed after the fixed"
    fn request() {
        capture(
            "01000026 1a2b3c4d 00020000 000a0800 00000001 \
             00050008 c0a80001 80000004 80080006 4082 0000",
            "INIT tag 0x1a2b3c4d rwnd 131072 streams 10 out 2048 in tsn 1 \
             [192.168.0.1, ecn capable, extensions I-DATA,RE-CONFIG]",
            |chunk| {
                let Chunk::Init(init) = chunk else { unreachable!() };
                assert_eq!(init.initiate_tag, 0x1a2b_3c4d);
                assert_eq!(init.a_rwnd, 131_072);
                assert_eq!((init.outbound_streams, init.inbound_streams), (10, 2048));
                assert_eq!(init.initial_tsn, Tsn(1));
                let found = init.parameters.find(parameter_kind::SUPPORTED_EXTENSIONS);
                assert_eq!(found.map(|p| p.value), Some(&[0x40, 0x82][..]));
                assert_eq!(init.parameters.find(parameter_kind::STATE_COOKIE), None);
            },
        );
    }

    #[test]
    // test: rfc9260 3.3.3.1 "fields MUST be placed after the fixed"
    fn answer_with_cookie() {
        capture(
            "0200001c 00000001 0000ffff 00010001 ffffffff 00070008 01020304",
            "INIT ACK tag 0x00000001 rwnd 65535 streams 1 out 1 in tsn 4294967295 [cookie 4 bytes]",
            |chunk| assert!(matches!(chunk, Chunk::InitAck(_))),
        );
    }

    #[test]
    fn too_short() {
        assert_eq!(
            error("01000010 00000001 0000ffff 00010001"),
            ChunkError::ValueTooShort { kind: 1, len: 12 }
        );
    }
}
