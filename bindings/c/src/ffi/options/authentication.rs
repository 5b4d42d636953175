//! Authenticated chunks (RFC 6458 sections 8.1.17, 8.1.18, 8.2.3, 8.2.4 and 8.3).

use anabranch_sockets::{AssocId, Error, Socket};

use super::{Row, id, parse, read_only};
use crate::abi::{self, Authchunks, Authkey, AuthkeyId, option};
use crate::errno::Errno;

pub(super) const ROWS: &[Row] = &[
    (option::AUTH_CHUNK, set_chunk, write_only),
    (option::HMAC_IDENT, set_identifiers, identifiers),
    (option::AUTH_KEY, set_key, write_only),
    (
        option::AUTH_ACTIVE_KEY,
        |socket, bytes| key(bytes, |id, key| socket.activate_auth_key(id, key)),
        active,
    ),
    (
        option::AUTH_DEACTIVATE_KEY,
        |socket, bytes| key(bytes, |id, key| socket.deactivate_auth_key(id, key)),
        write_only,
    ),
    (
        option::AUTH_DELETE_KEY,
        |socket, bytes| key(bytes, |id, key| socket.delete_auth_key(id, key)),
        write_only,
    ),
    (option::LOCAL_AUTH_CHUNKS, read_only, |socket, given| {
        chunks(given, |id| socket.local_auth_chunks(id))
    }),
    (option::PEER_AUTH_CHUNKS, read_only, |socket, given| {
        chunks(given, |id| socket.peer_auth_chunks(id))
    }),
];

/// There is nothing to read; the error is that of Linux.
fn write_only(_: &Socket, _: &[u8]) -> Result<Vec<u8>, Errno> {
    Err(Errno::EOPNOTSUPP)
}

fn set_chunk(socket: &Socket, bytes: &[u8]) -> Result<(), Errno> {
    let kind = *bytes.first().ok_or(Errno::EINVAL)?;
    Ok(socket.authenticate_chunk(kind)?)
}

/// `struct sctp_hmacalgo`: how many, and then the identifiers.
fn set_identifiers(socket: &Socket, bytes: &[u8]) -> Result<(), Errno> {
    let (count, list) = bytes.split_first_chunk().ok_or(Errno::EINVAL)?;
    let count = u32::from_ne_bytes(*count);
    let list = usize::try_from(count).ok().and_then(|count| list.get(..count.checked_mul(2)?));
    let list = list.ok_or(Errno::EINVAL)?.chunks_exact(2);
    let identifiers: Vec<u16> = list.map(|pair| u16::from_ne_bytes([pair[0], pair[1]])).collect();
    Ok(socket.set_hmac_identifiers(&identifiers)?)
}

fn identifiers(socket: &Socket, _: &[u8]) -> Result<Vec<u8>, Errno> {
    let identifiers = socket.hmac_identifiers()?;
    let count = u32::try_from(identifiers.len()).unwrap_or(u32::MAX);
    let mut bytes = count.to_ne_bytes().to_vec();
    bytes.extend(identifiers.iter().flat_map(|identifier| identifier.to_ne_bytes()));
    Ok(bytes)
}

fn set_key(socket: &Socket, bytes: &[u8]) -> Result<(), Errno> {
    let Authkey { assoc_id, number, length } = parse(bytes)?;
    let secret = bytes.get(size_of::<Authkey>()..).unwrap_or_default();
    let secret = secret.get(..usize::from(length)).ok_or(Errno::EINVAL)?;
    Ok(socket.set_auth_key(AssocId(assoc_id), number, secret)?)
}

fn key(bytes: &[u8], change: impl FnOnce(AssocId, u16) -> Result<(), Error>) -> Result<(), Errno> {
    let AuthkeyId { assoc_id, number, .. } = parse(bytes)?;
    Ok(change(AssocId(assoc_id), number)?)
}

fn active(socket: &Socket, given: &[u8]) -> Result<Vec<u8>, Errno> {
    let id = id(given);
    let number = socket.active_auth_key(id)?;
    Ok(abi::to_bytes(&AuthkeyId { assoc_id: id.0, number, pad: 0 }))
}

fn chunks(
    given: &[u8],
    of: impl FnOnce(AssocId) -> Result<Vec<u8>, Error>,
) -> Result<Vec<u8>, Errno> {
    let id = id(given);
    let chunks = of(id)?;
    let number_of_chunks = u32::try_from(chunks.len()).unwrap_or(u32::MAX);
    let mut bytes = abi::to_bytes(&Authchunks { assoc_id: id.0, number_of_chunks });
    bytes.extend(chunks);
    Ok(bytes)
}
