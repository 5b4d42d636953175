//! The part of a packet that is logged: its chunks, without their contents.

use anabranch_wire::{Chunk, GapBlocks, Packet, RawChunk, Tsn, kind};

use crate::json::Object;

/// A chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChunkNote {
    kind: u8,
    /// Size in bytes, with header and without padding.
    length: u16,
    what: Detail,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Detail {
    None,
    /// SHUTDOWN is an acknowledgement too; FORWARD TSN and I-FORWARD-TSN ask for one.
    Cumulative(u32),
    Data {
        tsn: u32,
        stream: u16,
        payload: u16,
        /// The message identifier of I-DATA.
        mid: Option<u32>,
    },
    Sack {
        cumulative: u32,
        rwnd: u32,
        gaps: Box<[(u32, u32)]>,
        duplicates: u16,
    },
}

impl ChunkNote {
    /// The chunks of a packet up to the first damaged one.
    pub(crate) fn of_packet(bytes: &[u8]) -> Box<[Self]> {
        let Ok(packet) = Packet::parse(bytes) else { return Box::default() };
        packet.chunks().map_while(Result::ok).map(Self::of).collect()
    }

    fn of(raw: RawChunk<'_>) -> Self {
        let what = match raw.decode() {
            Ok(Chunk::Data(data)) => Detail::Data {
                tsn: data.tsn.0,
                stream: data.stream,
                payload: data.payload.len() as u16,
                mid: None,
            },
            Ok(Chunk::IData(data)) => Detail::Data {
                tsn: data.tsn.0,
                stream: data.stream,
                payload: data.payload.len() as u16,
                mid: Some(data.mid),
            },
            Ok(Chunk::Sack(sack)) => Detail::Sack {
                cumulative: sack.cumulative_tsn_ack.0,
                rwnd: sack.a_rwnd,
                gaps: gaps(sack.cumulative_tsn_ack, [sack.gap_blocks, GapBlocks::default()]),
                duplicates: sack.duplicate_tsns.len() as u16,
            },
            Ok(Chunk::NrSack(sack)) => Detail::Sack {
                cumulative: sack.cumulative_tsn_ack.0,
                rwnd: sack.a_rwnd,
                gaps: gaps(sack.cumulative_tsn_ack, [sack.gap_blocks, sack.nr_gap_blocks]),
                duplicates: sack.duplicate_tsns.len() as u16,
            },
            Ok(Chunk::Shutdown(shutdown)) => Detail::Cumulative(shutdown.cumulative_tsn_ack.0),
            Ok(Chunk::ForwardTsn(forward)) => Detail::Cumulative(forward.new_cumulative_tsn.0),
            Ok(Chunk::IForwardTsn(forward)) => Detail::Cumulative(forward.new_cumulative_tsn.0),
            _ => Detail::None,
        };
        Self { kind: raw.kind, length: (raw.value.len() + 4) as u16, what }
    }

    /// Memory use in bytes.
    pub(crate) fn size(&self) -> usize {
        let gaps = match &self.what {
            Detail::Sack { gaps, .. } => gaps.len(),
            Detail::None | Detail::Cumulative(_) | Detail::Data { .. } => 0,
        };
        size_of::<Self>() + gaps * size_of::<(u32, u32)>()
    }

    pub(crate) fn write(&self, out: &mut String) {
        let mut object = Object::begin(out);
        object.text("chunk_type", kind::Name(self.kind));
        object.plain("length", self.length);
        match &self.what {
            Detail::None => {}
            Detail::Cumulative(cumulative) => object.plain("cumulative_tsn", cumulative),
            Detail::Data { tsn, stream, payload, mid } => {
                object.plain("tsn", tsn);
                object.plain("stream_id", stream);
                object.plain("payload_length", payload);
                if let Some(mid) = mid {
                    object.plain("mid", mid);
                }
            }
            Detail::Sack { cumulative, rwnd, gaps, duplicates } => {
                object.plain("cumulative_tsn", cumulative);
                object.plain("a_rwnd", rwnd);
                if !gaps.is_empty() {
                    object.list("gaps", gaps, |out, (first, last)| {
                        out.push_str(&format!("[{first},{last}]"));
                    });
                }
                if *duplicates > 0 {
                    object.plain("duplicates", duplicates);
                }
            }
        }
        object.end();
    }
}

/// Gap ack blocks of both kinds, as TSNs.
fn gaps(cumulative: Tsn, blocks: [GapBlocks<'_>; 2]) -> Box<[(u32, u32)]> {
    let tsn = |offset: u16| cumulative.add(offset.into()).0;
    let blocks = blocks.iter().flat_map(|blocks| blocks.iter());
    blocks.map(|block| (tsn(block.start), tsn(block.end))).collect()
}

#[cfg(test)]
mod tests {
    use anabranch_wire::{
        DataFlags, GapBlock, Header, IData, PacketWriter, SkippedMessage, SkippedStream, Ssn,
    };

    use super::*;

    #[test]
    fn chunks_of_a_packet() {
        let header = Header { source_port: 1, destination_port: 2, verification_tag: 3 };
        let mut bytes = Vec::new();
        let mut writer = PacketWriter::new(&mut bytes, header, 1400);
        let gaps = [GapBlock { start: 2, end: 3 }];
        writer.sack(Tsn(u32::MAX), 1000, &gaps, &[Tsn(7)]).unwrap();
        writer.finish_without_checksum();
        let mut text = String::new();
        let notes = ChunkNote::of_packet(&bytes);
        notes[0].write(&mut text);
        let read: serde_json::Value = serde_json::from_str(&text).unwrap();
        let meant = serde_json::json!({
            "chunk_type": "SACK", "length": 24, "cumulative_tsn": u32::MAX, "a_rwnd": 1000,
            "gaps": [[1, 2]], "duplicates": 1,
        });
        assert_eq!((read, notes.len()), (meant, 1));
        assert!(ChunkNote::of_packet(&bytes[..5]).is_empty());
    }

    #[test]
    fn interleaved_data_and_what_was_given_up() {
        let header = Header { source_port: 1, destination_port: 2, verification_tag: 3 };
        let mut bytes = Vec::new();
        let mut writer = PacketWriter::new(&mut bytes, header, 1400);
        let flags = DataFlags::default();
        let (tsn, stream, mid, payload) = (Tsn(9), 4, 70_000, &b"abcde"[..]);
        let data = IData { flags, tsn, stream, mid, ppid_or_fsn: 1, payload };
        writer.i_data(&data).unwrap();
        writer.forward_tsn(Tsn(20), &[SkippedStream { stream: 1, ssn: Ssn(2) }]).unwrap();
        writer
            .i_forward_tsn(Tsn(21), &[SkippedMessage { stream: 1, unordered: false, mid: 2 }])
            .unwrap();
        writer.finish_without_checksum();
        let written: Vec<serde_json::Value> = ChunkNote::of_packet(&bytes)
            .iter()
            .map(|note| {
                let mut text = String::new();
                note.write(&mut text);
                serde_json::from_str(&text).unwrap()
            })
            .collect();
        let meant = [
            serde_json::json!({
                "chunk_type": "I-DATA", "length": 25, "tsn": 9, "stream_id": 4,
                "payload_length": 5, "mid": 70_000,
            }),
            serde_json::json!({ "chunk_type": "FORWARD TSN", "length": 12, "cumulative_tsn": 20 }),
            serde_json::json!({ "chunk_type": "I-FORWARD-TSN", "length": 16, "cumulative_tsn": 21 }),
        ];
        assert_eq!(written, meant);
    }
}
