//! The calls of the POSIX socket interface.

use std::net::Shutdown;

use anabranch_sockets::{Family, Socket, Style};
use libc::{c_int, c_ulong, sockaddr, socklen_t};

use super::{done, guard};
use crate::abi::IPPROTO_SCTP;
use crate::address::{self, Place};
use crate::errno::Errno;
use crate::notifications;
use crate::world::{self, find};

/// The highest socket type of Linux, SOCK_PACKET.
const LAST_TYPE: c_int = 10;

/// Parses the three arguments of `socket` into style, family and whether it is non-blocking.
pub(crate) fn parse(
    domain: c_int,
    kind: c_int,
    protocol: c_int,
) -> Result<(Style, Family, bool), Errno> {
    let family = match domain {
        libc::AF_INET => Family::Ipv4,
        libc::AF_INET6 => Family::Ipv6,
        _ => return Err(Errno::EAFNOSUPPORT),
    };
    let (nonblocking, cloexec) = (libc::SOCK_NONBLOCK, libc::SOCK_CLOEXEC);
    // Linux distinguishes types that do not exist from those that SCTP does not support.
    let style = match kind & !(nonblocking | cloexec) {
        libc::SOCK_STREAM => Style::OneToOne,
        libc::SOCK_SEQPACKET => Style::OneToMany,
        libc::SOCK_DGRAM | libc::SOCK_RAW => return Err(Errno::EPROTONOSUPPORT),
        0..=LAST_TYPE => return Err(Errno::ESOCKTNOSUPPORT),
        _ => return Err(Errno::EINVAL),
    };
    if protocol != 0 && protocol != IPPROTO_SCTP {
        return Err(Errno::EPROTONOSUPPORT);
    }
    Ok((style, family, kind & nonblocking != 0))
}

/// Opens a socket: SOCK_STREAM is one-to-one style, SOCK_SEQPACKET one-to-many style
/// (RFC 6458 sections 3.1.1 and 4.1.1).
#[unsafe(no_mangle)]
pub extern "C" fn anabranch_socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    guard(-1, || {
        let (style, family, nonblocking) = parse(domain, kind, protocol)?;
        let socket = Socket::open(world::host()?, style, family, nonblocking, None)?;
        Ok(world::register(socket))
    })
}

/// Binds a socket to one local address, or to all with the wildcard address.
///
/// # Safety
/// `address` is null or points to `len` readable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn anabranch_bind(
    fd: c_int,
    address: *const sockaddr,
    len: socklen_t,
) -> c_int {
    done(|| {
        let socket = find(fd)?;
        // SAFETY: the caller's promise.
        let address = unsafe { address::read(address, len) }?;
        Ok(socket.bind(&[address])?)
    })
}

/// Listens for associations. At most `backlog` of them wait for `accept`; a one-to-many socket listens
/// if `backlog` is not 0.
#[unsafe(no_mangle)]
pub extern "C" fn anabranch_listen(fd: c_int, backlog: c_int) -> c_int {
    // As in a kernel, a negative number means the maximum.
    done(|| Ok(find(fd)?.listen(usize::try_from(backlog).unwrap_or(usize::MAX))?))
}

/// Returns an association that a peer set up, as a new socket.
///
/// # Safety
/// `len` is null or valid for reading and writing, and `address` is null or points to `*len`
/// writable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn anabranch_accept(
    fd: c_int,
    address: *mut sockaddr,
    len: *mut socklen_t,
) -> c_int {
    guard(-1, || {
        let socket = find(fd)?;
        // SAFETY: the caller's promise.
        let name = unsafe { Place::new(address, len) }?;
        let (accepted, remote) = socket.accept(false)?;
        name.write(socket.show(remote));
        Ok(world::register(accepted))
    })
}

/// As `anabranch_accept`; `flags` is 0, or SOCK_NONBLOCK and SOCK_CLOEXEC for the new socket (which
/// is closed by `exec` in any case).
///
/// # Safety
/// As [`anabranch_accept`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn anabranch_accept4(
    fd: c_int,
    address: *mut sockaddr,
    len: *mut socklen_t,
    flags: c_int,
) -> c_int {
    guard(-1, || {
        let socket = find(fd)?;
        if flags & !(libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC) != 0 {
            return Err(Errno::EINVAL);
        }
        // SAFETY: the caller's promise.
        let name = unsafe { Place::new(address, len) }?;
        let (accepted, remote) = socket.accept(flags & libc::SOCK_NONBLOCK != 0)?;
        name.write(socket.show(remote));
        Ok(world::register(accepted))
    })
}

/// Whether a descriptor is a socket of this library: 1 or 0.
#[unsafe(no_mangle)]
pub extern "C" fn anabranch_is_socket(fd: c_int) -> c_int {
    guard(0, || Ok(c_int::from(find(fd).is_ok())))
}

/// If `request` is FIONREAD (SIOCINQ), stores in `value` how many bytes of the next message have arrived.
/// Other requests are not supported.
///
/// # Safety
/// `value` is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn anabranch_ioctl(fd: c_int, request: c_ulong, value: *mut c_int) -> c_int {
    done(|| {
        let socket = find(fd)?;
        // Its type differs between C libraries.
        if i128::from(request) != libc::FIONREAD.into() {
            return Err(Errno::EOPNOTSUPP);
        }
        if value.is_null() {
            return Err(Errno::EFAULT);
        }
        let length =
            c_int::try_from(socket.next_length(notifications::length)).unwrap_or(c_int::MAX);
        // SAFETY: not null, and the caller's promise.
        unsafe { value.write_unaligned(length) };
        Ok(())
    })
}

/// Sets up an association.
///
/// # Safety
/// `address` is null or points to `len` readable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn anabranch_connect(
    fd: c_int,
    address: *const sockaddr,
    len: socklen_t,
) -> c_int {
    done(|| {
        let socket = find(fd)?;
        // SAFETY: the caller's promise.
        let address = unsafe { address::read(address, len) }?;
        socket.connect(vec![address])?;
        Ok(())
    })
}

/// Ends sending on a one-to-one socket; data already sent is still delivered.
#[unsafe(no_mangle)]
pub extern "C" fn anabranch_shutdown(fd: c_int, how: c_int) -> c_int {
    done(|| {
        let socket = find(fd)?;
        let how = match how {
            libc::SHUT_RD => Shutdown::Read,
            libc::SHUT_WR => Shutdown::Write,
            libc::SHUT_RDWR => Shutdown::Both,
            // The call is not defined for one-to-many sockets.
            _ if socket.style() == Style::OneToMany => return Err(Errno::EOPNOTSUPP),
            _ => return Err(Errno::EINVAL),
        };
        Ok(socket.shut_down(how)?)
    })
}

/// Closes a socket. Data already sent is still delivered, see `anabranch_finish`.
#[unsafe(no_mangle)]
pub extern "C" fn anabranch_close(fd: c_int) -> c_int {
    done(|| world::close(fd))
}

/// Closes all open sockets, as process exit does with the system's: without waiting, whatever SO_LINGER
/// says.
#[unsafe(no_mangle)]
pub extern "C" fn anabranch_close_all() {
    guard((), || {
        world::close_all();
        Ok(())
    });
}

/// A local address of the socket.
///
/// # Safety
/// As [`anabranch_accept`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn anabranch_getsockname(
    fd: c_int,
    address: *mut sockaddr,
    len: *mut socklen_t,
) -> c_int {
    done(|| {
        let socket = find(fd)?;
        // SAFETY: the caller's promise.
        unsafe { Place::needed(address, len) }?.write(socket.name());
        Ok(())
    })
}

/// The primary address of the peer of a one-to-one socket.
///
/// # Safety
/// As [`anabranch_accept`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn anabranch_getpeername(
    fd: c_int,
    address: *mut sockaddr,
    len: *mut socklen_t,
) -> c_int {
    done(|| {
        let name = find(fd)?.peer_name()?;
        // SAFETY: the caller's promise.
        unsafe { Place::needed(address, len) }?.write(name);
        Ok(())
    })
}
