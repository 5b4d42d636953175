//! The MACs of AUTH chunks (RFC 4895), computed here so that scripts do not compare the engine with itself.

use std::collections::BTreeMap;

use anabranch_wire::{Parameters, parameter_kind};
use hmac::{Hmac, Mac};
use sha1::Sha1;
use sha2::Sha256;

use crate::codec::Identity;
use crate::node::{Node, Value};

/// Bytes of an AUTH chunk before its MAC.
const BEFORE_MAC: usize = 8;

/// Secrets by their identifiers. One that is not there is empty.
pub(crate) type Secrets = BTreeMap<u16, Vec<u8>>;

/// What the sender of an INIT or INIT ACK says of authentication: the parameters that are there, in their order and without
/// padding (section 6.1). `value` is the chunk without its header.
pub(crate) fn vector(value: &[u8]) -> Vec<u8> {
    let parameters = Parameters::new(value.get(16..).unwrap_or_default());
    let mut vector = Vec::new();
    let kinds = [
        parameter_kind::RANDOM,
        parameter_kind::CHUNK_LIST,
        parameter_kind::REQUESTED_HMAC_ALGORITHM,
    ];
    for kind in kinds {
        if let Some(found) = parameters.find(kind) {
            vector.extend(kind.to_be_bytes());
            vector.extend(((found.value.len() + 4) as u16).to_be_bytes());
            vector.extend(found.value);
        }
    }
    vector
}

/// The key of an association for a secret: the secret, then the vector that is the smaller number, then the other one.
fn key(secret: &[u8], [own, peer]: &[Vec<u8>; 2]) -> Vec<u8> {
    let length = own.len().max(peer.len());
    let as_number = |vector: &[u8]| [&vec![0; length - vector.len()], vector].concat();
    let own_first = (as_number(own), own.len()) <= (as_number(peer), peer.len());
    let (first, second) = if own_first { (own, peer) } else { (peer, own) };
    [secret, first, second].concat()
}

/// The MAC for the AUTH chunk that begins `chunks`: over this chunk with zeros in place of the MAC, and all after it.
/// `None` if the algorithm is not known.
fn mac(chunks: &[u8], secrets: &Secrets, vectors: &[Vec<u8>; 2]) -> Option<Vec<u8>> {
    let field = |at| Some(u16::from_be_bytes(*chunks.get(at..)?.first_chunk()?));
    let (id, algorithm) = (field(4)?, field(6)?);
    let key = key(secrets.get(&id).map_or(&[][..], Vec::as_slice), vectors);
    let length = if algorithm == 3 { 32 } else { 20 };
    let mut covered = chunks.to_vec();
    covered.get_mut(BEFORE_MAC..BEFORE_MAC + length)?.fill(0);
    match algorithm {
        1 => {
            let mut mac = Hmac::<Sha1>::new_from_slice(&key).ok()?;
            mac.update(&covered);
            Some(mac.finalize().into_bytes().to_vec())
        }
        3 => {
            let mut mac = Hmac::<Sha256>::new_from_slice(&key).ok()?;
            mac.update(&covered);
            Some(mac.finalize().into_bytes().to_vec())
        }
        _ => None,
    }
}

/// Writes the MAC of the AUTH chunk at `at` as the script says.
pub(super) fn fill(
    node: &Node,
    packet: &mut [u8],
    at: usize,
    secrets: &Secrets,
    of: Option<&Identity>,
) {
    let wrong = match node.get("hmac") {
        Some(Value::Bytes(_)) => return,
        Some(Value::Mac { valid }) => !valid,
        _ => false,
    };
    let Some(identity) = of else { return };
    let Some(chunks) = packet.get_mut(at..) else { return };
    let Some(mut mac) = mac(chunks, secrets, &identity.vectors) else { return };
    if let Some(last) = mac.last_mut().filter(|_| wrong) {
        *last ^= 1;
    }
    if let Some(field) = chunks.get_mut(BEFORE_MAC..BEFORE_MAC + mac.len()) {
        field.copy_from_slice(&mac);
    }
}

/// Whether the AUTH chunk that begins `chunks` has the right MAC.
pub(super) fn verifies(chunks: &[u8], secrets: &Secrets, of: Option<&Identity>) -> bool {
    let mac = of.and_then(|identity| mac(chunks, secrets, &identity.vectors));
    mac.is_some_and(|mac| chunks.get(BEFORE_MAC..BEFORE_MAC + mac.len()) == Some(&*mac))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The value is from an independent implementation: Python's `hmac`.
    #[test]
    fn a_mac_is_that_of_rfc_4895() {
        let own = [&[0x80, 2, 0, 36][..], &[7; 32], &[0x80, 4, 0, 8, 0, 3, 0, 1]].concat();
        let peer = [&[0x80, 2, 0, 36][..], &[9; 32], &[0x80, 4, 0, 6, 0, 1]].concat();
        let mut chunks = vec![15, 0, 0, 28, 0, 5, 0, 1];
        chunks.extend([0xff; 20]);
        chunks.extend([11, 0, 0, 4]);
        let secrets = Secrets::from([(5, b"secret".to_vec())]);
        let mac = mac(&chunks, &secrets, &[own, peer]).unwrap();
        let hex: String = mac.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, "9c20375cc85f11856917bb9f46a0bef81de2853c");
    }
}
