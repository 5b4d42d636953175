//! Arithmetic on rates in bytes per second and amounts in bytes that never overflows: `u64::MAX` is unlimited.

use std::time::Duration;

/// A number of percent of a value.
pub(super) fn percent(value: u64, percent: u64) -> u64 {
    if value == u64::MAX {
        return value;
    }
    bounded(u128::from(value) * u128::from(percent) / 100)
}

/// The bytes that a rate delivers in this time.
pub(super) fn product(rate: u64, time: Duration) -> u64 {
    // A Duration has at most 94 bits of nanoseconds.
    let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    bounded(u128::from(rate) * u128::from(nanos) / 1_000_000_000)
}

/// The rate that delivers these bytes in this time.
pub(super) fn rate(bytes: u64, time: Duration) -> u64 {
    bounded(u128::from(bytes) * 1_000_000_000 / time.as_nanos().max(1))
}

fn bounded(value: u128) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn from_a_byte_to_the_unlimited() {
        assert_eq!(percent(1000, 277), 2770);
        assert_eq!(percent(u64::MAX, 50), u64::MAX, "half of the unlimited is unlimited");
        assert_eq!(percent(u64::MAX - 1, 200), u64::MAX);
        assert_eq!(product(125, Duration::from_micros(10)), 0);
        assert_eq!(product(5_000_000_000, Duration::from_secs(100)), 500_000_000_000);
        assert_eq!(product(u64::MAX, Duration::MAX), u64::MAX);
        assert_eq!(rate(u64::MAX, Duration::ZERO), u64::MAX);
        assert_eq!(rate(1400, Duration::from_micros(10)), 140_000_000);
    }
}
