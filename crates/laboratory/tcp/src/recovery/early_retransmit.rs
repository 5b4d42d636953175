//! Early retransmit by segments (RFC 5827 section 3.2). With fewer than four segments outstanding, three later ones
//! cannot report a loss, so fewer are enough.

/// Number of outstanding segments from which fast retransmit works as usual.
const ENOUGH: usize = 4;

/// The number of duplicate acknowledgements (or segments acknowledged by blocks) that mark the first segment lost while
/// `outstanding` segments are outstanding and no new data can follow. `None` means the usual number.
pub(crate) fn threshold(outstanding: usize) -> Option<u32> {
    // req: rfc5827 3.2 "the duplicate ACK threshold used to trigger a retransmission MUST be reduced to"
    (2..ENOUGH).contains(&outstanding).then(|| outstanding as u32 - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    // test: rfc5827 3.2 "the duplicate ACK threshold used to trigger a retransmission MUST be reduced to"
    #[test]
    fn all_segments_but_the_lost_one_have_to_arrive() {
        let thresholds: Vec<Option<u32>> = (0..6).map(threshold).collect();
        assert_eq!(thresholds, [None, None, Some(1), Some(2), None, None]);
    }
}
