//! Queues of associations that have something to send, have events, or have a deadline.
//!
//! The cost of a step does not depend on the number of associations, idle or not. The heap is updated
//! immediately only when a deadline becomes earlier. Restarting a timer makes it later, which is
//! noticed when the old deadline expires. So the heap changes a few times per second and association
//! instead of for every acknowledgement. Unlike with a timer wheel, each change takes logarithmic
//! time, but deadlines are exact to the nanosecond, on which simulations rely.
//!
//! Removed associations stay queued and are skipped when they reach the front.

use std::collections::VecDeque;

use super::deadlines::Deadlines;
use crate::event::AssociationId;
use crate::time::Instant;

/// The queue state of one association, by slot.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    /// Generation of the association in the slot; the queues may still contain earlier ones.
    generation: u32,
    /// The association's deadline, which is not before the one in the heap.
    wanted: Option<Instant>,
    is_ready: bool,
    has_events: bool,
    /// The association is in the list of those whose deadline may have changed.
    is_changed: bool,
    /// Bytes that the association may still send in this round (deficit round-robin).
    deficit: usize,
}

#[derive(Debug, Default)]
pub(super) struct Schedule {
    entries: Vec<Entry>,
    deadlines: Deadlines,
    ready: VecDeque<AssociationId>,
    events: VecDeque<AssociationId>,
    /// Associations whose deadline may have changed since [`deadline`](Self::deadline) was called.
    changed: Vec<AssociationId>,
    /// Number of queue entries examined, for tests that count work.
    #[cfg(test)]
    looks: u64,
}

impl Schedule {
    fn entry(&mut self, id: AssociationId) -> &mut Entry {
        let index = id.slot as usize;
        if index >= self.entries.len() {
            self.entries.resize(index + 1, Entry::default());
        }
        let entry = &mut self.entries[index];
        debug_assert_eq!(entry.generation, id.generation, "an association that is gone");
        entry
    }

    /// Whether an entry of a queue is for an existing association.
    fn is_current(&self, id: AssociationId, waits: impl FnOnce(&Entry) -> bool) -> bool {
        let entry = self.entries.get(id.slot as usize);
        entry.is_some_and(|entry| entry.generation == id.generation && waits(entry))
    }

    /// Queues an association that has something to send.
    pub(super) fn ready(&mut self, id: AssociationId) {
        let entry = self.entry(id);
        if !entry.is_ready {
            entry.is_ready = true;
            entry.deficit = 0;
            self.ready.push_back(id);
        }
    }

    /// Whether an association is queued to send.
    pub(super) fn is_ready(&self, id: AssociationId) -> bool {
        self.is_current(id, |entry| entry.is_ready)
    }

    /// The next association that may send.
    pub(super) fn next_ready(&mut self) -> Option<AssociationId> {
        while let Some(id) = self.ready.front().copied() {
            #[cfg(test)]
            {
                self.looks += 1;
            }
            if self.is_current(id, |entry| entry.is_ready) {
                return Some(id);
            }
            self.ready.pop_front();
        }
        None
    }

    /// Records that an association sent `bytes`; after a quantum the next association sends.
    pub(super) fn sent(&mut self, id: AssociationId, bytes: usize, quantum: usize) {
        let entry = self.entry(id);
        entry.deficit += bytes;
        if entry.deficit >= quantum {
            entry.deficit -= quantum;
            if self.ready.len() > 1 {
                self.ready.rotate_left(1);
            }
        }
    }

    /// Records that an association has nothing more to send.
    pub(super) fn done(&mut self, id: AssociationId) {
        self.entry(id).is_ready = false;
        if self.ready.front() == Some(&id) {
            self.ready.pop_front();
        }
    }

    /// Queues an association that has events.
    pub(super) fn has_events(&mut self, id: AssociationId) {
        let entry = self.entry(id);
        if !entry.has_events {
            entry.has_events = true;
            self.events.push_back(id);
        }
    }

    pub(super) fn next_with_events(&mut self) -> Option<AssociationId> {
        while let Some(id) = self.events.front().copied() {
            #[cfg(test)]
            {
                self.looks += 1;
            }
            if self.is_current(id, |entry| entry.has_events) {
                return Some(id);
            }
            self.events.pop_front();
        }
        None
    }

    pub(super) fn events_drained(&mut self, id: AssociationId) {
        self.entry(id).has_events = false;
        if self.events.front() == Some(&id) {
            self.events.pop_front();
        }
    }

    /// Records that the deadline of an association may have changed. Finding it is not cheap, and one
    /// packet often changes it several times, so it is asked for later.
    pub(super) fn deadline_changed(&mut self, id: AssociationId) {
        let entry = self.entry(id);
        if !entry.is_changed {
            entry.is_changed = true;
            self.changed.push(id);
        }
    }

    /// The associations whose deadline may have changed.
    pub(super) fn changed(&self) -> &[AssociationId] {
        &self.changed
    }

    /// Removes an association from the list of those whose deadline may have changed. The caller sets
    /// its deadline.
    pub(super) fn pop_changed(&mut self) -> Option<AssociationId> {
        while let Some(id) = self.changed.pop() {
            if self.is_current(id, |entry| entry.is_changed) {
                self.entry(id).is_changed = false;
                return Some(id);
            }
        }
        None
    }

    /// Sets the deadline of an association.
    pub(super) fn deadline(&mut self, id: AssociationId, deadline: Option<Instant>) {
        self.entry(id).wanted = deadline;
        let Some(deadline) = deadline else { return };
        if self.deadlines.of(id.slot).is_none_or(|queued| deadline < queued) {
            self.deadlines.set(id.slot, deadline);
        }
    }

    /// The next time at which something may be due; sometimes too early, and too late only for associations in
    /// [`changed`](Self::changed).
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.first().map(|(deadline, _)| deadline)
    }

    /// The next association whose deadline has passed.
    pub(super) fn pop_due(&mut self, now: Instant) -> Option<AssociationId> {
        while let Some((deadline, slot)) = self.deadlines.first() {
            if deadline > now {
                return None;
            }
            let entry = self.entries.get(slot as usize).copied().unwrap_or_default();
            match entry.wanted {
                Some(wanted) if wanted <= now => {
                    self.deadlines.remove(slot);
                    return Some(AssociationId { slot, generation: entry.generation });
                }
                Some(wanted) => self.deadlines.set(slot, wanted),
                None => self.deadlines.remove(slot),
            }
        }
        None
    }

    /// Removes an association.
    pub(super) fn forget(&mut self, id: AssociationId) {
        let entry = self.entry(id);
        *entry = Entry { generation: id.generation.wrapping_add(1), ..Entry::default() };
        self.deadlines.remove(id.slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(slot: u32) -> AssociationId {
        AssociationId { slot, generation: 0 }
    }

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    #[test]
    fn deadlines_move_both_ways() {
        let mut schedule = Schedule::default();
        schedule.deadline(id(0), Some(at(10)));
        schedule.deadline(id(1), Some(at(20)));
        schedule.deadline(id(0), Some(at(30)));
        assert_eq!(schedule.next_deadline(), Some(at(10)));
        assert_eq!(schedule.pop_due(at(10)), None);
        assert_eq!(schedule.next_deadline(), Some(at(20)));
        schedule.deadline(id(0), Some(at(5)));
        assert_eq!(schedule.pop_due(at(20)), Some(id(0)));
        assert_eq!(schedule.pop_due(at(20)), Some(id(1)));
        assert_eq!(schedule.pop_due(at(100)), None);
        schedule.deadline(id(1), Some(at(40)));
        schedule.deadline(id(1), None);
        assert_eq!(schedule.pop_due(at(100)), None);
        assert_eq!(schedule.next_deadline(), None);
    }

    #[test]
    fn a_slot_used_again_keeps_its_own_deadline() {
        let mut schedule = Schedule::default();
        schedule.deadline(id(0), Some(at(10)));
        schedule.forget(id(0));
        let next = AssociationId { slot: 0, generation: 1 };
        schedule.deadline(next, Some(at(10)));
        assert_eq!(schedule.pop_due(at(10)), Some(next));
        assert_eq!(schedule.pop_due(at(10)), None);
    }

    #[test]
    fn a_changed_deadline_is_asked_for_once() {
        let mut schedule = Schedule::default();
        schedule.deadline_changed(id(0));
        schedule.deadline_changed(id(1));
        schedule.deadline_changed(id(0));
        assert_eq!(schedule.changed(), [id(0), id(1)]);
        schedule.forget(id(1));
        let next = AssociationId { slot: 1, generation: 1 };
        schedule.deadline_changed(next);
        let asked: Vec<_> = std::iter::from_fn(|| schedule.pop_changed()).collect();
        assert_eq!(asked, [next, id(0)]);
        schedule.deadline_changed(id(0));
        assert_eq!(schedule.pop_changed(), Some(id(0)));
    }

    #[test]
    fn turns_are_by_bytes() {
        let mut schedule = Schedule::default();
        schedule.ready(id(0));
        schedule.ready(id(1));
        schedule.ready(id(0));
        let mut sent = [0, 0];
        for _ in 0..300 {
            let next = schedule.next_ready().unwrap();
            let bytes = if next == id(0) { 100 } else { 1000 };
            sent[next.slot as usize] += bytes;
            schedule.sent(next, bytes, 1000);
        }
        assert!(sent[0].abs_diff(sent[1]) <= 1000, "{sent:?}");
        schedule.forget(id(0));
        assert_eq!(schedule.next_ready(), Some(id(1)));
        schedule.done(id(1));
        assert_eq!(schedule.next_ready(), None);
    }

    #[test]
    fn a_slot_used_again_has_its_own_turn() {
        let mut schedule = Schedule::default();
        schedule.ready(id(0));
        schedule.has_events(id(0));
        schedule.forget(id(0));
        let next = AssociationId { slot: 0, generation: 1 };
        schedule.ready(next);
        schedule.has_events(next);
        assert_eq!(schedule.next_ready(), Some(next));
        assert_eq!(schedule.next_with_events(), Some(next));
        schedule.done(next);
        schedule.events_drained(next);
        assert_eq!((schedule.next_ready(), schedule.next_with_events()), (None, None));
    }

    /// Pacing often sets a near deadline, before T3-rtx and a heartbeat.
    #[test]
    fn timers_that_are_set_again_leave_nothing_behind() {
        let mut schedule = Schedule::default();
        for step in 0..10_000 {
            let now = step * 1_000_000;
            for slot in 0..3 {
                schedule.deadline(id(slot), Some(at(now + 30_000_000_000)));
                schedule.deadline(id(slot), Some(at(now + 1_000_000_000)));
                schedule.deadline(id(slot), Some(at(now + 500_000)));
            }
            assert_eq!(schedule.deadlines.len(), 3);
            let due: Vec<_> = std::iter::from_fn(|| schedule.pop_due(at(now + 500_000))).collect();
            assert_eq!(due, [id(0), id(1), id(2)]);
        }
    }

    /// Restarting timers, as every acknowledgement does, does not touch the heap.
    #[test]
    fn deadlines_that_move_back_cost_nothing() {
        let mut schedule = Schedule::default();
        (0..100).for_each(|slot| schedule.deadline(id(slot), Some(at(1_000))));
        let before = schedule.deadlines.moves;
        for later in 2_000..12_000 {
            schedule.deadline(id(5), Some(at(later)));
        }
        assert_eq!(schedule.deadlines.moves, before);
    }

    #[test]
    fn ten_thousand_that_go_at_once_cost_a_step_each() {
        const ALL: u32 = 10_000;
        let mut schedule = Schedule::default();
        for slot in 0..ALL {
            schedule.ready(id(slot));
            schedule.has_events(id(slot));
            schedule.deadline(id(slot), Some(at(u64::from(slot * 7 % ALL))));
        }
        (schedule.looks, schedule.deadlines.moves) = (0, 0);
        (0..ALL).for_each(|slot| schedule.forget(id(slot)));
        assert_eq!((schedule.next_ready(), schedule.next_with_events()), (None, None));
        assert_eq!((schedule.next_deadline(), schedule.deadlines.len()), (None, 0));
        assert_eq!(schedule.looks, 2 * u64::from(ALL));
        // Each takes a logarithmic number of moves.
        assert!(schedule.deadlines.moves <= 15 * u64::from(ALL), "{}", schedule.deadlines.moves);
    }
}
