//! Waiting for a change that another thread makes, as a blocking call of the system waits: a signal
//! whose handler was installed without SA_RESTART ends it with EINTR, and one with it does not,
//! unless the wait has a limit.
//!
//! That is how `futex` behaves (signal(7)), so that the kernel decides, which knows how the handler
//! was installed. A condition variable would hide it.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::io::Errno;
use rustix::thread::futex::{self, Flags, Secs, Timespec};

use crate::error::Error;

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
    pub(crate) fn announce(&self) {
        self.count.fetch_add(1, Ordering::SeqCst);
        if self.waiting.load(Ordering::SeqCst) > 0 {
            // Waking has no other effect, and cannot fail.
            let _ = futex::wake(&self.count, Flags::PRIVATE, i32::MAX.unsigned_abs());
        }
    }

    /// Waits until something has changed since `seen`, for `limit` at the most. It may return
    /// before.
    ///
    /// # Errors
    /// A signal was handled.
    pub(crate) fn wait(&self, seen: u32, limit: Option<Duration>) -> Result<(), Error> {
        let timeout = limit.map(|limit| Timespec {
            tv_sec: limit.as_secs().try_into().unwrap_or(Secs::MAX),
            tv_nsec: limit.subsec_nanos().into(),
        });
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let result = futex::wait(&self.count, Flags::PRIVATE, seen, timeout.as_ref());
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        if result == Err(Errno::INTR) { Err(Error::Interrupted) } else { Ok(()) }
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
        changes.announce();
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
        changes.announce();
        assert!(waiting.into_iter().all(|waiting| waiting.join().unwrap() == Ok(())));
    }
}
