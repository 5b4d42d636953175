//! I-DATA.

use core::fmt;

use alloc::vec::Vec;

use super::{DataFlags, RawChunk, kind};
use crate::error::ChunkError;
use crate::serial::Tsn;

/// User data of messages that may be interleaved (RFC 8260 section 2.1).
///
/// ```text
/// +---------------+---------------+---------------+---------------+
/// |     0x40      | reserved IUBE |            length             |
/// +---------------+---------------+---------------+---------------+
/// |                              TSN                              |
/// +---------------+---------------+---------------+---------------+
/// |            stream             |           reserved            |
/// +---------------+---------------+---------------+---------------+
/// |                      message identifier                       |
/// +---------------+---------------+---------------+---------------+
/// |       PPID (first fragment) or fragment sequence number       |
/// +---------------+---------------+---------------+---------------+
/// |                           user data                           |
/// +---------------+---------------+---------------+---------------+
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IData<'a> {
    /// Fragment position, order and urgency.
    pub flags: DataFlags,
    /// Transmission sequence number.
    pub tsn: Tsn,
    /// Stream identifier.
    pub stream: u16,
    /// Message identifier: the same in all fragments of a message.
    pub mid: u32,
    /// Payload protocol identifier in the first fragment of a message, fragment
    /// sequence number in the others.
    pub ppid_or_fsn: u32,
    /// User data, possibly a fragment.
    pub payload: &'a [u8],
}

impl<'a> IData<'a> {
    /// Size of the chunk without its user data, in bytes.
    pub const HEADER_LEN: usize = 20;

    /// Reads the chunk; its type is not checked.
    ///
    /// # Errors
    ///
    /// [`ChunkError::ValueTooShort`] for less than 16 bytes of value.
    #[inline]
    pub fn parse(chunk: &RawChunk<'a>) -> Result<Self, ChunkError> {
        chunk.fields(|r| {
            // req: rfc8260 2.1 "MUST be ignored by the receiver"
            let (tsn, stream, _reserved) = (Tsn(r.u32()?), r.u16()?, r.u16()?);
            Some(Self {
                flags: DataFlags(chunk.flags),
                tsn,
                stream,
                mid: r.u32()?,
                ppid_or_fsn: r.u32()?,
                payload: r.rest(),
            })
        })
    }

    pub(super) const fn flags(&self) -> u8 {
        self.flags.0
    }

    /// The chunk's first 20 bytes for a chunk that is `length` bytes long.
    #[inline]
    // req: rfc8260 2.1 "They MUST be set to 0 by the sender"
    // req: rfc8260 2.1 "It MUST be set to 0 by the sender"
    pub(crate) const fn header(&self, length: u16) -> [u8; 20] {
        let [a, b] = length.to_be_bytes();
        let [c, d, e, f] = self.tsn.0.to_be_bytes();
        let [g, h] = self.stream.to_be_bytes();
        let [i, j, k, l] = self.mid.to_be_bytes();
        let [m, n, o, p] = self.ppid_or_fsn.to_be_bytes();
        [kind::I_DATA, self.flags.0, a, b, c, d, e, f, g, h, 0, 0, i, j, k, l, m, n, o, p]
    }

    pub(super) fn encode_value(&self, out: &mut Vec<u8>) {
        let [_, _, _, _, fields @ ..] = self.header(0);
        out.extend_from_slice(&fields);
        out.extend_from_slice(self.payload);
    }
}

impl fmt::Display for IData<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "tsn {} stream {} mid {} {} {} {} {} bytes",
            self.tsn,
            self.stream,
            self.mid,
            if self.flags.begin() { "ppid" } else { "fsn" },
            self.ppid_or_fsn,
            self.flags,
            self.payload.len()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::Chunk;
    use super::super::testing::{capture, error};
    use super::*;

    #[test]
    fn first_and_middle_fragment() {
        capture(
            "40020015 00000012 00010000 00000007 00000033 68000000",
            "I-DATA tsn 18 stream 1 mid 7 ppid 51 B 1 bytes",
            |chunk| {
                let Chunk::IData(data) = chunk else { unreachable!() };
                assert_eq!((data.tsn, data.stream, data.mid), (Tsn(18), 1, 7));
                assert_eq!(data.payload, b"h");
            },
        );
        capture(
            "40000018 00000013 00010000 00000007 00000001 656c6c6f",
            "I-DATA tsn 19 stream 1 mid 7 fsn 1 - 4 bytes",
            |_| {},
        );
        assert_eq!(
            error("40000010 00000013 00010000 00000007"),
            ChunkError::ValueTooShort { kind: 0x40, len: 12 }
        );
    }
}
