//! The TSNs of a message.

/// The TSNs of a message's chunks. They are consecutive, unless messages are interleaved.
#[derive(Clone, Debug)]
pub(crate) struct Tsns {
    first: u64,
    last: u64,
    /// All ranges, in the order of the message, if there is more than one. `first` and `last` are then the lowest and
    /// the highest TSN.
    #[expect(clippy::box_collection, reason = "most messages have one range")]
    ranges: Option<Box<Vec<(u64, u64)>>>,
}

impl Tsns {
    pub(crate) fn one(tsn: u64) -> Self {
        Self::range(tsn, tsn)
    }

    pub(crate) fn range(first: u64, last: u64) -> Self {
        Self { first, last, ranges: None }
    }

    /// The lowest one.
    pub(crate) fn first(&self) -> u64 {
        self.first
    }

    /// The highest one.
    pub(crate) fn last(&self) -> u64 {
        self.last
    }

    /// Adds the TSN of the chunk after the last one.
    #[inline]
    pub(crate) fn push(&mut self, tsn: u64) {
        if self.ranges.is_none() && self.last + 1 == tsn {
            self.last = tsn;
        } else {
            self.push_range(tsn, tsn);
        }
    }

    /// Adds the TSNs of the chunks after the last one.
    pub(crate) fn append(&mut self, right: &Self) {
        match &right.ranges {
            None => self.push_range(right.first, right.last),
            Some(ranges) => ranges.iter().for_each(|(first, last)| self.push_range(*first, *last)),
        }
    }

    fn push_range(&mut self, first: u64, last: u64) {
        if let Some(ranges) = &mut self.ranges {
            match ranges.last_mut() {
                Some(before) if before.1 + 1 == first => before.1 = last,
                _ => ranges.push((first, last)),
            }
        } else if self.last + 1 != first {
            self.ranges = Some(Box::new(vec![(self.first, self.last), (first, last)]));
        }
        self.first = self.first.min(first);
        self.last = self.last.max(last);
    }

    /// All ranges if there is more than one, as [`restore`](Self::restore) needs them.
    pub(crate) fn take_ranges(&mut self) -> Option<Vec<(u64, u64)>> {
        self.ranges.take().map(|ranges| *ranges)
    }

    /// The TSNs that had these lowest and highest ones, and ranges.
    pub(crate) fn restore(first: u64, last: u64, ranges: Option<Vec<(u64, u64)>>) -> Self {
        Self { first, last, ranges: ranges.map(Box::new) }
    }

    /// The ranges, each with its first and last TSN.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let one = self.ranges.is_none().then_some((self.first, self.last));
        one.into_iter().chain(self.ranges.iter().flat_map(|ranges| ranges.iter().copied()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_grow_and_join() {
        let mut tsns = Tsns::one(5);
        tsns.push(6);
        assert_eq!(tsns.ranges().collect::<Vec<_>>(), [(5, 6)]);
        tsns.push(9);
        tsns.push(10);
        // A retransmission or an unusual sender.
        tsns.push(3);
        assert_eq!(tsns.ranges().collect::<Vec<_>>(), [(5, 6), (9, 10), (3, 3)]);
        assert_eq!((tsns.first(), tsns.last()), (3, 10));
        let mut other = Tsns::one(1);
        other.append(&tsns);
        other.append(&Tsns::range(4, 4));
        assert_eq!(other.ranges().collect::<Vec<_>>(), [(1, 1), (5, 6), (9, 10), (3, 4)]);
    }
}
