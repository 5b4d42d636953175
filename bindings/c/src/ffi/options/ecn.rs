//! Explicit congestion notification: SCTP_ECN_SUPPORTED, as in Linux and FreeBSD.

use anabranch_sockets::{AssocId, EcnSupported, Socket};

use super::{Row, parse};
use crate::abi::{self, AssocValue, option};
use crate::errno::Errno;

pub(super) const ROWS: &[Row] = &[(option::ECN_SUPPORTED, set_supported, supported)];

fn set_supported(socket: &Socket, bytes: &[u8]) -> Result<(), Errno> {
    let AssocValue { assoc_id, value } = parse(bytes)?;
    Ok(socket.set_option(AssocId(assoc_id), &EcnSupported(value != 0))?)
}

fn supported(socket: &Socket, given: &[u8]) -> Result<Vec<u8>, Errno> {
    let AssocValue { assoc_id, .. } = parse(given)?;
    let value = socket.ecn(AssocId(assoc_id))?.into();
    Ok(abi::to_bytes(&AssocValue { assoc_id, value }))
}
