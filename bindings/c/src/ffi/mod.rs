//! The functions that C calls. Each checks its arguments, catches panics, and on error returns -1
//! with `errno` set.

mod buffers;
mod control;
mod endpoint;
pub mod layout;
mod message;
mod options;
mod sctp;
mod sealed;
mod socket;
mod transfer;
mod vectors;

use std::ffi::c_char;
use std::panic::{AssertUnwindSafe, catch_unwind};

use libc::{c_int, ssize_t};

use crate::errno::Errno;

pub use self::endpoint::*;
pub use self::message::*;
pub use self::options::*;
pub use self::sctp::*;
pub use self::sealed::*;
#[cfg(feature = "packetdrill")]
pub(crate) use self::socket::parse as parse_socket;
pub use self::socket::*;
pub use self::vectors::*;

/// Runs a call. A panic, which is a bug in this library, becomes EIO.
pub(crate) fn guard<T>(failure: T, call: impl FnOnce() -> Result<T, Errno>) -> T {
    let result = catch_unwind(AssertUnwindSafe(call)).unwrap_or(Err(Errno::EIO));
    result.unwrap_or_else(|errno| {
        errno.set();
        failure
    })
}

/// Runs a call whose only result is 0.
fn done(call: impl FnOnce() -> Result<(), Errno>) -> c_int {
    guard(-1, || call().map(|()| 0))
}

/// Writes the beginning of a text, and a 0.
///
/// # Safety
/// `to` is null or points to `len` writable bytes.
unsafe fn tell(text: &str, to: *mut c_char, len: usize) {
    if to.is_null() || len == 0 {
        return;
    }
    let count = text.len().min(len - 1);
    // SAFETY: not null, and there is room for that many bytes and a 0.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr(), to.cast(), count);
        to.add(count).write(0);
    }
}

/// A length as a return value of C.
fn length(length: usize) -> ssize_t {
    ssize_t::try_from(length).unwrap_or(ssize_t::MAX)
}
