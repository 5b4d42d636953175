//! `getsockopt` and `setsockopt`. Time limits stay with the kernel, which waits; calls that Linux makes by options
//! (libsctp is built on them) become calls; the engine knows all others.

use std::ffi::c_void;

use anabranch_channel::call::{BIND_LESS, BIND_MORE, Operation};
use anabranch_channel::linux::by_option::{
    BINDX_ADD, BINDX_REM, CONNECTX, CONNECTX_OLD, CONNECTX3, GET_LOCAL_ADDRS, GET_PEER_ADDRS,
    PEELOFF, PEELOFF_FLAGS,
};
use anabranch_channel::name::Channel;
use libc::{c_int, socklen_t};

use crate::engine::{self, Call};
use crate::{known, next, records};

/// Maximum bytes of an option that the engine reads.
const MOST: usize = 4096;

/// Maximum bytes of the addresses of a socket: more than an association has.
pub(crate) const MOST_ADDRESSES: usize = 256 * 28;

/// Whether the kernel keeps an option of the channel.
fn is_kernels(level: c_int, name: c_int) -> bool {
    level == libc::SOL_SOCKET && matches!(name, libc::SO_RCVTIMEO | libc::SO_SNDTIMEO)
}

/// # Safety
/// `value` is null or points to `len` readable bytes.
pub(crate) unsafe fn set(
    fd: c_int,
    channel: Channel,
    (level, name): (c_int, c_int),
    value: *const c_void,
    len: socklen_t,
) -> Result<c_int, c_int> {
    let length = usize::try_from(len.cast_signed()).map_err(|_| libc::EINVAL)?;
    if is_kernels(level, name) {
        // SAFETY: the caller's promise.
        let result = unsafe { next::setsockopt(fd, level, name, value, len) };
        return if result == 0 { Ok(0) } else { Err(next::errno()) };
    }
    if value.is_null() {
        return Err(libc::EFAULT);
    }
    // SAFETY: not null, and the caller's promise.
    let data = unsafe { std::slice::from_raw_parts(value.cast::<u8>(), length) };
    if level == libc::IPPROTO_SCTP {
        match name {
            BINDX_ADD => return bind(channel, BIND_MORE, data),
            BINDX_REM => return bind(channel, BIND_LESS, data),
            CONNECTX_OLD => return connect(fd, channel, data, |_| {}).map(|_| 0),
            CONNECTX => return connect(fd, channel, data, |_| {}),
            _ => {}
        }
    }
    if (level, name) == (libc::SOL_SOCKET, libc::SO_SNDBUF) {
        // It also limits the length of a message.
        // SAFETY: the caller's promise.
        unsafe { next::setsockopt(fd, level, name, value, len) };
    }
    let data = data.get(..length.min(MOST)).unwrap_or_default();
    let (handle, arguments) = (channel.handle, [level, name, 0]);
    let attached = (level == libc::IPPROTO_SCTP).then_some(fd);
    let call = Call { handle, arguments, data, attached, ..Call::default() };
    engine::call(Operation::SetOption, call, &mut []).map(|_| 0)
}

/// # Safety
/// `len` is null or valid, and `value` is null or points to `*len` bytes.
pub(crate) unsafe fn get(
    fd: c_int,
    channel: Channel,
    (level, name): (c_int, c_int),
    value: *mut c_void,
    len: *mut socklen_t,
) -> Result<c_int, c_int> {
    if is_kernels(level, name) {
        // SAFETY: the caller's promise.
        let result = unsafe { next::getsockopt(fd, level, name, value, len) };
        return if result == 0 { Ok(0) } else { Err(next::errno()) };
    }
    if value.is_null() || len.is_null() {
        return Err(libc::EFAULT);
    }
    // SAFETY: not null, and the caller's promise.
    let room = unsafe { len.read_unaligned() }.cast_signed();
    let room = usize::try_from(room).map_err(|_| libc::EINVAL)?;
    // SAFETY: not null, and the caller's promise.
    let bytes = unsafe { std::slice::from_raw_parts_mut(value.cast::<u8>(), room) };
    let used = match (level, name) {
        (libc::IPPROTO_SCTP, GET_PEER_ADDRS) => list(channel, Operation::PeerAddresses, bytes)?,
        (libc::IPPROTO_SCTP, GET_LOCAL_ADDRS) => list(channel, Operation::LocalAddresses, bytes)?,
        // SAFETY: the structure has a pointer that the caller promises.
        (libc::IPPROTO_SCTP, CONNECTX3) => return unsafe { connectx(fd, channel, bytes) },
        (libc::IPPROTO_SCTP, PEELOFF | PEELOFF_FLAGS) => return peel(fd, channel, bytes),
        _ => ask(channel, (level, name), bytes)?,
    };
    // SAFETY: not null, and the caller's promise.
    unsafe { len.write_unaligned(used as socklen_t) };
    Ok(0)
}

/// Asks the engine for an option.
fn ask(channel: Channel, (level, name): (c_int, c_int), bytes: &mut [u8]) -> Result<usize, c_int> {
    let mut given = [0; MOST];
    let known = bytes.len().min(MOST);
    let (Some(given), Some(from)) = (given.get_mut(..known), bytes.get(..known)) else {
        return Err(libc::EINVAL);
    };
    given.copy_from_slice(from);
    let room = c_int::try_from(bytes.len()).map_err(|_| libc::EINVAL)?;
    let (handle, arguments) = (channel.handle, [level, name, room]);
    let call = Call { handle, arguments, data: given, ..Call::default() };
    Ok(engine::call(Operation::GetOption, call, bytes)?.length)
}

/// SCTP_GET_PEER_ADDRS and SCTP_GET_LOCAL_ADDRS: an association and a number, then addresses.
fn list(channel: Channel, operation: Operation, bytes: &mut [u8]) -> Result<usize, c_int> {
    let (head, room) = bytes.split_at_mut_checked(8).ok_or(libc::EINVAL)?;
    let (id, number) = head.split_at_mut(4);
    let id = c_int::from_ne_bytes(id.first_chunk().copied().ok_or(libc::EINVAL)?);
    let mut addresses = [0; MOST_ADDRESSES];
    let (count, length) = addresses_of(channel, operation, id, &mut addresses)?;
    let (Some(room), Some(found)) = (room.get_mut(..length), addresses.get(..length)) else {
        return Err(libc::ENOMEM);
    };
    room.copy_from_slice(found);
    number.copy_from_slice(&count.to_ne_bytes());
    Ok(8 + length)
}

/// Stores the addresses of an association. Returns their number, and the bytes that they take.
pub(crate) fn addresses_of(
    channel: Channel,
    operation: Operation,
    id: c_int,
    room: &mut [u8],
) -> Result<(c_int, usize), c_int> {
    let call = Call { handle: channel.handle, arguments: [id, 0, 0], ..Call::default() };
    let answered = engine::call(operation, call, room)?;
    Ok((answered.value, answered.length))
}

/// Binds a socket to addresses.
pub(crate) fn bind(channel: Channel, how: c_int, addresses: &[u8]) -> Result<c_int, c_int> {
    let (handle, arguments) = (channel.handle, [how, 0, 0]);
    let call = Call { handle, arguments, data: addresses, ..Call::default() };
    engine::call(Operation::Bind, call, &mut []).map(|_| 0)
}

/// Sets up an association, and calls `begun` with its number as soon as it is known. Returns the number.
///
/// # Errors
/// EINPROGRESS: the caller does not want to wait, or SO_SNDTIMEO has expired. Otherwise as `connect`.
pub(crate) fn connect(
    fd: c_int,
    channel: Channel,
    addresses: &[u8],
    begun: impl FnOnce(c_int),
) -> Result<c_int, c_int> {
    let nonblocking = records::is_nonblocking(fd);
    let call = Call {
        handle: channel.handle,
        data: addresses,
        attached: nonblocking.then_some(fd),
        limit: if nonblocking { None } else { records::send_limit(fd) },
        interruptible: true,
        left_behind: (!nonblocking).then_some(fd),
        ..Call::default()
    };
    match engine::call(Operation::Connect, call, &mut []) {
        Ok(answered) => {
            begun(answered.value);
            if nonblocking { Err(libc::EINPROGRESS) } else { Ok(answered.value) }
        }
        // The setup goes on without the caller.
        Err(libc::EAGAIN) => Err(libc::EINPROGRESS),
        Err(errno) => Err(errno),
    }
}

/// SCTP_SOCKOPT_CONNECTX3: an association to store, the length of the addresses, and a pointer to them.
///
/// # Safety
/// The pointer in the structure points to as many bytes as the length says.
unsafe fn connectx(fd: c_int, channel: Channel, bytes: &mut [u8]) -> Result<c_int, c_int> {
    const POINTER: usize = size_of::<usize>();
    let length = bytes.get(4..8).and_then(<[u8]>::first_chunk).copied().ok_or(libc::EINVAL)?;
    let length = usize::try_from(c_int::from_ne_bytes(length)).map_err(|_| libc::EINVAL)?;
    let pointer = bytes.get(8..8 + POINTER).ok_or(libc::EINVAL)?.as_ptr().cast::<*const u8>();
    // SAFETY: there are as many bytes as a pointer has.
    let addresses = unsafe { pointer.read_unaligned() };
    if addresses.is_null() {
        return Err(libc::EFAULT);
    }
    // SAFETY: not null, and the caller's promise.
    let addresses = unsafe { std::slice::from_raw_parts(addresses, length) };
    let id = bytes.get_mut(..4).ok_or(libc::EINVAL)?;
    connect(fd, channel, addresses, |number| id.copy_from_slice(&number.to_ne_bytes())).map(|_| 0)
}

/// SCTP_SOCKOPT_PEELOFF: an association, and a place for the descriptor; with flags after them in the newer form.
fn peel(fd: c_int, channel: Channel, bytes: &mut [u8]) -> Result<c_int, c_int> {
    let field = |at: usize| bytes.get(at..)?.first_chunk().copied().map(c_int::from_ne_bytes);
    let (id, flags) = (field(0).ok_or(libc::EINVAL)?, field(8).unwrap_or(0));
    let place = bytes.get_mut(4..8).ok_or(libc::EINVAL)?;
    let peeled = peel_off(fd, channel, id, flags)?;
    place.copy_from_slice(&peeled.to_ne_bytes());
    Ok(peeled)
}

/// Moves an association to a socket of its own. Returns the descriptor.
pub(crate) fn peel_off(
    fd: c_int,
    channel: Channel,
    id: c_int,
    flags: c_int,
) -> Result<c_int, c_int> {
    if flags & !(libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC) != 0 {
        return Err(libc::EINVAL);
    }
    let call = Call {
        handle: channel.handle,
        arguments: [id, 0, 0],
        attached: Some(fd),
        close_on_exec: flags & libc::SOCK_CLOEXEC != 0,
        ..Call::default()
    };
    let answered = engine::call(Operation::PeelOff, call, &mut [])?;
    let descriptor = lowest(answered.descriptor.ok_or(libc::EMFILE)?, flags)?;
    crate::accepting::set_nonblocking(descriptor, flags);
    Ok(descriptor)
}

/// The descriptor with the lowest free number: the connection of the call had it.
pub(crate) fn lowest(fd: c_int, flags: c_int) -> Result<c_int, c_int> {
    let cloexec = flags & libc::SOCK_CLOEXEC != 0;
    let command = if cloexec { libc::F_DUPFD_CLOEXEC } else { libc::F_DUPFD };
    // SAFETY: the argument of this command is a number.
    let copy = unsafe { next::fcntl(fd, command, std::ptr::null_mut()) };
    let (kept, closed) = if (0..fd).contains(&copy) { (copy, fd) } else { (fd, copy) };
    if closed >= 0 {
        // SAFETY: the descriptor is this function's own.
        unsafe { libc::close(closed) };
    }
    known::forget(kept);
    Ok(kept)
}
