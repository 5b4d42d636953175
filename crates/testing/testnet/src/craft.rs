//! Handcrafted packets.

use anabranch_wire::{Header, NoRoom, Packet, PacketWriter};
use bytes::Bytes;

/// A packet with a correct checksum.
pub fn packet(
    header: Header,
    write: impl FnOnce(&mut PacketWriter<'_>) -> Result<(), NoRoom>,
) -> Bytes {
    let mut bytes = Vec::new();
    let mut writer = PacketWriter::new(&mut bytes, header, usize::from(u16::MAX));
    write(&mut writer).expect("a packet of 64 KiB has room");
    writer.finish();
    bytes.into()
}

/// The same packet with a changed header.
pub fn with_header(packet: &[u8], change: impl FnOnce(&mut Header)) -> Bytes {
    let parsed = Packet::parse(packet).expect("a packet");
    let mut header = parsed.header();
    change(&mut header);
    self::packet(header, |writer| {
        for chunk in parsed.chunks() {
            let chunk = chunk.expect("a whole chunk");
            writer.raw(chunk.kind, chunk.flags, chunk.value)?;
        }
        Ok(())
    })
}

/// Types of the chunks of a packet.
pub fn kinds(packet: &[u8]) -> Vec<u8> {
    let Ok(packet) = Packet::parse(packet) else { return Vec::new() };
    packet.chunks().map_while(Result::ok).map(|chunk| chunk.kind).collect()
}

/// Whether the packet contains a chunk of this type.
pub fn has(packet: &[u8], kind: u8) -> bool {
    kinds(packet).contains(&kind)
}
