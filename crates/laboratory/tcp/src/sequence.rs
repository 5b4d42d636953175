//! Conversion from sequence numbers on the wire to positions in the stream.

/// The position closest to `near` whose low 32 bits are `wire`.
pub(crate) fn unwrap(wire: u32, near: u64) -> Option<u64> {
    let distance = i64::from(wire.wrapping_sub(near as u32) as i32);
    near.checked_add_signed(distance)
}

#[cfg(test)]
mod tests {
    use super::unwrap;

    #[test]
    fn the_closest_one_is_meant() {
        let near = (5 << 32) + 10;
        assert_eq!(unwrap(10, near), Some(near));
        assert_eq!(unwrap(4, near), Some(near - 6));
        assert_eq!(unwrap(u32::MAX, near), Some((5 << 32) - 1));
        assert_eq!(unwrap(0x7fff_ffff, near), Some((5 << 32) + 0x7fff_ffff));
        assert_eq!(unwrap(u32::MAX, 3), None);
    }
}
