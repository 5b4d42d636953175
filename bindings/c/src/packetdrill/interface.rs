//! The functions that packetdrill calls.

use std::ffi::{CStr, c_char, c_void};
use std::sync::Arc;
use std::time::SystemTime;

use anabranch_sockets::Socket;
use libc::{c_int, c_longlong, c_uint, iovec, msghdr, sockaddr, socklen_t, ssize_t};

use super::Stack;
use super::settings::Settings;
use crate::errno::Errno;
use crate::ffi;
use crate::world;

type Data = *mut c_void;

/// packetdrill's `struct packetdrill_interface`. For a member that is `None`, packetdrill calls the host.
#[repr(C)]
#[derive(Debug)]
#[allow(non_camel_case_types, missing_docs, reason = "C's names")]
#[allow(clippy::type_complexity, reason = "each type is used once, by its member's name")]
pub struct packetdrill_interface {
    pub userdata: *mut c_void,
    pub free: Option<unsafe extern "C" fn(Data)>,
    pub socket: Option<unsafe extern "C" fn(Data, c_int, c_int, c_int) -> c_int>,
    pub bind: Option<unsafe extern "C" fn(Data, c_int, *const sockaddr, socklen_t) -> c_int>,
    pub listen: Option<unsafe extern "C" fn(Data, c_int, c_int) -> c_int>,
    pub accept: Option<unsafe extern "C" fn(Data, c_int, *mut sockaddr, *mut socklen_t) -> c_int>,
    pub connect: Option<unsafe extern "C" fn(Data, c_int, *const sockaddr, socklen_t) -> c_int>,
    pub read: Option<unsafe extern "C" fn(Data, c_int, *mut c_void, usize) -> ssize_t>,
    pub recv: Option<unsafe extern "C" fn(Data, c_int, *mut c_void, usize, c_int) -> ssize_t>,
    pub recvfrom: Option<
        unsafe extern "C" fn(
            Data,
            c_int,
            *mut c_void,
            usize,
            c_int,
            *mut sockaddr,
            *mut socklen_t,
        ) -> ssize_t,
    >,
    pub recvmsg: Option<unsafe extern "C" fn(Data, c_int, *mut msghdr, c_int) -> ssize_t>,
    pub write: Option<unsafe extern "C" fn(Data, c_int, *const c_void, usize) -> ssize_t>,
    pub send: Option<unsafe extern "C" fn(Data, c_int, *const c_void, usize, c_int) -> ssize_t>,
    pub sendto: Option<
        unsafe extern "C" fn(
            Data,
            c_int,
            *const c_void,
            usize,
            c_int,
            *const sockaddr,
            socklen_t,
        ) -> ssize_t,
    >,
    pub sendmsg: Option<unsafe extern "C" fn(Data, c_int, *const msghdr, c_int) -> ssize_t>,
    /// `None`, as is `poll`: descriptors are the system's.
    pub fcntl: Option<unsafe extern "C" fn(Data, c_int, c_int, libc::c_long) -> c_int>,
    pub ioctl: Option<unsafe extern "C" fn(Data, c_int, libc::c_ulong, *mut c_void) -> c_int>,
    pub close: Option<unsafe extern "C" fn(Data, c_int) -> c_int>,
    pub shutdown: Option<unsafe extern "C" fn(Data, c_int, c_int) -> c_int>,
    pub getsockopt: Option<
        unsafe extern "C" fn(Data, c_int, c_int, c_int, *mut c_void, *mut socklen_t) -> c_int,
    >,
    pub setsockopt:
        Option<unsafe extern "C" fn(Data, c_int, c_int, c_int, *const c_void, socklen_t) -> c_int>,
    pub getpeername:
        Option<unsafe extern "C" fn(Data, c_int, *mut sockaddr, *mut socklen_t) -> c_int>,
    pub getsockname:
        Option<unsafe extern "C" fn(Data, c_int, *mut sockaddr, *mut socklen_t) -> c_int>,
    pub poll: Option<unsafe extern "C" fn(Data, *mut libc::pollfd, libc::nfds_t, c_int) -> c_int>,
    pub netdev_send: Option<unsafe extern "C" fn(Data, *const c_void, usize) -> c_int>,
    pub netdev_receive:
        Option<unsafe extern "C" fn(Data, *mut c_void, *mut usize, *mut c_longlong) -> c_int>,
    pub sctp_bindx:
        Option<unsafe extern "C" fn(Data, c_int, *const sockaddr, c_int, c_int) -> c_int>,
    pub sctp_connectx:
        Option<unsafe extern "C" fn(Data, c_int, *const sockaddr, c_int, *mut i32) -> c_int>,
    pub sctp_peeloff: Option<unsafe extern "C" fn(Data, c_int, i32) -> c_int>,
    pub sctp_getpaddrs: Option<unsafe extern "C" fn(Data, c_int, i32, *mut *mut sockaddr) -> c_int>,
    pub sctp_getladdrs: Option<unsafe extern "C" fn(Data, c_int, i32, *mut *mut sockaddr) -> c_int>,
    pub sctp_sendmsg: Option<
        unsafe extern "C" fn(
            Data,
            c_int,
            *const c_void,
            usize,
            *const sockaddr,
            socklen_t,
            u32,
            u32,
            u16,
            u32,
            u32,
        ) -> c_int,
    >,
    pub sctp_recvmsg: Option<
        unsafe extern "C" fn(
            Data,
            c_int,
            *mut c_void,
            usize,
            *mut sockaddr,
            *mut socklen_t,
            *mut c_void,
            *mut c_int,
        ) -> c_int,
    >,
    pub sctp_send: Option<
        unsafe extern "C" fn(Data, c_int, *const c_void, usize, *const c_void, c_int) -> c_int,
    >,
    pub sctp_sendv: Option<
        unsafe extern "C" fn(
            Data,
            c_int,
            *const iovec,
            c_int,
            *const sockaddr,
            c_int,
            *const c_void,
            socklen_t,
            c_uint,
            c_int,
        ) -> c_int,
    >,
    pub sctp_recvv: Option<
        unsafe extern "C" fn(
            Data,
            c_int,
            *const iovec,
            c_int,
            *mut sockaddr,
            *mut socklen_t,
            *mut c_void,
            *mut socklen_t,
            *mut c_uint,
            *mut c_int,
        ) -> c_int,
    >,
}

/// Fills packetdrill's table of functions. Called once, before anything else.
///
/// # Safety
/// `flags` is null or a string, and `interface` is null or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn packetdrill_interface_init(
    flags: *const c_char,
    interface: *mut packetdrill_interface,
) {
    ffi::guard((), || {
        if interface.is_null() {
            return Err(Errno::EFAULT);
        }
        let flags = if flags.is_null() {
            String::new()
        } else {
            // SAFETY: not null, and the caller's promise.
            unsafe { CStr::from_ptr(flags) }.to_string_lossy().into_owned()
        };
        let stack = Arc::new(Stack::new(&Settings::parse(&flags)));
        // SAFETY: not null, and the caller's promise.
        unsafe { interface.write(table(stack)) };
        Ok(())
    });
}

/// The stack that `userdata` points to.
///
/// # Safety
/// `userdata` is from `packetdrill_interface_init`, and `free` was not called.
unsafe fn stack<'a>(userdata: Data) -> Result<&'a Stack, Errno> {
    // SAFETY: the caller's promise.
    unsafe { userdata.cast::<Stack>().as_ref() }.ok_or(Errno::EFAULT)
}

unsafe extern "C" fn free(userdata: Data) {
    ffi::guard((), || {
        if !userdata.is_null() {
            // SAFETY: packetdrill calls this once, with what `table` made of an `Arc`.
            let stack = unsafe { Arc::from_raw(userdata.cast::<Stack>().cast_const()) };
            stack.stop();
        }
        Ok(())
    });
}

unsafe extern "C" fn socket(userdata: Data, domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    ffi::guard(-1, || {
        // SAFETY: packetdrill passes the pointer that `table` stored.
        let stack = unsafe { stack(userdata) }?;
        stack.read_sysctl();
        let (style, family, nonblocking) = ffi::parse_socket(domain, kind, protocol)?;
        let socket = Socket::open(stack.host.clone(), style, family, nonblocking, None)?;
        Ok(world::register(socket))
    })
}

unsafe extern "C" fn netdev_send(userdata: Data, packet: *const c_void, len: usize) -> c_int {
    ffi::guard(-1, || {
        if packet.is_null() {
            return Err(Errno::EFAULT);
        }
        // SAFETY: packetdrill passes the pointer that `table` stored.
        let stack = unsafe { stack(userdata) }?;
        // SAFETY: not null, and packetdrill passes a packet of this length.
        stack.inject(unsafe { std::slice::from_raw_parts(packet.cast(), len) });
        Ok(0)
    })
}

unsafe extern "C" fn netdev_receive(
    userdata: Data,
    buffer: *mut c_void,
    len: *mut usize,
    time: *mut c_longlong,
) -> c_int {
    ffi::guard(-1, || {
        if buffer.is_null() || len.is_null() {
            return Err(Errno::EFAULT);
        }
        // SAFETY: packetdrill passes the pointer that `table` stored.
        let stack = unsafe { stack(userdata) }?;
        let (packet, sent) = stack.network.next().ok_or(Errno::EIO)?;
        // SAFETY: neither is null, and the buffer has room for `*len` bytes.
        unsafe {
            let count = packet.len().min(*len);
            std::ptr::copy_nonoverlapping(packet.as_ptr(), buffer.cast(), count);
            *len = count;
        }
        let since = sent.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        if !time.is_null() {
            // SAFETY: not null, and packetdrill's own.
            unsafe { time.write(since.as_micros().try_into().unwrap_or(c_longlong::MAX)) };
        }
        Ok(0)
    })
}

/// Calls that need only the socket, not `userdata`.
macro_rules! forward {
    ($($name:ident = $target:ident ($($argument:ident: $type:ty),*) -> $result:ty;)*) => {$(
        unsafe extern "C" fn $name(_userdata: Data, $($argument: $type),*) -> $result {
            // SAFETY: packetdrill promises what a C program must promise.
            #[allow(unused_unsafe, reason = "some of them are safe")]
            let result = unsafe { ffi::$target($($argument),*) };
            #[allow(clippy::useless_conversion, clippy::unnecessary_fallible_conversions)]
            <$result>::try_from(result).unwrap_or(<$result>::MAX)
        }
    )*};
}

forward! {
    bind = anabranch_bind(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int;
    listen = anabranch_listen(fd: c_int, backlog: c_int) -> c_int;
    accept = anabranch_accept(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int;
    connect = anabranch_connect(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int;
    read = anabranch_read(fd: c_int, buffer: *mut c_void, len: usize) -> ssize_t;
    recv = anabranch_recv(fd: c_int, buffer: *mut c_void, len: usize, flags: c_int) -> ssize_t;
    recvfrom = anabranch_recvfrom(
        fd: c_int, buffer: *mut c_void, len: usize, flags: c_int, from: *mut sockaddr,
        fromlen: *mut socklen_t
    ) -> ssize_t;
    recvmsg = anabranch_recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t;
    write = anabranch_write(fd: c_int, data: *const c_void, len: usize) -> ssize_t;
    send = anabranch_send(fd: c_int, data: *const c_void, len: usize, flags: c_int) -> ssize_t;
    sendto = anabranch_sendto(
        fd: c_int, data: *const c_void, len: usize, flags: c_int, to: *const sockaddr,
        tolen: socklen_t
    ) -> ssize_t;
    sendmsg = anabranch_sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t;
    close = anabranch_close(fd: c_int) -> c_int;
    shutdown = anabranch_shutdown(fd: c_int, how: c_int) -> c_int;
    getsockopt = anabranch_getsockopt(
        fd: c_int, level: c_int, name: c_int, value: *mut c_void, len: *mut socklen_t
    ) -> c_int;
    setsockopt = anabranch_setsockopt(
        fd: c_int, level: c_int, name: c_int, value: *const c_void, len: socklen_t
    ) -> c_int;
    getpeername = anabranch_getpeername(
        fd: c_int, address: *mut sockaddr, len: *mut socklen_t
    ) -> c_int;
    getsockname = anabranch_getsockname(
        fd: c_int, address: *mut sockaddr, len: *mut socklen_t
    ) -> c_int;
    sctp_bindx = anabranch_sctp_bindx(
        fd: c_int, addresses: *const sockaddr, count: c_int, flags: c_int
    ) -> c_int;
    sctp_connectx = anabranch_sctp_connectx(
        fd: c_int, addresses: *const sockaddr, count: c_int, id: *mut i32
    ) -> c_int;
    sctp_peeloff = anabranch_sctp_peeloff(fd: c_int, id: i32) -> c_int;
    sctp_getpaddrs = anabranch_sctp_getpaddrs(
        fd: c_int, id: i32, addresses: *mut *mut sockaddr
    ) -> c_int;
    sctp_getladdrs = anabranch_sctp_getladdrs(
        fd: c_int, id: i32, addresses: *mut *mut sockaddr
    ) -> c_int;
    sctp_sendmsg = anabranch_sctp_sendmsg(
        fd: c_int, data: *const c_void, len: usize, to: *const sockaddr, tolen: socklen_t,
        ppid: u32, flags: u32, stream: u16, timetolive: u32, context: u32
    ) -> c_int;
    sctp_recvmsg = anabranch_sctp_recvmsg(
        fd: c_int, buffer: *mut c_void, len: usize, from: *mut sockaddr, fromlen: *mut socklen_t,
        info: *mut c_void, flags: *mut c_int
    ) -> c_int;
    sctp_send = anabranch_sctp_send(
        fd: c_int, data: *const c_void, len: usize, info: *const c_void, flags: c_int
    ) -> c_int;
    sctp_sendv = anabranch_sctp_sendv(
        fd: c_int, list: *const iovec, count: c_int, addresses: *const sockaddr,
        address_count: c_int, info: *const c_void, info_len: socklen_t, info_type: c_uint,
        flags: c_int
    ) -> c_int;
    sctp_recvv = anabranch_sctp_recvv(
        fd: c_int, list: *const iovec, count: c_int, from: *mut sockaddr, fromlen: *mut socklen_t,
        info: *mut c_void, info_len: *mut socklen_t, info_type: *mut c_uint, flags: *mut c_int
    ) -> c_int;
}

fn table(stack: Arc<Stack>) -> packetdrill_interface {
    packetdrill_interface {
        userdata: Arc::into_raw(stack).cast_mut().cast(),
        free: Some(free),
        socket: Some(socket),
        bind: Some(bind),
        listen: Some(listen),
        accept: Some(accept),
        connect: Some(connect),
        read: Some(read),
        recv: Some(recv),
        recvfrom: Some(recvfrom),
        recvmsg: Some(recvmsg),
        write: Some(write),
        send: Some(send),
        sendto: Some(sendto),
        sendmsg: Some(sendmsg),
        fcntl: None,
        ioctl: None,
        close: Some(close),
        shutdown: Some(shutdown),
        getsockopt: Some(getsockopt),
        setsockopt: Some(setsockopt),
        getpeername: Some(getpeername),
        getsockname: Some(getsockname),
        poll: None,
        netdev_send: Some(netdev_send),
        netdev_receive: Some(netdev_receive),
        sctp_bindx: Some(sctp_bindx),
        sctp_connectx: Some(sctp_connectx),
        sctp_peeloff: Some(sctp_peeloff),
        sctp_getpaddrs: Some(sctp_getpaddrs),
        sctp_getladdrs: Some(sctp_getladdrs),
        sctp_sendmsg: Some(sctp_sendmsg),
        sctp_recvmsg: Some(sctp_recvmsg),
        sctp_send: Some(sctp_send),
        sctp_sendv: Some(sctp_sendv),
        sctp_recvv: Some(sctp_recvv),
    }
}
