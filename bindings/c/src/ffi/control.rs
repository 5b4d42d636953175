//! Ancillary data of messages: a list of items, each with a header that has its length. The program
//! sets the lengths, so each is checked before use.

use std::mem::offset_of;

use libc::{c_int, cmsghdr};

use crate::abi::{self, IPPROTO_SCTP, Plain};
use crate::errno::Errno;

/// Maximum number of bytes per call: the default of Linux (net.core.optmem_max).
const MOST: usize = 128 << 10;

/// Items begin at multiples of this many bytes.
const ALIGNMENT: usize = size_of::<usize>();

/// Bytes of a header; the data of an item begins here.
const HEADER: usize = size_of::<cmsghdr>().next_multiple_of(ALIGNMENT);

/// An item of SCTP: its type, and its data.
pub(super) type Item<'a> = (c_int, &'a [u8]);

/// The ancillary data of a message that is sent.
///
/// # Safety
/// `control` is null or points to `len` readable bytes, which are not written to while the result is
/// in use.
pub(super) unsafe fn given<'a>(control: *const u8, len: usize) -> Result<&'a [u8], Errno> {
    if len == 0 {
        return Ok(&[]);
    }
    if control.is_null() {
        return Err(Errno::EFAULT);
    }
    if len > MOST {
        return Err(Errno::ENOBUFS);
    }
    // SAFETY: not null, and the caller's promise.
    Ok(unsafe { std::slice::from_raw_parts(control, len) })
}

/// The SCTP items in ancillary data. Bytes after the last item, fewer than a header, are padding.
///
/// # Errors
/// EINVAL: an item is shorter than its header, or longer than what is left.
pub(super) fn items(control: &[u8]) -> Result<Vec<Item<'_>>, Errno> {
    let mut found = Vec::new();
    let mut rest = control;
    while rest.len() >= size_of::<cmsghdr>() {
        let len = usize::from_ne_bytes(field(rest, offset_of!(cmsghdr, cmsg_len))?);
        let data = rest.get(HEADER..len).ok_or(Errno::EINVAL)?;
        if c_int::from_ne_bytes(field(rest, offset_of!(cmsghdr, cmsg_level))?) == IPPROTO_SCTP {
            let kind = c_int::from_ne_bytes(field(rest, offset_of!(cmsghdr, cmsg_type))?);
            found.push((kind, data));
        }
        // At most the length of `rest`, so this does not wrap.
        rest = rest.get(len.next_multiple_of(ALIGNMENT)..).unwrap_or_default();
    }
    Ok(found)
}

/// A field of a header, which need not be aligned.
fn field<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N], Errno> {
    bytes.get(at..).and_then(<[u8]>::first_chunk).copied().ok_or(Errno::EINVAL)
}

/// Reads an item that is exactly one structure.
pub(super) fn exactly<T: Plain>(data: &[u8]) -> Result<T, Errno> {
    let known = abi::from_bytes(data).filter(|_| data.len() == size_of::<T>());
    known.ok_or(Errno::EINVAL)
}

/// Encodes the items that fit into `room`. Also returns whether all of them fit.
pub(super) fn encode(items: &[(c_int, Vec<u8>)], room: usize) -> (Vec<u8>, bool) {
    let mut bytes = Vec::new();
    for (kind, data) in items {
        let start = bytes.len();
        let len = HEADER + data.len();
        // The last item needs no padding after it.
        if len > room - start {
            return (bytes, false);
        }
        bytes.resize(start + HEADER, 0);
        let mut set = |at: usize, value: &[u8]| {
            bytes[start + at..][..value.len()].copy_from_slice(value);
        };
        set(offset_of!(cmsghdr, cmsg_len), &len.to_ne_bytes());
        set(offset_of!(cmsghdr, cmsg_level), &IPPROTO_SCTP.to_ne_bytes());
        set(offset_of!(cmsghdr, cmsg_type), &kind.to_ne_bytes());
        bytes.extend_from_slice(data);
        bytes.resize(bytes.len().next_multiple_of(ALIGNMENT).min(room), 0);
    }
    (bytes, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two items of SCTP with data of 4 and 5 bytes.
    fn two() -> Vec<u8> {
        encode(&[(2, vec![7; 4]), (3, vec![8; 5])], 1000).0
    }

    fn with_len(mut control: Vec<u8>, at: usize, len: usize) -> Vec<u8> {
        control[at..][..size_of::<usize>()].copy_from_slice(&len.to_ne_bytes());
        control
    }

    #[test]
    fn items_survive_the_way_to_c_and_back() {
        let control = two();
        assert_eq!(items(&control).unwrap(), [(2, &[7; 4][..]), (3, &[8; 5])]);
        // Without padding after the last one, and with less than a header after it.
        let last = HEADER.next_multiple_of(8) + 8 + HEADER + 5;
        assert_eq!(items(&control[..last]).unwrap().len(), 2);
        let padded = [&control[..], &[0xff; 15]].concat();
        assert_eq!(items(&padded[..control.len() + 15]).unwrap().len(), 2);
        assert_eq!(items(&[]), Ok(Vec::new()));
        assert_eq!(items(&[0xff; 15]), Ok(Vec::new()));
    }

    #[test]
    fn no_length_leads_out_of_the_data() {
        let control = two();
        let second = HEADER + 8;
        let odd = [0, 1, HEADER - 1, usize::MAX, usize::MAX - 6, usize::MAX - 7, usize::MAX / 2]
            .into_iter()
            .chain((0..64).map(|bit| 1_usize << bit));
        for len in odd.filter(|len| *len < HEADER || *len > control.len()) {
            for at in [0, second] {
                let changed = with_len(control.clone(), at, len);
                assert_eq!(items(&changed), Err(Errno::EINVAL), "{len} at {at}");
            }
        }
        // One byte more than there is.
        let long = with_len(control.clone(), 0, control.len() + 1);
        assert_eq!(items(&long), Err(Errno::EINVAL));
        let whole = with_len(control.clone(), 0, control.len());
        assert_eq!(items(&whole).unwrap().len(), 1);
    }

    #[test]
    fn items_of_other_levels_are_passed_over_but_checked() {
        let mut control = two();
        control[offset_of!(cmsghdr, cmsg_level)] = 1;
        assert_eq!(items(&control).unwrap(), [(3, &[8; 5][..])]);
        let changed = with_len(control, 0, usize::MAX);
        assert_eq!(items(&changed), Err(Errno::EINVAL));
    }

    #[test]
    fn what_has_no_room_is_left_out() {
        let both = [(2, vec![7; 4]), (3, vec![8; 5])];
        for room in 0..100 {
            let (bytes, all) = encode(&both, room);
            assert!(bytes.len() <= room);
            let count = items(&bytes).unwrap().len();
            assert_eq!(all, count == 2, "{room}");
        }
    }

    #[test]
    fn data_of_another_length_is_no_structure() {
        assert_eq!(exactly::<c_int>(&[0; 4]), Ok(0));
        assert_eq!(exactly::<c_int>(&[0; 3]), Err(Errno::EINVAL));
        assert_eq!(exactly::<c_int>(&[0; 5]), Err(Errno::EINVAL));
    }

    #[test]
    fn lengths_that_no_kernel_takes_are_refused_before_anything_is_read() {
        let byte = 0_u8;
        // SAFETY: nothing is read.
        unsafe {
            assert_eq!(given(std::ptr::null(), 0), Ok(&[][..]));
            assert_eq!(given(std::ptr::null(), 1), Err(Errno::EFAULT));
            assert_eq!(given(&raw const byte, usize::MAX), Err(Errno::ENOBUFS));
        }
    }
}
