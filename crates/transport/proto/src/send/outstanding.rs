//! The ring of outstanding chunks, by TSN.
//!
//! The slots also form lists in the order in which chunks were sent on each path. So loss detection does
//! not go through the whole window: the work for an acknowledgement is proportional to the number of chunks
//! that it newly acknowledges, not of the outstanding ones.

mod cuc;
mod few;
mod give_up;
#[cfg(any(test, feature = "invariants"))]
mod invariants;
mod list;
mod plain;
mod slot;
mod take_back;
#[cfg(test)]
mod tests;

pub(crate) use cuc::PseudoCumack;
pub(crate) use plain::PlainRun;
pub(crate) use slot::{Slot, SlotState};

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use list::List;
use slot::Past;
pub(in crate::send) use slot::header_len;
use slot::size_with;

use bytes::Bytes;

use super::messages::{OutMessage, OutMessages};
use super::packets::SentPackets;
use super::{Cause, Fragment};
use crate::per_path::{OfPath, PathId, PerPath};
use crate::time::Instant;

/// Chunks in flight on one path, and chunks that wait to be retransmitted on it.
#[derive(Debug, Default)]
struct Flight {
    path: PathId,
    /// Bytes in flight.
    bytes: usize,
    /// Stored user bytes, acknowledged or not, of chunks that this path carried last or that wait for it.
    held: usize,
    /// Chunks for which missing reports count.
    order: List,
    /// Chunks that were fast-retransmitted and may not be fast-retransmitted again.
    uncounted: List,
    /// TSNs to be retransmitted on this path.
    lost: BTreeSet<u64>,
    packets: SentPackets,
}

impl OfPath for Flight {
    #[inline]
    fn id(&self) -> PathId {
        self.path
    }
}

/// All outstanding chunks of an association.
#[derive(Debug)]
pub(crate) struct Outstanding {
    slots: VecDeque<Slot>,
    /// TSN of the first slot.
    base: u64,
    flights: PerPath<Flight>,
    /// Payload bytes that the peer has not acknowledged in any form and that are in flight.
    payload_in_flight: usize,
    /// Payload bytes in the slots, and the part that the peer has acknowledged.
    held: usize,
    held_acked: usize,
    lost: usize,
    /// State of retransmitted chunks that does not fit into their slots, by TSN.
    retransmissions: BTreeMap<u64, Retransmission>,
    /// The messages that the chunks belong to.
    messages: OutMessages,
    /// The number of chunks examined.
    #[cfg(test)]
    pub(crate) looked_at: std::cell::Cell<u64>,
}

/// Additional state of a chunk that was sent more than once, or will be.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Retransmission {
    /// Highest TSN that was outstanding when the chunk was last lost by missing reports: only TSNs above it
    /// are evidence about the retransmission (caro 2.4.3).
    pub(crate) recover: Option<u64>,
    /// Acknowledgements of later chunks showed its last loss.
    pub(crate) reported: bool,
    /// The path that carried it when it was last considered lost, and when it was sent there.
    pub(crate) from: PathId,
    pub(crate) sent: Option<Instant>,
    /// It was sent more than once.
    pub(crate) again: bool,
    /// How often it was sent again.
    pub(crate) times: u16,
}

impl Outstanding {
    pub(crate) fn new(first_tsn: u64) -> Self {
        Self {
            slots: VecDeque::new(),
            base: first_tsn,
            flights: PerPath::default(),
            payload_in_flight: 0,
            held: 0,
            held_acked: 0,
            lost: 0,
            retransmissions: BTreeMap::new(),
            messages: OutMessages::default(),
            #[cfg(test)]
            looked_at: std::cell::Cell::new(0),
        }
    }

    /// The number that the next message gets.
    #[inline]
    pub(crate) fn next_message(&self) -> u32 {
        self.messages.next_number()
    }

    /// Adds a path.
    pub(crate) fn add_path(&mut self, path: PathId) {
        self.flights.reserve_for(self.flights.len() + 1);
        self.flights.push(Flight { path, ..Flight::default() });
    }

    /// Removes a path without chunks in flight. Chunks that wait for it then wait for path `to`, and
    /// acknowledged chunks that it carried belong to `to` until they are freed.
    pub(crate) fn remove_path(&mut self, gone: PathId, to: PathId) {
        self.redirect_lost(gone, to);
        let mut held = 0;
        for slot in self.slots.iter_mut().filter(|slot| slot.path == gone) {
            debug_assert!(slot.state.is_acked(), "{:?} on a path that goes", slot.state);
            held += slot.payload.len();
            slot.path = to;
            slot.past.set(Past::ELSEWHERE | Past::AMBIGUOUS, true);
        }
        if held > 0 {
            self.move_held(held, gone, to);
        }
        self.flights.remove(gone);
    }

    /// The paths, and the bytes in flight on each.
    pub(crate) fn flights(&self) -> impl ExactSizeIterator<Item = (PathId, usize)> + '_ {
        self.flights.iter().map(|flight| (flight.path, flight.bytes))
    }

    /// The lowest TSN that is not cumulatively acknowledged.
    pub(crate) fn base(&self) -> u64 {
        self.base
    }

    /// The TSN of the next new chunk.
    // req: rfc9260 1.6 "MUST use after transmitting TSN"
    // req: rfc9260 3.3.1 "fragmented user message MUST be strictly sequential"
    // req: rfc9260 6.9 "MUST then assign, in sequence, a separate TSN"
    // req: rfc9260 3.3.1 "SHOULD be strictly sequential"
    pub(crate) fn next_tsn(&self) -> u64 {
        self.base + self.slots.len() as u64
    }

    /// Continues with TSN `next`, which is above all that were used. Nothing may be outstanding.
    pub(crate) fn jump_to(&mut self, next: u64) {
        debug_assert!(self.slots.is_empty() && next >= self.base, "a jump over outstanding chunks");
        self.base = next;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Bytes in flight on a path, chunk headers included.
    pub(crate) fn flight(&self, path: PathId) -> usize {
        self.flights[path].bytes
    }

    /// User bytes not acknowledged, in flight or not.
    pub(crate) fn payload(&self) -> usize {
        self.held - self.held_acked
    }

    /// User bytes stored for a possible retransmission.
    pub(crate) fn held(&self) -> usize {
        self.held
    }

    /// The stored bytes that the peer has acknowledged but may still renege on.
    pub(crate) fn held_acked(&self) -> usize {
        self.held_acked
    }

    /// User bytes in flight on all paths.
    pub(crate) fn payload_in_flight(&self) -> usize {
        self.payload_in_flight
    }

    /// The number of chunks that wait for their retransmission.
    pub(crate) fn lost_chunks(&self) -> usize {
        self.lost
    }

    pub(crate) fn get(&self, tsn: u64) -> Option<&Slot> {
        #[cfg(test)]
        self.looked_at.set(self.looked_at.get() + 1);
        self.slots.get(usize::try_from(tsn.checked_sub(self.base)?).ok()?)
    }

    fn slot(&mut self, tsn: u64) -> &mut Slot {
        #[cfg(test)]
        self.looked_at.set(self.looked_at.get() + 1);
        let index = (tsn - self.base) as usize;
        &mut self.slots[index]
    }

    fn take_off(&mut self, tsn: u64) -> bool {
        self.unlink(tsn);
        let slot = self.slot(tsn);
        let (path, size, payload) = (slot.path, slot.size(), slot.payload.len());
        let packet = slot.packet;
        let flight = &mut self.flights[path];
        flight.bytes -= size;
        self.payload_in_flight -= payload;
        flight.packets.remove(packet)
    }

    fn put_on(&mut self, at: Instant, tsn: u64) {
        let slot = self.slot(tsn);
        let (path, size, payload) = (slot.path, slot.size(), slot.payload.len());
        let packet = slot.packet;
        let flight = &mut self.flights[path];
        flight.bytes += size;
        flight.packets.add(packet, at);
        self.payload_in_flight += payload;
    }

    /// Appends a new chunk that was just put into packet `packet` on `path`; returns its TSN.
    pub(crate) fn push(
        &mut self,
        now: Instant,
        fragment: Fragment,
        path: PathId,
        packet: u64,
        large: bool,
    ) -> u64 {
        let tsn = self.next_tsn();
        let message = self.messages.on_chunk(tsn, &fragment);
        let payload = fragment.payload.len();
        self.held += payload;
        self.payload_in_flight += payload;
        let flight = &mut self.flights[path];
        flight.held += payload;
        flight.bytes += size_with(payload, fragment.interleaved);
        flight.packets.add(packet, now);
        self.slots.push_back(Slot {
            payload: fragment.payload,
            packet,
            message,
            prev: tsn as u32,
            next: tsn as u32,
            flags: fragment.flags,
            state: SlotState::InFlight,
            path,
            missing_reports: 0,
            past: Past::new(large, fragment.interleaved),
            fsn: fragment.fsn,
        });
        self.link_back(path, false, tsn);
        tsn
    }

    /// Records that a chunk in flight was sent on another path as well.
    pub(crate) fn on_copied(&mut self, tsn: u64) {
        self.slot(tsn).past.set(Past::COPIED | Past::AMBIGUOUS, true);
    }

    /// The chunk that has waited longest to be retransmitted on a path.
    pub(crate) fn first_lost(&self, path: PathId) -> Option<u64> {
        self.flights[path].lost.first().copied()
    }

    /// Records that a lost chunk was put into packet `packet` on `path`. With `counted`, missing reports
    /// count for it.
    pub(crate) fn retransmitted(
        &mut self,
        now: Instant,
        tsn: u64,
        path: PathId,
        packet: u64,
        counted: bool,
        large: bool,
    ) {
        let slot = self.slot(tsn);
        let (waited_on, length) = (slot.path, slot.payload.len());
        // The path of a lost slot is the one that it waits for; `ambiguous`, set by `lose`, records that
        // another path carried it before.
        debug_assert_eq!(slot.state, SlotState::Lost);
        slot.state = SlotState::InFlight;
        slot.path = path;
        slot.packet = packet;
        slot.past.set(Past::LARGE, large);
        slot.past.set(Past::ELSEWHERE | Past::COPIED, false);
        slot.missing_reports = 0;
        let held = !counted;
        let known = self.retransmissions.entry(tsn).or_default();
        known.again = true;
        known.times = known.times.saturating_add(1);
        self.flights[waited_on].lost.remove(&tsn);
        self.move_held(length, waited_on, path);
        self.lost -= 1;
        self.link_back(path, held, tsn);
        self.put_on(now, tsn);
    }

    /// Considers a chunk in flight lost; it will be retransmitted on path `to`. Returns whether no other
    /// chunk of its packet is in flight.
    pub(crate) fn lose(&mut self, tsn: u64, cause: Cause, to: PathId) -> bool {
        let sent = self.sent_at(tsn);
        let whole = self.take_off(tsn);
        let highest = self.next_tsn() - 1;
        let from = self.slot(tsn).path;
        let known = self.retransmissions.entry(tsn).or_default();
        (known.from, known.sent, known.reported) = (from, sent, cause.is_reported());
        if cause.is_reported() {
            known.recover = Some(highest);
        }
        let slot = self.slot(tsn);
        slot.state = SlotState::Lost;
        if cause.is_reported() {
            slot.past.set(Past::FAST_RETRANSMITTED, true);
        }
        if slot.path != to {
            slot.past.set(Past::AMBIGUOUS, true);
        }
        slot.path = to;
        let length = slot.payload.len();
        self.move_held(length, from, to);
        self.flights[to].lost.insert(tsn);
        self.lost += 1;
        whole
    }

    fn move_held(&mut self, length: usize, from: PathId, to: PathId) {
        self.flights[from].held -= length;
        self.flights[to].held += length;
    }

    /// Moves chunks that wait for retransmission from path `from` to `to`.
    pub(crate) fn redirect_lost(&mut self, from: PathId, to: PathId) {
        if from != to {
            let lost = std::mem::take(&mut self.flights[from].lost);
            self.wait_for(to, from, lost);
        }
    }

    /// The same for chunks that were sent on `from`. Chunks that another path lost stay.
    pub(crate) fn redirect_lost_there(&mut self, from: PathId, to: PathId) {
        if from == to || self.flights[from].lost.is_empty() {
            return;
        }
        let lost = std::mem::take(&mut self.flights[from].lost);
        let was_there =
            |tsn: &u64| self.retransmissions.get(tsn).is_some_and(|known| known.from == from);
        let (own, others) = lost.into_iter().partition(was_there);
        self.flights[from].lost = others;
        self.wait_for(to, from, own);
    }

    fn wait_for(&mut self, to: PathId, from: PathId, lost: BTreeSet<u64>) {
        for tsn in &lost {
            let slot = self.slot(*tsn);
            slot.path = to;
            slot.past.set(Past::AMBIGUOUS, true);
            let length = slot.payload.len();
            self.move_held(length, from, to);
        }
        self.flights[to].lost.extend(lost);
    }

    /// Handles a gap ack block for a chunk: the chunk is no longer in flight but stays as a placeholder.
    pub(crate) fn gap_ack(&mut self, tsn: u64) {
        self.leave(tsn);
        let known = self.retransmissions.remove(&tsn);
        let slot = self.slot(tsn);
        if slot.state == SlotState::Lost && known.is_some_and(|known| known.from != slot.path) {
            slot.past.set(Past::ELSEWHERE, true);
        }
        if !slot.state.is_acked() {
            slot.state = SlotState::Acked;
            self.held_acked += self.slot(tsn).payload.len();
        }
    }

    /// Frees the payload of a chunk on which the peer will not renege; a placeholder stays, to keep the
    /// TSNs contiguous. Returns the number of bytes freed.
    pub(crate) fn free(&mut self, tsn: u64) -> usize {
        let slot = self.slot(tsn);
        if slot.state != SlotState::Acked {
            return 0;
        }
        slot.state = SlotState::NrAcked;
        let (length, path) = (std::mem::take(&mut slot.payload).len(), slot.path);
        self.flights[path].held -= length;
        self.held -= length;
        self.held_acked -= length;
        length
    }

    fn leave(&mut self, tsn: u64) {
        let slot = self.slot(tsn);
        match slot.state {
            SlotState::InFlight => {
                self.take_off(tsn);
            }
            SlotState::Lost => {
                let path = slot.path;
                self.flights[path].lost.remove(&tsn);
                self.lost -= 1;
            }
            SlotState::Acked | SlotState::NrAcked | SlotState::GivenUp => {}
        }
    }

    /// Handles reneging: the peer no longer acknowledges a chunk that it had acknowledged by a gap ack
    /// block. The chunk is in flight again, as the oldest one. If another path carried it, it waits for its
    /// retransmission instead, because it is not among the packets of its path.
    pub(crate) fn renege(&mut self, now: Instant, tsn: u64) {
        let slot = self.slot(tsn);
        if slot.state != SlotState::Acked {
            return;
        }
        let (path, length) = (slot.path, slot.payload.len());
        let elsewhere = slot.past.has(Past::ELSEWHERE);
        slot.state = if elsewhere { SlotState::Lost } else { SlotState::InFlight };
        self.held_acked -= length;
        if elsewhere {
            self.flights[path].lost.insert(tsn);
            self.lost += 1;
        } else {
            self.link_front(path, false, tsn);
            self.put_on(now, tsn);
        }
    }

    /// When the packet was sent that last carried a chunk in flight.
    pub(crate) fn sent_at(&self, tsn: u64) -> Option<Instant> {
        let slot = self.get(tsn).filter(|slot| slot.state == SlotState::InFlight)?;
        self.flights[slot.path].packets.sent_at(slot.packet)
    }

    /// The number of packets in flight on a path.
    pub(crate) fn packets(&self, path: PathId) -> usize {
        self.flights[path].packets.len()
    }

    /// Number of the earliest packet in flight on a path, and its send time.
    pub(crate) fn oldest_packet(&self, path: PathId) -> Option<(u64, Instant)> {
        self.flights[path].packets.oldest()
    }

    /// The state of a retransmitted chunk; `None` if it was sent only once and is not considered lost.
    pub(crate) fn retransmission(&self, tsn: u64) -> Option<Retransmission> {
        // Most acknowledged chunks are newer than all retransmitted ones.
        if self.retransmissions.last_key_value().is_none_or(|(&last, _)| last < tsn) {
            return None;
        }
        self.retransmissions.get(&tsn).copied()
    }

    /// The message that an outstanding chunk belongs to.
    pub(crate) fn message(&self, slot: &Slot) -> Option<&OutMessage> {
        let message = self.messages.get(slot.message);
        debug_assert!(message.is_some(), "a chunk of a message that is gone");
        message
    }

    /// Removes all chunks, acknowledged or not. Returns their messages in the order in which they were begun, each with
    /// its number. If a message is still being sent, its other part is in the queue.
    pub(crate) fn take_messages(&mut self) -> Vec<(u32, OutMessage, Vec<Bytes>)> {
        let mut messages = Vec::<(u32, OutMessage, Vec<Bytes>)>::new();
        let mut places = BTreeMap::new();
        while let Some(slot) = self.slots.front() {
            let (number, message) = (slot.message, self.message(slot).copied());
            let Some(slot) = self.pop() else { break };
            let Some(message) = message else { continue };
            let place = *places.entry(number).or_insert(messages.len());
            if place == messages.len() {
                messages.push((number, message, Vec::new()));
            }
            messages[place].2.push(slot.payload);
            if slot.flags.end() {
                places.remove(&number);
            }
        }
        self.messages = OutMessages::default();
        messages
    }

    /// Removes the first slot, which is cumulatively acknowledged.
    pub(crate) fn pop(&mut self) -> Option<Slot> {
        if self.slots.is_empty() {
            return None;
        }
        self.leave(self.base);
        if self.retransmissions.first_key_value().is_some_and(|(&first, _)| first == self.base) {
            self.retransmissions.pop_first();
        }
        let slot = self.slots.pop_front();
        if let Some(slot) = &slot {
            self.held -= slot.payload.len();
            self.flights[slot.path].held -= slot.payload.len();
            if slot.state == SlotState::Acked {
                self.held_acked -= slot.payload.len();
            }
        }
        if let Some(slot) = slot.as_ref().filter(|slot| slot.flags.end()) {
            self.messages.remove(slot.message);
        }
        self.base += 1;
        if self.slots.is_empty() {
            // Idle associations do not keep memory for a large window of the past.
            self.slots.shrink_to(1);
        }
        slot
    }

    /// Frees unused memory while nothing is outstanding.
    pub(crate) fn shrink(&mut self) {
        if self.slots.is_empty() {
            self.slots = VecDeque::new();
            self.messages.shrink();
        }
    }

    /// Whether a path has chunks in flight.
    pub(crate) fn in_flight(&self, path: PathId) -> bool {
        self.flights[path].bytes > 0
    }

    /// Adds missing reports to a chunk; returns their new number.
    // req: rfc9260 6.7 "MUST be recorded by the data sender"
    pub(crate) fn report_missing(&mut self, tsn: u64, reports: u8) -> u8 {
        let slot = self.slot(tsn);
        slot.missing_reports = slot.missing_reports.saturating_add(reports);
        slot.missing_reports
    }
}
