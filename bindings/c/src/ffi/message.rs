//! Sending and receiving with the calls of the POSIX socket interface.

use std::ffi::c_void;
use std::sync::Arc;

use bytes::Bytes;
use libc::{c_int, iovec, msghdr, sockaddr, socklen_t, ssize_t};

use super::{buffers, guard, length};
use crate::abi::{
    self, IPPROTO_SCTP, Initmsg, Plain, Prinfo, Rcvinfo, Sndinfo, Sndrcvinfo, event, flag,
};
use crate::address;
use crate::errno::Errno;
use crate::socket::options::Options;
use crate::socket::{Outgoing, Received, Socket, Taken, Target, find};

/// Types of ancillary data.
const SCTP_INIT: c_int = 0;
const SCTP_SNDRCV: c_int = 1;
const SCTP_SNDINFO: c_int = 2;
const SCTP_RCVINFO: c_int = 3;
const SCTP_NXTINFO: c_int = 4;
const SCTP_PRINFO: c_int = 5;

/// A message as the options of its socket say.
pub(super) fn by_default(options: &Options, data: Bytes) -> (Outgoing, i32) {
    let info = options.default_send;
    let outgoing = Outgoing {
        stream: info.sid,
        flags: info.flags,
        ppid: info.ppid,
        context: info.context,
        lifetime: options.default_lifetime,
        data,
    };
    (outgoing, info.assoc_id)
}

/// Sends a message with what the socket's options say.
fn send_plain(
    socket: &Arc<Socket>,
    target: Target,
    data: Bytes,
    flags: c_int,
) -> Result<ssize_t, Errno> {
    let (outgoing, id) = socket.with(|state| by_default(&state.options, data));
    let target = if target.remotes.is_empty() { Target { id, ..target } } else { target };
    socket.send(&target, &outgoing, flags).map(length)
}

/// Sends a message as the socket's options say.
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
        let mut target = Target::default();
        if !to.is_null() {
            // SAFETY: the caller's promise.
            target.remotes.push(unsafe { address::read(to, tolen) }?);
        }
        send_plain(&socket, target, data, flags)
    })
}

/// Sends a message with ancillary data: SCTP_SNDINFO, SCTP_PRINFO, SCTP_SNDRCV, SCTP_INIT
/// (RFC 6458 section 5.3).
///
/// # Safety
/// `message` is null or as `sendmsg` of the system wants it.
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
        let data = unsafe { buffers::gather(message.msg_iov, message.msg_iovlen) }?;
        let mut target = Target::default();
        if !message.msg_name.is_null() {
            let name = message.msg_name.cast_const().cast();
            // SAFETY: the caller's promise.
            target.remotes.push(unsafe { address::read(name, message.msg_namelen) }?);
        }
        let (mut outgoing, id) = socket.with(|state| by_default(&state.options, data));
        target.id = if target.remotes.is_empty() { id } else { 0 };
        // SAFETY: the caller's promise.
        for (kind, bytes) in unsafe { control(message) } {
            match kind {
                SCTP_SNDINFO => {
                    let info: Sndinfo = abi::from_bytes(&bytes).ok_or(Errno::EINVAL)?;
                    apply(&mut outgoing, &mut target, info);
                }
                SCTP_SNDRCV => {
                    let info: Sndrcvinfo = abi::from_bytes(&bytes).ok_or(Errno::EINVAL)?;
                    apply_sndrcv(&mut outgoing, &mut target, &info);
                }
                SCTP_PRINFO => {
                    let info: Prinfo = abi::from_bytes(&bytes).ok_or(Errno::EINVAL)?;
                    apply_prinfo(&mut outgoing, info)?;
                }
                SCTP_INIT => {
                    let init: Initmsg = abi::from_bytes(&bytes).ok_or(Errno::EINVAL)?;
                    super::options::set_init(&socket, init)?;
                }
                _ => return Err(Errno::EINVAL),
            }
        }
        socket.send(&target, &outgoing, flags).map(length)
    })
}

/// What SCTP_SNDINFO says.
pub(super) fn apply(outgoing: &mut Outgoing, target: &mut Target, info: Sndinfo) {
    outgoing.stream = info.sid;
    outgoing.flags = info.flags;
    outgoing.ppid = info.ppid;
    outgoing.context = info.context;
    if info.assoc_id != 0 {
        target.id = info.assoc_id;
    }
}

/// What SCTP_SNDRCV says; its time to live is in milliseconds, and 0 is for ever.
pub(super) fn apply_sndrcv(outgoing: &mut Outgoing, target: &mut Target, info: &Sndrcvinfo) {
    let Sndrcvinfo { stream, flags, ppid, context, assoc_id, .. } = *info;
    apply(outgoing, target, Sndinfo { sid: stream, flags, ppid, context, assoc_id });
    outgoing.lifetime = lifetime(info.timetolive);
}

/// What SCTP_PRINFO says. Without partial reliability (RFC 3758) only a time to live has a
/// meaning: what was not sent until then is not sent any more.
pub(super) fn apply_prinfo(outgoing: &mut Outgoing, info: Prinfo) -> Result<(), Errno> {
    match info.policy & flag::PR_MASK {
        0 => outgoing.lifetime = None,
        flag::PR_TTL => outgoing.lifetime = lifetime(info.value),
        _ => return Err(Errno::EOPNOTSUPP),
    }
    Ok(())
}

/// A time to live in milliseconds.
pub(super) fn lifetime(milliseconds: u32) -> Option<std::time::Duration> {
    (milliseconds > 0).then(|| std::time::Duration::from_millis(milliseconds.into()))
}

/// SCTP's ancillary data of a message.
///
/// # Safety
/// `msg_control` is null or points to `msg_controllen` readable bytes.
unsafe fn control(message: &msghdr) -> Vec<(c_int, Vec<u8>)> {
    let mut found = Vec::new();
    // SAFETY: the macros look at no more than `msg_controllen` bytes.
    let mut at = unsafe { libc::CMSG_FIRSTHDR(message) };
    while !at.is_null() {
        // SAFETY: the macros return headers that lie within the data.
        let (header, data) = unsafe { (std::ptr::read_unaligned(at), libc::CMSG_DATA(at)) };
        let start = (data as usize).saturating_sub(message.msg_control as usize);
        let left = message.msg_controllen.saturating_sub(start);
        // SAFETY: has no preconditions.
        let before = unsafe { libc::CMSG_LEN(0) } as usize;
        let len = header.cmsg_len.saturating_sub(before).min(left);
        if header.cmsg_level == IPPROTO_SCTP {
            // SAFETY: so many bytes follow within the data.
            let bytes = unsafe { std::slice::from_raw_parts(data, len) };
            found.push((header.cmsg_type, bytes.to_vec()));
        }
        // SAFETY: as for the first one.
        at = unsafe { libc::CMSG_NXTHDR(message, at) };
    }
    found
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

/// Receives (a part of) a message, with a peer's address.
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
        let socket = find(fd)?;
        let entry = iovec { iov_base: buffer, iov_len: len };
        // SAFETY: the caller's promise.
        let (received, count) = unsafe { receive(&socket, &raw const entry, 1, flags) }?;
        if let Some(peer) = received.from {
            // SAFETY: the caller's promise.
            unsafe { address::write(socket.show(peer), from, fromlen) };
        }
        Ok(length(count))
    })
}

/// Receives into buffers. Returns the bytes that they got.
///
/// # Safety
/// As [`buffers::scatter`].
pub(super) unsafe fn receive(
    socket: &Socket,
    list: *const iovec,
    count: usize,
    flags: c_int,
) -> Result<(Received, usize), Errno> {
    // SAFETY: the caller's promise.
    let room = unsafe { buffers::room(list, count) }?;
    let received = socket.receive(room, flags)?;
    // SAFETY: the caller's promise.
    let copied = unsafe { buffers::scatter(&received.data, list, count) }?;
    Ok((received, copied))
}

/// The flags of what was received.
pub(super) fn flags_of(received: &Received) -> c_int {
    let kind = match received.taken {
        Taken::Notification => flag::MSG_NOTIFICATION,
        Taken::Message { .. } | Taken::End => 0,
    };
    kind | if received.end { libc::MSG_EOR } else { 0 }
}

/// SCTP_SNDRCV of what was received.
pub(super) fn sndrcv(info: Rcvinfo) -> Sndrcvinfo {
    Sndrcvinfo {
        stream: info.sid,
        ssn: info.ssn,
        flags: info.flags,
        ppid: info.ppid,
        tsn: info.tsn,
        cumtsn: info.cumtsn,
        context: info.context,
        assoc_id: info.assoc_id,
        ..Sndrcvinfo::default()
    }
}

/// Receives (a part of) a message, with the ancillary data that the socket is told to give.
///
/// # Safety
/// `message` is null or as `recvmsg` of the system wants it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn anabranch_recvmsg(
    fd: c_int,
    message: *mut msghdr,
    flags: c_int,
) -> ssize_t {
    guard(-1, || {
        let socket = find(fd)?;
        if message.is_null() {
            return Err(Errno::EFAULT);
        }
        // SAFETY: not null, and the caller's promise.
        let message = unsafe { &mut *message };
        let (list, count) = (message.msg_iov, message.msg_iovlen);
        // SAFETY: the caller's promise.
        let (received, copied) = unsafe { receive(&socket, list, count, flags) }?;
        if let Some(peer) = received.from {
            let (name, len) = (message.msg_name.cast(), &raw mut message.msg_namelen);
            // SAFETY: the caller's promise.
            unsafe { address::write(socket.show(peer), name, len) };
        }
        message.msg_flags = flags_of(&received);
        let mut items = Vec::new();
        if let Taken::Message { info, next } = &received.taken {
            let wanted = socket.with(|state| {
                let sndrcv = state.options.events.contains(&event::DATA_IO);
                (state.options.rcvinfo, state.options.nxtinfo, sndrcv)
            });
            if wanted.0 {
                items.push(item(SCTP_RCVINFO, info));
            }
            if let Some(next) = next.filter(|_| wanted.1) {
                items.push(item(SCTP_NXTINFO, &next));
            }
            if wanted.2 {
                items.push(item(SCTP_SNDRCV, &sndrcv(*info)));
            }
        }
        // SAFETY: the caller's promise.
        unsafe { set_control(message, &items) };
        Ok(length(copied))
    })
}

fn item<T: Plain>(kind: c_int, value: &T) -> (c_int, Vec<u8>) {
    (kind, abi::to_bytes(value))
}

/// Writes ancillary data, as much as there is room for.
///
/// # Safety
/// `msg_control` is null or points to `msg_controllen` writable bytes.
unsafe fn set_control(message: &mut msghdr, items: &[(c_int, Vec<u8>)]) {
    let room = if message.msg_control.is_null() { 0 } else { message.msg_controllen };
    let mut used = 0;
    for (kind, bytes) in items {
        let len = bytes.len() as libc::c_uint;
        // SAFETY: have no preconditions.
        let (space, with_header) =
            unsafe { (libc::CMSG_SPACE(len) as usize, libc::CMSG_LEN(len) as usize) };
        if space > room - used {
            message.msg_flags |= libc::MSG_CTRUNC;
            break;
        }
        let mut header: libc::cmsghdr = {
            // SAFETY: a structure of numbers.
            unsafe { std::mem::zeroed() }
        };
        header.cmsg_len = with_header as _;
        header.cmsg_level = IPPROTO_SCTP;
        header.cmsg_type = *kind;
        // SAFETY: `space` bytes are left at this place, and the header and the data fit there.
        unsafe {
            let at = message.msg_control.cast::<u8>().add(used);
            std::ptr::write_unaligned(at.cast(), header);
            let data = at.add(with_header - bytes.len());
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), data, bytes.len());
        }
        used += space;
    }
    message.msg_controllen = used as _;
}
