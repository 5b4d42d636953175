//! DATA.

use core::fmt;

use alloc::vec::Vec;

use super::{RawChunk, kind};
use crate::error::ChunkError;
use crate::ppid::Ppid;
use crate::serial::{Ssn, Tsn};

/// Flags of DATA and I-DATA (RFC 9260 section 3.3.1, RFC 7053).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct DataFlags(
    /// The flags field.
    pub u8,
);

impl DataFlags {
    /// E: last fragment of its message.
    pub const END: u8 = 1;
    /// B: first fragment of its message.
    pub const BEGIN: u8 = 2;
    /// U: delivered without regard to order.
    pub const UNORDERED: u8 = 4;
    /// I: asks for an immediate acknowledgement.
    pub const IMMEDIATE: u8 = 8;

    /// Last fragment of its message.
    #[inline]
    #[must_use]
    pub const fn end(self) -> bool {
        self.0 & Self::END != 0
    }

    /// First fragment of its message.
    #[inline]
    #[must_use]
    pub const fn begin(self) -> bool {
        self.0 & Self::BEGIN != 0
    }

    /// Delivered without regard to order.
    #[inline]
    #[must_use]
    pub const fn unordered(self) -> bool {
        self.0 & Self::UNORDERED != 0
    }

    /// The same, with a request for an immediate acknowledgement.
    #[inline]
    #[must_use]
    pub const fn with_immediate(self) -> Self {
        Self(self.0 | Self::IMMEDIATE)
    }

    /// Asks for an immediate acknowledgement.
    #[inline]
    #[must_use]
    pub const fn immediate(self) -> bool {
        self.0 & Self::IMMEDIATE != 0
    }
}

impl fmt::Display for DataFlags {
    /// The letters of the set flags, or `-` for none.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letters = [
            (self.begin(), "B"),
            (self.end(), "E"),
            (self.unordered(), "U"),
            (self.immediate(), "I"),
        ];
        for (_, letter) in letters.iter().filter(|(set, _)| *set) {
            f.write_str(letter)?;
        }
        if letters.iter().all(|(set, _)| !set) {
            f.write_str("-")?;
        }
        Ok(())
    }
}

/// User data (RFC 9260 section 3.3.1).
///
/// ```text
/// +---------------+---------------+---------------+---------------+
/// |       0       | reserved IUBE |            length             |
/// +---------------+---------------+---------------+---------------+
/// |                              TSN                              |
/// +---------------+---------------+---------------+---------------+
/// |            stream             |              SSN              |
/// +---------------+---------------+---------------+---------------+
/// |                             PPID                              |
/// +---------------+---------------+---------------+---------------+
/// |                           user data                           |
/// +---------------+---------------+---------------+---------------+
/// ```
///
/// A chunk without user data is well formed here; the receiver answers it (cause 9, No User Data).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Data<'a> {
    /// Fragment position, order and urgency.
    pub flags: DataFlags,
    /// Transmission sequence number.
    pub tsn: Tsn,
    /// Stream identifier.
    pub stream: u16,
    /// Stream sequence number; without meaning in unordered data.
    pub ssn: Ssn,
    /// Payload protocol identifier.
    pub ppid: Ppid,
    /// User data, possibly a fragment.
    pub payload: &'a [u8],
}

impl<'a> Data<'a> {
    /// Size of the chunk without its user data, in bytes.
    pub const HEADER_LEN: usize = 16;

    /// Reads the chunk; its type is not checked.
    ///
    /// # Errors
    ///
    /// [`ChunkError::ValueTooShort`] for less than 12 bytes of value.
    #[inline]
    pub fn parse(chunk: &RawChunk<'a>) -> Result<Self, ChunkError> {
        chunk.fields(|r| {
            Some(Self {
                flags: DataFlags(chunk.flags),
                tsn: Tsn(r.u32()?),
                stream: r.u16()?,
                ssn: Ssn(r.u16()?),
                ppid: Ppid(r.u32()?),
                payload: r.rest(),
            })
        })
    }

    /// The chunk's first 16 bytes for a chunk that is `length` bytes long.
    #[inline]
    // req: rfc9260 3.3.1 "The following format MUST be used for"
    // req: rfc9260 3.3.1 "This field MUST be sent even in fragmented"
    pub(crate) const fn header(&self, length: u16) -> [u8; 16] {
        let [a, b] = length.to_be_bytes();
        let [c, d, e, f] = self.tsn.0.to_be_bytes();
        let [g, h] = self.stream.to_be_bytes();
        let [i, j] = self.ssn.0.to_be_bytes();
        let [k, l, m, n] = self.ppid.0.to_be_bytes();
        [kind::DATA, self.flags.0, a, b, c, d, e, f, g, h, i, j, k, l, m, n]
    }

    pub(super) const fn flags(&self) -> u8 {
        self.flags.0
    }

    pub(super) fn encode_value(&self, out: &mut Vec<u8>) {
        let [_, _, _, _, fields @ ..] = self.header(0);
        out.extend_from_slice(&fields);
        out.extend_from_slice(self.payload);
    }
}

impl fmt::Display for Data<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "tsn {} stream {} ssn {} ppid {} {} {} bytes",
            self.tsn,
            self.stream,
            self.ssn,
            self.ppid,
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
    // test: rfc9260 3.3.1 "The following format MUST be used for"
    fn whole_message() {
        capture(
            "00030015 00000012 00010004 0000002e 68656c6c 6f000000",
            "DATA tsn 18 stream 1 ssn 4 ppid 46 BE 5 bytes",
            |chunk| {
                let Chunk::Data(data) = chunk else { unreachable!() };
                assert_eq!(data.tsn, Tsn(18));
                assert_eq!((data.stream, data.ssn), (1, Ssn(4)));
                assert_eq!(data.ppid, Ppid::DIAMETER);
                assert_eq!(data.payload, b"hello");
                let flags = data.flags;
                assert!(flags.begin() && flags.end());
                assert!(!flags.unordered() && !flags.immediate());
                assert_eq!(data.header(21)[..4], [0, 3, 0, 21]);
            },
        );
    }

    #[test]
    fn flags_show_as_letters() {
        assert_eq!(DataFlags(0).to_string(), "-");
        assert_eq!(DataFlags(0xff).to_string(), "BEUI");
        assert_eq!(DataFlags(DataFlags::UNORDERED).to_string(), "U");
        assert!(DataFlags(DataFlags::END).with_immediate().immediate());
    }

    #[test]
    fn no_user_data_is_well_formed() {
        capture(
            "00030010 00000012 00010004 00000000",
            "DATA tsn 18 stream 1 ssn 4 ppid 0 BE 0 bytes",
            |_| {},
        );
        assert_eq!(
            error("0003000f 00000012 00010004 00000000"),
            ChunkError::ValueTooShort { kind: 0, len: 11 }
        );
    }
}
