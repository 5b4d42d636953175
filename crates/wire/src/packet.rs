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
    /// The header on the wire, with a checksum of zero.
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
    /// Reads the common header. Neither the checksum nor any chunk is looked at.
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
    /// that the sender left it out (RFC 9653).
    #[inline]
    #[must_use]
    pub const fn checksum(&self) -> u32 {
        self.checksum
    }

    /// Whether the checksum field is the CRC32c of the packet.
    #[cfg(feature = "checksum")]
    #[must_use]
    pub fn checksum_ok(&self) -> bool {
        crate::checksum::of_packet(self.bytes) == self.checksum.to_le_bytes()
    }

    /// The whole packet.
    #[inline]
    #[must_use]
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The chunks in their order, up to and including the first error.
    #[inline]
    #[must_use]
    pub const fn chunks(&self) -> Chunks<'a> {
        Chunks { packet: self.bytes, offset: HEADER_LEN }
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
                // A sender that forgot the padding of the last chunk is forgiven:
                // the offset then lies behind the packet and ends the iteration.
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
