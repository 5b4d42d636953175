//! Packets that neither endpoint has created.

use anabranch_wire::{
    Abort, Causes, Chunk, CookieEcho, Data, DataFlags, ForwardTsn, GapBlock, Header, Heartbeat,
    IData, IForwardTsn, Init, List, PacketWriter, Parameters, Ppid, Shutdown, SkippedMessage,
    SkippedStream, Ssn, Tsn,
};

use super::operation::Forged;

/// What a man in the middle has seen in the packets to one side.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) tag: u32,
    /// TSN of the last DATA or I-DATA chunk.
    pub(crate) tsn: u32,
    pub(crate) cookie: Vec<u8>,
}

/// Writes a packet to a side. `to` is what was seen in packets to that side, `from` in packets from
/// it.
pub(crate) fn packet(header: Header, to: &Seen, from: &Seen, chunks: &[Option<Forged>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = PacketWriter::new(&mut bytes, header, 4096);
    for chunk in chunks.iter().flatten() {
        // Chunks that do not fit are omitted.
        let _ = write(&mut writer, to, from, chunk);
    }
    writer.finish();
    bytes
}

fn write(
    writer: &mut PacketWriter<'_>,
    to: &Seen,
    from: &Seen,
    chunk: &Forged,
) -> Result<(), anabranch_wire::NoRoom> {
    // Small numbers, those around half of the range, and those before 0.
    let number = |byte: u8| u32::from(byte & 0x3f).wrapping_add(u32::from(byte >> 6) << 30);
    let near = |tsn: u32, offset: i16| Tsn(tsn.wrapping_add_signed(i32::from(offset)));
    match chunk {
        Forged::Data { tsn, stream, ssn, flags, len } => writer.data(&Data {
            flags: DataFlags(*flags),
            tsn: near(to.tsn, *tsn),
            stream: *stream,
            ssn: Ssn(*ssn),
            ppid: Ppid(0),
            payload: &[0x55; 255][..usize::from(*len)],
        }),
        Forged::Sack { tsn, rwnd, gaps, count } => {
            let gaps: Vec<GapBlock> =
                gaps.iter().map(|&(start, end)| GapBlock { start, end }).collect();
            let count = usize::from(*count).min(gaps.len());
            writer.sack(near(from.tsn, *tsn), *rwnd, &gaps[..count], &[])
        }
        Forged::ForwardTsn { tsn, streams, count } => {
            let streams = streams.map(|(stream, ssn)| SkippedStream { stream, ssn: Ssn(ssn) });
            let count = usize::from(*count).min(streams.len());
            let mut storage = Vec::new();
            let streams = List::encode(&streams[..count], &mut storage);
            let new_cumulative_tsn = near(to.tsn, *tsn);
            writer.chunk(&Chunk::ForwardTsn(ForwardTsn { new_cumulative_tsn, streams }))
        }
        Forged::IData { tsn, stream, mid, fsn, flags, len } => writer.i_data(&IData {
            flags: DataFlags(*flags),
            tsn: near(to.tsn, *tsn),
            stream: *stream % 300,
            mid: number(*mid),
            ppid_or_fsn: number(*fsn),
            payload: &[0x55; 255][..usize::from(*len)],
        }),
        Forged::IForwardTsn { tsn, messages, count } => {
            let messages = messages.map(|(stream, unordered, mid)| SkippedMessage {
                stream: stream % 300,
                unordered,
                mid: number(mid),
            });
            let count = usize::from(*count).min(messages.len());
            let mut storage = Vec::new();
            let streams = List::encode(&messages[..count], &mut storage);
            let new_cumulative_tsn = near(to.tsn, *tsn);
            writer.chunk(&Chunk::IForwardTsn(IForwardTsn { new_cumulative_tsn, streams }))
        }
        Forged::Any { kind, flags, value, len } => {
            writer.raw(*kind, *flags, &value[..usize::from(*len).min(value.len())])
        }
        Forged::Init { tag, rwnd, streams, tsn, parameters } => writer.chunk(&Chunk::Init(Init {
            initiate_tag: *tag,
            a_rwnd: *rwnd,
            outbound_streams: streams.0,
            inbound_streams: streams.1,
            initial_tsn: Tsn(*tsn),
            parameters: Parameters::new(parameters),
        })),
        Forged::Cookie => writer.chunk(&Chunk::CookieEcho(CookieEcho { cookie: &to.cookie })),
        Forged::Shutdown { tsn } => {
            writer.chunk(&Chunk::Shutdown(Shutdown { cumulative_tsn_ack: near(from.tsn, *tsn) }))
        }
        Forged::Bare { kind, flags } => writer.raw(*kind, *flags, &[]),
        Forged::Abort { reflected, cause } => writer
            .chunk(&Chunk::Abort(Abort { tag_reflected: *reflected, causes: Causes::new(cause) })),
        Forged::HeartbeatAck { info } => {
            // The parameter's header is part of what a peer reflects.
            writer.chunk(&Chunk::HeartbeatAck(Heartbeat { info }))
        }
    }
}
