//! Waiting for a change that another thread makes, as a blocking call of the system waits: a signal
//! whose handler was installed without SA_RESTART ends it with EINTR, and one with it does not,
//! unless the wait has a limit.
//!
//! That is how `futex` behaves (signal(7)), so that the kernel decides, which knows how the handler
//! was installed. A condition variable would hide it.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::errno::Errno;

/// Counts changes, and wakes those who wait for the next one.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    count: AtomicU32,
    waiting: AtomicU32,
}

impl Changes {
    /// The number that [`wait`](Self::wait) wants: to be taken under the lock of what changes.
    pub(crate) fn now(&self) -> u32 {
        self.count.load(Ordering::SeqCst)
    }

    /// Something has changed.
    pub(crate) fn tell(&self) {
        self.count.fetch_add(1, Ordering::SeqCst);
        if self.waiting.load(Ordering::SeqCst) > 0 {
            // SAFETY: the counter lives as long as `self`; waking has no other effect.
            unsafe {
                libc::syscall(
                    libc::SYS_futex,
                    self.count.as_ptr(),
                    libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
                    i32::MAX,
                );
            }
        }
    }

    /// Waits until something has changed since `seen`, for `limit` at the most. It may return
    /// before.
    ///
    /// # Errors
    /// EINTR: a signal was handled.
    pub(crate) fn wait(&self, seen: u32, limit: Option<Duration>) -> Result<(), Errno> {
        let timeout = limit.map(|limit| libc::timespec {
            tv_sec: limit.as_secs().try_into().unwrap_or(libc::time_t::MAX),
            tv_nsec: limit.subsec_nanos().into(),
        });
        let timeout = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        self.waiting.fetch_add(1, Ordering::SeqCst);
        // SAFETY: the counter lives as long as `self`, and the time, if there is one, until the
        // call returns.
        let result = unsafe {
            libc::syscall(
                libc::SYS_futex,
                self.count.as_ptr(),
                libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
                seen,
                timeout,
            )
        };
        let errno = if result == 0 { None } else { Some(Errno::last()) };
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        if errno == Some(Errno::EINTR) { Err(Errno::EINTR) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_change_before_the_wait_is_not_missed() {
        let changes = Changes::default();
        let seen = changes.now();
        changes.tell();
        assert_eq!(changes.wait(seen, None), Ok(()));
        // Without a change, the limit ends it.
        assert_eq!(changes.wait(changes.now(), Some(Duration::from_millis(1))), Ok(()));
    }

    #[test]
    fn those_who_wait_are_woken() {
        let changes = Arc::new(Changes::default());
        let seen = changes.now();
        let waiting: Vec<_> = (0..4)
            .map(|_| {
                let changes = Arc::clone(&changes);
                std::thread::spawn(move || changes.wait(seen, None))
            })
            .collect();
        while changes.waiting.load(Ordering::SeqCst) < 4 {
            std::thread::yield_now();
        }
        changes.tell();
        assert!(waiting.into_iter().all(|waiting| waiting.join().unwrap() == Ok(())));
    }
}
