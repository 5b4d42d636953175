//! The calls of POSIX and Linux on sockets.

use std::ffi::c_void;

use anabranch_channel::call::{BIND, Operation};
use anabranch_channel::linux::items_within;
use anabranch_channel::name::Channel;
use libc::{c_int, c_uint, iovec, mmsghdr, msghdr, size_t, sockaddr, socklen_t, ssize_t, timespec};

use crate::arguments::{address, give_address, length, number, pieces};
use crate::engine::{self, Call};
use crate::sending::Message;
use crate::tcp::Which;
use crate::{accepting, known, next, options, ours, receiving, sending, tcp};

/// Bytes of the longest address.
const MOST_ADDRESS: usize = 32;

/// Whether `socket` means SCTP.
fn is_sctp(domain: c_int, kind: c_int, protocol: c_int) -> bool {
    let kind = kind & !(libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC);
    matches!(domain, libc::AF_INET | libc::AF_INET6)
        && (protocol == libc::IPPROTO_SCTP || (protocol == 0 && kind == libc::SOCK_SEQPACKET))
        // A raw socket sees packets.
        && kind != libc::SOCK_RAW
}

fn open(domain: c_int, kind: c_int, protocol: c_int) -> Result<c_int, c_int> {
    let close_on_exec = kind & libc::SOCK_CLOEXEC != 0;
    let call = Call { arguments: [domain, kind, protocol], close_on_exec, ..Call::default() };
    let answered = engine::call(Operation::Socket, call, &mut []).map_err(|errno| match errno {
        // As in a kernel without SCTP.
        libc::ENETDOWN => libc::EPROTONOSUPPORT,
        errno => errno,
    })?;
    let descriptor = options::lowest(answered.descriptor.ok_or(libc::EMFILE)?, kind)?;
    accepting::set_nonblocking(descriptor, kind);
    known::open();
    Ok(descriptor)
}

/// # Safety
/// None.
#[unsafe(no_mangle)]
unsafe extern "C" fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    if !engine::is_found() || !is_sctp(domain, kind, protocol) {
        // SAFETY: the call has no preconditions.
        return unsafe { next::socket(domain, kind, protocol) };
    }
    number(open(domain, kind, protocol))
}

/// # Safety
/// As in libc; so are all functions here.
#[unsafe(no_mangle)]
unsafe extern "C" fn bind(fd: c_int, to: *const sockaddr, len: socklen_t) -> c_int {
    let Some(channel) = ours::find(fd) else {
        // SAFETY: the caller's promise.
        return unsafe { next::bind(fd, to, len) };
    };
    // SAFETY: the caller's promise.
    let to = unsafe { address(to, len) };
    number(to.and_then(|to| options::bind(channel, BIND, to)))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn listen(fd: c_int, backlog: c_int) -> c_int {
    let Some(channel) = ours::find(fd) else {
        // SAFETY: the caller's promise.
        let result = unsafe { next::listen(fd, backlog) };
        return if result == 0 { number(tcp::listens(fd).map(|()| 0)) } else { result };
    };
    let call = Call { handle: channel.handle, arguments: [backlog, 0, 0], ..Call::default() };
    number(engine::call(Operation::Listen, call, &mut []).map(|_| 0))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn connect(fd: c_int, to: *const sockaddr, len: socklen_t) -> c_int {
    let Some(channel) = ours::find(fd) else {
        // SAFETY: the caller's promise.
        return match unsafe { tcp::connect(fd, to, len) } {
            Some(result) => number(result),
            // SAFETY: the caller's promise.
            None => unsafe { next::connect(fd, to, len) },
        };
    };
    // SAFETY: the caller's promise.
    let to = unsafe { address(to, len) };
    number(to.and_then(|to| options::connect(fd, channel, to, |_| {})).map(|_| 0))
}

unsafe fn accept_ours(
    fd: c_int,
    channel: Channel,
    from: *mut sockaddr,
    len: *mut socklen_t,
    flags: c_int,
) -> c_int {
    number(accepting::accept(fd, channel, flags).map(|(descriptor, header)| {
        // SAFETY: the caller's promise.
        unsafe { give_address(header.name(), from, len) };
        descriptor
    }))
}

/// Repeats the kernel's `accept` until it returns a connection that the program may have.
unsafe fn accept_tcp(
    from: *mut sockaddr,
    len: *mut socklen_t,
    accept: impl Fn() -> c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    let room = unsafe { tcp::room(len) };
    loop {
        let accepted = accept();
        if accepted < 0 || !tcp::is_on() {
            return accepted;
        }
        if !tcp::is_unwanted(accepted) {
            // SAFETY: the caller's promise.
            unsafe { tcp::correct_name(accepted, Which::Peer, from, len, room) };
            return accepted;
        }
        // SAFETY: the descriptor is this function's own, and the length the caller's.
        unsafe {
            libc::close(accepted);
            if !len.is_null() {
                len.write_unaligned(room);
            }
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn accept(fd: c_int, from: *mut sockaddr, len: *mut socklen_t) -> c_int {
    match ours::find(fd) {
        // SAFETY: the caller's promise.
        None => unsafe { accept_tcp(from, len, || next::accept(fd, from, len)) },
        // SAFETY: the caller's promise.
        Some(channel) => unsafe { accept_ours(fd, channel, from, len, 0) },
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn accept4(
    fd: c_int,
    from: *mut sockaddr,
    len: *mut socklen_t,
    flags: c_int,
) -> c_int {
    match ours::find(fd) {
        // SAFETY: the caller's promise.
        None => unsafe { accept_tcp(from, len, || next::accept4(fd, from, len, flags)) },
        // SAFETY: the caller's promise.
        Some(channel) => unsafe { accept_ours(fd, channel, from, len, flags) },
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn shutdown(fd: c_int, how: c_int) -> c_int {
    let Some(channel) = ours::find(fd) else {
        // SAFETY: the call has no preconditions.
        return unsafe { next::shutdown(fd, how) };
    };
    if channel.one_to_many {
        return number(Err(libc::EOPNOTSUPP));
    }
    known::forget_sent(fd);
    number(sending::shut_down(fd, channel, how).map(|()| 0))
}

unsafe fn name(
    operation: Operation,
    channel: Channel,
    to: *mut sockaddr,
    len: *mut socklen_t,
) -> c_int {
    if to.is_null() || len.is_null() {
        return number(Err(libc::EFAULT));
    }
    let mut bytes = [0; MOST_ADDRESS];
    let call = Call { handle: channel.handle, ..Call::default() };
    number(engine::call(operation, call, &mut bytes).map(|answered| {
        let found = bytes.get(..answered.length).unwrap_or_default();
        // SAFETY: the caller's promise.
        unsafe { give_address(found, to, len) };
        0
    }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn getsockname(fd: c_int, to: *mut sockaddr, len: *mut socklen_t) -> c_int {
    match ours::find(fd) {
        // SAFETY: the caller's promise.
        None => unsafe {
            let room = tcp::room(len);
            let result = next::getsockname(fd, to, len);
            if result == 0 {
                tcp::correct_name(fd, Which::Own, to, len, room);
            }
            result
        },
        // SAFETY: the caller's promise.
        Some(channel) => unsafe { name(Operation::Name, channel, to, len) },
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn getpeername(fd: c_int, to: *mut sockaddr, len: *mut socklen_t) -> c_int {
    match ours::find(fd) {
        // SAFETY: the caller's promise.
        None => unsafe {
            let room = tcp::room(len);
            let result = next::getpeername(fd, to, len);
            if result == 0 {
                tcp::correct_name(fd, Which::Peer, to, len, room);
            }
            result
        },
        // SAFETY: the caller's promise.
        Some(channel) => unsafe { name(Operation::PeerName, channel, to, len) },
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn getsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut socklen_t,
) -> c_int {
    match ours::find(fd) {
        // SAFETY: the caller's promise.
        None => unsafe {
            let result = next::getsockopt(fd, level, name, value, len);
            if result == 0 {
                tcp::correct_error(fd, level, name, value);
            }
            result
        },
        // SAFETY: the caller's promise.
        Some(channel) => number(unsafe { options::get(fd, channel, (level, name), value, len) }),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn setsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    len: socklen_t,
) -> c_int {
    match ours::find(fd) {
        // SAFETY: the caller's promise.
        None => unsafe { next::setsockopt(fd, level, name, value, len) },
        // SAFETY: the caller's promise.
        Some(channel) => number(unsafe { options::set(fd, channel, (level, name), value, len) }),
    }
}

/// Sends one buffer.
unsafe fn send_one(
    fd: c_int,
    channel: Channel,
    data: *const c_void,
    len: size_t,
    message: Message<'_>,
) -> ssize_t {
    let piece = iovec { iov_base: data.cast_mut(), iov_len: len };
    // SAFETY: the caller's promise.
    length(unsafe { sending::send(fd, channel, &[piece], message) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn send(fd: c_int, data: *const c_void, len: size_t, flags: c_int) -> ssize_t {
    let Some(channel) = ours::find(fd) else {
        // SAFETY: the caller's promise.
        return unsafe { next::send(fd, data, len, flags) };
    };
    // SAFETY: the caller's promise.
    unsafe { send_one(fd, channel, data, len, Message { flags, ..Message::default() }) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sendto(
    fd: c_int,
    data: *const c_void,
    len: size_t,
    flags: c_int,
    to: *const sockaddr,
    tolen: socklen_t,
) -> ssize_t {
    let Some(channel) = ours::find(fd) else {
        // SAFETY: the caller's promise.
        return unsafe { next::sendto(fd, data, len, flags, to, tolen) };
    };
    let name: &[u8] = if to.is_null() {
        &[]
    } else {
        // SAFETY: not null, and the caller's promise.
        match unsafe { address(to, tolen) } {
            Ok(name) => name,
            Err(errno) => return length(Err(errno)),
        }
    };
    // SAFETY: the caller's promise.
    unsafe { send_one(fd, channel, data, len, Message { name, flags, ..Message::default() }) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn write(fd: c_int, data: *const c_void, len: size_t) -> ssize_t {
    let Some(channel) = ours::find(fd) else {
        // SAFETY: the caller's promise.
        return unsafe { next::write(fd, data, len) };
    };
    // SAFETY: the caller's promise.
    unsafe { send_one(fd, channel, data, len, Message::default()) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn writev(fd: c_int, list: *const iovec, count: c_int) -> ssize_t {
    let Some(channel) = ours::find(fd) else {
        // SAFETY: the caller's promise.
        return unsafe { next::writev(fd, list, count) };
    };
    // SAFETY: the caller's promise.
    let list = match unsafe { vector(list, count) } {
        Ok(list) => list,
        Err(errno) => return length(Err(errno)),
    };
    // SAFETY: the caller's promise.
    length(unsafe { sending::send(fd, channel, list, Message::default()) })
}

/// The buffers of `readv` and `writev`, which have EINVAL for too many.
unsafe fn vector<'a>(list: *const iovec, count: c_int) -> Result<&'a [iovec], c_int> {
    let count = usize::try_from(count).map_err(|_| libc::EINVAL)?;
    // SAFETY: the caller's promise.
    unsafe { pieces(list, count) }.map_err(|errno| match errno {
        libc::EMSGSIZE => libc::EINVAL,
        errno => errno,
    })
}

unsafe fn send_message(
    fd: c_int,
    channel: Channel,
    message: *const msghdr,
    flags: c_int,
) -> Result<usize, c_int> {
    if message.is_null() {
        return Err(libc::EFAULT);
    }
    // SAFETY: not null, and the caller's promise.
    let message = unsafe { &*message };
    // SAFETY: the caller's promise.
    let list = unsafe { pieces(message.msg_iov, message.msg_iovlen) }?;
    let name: &[u8] = if message.msg_name.is_null() || message.msg_namelen == 0 {
        &[]
    } else {
        // SAFETY: not null, and the caller's promise.
        unsafe { address(message.msg_name.cast_const().cast(), message.msg_namelen) }?
    };
    let control: &[u8] = if message.msg_control.is_null() || message.msg_controllen == 0 {
        &[]
    } else {
        let (control, len) = (message.msg_control.cast_const().cast(), message.msg_controllen);
        // SAFETY: not null, and the caller's promise.
        unsafe { std::slice::from_raw_parts(control, len) }
    };
    // SAFETY: the caller's promise.
    unsafe { sending::send(fd, channel, list, Message { name, control, flags }) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
    match ours::find(fd) {
        // SAFETY: the caller's promise.
        None => unsafe { next::sendmsg(fd, message, flags) },
        // SAFETY: the caller's promise.
        Some(channel) => length(unsafe { send_message(fd, channel, message, flags) }),
    }
}

/// Repeats a call for each message, until one fails. Returns how many did not; the error if the first did.
unsafe fn each(
    messages: *mut mmsghdr,
    count: c_uint,
    mut call: impl FnMut(&mut mmsghdr, usize) -> Result<usize, c_int>,
) -> c_int {
    if messages.is_null() {
        return number(Err(libc::EFAULT));
    }
    let mut done = 0;
    for index in 0..count.min(1024) {
        // SAFETY: not null, and the caller's promise.
        let message = unsafe { &mut *messages.add(index as usize) };
        match call(message, index as usize) {
            Ok(length) => message.msg_len = c_uint::try_from(length).unwrap_or(c_uint::MAX),
            Err(errno) if done == 0 => return number(Err(errno)),
            Err(_) => break,
        }
        done += 1;
    }
    done
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sendmmsg(
    fd: c_int,
    messages: *mut mmsghdr,
    count: c_uint,
    flags: c_int,
) -> c_int {
    let Some(channel) = ours::find(fd) else {
        // SAFETY: the caller's promise.
        return unsafe { next::sendmmsg(fd, messages, count, flags) };
    };
    let send = |message: &mut mmsghdr, _| {
        // SAFETY: the caller's promise.
        unsafe { send_message(fd, channel, &raw const message.msg_hdr, flags) }
    };
    // SAFETY: the caller's promise.
    unsafe { each(messages, count, send) }
}

/// Receives into one buffer.
unsafe fn receive_one(
    fd: c_int,
    channel: Channel,
    data: *mut c_void,
    len: size_t,
    flags: c_int,
    (from, fromlen): (*mut sockaddr, *mut socklen_t),
) -> ssize_t {
    let piece = iovec { iov_base: data, iov_len: len };
    // SAFETY: the caller's promise.
    let received = unsafe { receiving::receive(fd, channel, &[piece], flags) };
    length(received.map(|received| {
        let name = received.header.as_ref().map_or(&[][..], |header| header.name());
        // SAFETY: the caller's promise.
        unsafe { give_address(name, from, fromlen) };
        received.length
    }))
}

const NOWHERE: (*mut sockaddr, *mut socklen_t) = (std::ptr::null_mut(), std::ptr::null_mut());

#[unsafe(no_mangle)]
unsafe extern "C" fn recv(fd: c_int, data: *mut c_void, len: size_t, flags: c_int) -> ssize_t {
    match ours::find(fd) {
        // SAFETY: the caller's promise.
        None => unsafe { next::recv(fd, data, len, flags) },
        // SAFETY: the caller's promise.
        Some(channel) => unsafe { receive_one(fd, channel, data, len, flags, NOWHERE) },
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn recvfrom(
    fd: c_int,
    data: *mut c_void,
    len: size_t,
    flags: c_int,
    from: *mut sockaddr,
    fromlen: *mut socklen_t,
) -> ssize_t {
    match ours::find(fd) {
        // SAFETY: the caller's promise.
        None => unsafe { next::recvfrom(fd, data, len, flags, from, fromlen) },
        // SAFETY: the caller's promise.
        Some(channel) => unsafe { receive_one(fd, channel, data, len, flags, (from, fromlen)) },
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn read(fd: c_int, data: *mut c_void, len: size_t) -> ssize_t {
    match ours::find(fd) {
        // SAFETY: the caller's promise.
        None => unsafe { next::read(fd, data, len) },
        // SAFETY: the caller's promise.
        Some(channel) => unsafe { receive_one(fd, channel, data, len, 0, NOWHERE) },
    }
}

/// The form of fortified programs, which checks the room. It fails where the checked form of libc would abort.
#[unsafe(no_mangle)]
unsafe extern "C" fn __read_chk(
    fd: c_int,
    data: *mut c_void,
    len: size_t,
    room: size_t,
) -> ssize_t {
    match ours::find(fd) {
        Some(channel) if len <= room => {
            // SAFETY: the caller's promise.
            unsafe { receive_one(fd, channel, data, len, 0, NOWHERE) }
        }
        // SAFETY: the caller's promise.
        _ => unsafe { next::read_chk(fd, data, len, room) },
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __recv_chk(
    fd: c_int,
    data: *mut c_void,
    len: size_t,
    room: size_t,
    flags: c_int,
) -> ssize_t {
    match ours::find(fd) {
        Some(channel) if len <= room => {
            // SAFETY: the caller's promise.
            unsafe { receive_one(fd, channel, data, len, flags, NOWHERE) }
        }
        // SAFETY: the caller's promise.
        _ => unsafe { next::recv_chk(fd, data, len, room, flags) },
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __recvfrom_chk(
    fd: c_int,
    data: *mut c_void,
    len: size_t,
    room: size_t,
    flags: c_int,
    from: *mut sockaddr,
    fromlen: *mut socklen_t,
) -> ssize_t {
    match ours::find(fd) {
        Some(channel) if len <= room => {
            // SAFETY: the caller's promise.
            unsafe { receive_one(fd, channel, data, len, flags, (from, fromlen)) }
        }
        // SAFETY: the caller's promise.
        _ => unsafe { next::recvfrom_chk(fd, data, len, room, flags, from, fromlen) },
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn readv(fd: c_int, list: *const iovec, count: c_int) -> ssize_t {
    let Some(channel) = ours::find(fd) else {
        // SAFETY: the caller's promise.
        return unsafe { next::readv(fd, list, count) };
    };
    // SAFETY: the caller's promise.
    let list = match unsafe { vector(list, count) } {
        Ok(list) => list,
        Err(errno) => return length(Err(errno)),
    };
    // SAFETY: the caller's promise.
    length(unsafe { receiving::receive(fd, channel, list, 0) }.map(|received| received.length))
}

unsafe fn receive_message(
    fd: c_int,
    channel: Channel,
    message: *mut msghdr,
    flags: c_int,
) -> Result<usize, c_int> {
    if message.is_null() {
        return Err(libc::EFAULT);
    }
    // SAFETY: not null, and the caller's promise.
    let message = unsafe { &mut *message };
    // SAFETY: the caller's promise.
    let list = unsafe { pieces(message.msg_iov, message.msg_iovlen) }?;
    // SAFETY: the caller's promise.
    let received = unsafe { receiving::receive(fd, channel, list, flags) }?;
    message.msg_flags = received.flags;
    let (name, control) = received
        .header
        .as_ref()
        .map_or((&[][..], &[][..]), |known| (known.name(), known.control()));
    // SAFETY: the caller's promise.
    unsafe { give_address(name, message.msg_name.cast(), &raw mut message.msg_namelen) };
    let room = if message.msg_control.is_null() { 0 } else { message.msg_controllen };
    let fits = items_within(control, room);
    if fits < control.len() {
        message.msg_flags |= libc::MSG_CTRUNC;
    }
    if fits > 0 {
        // SAFETY: there is room, and the control data are this library's own memory.
        unsafe {
            std::ptr::copy_nonoverlapping(control.as_ptr(), message.msg_control.cast(), fits);
        }
    }
    message.msg_controllen = fits as _;
    Ok(received.length)
}

/// Forgets what is known about the numbers of descriptors that were received.
unsafe fn look_for_descriptors(message: *const msghdr) {
    // SAFETY: the kernel has filled the message.
    let mut header = unsafe { libc::CMSG_FIRSTHDR(message) };
    while !header.is_null() {
        // SAFETY: not null, and within the control data.
        let (level, kind, len) =
            unsafe { ((*header).cmsg_level, (*header).cmsg_type, (*header).cmsg_len as usize) };
        if (level, kind) == (libc::SOL_SOCKET, libc::SCM_RIGHTS) {
            known::open();
            // SAFETY: the macro only computes.
            let data = len.saturating_sub(unsafe { libc::CMSG_LEN(0) } as usize);
            for index in 0..data / size_of::<c_int>() {
                // SAFETY: as many descriptors are in the item.
                known::forget(unsafe {
                    libc::CMSG_DATA(header).cast::<c_int>().add(index).read_unaligned()
                });
            }
        }
        // SAFETY: as above.
        header = unsafe { libc::CMSG_NXTHDR(message, header) };
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
    if let Some(channel) = ours::find(fd) {
        // SAFETY: the caller's promise.
        return length(unsafe { receive_message(fd, channel, message, flags) });
    }
    // SAFETY: the caller's promise.
    let result = unsafe { next::recvmsg(fd, message, flags) };
    if result >= 0 && engine::is_found() {
        // SAFETY: the kernel has accepted the pointer.
        unsafe { look_for_descriptors(message) };
    }
    result
}

#[unsafe(no_mangle)]
unsafe extern "C" fn recvmmsg(
    fd: c_int,
    messages: *mut mmsghdr,
    count: c_uint,
    flags: c_int,
    timeout: *mut timespec,
) -> c_int {
    let Some(channel) = ours::find(fd) else {
        // SAFETY: the caller's promise.
        return unsafe { next::recvmmsg(fd, messages, count, flags, timeout) };
    };
    if !timeout.is_null() {
        return number(Err(libc::EOPNOTSUPP));
    }
    let receive = |message: &mut mmsghdr, index: usize| {
        let waits = index == 0 || flags & libc::MSG_WAITFORONE == 0;
        let flags = (flags & !libc::MSG_WAITFORONE) | if waits { 0 } else { libc::MSG_DONTWAIT };
        // SAFETY: the caller's promise.
        unsafe { receive_message(fd, channel, &raw mut message.msg_hdr, flags) }
    };
    // SAFETY: the caller's promise.
    unsafe { each(messages, count, receive) }
}
