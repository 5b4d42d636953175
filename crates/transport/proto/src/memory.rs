//! The memory limit that the buffers of all associations of an endpoint share.
//!
//! Each association has its own buffers, whose sum may exceed the limit. Each also has a floor:
//! memory that it can always use. The unused part of all floors, and an eighth of the limit for new
//! associations, is reserved, so associations above their floor cannot use it. Once the rest is used
//! up, associations above their floor close their windows, do not acknowledge data that still
//! arrives, and refuse sends. When enough memory is free again, all associations are notified.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

/// The unit of accounting, in bytes. The number of units of an association fits into four bytes; its
/// memory is rounded up to a multiple of the unit.
const UNIT: usize = 256;

/// If less memory than this is free, in bytes, none counts as free: enough for a packet with its
/// bookkeeping.
const LEAST: usize = 4096;

/// The floor of an association in bytes; less if the limit is below 16 times that.
const FLOOR: usize = 16 * 1024;

/// 1/NEWCOMERS of the limit is reserved for the floors of new associations.
const NEWCOMERS: usize = 8;

/// Memory that cannot be released may exceed the limit by 1/OVERDRAFT of it.
const OVERDRAFT: usize = 8;

/// Associations are notified when 1/ENOUGH of the limit is free. They ask for that once less than
/// half of that is left.
const ENOUGH: usize = 4;

/// The account of an endpoint's memory. The endpoint updates it, and its associations read it.
///
/// All of them have one owner, so there is no contention: the atomics are cells that may move between
/// threads.
#[derive(Debug)]
pub(crate) struct Memory {
    limit: usize,
    floor: usize,
    used: AtomicUsize,
    /// Total memory that associations may still use below their floors.
    unused_floors: AtomicUsize,
    /// Free bytes at which associations are notified; 0 if none waits.
    wanted: AtomicUsize,
    /// One of the waiting associations holds little, so others may be evicted for it.
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

    /// Bytes that an association may always use, however much the others use.
    pub(crate) fn floor(&self) -> usize {
        self.floor
    }

    fn free(&self) -> usize {
        self.limit.saturating_sub(self.used())
    }

    /// Bytes left for associations above their floor.
    fn left_for_all(&self) -> usize {
        let floors = self.unused_floors.load(Relaxed);
        self.free().saturating_sub(floors.clamp(self.limit / NEWCOMERS, self.limit / 2))
    }

    /// Bytes left below the floor for an association that holds `held`.
    pub(crate) fn left_of_floor(&self, held: usize) -> usize {
        let own = self.floor.saturating_sub(held);
        let floors = self.unused_floors.load(Relaxed);
        // If the floors exceed the memory, scale each down.
        let own = match self.free() {
            free if free < floors => (own as u64 * free as u64 / floors as u64) as usize,
            _ => own,
        };
        if own < LEAST.min(self.floor) { 0 } else { own }
    }

    /// Half of the limit, if that much is free and a closer check is not needed: the fast path for
    /// every packet while memory is plentiful.
    pub(crate) fn plenty(&self) -> Option<usize> {
        let quarter = self.limit / 4;
        let plentiful =
            self.used.load(Relaxed) < quarter && self.unused_floors.load(Relaxed) < quarter;
        plentiful.then_some(self.limit / 2)
    }

    /// Bytes left for an association that holds `held` bytes, `fresh` of which are not accounted for
    /// yet. If few are left, the associations are notified when there are more.
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

    /// Whether there is room for another association, which needs some memory to begin with.
    pub(crate) fn takes_newcomers(&self) -> bool {
        self.left(0, 0) > 0
    }

    /// Whether a message of `bytes` can never be stored.
    pub(crate) fn is_too_small_for(&self, bytes: usize) -> bool {
        bytes > self.limit
    }

    /// Whether `bytes` are left for an association that holds `held`, `fresh` of which are not
    /// accounted for yet. If not, the associations are notified when they are.
    pub(crate) fn has_room(&self, held: usize, fresh: usize, bytes: usize) -> bool {
        let has = bytes <= self.left(held, fresh)
            || self.is_huge(bytes) && bytes <= self.free().saturating_sub(fresh);
        if !has {
            self.want(bytes);
        }
        has
    }

    /// Whether a message is so large that it would never fit in addition to all reserved memory.
    fn is_huge(&self, bytes: usize) -> bool {
        bytes > self.limit / 2
    }

    /// Whether an association that stores `held` bytes that cannot be released may exceed the limit
    /// with more of them.
    pub(crate) fn may_overdraw(&self, held: usize) -> bool {
        let most = self.limit / OVERDRAFT;
        held <= most && self.used() <= self.limit + most
    }

    fn want(&self, bytes: usize) {
        let wanted = self.wanted.load(Relaxed).max(bytes).max(self.limit / ENOUGH);
        self.wanted.store(wanted, Relaxed);
    }

    /// Adds an association that does not hold memory yet.
    pub(crate) fn enter(&self) {
        self.unused_floors.store(self.unused_floors.load(Relaxed) + self.floor, Relaxed);
    }

    /// Removes an association that held `held` units.
    pub(crate) fn leave(&self, held: u32) {
        self.account(held, 0);
        let floors = self.unused_floors.load(Relaxed).saturating_sub(self.floor);
        self.unused_floors.store(floors, Relaxed);
    }

    /// Updates the account of an association that had `held` units and holds `bytes` now. Returns its
    /// units.
    #[inline]
    pub(crate) fn account(&self, held: u32, bytes: usize) -> u32 {
        let now = u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX);
        if now != held {
            self.correct(held as usize * UNIT, now as usize * UNIT);
        }
        now
    }

    fn correct(&self, before: usize, after: usize) {
        let others = self.used().saturating_sub(before);
        self.used.store(others + after, Relaxed);
        let unused = |held: usize| self.floor.saturating_sub(held);
        let floors = self.unused_floors.load(Relaxed).saturating_sub(unused(before));
        self.unused_floors.store(floors + unused(after), Relaxed);
    }

    /// Whether associations wait for memory.
    pub(crate) fn is_short(&self) -> bool {
        self.wanted.load(Relaxed) > 0
    }

    /// Whether an association that holds little, or a new one, needs more memory.
    pub(crate) fn is_needed(&self) -> bool {
        self.needy.load(Relaxed)
    }

    /// Whether the waiting associations can get as much as they requested.
    pub(crate) fn is_relieved(&self) -> bool {
        let wanted = self.wanted.load(Relaxed);
        wanted <= if self.is_huge(wanted) { self.free() } else { self.left_for_all() }
    }

    /// Whether associations wait for memory and there is enough again; true only once.
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
        // Memory reserved for others never keeps a message from being sent forever.
        assert!(!memory.has_room(475 * UNIT, 0, 1000 * UNIT));
        memory.account(held, 0);
        assert!(memory.has_room(0, 0, 1000 * UNIT) && memory.take_returned());
        assert!(memory.is_too_small_for(1000 * UNIT + 1));
    }

    /// Ten associations use all memory; one that begins later still gets its floor.
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

    /// Associations that hold nothing must not cause others to be refused.
    #[test]
    fn many_may_be_quiet() {
        let memory = Memory::new(1 << 20);
        (0..10_000).for_each(|_| memory.enter());
        assert!(memory.takes_newcomers() && memory.left(0, 0) >= (1 << 20) / 2);
        assert!(!memory.is_short());
    }
}
