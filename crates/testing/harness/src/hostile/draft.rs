//! Packets that can be modified in any way.

use anabranch_wire::{HEADER_LEN, Header, Packet, crc32c};
use bytes::Bytes;

/// A chunk, valid or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawPiece {
    /// Type.
    pub kind: u8,
    /// Flags.
    pub flags: u8,
    /// Value without padding.
    pub value: Vec<u8>,
}

/// A modifiable packet. Its checksum is always correct, whatever else is wrong: damaging packets is
/// left to the network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft {
    /// Ports and tag.
    pub header: Header,
    /// Chunks in order.
    pub chunks: Vec<RawPiece>,
    /// Number of bytes to which the packet is truncated.
    pub cut: Option<usize>,
}

impl Draft {
    /// An empty packet.
    pub fn new(header: Header) -> Self {
        Self { header, chunks: Vec::new(), cut: None }
    }

    /// Adds a chunk.
    #[must_use]
    pub fn with(mut self, kind: u8, flags: u8, value: impl Into<Vec<u8>>) -> Self {
        self.chunks.push(RawPiece { kind, flags, value: value.into() });
        self
    }

    /// Parses a packet up to its first incomplete chunk; `None` if it has no header.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let packet = Packet::parse(bytes).ok()?;
        let chunks = packet.chunks().map_while(Result::ok).map(|chunk| RawPiece {
            kind: chunk.kind,
            flags: chunk.flags,
            value: chunk.value.to_vec(),
        });
        Some(Self { header: packet.header(), chunks: chunks.collect(), cut: None })
    }

    /// Whether the packet contains a chunk of this type.
    pub fn has(&self, kind: u8) -> bool {
        self.chunks.iter().any(|chunk| chunk.kind == kind)
    }

    /// The packet as it is sent.
    pub fn bytes(&self) -> Bytes {
        let mut bytes = Vec::new();
        bytes.extend_from_slice(&self.header.source_port.to_be_bytes());
        bytes.extend_from_slice(&self.header.destination_port.to_be_bytes());
        bytes.extend_from_slice(&self.header.verification_tag.to_be_bytes());
        bytes.extend_from_slice(&[0; 4]);
        for chunk in &self.chunks {
            let length = u16::try_from(chunk.value.len() + 4).unwrap_or(u16::MAX);
            bytes.extend_from_slice(&[chunk.kind, chunk.flags]);
            bytes.extend_from_slice(&length.to_be_bytes());
            bytes.extend_from_slice(&chunk.value);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
        }
        bytes.truncate(self.cut.unwrap_or(bytes.len()).max(HEADER_LEN));
        let sum = crc32c(&bytes).to_le_bytes();
        bytes[8..12].copy_from_slice(&sum);
        bytes.into()
    }
}

#[cfg(test)]
mod tests {
    use anabranch_wire::kind;

    use super::*;

    #[test]
    fn packets_come_back_as_they_were() {
        let header = Header { source_port: 1, destination_port: 2, verification_tag: 3 };
        let draft = Draft::new(header).with(kind::HEARTBEAT, 0, [1, 2, 3]).with(0xc5, 7, []);
        let bytes = draft.bytes();
        assert_eq!(Draft::read(&bytes), Some(draft.clone()));
        assert!(Packet::parse(&bytes).unwrap().checksum_ok());
        let short = Draft { cut: Some(bytes.len() - 2), ..draft };
        let bytes = short.bytes();
        assert!(Packet::parse(&bytes).unwrap().checksum_ok());
        assert_eq!(Draft::read(&bytes).unwrap().chunks.len(), 1);
    }
}
