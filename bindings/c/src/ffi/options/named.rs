//! ANABRANCH_OPTION: options of the engine that no standard defines, as text.

use std::ffi::{CStr, c_char};

use anabranch_sockets::{AssocId, Socket};
use libc::c_int;

use super::{parse, text};
use crate::abi::{self, NamedOption};
use crate::errno::Errno;
use crate::ffi::{done, tell};
use crate::world::find;

pub(super) fn set(socket: &Socket, bytes: &[u8]) -> Result<(), Errno> {
    let option: NamedOption = parse(bytes)?;
    let (name, value) = (text(&option.name)?, text(&option.value)?);
    Ok(socket.set_named(AssocId(option.assoc_id), name, value)?)
}

/// Sets several options of the engine for future associations. On failure sets none of them and writes
/// why to `reason`, beginning with the option's name.
///
/// # Safety
/// `list` is null or a null-terminated text, and `reason` is null or points to `len` writable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn anabranch_set_options(
    fd: c_int,
    list: *const c_char,
    reason: *mut c_char,
    len: usize,
) -> c_int {
    done(|| {
        let socket = find(fd)?;
        if list.is_null() {
            return Err(Errno::EFAULT);
        }
        // SAFETY: not null, and the caller's promise.
        let list = unsafe { CStr::from_ptr(list) }.to_str().map_err(|_| Errno::EINVAL)?;
        let result = socket.set_options(list);
        let text = result.as_ref().err().map_or("", |refused| refused.reason.as_str());
        // SAFETY: the caller's promise.
        unsafe { tell(text, reason, len) };
        result.map_err(|refused| refused.error.into())
    })
}

pub(super) fn get(socket: &Socket, given: &[u8]) -> Result<Vec<u8>, Errno> {
    let mut option: NamedOption = parse(given)?;
    let name = text(&option.name)?;
    let value =
        socket.configuration(AssocId(option.assoc_id))?.get(name).ok_or(Errno::ENOPROTOOPT)?;
    let mut bytes = value.into_bytes();
    bytes.resize(option.value.len(), 0);
    option.value.copy_from_slice(&bytes);
    Ok(abi::to_bytes(&option))
}

#[cfg(test)]
mod tests {
    use anabranch::AssociationConfig;
    use anabranch_sockets::PROFILE;

    use super::*;

    #[test]
    fn every_option_fits_into_the_structure() {
        let room = NamedOption::default();
        let config = AssociationConfig::default();
        for option in AssociationConfig::options() {
            assert!(option.name.len() < room.name.len(), "{}", option.name);
            assert!(option.get(&config).len() < room.value.len(), "{}", option.name);
        }
        assert!(AssociationConfig::option(PROFILE).is_none(), "that name is taken");
        assert_eq!(text(b"abc\0d"), Ok("abc"));
        assert_eq!(text(b"abc"), Err(Errno::EINVAL));
        assert_eq!(text(b"\xff\0"), Err(Errno::EINVAL));
    }
}
