//! System calls that read and write records, with a descriptor in them.

use std::mem::MaybeUninit;
use std::ptr;

use anabranch_channel::record::{HEADER, Header};
use libc::{c_int, c_uint, c_void, iovec, msghdr};

use crate::next;

/// Room for ancillary data with one descriptor, aligned as its header wants it.
#[repr(C, align(8))]
struct Control([MaybeUninit<u8>; CONTROL]);

const DESCRIPTOR: c_uint = size_of::<c_int>() as c_uint;

// SAFETY: the macro only computes.
const CONTROL: usize = unsafe { libc::CMSG_SPACE(DESCRIPTOR) } as usize;

/// A record that was read.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) length: usize,
    pub(crate) descriptor: Option<c_int>,
}

/// A buffer that is read.
pub(crate) fn piece(bytes: &[u8]) -> iovec {
    iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() }
}

/// A buffer that is written.
pub(crate) fn room(bytes: &mut [u8]) -> iovec {
    iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() }
}

fn message(pieces: *mut iovec, count: usize) -> msghdr {
    // SAFETY: all zero bytes are a valid value.
    let mut message: msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = pieces;
    message.msg_iovlen = count as _;
    message
}

/// Sends a record.
///
/// # Errors
/// As `sendmsg`.
///
/// # Safety
/// The pieces are readable memory. The kernel checks those that the program gave.
pub(crate) unsafe fn send(
    fd: c_int,
    pieces: &[iovec],
    attached: Option<c_int>,
    flags: c_int,
) -> Result<usize, c_int> {
    let mut message = message(pieces.as_ptr().cast_mut(), pieces.len());
    let mut control = Control([const { MaybeUninit::zeroed() }; CONTROL]);
    if let Some(attached) = attached {
        message.msg_control = (&raw mut control).cast();
        message.msg_controllen = CONTROL as _;
        // SAFETY: the room is aligned and has space for a header and a descriptor.
        unsafe {
            let header = libc::CMSG_FIRSTHDR(&raw const message);
            (*header).cmsg_level = libc::SOL_SOCKET;
            (*header).cmsg_type = libc::SCM_RIGHTS;
            (*header).cmsg_len = libc::CMSG_LEN(DESCRIPTOR) as _;
            libc::CMSG_DATA(header).cast::<c_int>().write_unaligned(attached);
        }
    }
    // SAFETY: the caller's promise; the control data are this function's own.
    next::checked(unsafe { next::sendmsg(fd, &raw const message, flags) })
}

/// Reads a record into pieces, which may be shorter than the record.
///
/// # Errors
/// As `recvmsg`.
///
/// # Safety
/// The pieces are writable memory. The kernel checks those that the program gave.
pub(crate) unsafe fn take(fd: c_int, pieces: &mut [iovec], flags: c_int) -> Result<Taken, c_int> {
    let mut message = message(pieces.as_mut_ptr(), pieces.len());
    let mut control = Control([const { MaybeUninit::zeroed() }; CONTROL]);
    message.msg_control = (&raw mut control).cast();
    message.msg_controllen = CONTROL as _;
    // SAFETY: the caller's promise; the control data are this function's own.
    let length = next::checked(unsafe { next::recvmsg(fd, &raw mut message, flags) })?;
    // SAFETY: the kernel has stored this many bytes of control data, or none.
    let header = unsafe { libc::CMSG_FIRSTHDR(&raw const message) };
    if header.is_null() {
        return Ok(Taken { length, descriptor: None });
    }
    // SAFETY: not null, and the room is aligned.
    let (level, kind) = unsafe { ((*header).cmsg_level, (*header).cmsg_type) };
    let is_descriptor = (level, kind) == (libc::SOL_SOCKET, libc::SCM_RIGHTS);
    // SAFETY: there is room for one descriptor, and the kernel stores no part of one.
    let descriptor =
        is_descriptor.then(|| unsafe { libc::CMSG_DATA(header).cast::<c_int>().read_unaligned() });
    Ok(Taken { length, descriptor })
}

/// The header of the first record of a channel, which stays there.
///
/// # Errors
/// As `recvmsg`, which may wait. ENETDOWN: the engine has ended. EIO: it is not a record.
pub(crate) fn look(fd: c_int, flags: c_int) -> Result<Header, c_int> {
    let mut bytes = [0; HEADER];
    let mut message_pieces = [room(&mut bytes)];
    let mut message = message(message_pieces.as_mut_ptr(), 1);
    let flags = (flags & libc::MSG_DONTWAIT) | libc::MSG_PEEK;
    // Without room for descriptors, which would be installed at each look.
    // SAFETY: the piece is this function's own memory.
    match next::checked(unsafe { next::recvmsg(fd, &raw mut message, flags) }) {
        // The engine ends channels with a record, so this is its own end.
        Ok(0) | Err(libc::ECONNRESET) => Err(libc::ENETDOWN),
        Ok(length) => Header::decode(bytes.get(..length).unwrap_or_default()).ok_or(libc::EIO),
        Err(errno) => Err(errno),
    }
}

/// Removes the first record of a channel. Does nothing if there is none.
pub(crate) fn drop_first(fd: c_int) {
    // SAFETY: nothing is stored.
    unsafe { next::recv(fd, ptr::null_mut::<c_void>(), 0, libc::MSG_DONTWAIT) };
}

/// Whether the program wants no call on the descriptor to wait.
pub(crate) fn is_nonblocking(fd: c_int) -> bool {
    // SAFETY: the command has no argument.
    let flags = unsafe { next::fcntl(fd, libc::F_GETFL, ptr::null_mut()) };
    flags >= 0 && flags & libc::O_NONBLOCK != 0
}

/// A time limit of the channel (SO_SNDTIMEO), if there is one.
pub(crate) fn send_limit(fd: c_int) -> Option<libc::timeval> {
    let mut limit = libc::timeval { tv_sec: 0, tv_usec: 0 };
    let mut len = size_of::<libc::timeval>() as libc::socklen_t;
    let (value, len) = ((&raw mut limit).cast(), &raw mut len);
    // SAFETY: the value has room for as many bytes as `len` says.
    let result = unsafe { next::getsockopt(fd, libc::SOL_SOCKET, libc::SO_SNDTIMEO, value, len) };
    (result == 0 && (limit.tv_sec, limit.tv_usec) != (0, 0)).then_some(limit)
}
