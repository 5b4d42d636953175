//! Options of messages: how they are sent unless a call says otherwise, and what comes with them.

use std::time::Duration;

use super::{Row, choose, int, milliseconds, number, parse, switch};
use crate::abi::{self, AssocValue, DefaultPrinfo, Sndinfo, Sndrcvinfo, flag, option};
use crate::errno::Errno;
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
    choose(socket, |options| options.default_send = info)
}

fn sndinfo(socket: &Socket, _: &[u8]) -> Result<Vec<u8>, Errno> {
    Ok(abi::to_bytes(&socket.with(|state| state.options.default_send)))
}

fn set_send_param(socket: &Socket, bytes: &[u8]) -> Result<(), Errno> {
    let Sndrcvinfo { stream, flags, ppid, context, assoc_id, timetolive, .. } = parse(bytes)?;
    check_policy(flags)?;
    choose(socket, |options| {
        options.default_send = Sndinfo { sid: stream, flags, ppid, context, assoc_id };
        options.default_lifetime = lifetime(timetolive);
    })
}

fn send_param(socket: &Socket, _: &[u8]) -> Result<Vec<u8>, Errno> {
    let (Sndinfo { sid, flags, ppid, context, assoc_id }, time) =
        socket.with(|state| (state.options.default_send, state.options.default_lifetime));
    Ok(abi::to_bytes(&Sndrcvinfo {
        stream: sid,
        flags,
        ppid,
        context,
        assoc_id,
        timetolive: time.map_or(0, milliseconds),
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
    choose(socket, |options| options.default_lifetime = time)
}

fn prinfo(socket: &Socket, given: &[u8]) -> Result<Vec<u8>, Errno> {
    let time: Option<Duration> = socket.with(|state| state.options.default_lifetime);
    Ok(abi::to_bytes(&DefaultPrinfo {
        assoc_id: parse::<DefaultPrinfo>(given)?.assoc_id,
        value: time.map_or(0, milliseconds),
        policy: if time.is_some() { flag::PR_TTL } else { 0 },
        pad: 0,
    }))
}

fn set_context(socket: &Socket, bytes: &[u8]) -> Result<(), Errno> {
    let AssocValue { value, .. } = parse(bytes)?;
    choose(socket, |options| options.context = value)
}

fn context(socket: &Socket, given: &[u8]) -> Result<Vec<u8>, Errno> {
    let value = socket.with(|state| state.options.context);
    Ok(abi::to_bytes(&AssocValue { value, ..parse(given)? }))
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
    if socket.domain == libc::AF_INET {
        return Err(Errno::EINVAL);
    }
    switch(socket, bytes, |options| &mut options.mapped)
}
