//! Whether a descriptor is one of our sockets: the kernel's name of it says so.

use std::mem::offset_of;

use anabranch_channel::name::Channel;
use libc::{c_int, sockaddr_un, socklen_t};

use crate::{known, next};

/// Where the abstract name begins, after its null byte.
const NAME: usize = offset_of!(sockaddr_un, sun_path) + 1;

/// The socket with this descriptor, if it is one of ours.
pub(crate) fn find(fd: c_int) -> Option<Channel> {
    if fd < 0 || !known::any() || known::is_other(fd) {
        return None;
    }
    let errno = next::errno();
    let found = ask(fd);
    // A descriptor that is not open may be anything tomorrow.
    if found.is_none() && next::errno() != libc::EBADF {
        known::set_other(fd);
    }
    next::set_errno(errno);
    found
}

/// Whether the descriptor is one of our sockets, whatever is known about it.
pub(crate) fn is_ours(fd: c_int) -> bool {
    ask(fd).is_some()
}

/// Asks the kernel. Sets `errno` if the descriptor is not a socket, else to 0.
fn ask(fd: c_int) -> Option<Channel> {
    // SAFETY: all zero bytes are a valid value.
    let mut address: sockaddr_un = unsafe { std::mem::zeroed() };
    let mut len = size_of::<sockaddr_un>() as socklen_t;
    // SAFETY: the address has room for as many bytes as `len` says.
    if unsafe { next::getsockname(fd, (&raw mut address).cast(), &raw mut len) } != 0 {
        return None;
    }
    next::set_errno(0);
    if c_int::from(address.sun_family) != libc::AF_UNIX {
        return None;
    }
    let length = (len as usize).checked_sub(NAME)?;
    let (null, name) = address.sun_path.split_first()?;
    if *null != 0 {
        return None;
    }
    let mut bytes = [0; size_of::<sockaddr_un>()];
    bytes.iter_mut().zip(name).for_each(|(to, from)| [*to] = from.to_ne_bytes());
    Channel::decode(bytes.get(..length)?)
}
