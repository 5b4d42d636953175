//! RTO restart (RFC 7765): while little data is outstanding, the timer expires one RTO after the earliest segment was
//! sent, not one RTO after the last acknowledgement.

use std::time::Duration;

/// It applies to fewer segments than this, counting outstanding and unsent ones: with more, fast retransmit is likely
/// to repair losses (rrthresh, RFC 7765 section 4).
pub(crate) const THRESHOLD: u64 = 4;

/// The length of a timer started now. `age` is the time since the earliest outstanding segment was sent.
pub(crate) fn interval(rto: Duration, age: Duration) -> Duration {
    // If the segment is older than an RTO because the timer was restarted, it gets another RTO, as it would without
    // this option.
    rto.checked_sub(age).filter(|left| !left.is_zero()).unwrap_or(rto)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_age_of_the_earliest_segment_counts() {
        let millis = Duration::from_millis;
        assert_eq!(interval(millis(300), millis(90)), millis(210));
        assert_eq!(interval(millis(300), Duration::ZERO), millis(300));
        assert_eq!(interval(millis(300), millis(300)), millis(300));
        assert_eq!(interval(millis(300), millis(900)), millis(300));
    }
}
