//! Locks.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex; what a panic left behind is still good to read.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
