//! Sorted ranges of TSNs, as in gap ack blocks.

/// From the first TSN to the second, both included.
pub(crate) type Range = (u64, u64);

/// Sorts ranges and joins those that overlap or touch.
pub(crate) fn normalise(ranges: &mut Vec<Range>) {
    if ranges.is_sorted_by(|left, right| left.1 + 1 < right.0) {
        return;
    }
    // This sort detects sorted runs; usually there are two.
    ranges.sort();
    ranges.dedup_by(|next, kept| {
        let joins = next.0 <= kept.1 + 1;
        if joins {
            kept.1 = kept.1.max(next.1);
        }
        joins
    });
}

/// Adds the ranges `more` to normalised ranges.
pub(crate) fn unite(ranges: &mut Vec<Range>, more: &[Range]) {
    if !more.is_empty() {
        ranges.extend_from_slice(more);
        normalise(ranges);
    }
}

/// Removes everything up to `cumulative`.
pub(crate) fn forget_up_to(ranges: &mut Vec<Range>, cumulative: u64) {
    let gone = ranges.partition_point(|range| range.1 <= cumulative);
    ranges.drain(..gone);
    if let Some(first) = ranges.first_mut() {
        first.0 = first.0.max(cumulative + 1);
    }
}

/// Calls `each` for the TSNs that are in `new` and not in `known`; both are normalised.
pub(crate) fn only_in(new: &[Range], known: &[Range], mut each: impl FnMut(u64)) {
    let mut known = known.iter().peekable();
    for &(start, end) in new {
        let mut at = start;
        while at <= end {
            while known.next_if(|range| range.1 < at).is_some() {}
            match known.peek() {
                Some(range) if range.0 <= at => at = range.1 + 1,
                next => {
                    let until = next.map_or(end, |range| end.min(range.0 - 1));
                    (at..=until).for_each(&mut each);
                    at = until + 1;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn ranges() -> impl Strategy<Value = Vec<Range>> {
        proptest::collection::vec((1..60_u64, 0..6_u64), 0..12).prop_map(|ranges| {
            let mut ranges = ranges.into_iter().map(|(from, more)| (from, from + more)).collect();
            normalise(&mut ranges);
            ranges
        })
    }

    fn set(ranges: &[Range]) -> BTreeSet<u64> {
        ranges.iter().flat_map(|range| range.0..=range.1).collect()
    }

    fn is_normal(ranges: &[Range]) -> bool {
        ranges.iter().all(|range| range.0 <= range.1)
            && ranges.windows(2).all(|pair| pair[0].1 + 1 < pair[1].0)
    }

    proptest! {
        #[test]
        fn ranges_are_sets(a in ranges(), b in ranges(), cumulative in 0..70_u64) {
            prop_assert!(is_normal(&a));
            let mut both = a.clone();
            unite(&mut both, &b);
            prop_assert!(is_normal(&both));
            prop_assert_eq!(set(&both), &set(&a) | &set(&b));
            let mut only = Vec::new();
            only_in(&a, &b, |tsn| only.push(tsn));
            prop_assert_eq!(only, (&set(&a) - &set(&b)).into_iter().collect::<Vec<_>>());
            let mut above = a.clone();
            forget_up_to(&mut above, cumulative);
            prop_assert!(is_normal(&above));
            let expected: BTreeSet<u64> = set(&a).into_iter().filter(|t| *t > cumulative).collect();
            prop_assert_eq!(set(&above), expected);
        }
    }
}
