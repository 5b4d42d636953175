//! Interprets arbitrary bytes as a packet: decodes, formats and encodes it.

use anabranch_wire::{
    Cause, Causes, Chunk, Header, Packet, PacketWriter, Parameter, Parameters, RawChunk,
};

/// Decodes `bytes` at every level, writes the result as text and as bytes, and parses that again:
/// the output must have the same meaning as the input.
pub fn decoder(bytes: &[u8]) {
    packet(bytes);
    parameters(Parameters::new(bytes), 0);
    causes(Causes::new(bytes), 0);
}

fn packet(bytes: &[u8]) {
    let Ok(packet) = Packet::parse(bytes) else {
        assert!(bytes.len() < anabranch_wire::HEADER_LEN);
        return;
    };
    let text = packet.to_string();
    // Work and text are proportional to the bytes; the longest names and numbers of a trace need
    // less than this per byte.
    assert!(text.len() <= 200 + 100 * bytes.len(), "{} bytes shown as {}", bytes.len(), text.len());
    let mut seen = 0;
    for raw in packet.chunks().map_while(Result::ok) {
        seen += raw.raw_len();
        chunk(&raw, packet.header());
    }
    assert!(seen <= bytes.len());
}

fn chunk(raw: &RawChunk<'_>, header: Header) {
    let Ok(chunk) = raw.decode() else { return };
    assert_eq!(chunk.kind(), raw.kind);
    match &chunk {
        Chunk::Init(init) | Chunk::InitAck(init) => parameters(init.parameters, 0),
        Chunk::Abort(abort) => causes(abort.causes, 0),
        Chunk::Error(error) => causes(error.causes, 0),
        Chunk::ReConfig(change) => parameters(change.parameters, 0),
        _ => {}
    }
    let mut encoded = Vec::new();
    chunk.encode(&mut encoded);
    assert!(encoded.len().is_multiple_of(4));
    let mut bytes = Vec::new();
    let mut writer = PacketWriter::new(&mut bytes, header, 1 << 17);
    // A writer refuses a chunk that does not fit into the length field.
    if writer.chunk(&chunk).is_err() {
        writer.cancel();
        return;
    }
    writer.finish();
    assert_eq!(&bytes[anabranch_wire::HEADER_LEN..], encoded);
    let again = Packet::parse(&bytes).expect("the writer wrote a header");
    assert!(again.checksum_ok());
    let raw = again.chunks().next().expect("the writer wrote a chunk");
    let decoded = raw.expect("the writer wrote its length").decode();
    assert_eq!(decoded, Ok(chunk));
}

/// Decodes parameters and nested ones, to a depth that no valid packet has.
fn parameters(list: Parameters<'_>, depth: usize) {
    let _ = list.to_string();
    for raw in list.iter().map_while(Result::ok) {
        let Ok(parameter) = raw.decode() else { continue };
        let _ = parameter.to_string();
        let mut encoded = Vec::new();
        parameter.encode(&mut encoded);
        let again = Parameters::new(&encoded).iter().next();
        let again = again.expect("one was written").expect("with its length");
        assert_eq!(again.decode(), Ok(parameter));
        if depth < 4 {
            match parameter {
                Parameter::AddIpAddress { address, .. }
                | Parameter::DeleteIpAddress { address, .. }
                | Parameter::SetPrimaryAddress { address, .. } => parameters(address, depth + 1),
                Parameter::ErrorCauseIndication { causes: list, .. } => causes(list, depth + 1),
                _ => {}
            }
        }
    }
}

fn causes(list: Causes<'_>, depth: usize) {
    let _ = list.to_string();
    for cause in list.decoded() {
        let _ = cause.to_string();
        let mut encoded = Vec::new();
        cause.encode(&mut encoded);
        assert_eq!(Causes::new(&encoded).decoded().next(), Some(cause));
        if let (Cause::UnrecognizedParameters(bytes), true) = (cause, depth < 4) {
            parameters(Parameters::new(bytes), depth + 1);
        }
    }
}
