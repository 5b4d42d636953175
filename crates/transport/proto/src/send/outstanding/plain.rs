//! Removes many acknowledged chunks at once if nothing sets them apart, as is usual.

use super::list::List;
use super::slot::Past;
use super::{Outstanding, Slot, SlotState};
use crate::per_path::PathId;
use crate::send::SentPacket;

/// Chunks with consecutive TSNs that were sent only once, one after another and on the same path, and were in flight until
/// now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PlainRun {
    pub(crate) path: PathId,
    pub(crate) first_tsn: u64,
    pub(crate) last_tsn: u64,
    /// Number of the packet with the first one.
    pub(crate) first_packet: u64,
    /// The packet with the last one.
    pub(crate) last_packet: SentPacket,
    /// Bytes on the wire, chunk headers included.
    pub(crate) bytes: usize,
    /// User bytes.
    pub(crate) payload: usize,
    /// A packet was larger than the base MTU.
    pub(crate) large: bool,
    /// They were the earliest chunks in flight on their path.
    pub(crate) earliest: bool,
}

impl PlainRun {
    /// Number of chunks.
    pub(crate) fn len(&self) -> usize {
        (self.last_tsn + 1 - self.first_tsn) as usize
    }
}

impl Slot {
    /// Whether it was sent once, is in flight on `path`, and nothing else is known of it.
    fn is_plain(&self, path: PathId) -> bool {
        let notable = self.past.0 & !(Past::LARGE | Past::INTERLEAVED);
        self.state == SlotState::InFlight && self.path == path && notable == 0
    }
}

impl Outstanding {
    /// Removes plain chunks from the front of the ring, up to the TSN `to`, which were cumulatively acknowledged; `None` if
    /// the first chunk is not plain. [`pop`](Self::pop) does the same for any chunk.
    pub(crate) fn pop_plain(&mut self, to: u64) -> Option<PlainRun> {
        let first_tsn = self.base;
        let path = self.slots.front()?.path;
        let flight = &mut self.flights[path];
        let (head, tail) = flight.order.ends?;
        if head != first_tsn {
            return None;
        }
        // The others have a history of their own.
        let again = self.retransmissions.first_key_value();
        let end = again.map_or(u64::MAX, |(&tsn, _)| tsn).min(to + 1);

        let first = self.slots.front().filter(|slot| slot.is_plain(path) && first_tsn < end)?;
        let at = flight.packets.sent_at(first.packet)?;
        let mut run = PlainRun {
            path,
            first_tsn,
            last_tsn: first_tsn,
            first_packet: first.packet,
            last_packet: SentPacket { number: first.packet, at },
            bytes: 0,
            payload: 0,
            large: false,
            earliest: flight.uncounted.ends.is_none(),
        };
        let mut next = first_tsn as u32;
        while self.base < end
            && let Some(slot) = self.slots.front()
            && slot.is_plain(path)
            && next == self.base as u32
        {
            if run.last_packet.number != slot.packet {
                let Some(at) = flight.packets.sent_at(slot.packet) else { break };
                run.last_packet = SentPacket { number: slot.packet, at };
            }
            run.last_tsn = self.base;
            run.bytes += slot.size();
            run.payload += slot.payload.len();
            run.large |= slot.large();
            flight.packets.remove(slot.packet);
            next = slot.next;
            if slot.flags.end() {
                self.messages.remove(slot.message);
            }
            self.slots.pop_front();
            self.base += 1;
            #[cfg(test)]
            self.looked_at.set(self.looked_at.get() + 1);
        }
        flight.bytes -= run.bytes;
        flight.held -= run.payload;
        self.payload_in_flight -= run.payload;
        self.held -= run.payload;
        // The last one has itself as the next one if it is the tail.
        flight.order = List::default();
        if tail != run.last_tsn {
            let next = self.absolute(next);
            self.slot(next).prev = next as u32;
            self.flights[path].order.ends = Some((next, tail));
        }
        if self.slots.is_empty() {
            // Idle associations do not keep memory for a large window of the past.
            self.slots.shrink_to(1);
        }
        Some(run)
    }
}
