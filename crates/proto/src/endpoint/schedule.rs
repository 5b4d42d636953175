//! Whose turn it is: associations with something to send, with events, with a deadline.
//!
//! The cost of a step does not depend on associations that are idle. Deadlines stand in a heap
//! with lazy deletion: an association is entered only when its deadline moves forward, which
//! restarting a timer never does, so that the heap is touched a few times a second and
//! association rather than for every acknowledgement. Against a timer wheel this costs a
//! logarithm on those few times and keeps deadlines exact to the nanosecond, which simulations
//! rely on.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::event::AssociationId;
use crate::time::Instant;

/// What is known of one association, by slot.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    /// Generation of the association that the slot has now; the heap may still hold deadlines
    /// of earlier ones.
    generation: u32,
    /// The deadline that stands in the heap for it.
    queued: Option<Instant>,
    /// The deadline that it wants, not before the queued one.
    wanted: Option<Instant>,
    is_ready: bool,
    has_events: bool,
    /// Bytes that it may still send in this round (deficit round-robin).
    deficit: usize,
}

#[derive(Debug, Default)]
pub(super) struct Schedule {
    entries: Vec<Entry>,
    deadlines: BinaryHeap<Reverse<(Instant, AssociationId)>>,
    ready: VecDeque<AssociationId>,
    events: VecDeque<AssociationId>,
}

impl Schedule {
    fn entry(&mut self, id: AssociationId) -> &mut Entry {
        let index = id.slot as usize;
        if index >= self.entries.len() {
            self.entries.resize(index + 1, Entry::default());
        }
        &mut self.entries[index]
    }

    /// An association has something to send.
    pub(super) fn ready(&mut self, id: AssociationId) {
        let entry = self.entry(id);
        if !entry.is_ready {
            entry.is_ready = true;
            entry.deficit = 0;
            self.ready.push_back(id);
        }
    }

    /// The association whose turn it is to send.
    pub(super) fn next_ready(&mut self) -> Option<AssociationId> {
        self.ready.front().copied()
    }

    /// It sent `bytes`; after a quantum the next one has its turn.
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

    /// It has nothing more to send.
    pub(super) fn done(&mut self, id: AssociationId) {
        self.entry(id).is_ready = false;
        if self.ready.front() == Some(&id) {
            self.ready.pop_front();
        }
    }

    /// An association has events.
    pub(super) fn has_events(&mut self, id: AssociationId) {
        let entry = self.entry(id);
        if !entry.has_events {
            entry.has_events = true;
            self.events.push_back(id);
        }
    }

    pub(super) fn next_with_events(&mut self) -> Option<AssociationId> {
        self.events.front().copied()
    }

    pub(super) fn events_drained(&mut self, id: AssociationId) {
        self.entry(id).has_events = false;
        if self.events.front() == Some(&id) {
            self.events.pop_front();
        }
    }

    /// Sets the deadline of an association.
    pub(super) fn deadline(&mut self, id: AssociationId, deadline: Option<Instant>) {
        let entry = self.entry(id);
        entry.generation = id.generation;
        entry.wanted = deadline;
        let Some(deadline) = deadline else { return };
        if entry.queued.is_none_or(|queued| deadline < queued) {
            entry.queued = Some(deadline);
            self.deadlines.push(Reverse((deadline, id)));
        }
    }

    /// The next instant at which something may be due; never too late, sometimes too early.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.peek().map(|Reverse((deadline, _))| *deadline)
    }

    /// The next association whose deadline has come.
    pub(super) fn pop_due(&mut self, now: Instant) -> Option<AssociationId> {
        while let Some(Reverse((deadline, id))) = self.deadlines.peek().copied() {
            if deadline > now {
                return None;
            }
            self.deadlines.pop();
            let entry = self.entry(id);
            if entry.generation != id.generation || entry.queued != Some(deadline) {
                continue;
            }
            entry.queued = None;
            match entry.wanted {
                Some(wanted) if wanted <= now => return Some(id),
                wanted => self.deadline(id, wanted),
            }
        }
        None
    }

    /// An association is gone.
    pub(super) fn forget(&mut self, id: AssociationId) {
        *self.entry(id) = Entry::default();
        self.ready.retain(|other| *other != id);
        self.events.retain(|other| *other != id);
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
}
