//! What the ring knows of each path alone, for concurrent multipath transfer.

use super::{Outstanding, SlotState};

/// The earliest chunks in flight on a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PseudoCumack {
    /// Of those that were sent once.
    pub(crate) first: Option<u64>,
    /// Of those that were retransmitted.
    pub(crate) again: Option<u64>,
}

impl PseudoCumack {
    /// Whether the acknowledgement of a chunk advances one of the two.
    pub(crate) fn is_advanced_by(self, tsn: u64) -> bool {
        self.first == Some(tsn) || self.again == Some(tsn)
    }
}

impl Outstanding {
    /// User bytes that are kept and were on a path last, or wait for it.
    pub(crate) fn held_on(&self, path: usize) -> usize {
        self.flights[path].held
    }

    /// The pseudo-cumulative TSNs of a path: what its earliest chunks in flight are (CUCv2 in Iyengar,
    /// Amer, Stewart 2006, section 5.2). The work is proportional to what was retransmitted.
    pub(crate) fn pseudo_cumack(&self, path: usize) -> PseudoCumack {
        let mut first = self.oldest_counted(path);
        while let Some(tsn) = first.filter(|tsn| self.retransmission(*tsn).is_some()) {
            first = self.sent_after(tsn);
        }
        let on_path = |tsn: &&u64| {
            self.get(**tsn).is_some_and(|slot| {
                usize::from(slot.path) == path && slot.state == SlotState::InFlight
            })
        };
        let again = self.retransmissions.keys().find(on_path).copied();
        PseudoCumack { first, again }
    }
}

#[cfg(test)]
mod tests {
    use anabranch_wire::{DataFlags, Ppid, Ssn};
    use bytes::Bytes;

    use super::*;
    use crate::send::{Cause, Fragment};
    use crate::time::Instant;

    /// TSNs 1 to 6, the odd ones on path 0, the even ones on path 1, 10 bytes each.
    fn ring() -> Outstanding {
        let mut ring = Outstanding::new(1);
        ring.set_paths(2);
        for tsn in 1..=6u64 {
            let fragment = Fragment {
                stream: 0,
                ssn: Ssn(0),
                ppid: Ppid(0),
                flags: DataFlags(3),
                context: 0,
                payload: Bytes::from_static(&[7; 10]),
            };
            ring.push(Instant::ZERO, fragment, usize::from(tsn % 2 == 0), tsn.div_ceil(2), false);
        }
        ring
    }

    #[test]
    fn each_path_has_its_own_pseudo_cumacks() {
        let mut ring = ring();
        let first = |tsn| PseudoCumack { first: Some(tsn), again: None };
        assert_eq!((ring.pseudo_cumack(0), ring.pseudo_cumack(1)), (first(1), first(2)));
        ring.gap_ack(2);
        assert_eq!(ring.pseudo_cumack(1), first(4));
        assert_eq!(ring.oldest_packet(1).map(|(oldest, _)| oldest), Some(2));
        // 1 is lost and goes out again on the other path.
        ring.lose(1, Cause::Timeout, 1);
        assert_eq!((ring.pseudo_cumack(0), ring.pseudo_cumack(1)), (first(3), first(4)));
        ring.retransmitted(Instant::ZERO, 1, 1, 4, true, false);
        let both = PseudoCumack { first: Some(4), again: Some(1) };
        assert_eq!(ring.pseudo_cumack(1), both);
        assert!(both.is_advanced_by(4) && both.is_advanced_by(1) && !both.is_advanced_by(6));
        ring.gap_ack(4);
        ring.gap_ack(6);
        assert_eq!(ring.pseudo_cumack(1), PseudoCumack { first: None, again: Some(1) });
        assert_eq!(ring.oldest_packet(1).map(|(oldest, _)| oldest), Some(4));
    }

    #[test]
    fn what_is_kept_stands_with_the_path_that_had_it_last() {
        let mut ring = ring();
        assert_eq!((ring.held_on(0), ring.held_on(1)), (30, 30));
        ring.lose(3, Cause::Timeout, 1);
        assert_eq!((ring.held_on(0), ring.held_on(1)), (20, 40));
        ring.redirect_lost(1, 0);
        assert_eq!((ring.held_on(0), ring.held_on(1)), (30, 30));
        ring.retransmitted(Instant::ZERO, 3, 1, 4, true, false);
        ring.gap_ack(4);
        assert_eq!((ring.held_on(0), ring.held_on(1)), (20, 40), "acknowledged and kept");
        assert_eq!(ring.free(4), 10);
        assert_eq!(ring.held_on(1), 30, "acknowledged for good");
        ring.check_invariants().unwrap();
        while ring.pop().is_some() {}
        assert_eq!((ring.held_on(0), ring.held_on(1)), (0, 0));
    }
}
