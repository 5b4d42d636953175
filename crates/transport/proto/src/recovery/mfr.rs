//! Multiple fast retransmit (caro 2.4.3): decides whether missing reports count for a chunk that
//! was fast-retransmitted before.
//!
//! RFC 4960 fast-retransmits a chunk only once; if that retransmission is lost, too, T3-rtx must
//! expire. With MFR, reports count again, but only reports of TSNs above everything outstanding at
//! the time of the retransmission: packets sent before it are not evidence about it.

use super::{LossDetection, RecoveryConfig};

/// Whether missing reports count for a retransmitted chunk. `fast_retransmitted`: missing reports
/// caused a retransmission of the chunk.
pub(crate) fn counts_again(config: &RecoveryConfig, fast_retransmitted: bool) -> bool {
    // Time applies to each transmission separately.
    config.multiple_fast_retransmit
        || config.loss_detection == LossDetection::TimeThreshold
        || !fast_retransmitted
}

/// Whether an acknowledgement up to the TSN `known_to` reports a chunk as missing; `recover` is the
/// highest TSN that was outstanding when the chunk was last considered lost.
pub(crate) fn is_report(recover: Option<u64>, known_to: u64) -> bool {
    recover.is_none_or(|recover| known_to > recover)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_count_again_if_they_are_of_what_left_later() {
        let mut config = RecoveryConfig::default();
        for mfr in [false, true] {
            config.multiple_fast_retransmit = mfr;
            assert!(counts_again(&config, false));
            assert_eq!(counts_again(&config, true), mfr);
        }
        assert!(is_report(None, 1));
        assert!(!is_report(Some(9), 9) && is_report(Some(9), 10));
    }
}
