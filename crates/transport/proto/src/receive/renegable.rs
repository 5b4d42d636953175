//! Tracks which of the data received out of order may still be dropped (reneging, RFC 9260 section
//! 6.2), and chooses which data to drop for lack of memory.
//!
//! Data is renegable from its arrival above the cumulative TSN until its message can be delivered.
//! A TSN that was removed never becomes renegable again, so data that was reported as non-renegable
//! stays so.

use std::collections::BTreeMap;

/// The TSNs above the cumulative one whose messages wait for others.
#[derive(Debug, Default)]
pub(crate) struct Renegable {
    /// First and last TSN of ranges that do not touch.
    ranges: BTreeMap<u64, u64>,
    /// Number of TSNs in `ranges`.
    count: u64,
}

/// The minimum part of the data that is dropped at once (1/`LEAST_SHARE`), because dropping
/// requires a search through everything held.
const LEAST_SHARE: u64 = 32;

impl Renegable {
    /// Adds a received TSN that is in none of the ranges.
    pub(crate) fn insert(&mut self, tsn: u64) {
        self.count += 1;
        let last = self.ranges.remove(&(tsn + 1)).unwrap_or(tsn);
        match self.ranges.range_mut(..tsn).next_back() {
            Some((_, before)) if *before + 1 == tsn => *before = last,
            _ => {
                self.ranges.insert(tsn, last);
            }
        }
    }

    /// Removes the TSNs from `first` to `last`, which can be delivered or were dropped.
    pub(crate) fn remove(&mut self, first: u64, last: u64) {
        while let Some((&from, &to)) = self.ranges.range(..=last).next_back() {
            if to < first {
                return;
            }
            self.ranges.remove(&from);
            self.count -= to.min(last) - from.max(first) + 1;
            if from < first {
                self.ranges.insert(from, first - 1);
            }
            if to > last {
                self.ranges.insert(last + 1, to);
            }
        }
    }

    /// Removes all TSNs up to `cumulative`, which are acknowledged for good.
    pub(crate) fn forget_up_to(&mut self, cumulative: u64) {
        if self.ranges.first_key_value().is_some_and(|(&first, _)| first <= cumulative) {
            self.remove(0, cumulative);
        }
    }

    /// The TSN that starts the upper half of the renegable data above `tsn`; `None` if there is too
    /// little such data.
    pub(crate) fn upper_half(&self, tsn: u64) -> Option<u64> {
        let above = || {
            let ranges = self.ranges.range(..).rev().map(|(&first, &last)| (first, last));
            ranges.take_while(move |(_, last)| *last > tsn).map(move |(f, l)| (f.max(tsn + 1), l))
        };
        let all = above().map(|(first, last)| last - first + 1).sum::<u64>();
        if all < self.count / LEAST_SHARE {
            return None;
        }
        let mut half = all.div_ceil(2);
        for (first, last) in above() {
            if last - first + 1 >= half {
                return Some(last + 1 - half);
            }
            half -= last - first + 1;
        }
        None
    }

    /// Divides intervals of received TSNs into renegable and non-renegable ones, in the order of
    /// their TSNs, until `each` returns that it has enough. `each` gets the first and last TSN and
    /// whether they are renegable.
    pub(crate) fn divide(
        &self,
        intervals: impl Iterator<Item = (u64, u64)>,
        mut each: impl FnMut(u64, u64, bool) -> bool,
    ) {
        for (first, last) in intervals {
            let mut at = first;
            let before = self.ranges.range(..first).next_back();
            let inside = before.into_iter().chain(self.ranges.range(first..=last));
            for (&from, &to) in inside.filter(|range| *range.1 >= first) {
                let (from, to) = (from.max(first), to.min(last));
                if at < from && !each(at, from - 1, false) || !each(from, to, true) {
                    return;
                }
                at = to + 1;
            }
            if at <= last && !each(at, last, false) {
                return;
            }
        }
    }

    /// The ranges, for tests.
    #[cfg(any(test, feature = "invariants"))]
    pub(crate) fn ranges(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.ranges.iter().map(|(&first, &last)| (first, last))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn of(tsns: &[u64]) -> Renegable {
        let mut renegable = Renegable::default();
        tsns.iter().for_each(|tsn| renegable.insert(*tsn));
        renegable
    }

    #[test]
    fn the_upper_half_is_what_goes_first() {
        let renegable = of(&[5, 6, 7, 8, 20, 21]);
        assert_eq!(renegable.upper_half(0), Some(8));
        assert_eq!(renegable.upper_half(7), Some(20));
        assert_eq!(renegable.upper_half(20), Some(21));
        assert_eq!(renegable.upper_half(21), None);
        assert_eq!(Renegable::default().upper_half(0), None);
        let renegable = of(&(1..=640).collect::<Vec<_>>());
        assert_eq!(renegable.upper_half(620), Some(631));
        assert_eq!(renegable.upper_half(621), None, "too little for the search");
    }

    #[test]
    fn intervals_are_divided() {
        let renegable = of(&[5, 6, 9, 12]);
        let mut found = Vec::new();
        renegable.divide([(3, 9), (11, 11), (12, 14)].into_iter(), |first, last, renegable| {
            found.push((first, last, renegable));
            true
        });
        let expected = [
            (3, 4, false),
            (5, 6, true),
            (7, 8, false),
            (9, 9, true),
            (11, 11, false),
            (12, 12, true),
            (13, 14, false),
        ];
        assert_eq!(found, expected);
        let mut calls = 0;
        renegable.divide([(3, 9), (11, 11)].into_iter(), |_, _, _| {
            calls += 1;
            calls < 3
        });
        assert_eq!(calls, 3, "it has enough");
    }

    proptest! {
        #[test]
        fn equals_a_set(steps in proptest::collection::vec((0..4_u8, 1..50_u64, 0..8_u64), 0..80)) {
            let mut renegable = Renegable::default();
            let mut model = BTreeSet::new();
            for (step, tsn, more) in steps {
                match step {
                    0 | 1 if model.insert(tsn) => renegable.insert(tsn),
                    2 => {
                        renegable.remove(tsn, tsn + more);
                        model.retain(|t| !(tsn..=tsn + more).contains(t));
                    }
                    3 => {
                        renegable.forget_up_to(more);
                        model.retain(|t| *t > more);
                    }
                    _ => {}
                }
                let tsns: BTreeSet<u64> = renegable.ranges().flat_map(|(f, l)| f..=l).collect();
                prop_assert_eq!(&tsns, &model);
                let ranges: Vec<_> = renegable.ranges().collect();
                prop_assert!(ranges.windows(2).all(|pair| pair[0].1 + 1 < pair[1].0));
                prop_assert_eq!(renegable.count, model.len() as u64);
                let above: Vec<u64> = model.range(tsn + 1..).copied().collect();
                let half = above.len() / 2;
                prop_assert_eq!(renegable.upper_half(tsn), above.get(half).copied());
            }
        }
    }
}
