//! Records which TSNs have arrived: the cumulative point and the intervals above it.

use std::collections::VecDeque;

use anabranch_wire::GapBlock;

use super::tsns::Tsns;

/// With this many intervals, a chunk that is not stored, and so not charged, must not open another one.
/// A stored chunk may: the receive window limits their number.
const MAX_UNCHARGED: usize = 1024;

/// Gap Ack Block offsets have 16 bits (RFC 9260 section 3.3.4), so no TSN beyond this offset can be
/// reported. There are less than half as many intervals.
pub(super) const MAX_OFFSET: u64 = u16::MAX as u64;

/// The number of duplicates remembered for the next SACK.
const MAX_DUPLICATES: usize = 16;

/// The state of a TSN in the map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Insert {
    /// Not seen before.
    New,
    /// Received before.
    Duplicate,
    /// Too far ahead to be reported.
    Refused,
}

/// Received TSNs from `first` to `last`, inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Interval {
    first: u64,
    last: u64,
}

/// The TSNs received in one direction.
#[derive(Debug)]
pub(crate) struct TsnMap {
    cumulative: u64,
    /// Sorted, disjoint, and adjacent neither to one another nor to `cumulative`.
    above: VecDeque<Interval>,
    duplicates: Vec<u64>,
}

impl TsnMap {
    /// A map that expects `first` as the next TSN.
    pub(crate) fn new(first: u64) -> Self {
        Self { cumulative: first - 1, above: VecDeque::new(), duplicates: Vec::new() }
    }

    /// The last TSN up to which all were received.
    pub(crate) fn cumulative(&self) -> u64 {
        self.cumulative
    }

    /// The highest TSN received.
    pub(crate) fn highest(&self) -> u64 {
        self.above.back().map_or(self.cumulative, |interval| interval.last)
    }

    /// Whether a TSN below the highest one is missing.
    pub(crate) fn has_gaps(&self) -> bool {
        !self.above.is_empty()
    }

    /// The result that [`insert`](Self::insert) would return.
    pub(crate) fn check(&self, tsn: u64) -> Insert {
        if tsn == self.cumulative + 1 {
            return Insert::New;
        }
        if tsn <= self.cumulative {
            return Insert::Duplicate;
        }
        if tsn - self.cumulative > MAX_OFFSET {
            return Insert::Refused;
        }
        let at = self.position(tsn);
        match self.above.get(at) {
            Some(interval) if interval.first <= tsn => Insert::Duplicate,
            _ => Insert::New,
        }
    }

    /// Whether a chunk that is not stored may be recorded as received.
    pub(crate) fn takes_uncharged(&self, tsn: u64) -> bool {
        self.above.len() < MAX_UNCHARGED || tsn == self.cumulative + 1
    }

    /// Records `tsn` as received. Duplicates are remembered for the next SACK.
    pub(crate) fn insert(&mut self, tsn: u64) -> Insert {
        if tsn == self.cumulative + 1 {
            self.advance(tsn);
            return Insert::New;
        }
        let verdict = self.check(tsn);
        match verdict {
            Insert::New => self.insert_above(tsn),
            Insert::Duplicate => self.note_duplicate(tsn),
            Insert::Refused => {}
        }
        verdict
    }

    /// Treats all TSNs up to `tsn`, which is above the cumulative one, as received.
    // req: rfc3758 3.6 "MUST further advance its cumulative TSN point locally if possible"
    pub(crate) fn skip_to(&mut self, tsn: u64) {
        while self.above.front().is_some_and(|interval| interval.last <= tsn) {
            self.above.pop_front();
        }
        if let Some(first) = self.above.front_mut().filter(|interval| interval.first <= tsn) {
            first.first = tsn + 1;
        }
        self.advance(tsn);
        if self.above.is_empty() {
            self.above = VecDeque::new();
        }
    }

    /// Marks the TSNs from `first` to `last` as not received; `false` if they are not in one interval.
    pub(crate) fn remove(&mut self, first: u64, last: u64) -> bool {
        let at = self.position(first);
        let Some(interval) = self.above.get_mut(at).filter(|i| i.first <= first && last <= i.last)
        else {
            return false;
        };
        match (interval.first == first, interval.last == last) {
            (true, true) => {
                self.above.remove(at);
            }
            (true, false) => interval.first = last + 1,
            (false, true) => interval.last = first - 1,
            (false, false) => {
                let right = Interval { first: last + 1, last: interval.last };
                if let Some(left) = self.above.get_mut(at) {
                    left.last = first - 1;
                }
                self.above.insert(at + 1, right);
            }
        }
        if self.above.is_empty() {
            self.above = VecDeque::new();
        }
        true
    }

    /// Marks all these TSNs as not received; `false` if one of the ranges is not in one interval.
    pub(crate) fn remove_all(&mut self, tsns: &Tsns) -> bool {
        tsns.ranges().all(|(first, last)| self.remove(first, last))
    }

    /// First and last TSN of the intervals above the cumulative point.
    pub(crate) fn intervals(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.above.iter().map(|interval| (interval.first, interval.last))
    }

    /// Remembers `tsn` as received again.
    pub(crate) fn note_duplicate(&mut self, tsn: u64) {
        if self.duplicates.len() < MAX_DUPLICATES {
            self.duplicates.push(tsn);
        }
    }

    /// The duplicates since the last call, in order of arrival.
    pub(crate) fn take_duplicates(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.duplicates)
    }

    /// The lowest `limit` gap blocks, relative to the cumulative point.
    pub(crate) fn gap_blocks(&self, limit: usize) -> impl Iterator<Item = GapBlock> + '_ {
        // req: rfc9260 6.7 "MUST report the Gap Ack Blocks from the"
        self.intervals().take(limit).map(|(first, last)| self.block(first, last))
    }

    /// The gap block for TSNs from `first` to `last`.
    pub(crate) fn block(&self, first: u64, last: u64) -> GapBlock {
        GapBlock { start: self.offset(first), end: self.offset(last) }
    }

    fn offset(&self, tsn: u64) -> u16 {
        // No TSN beyond MAX_OFFSET is ever accepted.
        u16::try_from(tsn - self.cumulative).unwrap_or(u16::MAX)
    }

    /// Index of the first interval that ends at `tsn` or above.
    fn position(&self, tsn: u64) -> usize {
        match self.above.back() {
            Some(last) if tsn <= last.last => self.above.partition_point(|i| i.last < tsn),
            _ => self.above.len(),
        }
    }

    fn advance(&mut self, tsn: u64) {
        self.cumulative = tsn;
        if let Some(first) = self.above.front()
            && first.first == tsn + 1
        {
            self.cumulative = first.last;
            self.above.pop_front();
            if self.above.is_empty() {
                self.above = VecDeque::new();
            }
        }
    }

    /// Adds a TSN that is above `cumulative + 1` and in none of the intervals.
    // req: rfc9260 3.3.4 "The Gap Ack Blocks SHOULD be isolated"
    fn insert_above(&mut self, tsn: u64) {
        let at = self.position(tsn);
        let joins_right = self.above.get(at).is_some_and(|right| right.first == tsn + 1);
        let left = at.checked_sub(1).and_then(|left| self.above.get_mut(left));
        match left {
            Some(left) if left.last + 1 == tsn => {
                left.last = tsn;
                if joins_right
                    && let Some(right) = self.above.remove(at)
                    && let Some(left) = self.above.get_mut(at - 1)
                {
                    left.last = right.last;
                }
            }
            _ if joins_right => {
                if let Some(right) = self.above.get_mut(at) {
                    right.first = tsn;
                }
            }
            _ => self.above.insert(at, Interval { first: tsn, last: tsn }),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn blocks(map: &TsnMap) -> Vec<(u16, u16)> {
        map.gap_blocks(usize::MAX).map(|block| (block.start, block.end)).collect()
    }

    #[test]
    fn in_order_tsns_move_the_cumulative_point() {
        let mut map = TsnMap::new(100);
        assert_eq!((map.cumulative(), map.highest(), map.has_gaps()), (99, 99, false));
        for tsn in 100..110 {
            assert_eq!(map.insert(tsn), Insert::New);
            assert_eq!((map.cumulative(), map.highest(), map.has_gaps()), (tsn, tsn, false));
        }
        assert_eq!(map.insert(105), Insert::Duplicate);
        assert_eq!(map.insert(3), Insert::Duplicate);
        assert_eq!(map.take_duplicates(), [105, 3]);
        assert!(map.take_duplicates().is_empty());
    }

    #[test]
    // test: rfc9260 6.7 "MUST report the Gap Ack Blocks from the"
    fn gaps_are_reported_from_the_lowest() {
        let mut map = TsnMap::new(10);
        for tsn in [12, 13, 15, 20, 14] {
            assert_eq!(map.insert(tsn), Insert::New);
        }
        assert_eq!(blocks(&map), [(3, 6), (11, 11)]);
        assert_eq!(map.gap_blocks(1).count(), 1);
        assert_eq!(map.highest(), 20);
        assert_eq!(map.insert(13), Insert::Duplicate);
        map.insert(10);
        assert_eq!(map.cumulative(), 10);
        assert_eq!(blocks(&map), [(2, 5), (10, 10)]);
        map.insert(11);
        assert_eq!(map.cumulative(), 15);
        assert_eq!(blocks(&map), [(5, 5)]);
        for tsn in 16..20 {
            map.insert(tsn);
        }
        assert_eq!((map.cumulative(), map.has_gaps()), (20, false));
        assert_eq!(map.above.capacity(), 0, "memory is kept without gaps");
    }

    #[test]
    fn what_cannot_be_reported_is_refused() {
        let mut map = TsnMap::new(1);
        assert_eq!(map.insert(65_535), Insert::New);
        assert_eq!(map.insert(65_536), Insert::Refused);
        assert_eq!(blocks(&map), [(65_535, 65_535)]);
        assert_eq!(map.insert(1), Insert::New);
        assert_eq!(map.insert(65_536), Insert::New);
        assert_eq!(blocks(&map), [(65_534, 65_535)]);
    }

    #[test]
    fn every_second_tsn_may_be_missing() {
        let mut map = TsnMap::new(1);
        let last = MAX_OFFSET - 1;
        for offset in (2..=last).step_by(2) {
            assert_eq!(map.insert(offset), Insert::New);
        }
        assert_eq!(map.intervals().count(), 32_767);
        assert_eq!(map.insert(MAX_OFFSET + 1), Insert::Refused);
        assert!(!map.takes_uncharged(7) && map.takes_uncharged(1));
        for tsn in (1..=last).step_by(2) {
            assert_eq!(map.insert(tsn), Insert::New);
        }
        assert_eq!((map.cumulative(), map.has_gaps()), (last, false));
    }

    #[test]
    fn what_is_taken_back_is_missing() {
        let mut map = TsnMap::new(1);
        for tsn in 11..16 {
            assert_eq!(map.insert(tsn), Insert::New);
        }
        assert!(map.remove(13, 13));
        assert!(!map.remove(13, 13), "it is not there");
        assert_eq!(map.intervals().collect::<Vec<_>>(), [(11, 12), (14, 15)]);
        assert!(map.remove(14, 15) && map.remove(11, 11));
        assert_eq!(map.intervals().collect::<Vec<_>>(), [(12, 12)]);
    }

    #[test]
    fn duplicates_are_bounded() {
        let mut map = TsnMap::new(1);
        map.insert(1);
        for _ in 0..100 {
            map.insert(1);
        }
        assert_eq!(map.take_duplicates().len(), MAX_DUPLICATES);
    }

    proptest! {
        #[test]
        fn what_is_taken_back_can_come_again(
            tsns in proptest::collection::vec((0_u64..60, 0_u64..9), 0..200),
        ) {
            let mut map = TsnMap::new(1000);
            let mut model = BTreeSet::new();
            for (tsn, more) in tsns {
                let (first, last) = (1000 + tsn, 1000 + tsn + more);
                let above = first > map.cumulative();
                if above && more > 0 && (first..=last).all(|tsn| model.contains(&tsn)) {
                    prop_assert!(map.remove(first, last));
                    model.retain(|tsn| !(first..=last).contains(tsn));
                } else {
                    prop_assert!(more == 0 || !map.remove(first, last));
                    map.insert(first);
                    model.insert(first);
                }
                let above = model.range(map.cumulative() + 1..).copied();
                let listed = map.intervals().flat_map(|(first, last)| first..=last);
                prop_assert!(above.eq(listed));
                let intervals: Vec<_> = map.intervals().collect();
                prop_assert!(intervals.windows(2).all(|pair| pair[0].1 + 1 < pair[1].0));
                prop_assert!(intervals.first().is_none_or(|i| i.0 > map.cumulative() + 1));
            }
        }

        #[test]
        fn equals_a_set(tsns in proptest::collection::vec(0_u64..60, 0..200)) {
            let mut map = TsnMap::new(1000);
            let mut model = BTreeSet::new();
            for tsn in tsns {
                let expected = if model.insert(1000 + tsn) { Insert::New } else { Insert::Duplicate };
                prop_assert_eq!(map.check(1000 + tsn), expected);
                prop_assert_eq!(map.insert(1000 + tsn), expected);
                let cumulative = (1000..).find(|tsn| !model.contains(tsn)).unwrap() - 1;
                prop_assert_eq!(map.cumulative(), cumulative);
                prop_assert_eq!(map.highest(), model.last().copied().unwrap().max(cumulative));
                let mut reported = BTreeSet::new();
                let mut before = 0;
                for block in map.gap_blocks(usize::MAX) {
                    prop_assert!(block.start > before + 1 && block.end >= block.start);
                    before = block.end;
                    reported.extend(
                        (block.start..=block.end).map(|offset| cumulative + u64::from(offset)),
                    );
                }
                let above: BTreeSet<_> = model.range(cumulative + 1..).copied().collect();
                prop_assert_eq!(reported, above);
            }
        }
    }
}
