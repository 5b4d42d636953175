//! TSNs inside the engine: unwrapped to 64 bits, so they can be compared as numbers.

/// The unwrapped form of the first TSN of a direction.
///
/// It leaves room below for TSNs before the first one.
pub(crate) fn first(initial: u32) -> u64 {
    u64::from(initial) + (1 << 32)
}

/// The value congruent to `wire` that is nearest to `reference`; the lower one if two are equally
/// near.
///
/// `reference` must be at least 2^31; values that start at [`first`] always are.
pub(crate) fn unwrap(reference: u64, wire: u32) -> u64 {
    // The distance as a signed number is serial arithmetic (RFC 9260 section 1.6).
    let distance = wire.wrapping_sub(self::wire(reference)).cast_signed();
    reference.wrapping_add_signed(i64::from(distance))
}

/// The lowest value congruent to `wire` that is not below `least`.
pub(crate) fn at_least(least: u64, wire: u32) -> u64 {
    least + u64::from(wire.wrapping_sub(self::wire(least)))
}

/// The 32 bits of a TSN on the wire.
#[expect(clippy::cast_possible_truncation, reason = "the upper half does not travel")]
pub(crate) const fn wire(tsn: u64) -> u32 {
    tsn as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_congruent_value() {
        let reference = first(5);
        assert_eq!(unwrap(reference, 5), reference);
        assert_eq!(unwrap(reference, 6), reference + 1);
        assert_eq!(unwrap(reference, 4), reference - 1);
        assert_eq!(unwrap(reference, u32::MAX), reference - 6);
        assert_eq!(unwrap(reference, 5 + (1 << 31) - 1), reference + (1 << 31) - 1);
        assert_eq!(unwrap(reference, 5 + (1 << 31)), reference - (1 << 31));
    }

    #[test]
    fn congruent_value_above() {
        let reference = first(5);
        assert_eq!(at_least(reference, 5), reference);
        assert_eq!(at_least(reference, 6), reference + 1);
        assert_eq!(at_least(reference, 4), reference + u64::from(u32::MAX));
    }

    #[test]
    fn counting_over_the_wrap() {
        let mut tsn = first(u32::MAX - 2);
        for step in 0..10_u32 {
            let next = unwrap(tsn, (u32::MAX - 2).wrapping_add(step + 1));
            assert_eq!(next, tsn + 1);
            assert_eq!(wire(next), (u32::MAX - 2).wrapping_add(step + 1));
            tsn = next;
        }
    }

    #[test]
    fn the_smallest_first_tsn_has_room_below() {
        assert_eq!(unwrap(first(0), 1 << 31), 1 << 31);
        assert_eq!(unwrap(first(0) - 1, u32::MAX), u64::from(u32::MAX));
    }
}
