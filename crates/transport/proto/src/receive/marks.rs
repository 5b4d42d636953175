//! Explicit congestion notification, as a receiver (RFC 4960 appendix A): packets that the network marked are reported
//! until the peer answers.

use anabranch_wire::Tsn;

use super::Receiver;
use crate::per_path::PathId;

impl Receiver {
    /// Records that a packet was marked on this path; `tsn` is its lowest TSN. Returns whether that is news: the peer
    /// has answered all earlier reports of this path.
    pub(crate) fn on_marked(&mut self, path: PathId, tsn: Tsn) -> bool {
        let marked = &mut self.rare.get_or_insert_default().marked;
        match marked.iter_mut().find(|(at, ..)| *at == path) {
            Some((_, latest, packets)) => {
                *packets = packets.saturating_add(1);
                // The latest one: a mark that came after the answer left is not taken for an earlier one.
                if tsn.gt(*latest) {
                    *latest = tsn;
                }
                false
            }
            None => {
                marked.push((path, tsn, 1));
                true
            }
        }
    }

    /// The TSNs to report, one for each path with a marked packet that the peer has not answered, each with the number
    /// of such packets.
    pub(crate) fn echoes(&self) -> impl Iterator<Item = (Tsn, u32)> {
        let marked = self.rare.as_ref().map_or(&[][..], |rare| &rare.marked);
        marked.iter().map(|(_, tsn, packets)| (*tsn, *packets))
    }

    /// Handles the peer's answer: it has lowered its window for the packet with this TSN, and for those before it.
    pub(crate) fn on_window_reduced(&mut self, tsn: Tsn) {
        let Some(rare) = &mut self.rare else { return };
        rare.marked.retain(|(_, marked, _)| marked.gt(tsn));
        self.rare.take_if(|rare| rare.is_empty());
    }

    /// Drops the marks, because the TSNs are reset.
    pub(super) fn forget_marks(&mut self) {
        if let Some(rare) = &mut self.rare {
            rare.marked.clear();
        }
        self.rare.take_if(|rare| rare.is_empty());
    }
}
