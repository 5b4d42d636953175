//! Arguments of C functions: addresses, lists of buffers, results.

use libc::{c_int, iovec, sockaddr, socklen_t, ssize_t};

use crate::next::set_errno;

/// IOV_MAX of Linux.
const MOST_PIECES: usize = 1024;

/// The bytes of an address, as many as its family has.
///
/// # Errors
/// EINVAL: it is too short. EAFNOSUPPORT: neither IPv4 nor IPv6.
///
/// # Safety
/// `address` points to `len` bytes, which live as long as the result is used.
pub(crate) unsafe fn address<'a>(
    address: *const sockaddr,
    len: socklen_t,
) -> Result<&'a [u8], c_int> {
    if address.is_null() {
        return Err(libc::EFAULT);
    }
    if (len as usize) < size_of::<libc::sa_family_t>() {
        return Err(libc::EINVAL);
    }
    // SAFETY: the family is within the length.
    let size = unsafe { size(address) }?;
    if (len as usize) < size {
        return Err(libc::EINVAL);
    }
    // SAFETY: the caller's promise; `size` is at most `len`.
    Ok(unsafe { std::slice::from_raw_parts(address.cast(), size) })
}

/// The bytes of `count` addresses, one after the other.
///
/// # Errors
/// EINVAL: there is none, or more than 1,024. Otherwise as [`address`].
///
/// # Safety
/// `addresses` points to as many addresses, which live as long as the result is used.
pub(crate) unsafe fn addresses<'a>(
    addresses: *const sockaddr,
    count: c_int,
) -> Result<&'a [u8], c_int> {
    if addresses.is_null() {
        return Err(libc::EFAULT);
    }
    if !(1..=1024).contains(&count) {
        return Err(libc::EINVAL);
    }
    let mut total = 0;
    for _ in 0..count {
        // SAFETY: the addresses before this one have as many bytes.
        total += unsafe { size(addresses.byte_add(total)) }?;
    }
    // SAFETY: the caller's promise.
    Ok(unsafe { std::slice::from_raw_parts(addresses.cast(), total) })
}

/// Bytes of an address of this one's family.
///
/// # Safety
/// `address` points to a family.
unsafe fn size(address: *const sockaddr) -> Result<usize, c_int> {
    // SAFETY: the caller's promise; lists of addresses are not aligned.
    let family = unsafe { (&raw const (*address).sa_family).read_unaligned() };
    match c_int::from(family) {
        libc::AF_INET => Ok(size_of::<libc::sockaddr_in>()),
        libc::AF_INET6 => Ok(size_of::<libc::sockaddr_in6>()),
        _ => Err(libc::EAFNOSUPPORT),
    }
}

/// Stores an address, cut to the room, and its length. Does nothing if a pointer is null.
///
/// # Safety
/// `len` is null or valid, and `to` is null or points to `*len` bytes.
pub(crate) unsafe fn give_address(bytes: &[u8], to: *mut sockaddr, len: *mut socklen_t) {
    if to.is_null() || len.is_null() {
        return;
    }
    // SAFETY: not null, and the caller's promise.
    unsafe {
        let room = (len.read_unaligned() as usize).min(bytes.len());
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), to.cast(), room);
        len.write_unaligned(bytes.len() as socklen_t);
    }
}

/// A list of buffers.
///
/// # Errors
/// EFAULT: null. EMSGSIZE: more than IOV_MAX.
///
/// # Safety
/// `list` points to `count` entries, which live as long as the result is used.
pub(crate) unsafe fn pieces<'a>(list: *const iovec, count: usize) -> Result<&'a [iovec], c_int> {
    match count {
        0 => Ok(&[]),
        _ if list.is_null() => Err(libc::EFAULT),
        // SAFETY: not null, and the caller's promise.
        1..=MOST_PIECES => Ok(unsafe { std::slice::from_raw_parts(list, count) }),
        _ => Err(libc::EMSGSIZE),
    }
}

/// The result of a C function that returns a length.
pub(crate) fn length(result: Result<usize, c_int>) -> ssize_t {
    match result {
        Ok(length) => ssize_t::try_from(length).unwrap_or(ssize_t::MAX),
        Err(errno) => {
            set_errno(errno);
            -1
        }
    }
}

/// The result of a C function that returns a number.
pub(crate) fn number(result: Result<c_int, c_int>) -> c_int {
    result.unwrap_or_else(|errno| {
        set_errno(errno);
        -1
    })
}
