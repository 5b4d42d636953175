//! Sends and receives with the POSIX socket calls.

use std::ffi::c_void;

use anabranch_sockets::Sending;
use libc::{c_int, iovec, msghdr, sockaddr, socklen_t, ssize_t};

use super::transfer::{receive, remotes, send, set_prinfo, set_sndrcv};
use super::{buffers, control, guard, options};
use crate::abi::{self, Authinfo, Plain, Sndinfo};
use crate::address;
use crate::errno::Errno;
use crate::world::find;

/// Ancillary data types.
const SCTP_INIT: c_int = 0;
pub(super) const SCTP_SNDRCV: c_int = 1;
const SCTP_SNDINFO: c_int = 2;
pub(super) const SCTP_RCVINFO: c_int = 3;
const SCTP_NXTINFO: c_int = 4;
const SCTP_PRINFO: c_int = 5;
const SCTP_AUTHINFO: c_int = 6;
const SCTP_DSTADDRV4: c_int = 7;
const SCTP_DSTADDRV6: c_int = 8;
/// Linux has no such type; the number is ours.
pub(super) const SCTP_EXTRCV: c_int = 0x100;

/// Sends a message with the parameters of the socket's options.
///
/// # Safety
/// `data` is null or points to `len` readable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn anabranch_send(
    fd: c_int,
    data: *const c_void,
    len: usize,
    flags: c_int,
) -> ssize_t {
    // SAFETY: the caller's promise.
    unsafe { anabranch_sendto(fd, data, len, flags, std::ptr::null(), 0) }
}

/// As `anabranch_send` without flags.
///
/// # Safety
/// As [`anabranch_send`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn anabranch_write(fd: c_int, data: *const c_void, len: usize) -> ssize_t {
    // SAFETY: the caller's promise.
    unsafe { anabranch_send(fd, data, len, 0) }
}

/// Sends a message to a peer's address.
///
/// # Safety
/// `data` is null or points to `len` readable bytes, `to` to `tolen`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn anabranch_sendto(
    fd: c_int,
    data: *const c_void,
    len: usize,
    flags: c_int,
    to: *const sockaddr,
    tolen: socklen_t,
) -> ssize_t {
    guard(-1, || {
        let socket = find(fd)?;
        // SAFETY: the caller's promise.
        let data = unsafe { buffers::copy(data, len) }?;
        // SAFETY: the caller's promise.
        let remotes = unsafe { remotes(to, tolen) }?;
        send(Sending::new(socket, data, remotes), flags)
    })
}

/// Sends a message with ancillary data: SCTP_SNDINFO, SCTP_PRINFO, SCTP_AUTHINFO, SCTP_SNDRCV, SCTP_INIT,
/// SCTP_DSTADDRV4, SCTP_DSTADDRV6 (RFC 6458 section 5.3).
///
/// # Safety
/// `message` is null or valid for the system's `sendmsg`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn anabranch_sendmsg(
    fd: c_int,
    message: *const msghdr,
    flags: c_int,
) -> ssize_t {
    guard(-1, || {
        let socket = find(fd)?;
        if message.is_null() {
            return Err(Errno::EFAULT);
        }
        // SAFETY: not null, and the caller's promise.
        let message = unsafe { &*message };
        // SAFETY: the caller's promise.
        let data = unsafe { buffers::gather(message.msg_iov, size(message.msg_iovlen)) }?;
        let name = message.msg_name.cast_const().cast();
        // A length greater than any address is cut, as a kernel does in this call only.
        let len = c_int::try_from(message.msg_namelen).map_err(|_| Errno::EINVAL)?;
        let len = (len as socklen_t).min(address::STORAGE as socklen_t);
        // SAFETY: the caller's promise.
        let remotes = unsafe { remotes(name, len) }?;
        let mut sending = Sending::new(socket, data, remotes);
        let (control, len) = (message.msg_control.cast_const().cast(), message.msg_controllen);
        // SAFETY: the caller's promise.
        let control = unsafe { control::given(control, size(len)) }?;
        prepare(&mut sending, control)?;
        send(sending, flags)
    })
}

/// Applies ancillary data to a message.
pub(super) fn prepare(sending: &mut Sending, control: &[u8]) -> Result<(), Errno> {
    for (kind, data) in control::items(control)? {
        match kind {
            SCTP_SNDINFO => sending.info(control::exactly::<Sndinfo>(data)?.into())?,
            SCTP_SNDRCV => set_sndrcv(sending, &control::exactly(data)?)?,
            SCTP_PRINFO => set_prinfo(sending, control::exactly(data)?)?,
            SCTP_AUTHINFO => {
                sending.authenticate_with(control::exactly::<Authinfo>(data)?.keynumber);
            }
            // Bytes of an address in network order.
            SCTP_DSTADDRV4 => sending.also_to(bytes::<4>(data)?.into())?,
            SCTP_DSTADDRV6 => sending.also_to(bytes::<16>(data)?.into())?,
            SCTP_INIT => sending.init(&options::init_of(&control::exactly(data)?))?,
            _ => return Err(Errno::EINVAL),
        }
    }
    Ok(())
}

fn bytes<const N: usize>(data: &[u8]) -> Result<[u8; N], Errno> {
    data.try_into().map_err(|_| Errno::EINVAL)
}

/// Receives (a part of) a message.
///
/// # Safety
/// `buffer` is null or points to `len` writable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn anabranch_recv(
    fd: c_int,
    buffer: *mut c_void,
    len: usize,
    flags: c_int,
) -> ssize_t {
    let none = std::ptr::null_mut();
    // SAFETY: the caller's promise.
    unsafe { anabranch_recvfrom(fd, buffer, len, flags, none, std::ptr::null_mut()) }
}

/// As `anabranch_recv` without flags.
///
/// # Safety
/// As [`anabranch_recv`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn anabranch_read(fd: c_int, buffer: *mut c_void, len: usize) -> ssize_t {
    // SAFETY: the caller's promise.
    unsafe { anabranch_recv(fd, buffer, len, 0) }
}

/// Receives (a part of) a message and the peer's address.
///
/// # Safety
/// As [`anabranch_recv`]; `fromlen` is null or valid, and `from` is null or points to `*fromlen`
/// writable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn anabranch_recvfrom(
    fd: c_int,
    buffer: *mut c_void,
    len: usize,
    flags: c_int,
    from: *mut sockaddr,
    fromlen: *mut socklen_t,
) -> ssize_t {
    guard(-1, || {
        let entry = iovec { iov_base: buffer, iov_len: len };
        // SAFETY: the caller's promise.
        let incoming = unsafe { receive(fd, (&raw const entry, 1), flags, from, fromlen) }?;
        Ok(incoming.length())
    })
}

/// Receives (a part of) a message, with the ancillary data enabled on the socket.
///
/// # Safety
/// `message` is null or valid for the system's `recvmsg`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn anabranch_recvmsg(
    fd: c_int,
    message: *mut msghdr,
    flags: c_int,
) -> ssize_t {
    guard(-1, || {
        if message.is_null() {
            return Err(Errno::EFAULT);
        }
        // SAFETY: not null, and the caller's promise.
        let message = unsafe { &mut *message };
        let list = (message.msg_iov.cast_const(), size(message.msg_iovlen));
        let (name, len) = (message.msg_name.cast(), &raw mut message.msg_namelen);
        // SAFETY: the caller's promise.
        let incoming = unsafe { receive(fd, list, flags, name, len) }?;
        message.msg_flags = incoming.flags();
        let (current, next) = incoming.about();
        let current = current.map(|info| item(SCTP_RCVINFO, &info));
        let next = next.map(|info| item(SCTP_NXTINFO, &info));
        let sndrcv = incoming.sndrcv().map(|info| match incoming.extended() {
            Some(extended) => item(SCTP_EXTRCV, &extended),
            None => item(SCTP_SNDRCV, &info),
        });
        let items: Vec<_> = current.into_iter().chain(next).chain(sndrcv).collect();
        // SAFETY: the caller's promise.
        unsafe { set_control(message, &items) };
        Ok(incoming.length())
    })
}

pub(super) fn item<T: Plain>(kind: c_int, value: &T) -> (c_int, Vec<u8>) {
    (kind, abi::to_bytes(value))
}

/// A number in a `msghdr`, whose types differ between C libraries. A negative one is too large for any use.
fn size(number: impl TryInto<usize>) -> usize {
    number.try_into().unwrap_or(usize::MAX)
}

/// Writes as much ancillary data as there is room for.
///
/// # Safety
/// `msg_control` is null or points to `msg_controllen` writable bytes.
unsafe fn set_control(message: &mut msghdr, items: &[(c_int, Vec<u8>)]) {
    let room = if message.msg_control.is_null() { 0 } else { size(message.msg_controllen) };
    let (bytes, all) = control::encode(items, room);
    if !all {
        message.msg_flags |= libc::MSG_CTRUNC;
    }
    if !bytes.is_empty() {
        // SAFETY: there is room for the bytes, which are this library's own memory.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), message.msg_control.cast(), bytes.len());
        }
    }
    message.msg_controllen = bytes.len() as _;
}
