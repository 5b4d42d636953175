//! Early retransmit, by packets (RFC 5827 section 3.2; hurtig 3.1): with fewer than four packets
//! outstanding there cannot be three later ones to report a loss, so fewer are enough.

/// With at least this many packets outstanding, fast retransmit works unchanged.
pub(crate) const ENOUGH: usize = 4;

/// The number of missing reports (or later packets) that make a chunk lost while
/// `outstanding_packets` are outstanding (including those acknowledged above the cumulative TSN)
/// and no new data can follow them. `usual`: the threshold otherwise.
pub(crate) fn threshold(usual: u32, outstanding_packets: usize) -> u32 {
    match outstanding_packets {
        2..ENOUGH => usual.min(outstanding_packets as u32 - 1),
        _ => usual,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_packets_but_the_lost_one_have_to_arrive() {
        let thresholds: Vec<u32> = (0..6).map(|packets| threshold(3, packets)).collect();
        assert_eq!(thresholds, [3, 3, 1, 2, 3, 3]);
        assert_eq!(threshold(1, 3), 1, "never more than usual");
    }
}
