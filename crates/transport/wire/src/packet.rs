//! The SCTP packet: common header and chunks.

use core::fmt;

use crate::chunk::RawChunk;
use crate::error::{ChunkError, PacketError};
use crate::tlv::padded;

/// Size of the common header in bytes.
pub const HEADER_LEN: usize = 12;

/// The common header without its checksum (RFC 9260 section 3.1).
///
/// ```text
///  0               1               2               3
/// +---------------+---------------+---------------+---------------+
/// |          source port          |       destination port        |
/// +---------------+---------------+---------------+---------------+
/// |                       verification tag                        |
/// +---------------+---------------+---------------+---------------+
/// |                CRC32c, least significant byte first           |
/// +---------------+---------------+---------------+---------------+
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Header {
    /// SCTP port of the sender.
    pub source_port: u16,
    /// SCTP port of the receiver.
    pub destination_port: u16,
    /// The receiver's initiate tag; 0 in a packet with an INIT.
    pub verification_tag: u32,
}

impl Header {
    /// The header in wire format, with a checksum of zero.
    #[inline]
    pub(crate) const fn to_bytes(self) -> [u8; HEADER_LEN] {
        let [a, b] = self.source_port.to_be_bytes();
        let [c, d] = self.destination_port.to_be_bytes();
        let [e, f, g, h] = self.verification_tag.to_be_bytes();
        [a, b, c, d, e, f, g, h, 0, 0, 0, 0]
    }
}

impl fmt::Display for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} > {} tag 0x{:08x}",
            self.source_port, self.destination_port, self.verification_tag
        )
    }
}

/// A view of one received SCTP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    header: Header,
    checksum: u32,
    bytes: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Reads the common header. Checks neither the checksum nor any chunk.
    ///
    /// # Errors
    ///
    /// [`PacketError::TooShort`] for less than 12 bytes.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Self, PacketError> {
        let Some(&[a, b, c, d, e, f, g, h, i, j, k, l]) = bytes.first_chunk() else {
            return Err(PacketError::TooShort { len: bytes.len() });
        };
        Ok(Self {
            header: Header {
                source_port: u16::from_be_bytes([a, b]),
                destination_port: u16::from_be_bytes([c, d]),
                verification_tag: u32::from_be_bytes([e, f, g, h]),
            },
            checksum: u32::from_le_bytes([i, j, k, l]),
            bytes,
        })
    }

    /// Ports and verification tag.
    #[inline]
    #[must_use]
    pub const fn header(&self) -> Header {
        self.header
    }

    /// The checksum field, in the byte order in which CRC32c is sent; 0 may mean
    /// that the sender did not compute it (RFC 9653).
    #[inline]
    #[must_use]
    pub const fn checksum(&self) -> u32 {
        self.checksum
    }

    /// Whether the checksum field is the CRC32c of the packet.
    #[cfg(feature = "checksum")]
    #[must_use]
    pub fn checksum_ok(&self) -> bool {
        // req: rfc9260 6.8 "MUST treat the packet as an invalid"
        crate::checksum::of_packet(self.bytes) == self.checksum.to_le_bytes()
    }

    /// The whole packet.
    #[inline]
    #[must_use]
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The chunks in order, up to and including the first error.
    #[inline]
    #[must_use]
    pub const fn chunks(&self) -> Chunks<'a> {
        Chunks::of(self.bytes)
    }
}

impl fmt::Display for Packet<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.header.fmt(f)?;
        let mut separator = ": ";
        for chunk in self.chunks() {
            f.write_str(separator)?;
            match chunk {
                Ok(chunk) => chunk.fmt(f)?,
                Err(error) => write!(f, "malformed ({error})")?,
            }
            separator = "; ";
        }
        Ok(())
    }
}

/// Iterator over the chunks of a packet; ends after the first error.
#[derive(Clone, Debug)]
pub struct Chunks<'a> {
    packet: &'a [u8],
    offset: usize,
}

impl<'a> Chunks<'a> {
    /// The chunks of a packet, which begins with its header.
    pub(crate) const fn of(packet: &'a [u8]) -> Self {
        Self { packet, offset: HEADER_LEN }
    }

    /// Where the next chunk starts, in bytes from the start of the packet.
    #[inline]
    #[must_use]
    pub const fn offset(&self) -> usize {
        self.offset
    }
}

impl<'a> Iterator for Chunks<'a> {
    type Item = Result<RawChunk<'a>, ChunkError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.packet.get(self.offset..)?;
        if rest.is_empty() {
            return None;
        }
        match RawChunk::split(rest, self.offset) {
            Ok(chunk) => {
                // req: rfc9260 3.2 "MUST ignore the padding bytes"
                // Tolerates missing padding of the last chunk: the offset is then past the end of the
                // packet, which ends the iteration.
                self.offset += padded(chunk.raw_len());
                Some(Ok(chunk))
            }
            Err(error) => {
                self.offset = self.packet.len();
                Some(Err(error))
            }
        }
    }
}

impl core::iter::FusedIterator for Chunks<'_> {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunk::testing::hex;

    /// A SACK and a DATA, the DATA without its three bytes of padding.
    const CAPTURE: &str = "1389 26ab 1a2b3c4d 00000000 \
        03000010 00000011 00010000 00000000 \
        00030015 00000012 00010004 0000002e 68656c6c 6f";

    #[test]
    fn shows_as_a_trace() {
        let bytes = hex(CAPTURE);
        let packet = Packet::parse(&bytes).unwrap();
        assert_eq!(
            packet.to_string(),
            "5001 > 9899 tag 0x1a2b3c4d: SACK cum 17 rwnd 65536; \
             DATA tsn 18 stream 1 ssn 4 ppid 46 BE 5 bytes"
        );
        assert_eq!(packet.header().source_port, 5001);
        assert_eq!(packet.checksum(), 0);
        assert_eq!(packet.bytes(), bytes);
    }

    // test: rfc9260 3.2 "MUST ignore the padding bytes"
    #[test]
    fn padding_may_be_anything_and_may_be_missing_at_the_end() {
        let bytes = hex("0001 0002 00000003 00000000 0a000005 01 ffffff 0b000004");
        let packet = Packet::parse(&bytes).unwrap();
        let kinds: Vec<_> = packet.chunks().map(|c| c.map(|c| c.kind)).collect();
        assert_eq!(kinds, [Ok(10), Ok(11)]);
        let mut cut = hex(CAPTURE);
        for missing in 0..4 {
            let packet = Packet::parse(&cut).unwrap();
            assert_eq!(packet.chunks().filter(Result::is_ok).count(), 2, "{missing}");
            cut.push(0xff);
        }
    }

    #[test]
    fn ends_after_the_first_error() {
        let bytes = hex("0001 0002 00000003 00000000 0b000004 07000003 00000000");
        let packet = Packet::parse(&bytes).unwrap();
        let mut chunks = packet.chunks();
        assert_eq!(chunks.offset(), 12);
        assert!(chunks.next().is_some_and(|c| c.is_ok()));
        assert_eq!(
            chunks.next(),
            Some(Err(ChunkError::LengthTooSmall { offset: 16, kind: 7, length: 3 }))
        );
        assert_eq!(chunks.next(), None);
        assert_eq!(
            packet.to_string(),
            "1 > 2 tag 0x00000003: COOKIE ACK; \
             malformed (SHUTDOWN at byte 16 has the impossible length 3)"
        );
    }

    #[test]
    fn header_alone_has_no_chunks() {
        let bytes = [0; HEADER_LEN];
        assert_eq!(Packet::parse(&bytes).unwrap().chunks().next(), None);
        assert_eq!(Packet::parse(&bytes[1..]), Err(PacketError::TooShort { len: 11 }));
    }

    // test: rfc9260 6.8 "MUST treat the packet as an invalid"
    #[cfg(feature = "checksum")]
    #[test]
    fn checksum_finds_every_changed_bit() {
        let mut bytes = hex(CAPTURE);
        crate::checksum::fill(&mut bytes);
        let checksum = Packet::parse(&bytes).unwrap().checksum();
        assert_eq!(checksum.to_le_bytes(), bytes[8..12]);
        assert!(Packet::parse(&bytes).unwrap().checksum_ok());
        for bit in 0..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(!Packet::parse(&bytes).unwrap().checksum_ok());
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }
}
