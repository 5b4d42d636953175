//! Options of messages: how they are sent unless a call says otherwise, and what comes with them.

use super::{Row, int, milliseconds, number, parse, switch};
use crate::abi::{self, AssocValue, DefaultPrinfo, Sndinfo, Sndrcvinfo, flag, option};
use crate::errno::Errno;
use crate::family::Family;
use crate::ffi::transfer::{check_policy, lifetime};
use crate::socket::Socket;

pub(super) const ROWS: &[Row] = &[
    (option::DEFAULT_SNDINFO, set_sndinfo, sndinfo),
    (option::DEFAULT_SEND_PARAM, set_send_param, send_param),
    (option::DEFAULT_PRINFO, set_prinfo, prinfo),
    (option::CONTEXT, set_context, context),
    (
        option::RECVRCVINFO,
        |socket, bytes| switch(socket, bytes, |options| &mut options.rcvinfo),
        |socket, _| number(socket.with(|state| state.options.rcvinfo).into()),
    ),
    (
        option::RECVNXTINFO,
        |socket, bytes| switch(socket, bytes, |options| &mut options.nxtinfo),
        |socket, _| number(socket.with(|state| state.options.nxtinfo).into()),
    ),
    (
        option::USE_EXT_RCVINFO,
        |socket, bytes| switch(socket, bytes, |options| &mut options.extended),
        |socket, _| number(socket.with(|state| state.options.extended).into()),
    ),
    (
        option::DISABLE_FRAGMENTS,
        |socket, bytes| switch(socket, bytes, |options| &mut options.whole),
        |socket, _| number(socket.with(|state| state.options.whole).into()),
    ),
    (option::FRAGMENT_INTERLEAVE, set_interleave, |_, _| number(1)),
    (option::I_WANT_MAPPED_V4_ADDR, set_mapped, |socket, _| {
        number(socket.with(|state| state.options.mapped).into())
    }),
];

fn set_sndinfo(socket: &Socket, bytes: &[u8]) -> Result<(), Errno> {
    let info: Sndinfo = parse(bytes)?;
    check_policy(info.flags)?;
    let default = Sndinfo { assoc_id: 0, ..info };
    Ok(socket.change_own(info.assoc_id, |own| own.default_send = default)?)
}

fn sndinfo(socket: &Socket, given: &[u8]) -> Result<Vec<u8>, Errno> {
    let Sndinfo { assoc_id, .. } = parse(given)?;
    Ok(abi::to_bytes(&Sndinfo { assoc_id, ..socket.own(assoc_id)?.default_send }))
}

fn set_send_param(socket: &Socket, bytes: &[u8]) -> Result<(), Errno> {
    let Sndrcvinfo { stream, flags, ppid, context, assoc_id, timetolive, .. } = parse(bytes)?;
    check_policy(flags)?;
    socket.change_own(assoc_id, |own| {
        own.default_send = Sndinfo { sid: stream, flags, ppid, context, assoc_id: 0 };
        own.default_lifetime = lifetime(timetolive);
    })?;
    Ok(())
}

fn send_param(socket: &Socket, given: &[u8]) -> Result<Vec<u8>, Errno> {
    let Sndrcvinfo { assoc_id, .. } = parse(given)?;
    let own = socket.own(assoc_id)?;
    let Sndinfo { sid, flags, ppid, context, .. } = own.default_send;
    Ok(abi::to_bytes(&Sndrcvinfo {
        stream: sid,
        flags,
        ppid,
        context,
        assoc_id,
        timetolive: own.default_lifetime.map_or(0, milliseconds),
        ..Sndrcvinfo::default()
    }))
}

fn set_prinfo(socket: &Socket, bytes: &[u8]) -> Result<(), Errno> {
    let info: DefaultPrinfo = parse(bytes)?;
    let time = match info.policy & flag::PR_MASK {
        0 => None,
        flag::PR_TTL => lifetime(info.value),
        _ => return Err(Errno::EOPNOTSUPP),
    };
    Ok(socket.change_own(info.assoc_id, |own| own.default_lifetime = time)?)
}

fn prinfo(socket: &Socket, given: &[u8]) -> Result<Vec<u8>, Errno> {
    let DefaultPrinfo { assoc_id, .. } = parse(given)?;
    let time = socket.own(assoc_id)?.default_lifetime;
    Ok(abi::to_bytes(&DefaultPrinfo {
        assoc_id,
        value: time.map_or(0, milliseconds),
        policy: if time.is_some() { flag::PR_TTL } else { 0 },
        pad: 0,
    }))
}

fn set_context(socket: &Socket, bytes: &[u8]) -> Result<(), Errno> {
    let AssocValue { assoc_id, value } = parse(bytes)?;
    Ok(socket.change_own(assoc_id, |own| own.context = value)?)
}

fn context(socket: &Socket, given: &[u8]) -> Result<Vec<u8>, Errno> {
    let AssocValue { assoc_id, .. } = parse(given)?;
    Ok(abi::to_bytes(&AssocValue { assoc_id, value: socket.own(assoc_id)?.context }))
}

/// Messages of different associations may be interleaved, those of one are not.
fn set_interleave(_: &Socket, bytes: &[u8]) -> Result<(), Errno> {
    match int(bytes)? {
        0 | 1 => Ok(()),
        _ => Err(Errno::EOPNOTSUPP),
    }
}

fn set_mapped(socket: &Socket, bytes: &[u8]) -> Result<(), Errno> {
    int(bytes)?;
    if socket.family == Family::Ipv4 {
        return Err(Errno::EINVAL);
    }
    switch(socket, bytes, |options| &mut options.mapped)
}
