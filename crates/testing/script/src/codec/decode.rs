//! Decodes chunks into the form used in scripts.

use std::net::IpAddr;

use anabranch_wire::{DataFlags, Packet, Parameters, kind};

use super::changes;
use super::numbers::Identities;
use crate::node::{Item, Node, Raw, Value};
use crate::schema::{Class, Number, layout_of, name_of};

/// The chunks of a packet. With `identities` the packet is from the engine, and its numbers are
/// converted to the script's.
pub(crate) fn chunks(packet: &Packet<'_>, identities: Option<&Identities>) -> Vec<Node> {
    let mut found = Vec::new();
    for chunk in packet.chunks() {
        let Ok(chunk) = chunk else {
            let raw = Raw { kind: 0, flags: 0, length: 0, value: Vec::new() };
            found.push(Node::seen("MALFORMED", raw));
            break;
        };
        let length = chunk.value.len() + 4;
        let (kind, flags, value) = (u16::from(chunk.kind), chunk.flags, chunk.value.to_vec());
        found.push(self::chunk(Raw { kind, flags, length, value }, identities));
    }
    found
}

pub(super) fn be(bytes: &[u8], at: usize, count: usize) -> Option<u64> {
    let bytes = bytes.get(at..at.checked_add(count)?)?;
    Some(bytes.iter().fold(0, |number, byte| (number << 8) | u64::from(*byte)))
}

fn chunk(raw: Raw, identities: Option<&Identities>) -> Node {
    let name = name_of(Class::Chunk(raw.kind as u8)).unwrap_or("CHUNK");
    let mut node = Node::seen(name, raw.clone());
    if name == "CHUNK" {
        node.push("type", Value::Number(u64::from(raw.kind)));
    }
    node.push("flgs", Value::Number(u64::from(raw.flags)));
    if fill(&mut node, &raw, identities).is_none() {
        let mut node = Node::seen("CHUNK", raw.clone());
        node.push("type", Value::Number(u64::from(raw.kind)));
        node.push("len", Value::Number(raw.length as u64));
        node.push("val", Value::Bytes(raw.value));
        return node;
    }
    node
}

/// The fields of a chunk; `None` if it is too short for them.
fn fill(node: &mut Node, raw: &Raw, identities: Option<&Identities>) -> Option<()> {
    let value = raw.value.as_slice();
    let number = |at, count| be(value, at, count).map(Value::Number);
    // TSNs drawn by the engine.
    let own = |tsn: u64, of: Option<usize>| match identities {
        Some(known) => Value::Number(known.script_tsn(of.unwrap_or(known.current), tsn as u32)),
        None => Value::Number(tsn),
    };
    let length = Value::Number(raw.length as u64);
    if let Some(layout) = layout_of(raw.kind as u8) {
        for (index, (name, number)) in layout.iter().enumerate() {
            let tsn = match be(value, 4 * index, 4) {
                None if *number == Number::Count => break,
                tsn => tsn?,
            };
            node.push(
                name,
                match number {
                    Number::TsnOfSender => own(tsn, None),
                    Number::TsnOfReceiver | Number::Count => Value::Number(tsn),
                },
            );
        }
        return Some(());
    }
    if changes::fill(node, raw, &|number| own(number, None))? {
        return Some(());
    }
    match raw.kind as u8 {
        kind::DATA => {
            node.push("len", length);
            node.push("tsn", own(be(value, 0, 4)?, None));
            node.push("sid", number(4, 2)?);
            node.push("ssn", number(6, 2)?);
            node.push("ppid", number(8, 4)?);
            payload(node, value.get(12..)?);
        }
        kind::INIT | kind::INIT_ACK => {
            let tag = be(value, 0, 4)?;
            let identity = identities.and_then(|known| known.of_live_tag(tag as u32));
            let shown = identities.map_or(tag, |known| known.script_tag(tag as u32));
            node.push("tag", Value::Number(shown));
            node.push("a_rwnd", number(4, 4)?);
            node.push("os", number(8, 2)?);
            node.push("is", number(10, 2)?);
            node.push("tsn", own(be(value, 12, 4)?, identity));
            node.items = parameters(value.get(16..)?);
        }
        kind::SACK | kind::NR_SACK => {
            acknowledgement(node, value, raw.kind as u8 == kind::NR_SACK)?;
        }
        kind::FORWARD_TSN => {
            node.push("cum_tsn", own(be(value, 0, 4)?, None));
            let streams = value.get(4..)?.chunks(4);
            let stream = |id: &[u8]| Some(Value::Stream(be(id, 0, 2)?, be(id, 2, 2)?));
            node.push("ids", Value::List(streams.map(stream).collect::<Option<_>>()?));
        }
        kind::I_DATA | kind::I_FORWARD_TSN => interleaved(node, raw, own)?,
        kind::RE_CONFIG => {
            node.items = list(value, |raw| reconfiguration(raw, &|tsn| own(tsn, None)));
        }
        kind::HEARTBEAT | kind::HEARTBEAT_ACK => node.items = parameters(value),
        kind::ABORT | kind::ERROR => node.items = causes(value),
        _ => {
            node.push("len", length);
            node.push("val", Value::Bytes(value.to_vec()));
        }
    }
    Some(())
}

/// The fields of a chunk of RFC 8260; `None` if it is too short for them.
fn interleaved(
    node: &mut Node,
    raw: &Raw,
    own: impl Fn(u64, Option<usize>) -> Value,
) -> Option<()> {
    let value = raw.value.as_slice();
    let number = |at, count| be(value, at, count).map(Value::Number);
    if raw.kind as u8 == kind::I_FORWARD_TSN {
        node.push("cum_tsn", own(be(value, 0, 4)?, None));
        let messages = value.get(4..)?.chunks(8);
        let message = |id: &[u8]| Some(Value::Skipped(be(id, 0, 2)?, be(id, 2, 2)?, be(id, 4, 4)?));
        node.push("ids", Value::List(messages.map(message).collect::<Option<_>>()?));
        return Some(());
    }
    node.push("len", Value::Number(raw.length as u64));
    node.push("tsn", own(be(value, 0, 4)?, None));
    node.push("sid", number(4, 2)?);
    node.push("res", number(6, 2)?);
    node.push("mid", number(8, 4)?);
    let begins = DataFlags(raw.flags).begin();
    node.push(if begins { "ppid" } else { "fsn" }, number(12, 4)?);
    payload(node, value.get(16..)?);
    Some(())
}

/// The user data of a chunk. Data that consists of zeros is not compared, only its length.
fn payload(node: &mut Node, payload: &[u8]) {
    if payload.iter().any(|byte| *byte != 0) {
        node.push("val", Value::Bytes(payload.to_vec()));
    }
}

/// The fields of a SACK, or of an NR-SACK; `None` if it is too short for them.
fn acknowledgement(node: &mut Node, value: &[u8], non_renegable: bool) -> Option<()> {
    node.push("cum_tsn", Value::Number(be(value, 0, 4)?));
    node.push("a_rwnd", Value::Number(be(value, 4, 4)?));
    let count = |at| Some(be(value, at, 2)? as usize);
    let (gaps, nr_gaps, dups, lists) = if non_renegable {
        (count(8)?, count(10)?, count(12)?, 16)
    } else {
        (count(8)?, 0, count(10)?, 12)
    };
    let at = |index: usize| lists + 4 * index;
    let pair = |index| Some(Value::Pair(be(value, at(index), 2)?, be(value, at(index) + 2, 2)?));
    let pairs =
        |range: std::ops::Range<usize>| Some(Value::List(range.map(pair).collect::<Option<_>>()?));
    node.push("gaps", pairs(0..gaps)?);
    if non_renegable {
        node.push("nr_gaps", pairs(gaps..gaps + nr_gaps)?);
    }
    let from = gaps + nr_gaps;
    let dup = |index| Some(Value::Number(be(value, at(index), 4)?));
    node.push("dups", Value::List((from..from + dups).map(dup).collect::<Option<_>>()?));
    Some(())
}

fn list(bytes: &[u8], decode: impl Fn(Raw) -> Node) -> Vec<Item> {
    let raws = Parameters::new(bytes).iter().map(|found| match found {
        Ok(found) => Raw {
            kind: found.kind,
            flags: 0,
            length: found.value.len() + 4,
            value: found.value.to_vec(),
        },
        Err(_) => Raw { kind: 0, flags: 0, length: 0, value: Vec::new() },
    });
    raws.map(|raw| Item::Node(decode(raw))).collect()
}

pub(super) fn parameters(bytes: &[u8]) -> Vec<Item> {
    list(bytes, parameter)
}

pub(super) fn causes(bytes: &[u8]) -> Vec<Item> {
    list(bytes, cause)
}

fn words(bytes: &[u8]) -> Value {
    let words = bytes.chunks_exact(2).filter_map(|word| be(word, 0, 2));
    Value::List(words.map(Value::Number).collect())
}

fn parameter(raw: Raw) -> Node {
    let name = name_of(Class::Parameter(raw.kind)).unwrap_or("PARAMETER");
    let mut node = Node::seen(name, raw.clone());
    let value = raw.value.as_slice();
    let address = match value.len() {
        4 => <[u8; 4]>::try_from(value).ok().map(IpAddr::from),
        16 => <[u8; 16]>::try_from(value).ok().map(IpAddr::from),
        _ => None,
    };
    let length = Value::Number(raw.length as u64);
    match (name, address) {
        ("IPV4_ADDRESS" | "IPV6_ADDRESS", Some(address)) => {
            node.push("addr", Value::Address(address));
        }
        ("UNRECOGNIZED_PARAMETER", _) => node.push("params", Value::Nodes(parameters(value))),
        ("COOKIE_PRESERVATIVE", _) => {
            node.push("incr", be(value, 0, 4).map_or(Value::Any, Value::Number));
        }
        ("SUPPORTED_ADDRESS_TYPES", _) => node.push("types", words(value)),
        ("HMAC_ALGO", _) => node.push("hmac_ids", words(value)),
        ("SUPPORTED_EXTENSIONS" | "CHUNKS", _) => {
            let kinds = value.iter().map(|kind| Value::Number(u64::from(*kind)));
            node.push("types", Value::List(kinds.collect()));
        }
        ("ADAPTATION_INDICATION", _) => {
            let code = be(value, 0, 4).map_or(Value::Any, Value::Number);
            node.push("adaptation_code_point", code);
        }
        ("ECN_CAPABLE" | "FORWARD_TSN_SUPPORTED", _) => {}
        (
            "ADD_IP_ADDRESS"
            | "DELETE_IP_ADDRESS"
            | "SET_PRIMARY_ADDRESS"
            | "SUCCESS_INDICATION"
            | "ERROR_CAUSE_INDICATION",
            _,
        ) => changes::parameter(&mut node, value),
        ("PARAMETER", _) => {
            node.push("type", Value::Number(u64::from(raw.kind)));
            node.push("len", length);
            node.push("val", Value::Bytes(raw.value));
        }
        _ => {
            node.push("len", length);
            let key = if name == "HOSTNAME_ADDRESS" { "addr" } else { "val" };
            node.push(key, Value::Bytes(raw.value));
        }
    }
    node
}

/// A parameter of a RE-CONFIG. `own` converts numbers of the sender.
fn reconfiguration(raw: Raw, own: &dyn Fn(u64) -> Value) -> Node {
    let name = name_of(Class::Parameter(raw.kind)).unwrap_or("PARAMETER");
    let mut node = Node::seen(name, raw.clone());
    let value = raw.value.as_slice();
    let peers = |at| be(value, at, 4).map_or(Value::Any, Value::Number);
    let ours = |at| be(value, at, 4).map_or(Value::Any, own);
    match name {
        "OUTGOING_SSN_RESET" => {
            node.push("req_sn", ours(0));
            node.push("resp_sn", peers(4));
            node.push("last_tsn", ours(8));
            node.push("sids", words(value.get(12..).unwrap_or_default()));
        }
        "INCOMING_SSN_RESET" => {
            node.push("req_sn", ours(0));
            node.push("sids", words(value.get(4..).unwrap_or_default()));
        }
        "SSN_TSN_RESET" => node.push("req_sn", ours(0)),
        "RECONFIG_RESPONSE" => {
            node.push("resp_sn", peers(0));
            node.push("result", peers(4));
            if value.len() > 8 {
                node.push("sender_next_tsn", ours(8));
                node.push("receiver_next_tsn", peers(12));
            }
        }
        "ADD_OUTGOING_STREAMS" | "ADD_INCOMING_STREAMS" => {
            node.push("req_sn", ours(0));
            let count = be(value, 4, 2).map_or(Value::Any, Value::Number);
            node.push("number_of_new_streams", count);
        }
        _ => return parameter(raw),
    }
    node
}

fn cause(raw: Raw) -> Node {
    let name = name_of(Class::Cause(raw.kind)).unwrap_or("CAUSE");
    let mut node = Node::seen(name, raw.clone());
    let value = raw.value.as_slice();
    let number = |count| be(value, 0, count).map_or(Value::Any, Value::Number);
    match name {
        "INVALID_STREAM_IDENTIFIER" => node.push("sid", number(2)),
        "MISSING_MANDATORY_PARAMETER" => {
            node.push("types", words(value.get(4..).unwrap_or_default()));
        }
        "STALE_COOKIE_ERROR" => node.push("staleness", number(4)),
        "UNSUPPORTED_HMAC_IDENTIFIER" => node.push("hmac_id", number(2)),
        "UNRESOLVABLE_ADDRESS"
        | "DELETE_LAST_ADDRESS"
        | "RESOURCE_SHORTAGE"
        | "DELETE_SOURCE_ADDRESS"
        | "NO_AUTHORIZATION" => node.push("param", Value::Nodes(parameters(value))),
        "UNRECOGNIZED_PARAMETERS" | "RESTART_WITH_NEW_ADDRESSES" => {
            node.push("params", Value::Nodes(parameters(value)));
        }
        "UNRECOGNIZED_CHUNK_TYPE" => {
            // Quoted packets contain the peer's own numbers.
            if let Some([kind, flags, ..]) = value.first_chunk::<4>() {
                let length = be(value, 2, 2).unwrap_or(0) as usize;
                let inner = value.get(4..length.max(4)).unwrap_or_default().to_vec();
                let (kind, flags) = (u16::from(*kind), *flags);
                let quoted = chunk(Raw { kind, flags, length, value: inner }, None);
                node.push("chk", Value::Nodes(vec![Item::Node(quoted)]));
            }
        }
        "NO_USER_DATA" => node.push("tsn", number(4)),
        "RESTART_WITH_NEW_ENCAPSULATION_PORT" => {
            node.push("current", number(2));
            node.push("new", be(value, 2, 2).map_or(Value::Any, Value::Number));
        }
        "USER_INITIATED_ABORT" | "PROTOCOL_VIOLATION" => {
            node.push("info", Value::Bytes(raw.value));
        }
        "CAUSE" => {
            node.push("code", Value::Number(u64::from(raw.kind)));
            node.push("len", Value::Number(raw.length as u64));
            node.push("info", Value::Bytes(raw.value));
        }
        _ => {}
    }
    node
}
