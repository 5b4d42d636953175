//! The memory that the buffers of all associations of an endpoint may take together.
//!
//! Each association still has buffers of its own size; their sum may be more than there is. Once
//! it is used up, windows are closed, data that comes nevertheless is not acknowledged, sends are
//! refused and new associations too. When enough is free again, all associations hear of it.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// What is counted: an association's share is rounded up to a multiple, in bytes, so that four
/// bytes hold it.
const UNIT: usize = 256;

/// Less than this is nothing, in bytes: a packet with its bookkeeping has room in it.
const LEAST: usize = 4096;

/// Associations hear of free memory when this part of the limit is free, and want to once half of
/// that is left.
const ENOUGH: usize = 4;

/// An account that the endpoint keeps and its associations read.
///
/// All of them belong to one owner, so that the atomics never contend: they are cells that may
/// move between threads.
#[derive(Debug)]
pub(crate) struct Memory {
    limit: usize,
    used: AtomicUsize,
    /// Bytes that must be free before associations hear of it; 0 if none waits.
    wanted: AtomicUsize,
}

impl Memory {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, used: AtomicUsize::new(0), wanted: AtomicUsize::new(0) }
    }

    /// Bytes in use.
    pub(crate) fn used(&self) -> usize {
        self.used.load(Relaxed)
    }

    /// Bytes left. With few of them left, the associations are told when there are more again.
    pub(crate) fn left(&self) -> usize {
        let left = self.limit.saturating_sub(self.used());
        if left < self.limit / (2 * ENOUGH) {
            self.want(0);
        }
        if left < LEAST { 0 } else { left }
    }

    /// Whether a message of so many bytes can never be kept.
    pub(crate) fn is_too_small_for(&self, bytes: usize) -> bool {
        bytes > self.limit
    }

    /// Whether so many bytes are left. If not, the associations are told when they are.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        let has = bytes <= self.left();
        if !has {
            self.want(bytes);
        }
        has
    }

    fn want(&self, bytes: usize) {
        let wanted = self.wanted.load(Relaxed).max(bytes).max(self.limit / ENOUGH);
        self.wanted.store(wanted, Relaxed);
    }

    /// An association that had `held` units has this many bytes now. Returns its units.
    pub(super) fn account(&self, held: u32, bytes: usize) -> u32 {
        let now = u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX);
        if now != held {
            let others = self.used().saturating_sub(held as usize * UNIT);
            self.used.store(others + now as usize * UNIT, Relaxed);
        }
        now
    }

    /// Whether associations wait for memory and there is enough again; true once.
    pub(super) fn take_returned(&self) -> bool {
        let wanted = self.wanted.load(Relaxed);
        let returned = wanted > 0 && wanted <= self.limit.saturating_sub(self.used());
        if returned {
            self.wanted.store(0, Relaxed);
        }
        returned
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_is_counted_in_units() {
        let memory = Memory::new(1000 * UNIT);
        let held = memory.account(0, 1);
        assert_eq!((held, memory.used()), (1, UNIT));
        let held = memory.account(held, 10 * UNIT);
        assert_eq!((held, memory.left()), (10, 990 * UNIT));
        assert_eq!((memory.account(held, 0), memory.used()), (0, 0));
    }

    #[test]
    fn those_who_wait_hear_once_that_there_is_enough() {
        let memory = Memory::new(1000 * UNIT);
        assert!(memory.has_room(1000 * UNIT) && !memory.take_returned());
        let held = memory.account(0, 900 * UNIT);
        assert!(!memory.has_room(101 * UNIT) && !memory.take_returned());
        let held = memory.account(held, 800 * UNIT);
        assert!(!memory.take_returned(), "not a quarter");
        let held = memory.account(held, 750 * UNIT);
        assert!(memory.take_returned() && !memory.take_returned());
        assert!(!memory.has_room(500 * UNIT));
        let held = memory.account(held, 501 * UNIT);
        assert!(!memory.take_returned(), "not so much");
        memory.account(held, 500 * UNIT);
        assert!(memory.take_returned());
        assert!(memory.is_too_small_for(1000 * UNIT + 1));
    }
}
