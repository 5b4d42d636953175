//! Hints about descriptors, so that other descriptors cost nothing.
//!
//! A descriptor is marked when the kernel has said that it is not one of our sockets. The mark is removed when a call
//! gives its number to one of ours. A mark that is missing costs a system call; no mark is ever the only reason to
//! treat a descriptor as ours.

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};

use libc::c_int;

use crate::ours;

/// Descriptors that have marks. Others are looked at whenever they are used.
const MARKED: usize = 1 << 16;

/// Descriptors with a record of what was sent.
const SENDING: usize = 1 << 12;

/// Descriptors that may be inherited sockets, looked at when the library is loaded. `exec` keeps numbers, and programs
/// that pass sockets on use low ones.
const INHERITED: c_int = 1024;

/// Set in [`SENT`] once the engine has answered a message.
const ANSWERED: u32 = 1 << 16;

/// This process may have one of our sockets.
static ANY: AtomicBool = AtomicBool::new(false);

static OTHERS: [AtomicU64; MARKED / 64] = [const { AtomicU64::new(0) }; MARKED / 64];

/// Descriptors of ours on which something may be received.
static RECEIVING: [AtomicU64; MARKED / 64] = [const { AtomicU64::new(0) }; MARKED / 64];

/// For each descriptor, the highest stream on which the engine has accepted a message, and [`ANSWERED`].
static SENT: [AtomicU32; SENDING] = [const { AtomicU32::new(0) }; SENDING];

/// The process that the marks are about, once there are some. A child of `vfork` shares the memory but not the
/// descriptors.
static PROCESS: AtomicI32 = AtomicI32::new(0);

/// Prepares the hints of this process, and of its children.
pub(crate) fn start() {
    // SAFETY: the handler only stores a number. Without it, a child looks at descriptors more often than it must.
    unsafe { libc::pthread_atfork(None, None, Some(after_fork)) };
    if crate::engine::is_found() && (0..INHERITED).any(ours::is_ours) {
        open();
    }
}

/// Other programs make no system call for this.
extern "C" fn after_fork() {
    if any() {
        remember_process();
    }
}

fn remember_process() {
    // SAFETY: the call has no preconditions.
    PROCESS.store(unsafe { libc::getpid() }, Ordering::Relaxed);
}

/// Whether this process may have one of our sockets.
pub(crate) fn any() -> bool {
    ANY.load(Ordering::Acquire)
}

/// From now on this process may have one.
pub(crate) fn open() {
    if !any() {
        remember_process();
        ANY.store(true, Ordering::Release);
    }
}

/// The bit of a descriptor.
fn place(marks: &'static [AtomicU64], fd: c_int) -> Option<(&'static AtomicU64, u64)> {
    let number = usize::try_from(fd).ok()?;
    Some((marks.get(number / 64)?, 1 << (number % 64)))
}

fn is_marked(marks: &'static [AtomicU64], fd: c_int) -> bool {
    place(marks, fd).is_some_and(|(word, bit)| word.load(Ordering::Relaxed) & bit != 0)
}

/// Whether the descriptor is marked as not ours.
pub(crate) fn is_other(fd: c_int) -> bool {
    is_marked(&OTHERS, fd)
}

/// Marks the descriptor as not ours.
pub(crate) fn set_other(fd: c_int) {
    // SAFETY: the call has no preconditions.
    let process = unsafe { libc::getpid() };
    if process == PROCESS.load(Ordering::Relaxed)
        && let Some((word, bit)) = place(&OTHERS, fd)
    {
        word.fetch_or(bit, Ordering::Relaxed);
    }
}

/// Forgets everything about a descriptor, because its number may have become one of our sockets.
pub(crate) fn forget(fd: c_int) {
    for marks in [&OTHERS, &RECEIVING] {
        if let Some((word, bit)) = place(marks, fd) {
            word.fetch_and(!bit, Ordering::Relaxed);
        }
    }
    forget_sent(fd);
}

/// Whether the engine has said that something may be received.
pub(crate) fn may_receive(fd: c_int) -> bool {
    is_marked(&RECEIVING, fd)
}

/// The engine has said so.
pub(crate) fn set_may_receive(fd: c_int) {
    if let Some((word, bit)) = place(&RECEIVING, fd) {
        word.fetch_or(bit, Ordering::Relaxed);
    }
}

/// The engine has accepted a message on this stream.
pub(crate) fn set_sent(fd: c_int, stream: u16) {
    if let Some(sent) = usize::try_from(fd).ok().and_then(|number| SENT.get(number)) {
        sent.fetch_max(ANSWERED | u32::from(stream), Ordering::Relaxed);
    }
}

/// Whether the engine has accepted a message on this stream or a higher one.
pub(crate) fn has_sent(fd: c_int, stream: u16) -> bool {
    let sent = usize::try_from(fd).ok().and_then(|number| SENT.get(number));
    sent.is_some_and(|sent| sent.load(Ordering::Relaxed) >= ANSWERED | u32::from(stream))
}

/// The next message on this descriptor is answered again.
pub(crate) fn forget_sent(fd: c_int) {
    if let Some(sent) = usize::try_from(fd).ok().and_then(|number| SENT.get(number)) {
        sent.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_by_descriptor() {
        open();
        for fd in [0, 63, 64, 65_535] {
            assert!(!is_other(fd));
            set_other(fd);
            assert!(is_other(fd) && !is_other(fd ^ 1));
            forget(fd);
            assert!(!is_other(fd));
        }
        // Without a mark.
        for fd in [-1, 65_536, c_int::MAX] {
            set_other(fd);
            assert!(!is_other(fd));
        }
    }

    #[test]
    fn the_highest_stream_counts() {
        assert!(!has_sent(7, 0));
        set_sent(7, 0);
        assert!(has_sent(7, 0) && !has_sent(7, 1));
        set_sent(7, 9);
        set_sent(7, 3);
        assert!(has_sent(7, 9) && !has_sent(7, 10));
        forget(7);
        assert!(!has_sent(7, 0));
    }
}
