//! Calls that copy descriptors, and `ioctl`. The kernel does the work; what was known about the new number is forgotten.

use std::ffi::c_void;

use libc::{c_int, c_ulong};

use crate::{known, next, ours, receiving};

fn forget(fd: c_int) -> c_int {
    if fd >= 0 && known::any() {
        known::forget(fd);
    }
    fd
}

/// # Safety
/// As in libc; so are all functions here.
#[unsafe(no_mangle)]
unsafe extern "C" fn dup(fd: c_int) -> c_int {
    // SAFETY: the call has no preconditions.
    forget(unsafe { next::dup(fd) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn dup2(fd: c_int, to: c_int) -> c_int {
    // SAFETY: the call has no preconditions.
    forget(unsafe { next::dup2(fd, to) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn dup3(fd: c_int, to: c_int, flags: c_int) -> c_int {
    // SAFETY: the call has no preconditions.
    forget(unsafe { next::dup3(fd, to, flags) })
}

/// Whether the result of `fcntl` is a new descriptor.
fn copies(command: c_int) -> bool {
    matches!(command, libc::F_DUPFD | libc::F_DUPFD_CLOEXEC)
}

// In C these three have variable arguments. Where Linux runs, one such argument is passed like one that is declared,
// and a caller that passes none leaves any value there, which the kernel ignores.

#[unsafe(no_mangle)]
unsafe extern "C" fn fcntl(fd: c_int, command: c_int, argument: *mut c_void) -> c_int {
    // SAFETY: the caller's promise.
    let result = unsafe { next::fcntl(fd, command, argument) };
    if copies(command) { forget(result) } else { result }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fcntl64(fd: c_int, command: c_int, argument: *mut c_void) -> c_int {
    // SAFETY: the caller's promise.
    let result = unsafe { next::fcntl64(fd, command, argument) };
    if copies(command) { forget(result) } else { result }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ioctl(fd: c_int, request: c_ulong, argument: *mut c_void) -> c_int {
    if request != libc::FIONREAD || argument.is_null() || ours::find(fd).is_none() {
        // SAFETY: the caller's promise.
        return unsafe { next::ioctl(fd, request, argument) };
    }
    let waiting = c_int::try_from(receiving::waiting(fd)).unwrap_or(c_int::MAX);
    // SAFETY: not null; the argument of this request points to an int.
    unsafe { argument.cast::<c_int>().write_unaligned(waiting) };
    0
}
