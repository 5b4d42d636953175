//! `getsockopt` and `setsockopt` (RFC 6458 section 8).

mod associations;
mod authentication;
mod carrier;
mod counters;
mod events;
mod extensions;
mod interleaving;
mod messages;
mod named;
mod paths;
mod plain;
mod reconfiguration;
mod reliability;

use std::ffi::c_void;
use std::mem::offset_of;
use std::time::Duration;

use anabranch_sockets::{AssocId, Options, Socket};
use libc::{c_int, socklen_t};

use super::{done, guard};
use crate::abi::{self, AssocValue, IPPROTO_SCTP, Plain, Sndinfo, Sndrcvinfo, option};
use crate::errno::Errno;
use crate::world::find;

pub(super) use self::associations::init_of;
pub use self::named::anabranch_set_options;

/// An option at the level of SCTP: its number, its setter, and its getter. The getter receives the bytes
/// that the caller passed to `getsockopt`.
type Row = (c_int, Set, Get);
type Set = fn(&Socket, &[u8]) -> Result<(), Errno>;
type Get = fn(&Socket, &[u8]) -> Result<Vec<u8>, Errno>;

const TABLES: [&[Row]; 12] = [
    associations::ROWS,
    paths::ROWS,
    events::ROWS,
    messages::ROWS,
    reliability::ROWS,
    interleaving::ROWS,
    reconfiguration::ROWS,
    authentication::ROWS,
    extensions::ROWS,
    carrier::ROWS,
    &[(option::NAMED, named::set, named::get)],
    counters::ROWS,
];

/// Upper bound for the bytes that any option reads.
const MOST: usize = 4096;

/// Converts the length of an option.
fn option_length(len: socklen_t) -> Result<usize, Errno> {
    c_int::try_from(len).map_err(|_| Errno::EINVAL)?;
    Ok(len as usize)
}

fn row(name: c_int) -> Result<&'static Row, Errno> {
    TABLES.into_iter().flatten().find(|row| row.0 == name).ok_or(Errno::ENOPROTOOPT)
}

/// Sets an option.
///
/// # Safety
/// `value` is null or points to `len` readable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn anabranch_setsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    len: socklen_t,
) -> c_int {
    done(|| {
        let socket = find(fd)?;
        if value.is_null() {
            return Err(Errno::EFAULT);
        }
        let len = option_length(len)?.min(MOST);
        // SAFETY: not null, and the caller's promise.
        let bytes = unsafe { std::slice::from_raw_parts(value.cast::<u8>(), len) };
        set(&socket, level, name, bytes)
    })
}

/// Sets an option to the value in these bytes.
pub(super) fn set(socket: &Socket, level: c_int, name: c_int, bytes: &[u8]) -> Result<(), Errno> {
    match level {
        libc::SOL_SOCKET => plain::set(socket, name, bytes),
        IPPROTO_SCTP => row(name)?.1(socket, bytes),
        libc::IPPROTO_IP | libc::IPPROTO_IPV6 => plain::set_ip(socket, level, name, bytes),
        _ => Err(Errno::ENOPROTOOPT),
    }
}

/// Reads an option. For some, `value` also holds input, such as an association or an address.
///
/// # Safety
/// `len` is null or valid, and `value` is null or points to `*len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn anabranch_getsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut socklen_t,
) -> c_int {
    done(|| {
        let socket = find(fd)?;
        if value.is_null() || len.is_null() {
            return Err(Errno::EFAULT);
        }
        // SAFETY: not null, and the caller's promise.
        let room = option_length(unsafe { len.read_unaligned() })?;
        let known = room.min(MOST);
        // SAFETY: not null, and the caller's promise.
        let given = unsafe { std::slice::from_raw_parts(value.cast::<u8>().cast_const(), known) };
        let result = get(&socket, (level, name), given, room)?;
        // SAFETY: there is room for the result, which is this library's own memory.
        unsafe {
            std::ptr::copy_nonoverlapping(result.as_ptr(), value.cast(), result.len());
            len.write_unaligned(result.len() as socklen_t);
        }
        Ok(())
    })
}

/// The value of an option in at most `room` bytes. `given`: what the caller passed in, such as an association.
pub(super) fn get(
    socket: &Socket,
    (level, name): (c_int, c_int),
    given: &[u8],
    room: usize,
) -> Result<Vec<u8>, Errno> {
    let mut result = match level {
        libc::SOL_SOCKET => plain::get(socket, name),
        IPPROTO_SCTP => row(name).and_then(|row| row.2(socket, given)),
        libc::IPPROTO_IP | libc::IPPROTO_IPV6 => plain::get_ip(socket, level, name),
        _ => Err(Errno::ENOPROTOOPT),
    }?;
    if may_be_cut(level, name, room) {
        result.truncate(room);
    }
    if result.len() > room { Err(Errno::EINVAL) } else { Ok(result) }
}

/// As `anabranch_getsockopt` at the level of SCTP, for an association (RFC 6458 section 9.14).
///
/// # Safety
/// `len` is null or valid, and `value` is null or points to `*len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn anabranch_sctp_opt_info(
    fd: c_int,
    id: i32,
    name: c_int,
    value: *mut c_void,
    len: *mut socklen_t,
) -> c_int {
    guard(-1, || {
        if value.is_null() || len.is_null() {
            return Err(Errno::EFAULT);
        }
        // SAFETY: not null, and the caller's promise.
        let room = option_length(unsafe { len.read_unaligned() })?;
        if let Some(at) = id_at(name).filter(|at| room >= at + size_of::<i32>()) {
            // SAFETY: the structure has room for the number at this offset.
            unsafe { value.cast::<u8>().add(at).cast::<i32>().write_unaligned(id) };
        }
        // SAFETY: the caller's promise.
        Ok(unsafe { anabranch_getsockopt(fd, IPPROTO_SCTP, name, value, len) })
    })
}

/// The offset of the association id in an option's structure, if it has one.
fn id_at(name: c_int) -> Option<usize> {
    match name {
        option::RTOINFO
        | option::ASSOCINFO
        | option::PRIMARY_ADDR
        | option::PEER_ADDR_PARAMS
        | option::PEER_ADDR_THLDS
        | option::PEER_ADDR_THLDS_V2
        | option::STATUS
        | option::GET_PEER_ADDR_INFO
        | option::GET_ASSOC_STATS
        | option::DELAYED_SACK
        | option::MAX_BURST
        | option::PLUGGABLE_CC
        | option::NRSACK_SUPPORTED
        | option::CONTEXT
        | option::EVENT
        | option::DEFAULT_PRINFO
        | option::PR_SUPPORTED
        | option::PR_ASSOC_STATUS
        | option::PR_STREAM_STATUS
        | option::INTERLEAVING_SUPPORTED
        | option::STREAM_SCHEDULER
        | option::STREAM_SCHEDULER_VALUE
        | option::ECN_SUPPORTED
        | option::RECONFIG_SUPPORTED
        | option::ENABLE_STREAM_RESET
        | option::RESET_STREAMS
        | option::RESET_ASSOC
        | option::ADD_STREAMS
        | option::AUTH_KEY
        | option::AUTH_ACTIVE_KEY
        | option::AUTH_DEACTIVATE_KEY
        | option::AUTH_DELETE_KEY
        | option::LOCAL_AUTH_CHUNKS
        | option::PEER_AUTH_CHUNKS
        | option::AUTH_SUPPORTED
        | option::ASCONF_SUPPORTED
        | option::SET_PEER_PRIMARY_ADDR
        | option::REMOTE_UDP_ENCAPS_PORT
        | option::NAMED
        | option::COUNTER => Some(0),
        option::DEFAULT_SNDINFO => Some(offset_of!(Sndinfo, assoc_id)),
        option::DEFAULT_SEND_PARAM => Some(offset_of!(Sndrcvinfo, assoc_id)),
        _ => None,
    }
}

/// The text up to the terminating null byte.
fn text(bytes: &[u8]) -> Result<&str, Errno> {
    let end = bytes.iter().position(|byte| *byte == 0).ok_or(Errno::EINVAL)?;
    std::str::from_utf8(&bytes[..end]).map_err(|_| Errno::EINVAL)
}

fn parse<T: Plain>(bytes: &[u8]) -> Result<T, Errno> {
    abi::from_bytes(bytes).ok_or(Errno::EINVAL)
}

/// Size of `struct sctp_paddrparams` before Linux 4.20, without flow label and DSCP.
const OLD_PADDRPARAMS: usize = 152;

/// Whether an option is cut if there is not enough room: as in Linux at the level of sockets, and for
/// structures that have grown, which older programs know only in part.
fn may_be_cut(level: c_int, name: c_int, room: usize) -> bool {
    match level {
        libc::SOL_SOCKET => name != libc::SO_BINDTODEVICE,
        _ => (level, name, room) == (IPPROTO_SCTP, option::PEER_ADDR_PARAMS, OLD_PADDRPARAMS),
    }
}

fn int(bytes: &[u8]) -> Result<c_int, Errno> {
    parse(bytes)
}

fn milliseconds(time: Duration) -> u32 {
    u32::try_from(time.as_millis()).unwrap_or(u32::MAX)
}

fn duration(milliseconds: u32) -> Duration {
    Duration::from_millis(milliseconds.into())
}

fn number(number: usize) -> Result<Vec<u8>, Errno> {
    Ok(abi::to_bytes(&c_int::try_from(number).unwrap_or(c_int::MAX)))
}

/// Changes an option that takes effect immediately.
fn choose(socket: &Socket, change: impl FnOnce(&mut Options)) -> Result<(), Errno> {
    socket.change_options(change);
    Ok(())
}

/// As [`choose`], for a boolean option.
fn switch(
    socket: &Socket,
    bytes: &[u8],
    of: impl FnOnce(&mut Options) -> &mut bool,
) -> Result<(), Errno> {
    let on = int(bytes)? != 0;
    choose(socket, |options| *of(options) = on)
}

/// The setter of a read-only option.
fn read_only(_: &Socket, _: &[u8]) -> Result<(), Errno> {
    Err(Errno::ENOPROTOOPT)
}

/// The association whose id a structure begins with, or future ones.
fn id(given: &[u8]) -> AssocId {
    parse::<AssocValue>(given).map_or(AssocId::FUTURE, |given| AssocId(given.assoc_id))
}

/// A number in 16 bits, saturated.
fn short(number: u32) -> u16 {
    u16::try_from(number).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_option_stands_in_two_tables() {
        let names: Vec<c_int> = TABLES.into_iter().flatten().map(|row| row.0).collect();
        let different: BTreeSet<_> = names.iter().collect();
        assert_eq!(different.len(), names.len());
    }
}
