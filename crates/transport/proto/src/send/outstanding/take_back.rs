//! Revokes a loss: a chunk that was considered lost but not retransmitted is in flight again as before.

use super::{Outstanding, Past, SlotState};
use crate::per_path::PathId;
use crate::time::Instant;

impl Outstanding {
    /// Returns a chunk that waits for its retransmission to its place in the order of sending. `false` if
    /// it does not wait, or the path that carried it was removed.
    pub(crate) fn take_back(&mut self, now: Instant, tsn: u64) -> bool {
        let Some(known) = self.retransmission(tsn) else { return false };
        if self.get(tsn).is_none_or(|slot| slot.state != SlotState::Lost) {
            return false;
        }
        let path = known.from;
        if !self.flights.has(path) {
            return false;
        }
        let slot = self.slot(tsn);
        slot.state = SlotState::InFlight;
        slot.missing_reports = 0;
        if !known.again {
            // It had never been lost before.
            slot.past.set(Past::FAST_RETRANSMITTED | Past::AMBIGUOUS, false);
        }
        let (waited_on, length) = (slot.path, slot.payload.len());
        slot.path = known.from;
        if !known.again {
            self.retransmissions.remove(&tsn);
        }
        self.flights[waited_on].lost.remove(&tsn);
        self.move_held(length, waited_on, path);
        self.lost -= 1;
        self.link_by_packet(path, tsn);
        self.put_on(known.sent.unwrap_or(now), tsn);
        true
    }

    /// Inserts a chunk into the order of sending. It was sent before most of those in flight, so its
    /// place is near the front.
    fn link_by_packet(&mut self, path: PathId, tsn: u64) {
        let (held, packet) = (self.slot(tsn).past.has(Past::HELD), self.slot(tsn).packet);
        let mut before = None;
        let mut at = self.list(path, held).ends.map(|(head, _)| head);
        while let Some(other) = at.filter(|other| self.slot(*other).packet < packet) {
            before = Some(other);
            at = self.sent_after(other);
        }
        match (before, at) {
            (_, None) => self.link_back(path, held, tsn),
            (None, Some(_)) => self.link_front(path, held, tsn),
            (Some(before), Some(after)) => {
                let slot = self.slot(tsn);
                (slot.prev, slot.next) = (before as u32, after as u32);
                self.slot(before).next = tsn as u32;
                self.slot(after).prev = tsn as u32;
            }
        }
    }
}
