//! Early retransmit, by segments (RFC 5827 section 3.2): with fewer than four segments outstanding there cannot
//! be three later ones to report a loss, so fewer are enough.

/// Segments outstanding from which on fast retransmit works as it is.
const ENOUGH: usize = 4;

/// The duplicate acknowledgements (or segments that blocks acknowledge) that make the first segment lost while
/// `outstanding` are outstanding, and nothing new can follow them; `None` for the usual number.
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
