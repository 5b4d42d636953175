//! Message options: default send parameters, and the ancillary data of received messages.

use super::{Row, int, number, parse, switch};
use crate::abi::{self, AssocValue, Sndinfo, Sndrcvinfo, option};
use crate::errno::Errno;
use anabranch_sockets::{AssocId, Options, SendFlags, SendInfo, Socket, policy};

pub(super) const ROWS: &[Row] = &[
    (option::DEFAULT_SNDINFO, set_sndinfo, sndinfo),
    (option::DEFAULT_SEND_PARAM, set_send_param, send_param),
    (option::CONTEXT, set_context, context),
    (
        option::RECVRCVINFO,
        |socket, bytes| switch(socket, bytes, |options| &mut options.receive_info),
        |socket, _| number(socket.options(|options| options.receive_info).into()),
    ),
    (
        option::RECVNXTINFO,
        |socket, bytes| switch(socket, bytes, |options| &mut options.next_info),
        |socket, _| number(socket.options(|options| options.next_info).into()),
    ),
    (
        option::USE_EXT_RCVINFO,
        |socket, bytes| switch(socket, bytes, |options| &mut options.extended),
        |socket, _| number(socket.options(|options| options.extended).into()),
    ),
    (
        option::DISABLE_FRAGMENTS,
        |socket, bytes| switch(socket, bytes, |options| &mut options.whole),
        |socket, _| number(socket.options(|options| options.whole).into()),
    ),
    (
        option::EXPLICIT_EOR,
        |socket, bytes| switch(socket, bytes, |options| &mut options.explicit_end),
        |socket, _| number(socket.options(|options| options.explicit_end).into()),
    ),
    (option::I_WANT_MAPPED_V4_ADDR, set_mapped, |socket, _| {
        number(socket.options(Options::mapped).into())
    }),
];

fn set_sndinfo(socket: &Socket, bytes: &[u8]) -> Result<(), Errno> {
    let info = SendInfo::from(parse::<Sndinfo>(bytes)?);
    // As in Linux: SCTP_DEFAULT_PRINFO sets the policy.
    if !info.flags.policy().is_empty() {
        return Err(Errno::EINVAL);
    }
    let default = SendInfo { id: AssocId::FUTURE, ..info };
    Ok(socket.change_own(info.id, |own| own.default_send = default)?)
}

fn sndinfo(socket: &Socket, given: &[u8]) -> Result<Vec<u8>, Errno> {
    let id = AssocId(parse::<Sndinfo>(given)?.assoc_id);
    let info = SendInfo { id, ..socket.own(id)?.default_send };
    Ok(abi::to_bytes(&Sndinfo::from(info)))
}

fn set_send_param(socket: &Socket, bytes: &[u8]) -> Result<(), Errno> {
    let given: Sndrcvinfo = parse(bytes)?;
    let info = SendInfo::from(&given);
    let reliability = policy::of_sndrcv(info.flags, given.timetolive)?;
    let flags = info.flags.difference(SendFlags::POLICY);
    let default = SendInfo { id: AssocId::FUTURE, flags, ..info };
    socket.change_own(info.id, |own| {
        own.default_send = default;
        own.default_reliability = reliability;
    })?;
    Ok(())
}

fn send_param(socket: &Socket, given: &[u8]) -> Result<Vec<u8>, Errno> {
    let Sndrcvinfo { assoc_id, .. } = parse(given)?;
    let own = socket.own(AssocId(assoc_id))?;
    let Sndinfo { sid: stream, flags, ppid, context, .. } = own.default_send.into();
    let (policy, timetolive) = policy::of_reliability(own.default_reliability);
    Ok(abi::to_bytes(&Sndrcvinfo {
        stream,
        flags: flags | policy.bits(),
        ppid,
        context,
        assoc_id,
        timetolive,
        ..Sndrcvinfo::default()
    }))
}

fn set_context(socket: &Socket, bytes: &[u8]) -> Result<(), Errno> {
    let AssocValue { assoc_id, value } = parse(bytes)?;
    Ok(socket.change_own(AssocId(assoc_id), |own| own.context = value)?)
}

fn context(socket: &Socket, given: &[u8]) -> Result<Vec<u8>, Errno> {
    let AssocValue { assoc_id, .. } = parse(given)?;
    Ok(abi::to_bytes(&AssocValue { assoc_id, value: socket.own(AssocId(assoc_id))?.context }))
}

fn set_mapped(socket: &Socket, bytes: &[u8]) -> Result<(), Errno> {
    Ok(socket.set_mapped(int(bytes)? != 0)?)
}
