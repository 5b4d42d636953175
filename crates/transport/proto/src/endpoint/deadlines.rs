//! The deadlines of associations, at most one for each, ordered by time.
//!
//! A binary heap that records the position of each association. So a changed deadline replaces the old
//! one, and a removed one leaves no entry. The heap's size is bounded by the number of associations,
//! however often their timers are set.

use crate::time::Instant;

/// Marks a slot that is not in the heap.
const NOWHERE: u32 = u32::MAX;

/// A heap of deadlines by slot.
#[derive(Debug, Default)]
pub(super) struct Deadlines {
    /// Deadline and slot; no element is earlier than its parent, at half its index.
    heap: Vec<(Instant, u32)>,
    /// The index in the heap, by slot.
    places: Vec<u32>,
    /// Number of elements that changed places, for tests that count work.
    #[cfg(test)]
    pub(super) moves: u64,
}

impl Deadlines {
    /// Number of deadlines in the heap.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.heap.len()
    }

    /// The earliest deadline, and its slot.
    pub(super) fn first(&self) -> Option<(Instant, u32)> {
        self.heap.first().copied()
    }

    /// The deadline of a slot, if it has one.
    pub(super) fn of(&self, slot: u32) -> Option<Instant> {
        self.place(slot).map(|at| self.heap[at].0)
    }

    /// Sets the deadline of a slot, replacing the old one.
    pub(super) fn set(&mut self, slot: u32, deadline: Instant) {
        let index = slot as usize;
        if index >= self.places.len() {
            self.places.resize(index + 1, NOWHERE);
        }
        match self.place(slot) {
            Some(at) => {
                self.heap[at].0 = deadline;
                self.settle(at);
            }
            None => {
                self.heap.push((deadline, slot));
                self.settle(self.heap.len() - 1);
            }
        }
    }

    /// Removes the deadline of a slot.
    pub(super) fn remove(&mut self, slot: u32) {
        let Some(at) = self.place(slot) else { return };
        self.places[slot as usize] = NOWHERE;
        self.heap.swap_remove(at);
        if at < self.heap.len() {
            self.settle(at);
        }
    }

    fn place(&self, slot: u32) -> Option<usize> {
        let place = self.places.get(slot as usize).copied()?;
        (place != NOWHERE).then_some(place as usize)
    }

    /// Moves the element at `at` up or down until the heap is ordered.
    fn settle(&mut self, at: usize) {
        let mut at = at;
        let element = self.heap[at];
        while at > 0 && element < self.heap[(at - 1) / 2] {
            self.put(at, self.heap[(at - 1) / 2]);
            at = (at - 1) / 2;
        }
        loop {
            let left = 2 * at + 1;
            let Some(&first) = self.heap.get(left) else { break };
            let right = self.heap.get(left + 1).copied();
            let (child, earlier) = match right {
                Some(right) if right < first => (left + 1, right),
                _ => (left, first),
            };
            if element <= earlier {
                break;
            }
            self.put(at, earlier);
            at = child;
        }
        self.put(at, element);
    }

    fn put(&mut self, at: usize, element: (Instant, u32)) {
        self.heap[at] = element;
        self.places[element.1 as usize] = at as u32;
        #[cfg(test)]
        {
            self.moves += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn equals_a_sorted_map(steps in proptest::collection::vec((0..4_u8, 0..20_u32, 0..50_u64), 0..200)) {
            let mut deadlines = Deadlines::default();
            let mut model = BTreeMap::new();
            for (step, slot, at) in steps {
                if step == 0 {
                    deadlines.remove(slot);
                    model.remove(&slot);
                } else {
                    deadlines.set(slot, Instant::from_nanos(at));
                    model.insert(slot, Instant::from_nanos(at));
                }
                prop_assert_eq!(deadlines.len(), model.len());
                let first = model.iter().map(|(slot, at)| (*at, *slot)).min();
                prop_assert_eq!(deadlines.first(), first);
                prop_assert!((0..20).all(|slot| deadlines.of(slot) == model.get(&slot).copied()));
            }
        }
    }
}
