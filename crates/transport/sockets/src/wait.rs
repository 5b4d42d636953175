//! Waits for a change made by another thread, with the signal behaviour of a blocking system call: a
//! signal whose handler was installed without SA_RESTART ends the wait with EINTR; a handler with
//! SA_RESTART ends it only if the wait has a time limit.
//!
//! `futex` behaves like this (signal(7)), because the kernel knows how the handler was installed. A
//! condition variable would hide the signal.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::io::Errno;
use rustix::thread::futex::{self, Flags, Secs, Timespec};
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use crate::error::Error;

/// Counts changes, and wakes threads and tasks that wait for the next one.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    count: AtomicU32,
    waiting: AtomicU32,
    tasks: Notify,
}

impl Changes {
    /// The number to pass to [`wait`](Self::wait). Read it under the lock of the changing state.
    pub(crate) fn now(&self) -> u32 {
        self.count.load(Ordering::SeqCst)
    }

    /// Announces a change.
    pub(crate) fn announce(&self) {
        self.count.fetch_add(1, Ordering::SeqCst);
        if self.waiting.load(Ordering::SeqCst) > 0 {
            // Waking has no other effect, and cannot fail.
            let _ = futex::wake(&self.count, Flags::PRIVATE, i32::MAX.unsigned_abs());
        }
        self.tasks.notify_waiters();
    }

    /// Waits for the next change after its `enable`, without blocking the thread.
    pub(crate) fn next(&self) -> Notified<'_> {
        self.tasks.notified()
    }

    /// Waits until something has changed since `seen`, at most for `limit`. May return spuriously.
    ///
    /// # Errors
    /// A signal handler interrupted the wait.
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
