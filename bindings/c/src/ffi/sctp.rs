//! The calls that RFC 6458 adds (section 9).

use std::ffi::c_void;
use std::net::SocketAddr;

use anabranch_sockets::{AssocId, Sending};
use libc::{c_int, c_uint, iovec, sa_family_t, sockaddr, socklen_t, ssize_t};

use super::transfer::{receive, remotes, send, set_prinfo, set_sndrcv};
use super::{buffers, done, guard};
use crate::abi::{self, Authinfo, RecvvRn, SendvSpa, Sndinfo, Sndrcvinfo};
use crate::address;
use crate::errno::Errno;
use crate::world::{find, register};

const BINDX_ADD_ADDR: c_int = 1;
const BINDX_REM_ADDR: c_int = 2;

/// Types of `info` for `sctp_sendv`.
const SENDV_NOINFO: c_uint = 0;
const SENDV_SNDINFO: c_uint = 1;
const SENDV_PRINFO: c_uint = 2;
const SENDV_AUTHINFO: c_uint = 3;
const SENDV_SPA: c_uint = 4;

/// Which members of `struct sctp_sendv_spa` are valid.
const SEND_SNDINFO_VALID: u32 = 1;
const SEND_PRINFO_VALID: u32 = 2;
const SEND_AUTHINFO_VALID: u32 = 4;

/// Types of `info` for `sctp_recvv`.
const RECVV_NOINFO: c_uint = 0;
const RECVV_RCVINFO: c_uint = 1;
const RECVV_NXTINFO: c_uint = 2;
const RECVV_RN: c_uint = 3;

/// Binds to several addresses, or adds or removes some before the socket is used.
///
/// # Safety
/// `addresses` points to `count` addresses one after the other.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn anabranch_sctp_bindx(
    fd: c_int,
    addresses: *const sockaddr,
    count: c_int,
    flags: c_int,
) -> c_int {
    done(|| {
        let socket = find(fd)?;
        // SAFETY: the caller's promise.
        let addresses = unsafe { address::read_packed(addresses, count) }?;
        match flags {
            BINDX_ADD_ADDR => socket.bind_more(&addresses)?,
            BINDX_REM_ADDR => socket.bind_less(&addresses)?,
            _ => return Err(Errno::EINVAL),
        }
        Ok(())
    })
}

/// Sets up an association with a peer that has several addresses.
///
/// # Safety
/// `addresses` points to `count` addresses one after the other, and `id` is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn anabranch_sctp_connectx(
    fd: c_int,
    addresses: *const sockaddr,
    count: c_int,
    id: *mut i32,
) -> c_int {
    done(|| {
        let socket = find(fd)?;
        // SAFETY: the caller's promise.
        let addresses = unsafe { address::read_packed(addresses, count) }?;
        let mut started = AssocId::FUTURE;
        let result = socket.connect_with(addresses, |number| started = number);
        if !id.is_null() && started != AssocId::FUTURE {
            // SAFETY: not null, and the caller's promise.
            unsafe { id.write_unaligned(started.0) };
        }
        result?;
        Ok(())
    })
}

/// Moves an association of a one-to-many socket to a new one-to-one socket.
#[unsafe(no_mangle)]
pub extern "C" fn anabranch_sctp_peeloff(fd: c_int, id: i32) -> c_int {
    guard(-1, || Ok(register(find(fd)?.peel_off(AssocId(id))?)))
}

/// As `anabranch_sctp_peeloff`; `flags` is 0, or SOCK_NONBLOCK and SOCK_CLOEXEC for the new socket.
#[unsafe(no_mangle)]
pub extern "C" fn anabranch_sctp_peeloff_flags(fd: c_int, id: i32, flags: c_uint) -> c_int {
    guard(-1, || {
        let flags = c_int::try_from(flags).map_err(|_| Errno::EINVAL)?;
        if flags & !(libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC) != 0 {
            return Err(Errno::EINVAL);
        }
        let peeled = find(fd)?.peel_off(AssocId(id))?;
        if flags & libc::SOCK_NONBLOCK != 0 {
            peeled.set_nonblocking(true)?;
        }
        Ok(register(peeled))
    })
}

/// The id of the association with the peer that has this address. If there is none, returns 0 and sets
/// `errno` (RFC 6458 section 9.6).
///
/// # Safety
/// `address` is null or points to `len` readable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn anabranch_sctp_getassocid(
    fd: c_int,
    address: *const sockaddr,
    len: socklen_t,
) -> i32 {
    guard(0, || {
        let socket = find(fd)?;
        // SAFETY: the caller's promise.
        Ok(socket.id_of(unsafe { address::read(address, len) }?)?.0)
    })
}

/// The size of an address of this family (`sctp_getaddrlen`).
#[unsafe(no_mangle)]
pub extern "C" fn anabranch_sctp_getaddrlen(family: sa_family_t) -> c_int {
    guard(-1, || match c_int::from(family) {
        libc::AF_INET => Ok(size_of::<libc::sockaddr_in>() as c_int),
        libc::AF_INET6 => Ok(size_of::<libc::sockaddr_in6>() as c_int),
        _ => Err(Errno::EINVAL),
    })
}

/// Sends a message with the parameters in `info` to a peer that has these addresses (RFC 6458 section 9.11).
///
/// # Safety
/// `data` is null or points to `len` readable bytes, `addresses` to `count` addresses one after the
/// other, and `info` is null or points to a `struct sctp_sndrcvinfo`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn anabranch_sctp_sendx(
    fd: c_int,
    data: *const c_void,
    len: usize,
    addresses: *const sockaddr,
    count: c_int,
    info: *const c_void,
    flags: c_int,
) -> ssize_t {
    guard(-1, || {
        let socket = find(fd)?;
        // SAFETY: the caller's promise.
        let data = unsafe { buffers::copy(data, len) }?;
        // SAFETY: the caller's promise.
        let remotes = unsafe { address::read_packed(addresses, count) }?;
        let mut sending = Sending::new(socket, data, remotes);
        if !info.is_null() {
            // SAFETY: not null, and the caller's promise; any bytes are a value.
            let info = unsafe { info.cast::<Sndrcvinfo>().read_unaligned() };
            set_sndrcv(&mut sending, &info)?;
        }
        send(sending, flags)
    })
}

/// Stores a list of addresses, allocated with `malloc`. Returns the number of addresses.
///
/// # Safety
/// `list` is null or valid.
pub(super) unsafe fn give(
    addresses: &[SocketAddr],
    list: *mut *mut sockaddr,
) -> Result<c_int, Errno> {
    if list.is_null() {
        return Err(Errno::EFAULT);
    }
    let bytes: Vec<u8> = addresses.iter().flat_map(|address| address::to_bytes(*address)).collect();
    if bytes.is_empty() {
        // SAFETY: not null, and the caller's promise.
        unsafe { list.write(std::ptr::null_mut()) };
        return Ok(0);
    }
    // SAFETY: the length is not 0; the result is checked.
    let memory = unsafe { libc::malloc(bytes.len()) };
    if memory.is_null() {
        return Err(Errno::ENOBUFS);
    }
    // SAFETY: the memory has this length and was just allocated; `list` as above.
    unsafe {
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), memory.cast(), bytes.len());
        list.write(memory.cast());
    }
    c_int::try_from(addresses.len()).map_err(|_| Errno::ENOBUFS)
}

/// Stores the addresses of an association's peer. Returns the number of addresses; free the list with
/// `anabranch_sctp_freepaddrs`.
///
/// # Safety
/// `addresses` is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn anabranch_sctp_getpaddrs(
    fd: c_int,
    id: i32,
    addresses: *mut *mut sockaddr,
) -> c_int {
    guard(-1, || {
        let found = find(fd)?.peer_addresses(AssocId(id))?;
        // SAFETY: the caller's promise.
        unsafe { give(&found, addresses) }
    })
}

/// Frees a list from `anabranch_sctp_getpaddrs`. Returns 0, as lksctp does.
///
/// # Safety
/// `addresses` is null or from that call, and not freed yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn anabranch_sctp_freepaddrs(addresses: *mut sockaddr) -> c_int {
    // SAFETY: the caller's promise; it was made with `malloc`.
    unsafe { libc::free(addresses.cast()) };
    0
}

/// Stores the local addresses of an association, or with id 0 those of the socket. Returns the number
/// of addresses; free the list with `anabranch_sctp_freeladdrs`.
///
/// # Safety
/// `addresses` is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn anabranch_sctp_getladdrs(
    fd: c_int,
    id: i32,
    addresses: *mut *mut sockaddr,
) -> c_int {
    guard(-1, || {
        let found = find(fd)?.local_addresses(AssocId(id))?;
        // SAFETY: the caller's promise.
        unsafe { give(&found, addresses) }
    })
}

/// Frees a list from `anabranch_sctp_getladdrs`. Returns 0, as lksctp does.
///
/// # Safety
/// `addresses` is null or from that call, and not freed yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn anabranch_sctp_freeladdrs(addresses: *mut sockaddr) -> c_int {
    // SAFETY: the caller's promise; it was made with `malloc`.
    unsafe { libc::free(addresses.cast()) };
    0
}

/// Sends a message (RFC 6458 section 9.7).
///
/// # Safety
/// `data` is null or points to `len` readable bytes, `to` to `tolen`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn anabranch_sctp_sendmsg(
    fd: c_int,
    data: *const c_void,
    len: usize,
    to: *const sockaddr,
    tolen: socklen_t,
    ppid: u32,
    flags: u32,
    stream: u16,
    timetolive: u32,
    context: u32,
) -> ssize_t {
    guard(-1, || {
        let socket = find(fd)?;
        // SAFETY: the caller's promise.
        let data = unsafe { buffers::copy(data, len) }?;
        // SAFETY: the caller's promise.
        let remotes = unsafe { remotes(to, tolen) }?;
        let flags = u16::try_from(flags).map_err(|_| Errno::EINVAL)?;
        let mut sending = Sending::new(socket, data, remotes);
        let info = Sndrcvinfo { stream, flags, ppid, context, timetolive, ..Sndrcvinfo::default() };
        set_sndrcv(&mut sending, &info)?;
        send(sending, 0)
    })
}

/// Sends a message with the parameters in `info` (RFC 6458 section 9.10).
///
/// # Safety
/// `data` is null or points to `len` readable bytes, and `info` is null or points to a
/// `struct sctp_sndrcvinfo`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn anabranch_sctp_send(
    fd: c_int,
    data: *const c_void,
    len: usize,
    info: *const c_void,
    flags: c_int,
) -> ssize_t {
    guard(-1, || {
        let socket = find(fd)?;
        // SAFETY: the caller's promise.
        let data = unsafe { buffers::copy(data, len) }?;
        let mut sending = Sending::new(socket, data, Vec::new());
        if !info.is_null() {
            // SAFETY: not null, and the caller's promise; any bytes are a value.
            let info = unsafe { info.cast::<Sndrcvinfo>().read_unaligned() };
            set_sndrcv(&mut sending, &info)?;
        }
        send(sending, flags)
    })
}

/// Sends a message to a peer that has these addresses; connects first if there is no association with it
/// (RFC 6458 section 9.12).
///
/// # Safety
/// `list` points to `count` entries that point to as many readable bytes as they say, `addresses` to
/// `address_count` addresses one after the other, `info` to `info_len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn anabranch_sctp_sendv(
    fd: c_int,
    list: *const iovec,
    count: c_int,
    addresses: *const sockaddr,
    address_count: c_int,
    info: *const c_void,
    info_len: socklen_t,
    info_type: c_uint,
    flags: c_int,
) -> ssize_t {
    guard(-1, || {
        let socket = find(fd)?;
        // SAFETY: the caller's promise.
        let data = unsafe { buffers::gather(list, buffers::count(count)?) }?;
        let remotes = if addresses.is_null() || address_count == 0 {
            Vec::new()
        } else {
            // SAFETY: the caller's promise.
            unsafe { address::read_packed(addresses, address_count) }?
        };
        let mut sending = Sending::new(socket, data, remotes);
        let info = if info_type == SENDV_NOINFO || info.is_null() {
            &[]
        } else {
            // SAFETY: not null, and the caller's promise.
            unsafe { std::slice::from_raw_parts(info.cast::<u8>(), info_len as usize) }
        };
        match info_type {
            SENDV_NOINFO => {}
            SENDV_SNDINFO => {
                let info: Sndinfo = abi::from_bytes(info).ok_or(Errno::EINVAL)?;
                sending.info(info.into())?;
            }
            SENDV_PRINFO => {
                set_prinfo(&mut sending, abi::from_bytes(info).ok_or(Errno::EINVAL)?)?;
            }
            SENDV_SPA => {
                let info: SendvSpa = abi::from_bytes(info).ok_or(Errno::EINVAL)?;
                if info.flags & SEND_SNDINFO_VALID != 0 {
                    sending.info(info.sndinfo.into())?;
                }
                if info.flags & SEND_PRINFO_VALID != 0 {
                    set_prinfo(&mut sending, info.prinfo)?;
                }
                if info.flags & SEND_AUTHINFO_VALID != 0 {
                    sending.authenticate_with(info.authinfo.keynumber);
                }
            }
            SENDV_AUTHINFO => {
                let info: Authinfo = abi::from_bytes(info).ok_or(Errno::EINVAL)?;
                sending.authenticate_with(info.keynumber);
            }
            _ => return Err(Errno::EINVAL),
        }
        send(sending, flags)
    })
}

/// Receives (a part of) a message (RFC 6458 section 9.8).
///
/// # Safety
/// `buffer` is null or points to `len` writable bytes; `fromlen` is null or valid, and `from` is
/// null or points to `*fromlen` bytes; `info` is null or points to a `struct sctp_sndrcvinfo`, and
/// `flags` is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn anabranch_sctp_recvmsg(
    fd: c_int,
    buffer: *mut c_void,
    len: usize,
    from: *mut sockaddr,
    fromlen: *mut socklen_t,
    info: *mut c_void,
    flags: *mut c_int,
) -> ssize_t {
    guard(-1, || {
        let entry = iovec { iov_base: buffer, iov_len: len };
        // SAFETY: the caller's promise.
        let wanted = if flags.is_null() { 0 } else { unsafe { flags.read_unaligned() } };
        // SAFETY: the caller's promise.
        let incoming = unsafe { receive(fd, (&raw const entry, 1), wanted, from, fromlen) }?;
        if !flags.is_null() {
            // SAFETY: not null, and the caller's promise.
            unsafe { flags.write_unaligned(incoming.flags()) };
        }
        if !info.is_null() {
            // Always write it, so that the caller does not read stale bytes as information.
            let about = incoming.sndrcv().unwrap_or_default();
            // SAFETY: not null, and the caller's promise.
            unsafe { info.cast::<Sndrcvinfo>().write_unaligned(about) };
        }
        Ok(incoming.length())
    })
}

/// Receives (a part of) a message into several buffers (RFC 6458 section 9.13).
///
/// # Safety
/// `list` points to `count` entries that point to as many writable bytes as they say; `fromlen` is null or
/// valid, and `from` is null or points to `*fromlen` bytes; `info_len` is null or valid, and
/// `info` is null or points to `*info_len` bytes; `info_type` and `flags` are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn anabranch_sctp_recvv(
    fd: c_int,
    list: *const iovec,
    count: c_int,
    from: *mut sockaddr,
    fromlen: *mut socklen_t,
    info: *mut c_void,
    info_len: *mut socklen_t,
    info_type: *mut c_uint,
    flags: *mut c_int,
) -> ssize_t {
    guard(-1, || {
        // SAFETY: the caller's promise.
        let wanted = if flags.is_null() { 0 } else { unsafe { flags.read_unaligned() } };
        let list = (list, buffers::count(count)?);
        // SAFETY: the caller's promise.
        let incoming = unsafe { receive(fd, list, wanted, from, fromlen) }?;
        if !flags.is_null() {
            // SAFETY: not null, and the caller's promise.
            unsafe { flags.write_unaligned(incoming.flags()) };
        }
        let (mut kind, mut about) = match incoming.about() {
            (Some(rcvinfo), Some(nxtinfo)) => {
                (RECVV_RN, abi::to_bytes(&RecvvRn { rcvinfo, nxtinfo }))
            }
            (Some(rcvinfo), None) => (RECVV_RCVINFO, abi::to_bytes(&rcvinfo)),
            (None, Some(nxtinfo)) => (RECVV_NXTINFO, abi::to_bytes(&nxtinfo)),
            (None, None) => (RECVV_NOINFO, Vec::new()),
        };
        // SAFETY: the caller's promise.
        let room = if info_len.is_null() { 0 } else { unsafe { info_len.read_unaligned() } };
        if info.is_null() || (room as usize) < about.len() {
            (kind, about) = (RECVV_NOINFO, Vec::new());
        }
        // SAFETY: there is room for what is written; the others are not null, and the caller's
        // promise.
        unsafe {
            if !about.is_empty() {
                std::ptr::copy_nonoverlapping(about.as_ptr(), info.cast(), about.len());
            }
            if !info_len.is_null() {
                info_len.write_unaligned(about.len() as socklen_t);
            }
            if !info_type.is_null() {
                info_type.write_unaligned(kind);
            }
        }
        Ok(incoming.length())
    })
}
