//! RTO restart (RFC 7765; hurtig 3.1): while little is outstanding, the timer expires an RTO after the
//! earliest packet was sent, not an RTO after the last acknowledgement.

use std::time::Duration;

/// Below this number of outstanding and queued packets the timer is set this way. With more packets,
/// fast retransmit is likely to repair losses (rrthresh, RFC 7765 section 4).
pub(crate) const THRESHOLD: usize = 4;

/// How long T3-rtx runs from now on. `age`: the time since the earliest outstanding packet was sent.
pub(crate) fn interval(rto: Duration, age: Duration) -> Duration {
    // A packet older than an RTO remained outstanding although the timer was restarted; it gets
    // another full RTO, as without this option.
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
