//! Partial reliability: SCTP_DEFAULT_PRINFO (RFC 6458 section 8.1.32), and the options of RFC 7496 section 4.

use anabranch_sockets::{AssocId, SendFlags, Socket, policy};

use super::{Row, parse, read_only};
use crate::abi::{self, DefaultPrinfo, Prstatus, option};
use crate::errno::Errno;

pub(super) const ROWS: &[Row] = &[
    (option::DEFAULT_PRINFO, set_prinfo, prinfo),
    (option::PR_ASSOC_STATUS, read_only, |socket, given| status(socket, &parse(given)?, None)),
    (option::PR_STREAM_STATUS, read_only, |socket, given| {
        let asked: Prstatus = parse(given)?;
        status(socket, &asked, Some(asked.sid))
    }),
];

fn set_prinfo(socket: &Socket, bytes: &[u8]) -> Result<(), Errno> {
    let DefaultPrinfo { assoc_id, value, policy, .. } = parse(bytes)?;
    let reliability = policy::reliability(SendFlags::from_bits_retain(policy), value)?;
    Ok(socket.change_own(AssocId(assoc_id), |own| own.default_reliability = reliability)?)
}

fn prinfo(socket: &Socket, given: &[u8]) -> Result<Vec<u8>, Errno> {
    let DefaultPrinfo { assoc_id, .. } = parse(given)?;
    let default = socket.own(AssocId(assoc_id))?.default_reliability;
    let (policy, value) = policy::of_reliability(default);
    Ok(abi::to_bytes(&DefaultPrinfo { assoc_id, value, policy: policy.bits(), pad: 0 }))
}

fn status(socket: &Socket, asked: &Prstatus, stream: Option<u16>) -> Result<Vec<u8>, Errno> {
    let (id, policy) = (AssocId(asked.assoc_id), SendFlags::from_bits_retain(asked.policy));
    let count = socket.given_up(id, policy, stream)?;
    Ok(abi::to_bytes(&Prstatus { unsent: count.unsent, sent: count.sent, ..*asked }))
}
