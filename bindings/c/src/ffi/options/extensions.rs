//! Extensions that both ends must want: SCTP_NRSACK_SUPPORTED and its like. For an association, each says whether both
//! agreed; otherwise, whether this end will offer it.

use anabranch_sockets::{
    AsconfSupported, AssocId, AuthSupported, EcnSupported, Error, NrSackSupported, PrSupported,
    ReconfigSupported,
};

use super::{Row, parse};
use crate::abi::{self, AssocValue, option};
use crate::errno::Errno;

pub(super) const ROWS: &[Row] = &[
    (
        option::NRSACK_SUPPORTED,
        |socket, bytes| offer(bytes, |id, on| socket.set_option(id, &NrSackSupported(on))),
        |socket, given| answer(given, |id| socket.nr_sack(id)),
    ),
    (
        option::PR_SUPPORTED,
        |socket, bytes| offer(bytes, |id, on| socket.set_option(id, &PrSupported(on))),
        |socket, given| answer(given, |id| socket.partial_reliability(id)),
    ),
    (
        option::INTERLEAVING_SUPPORTED,
        |socket, bytes| offer(bytes, |id, on| socket.set_interleaving(id, on)),
        |socket, given| answer(given, |id| socket.interleaving(id)),
    ),
    (
        option::RECONFIG_SUPPORTED,
        |socket, bytes| offer(bytes, |id, on| socket.set_option(id, &ReconfigSupported(on))),
        |socket, given| answer(given, |id| socket.stream_reconfiguration(id)),
    ),
    (
        option::AUTH_SUPPORTED,
        |socket, bytes| offer(bytes, |id, on| socket.set_option(id, &AuthSupported(on))),
        |socket, given| answer(given, |id| socket.authentication(id)),
    ),
    (
        option::ASCONF_SUPPORTED,
        |socket, bytes| offer(bytes, |id, on| socket.set_option(id, &AsconfSupported(on))),
        |socket, given| answer(given, |id| socket.address_reconfiguration(id)),
    ),
    (
        option::ECN_SUPPORTED,
        |socket, bytes| offer(bytes, |id, on| socket.set_option(id, &EcnSupported(on))),
        |socket, given| answer(given, |id| socket.ecn(id)),
    ),
];

fn offer(bytes: &[u8], set: impl FnOnce(AssocId, bool) -> Result<(), Error>) -> Result<(), Errno> {
    let AssocValue { assoc_id, value } = parse(bytes)?;
    Ok(set(AssocId(assoc_id), value != 0)?)
}

fn answer(
    given: &[u8],
    supported: impl FnOnce(AssocId) -> Result<bool, Error>,
) -> Result<Vec<u8>, Errno> {
    let AssocValue { assoc_id, .. } = parse(given)?;
    let value = supported(AssocId(assoc_id))?.into();
    Ok(abi::to_bytes(&AssocValue { assoc_id, value }))
}
