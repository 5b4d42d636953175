//! The memory that the buffers of all associations of an endpoint may take together.
//!
//! Each association still has buffers of its own size; their sum may be more than there is. An
//! association has a floor that the others cannot take: what has not been used of all floors, and an
//! eighth of the limit for those who are still to come, is kept back from those who hold more. Once
//! the rest is used up, windows are closed, data that comes nevertheless is not acknowledged, and
//! sends are refused, beyond the floors. When enough is free again, all associations hear of it.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

/// What is counted: an association's share is rounded up to a multiple, in bytes, so that four
/// bytes hold it.
const UNIT: usize = 256;

/// Less than this is nothing, in bytes: a packet with its bookkeeping has room in it.
const LEAST: usize = 4096;

/// What no association can be kept from having, in bytes; less if the limit is below 16 of it.
const FLOOR: usize = 16 * 1024;

/// The part of the limit that is for the floors of associations to come.
const NEWCOMERS: usize = 8;

/// The part of the limit by which what cannot be given back may exceed it.
const OVERDRAFT: usize = 8;

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
    floor: usize,
    used: AtomicUsize,
    /// What the associations that hold less than their floor may still take of it, together.
    unused_floors: AtomicUsize,
    /// Bytes that must be free before associations hear of it; 0 if none waits.
    wanted: AtomicUsize,
    /// One of those who wait holds little: others could give way to it.
    needy: AtomicBool,
}

impl Memory {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            floor: FLOOR.min(limit / 16),
            used: AtomicUsize::new(0),
            unused_floors: AtomicUsize::new(0),
            wanted: AtomicUsize::new(0),
            needy: AtomicBool::new(false),
        }
    }

    /// Bytes in use.
    pub(crate) fn used(&self) -> usize {
        self.used.load(Relaxed)
    }

    /// Bytes that an association may hold whatever the others do.
    pub(crate) fn floor(&self) -> usize {
        self.floor
    }

    fn free(&self) -> usize {
        self.limit.saturating_sub(self.used())
    }

    /// Bytes left for those who hold more than their floor.
    fn left_for_all(&self) -> usize {
        let floors = self.unused_floors.load(Relaxed);
        self.free().saturating_sub(floors.clamp(self.limit / NEWCOMERS, self.limit / 2))
    }

    /// Bytes of its floor that are left to an association that holds so many.
    pub(crate) fn left_of_floor(&self, held: usize) -> usize {
        let own = self.floor.saturating_sub(held);
        let floors = self.unused_floors.load(Relaxed);
        // More floors than memory: each is as much smaller.
        let own = match self.free() {
            free if free < floors => (own as u64 * free as u64 / floors as u64) as usize,
            _ => own,
        };
        if own < LEAST.min(self.floor) { 0 } else { own }
    }

    /// Half of the limit, if that is left for anybody and it need not be looked at closer: the short
    /// way that every packet takes while there is plenty.
    pub(crate) fn plenty(&self) -> Option<usize> {
        let quarter = self.limit / 4;
        let plentiful =
            self.used.load(Relaxed) < quarter && self.unused_floors.load(Relaxed) < quarter;
        plentiful.then_some(self.limit / 2)
    }

    /// Bytes left for an association that holds so many, `fresh` of which have not been accounted
    /// for yet. With few of them left, the associations are told when there are more again.
    pub(crate) fn left(&self, held: usize, fresh: usize) -> usize {
        let common = self.left_for_all().saturating_sub(fresh);
        if common < self.limit / (2 * ENOUGH) {
            self.want(0);
        }
        let own = self.left_of_floor(held);
        if common >= LEAST {
            return common + own;
        }
        if held < 2 * self.floor {
            self.needy.store(true, Relaxed);
        }
        own
    }

    /// Whether there is room for one association more: it needs something to begin with.
    pub(crate) fn takes_newcomers(&self) -> bool {
        self.left(0, 0) > 0
    }

    /// Whether a message of so many bytes can never be kept.
    pub(crate) fn is_too_small_for(&self, bytes: usize) -> bool {
        bytes > self.limit
    }

    /// Whether so many bytes are left for an association that holds `held`, of which `fresh` are not
    /// accounted for. If not, the associations are told when they are.
    pub(crate) fn has_room(&self, held: usize, fresh: usize, bytes: usize) -> bool {
        let has = bytes <= self.left(held, fresh)
            || self.is_huge(bytes) && bytes <= self.free().saturating_sub(fresh);
        if !has {
            self.want(bytes);
        }
        has
    }

    /// A message that would never have room beside all that may be kept back.
    fn is_huge(&self, bytes: usize) -> bool {
        bytes > self.limit / 2
    }

    /// Whether an association that keeps `held` bytes that cannot be given back may go beyond the limit
    /// with more of them.
    pub(crate) fn may_overdraw(&self, held: usize) -> bool {
        let most = self.limit / OVERDRAFT;
        held <= most && self.used() <= self.limit + most
    }

    fn want(&self, bytes: usize) {
        let wanted = self.wanted.load(Relaxed).max(bytes).max(self.limit / ENOUGH);
        self.wanted.store(wanted, Relaxed);
    }

    /// There is one association more, which holds nothing yet.
    pub(crate) fn enter(&self) {
        self.unused_floors.store(self.unused_floors.load(Relaxed) + self.floor, Relaxed);
    }

    /// An association that had `held` units is no more.
    pub(crate) fn leave(&self, held: u32) {
        self.account(held, 0);
        let floors = self.unused_floors.load(Relaxed).saturating_sub(self.floor);
        self.unused_floors.store(floors, Relaxed);
    }

    /// An association that had `held` units has this many bytes now. Returns its units.
    pub(crate) fn account(&self, held: u32, bytes: usize) -> u32 {
        let now = u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX);
        if now != held {
            let (before, after) = (held as usize * UNIT, now as usize * UNIT);
            let others = self.used().saturating_sub(before);
            self.used.store(others + after, Relaxed);
            let unused = |held: usize| self.floor.saturating_sub(held);
            let floors = self.unused_floors.load(Relaxed).saturating_sub(unused(before));
            self.unused_floors.store(floors + unused(after), Relaxed);
        }
        now
    }

    /// Whether associations wait for memory.
    pub(crate) fn is_short(&self) -> bool {
        self.wanted.load(Relaxed) > 0
    }

    /// Whether an association that holds little, or one to come, could do with more.
    pub(crate) fn is_needed(&self) -> bool {
        self.needy.load(Relaxed)
    }

    /// Whether there is as much as those who wait want.
    pub(crate) fn is_relieved(&self) -> bool {
        let wanted = self.wanted.load(Relaxed);
        wanted <= if self.is_huge(wanted) { self.free() } else { self.left_for_all() }
    }

    /// Whether associations wait for memory and there is enough again; true once.
    pub(crate) fn take_returned(&self) -> bool {
        let returned = self.is_short() && self.is_relieved();
        if returned {
            self.needy.store(false, Relaxed);
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
        memory.enter();
        let held = memory.account(0, 1);
        assert_eq!((held, memory.used()), (1, UNIT));
        let held = memory.account(held, 100 * UNIT);
        assert_eq!((held, memory.left(100 * UNIT, 0)), (100, 775 * UNIT));
        memory.leave(held);
        assert_eq!((memory.used(), memory.unused_floors.load(Relaxed)), (0, 0));
    }

    #[test]
    fn those_who_wait_hear_once_that_there_is_enough() {
        let memory = Memory::new(1000 * UNIT);
        memory.enter();
        assert!(memory.has_room(0, 0, 900 * UNIT) && !memory.take_returned());
        let held = memory.account(0, 800 * UNIT);
        assert!(!memory.has_room(800 * UNIT, 0, 101 * UNIT) && !memory.take_returned());
        let held = memory.account(held, 700 * UNIT);
        assert!(!memory.take_returned(), "not a quarter beside what is kept back");
        let held = memory.account(held, 625 * UNIT);
        assert!(memory.take_returned() && !memory.take_returned());
        assert!(!memory.has_room(625 * UNIT, 0, 400 * UNIT));
        let held = memory.account(held, 476 * UNIT);
        assert!(!memory.take_returned(), "not so much");
        let held = memory.account(held, 475 * UNIT);
        assert!(memory.take_returned());
        // What is kept back for others never keeps a message from ever being sent.
        assert!(!memory.has_room(475 * UNIT, 0, 1000 * UNIT));
        memory.account(held, 0);
        assert!(memory.has_room(0, 0, 1000 * UNIT) && memory.take_returned());
        assert!(memory.is_too_small_for(1000 * UNIT + 1));
    }

    /// Ten associations hold all there is; whoever comes later has its floor.
    #[test]
    fn nobody_takes_the_floor_of_another() {
        let memory = Memory::new(1 << 20);
        let mut held = [(0, 0); 10];
        held.iter().for_each(|_| memory.enter());
        loop {
            let mut grown = false;
            for (units, bytes) in &mut held {
                if memory.left(*bytes, 0) >= 1500 {
                    *bytes += 1500;
                    *units = memory.account(*units, *bytes);
                    grown = true;
                }
            }
            if !grown {
                break;
            }
        }
        assert!(memory.used() <= 1 << 20, "{}", memory.used());
        assert!(memory.takes_newcomers());
        for newcomer in 0..8 {
            memory.enter();
            assert!(memory.left(0, 0) >= FLOOR / 2, "{newcomer}: {}", memory.left(0, 0));
            memory.account(0, FLOOR);
        }
        assert!(memory.used() <= 1 << 20, "{}", memory.used());
    }

    /// Those who hold nothing are no reason to refuse others.
    #[test]
    fn many_may_be_quiet() {
        let memory = Memory::new(1 << 20);
        (0..10_000).for_each(|_| memory.enter());
        assert!(memory.takes_newcomers() && memory.left(0, 0) >= (1 << 20) / 2);
        assert!(!memory.is_short());
    }
}
