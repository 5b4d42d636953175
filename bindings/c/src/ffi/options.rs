//! `getsockopt` and `setsockopt` (RFC 6458 section 8).

mod fields;
mod get;
mod named;
mod plain;
mod set;

use std::ffi::c_void;
use std::time::Duration;

use libc::{c_int, socklen_t};

use super::{done, guard};
use crate::abi::{self, IPPROTO_SCTP, Plain, event, option};
use crate::errno::Errno;
use crate::socket::find;

pub(super) use self::set::init as set_init;

/// Flags of SCTP_PEER_ADDR_PARAMS.
const HB_ENABLE: u32 = 1;
const HB_DISABLE: u32 = 1 << 1;
const HB_DEMAND: u32 = 1 << 2;
const PMTUD_ENABLE: u32 = 1 << 3;
const PMTUD_DISABLE: u32 = 1 << 4;
const SACKDELAY_ENABLE: u32 = 1 << 5;
const SACKDELAY_DISABLE: u32 = 1 << 6;

/// The fields of `struct sctp_event_subscribe` in order; what stands without a type here cannot
/// happen and may not be asked for.
const SUBSCRIPTIONS: [u16; 14] = [
    event::DATA_IO,
    event::ASSOC_CHANGE,
    event::PEER_ADDR_CHANGE,
    event::SEND_FAILED,
    event::REMOTE_ERROR,
    event::SHUTDOWN,
    event::PARTIAL_DELIVERY,
    event::ADAPTATION,
    event::AUTHENTICATION,
    event::SENDER_DRY,
    event::STREAM_RESET,
    event::ASSOC_RESET,
    event::STREAM_CHANGE,
    event::SEND_FAILED_EVENT,
];

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
        // SAFETY: not null, and the caller's promise.
        let bytes = unsafe { std::slice::from_raw_parts(value.cast::<u8>(), len as usize) };
        match level {
            libc::SOL_SOCKET => plain::set(&socket, name, bytes),
            IPPROTO_SCTP => set::set(&socket, name, bytes),
            libc::IPPROTO_IP | libc::IPPROTO_IPV6 => plain::set_ip(level, name, bytes),
            _ => Err(Errno::ENOPROTOOPT),
        }
    })
}

/// Asks for an option. Some are asked for by what stands in `value` before.
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
        let room = unsafe { len.read_unaligned() } as usize;
        // SAFETY: not null, and the caller's promise.
        let given = unsafe { std::slice::from_raw_parts(value.cast::<u8>().cast_const(), room) };
        let result = match level {
            libc::SOL_SOCKET => plain::get(&socket, name),
            IPPROTO_SCTP => get::get(&socket, name, given),
            libc::IPPROTO_IP | libc::IPPROTO_IPV6 => plain::get_ip(level, name),
            _ => Err(Errno::ENOPROTOOPT),
        }?;
        // Of a structure that has grown, older programs get what they know.
        let known = result.len().min(room);
        let result = if is_grown(level, name, room) { &result[..known] } else { &result[..] };
        if result.len() > room {
            return Err(Errno::EINVAL);
        }
        // SAFETY: there is room for the result, which is this library's own memory.
        unsafe {
            std::ptr::copy_nonoverlapping(result.as_ptr(), value.cast(), result.len());
            len.write_unaligned(result.len() as socklen_t);
        }
        Ok(())
    })
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
        if unsafe { len.read_unaligned() } as usize >= size_of::<i32>() && has_id(name) {
            // SAFETY: there is room, and the structures of these options begin with the number.
            unsafe { value.cast::<i32>().write_unaligned(id) };
        }
        // SAFETY: the caller's promise.
        Ok(unsafe { anabranch_getsockopt(fd, IPPROTO_SCTP, name, value, len) })
    })
}

/// Whether an option's structure begins with the number of an association.
fn has_id(name: c_int) -> bool {
    matches!(
        name,
        option::RTOINFO
            | option::ASSOCINFO
            | option::PRIMARY_ADDR
            | option::PEER_ADDR_PARAMS
            | option::STATUS
            | option::GET_PEER_ADDR_INFO
            | option::GET_ASSOC_STATS
            | option::DELAYED_SACK
            | option::CONTEXT
            | option::EVENT
            | option::REMOTE_UDP_ENCAPS_PORT
            | option::NAMED
    )
}

fn parse<T: Plain>(bytes: &[u8]) -> Result<T, Errno> {
    abi::from_bytes(bytes).ok_or(Errno::EINVAL)
}

/// `struct sctp_paddrparams` before Linux 4.20, which has neither flow label nor DSCP.
const OLD_PADDRPARAMS: usize = 152;

/// Whether an option's structure was so much smaller once.
fn is_grown(level: c_int, name: c_int, room: usize) -> bool {
    (level, name, room) == (IPPROTO_SCTP, option::PEER_ADDR_PARAMS, OLD_PADDRPARAMS)
}

/// As [`parse`], of all sizes that the structure has had; what a smaller one lacks is 0.
fn parse_paddrparams(bytes: &[u8]) -> Result<abi::Paddrparams, Errno> {
    if bytes.len() == OLD_PADDRPARAMS {
        let mut whole = bytes.to_vec();
        whole.resize(size_of::<abi::Paddrparams>(), 0);
        return parse(&whole);
    }
    parse(bytes)
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
