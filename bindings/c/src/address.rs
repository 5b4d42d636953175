//! Converts socket addresses to and from C.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::ptr;

use libc::{c_int, sockaddr, sockaddr_in, sockaddr_in6, socklen_t};

use crate::errno::Errno;

/// Bytes of a `struct sockaddr_storage`.
pub(crate) const STORAGE: usize = size_of::<libc::sockaddr_storage>();

/// Maximum number of addresses in one call; an association has fewer.
const MOST: usize = 1024;

/// Reads one address of `len` bytes.
///
/// # Safety
/// `address` is null or points to `len` readable bytes.
pub(crate) unsafe fn read(address: *const sockaddr, len: socklen_t) -> Result<SocketAddr, Errno> {
    if address.is_null() {
        return Err(Errno::EFAULT);
    }
    let len = len as usize;
    // A negative length in C is a very large number here.
    if len < size_of::<libc::sa_family_t>() || len > STORAGE {
        return Err(Errno::EINVAL);
    }
    // SAFETY: the caller's promise; all addresses begin with the family, which the length covers.
    let family = unsafe { ptr::read_unaligned(&raw const (*address).sa_family) };
    let size = size(family)?;
    if len < size {
        return Err(Errno::EINVAL);
    }
    // SAFETY: the caller's promise; `size` is at most `len`.
    let bytes = unsafe { std::slice::from_raw_parts(address.cast::<u8>(), size) };
    from_bytes(bytes).map(|(address, _)| address)
}

/// Reads `count` consecutive addresses, each of its family's size.
///
/// # Safety
/// `addresses` is null or points to `count` addresses.
pub(crate) unsafe fn read_packed(
    addresses: *const sockaddr,
    count: c_int,
) -> Result<Vec<SocketAddr>, Errno> {
    let count = usize::try_from(count).map_err(|_| Errno::EINVAL)?;
    if addresses.is_null() && count > 0 {
        return Err(Errno::EFAULT);
    }
    if count == 0 || count > MOST {
        return Err(Errno::EINVAL);
    }
    let mut at = addresses.cast::<u8>();
    let mut read = Vec::with_capacity(count);
    for _ in 0..count {
        // SAFETY: `at` points to an address of the caller's list, and all begin with the fields of
        // `sockaddr`. It need not be aligned.
        let family = unsafe { ptr::read_unaligned(&raw const (*at.cast::<sockaddr>()).sa_family) };
        let size = size(family)?;
        // SAFETY: an address of this family has `size` bytes.
        let bytes = unsafe { std::slice::from_raw_parts(at, size) };
        read.push(from_bytes(bytes)?.0);
        // SAFETY: the next address begins where this one ends, or the list ends there.
        at = unsafe { at.add(size) };
    }
    Ok(read)
}

fn size(family: libc::sa_family_t) -> Result<usize, Errno> {
    match c_int::from(family) {
        libc::AF_INET => Ok(size_of::<sockaddr_in>()),
        libc::AF_INET6 => Ok(size_of::<sockaddr_in6>()),
        _ => Err(Errno::EAFNOSUPPORT),
    }
}

/// Reads the address at the start of `bytes`. Returns the address and its size.
pub(crate) fn from_bytes(bytes: &[u8]) -> Result<(SocketAddr, usize), Errno> {
    if bytes.len() < size_of::<libc::sa_family_t>() {
        return Err(Errno::EINVAL);
    }
    let mut storage = [0; STORAGE];
    let known = bytes.len().min(STORAGE);
    storage[..known].copy_from_slice(&bytes[..known]);
    // SAFETY: the storage is larger than any of the types read, which consist of numbers only.
    let family = unsafe { ptr::read_unaligned(storage.as_ptr().cast::<sockaddr>()) }.sa_family;
    let size = size(family)?;
    if bytes.len() < size {
        return Err(Errno::EINVAL);
    }
    if c_int::from(family) == libc::AF_INET {
        // SAFETY: as above.
        let v4 = unsafe { ptr::read_unaligned(storage.as_ptr().cast::<sockaddr_in>()) };
        let ip = Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr));
        return Ok((SocketAddrV4::new(ip, u16::from_be(v4.sin_port)).into(), size));
    }
    // SAFETY: as above.
    let v6 = unsafe { ptr::read_unaligned(storage.as_ptr().cast::<sockaddr_in6>()) };
    let (ip, port) = (Ipv6Addr::from(v6.sin6_addr.s6_addr), u16::from_be(v6.sin6_port));
    let address = match ip.to_ipv4_mapped() {
        Some(v4) => SocketAddrV4::new(v4, port).into(),
        None => SocketAddrV6::new(ip, port, v6.sin6_flowinfo, v6.sin6_scope_id).into(),
    };
    Ok((address, size))
}

/// The bytes of an address in C's layout.
pub(crate) fn to_bytes(address: SocketAddr) -> Vec<u8> {
    let mut bytes = vec![0; STORAGE];
    match address {
        SocketAddr::V4(v4) => {
            // SAFETY: all zero bytes are a valid value.
            let mut raw: sockaddr_in = unsafe { std::mem::zeroed() };
            raw.sin_family = libc::AF_INET as libc::sa_family_t;
            raw.sin_port = v4.port().to_be();
            raw.sin_addr.s_addr = u32::from(*v4.ip()).to_be();
            // SAFETY: the buffer is longer than the address, which has no padding.
            unsafe { ptr::write_unaligned(bytes.as_mut_ptr().cast(), raw) };
            bytes.truncate(size_of::<sockaddr_in>());
        }
        SocketAddr::V6(v6) => {
            // SAFETY: as above.
            let mut raw: sockaddr_in6 = unsafe { std::mem::zeroed() };
            raw.sin6_family = libc::AF_INET6 as libc::sa_family_t;
            raw.sin6_port = v6.port().to_be();
            raw.sin6_addr.s6_addr = v6.ip().octets();
            raw.sin6_scope_id = v6.scope_id();
            // SAFETY: as above.
            unsafe { ptr::write_unaligned(bytes.as_mut_ptr().cast(), raw) };
            bytes.truncate(size_of::<sockaddr_in6>());
        }
    }
    bytes
}

/// The bytes of an address in a `struct sockaddr_storage`.
pub(crate) fn to_storage(address: SocketAddr) -> [u8; STORAGE] {
    let mut storage = [0; STORAGE];
    let bytes = to_bytes(address);
    storage[..bytes.len()].copy_from_slice(&bytes);
    storage
}

/// Where a call writes an address, truncated to the room, and its full size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    to: *mut sockaddr,
    len: *mut socklen_t,
}

impl Place {
    /// Checks the room before the call has effects. Later writes nothing if `to` or `len` is null.
    ///
    /// # Errors
    /// EINVAL: the length is negative.
    ///
    /// # Safety
    /// `len` is null or valid for reading and writing for as long as the result is in use, and `to` is
    /// null or points to `*len` writable bytes.
    pub(crate) unsafe fn new(to: *mut sockaddr, len: *mut socklen_t) -> Result<Self, Errno> {
        if !to.is_null() && !len.is_null() {
            // SAFETY: not null, and the caller's promise.
            c_int::try_from(unsafe { len.read_unaligned() }).map_err(|_| Errno::EINVAL)?;
        }
        Ok(Self { to, len })
    }

    /// As [`new`](Self::new), but fails with EFAULT if `to` or `len` is null.
    ///
    /// # Safety
    /// As [`new`](Self::new).
    pub(crate) unsafe fn needed(to: *mut sockaddr, len: *mut socklen_t) -> Result<Self, Errno> {
        if to.is_null() || len.is_null() {
            return Err(Errno::EFAULT);
        }
        // SAFETY: the caller's promise.
        unsafe { Self::new(to, len) }
    }

    pub(crate) fn write(self, address: SocketAddr) {
        if self.to.is_null() || self.len.is_null() {
            return;
        }
        let bytes = to_bytes(address);
        // SAFETY: not null, and what `new` was promised.
        unsafe {
            let room = (self.len.read_unaligned() as usize).min(bytes.len());
            ptr::copy_nonoverlapping(bytes.as_ptr(), self.to.cast(), room);
            self.len.write_unaligned(bytes.len() as socklen_t);
        }
    }

    /// Writes length 0: there is no address.
    pub(crate) fn write_none(self) {
        if !self.len.is_null() {
            // SAFETY: not null, and what `new` was promised.
            unsafe { self.len.write_unaligned(0) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_survive_the_way_to_c_and_back() {
        for text in ["192.0.2.1:5000", "[2001:db8::1]:65535", "[fe80::1%3]:1"] {
            let address: SocketAddr = text.parse().unwrap();
            let bytes = to_bytes(address);
            assert_eq!(from_bytes(&bytes).unwrap(), (address, bytes.len()));
            assert_eq!(from_bytes(&bytes[..bytes.len() - 1]), Err(Errno::EINVAL));
        }
        assert_eq!(from_bytes(&[255, 255, 0, 0]), Err(Errno::EAFNOSUPPORT));
        assert_eq!(from_bytes(&[2]), Err(Errno::EINVAL));
    }

    #[test]
    fn mapped_addresses_are_ipv4_ones() {
        let v4: SocketAddr = "192.0.2.1:5000".parse().unwrap();
        assert_eq!(from_bytes(&to_bytes(anabranch_sockets::mapped(v4))).unwrap().0, v4);
    }

    #[test]
    fn packed_lists_mix_families() {
        let list: [SocketAddr; 2] =
            ["[2001:db8::1]:7".parse().unwrap(), "10.0.0.1:7".parse().unwrap()];
        let bytes: Vec<u8> = list.iter().flat_map(|address| to_bytes(*address)).collect();
        // SAFETY: the list has two addresses.
        assert_eq!(unsafe { read_packed(bytes.as_ptr().cast(), 2) }.unwrap(), list);
        // SAFETY: nothing is read.
        assert_eq!(unsafe { read_packed(ptr::null(), 1) }, Err(Errno::EFAULT));
    }
}
