//! Early retransmit, by packets (RFC 5827 section 3.2; hurtig 3.1): with fewer than four packets
//! outstanding there can be no three later ones that tell of a loss, so that fewer are enough.

/// Packets outstanding from which on fast retransmit works as it is.
pub(crate) const ENOUGH: usize = 4;

/// The missing reports (or later packets) that make a chunk lost while so many packets are
/// outstanding, the acknowledged ones above the cumulative TSN among them, and nothing new can
/// follow them. `usual`: what it takes otherwise.
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
