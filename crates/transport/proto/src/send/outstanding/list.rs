//! The order in which chunks were sent on each path, as links between the slots.

use super::Outstanding;
use super::slot::{Past, SlotState};
use crate::per_path::PathId;
use crate::tsn;

/// Chunks in the order in which they were sent.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct List {
    pub(super) ends: Option<(u64, u64)>,
}

impl Outstanding {
    /// The full TSN that a link refers to.
    pub(super) fn absolute(&self, link: u32) -> u64 {
        tsn::unwrap(self.base, link)
    }

    pub(super) fn link_back(&mut self, path: PathId, held: bool, tsn: u64) {
        let list = self.list(path, held);
        let previous = list.ends;
        list.ends = Some((previous.map_or(tsn, |(head, _)| head), tsn));
        let slot = self.slot(tsn);
        slot.past.set(Past::HELD, held);
        slot.next = tsn as u32;
        slot.prev = previous.map_or(tsn, |(_, tail)| tail) as u32;
        if let Some((_, tail)) = previous {
            self.slot(tail).next = tsn as u32;
        }
    }

    pub(super) fn link_front(&mut self, path: PathId, held: bool, tsn: u64) {
        let list = self.list(path, held);
        let following = list.ends;
        list.ends = Some((tsn, following.map_or(tsn, |(_, tail)| tail)));
        let slot = self.slot(tsn);
        slot.past.set(Past::HELD, held);
        slot.prev = tsn as u32;
        slot.next = following.map_or(tsn, |(head, _)| head) as u32;
        if let Some((head, _)) = following {
            self.slot(head).prev = tsn as u32;
        }
    }

    pub(super) fn list(&mut self, path: PathId, held: bool) -> &mut List {
        let flight = &mut self.flights[path];
        if held { &mut flight.uncounted } else { &mut flight.order }
    }

    pub(super) fn unlink(&mut self, tsn: u64) {
        let slot = self.slot(tsn);
        let (path, held, prev, next) = (slot.path, slot.past.has(Past::HELD), slot.prev, slot.next);
        let this = tsn as u32;
        let after = (next != this).then(|| self.absolute(next));
        // Most chunks are acknowledged in the order in which they were sent.
        if prev == this {
            if let Some(after) = after {
                self.slot(after).prev = next;
            }
            let list = self.list(path, held);
            list.ends = list.ends.and_then(|(_, tail)| after.map(|after| (after, tail)));
            return;
        }
        let before = self.absolute(prev);
        self.slot(before).next = if after.is_some() { next } else { prev };
        if let Some(after) = after {
            self.slot(after).prev = prev;
        }
        let list = self.list(path, held);
        list.ends =
            list.ends.map(|(head, tail)| (head, if after.is_some() { tail } else { before }));
    }

    /// The first chunk in flight on a path, in the order of sending, for which missing reports count.
    pub(crate) fn oldest_counted(&self, path: PathId) -> Option<u64> {
        self.flights[path].order.ends.map(|(head, _)| head)
    }

    /// The next chunk sent after `tsn` on the same path, in the same list.
    pub(crate) fn sent_after(&self, tsn: u64) -> Option<u64> {
        let next = self.get(tsn)?.next;
        (next != tsn as u32).then(|| self.absolute(next))
    }

    /// Chunks for which missing reports count, up to the TSN `highest`, that were retransmitted on a
    /// path in packets after `packet` and before `limit`, in the order of sending.
    pub(crate) fn sent_again(
        &self,
        path: PathId,
        packet: u64,
        limit: u64,
        highest: u64,
    ) -> Vec<u64> {
        let again = self.retransmissions.range(..=highest).filter_map(|(&tsn, _)| {
            let slot = self.get(tsn)?;
            let counts = slot.path == path
                && slot.state == SlotState::InFlight
                && !slot.past.has(Past::HELD)
                && slot.packet > packet
                && slot.packet < limit;
            counts.then_some((slot.packet, tsn))
        });
        let mut again: Vec<(u64, u64)> = again.collect();
        again.sort_unstable();
        again.into_iter().map(|(_, tsn)| tsn).collect()
    }

    /// The earliest outstanding chunk on a path; the path's timer is for this chunk.
    pub(crate) fn earliest(&self, path: PathId) -> Option<u64> {
        let flight = &self.flights[path];
        flight.uncounted.ends.or(flight.order.ends).map(|(head, _)| head)
    }
}
