//! The functions of libsctp (RFC 6458 section 9), with the versions that its symbols have. The library has the name
//! libsctp.so.1, so the dynamic linker takes it for programs that are linked with libsctp, and for those that open it
//! by its name.

use std::ffi::c_void;
use std::mem::offset_of;

use anabranch_channel::call::{BIND_LESS, BIND_MORE, Operation};
use anabranch_channel::name::Channel;
use libc::{c_int, c_uint, iovec, sa_family_t, size_t, sockaddr, socklen_t, ssize_t};

use crate::arguments::{address, addresses, give_address, length, number, pieces};
use crate::sending::{self, Message};
use crate::{options, ours, receiving};

// In this module, because a version is given to a symbol of the same object file. There are three `sctp_connectx`.
#[cfg(versions)]
std::arch::global_asm!(
    ".symver sctp_bindx, sctp_bindx@@VERS_1",
    ".symver sctp_connectx_orig, sctp_connectx@VERS_1",
    ".symver sctp_connectx2, sctp_connectx@VERS_2",
    ".symver sctp_connectx, sctp_connectx@@VERS_3",
    ".symver sctp_freeladdrs, sctp_freeladdrs@@VERS_1",
    ".symver sctp_freepaddrs, sctp_freepaddrs@@VERS_1",
    ".symver sctp_getaddrlen, sctp_getaddrlen@@VERS_1",
    ".symver sctp_getladdrs, sctp_getladdrs@@VERS_1",
    ".symver sctp_getpaddrs, sctp_getpaddrs@@VERS_1",
    ".symver sctp_opt_info, sctp_opt_info@@VERS_1",
    ".symver sctp_peeloff, sctp_peeloff@@VERS_1",
    ".symver sctp_peeloff_flags, sctp_peeloff_flags@@VERS_1",
    ".symver sctp_recvmsg, sctp_recvmsg@@VERS_1",
    ".symver sctp_recvv, sctp_recvv@@VERS_1",
    ".symver sctp_send, sctp_send@@VERS_1",
    ".symver sctp_sendmsg, sctp_sendmsg@@VERS_1",
    ".symver sctp_sendv, sctp_sendv@@VERS_1",
);

/// Types of ancillary data, and of `info` in `sctp_recvv`.
const SNDRCV: c_int = 1;
const SNDINFO: c_int = 2;
const RCVINFO: c_int = 3;
const PRINFO: c_int = 5;

/// Bytes of `struct sctp_sndrcvinfo`, `sctp_sndinfo`, `sctp_prinfo` and `sctp_rcvinfo`.
const SNDRCV_BYTES: usize = 32;
const SNDINFO_BYTES: usize = 16;
const PRINFO_BYTES: usize = 8;
const RCVINFO_BYTES: usize = 28;

/// Bytes before the data of an item of ancillary data.
const HEAD: usize = size_of::<libc::cmsghdr>();

/// The socket with this descriptor. Only ours have SCTP.
fn find(fd: c_int) -> Result<Channel, c_int> {
    ours::find(fd).ok_or(libc::ENOTSOCK)
}

/// Ancillary data that this library makes: two items at most.
struct Control {
    bytes: [u8; 2 * (HEAD + SNDRCV_BYTES)],
    length: usize,
}

impl Control {
    const fn new() -> Self {
        Self { bytes: [0; 2 * (HEAD + SNDRCV_BYTES)], length: 0 }
    }

    fn push(&mut self, kind: c_int, data: &[u8]) {
        let used = HEAD + data.len();
        let Some(item) = self.bytes.get_mut(self.length..self.length + used) else { return };
        let mut put = |at: usize, value: &[u8]| {
            if let Some(field) = item.get_mut(at..at + value.len()) {
                field.copy_from_slice(value);
            }
        };
        put(offset_of!(libc::cmsghdr, cmsg_len), &used.to_ne_bytes());
        put(offset_of!(libc::cmsghdr, cmsg_level), &libc::IPPROTO_SCTP.to_ne_bytes());
        put(offset_of!(libc::cmsghdr, cmsg_type), &kind.to_ne_bytes());
        put(HEAD, data);
        self.length += used.next_multiple_of(size_of::<usize>());
    }

    fn get(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }
}

/// The data of the first item of this type.
fn item(control: &[u8], kind: c_int) -> Option<&[u8]> {
    let mut rest = control;
    loop {
        let length = usize::from_ne_bytes(rest.first_chunk().copied()?);
        let found = rest.get(offset_of!(libc::cmsghdr, cmsg_type)..)?.first_chunk().copied()?;
        if c_int::from_ne_bytes(found) == kind {
            return rest.get(HEAD..length);
        }
        rest = rest.get(length.max(1).next_multiple_of(size_of::<usize>())..)?;
    }
}

/// # Safety
/// As in libsctp; so are all functions here.
#[unsafe(no_mangle)]
unsafe extern "C" fn sctp_bindx(
    fd: c_int,
    list: *const sockaddr,
    count: c_int,
    flags: c_int,
) -> c_int {
    number(find(fd).and_then(|channel| {
        // SCTP_BINDX_ADD_ADDR and SCTP_BINDX_REM_ADDR.
        let how = match flags {
            1 => BIND_MORE,
            2 => BIND_LESS,
            _ => return Err(libc::EFAULT),
        };
        // SAFETY: the caller's promise.
        options::bind(channel, how, unsafe { addresses(list, count) }?)
    }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sctp_connectx(
    fd: c_int,
    list: *const sockaddr,
    count: c_int,
    id: *mut i32,
) -> c_int {
    number(find(fd).and_then(|channel| {
        // SAFETY: the caller's promise.
        let list = unsafe { addresses(list, count) }?;
        let begun = |number: c_int| {
            if !id.is_null() {
                // SAFETY: not null, and the caller's promise.
                unsafe { id.write_unaligned(number) };
            }
        };
        options::connect(fd, channel, list, begun).map(|_| 0)
    }))
}

/// The second version, which is the same for callers.
#[unsafe(no_mangle)]
unsafe extern "C" fn sctp_connectx2(
    fd: c_int,
    list: *const sockaddr,
    count: c_int,
    id: *mut i32,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { sctp_connectx(fd, list, count, id) }
}

/// The first version, whose callers pass no place for the association.
#[unsafe(no_mangle)]
unsafe extern "C" fn sctp_connectx_orig(fd: c_int, list: *const sockaddr, count: c_int) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { sctp_connectx(fd, list, count, std::ptr::null_mut()) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sctp_peeloff(fd: c_int, id: i32) -> c_int {
    number(find(fd).and_then(|channel| options::peel_off(fd, channel, id, 0)))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sctp_peeloff_flags(fd: c_int, id: i32, flags: c_uint) -> c_int {
    number(find(fd).and_then(|channel| options::peel_off(fd, channel, id, flags.cast_signed())))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sctp_getaddrlen(family: sa_family_t) -> c_int {
    match c_int::from(family) {
        libc::AF_INET => size_of::<libc::sockaddr_in>() as c_int,
        libc::AF_INET6 => size_of::<libc::sockaddr_in6>() as c_int,
        _ => number(Err(libc::EINVAL)),
    }
}

/// Stores a list of addresses that the caller frees.
unsafe fn give_list(fd: c_int, operation: Operation, id: i32, list: *mut *mut sockaddr) -> c_int {
    number(find(fd).and_then(|channel| {
        if list.is_null() {
            return Err(libc::EFAULT);
        }
        let mut room = [0; options::MOST_ADDRESSES];
        let (count, length) = options::addresses_of(channel, operation, id, &mut room)?;
        // SAFETY: the length is not 0; the result is checked.
        let memory = unsafe { libc::malloc(length.max(1)) };
        if memory.is_null() {
            return Err(libc::ENOMEM);
        }
        // SAFETY: both have as many bytes; `list` is not null, and the caller's promise.
        unsafe {
            std::ptr::copy_nonoverlapping(room.as_ptr(), memory.cast(), length.min(room.len()));
            list.write_unaligned(memory.cast());
        }
        Ok(count)
    }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sctp_getpaddrs(fd: c_int, id: i32, list: *mut *mut sockaddr) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { give_list(fd, Operation::PeerAddresses, id, list) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sctp_getladdrs(fd: c_int, id: i32, list: *mut *mut sockaddr) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { give_list(fd, Operation::LocalAddresses, id, list) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sctp_freepaddrs(list: *mut sockaddr) -> c_int {
    // SAFETY: the caller's promise: it was made with `malloc`.
    unsafe { libc::free(list.cast()) };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sctp_freeladdrs(list: *mut sockaddr) -> c_int {
    // SAFETY: the caller's promise: it was made with `malloc`.
    unsafe { libc::free(list.cast()) };
    0
}

/// Where an option's structure has the association, if it has one.
fn association_at(name: c_int) -> Option<usize> {
    match name {
        // SCTP_DEFAULT_SEND_PARAM and SCTP_DEFAULT_SNDINFO.
        10 => Some(28),
        34 => Some(12),
        // RTOINFO, ASSOCINFO, PRIMARY_ADDR, PEER_ADDR_PARAMS, STATUS, GET_PEER_ADDR_INFO, DELAYED_SACK, CONTEXT,
        // MAX_BURST, PEER_ADDR_THLDS and its V2, GET_ASSOC_STATS, DEFAULT_PRINFO, EVENT, REMOTE_UDP_ENCAPS_PORT.
        0 | 1 | 6 | 9 | 14..=17 | 20 | 31 | 37 | 112 | 114 | 127 | 132 => Some(0),
        _ => None,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sctp_opt_info(
    fd: c_int,
    id: i32,
    name: c_int,
    value: *mut c_void,
    len: *mut socklen_t,
) -> c_int {
    number(find(fd).and_then(|channel| {
        if value.is_null() || len.is_null() {
            return Err(libc::EFAULT);
        }
        // SAFETY: not null, and the caller's promise.
        let room = unsafe { len.read_unaligned() } as usize;
        if let Some(at) = association_at(name).filter(|at| room >= at + size_of::<i32>()) {
            // SAFETY: the structure has room for the number.
            unsafe { value.byte_add(at).cast::<i32>().write_unaligned(id) };
        }
        let option = (libc::IPPROTO_SCTP, name);
        // SAFETY: the caller's promise.
        unsafe { options::get(fd, channel, option, value, len) }
    }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sctp_sendmsg(
    fd: c_int,
    data: *const c_void,
    len: size_t,
    to: *const sockaddr,
    tolen: socklen_t,
    ppid: u32,
    flags: u32,
    stream: u16,
    timetolive: u32,
    context: u32,
) -> ssize_t {
    length(find(fd).and_then(|channel| {
        // SAFETY: the caller's promise.
        let name: &[u8] = if to.is_null() { &[] } else { unsafe { address(to, tolen) }? };
        let flags = u16::try_from(flags).map_err(|_| libc::EINVAL)?;
        let mut info = [0; SNDRCV_BYTES];
        let fields: [(usize, &[u8]); 5] = [
            (0, &stream.to_ne_bytes()),
            (4, &flags.to_ne_bytes()),
            (8, &ppid.to_ne_bytes()),
            (12, &context.to_ne_bytes()),
            (16, &timetolive.to_ne_bytes()),
        ];
        for (at, value) in fields {
            info.iter_mut().skip(at).zip(value).for_each(|(to, from)| *to = *from);
        }
        let mut control = Control::new();
        control.push(SNDRCV, &info);
        let piece = iovec { iov_base: data.cast_mut(), iov_len: len };
        let message = Message { name, control: control.get(), flags: 0 };
        // SAFETY: the caller's promise.
        unsafe { sending::send(fd, channel, &[piece], message) }
    }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sctp_send(
    fd: c_int,
    data: *const c_void,
    len: size_t,
    info: *const c_void,
    flags: c_int,
) -> ssize_t {
    length(find(fd).and_then(|channel| {
        let mut control = Control::new();
        if !info.is_null() {
            // SAFETY: not null, and the caller's promise.
            control.push(SNDRCV, unsafe { structure(info, SNDRCV_BYTES) });
        }
        let piece = iovec { iov_base: data.cast_mut(), iov_len: len };
        let message = Message { name: &[], control: control.get(), flags };
        // SAFETY: the caller's promise.
        unsafe { sending::send(fd, channel, &[piece], message) }
    }))
}

/// The bytes of a structure.
unsafe fn structure<'a>(at: *const c_void, length: usize) -> &'a [u8] {
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(at.cast(), length) }
}

/// The ancillary data of `sctp_sendv`.
unsafe fn sendv_control(
    control: &mut Control,
    info: *const c_void,
    len: socklen_t,
    kind: c_uint,
) -> Result<(), c_int> {
    // SCTP_SENDV_NOINFO.
    if kind == 0 {
        return Ok(());
    }
    if info.is_null() {
        return Err(libc::EINVAL);
    }
    // SAFETY: not null, and the caller's promise.
    let info = unsafe { structure(info, len as usize) };
    let part = |from: usize, length: usize| info.get(from..from + length).ok_or(libc::EINVAL);
    match kind {
        // SCTP_SENDV_SNDINFO, SCTP_SENDV_PRINFO.
        1 => control.push(SNDINFO, part(0, SNDINFO_BYTES)?),
        2 => control.push(PRINFO, part(0, PRINFO_BYTES)?),
        // SCTP_SENDV_SPA: which of the members after this one are valid. The third is for AUTH.
        4 => {
            let valid = part(0, 4)?.first_chunk().copied().map_or(0, u32::from_ne_bytes);
            if valid & 4 != 0 {
                return Err(libc::EOPNOTSUPP);
            }
            if valid & 1 != 0 {
                control.push(SNDINFO, part(4, SNDINFO_BYTES)?);
            }
            if valid & 2 != 0 {
                control.push(PRINFO, part(4 + SNDINFO_BYTES, PRINFO_BYTES)?);
            }
        }
        _ => return Err(libc::EOPNOTSUPP),
    }
    Ok(())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sctp_sendv(
    fd: c_int,
    list: *const iovec,
    count: c_int,
    to: *const sockaddr,
    to_count: c_int,
    info: *const c_void,
    info_len: socklen_t,
    info_type: c_uint,
    flags: c_int,
) -> ssize_t {
    length(find(fd).and_then(|channel| {
        let count = usize::try_from(count).map_err(|_| libc::EINVAL)?;
        // SAFETY: the caller's promise.
        let list = unsafe { pieces(list, count) }?;
        let name: &[u8] = match to_count {
            0 => &[],
            _ if to.is_null() => &[],
            // SAFETY: not null, and the caller's promise.
            1 => unsafe { addresses(to, 1) }?,
            _ => return Err(libc::EOPNOTSUPP),
        };
        let mut control = Control::new();
        // SAFETY: the caller's promise.
        unsafe { sendv_control(&mut control, info, info_len, info_type) }?;
        let message = Message { name, control: control.get(), flags };
        // SAFETY: the caller's promise.
        unsafe { sending::send(fd, channel, list, message) }
    }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sctp_recvmsg(
    fd: c_int,
    data: *mut c_void,
    len: size_t,
    from: *mut sockaddr,
    fromlen: *mut socklen_t,
    info: *mut c_void,
    flags: *mut c_int,
) -> ssize_t {
    length(find(fd).and_then(|channel| {
        // SAFETY: the caller's promise.
        let wanted = if flags.is_null() { 0 } else { unsafe { flags.read_unaligned() } };
        let piece = iovec { iov_base: data, iov_len: len };
        // SAFETY: the caller's promise.
        let received = unsafe { receiving::receive(fd, channel, &[piece], wanted) }?;
        let header = received.header.as_ref();
        // SAFETY: the caller's promise.
        unsafe { give_address(header.map_or(&[][..], |known| known.name()), from, fromlen) };
        if !flags.is_null() {
            // SAFETY: not null, and the caller's promise.
            unsafe { flags.write_unaligned(received.flags) };
        }
        let about = header.and_then(|known| item(known.control(), SNDRCV));
        if !info.is_null() {
            let about =
                about.filter(|about| about.len() == SNDRCV_BYTES).unwrap_or(&[0; SNDRCV_BYTES]);
            // SAFETY: not null, and the caller's promise.
            unsafe { std::ptr::copy_nonoverlapping(about.as_ptr(), info.cast(), SNDRCV_BYTES) };
        }
        Ok(received.length)
    }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sctp_recvv(
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
    length(find(fd).and_then(|channel| {
        let count = usize::try_from(count).map_err(|_| libc::EINVAL)?;
        // SAFETY: the caller's promise.
        let list = unsafe { pieces(list, count) }?;
        // SAFETY: the caller's promise.
        let wanted = if flags.is_null() { 0 } else { unsafe { flags.read_unaligned() } };
        // SAFETY: the caller's promise.
        let received = unsafe { receiving::receive(fd, channel, list, wanted) }?;
        let header = received.header.as_ref();
        // SAFETY: the caller's promise.
        unsafe { give_address(header.map_or(&[][..], |known| known.name()), from, fromlen) };
        if !flags.is_null() {
            // SAFETY: not null, and the caller's promise.
            unsafe { flags.write_unaligned(received.flags) };
        }
        // SCTP_RECVV_NOINFO, or SCTP_RECVV_RCVINFO.
        let mut kind = 0;
        let about = header.and_then(|known| item(known.control(), RCVINFO));
        if let Some(about) = about.filter(|_| !info.is_null() && !info_len.is_null()) {
            // SAFETY: not null, and the caller's promise.
            let room = unsafe { info_len.read_unaligned() } as usize;
            if about.len() == RCVINFO_BYTES && room >= RCVINFO_BYTES {
                // SAFETY: there is room.
                unsafe {
                    std::ptr::copy_nonoverlapping(about.as_ptr(), info.cast(), RCVINFO_BYTES);
                    info_len.write_unaligned(RCVINFO_BYTES as socklen_t);
                }
                kind = 1;
            }
        }
        if !info_type.is_null() {
            // SAFETY: not null, and the caller's promise.
            unsafe { info_type.write_unaligned(kind) };
        }
        Ok(received.length)
    }))
}
