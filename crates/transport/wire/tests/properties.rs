//! Encoded values decode to the same values, and no input makes the code panic.

use anabranch_wire::{
    Abort, Asconf, AsconfAck, Auth, Cause, Causes, Chunk, CookieEcho, Data, DataFlags, Ecne, Error,
    ForwardTsn, GapBlocks, Header, Heartbeat, IData, IForwardTsn, Init, List, NrSack, Packet,
    PacketWriter, Pad, Parameter, Parameters, Ppid, RawChunk, ReConfig, Sack, Shutdown,
    ShutdownComplete, Ssn, Timestamp, Tsn, TsnList, U16List, cause_code, kind, parameter_kind,
};
use proptest::collection::vec;
use proptest::prelude::*;

/// Arbitrary numbers and bytes from which every chunk, parameter and cause can be made.
#[derive(Clone, Debug)]
struct Material {
    words: [u32; 4],
    halves: [u16; 3],
    flag: bool,
    byte: u8,
    bytes: [Vec<u8>; 3],
}

fn material() -> impl Strategy<Value = Material> {
    let bytes = || vec(any::<u8>(), 0..48);
    (any::<[u32; 4]>(), any::<[u16; 3]>(), any::<bool>(), any::<u8>(), [bytes(), bytes(), bytes()])
        .prop_map(|(words, halves, flag, byte, bytes)| Material {
            words,
            halves,
            flag,
            byte,
            bytes,
        })
}

/// One parameter of each kind. `address` is what address changes carry.
fn parameters<'a>(m: &'a Material, address: Parameters<'a>) -> Vec<Parameter<'a>> {
    let [a, b, c, d] = m.words;
    let x = &m.bytes[0][..];
    vec![
        Parameter::HeartbeatInfo(x),
        Parameter::Ipv4Address(a.into()),
        Parameter::Ipv6Address(u128::from(a).into()),
        Parameter::StateCookie(x),
        Parameter::UnrecognizedParameter(x),
        Parameter::CookiePreservative(a),
        Parameter::HostNameAddress(x),
        Parameter::SupportedAddressTypes(U16List::new(x)),
        Parameter::OutgoingResetRequest {
            request: a,
            response: b,
            last_tsn: Tsn(c),
            streams: U16List::new(x),
        },
        Parameter::IncomingResetRequest { request: a, streams: U16List::new(x) },
        Parameter::TsnResetRequest(a),
        Parameter::ReconfigResponse {
            response: a,
            result: b,
            next_tsns: m.flag.then_some((Tsn(c), Tsn(d))),
        },
        Parameter::AddOutgoingStreams { request: a, count: m.halves[0] },
        Parameter::AddIncomingStreams { request: a, count: m.halves[0] },
        Parameter::EcnCapable,
        Parameter::ZeroChecksumAcceptable(a),
        Parameter::Random(x),
        Parameter::ChunkList(x),
        Parameter::RequestedHmacAlgorithm(U16List::new(x)),
        Parameter::Padding(x),
        Parameter::SupportedExtensions(x),
        Parameter::ForwardTsnSupported,
        Parameter::AddIpAddress { correlation: a, address },
        Parameter::DeleteIpAddress { correlation: a, address },
        Parameter::ErrorCauseIndication { correlation: a, causes: Causes::new(address.bytes()) },
        Parameter::SetPrimaryAddress { correlation: a, address },
        Parameter::SuccessIndication(a),
        Parameter::AdaptationLayerIndication(a),
    ]
}

/// One cause of each kind.
fn causes(m: &Material) -> Vec<Cause<'_>> {
    let x = &m.bytes[1][..];
    vec![
        Cause::InvalidStreamIdentifier { stream: m.halves[0] },
        Cause::MissingMandatoryParameter(U16List::new(x)),
        Cause::StaleCookie { staleness_us: m.words[0] },
        Cause::OutOfResource,
        Cause::UnresolvableAddress(x),
        Cause::UnrecognizedChunkType(x),
        Cause::InvalidMandatoryParameter,
        Cause::UnrecognizedParameters(x),
        Cause::NoUserData { tsn: Tsn(m.words[1]) },
        Cause::CookieReceivedWhileShuttingDown,
        Cause::RestartWithNewAddresses(x),
        Cause::UserInitiatedAbort(x),
        Cause::ProtocolViolation(x),
        Cause::RestartWithNewEncapsulationPort { current: m.halves[0], new: m.halves[1] },
        Cause::DeleteLastAddress(x),
        Cause::ResourceShortage(x),
        Cause::DeleteSourceAddress(x),
        Cause::IllegalAsconfAck,
        Cause::NoAuthorization(x),
        Cause::UnsupportedHmacIdentifier { identifier: m.halves[1] },
        Cause::Unknown { code: m.halves[2] | 0x4000, value: x },
    ]
}

/// One chunk of each kind, with `parameters` and `causes` in those that can
/// have them.
fn chunks<'a>(
    m: &'a Material,
    parameters: Parameters<'a>,
    causes: Causes<'a>,
    unknown: RawChunk<'a>,
) -> Vec<Chunk<'a>> {
    let [a, b, c, d] = m.words;
    let [x, y, z] = [&m.bytes[0][..], &m.bytes[1][..], &m.bytes[2][..]];
    let init = Init {
        initiate_tag: a,
        a_rwnd: b,
        outbound_streams: m.halves[0],
        inbound_streams: m.halves[1],
        initial_tsn: Tsn(c),
        parameters,
    };
    vec![
        Chunk::Data(Data {
            flags: DataFlags(m.byte),
            tsn: Tsn(a),
            stream: m.halves[0],
            ssn: Ssn(m.halves[1]),
            ppid: Ppid(b),
            payload: x,
        }),
        Chunk::Init(init),
        Chunk::InitAck(init),
        Chunk::Sack(Sack {
            cumulative_tsn_ack: Tsn(a),
            a_rwnd: b,
            gap_blocks: GapBlocks::new(x),
            duplicate_tsns: TsnList::new(y),
        }),
        Chunk::Heartbeat(Heartbeat { info: x }),
        Chunk::HeartbeatAck(Heartbeat { info: y }),
        Chunk::Abort(Abort { tag_reflected: m.flag, causes }),
        Chunk::Shutdown(Shutdown { cumulative_tsn_ack: Tsn(a) }),
        Chunk::ShutdownAck,
        Chunk::Error(Error { causes }),
        Chunk::CookieEcho(CookieEcho { cookie: x }),
        Chunk::CookieAck,
        Chunk::Ecne(Ecne { lowest_tsn: Tsn(a), marked_packets: (b % 2 == 0).then_some(b) }),
        Chunk::Cwr(Ecne { lowest_tsn: Tsn(b), marked_packets: None }),
        Chunk::ShutdownComplete(ShutdownComplete { tag_reflected: m.flag }),
        Chunk::ForwardTsn(ForwardTsn { new_cumulative_tsn: Tsn(a), streams: List::new(x) }),
        Chunk::IData(IData {
            flags: DataFlags(m.byte),
            tsn: Tsn(a),
            stream: m.halves[0],
            mid: c,
            ppid_or_fsn: d,
            payload: y,
        }),
        Chunk::IForwardTsn(IForwardTsn { new_cumulative_tsn: Tsn(a), streams: List::new(x) }),
        Chunk::NrSack(NrSack {
            cumulative_tsn_ack: Tsn(a),
            a_rwnd: b,
            gap_blocks: GapBlocks::new(x),
            nr_gap_blocks: GapBlocks::new(y),
            duplicate_tsns: TsnList::new(z),
        }),
        Chunk::ReConfig(ReConfig { parameters }),
        Chunk::Asconf(Asconf { serial: a, parameters }),
        Chunk::AsconfAck(AsconfAck { serial: a, parameters }),
        Chunk::Auth(Auth { shared_key_id: m.halves[0], hmac_id: m.halves[1], hmac: x }),
        Chunk::Pad(Pad { padding: x }),
        Chunk::Timestamp(Timestamp { value: a, echo: m.flag.then_some(b) }),
        Chunk::Unknown(unknown),
    ]
}

/// Reads everything from bytes that are interpreted as a packet.
fn read_all(bytes: &[u8]) {
    let Ok(packet) = Packet::parse(bytes) else {
        return;
    };
    let _ = packet.checksum_ok();
    for raw in packet.chunks().flatten() {
        assert!(raw.raw_len() <= bytes.len());
        assert!(!raw.decode().is_ok_and(|c| c.to_string().is_empty()));
        for parameter in Parameters::new(raw.value).iter().flatten() {
            let _ = (parameter.decode(), Cause::decode(parameter));
        }
    }
    assert!(packet.to_string().starts_with(&packet.header().to_string()));
}

/// All known chunk types, and two unknown ones.
fn kinds() -> Vec<u8> {
    [kind::ALL, &[0x3f, 0xff]].concat()
}

/// An encoded parameter or cause of a known type with an arbitrary value and a
/// length field that is sometimes slightly wrong.
fn tlv() -> impl Strategy<Value = Vec<u8>> {
    let kind = prop_oneof![
        (0u16..20).boxed(),
        (parameter_kind::ECN_CAPABLE..=parameter_kind::SUPPORTED_EXTENSIONS).boxed(),
        (parameter_kind::FORWARD_TSN_SUPPORTED..0xc008).boxed(),
        (cause_code::DELETE_LAST_ADDRESS..0x00a6).boxed(),
        Just(cause_code::UNSUPPORTED_HMAC_IDENTIFIER).boxed(),
    ];
    let off = prop_oneof![9 => Just(0i32), 1 => -5i32..6];
    (kind, vec(any::<u8>(), 0..24), off).prop_map(|(kind, value, off)| {
        let length = (4 + value.len() as i32 + off).max(0) as u16;
        let mut bytes = kind.to_be_bytes().to_vec();
        bytes.extend(length.to_be_bytes());
        bytes.extend(&value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    })
}

/// An encoded chunk of a known type: an arbitrary beginning, then parameters.
fn chunk() -> impl Strategy<Value = Vec<u8>> {
    (prop::sample::select(kinds()), any::<u8>(), vec(any::<u8>(), 0..20), vec(tlv(), 0..4))
        .prop_map(|(kind, flags, start, tlvs)| {
            let value: Vec<u8> = start.into_iter().chain(tlvs.concat()).collect();
            let [a, b] = (4 + value.len() as u16).to_be_bytes();
            let mut bytes = vec![kind, flags, a, b];
            bytes.extend(value);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
            bytes
        })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn parameters_come_back(m in material()) {
        let mut inner = Vec::new();
        Parameter::Ipv4Address(m.words[3].into()).encode(&mut inner);
        let all = parameters(&m, Parameters::new(&inner));
        let mut bytes = Vec::new();
        for parameter in &all {
            parameter.encode(&mut bytes);
            prop_assert_eq!(bytes.len() % 4, 0);
        }
        let wrapped = Parameters::new(&bytes);
        let decoded: Vec<_> = wrapped.iter().map(|raw| raw.unwrap().decode().unwrap()).collect();
        prop_assert_eq!(&decoded, &all);
        for parameter in all {
            prop_assert!(wrapped.find(parameter.kind()).is_some());
        }
    }

    #[test]
    fn causes_come_back(m in material()) {
        let all = causes(&m);
        let mut bytes = Vec::new();
        for cause in &all {
            cause.encode(&mut bytes);
            prop_assert_eq!(bytes.len() % 4, 0);
        }
        prop_assert_eq!(Causes::new(&bytes).decoded().collect::<Vec<_>>(), all);
    }

    #[test]
    fn chunks_come_back(m in material(), tag: u32) {
        let (mut parameter_bytes, mut cause_bytes, mut unknown) = (vec![], vec![], vec![]);
        for parameter in parameters(&m, Parameters::default()) {
            parameter.encode(&mut parameter_bytes);
        }
        for cause in causes(&m) {
            cause.encode(&mut cause_bytes);
        }
        unknown.extend([0xfe, m.byte, 0, 4 + m.bytes[0].len() as u8]);
        unknown.extend(&m.bytes[0]);
        let all = chunks(
            &m,
            Parameters::new(&parameter_bytes),
            Causes::new(&cause_bytes),
            RawChunk::parse(&unknown).unwrap(),
        );
        let header = Header {
            source_port: m.halves[0],
            destination_port: m.halves[1],
            verification_tag: tag,
        };
        let mut bytes = Vec::new();
        let mut writer = PacketWriter::new(&mut bytes, header, usize::MAX);
        for chunk in &all {
            writer.chunk(chunk).unwrap();
        }
        prop_assert_eq!(writer.finish(), bytes.len());
        let packet = Packet::parse(&bytes).unwrap();
        prop_assert!(packet.checksum_ok());
        prop_assert_eq!(packet.header(), header);
        let decoded: Vec<_> =
            packet.chunks().map(|raw| raw.unwrap().decode().unwrap()).collect();
        prop_assert_eq!(&decoded, &all);
        for chunk in &all {
            prop_assert!(!chunk.to_string().is_empty());
        }
    }

    #[test]
    fn what_decodes_can_be_encoded_again(bytes in chunk()) {
        if let Ok(decoded) = RawChunk::parse(&bytes).unwrap().decode() {
            let mut out = Vec::new();
            decoded.encode(&mut out);
            prop_assert_eq!(RawChunk::parse(&out).unwrap().decode(), Ok(decoded));
        }
    }

    #[test]
    fn plausible_packets_never_panic(chunks in vec(chunk(), 0..5), cut in 0usize..8) {
        let mut bytes = vec![0; 12];
        bytes.extend(chunks.concat());
        read_all(&bytes[..bytes.len().saturating_sub(cut)]);
    }

    #[test]
    fn random_bytes_never_panic(bytes in vec(any::<u8>(), 0..256)) {
        read_all(&bytes);
        let _ = Parameters::new(&bytes).to_string();
        let _ = Causes::new(&bytes).to_string();
        let _ = RawChunk::parse(&bytes).map(|chunk| chunk.to_string());
    }
}
