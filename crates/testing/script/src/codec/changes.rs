//! Chunks and parameters of RFC 4895 and RFC 5061.

use anabranch_wire::kind;

use super::decode::{be, causes, parameters};
use super::encode::{Sources, items};
use crate::failure::Failure;
use crate::node::{Node, Raw, Value};

/// The fields of an AUTH, ASCONF or ASCONF-ACK, where `own` converts the engine's numbers. Returns whether it is one; `None`
/// if it is too short for them.
pub(super) fn fill(node: &mut Node, raw: &Raw, own: &dyn Fn(u64) -> Value) -> Option<bool> {
    let value = raw.value.as_slice();
    let number = |at, count| be(value, at, count).map(Value::Number);
    match raw.kind as u8 {
        kind::AUTH => {
            node.push("shkey_id", number(0, 2)?);
            node.push("hmac_id", number(2, 2)?);
            node.push("hmac", Value::Bytes(value.get(4..)?.to_vec()));
        }
        kind::ASCONF => {
            node.push("serial", own(be(value, 0, 4)?));
            node.items = parameters(value.get(4..)?);
        }
        kind::ASCONF_ACK => {
            node.push("serial", number(0, 4)?);
            node.items = parameters(value.get(4..)?);
        }
        _ => return Some(false),
    }
    Some(true)
}

/// The fields of a parameter of an ASCONF or ASCONF-ACK.
pub(super) fn parameter(node: &mut Node, value: &[u8]) {
    node.push("corr_id", be(value, 0, 4).map_or(Value::Any, Value::Number));
    let rest = value.get(4..).unwrap_or_default();
    let causes_follow = node.name == "ERROR_CAUSE_INDICATION";
    node.items = if causes_follow { causes(rest) } else { parameters(rest) };
}

/// Appends the value of an AUTH, ASCONF or ASCONF-ACK. Returns whether it is one.
pub(super) fn chunk_value(
    node: &Node,
    kind: u8,
    sources: &Sources<'_>,
    out: &mut Vec<u8>,
) -> Result<bool, Failure> {
    let number = |key: &str, default: u64| node.number(key).unwrap_or(default);
    match kind {
        _ if node.name == "CHUNK" => return Ok(false),
        kind::AUTH => {
            out.extend((number("shkey_id", 0) as u16).to_be_bytes());
            out.extend((number("hmac_id", 1) as u16).to_be_bytes());
            match node.get("hmac") {
                Some(Value::Bytes(hmac)) => out.extend_from_slice(hmac),
                // The runner puts the MAC here when it has the rest of the packet.
                _ => out.resize(out.len() + if number("hmac_id", 1) == 3 { 32 } else { 20 }, 0),
            }
        }
        kind::ASCONF => {
            out.extend((number("serial", 1) as u32).to_be_bytes());
            items(&node.items, sources, out)?;
        }
        kind::ASCONF_ACK => {
            let serial = sources.identities.live_tsn(sources.identity, number("serial", 1));
            out.extend(serial.to_be_bytes());
            items(&node.items, sources, out)?;
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// Appends the value of a parameter or cause. Returns whether it is one of these RFCs.
pub(super) fn tlv_value(
    node: &Node,
    sources: &Sources<'_>,
    out: &mut Vec<u8>,
) -> Result<bool, Failure> {
    match node.name.as_str() {
        // Any numbers will do, as long as every run has the same.
        "RANDOM" => match node.get("val") {
            Some(Value::Bytes(random)) => out.extend_from_slice(random),
            _ => {
                let length = node.number("len").unwrap_or(36).saturating_sub(4);
                out.extend((0..length).map(|byte| byte as u8));
            }
        },
        "HMAC_ALGO" => {
            if let Some(Value::List(list)) = node.get("hmac_ids") {
                for id in list {
                    let Value::Number(id) = id else { continue };
                    out.extend((*id as u16).to_be_bytes());
                }
            }
        }
        "UNSUPPORTED_HMAC_IDENTIFIER" => {
            out.extend((node.number("hmac_id").unwrap_or(0) as u16).to_be_bytes());
        }
        "ADD_IP_ADDRESS"
        | "DELETE_IP_ADDRESS"
        | "SET_PRIMARY_ADDRESS"
        | "SUCCESS_INDICATION"
        | "ERROR_CAUSE_INDICATION" => {
            out.extend((node.number("corr_id").unwrap_or(0) as u32).to_be_bytes());
            items(&node.items, sources, out)?;
        }
        _ => return Ok(false),
    }
    Ok(true)
}
