//! Calls with several buffers, and calls with several messages.

use anabranch_sockets::Sending;
use libc::{c_int, c_uint, iovec, mmsghdr, ssize_t, timespec};

use super::message::{anabranch_recvmsg, anabranch_sendmsg};
use super::transfer::{receive, send};
use super::{buffers, guard};
use crate::errno::Errno;
use crate::world::find;

/// Sends a message gathered from several buffers.
///
/// # Safety
/// `list` points to `count` entries that point to as many readable bytes as they say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn anabranch_writev(fd: c_int, list: *const iovec, count: c_int) -> ssize_t {
    guard(-1, || {
        let socket = find(fd)?;
        // SAFETY: the caller's promise.
        let data = unsafe { buffers::gather(list, buffers::vector(count)?) }?;
        send(Sending::new(socket, data, Vec::new()), 0)
    })
}

/// Receives (a part of) a message into several buffers.
///
/// # Safety
/// `list` points to `count` entries that point to as many writable bytes as they say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn anabranch_readv(fd: c_int, list: *const iovec, count: c_int) -> ssize_t {
    guard(-1, || {
        let list = (list, buffers::vector(count)?);
        let null = std::ptr::null_mut();
        // SAFETY: the caller's promise.
        let incoming = unsafe { receive(fd, list, 0, null, std::ptr::null_mut()) }?;
        Ok(incoming.length())
    })
}

/// Runs `call` for each message, and stores the result in the message's `msg_len`. An error after the
/// first message only ends the loop, as with the system's calls.
///
/// # Safety
/// `messages` is null or points to `count` headers that are valid for `call`.
unsafe fn each(
    messages: *mut mmsghdr,
    count: c_uint,
    mut call: impl FnMut(&mut mmsghdr, usize) -> ssize_t,
) -> c_int {
    if messages.is_null() {
        Errno::EFAULT.set();
        return -1;
    }
    let mut done = 0;
    for index in 0..count as usize {
        // SAFETY: not null, and the caller's promise.
        let message = unsafe { &mut *messages.add(index) };
        let Ok(length) = c_uint::try_from(call(message, index)) else { break };
        message.msg_len = length;
        done += 1;
    }
    if done == 0 && count > 0 { -1 } else { done }
}

/// Sends several messages. Returns the number sent.
///
/// # Safety
/// `messages` is null or points to `count` headers that are valid for the system's `sendmmsg`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn anabranch_sendmmsg(
    fd: c_int,
    messages: *mut mmsghdr,
    count: c_uint,
    flags: c_int,
) -> c_int {
    let send = |message: &mut mmsghdr, _| {
        // SAFETY: the caller's promise.
        unsafe { anabranch_sendmsg(fd, &raw const message.msg_hdr, flags) }
    };
    // SAFETY: the caller's promise.
    unsafe { each(messages, count, send) }
}

/// Receives several messages. Returns the number received. With MSG_WAITFORONE the call waits for the
/// first message only. Other time limits are not supported: `timeout` must be null.
///
/// # Safety
/// `messages` is null or points to `count` headers that are valid for the system's `recvmmsg`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn anabranch_recvmmsg(
    fd: c_int,
    messages: *mut mmsghdr,
    count: c_uint,
    flags: c_int,
    timeout: *mut timespec,
) -> c_int {
    if !timeout.is_null() {
        Errno::EOPNOTSUPP.set();
        return -1;
    }
    let receive = |message: &mut mmsghdr, index: usize| {
        let waits = index == 0 || flags & libc::MSG_WAITFORONE == 0;
        let flags = (flags & !libc::MSG_WAITFORONE) | if waits { 0 } else { libc::MSG_DONTWAIT };
        // SAFETY: the caller's promise.
        unsafe { anabranch_recvmsg(fd, &raw mut message.msg_hdr, flags) }
    };
    // SAFETY: the caller's promise.
    unsafe { each(messages, count, receive) }
}
