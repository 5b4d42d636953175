//! Non-renegable acknowledgements (draft-natarajan-tsvwg-sctp-nrsack): the peer will never renege on
//! this data, so its memory is freed before the cumulative TSN passes it.
//!
//! For all other purposes (flight size, cwnd, rwnd, missing reports, RTT), a non-renegable gap ack block is the same
//! as a gap ack block. It cannot be revoked: an acknowledgement that omits non-renegable TSNs, such as an old one or a
//! plain SACK, is treated as if it had repeated them.

use super::ranges::{self, Range};
use crate::send::{Outstanding, SlotState};

/// The maximum number of ranges, which bounds the work for an acknowledgement. TSNs beyond it are treated as
/// acknowledged by a gap ack block, and are freed later.
const MAX_RANGES: usize = 2048;

/// The TSNs above the cumulative point that the peer has acknowledged as non-renegable.
#[derive(Debug, Default)]
pub(super) struct NonRenegable {
    /// Sorted and disjoint.
    known: Vec<Range>,
    /// The blocks of the current acknowledgement; kept to reuse its memory.
    pub(super) blocks: Vec<Range>,
}

impl NonRenegable {
    /// Whether the cumulative TSN of an acknowledgement contradicts an earlier acknowledgement that reported data as
    /// non-renegable.
    pub(super) fn takes_back(cumulative: u64, out: &Outstanding) -> bool {
        // Every later cumulative TSN must cover a TSN that was received for good. Its payload was freed, so it could
        // never be retransmitted.
        out.get(cumulative + 1).is_some_and(|slot| slot.state == SlotState::NrAcked)
    }

    /// Handles a block that begins with the next TSN, and so contradicts the cumulative TSN: it is treated as a gap
    /// ack block, and nothing is freed for it. The next acknowledgement shows which is true.
    pub(super) fn doubt(&mut self, cumulative: u64) {
        self.blocks.retain(|block| block.0 != cumulative + 1);
    }

    /// Adds the known ranges to those that an acknowledgement reports.
    pub(super) fn complete(&mut self, cumulative: u64, reported: &mut Vec<Range>) {
        ranges::forget_up_to(&mut self.known, cumulative);
        ranges::unite(reported, &self.known);
    }

    /// Frees chunks newly acknowledged as non-renegable. Each length is reported to `freed`.
    pub(super) fn free(&mut self, out: &mut Outstanding, mut freed: impl FnMut(usize)) {
        if self.known.len() + self.blocks.len() <= MAX_RANGES {
            ranges::only_in(&self.blocks, &self.known, |tsn| freed(out.free(tsn)));
            ranges::unite(&mut self.known, &self.blocks);
        }
    }

    /// Whether nothing is known above the cumulative point.
    pub(super) fn is_empty(&self) -> bool {
        self.known.is_empty()
    }
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::per_path::PathId;
    use crate::send::Fragment;

    /// Chunks of 10 bytes with the TSNs from 1, all acknowledged by gap ack blocks.
    fn acked(count: u64) -> Outstanding {
        let mut out = Outstanding::new(1);
        out.add_path(PathId::FIRST);
        for tsn in 1..=count {
            let fragment = Fragment::whole(out.next_message(), 10);
            out.push(crate::time::Instant::ZERO, fragment, PathId::FIRST, tsn, false);
            out.gap_ack(tsn);
        }
        out
    }

    #[test]
    fn each_chunk_is_freed_once() {
        let mut out = acked(9);
        let mut non_renegable = NonRenegable::default();
        for (blocks, expected) in
            [(&[(3, 4), (7, 7)][..], 3), (&[(3, 5)], 1), (&[(7, 7)], 0), (&[(2, 9)], 4)]
        {
            non_renegable.blocks = blocks.to_vec();
            let mut count = 0;
            non_renegable.free(&mut out, |length| {
                assert_eq!(length, 10);
                count += 1;
            });
            assert_eq!(count, expected, "{blocks:?}");
        }
        assert_eq!((out.held(), out.held_acked()), (10, 10));
        let mut reported = vec![(12, 12)];
        non_renegable.complete(5, &mut reported);
        assert_eq!(reported, [(6, 9), (12, 12)], "what was said once is said again");
    }

    #[test]
    fn what_is_known_is_bounded() {
        let count = 3 * MAX_RANGES as u64;
        let mut out = acked(2 * count);
        let mut non_renegable = NonRenegable::default();
        let mut freed = 0;
        for range in 1..count {
            non_renegable.blocks = vec![(2 * range, 2 * range)];
            non_renegable.free(&mut out, |_| freed += 1);
        }
        assert_eq!((freed, non_renegable.known.len()), (MAX_RANGES, MAX_RANGES));
        // Once the cumulative TSN has passed some of them, there is room again.
        non_renegable.complete(100, &mut Vec::new());
        non_renegable.free(&mut out, |_| freed += 1);
        assert_eq!(freed, MAX_RANGES + 1);
    }
}
