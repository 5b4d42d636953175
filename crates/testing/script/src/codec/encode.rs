//! Encodes nodes of a script.

use std::net::IpAddr;

use anabranch_wire::kind;

use super::changes;
use super::numbers::Identities;
use crate::failure::{Failure, Place};
use crate::node::{Item, Node, Value};
use crate::schema::{Class, Number, find, layout_of};

/// Values that the script's peer takes from the engine's packets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sources<'a> {
    pub(crate) identities: &'a Identities,
    /// The identity to which the packet refers.
    pub(crate) identity: usize,
    /// The information of the last HEARTBEAT on the packet's path.
    pub(crate) heartbeat: Option<&'a [u8]>,
}

/// Appends a chunk with its padding.
pub(crate) fn chunk(node: &Node, sources: &Sources<'_>, out: &mut Vec<u8>) -> Result<(), Failure> {
    let schema = find(&node.name);
    let kind = match schema.map(|schema| schema.class) {
        Some(Class::Chunk(kind)) => kind,
        Some(Class::AnyChunk) => node.number("type").unwrap_or(0) as u8,
        _ => return Err(wrong(node, format!("{} is not a chunk", node.name))),
    };
    let mut value = Vec::new();
    chunk_value(node, kind, sources, &mut value)?;
    let length = length(node, value.len() + 4)?;
    out.extend_from_slice(&[kind, node.number("flgs").unwrap_or(0) as u8]);
    out.extend_from_slice(&length.to_be_bytes());
    out.append(&mut value);
    pad(out);
    Ok(())
}

fn wrong(node: &Node, message: String) -> Failure {
    let nowhere = Place { file: "".into(), line: 0, column: 0 };
    Failure::script(node.place.as_ref().unwrap_or(&nowhere), message)
}

fn pad(out: &mut Vec<u8>) {
    out.resize(out.len().next_multiple_of(4), 0);
}

/// The length field: the script's value, or the actual length.
fn length(node: &Node, natural: usize) -> Result<u16, Failure> {
    let length = node.number("len").unwrap_or(natural as u64);
    u16::try_from(length).map_err(|_| wrong(node, format!("a length of {length} is too much")))
}

/// The bytes of `key`, or if it is missing, the number of zeros for which `len` leaves room after
/// `header` bytes.
fn bytes(node: &Node, key: &str, header: usize, default: usize) -> Vec<u8> {
    match node.get(key) {
        Some(Value::Bytes(bytes)) => bytes.clone(),
        _ => {
            let length = node.number("len").map_or(header + default, |length| length as usize);
            vec![0; length.min(usize::from(u16::MAX)).saturating_sub(header)]
        }
    }
}

fn chunk_value(
    node: &Node,
    kind: u8,
    sources: &Sources<'_>,
    out: &mut Vec<u8>,
) -> Result<(), Failure> {
    let number = |key: &str, default: u64| node.number(key).unwrap_or(default);
    let live = |tsn: u64| sources.identities.live_tsn(sources.identity, tsn);
    let word = |number: u64| (number as u32).to_be_bytes();
    let half = |number: u64| (number as u16).to_be_bytes();
    if node.name == "CHUNK" {
        out.append(&mut bytes(node, "val", 4, 0));
        return Ok(());
    }
    if let Some(layout) = layout_of(kind) {
        for (name, written) in layout {
            let tsn = match node.number(name) {
                None if *written == Number::Count => break,
                tsn => tsn.unwrap_or(0),
            };
            out.extend(match written {
                Number::TsnOfSender | Number::Count => word(tsn),
                Number::TsnOfReceiver => live(tsn).to_be_bytes(),
            });
        }
        return Ok(());
    }
    if changes::chunk_value(node, kind, sources, out)? {
        return Ok(());
    }
    match kind {
        kind::DATA => {
            out.extend(word(number("tsn", 1)));
            out.extend(half(number("sid", 0)));
            out.extend(half(number("ssn", 0)));
            out.extend(word(number("ppid", 0)));
            out.append(&mut bytes(node, "val", 16, 100));
        }
        kind::INIT | kind::INIT_ACK => {
            let tag = number("tag", 1);
            // One of the engine's own tags, as sent by an attacker or a reflection.
            let known = sources.identities.of_script_tag(tag).is_some();
            out.extend(if known {
                sources.identities.live_tag(tag).to_be_bytes()
            } else {
                word(tag)
            });
            out.extend(word(number("a_rwnd", 65_536)));
            out.extend(half(number("os", 10)));
            out.extend(half(number("is", 10)));
            out.extend(word(number("tsn", 1)));
            items(&node.items, sources, out)?;
        }
        kind::SACK | kind::NR_SACK => acknowledgement(node, kind == kind::NR_SACK, sources, out),
        kind::FORWARD_TSN => {
            out.extend(word(number("cum_tsn", 0)));
            if let Some(Value::List(streams)) = node.get("ids") {
                for stream in streams {
                    let Value::Stream(stream, ssn) = stream else { continue };
                    out.extend(half(*stream));
                    out.extend(half(*ssn));
                }
            }
        }
        kind::I_DATA | kind::I_FORWARD_TSN => interleaved(node, kind, out),
        kind::COOKIE_ECHO => cookie_echo(node, sources, out)?,
        kind::PAD => out.append(&mut bytes(node, "val", 4, 0)),
        _ => items(&node.items, sources, out)?,
    }
    Ok(())
}

/// The value of a chunk of RFC 8260.
fn interleaved(node: &Node, kind: u8, out: &mut Vec<u8>) {
    let number = |key: &str, default: u64| node.number(key).unwrap_or(default);
    let word = |number: u64| (number as u32).to_be_bytes();
    let half = |number: u64| (number as u16).to_be_bytes();
    if kind == kind::I_DATA {
        out.extend(word(number("tsn", 1)));
        out.extend(half(number("sid", 0)));
        out.extend(half(number("res", 0)));
        out.extend(word(number("mid", 0)));
        out.extend(word(number("ppid", number("fsn", 0))));
        out.append(&mut bytes(node, "val", 20, 100));
        return;
    }
    out.extend(word(number("cum_tsn", 0)));
    let Some(Value::List(messages)) = node.get("ids") else { return };
    for message in messages {
        let Value::Skipped(stream, bits, mid) = message else { continue };
        out.extend(half(*stream));
        out.extend(half(*bits));
        out.extend(word(*mid));
    }
}

/// The value of a SACK, or of an NR-SACK.
fn acknowledgement(node: &Node, non_renegable: bool, sources: &Sources<'_>, out: &mut Vec<u8>) {
    let number = |key: &str, default: u64| node.number(key).unwrap_or(default);
    let live = |tsn: u64| sources.identities.live_tsn(sources.identity, tsn);
    let word = |number: u64| (number as u32).to_be_bytes();
    let half = |number: u64| (number as u16).to_be_bytes();
    out.extend(live(number("cum_tsn", 0)).to_be_bytes());
    out.extend(word(number("a_rwnd", 65_536)));
    let list = |key: &str| match node.get(key) {
        Some(Value::List(list)) => list.clone(),
        _ => Vec::new(),
    };
    let (gaps, nr_gaps, dups) = (list("gaps"), list("nr_gaps"), list("dups"));
    out.extend(half(gaps.len() as u64));
    if non_renegable {
        out.extend(half(nr_gaps.len() as u64));
    }
    out.extend(half(dups.len() as u64));
    if non_renegable {
        out.extend(half(0));
    }
    for gap in gaps.into_iter().chain(nr_gaps) {
        if let Value::Pair(start, end) = gap {
            out.extend(half(start));
            out.extend(half(end));
        }
    }
    for dup in dups {
        if let Value::Number(tsn) = dup {
            out.extend(live(tsn).to_be_bytes());
        }
    }
}

/// The value of a COOKIE ECHO: bytes, or a cookie that the engine has sent.
fn cookie_echo(node: &Node, sources: &Sources<'_>, out: &mut Vec<u8>) -> Result<(), Failure> {
    match node.get("val") {
        Some(Value::Bytes(cookie)) => out.extend_from_slice(cookie),
        Some(Value::Cookie { tag, flip, cut }) => {
            let index = sources.identities.of_script_tag(*tag).ok_or_else(|| {
                wrong(node, format!("no INIT ACK with the tag {tag} has been sent"))
            })?;
            let mut cookie = cookie_of(sources, index);
            if let Some(byte) = flip.and_then(|at| cookie.get_mut(at)) {
                *byte ^= 1;
            }
            cookie.truncate(cut.unwrap_or(usize::MAX));
            out.append(&mut cookie);
        }
        _ => out.append(&mut cookie_of(sources, sources.identity)),
    }
    Ok(())
}

fn cookie_of(sources: &Sources<'_>, identity: usize) -> Vec<u8> {
    sources.identities.all.get(identity).map(|known| known.cookie.clone()).unwrap_or_default()
}

/// A sequence of parameters and causes. The last one is not padded, because a chunk's length does
/// not include its padding.
pub(super) fn items(
    items: &[Item],
    sources: &Sources<'_>,
    out: &mut Vec<u8>,
) -> Result<(), Failure> {
    for item in items {
        if let Item::Node(node) = item {
            pad(out);
            tlv(node, sources, out)?;
        }
    }
    Ok(())
}

fn tlv(node: &Node, sources: &Sources<'_>, out: &mut Vec<u8>) -> Result<(), Failure> {
    let kind = match find(&node.name).map(|schema| schema.class) {
        Some(Class::Parameter(kind) | Class::Cause(kind)) => kind,
        Some(Class::AnyParameter) => node.number("type").unwrap_or(0) as u16,
        Some(Class::AnyCause) => node.number("code").unwrap_or(0) as u16,
        _ => return Err(wrong(node, format!("{} is not a parameter or cause", node.name))),
    };
    let mut value = Vec::new();
    tlv_value(node, sources, &mut value)?;
    out.extend_from_slice(&kind.to_be_bytes());
    out.extend_from_slice(&length(node, value.len() + 4)?.to_be_bytes());
    out.append(&mut value);
    Ok(())
}

/// The value of a parameter of a RE-CONFIG; `false` if it is another parameter.
fn reconfiguration(node: &Node, sources: &Sources<'_>, out: &mut Vec<u8>) -> bool {
    let word = |key: &str| (node.number(key).unwrap_or(0) as u32).to_be_bytes();
    // Numbers of the engine.
    let live = |key: &str| {
        let number = node.number(key).unwrap_or(0);
        sources.identities.live_tsn(sources.identity, number).to_be_bytes()
    };
    match node.name.as_str() {
        "OUTGOING_SSN_RESET" => {
            out.extend([word("req_sn"), live("resp_sn"), word("last_tsn")].concat());
            streams(node, out);
        }
        "INCOMING_SSN_RESET" => {
            out.extend(word("req_sn"));
            streams(node, out);
        }
        "SSN_TSN_RESET" => out.extend(word("req_sn")),
        "RECONFIG_RESPONSE" => {
            out.extend([live("resp_sn"), word("result")].concat());
            if node.get("sender_next_tsn").is_some() {
                out.extend([word("sender_next_tsn"), live("receiver_next_tsn")].concat());
            }
        }
        "ADD_OUTGOING_STREAMS" | "ADD_INCOMING_STREAMS" => {
            out.extend(word("req_sn"));
            let count = node.number("number_of_new_streams").unwrap_or(1) as u16;
            out.extend([count.to_be_bytes(), [0, 0]].concat());
        }
        _ => return false,
    }
    true
}

/// The numbers of streams.
fn streams(node: &Node, out: &mut Vec<u8>) {
    let Some(Value::List(list)) = node.get("sids") else { return };
    for stream in list {
        let Value::Number(stream) = stream else { continue };
        out.extend((*stream as u16).to_be_bytes());
    }
}

fn tlv_value(node: &Node, sources: &Sources<'_>, out: &mut Vec<u8>) -> Result<(), Failure> {
    if reconfiguration(node, sources, out) || changes::tlv_value(node, sources, out)? {
        return Ok(());
    }
    let word = |key: &str| (node.number(key).unwrap_or(0) as u32).to_be_bytes();
    match node.name.as_str() {
        "HEARTBEAT_INFORMATION" => match (node.get("val"), sources.heartbeat) {
            (Some(Value::Bytes(info)), _) => out.extend_from_slice(info),
            (_, Some(info)) => out.extend_from_slice(info),
            _ => out.append(&mut bytes(node, "val", 4, 8)),
        },
        "IPV4_ADDRESS" | "IPV6_ADDRESS" => match node.get("addr") {
            Some(Value::Address(IpAddr::V4(address))) => out.extend(address.octets()),
            Some(Value::Address(IpAddr::V6(address))) => out.extend(address.octets()),
            _ => return Err(wrong(node, format!("{} needs an addr", node.name))),
        },
        "HOSTNAME_ADDRESS" => out.append(&mut bytes(node, "addr", 4, 0)),
        "COOKIE_PRESERVATIVE" => out.extend(word("incr")),
        "ADAPTATION_INDICATION" => out.extend(word("adaptation_code_point")),
        "STALE_COOKIE_ERROR" => out.extend(word("staleness")),
        "NO_USER_DATA" => out.extend(word("tsn")),
        "RESTART_WITH_NEW_ENCAPSULATION_PORT" => {
            for port in ["current", "new"] {
                out.extend((node.number(port).unwrap_or(0) as u16).to_be_bytes());
            }
        }
        "INVALID_STREAM_IDENTIFIER" => {
            out.extend((node.number("sid").unwrap_or(0) as u16).to_be_bytes());
            out.extend([0, 0]);
        }
        "SUPPORTED_ADDRESS_TYPES"
        | "SUPPORTED_EXTENSIONS"
        | "CHUNKS"
        | "MISSING_MANDATORY_PARAMETER" => {
            let Some(Value::List(list)) = node.get("types") else { return Ok(()) };
            if node.name == "MISSING_MANDATORY_PARAMETER" {
                out.extend((list.len() as u32).to_be_bytes());
            }
            for kind in list {
                let Value::Number(kind) = kind else { continue };
                if matches!(node.name.as_str(), "SUPPORTED_EXTENSIONS" | "CHUNKS") {
                    out.push(*kind as u8);
                } else {
                    out.extend((*kind as u16).to_be_bytes());
                }
            }
        }
        "UNRECOGNIZED_CHUNK_TYPE" => {
            if let Some(Value::Nodes(quoted)) = node.get("chk") {
                for item in quoted {
                    if let Item::Node(quoted) = item {
                        chunk(quoted, sources, out)?;
                    }
                }
            }
        }
        _ => {
            let key = if matches!(find(&node.name).map(|s| s.class), Some(Class::AnyParameter)) {
                "val"
            } else {
                "info"
            };
            match node.get("params").or(node.get("param")) {
                Some(Value::Nodes(inner)) => items(inner, sources, out)?,
                _ if node.get("val").is_some() => out.append(&mut bytes(node, "val", 4, 0)),
                _ => out.append(&mut bytes(node, key, 4, 0)),
            }
        }
    }
    Ok(())
}
