//! RTO restart (RFC 7765; hurtig 3.1): while little is outstanding the timer is set so that it
//! expires an RTO after the earliest packet left, and not an RTO after the last acknowledgement.

use std::time::Duration;

/// Packets, outstanding and waiting to be sent, below which the timer is set so: more are likely to
/// be repaired by fast retransmit (rrthresh, RFC 7765 section 4).
pub(crate) const THRESHOLD: usize = 4;

/// How long T3-rtx runs from now on. `age`: how long ago the earliest packet left that is
/// outstanding.
pub(crate) fn interval(rto: Duration, age: Duration) -> Duration {
    // A packet older than an RTO was waited for although the timer was restarted; it gets another
    // RTO, as it would without this.
    rto.checked_sub(age).filter(|left| !left.is_zero()).unwrap_or(rto)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_age_of_the_earliest_packet_counts() {
        let millis = Duration::from_millis;
        assert_eq!(interval(millis(300), millis(90)), millis(210));
        assert_eq!(interval(millis(300), Duration::ZERO), millis(300));
        assert_eq!(interval(millis(300), millis(300)), millis(300));
        assert_eq!(interval(millis(300), millis(900)), millis(300));
    }
}
