//! Buffers of C programs: data to send, and room for received data.

use std::ffi::c_void;

use bytes::Bytes;
use libc::{c_int, iovec};

use crate::errno::Errno;

/// IOV_MAX of Linux.
const MOST: usize = 1024;

/// Checks a list of buffers.
///
/// # Safety
/// `list` is null or points to `count` entries.
unsafe fn entries<'a>(list: *const iovec, count: usize) -> Result<&'a [iovec], Errno> {
    if count == 0 {
        return Ok(&[]);
    }
    if list.is_null() {
        return Err(Errno::EFAULT);
    }
    if count > MOST {
        return Err(Errno::EMSGSIZE);
    }
    if !list.is_aligned() {
        return Err(Errno::EINVAL);
    }
    // SAFETY: the caller's promise, and the pointer is aligned.
    let entries = unsafe { std::slice::from_raw_parts(list, count) };
    let mut total = 0usize;
    for entry in entries {
        if entry.iov_base.is_null() && entry.iov_len > 0 {
            return Err(Errno::EFAULT);
        }
        total = total.checked_add(entry.iov_len).ok_or(Errno::EINVAL)?;
    }
    if isize::try_from(total).is_err() {
        return Err(Errno::EINVAL);
    }
    Ok(entries)
}

/// Copies one buffer.
///
/// # Safety
/// `data` is null or points to `len` readable bytes.
pub(super) unsafe fn copy(data: *const c_void, len: usize) -> Result<Bytes, Errno> {
    let entry = iovec { iov_base: data.cast_mut(), iov_len: len };
    // SAFETY: the caller's promise.
    unsafe { gather(&raw const entry, 1) }
}

/// Copies the buffers of a list into one.
///
/// # Safety
/// `list` is null or points to `count` entries, each of which is null or points to as many
/// readable bytes as it says.
pub(super) unsafe fn gather(list: *const iovec, count: usize) -> Result<Bytes, Errno> {
    // SAFETY: the caller's promise.
    let entries = unsafe { entries(list, count) }?;
    let total = entries.iter().map(|entry| entry.iov_len).sum();
    let mut bytes = Vec::new();
    // The caller chooses the size: too little memory must be an error, not the end of the process.
    bytes.try_reserve_exact(total).map_err(|_| Errno::ENOBUFS)?;
    for entry in entries.iter().filter(|entry| entry.iov_len > 0) {
        // SAFETY: not null, and readable for its length as the caller promises.
        let piece =
            unsafe { std::slice::from_raw_parts(entry.iov_base.cast::<u8>(), entry.iov_len) };
        bytes.extend_from_slice(piece);
    }
    Ok(bytes.into())
}

/// The total size of the buffers of a list, in bytes.
///
/// # Safety
/// `list` is null or points to `count` entries.
pub(super) unsafe fn room(list: *const iovec, count: usize) -> Result<usize, Errno> {
    // SAFETY: the caller's promise.
    let entries = unsafe { entries(list, count) }?;
    Ok(entries.iter().map(|entry| entry.iov_len).sum())
}

/// Copies pieces into the buffers of a list until those are full. Returns the number of bytes copied.
///
/// # Safety
/// `list` is null or points to `count` entries, each of which is null or points to as many
/// writable bytes as it says.
pub(super) unsafe fn scatter(
    pieces: &[Bytes],
    list: *const iovec,
    count: usize,
) -> Result<usize, Errno> {
    // SAFETY: the caller's promise.
    let entries = unsafe { entries(list, count) }?;
    let mut entries = entries.iter().map(|entry| (entry.iov_base.cast::<u8>(), entry.iov_len));
    let mut space = (std::ptr::null_mut::<u8>(), 0);
    let mut total = 0;
    for piece in pieces {
        let mut rest = &piece[..];
        while !rest.is_empty() {
            if space.1 == 0 {
                match entries.next() {
                    Some(next) => space = next,
                    None => return Ok(total),
                }
                continue;
            }
            let count = rest.len().min(space.1);
            // SAFETY: `count` bytes are left of the piece, and of the buffer, which is writable
            // as the caller promises; the piece is this library's own memory.
            unsafe {
                std::ptr::copy_nonoverlapping(rest.as_ptr(), space.0, count);
                space = (space.0.add(count), space.1 - count);
            }
            rest = &rest[count..];
            total += count;
        }
    }
    Ok(total)
}

/// Converts a number of buffers.
pub(super) fn count(count: c_int) -> Result<usize, Errno> {
    usize::try_from(count).map_err(|_| Errno::EINVAL)
}

/// As [`count`], for `readv` and `writev`, which return EINVAL for too many buffers (`sendmsg`: EMSGSIZE).
pub(super) fn vector(given: c_int) -> Result<usize, Errno> {
    count(given).and_then(|count| if count > MOST { Err(Errno::EINVAL) } else { Ok(count) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_scattered_over_buffers_of_any_sizes() {
        let pieces = [Bytes::from_static(b"abc"), Bytes::new(), Bytes::from_static(b"defgh")];
        let (mut a, mut b, mut c) = ([0u8; 1], [0u8; 4], [0u8; 9]);
        let list = [
            iovec { iov_base: a.as_mut_ptr().cast(), iov_len: 1 },
            iovec { iov_base: std::ptr::null_mut(), iov_len: 0 },
            iovec { iov_base: b.as_mut_ptr().cast(), iov_len: 4 },
            iovec { iov_base: c.as_mut_ptr().cast(), iov_len: 9 },
        ];
        // SAFETY: four entries, each as long as it says.
        unsafe {
            assert_eq!(room(list.as_ptr(), 4), Ok(14));
            assert_eq!(scatter(&pieces, list.as_ptr(), 4), Ok(8));
            assert_eq!(&gather(list.as_ptr(), 4).unwrap()[..8], b"abcdefgh");
            assert_eq!(scatter(&pieces, list.as_ptr(), 3), Ok(5));
        }
    }

    #[test]
    fn what_cannot_be_a_list_is_refused() {
        let null = iovec { iov_base: std::ptr::null_mut(), iov_len: 1 };
        let long = iovec { iov_base: (&raw const null).cast_mut().cast(), iov_len: usize::MAX };
        // SAFETY: nothing is read from the buffers.
        unsafe {
            assert_eq!(room(std::ptr::null(), 1), Err(Errno::EFAULT));
            assert_eq!(room(&raw const null, 1), Err(Errno::EFAULT));
            assert_eq!(room(&raw const long, 1), Err(Errno::EINVAL));
            assert_eq!(room(&raw const null, 5000), Err(Errno::EMSGSIZE));
        }
    }
}
