//! The chunks of each path separately, for concurrent multipath transfer.

use std::ops::RangeInclusive;

use super::{Outstanding, SlotState};
use crate::per_path::PathId;

/// The earliest chunks in flight on a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PseudoCumack {
    /// The earliest chunk that was sent only once.
    pub(crate) first: Option<u64>,
    /// The earliest chunk that was retransmitted.
    pub(crate) again: Option<u64>,
}

impl PseudoCumack {
    /// Whether the acknowledgement of these chunks advances either of them.
    pub(crate) fn is_advanced_by(self, tsns: RangeInclusive<u64>) -> bool {
        self.first.into_iter().chain(self.again).any(|tsn| tsns.contains(&tsn))
    }
}

impl Outstanding {
    /// Stored user bytes of chunks that a path carried last or that wait for it.
    pub(crate) fn held_on(&self, path: PathId) -> usize {
        self.flights[path].held
    }

    /// The pseudo-cumulative TSNs of a path: its earliest chunks in flight (CUCv2 in Iyengar, Amer,
    /// Stewart 2006, section 5.2). The work is proportional to the number of retransmitted chunks.
    pub(crate) fn pseudo_cumack(&self, path: PathId) -> PseudoCumack {
        let mut first = self.oldest_counted(path);
        while let Some(tsn) = first.filter(|tsn| self.retransmission(*tsn).is_some()) {
            first = self.sent_after(tsn);
        }
        let on_path = |tsn: &&u64| {
            self.get(**tsn)
                .is_some_and(|slot| slot.path == path && slot.state == SlotState::InFlight)
        };
        let again = self.retransmissions.keys().find(on_path).copied();
        PseudoCumack { first, again }
    }
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::send::{Cause, Fragment};
    use crate::time::Instant;

    const A: PathId = PathId(0);
    const B: PathId = PathId(1);

    /// TSNs 1 to 6, the odd ones on path 0, the even ones on path 1, 10 bytes each.
    fn ring() -> Outstanding {
        let mut ring = Outstanding::new(1);
        [A, B].into_iter().for_each(|path| ring.add_path(path));
        for tsn in 1..=6u64 {
            let fragment = Fragment::whole(ring.next_message(), 10);
            let path = if tsn % 2 == 0 { B } else { A };
            ring.push(Instant::ZERO, fragment, path, tsn.div_ceil(2), false);
        }
        ring
    }

    #[test]
    fn each_path_has_its_own_pseudo_cumacks() {
        let mut ring = ring();
        let first = |tsn| PseudoCumack { first: Some(tsn), again: None };
        assert_eq!((ring.pseudo_cumack(A), ring.pseudo_cumack(B)), (first(1), first(2)));
        ring.gap_ack(2);
        assert_eq!(ring.pseudo_cumack(B), first(4));
        assert_eq!(ring.oldest_packet(B).map(|(oldest, _)| oldest), Some(2));
        // 1 is lost and retransmitted on the other path.
        ring.lose(1, Cause::Timeout, B);
        assert_eq!((ring.pseudo_cumack(A), ring.pseudo_cumack(B)), (first(3), first(4)));
        ring.retransmitted(Instant::ZERO, 1, B, 4, true, false);
        let both = PseudoCumack { first: Some(4), again: Some(1) };
        assert_eq!(ring.pseudo_cumack(B), both);
        assert!(
            both.is_advanced_by(4..=4) && both.is_advanced_by(1..=1) && !both.is_advanced_by(6..=6)
        );
        ring.gap_ack(4);
        ring.gap_ack(6);
        assert_eq!(ring.pseudo_cumack(B), PseudoCumack { first: None, again: Some(1) });
        assert_eq!(ring.oldest_packet(B).map(|(oldest, _)| oldest), Some(4));
    }

    #[test]
    fn what_is_kept_stands_with_the_path_that_had_it_last() {
        let mut ring = ring();
        assert_eq!((ring.held_on(A), ring.held_on(B)), (30, 30));
        ring.lose(3, Cause::Timeout, B);
        assert_eq!((ring.held_on(A), ring.held_on(B)), (20, 40));
        ring.redirect_lost(B, A);
        assert_eq!((ring.held_on(A), ring.held_on(B)), (30, 30));
        ring.retransmitted(Instant::ZERO, 3, B, 4, true, false);
        ring.gap_ack(4);
        assert_eq!((ring.held_on(A), ring.held_on(B)), (20, 40), "acknowledged and kept");
        assert_eq!(ring.free(4), 10);
        assert_eq!(ring.held_on(B), 30, "acknowledged for good");
        ring.check_invariants().unwrap();
        while ring.pop().is_some() {}
        assert_eq!((ring.held_on(A), ring.held_on(B)), (0, 0));
    }
}
