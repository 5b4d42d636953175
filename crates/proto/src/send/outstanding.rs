//! The ring of outstanding chunks, by TSN.
//!
//! Slots also link the order in which chunks were sent on each path, so that what is lost is
//! found without looking at the whole window: the work for an acknowledgement is proportional
//! to what it newly acknowledges, not to what is outstanding.

mod cuc;
#[cfg(any(test, feature = "invariants"))]
mod invariants;
#[cfg(any(test, fuzzing))]
mod take_back;

pub(crate) use cuc::PseudoCumack;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use anabranch_wire::{Data, DataFlags, Ppid, Ssn};
use bytes::Bytes;

use super::packets::SentPackets;
use super::{Cause, Fragment};
use crate::per_path::{OfPath, PathId, PerPath};
use crate::time::Instant;
use crate::tsn;

/// What happened to a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlotState {
    /// On its way, as far as is known.
    InFlight,
    /// Held to be lost; waits for its retransmission.
    Lost,
    /// Acknowledged by a gap ack block; the peer may take it back.
    Acked,
    /// Acknowledged for good by a non-renegable gap ack block; its payload is gone.
    NrAcked,
}

impl SlotState {
    /// Whether the peer has the chunk, as far as is known.
    pub(crate) fn is_acked(self) -> bool {
        matches!(self, Self::Acked | Self::NrAcked)
    }
}

/// A chunk that was sent and is not cumulatively acknowledged.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) payload: Bytes,
    /// Number of the packet that carried it last.
    pub(crate) packet: u64,
    pub(crate) ppid: Ppid,
    /// Neighbours in the order of sending, by the lower half of the TSN; itself means none.
    prev: u32,
    next: u32,
    pub(crate) stream: u16,
    pub(crate) ssn: Ssn,
    pub(crate) flags: DataFlags,
    pub(crate) state: SlotState,
    /// Path that carried it last; of a lost chunk the one that it waits for.
    pub(crate) path: PathId,
    pub(crate) missing_reports: u8,
    past: Past,
}

/// What is known of a chunk beside its state, a bit each, since slots fit into a cache line.
#[derive(Clone, Copy, Debug, Default)]
struct Past(u8);

impl Past {
    /// It was lost by missing reports once.
    const FAST_RETRANSMITTED: u8 = 1;
    /// It was sent on more than one path, so that an acknowledgement does not tell which of
    /// them works.
    const AMBIGUOUS: u8 = 1 << 1;
    /// Its packet was larger than the base MTU, so that its loss may have to do with size.
    const LARGE: u8 = 1 << 2;
    /// It waits in the list of chunks that missing reports do not count for.
    const HELD: u8 = 1 << 3;
    /// Its packet is another path's than the one that it stands with, and so is the packet's number.
    const ELSEWHERE: u8 = 1 << 4;

    fn has(self, what: u8) -> bool {
        self.0 & what != 0
    }

    fn set(&mut self, what: u8, on: bool) {
        self.0 = if on { self.0 | what } else { self.0 & !what };
    }
}

impl Slot {
    /// It was lost by missing reports once.
    pub(crate) fn fast_retransmitted(&self) -> bool {
        self.past.has(Past::FAST_RETRANSMITTED)
    }

    /// It was sent on more than one path, so that an acknowledgement does not tell which of
    /// them works.
    pub(crate) fn ambiguous(&self) -> bool {
        self.past.has(Past::AMBIGUOUS)
    }

    /// Its packet was larger than the base MTU, so that its loss may have to do with size.
    pub(crate) fn large(&self) -> bool {
        self.past.has(Past::LARGE)
    }

    /// Bytes on the wire: header, payload and padding.
    // req: rfc9260 7.2 "including the padding, SHOULD be used"
    pub(crate) fn size(&self) -> usize {
        size_with(self.payload.len())
    }
}

/// Bytes on the wire of a chunk with so much payload.
fn size_with(payload: usize) -> usize {
    Data::HEADER_LEN + payload.next_multiple_of(4)
}

/// Chunks in the order in which they were sent.
#[derive(Clone, Copy, Debug, Default)]
struct List {
    ends: Option<(u64, u64)>,
}

/// What is in flight on one path and what waits to be retransmitted on it.
#[derive(Debug, Default)]
struct Flight {
    path: PathId,
    /// Bytes in flight.
    bytes: usize,
    /// User bytes that are kept, acknowledged or not, and were on this path last or wait for it.
    held: usize,
    /// Chunks for which missing reports count.
    order: List,
    /// Chunks that were fast-retransmitted and may not be again.
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
    /// Payload bytes that the slots hold, and of them those that the peer has acknowledged.
    held: usize,
    held_acked: usize,
    lost: usize,
    /// Of retransmitted chunks, what their slots have no room for, by TSN.
    retransmissions: BTreeMap<u64, Retransmission>,
    /// What the user wants back with messages that cannot be delivered, by the TSN of their first
    /// chunk, where it is not 0. Most users want nothing, and slots fit into a cache line.
    contexts: BTreeMap<u64, u64>,
}

/// What is kept of a chunk that was sent more than once, or will be.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Retransmission {
    /// Highest TSN that was outstanding when missing reports last proved the chunk lost: only
    /// what is above it tells about the retransmission (caro 2.4.3).
    pub(crate) recover: Option<u64>,
    /// Path that carried it when it was last held to be lost, and when it had left then.
    pub(crate) from: PathId,
    sent: Option<Instant>,
    /// It was sent more than once.
    again: bool,
}

const _: () = assert!(size_of::<Slot>() <= 64);

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
            contexts: BTreeMap::new(),
        }
    }

    /// There may be something in flight on this path, too.
    pub(crate) fn add_path(&mut self, path: PathId) {
        self.flights.reserve_for(self.flights.len() + 1);
        self.flights.push(Flight { path, ..Flight::default() });
    }

    /// A path has gone on which nothing is in flight. What waits for it waits for path `to`, and what
    /// it carried and is acknowledged stands with that one until it is freed.
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

    /// User bytes that are kept for a retransmission.
    pub(crate) fn held(&self) -> usize {
        self.held
    }

    /// Of the bytes that are kept, those that the peer has acknowledged and may yet take back.
    pub(crate) fn held_acked(&self) -> usize {
        self.held_acked
    }

    /// User bytes in flight on all paths.
    pub(crate) fn payload_in_flight(&self) -> usize {
        self.payload_in_flight
    }

    /// Chunks that wait for their retransmission.
    pub(crate) fn lost_chunks(&self) -> usize {
        self.lost
    }

    pub(crate) fn get(&self, tsn: u64) -> Option<&Slot> {
        self.slots.get(usize::try_from(tsn.checked_sub(self.base)?).ok()?)
    }

    fn slot(&mut self, tsn: u64) -> &mut Slot {
        let index = (tsn - self.base) as usize;
        &mut self.slots[index]
    }

    /// The full TSN of a neighbour link.
    fn absolute(&self, link: u32) -> u64 {
        tsn::unwrap(self.base, link)
    }

    fn link_back(&mut self, path: PathId, held: bool, tsn: u64) {
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

    fn link_front(&mut self, path: PathId, held: bool, tsn: u64) {
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

    fn list(&mut self, path: PathId, held: bool) -> &mut List {
        let flight = &mut self.flights[path];
        if held { &mut flight.uncounted } else { &mut flight.order }
    }

    fn unlink(&mut self, tsn: u64) {
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

    fn take_off(&mut self, tsn: u64) {
        self.unlink(tsn);
        let slot = self.slot(tsn);
        let (path, size, payload) = (slot.path, slot.size(), slot.payload.len());
        let packet = slot.packet;
        let flight = &mut self.flights[path];
        flight.bytes -= size;
        flight.packets.remove(packet);
        self.payload_in_flight -= payload;
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
        if fragment.context != 0 && fragment.flags.begin() {
            self.contexts.insert(tsn, fragment.context);
        }
        let payload = fragment.payload.len();
        self.held += payload;
        self.payload_in_flight += payload;
        let flight = &mut self.flights[path];
        flight.held += payload;
        flight.bytes += size_with(payload);
        flight.packets.add(packet, now);
        self.slots.push_back(Slot {
            payload: fragment.payload,
            packet,
            ppid: fragment.ppid,
            prev: tsn as u32,
            next: tsn as u32,
            stream: fragment.stream,
            ssn: fragment.ssn,
            flags: fragment.flags,
            state: SlotState::InFlight,
            path,
            missing_reports: 0,
            past: Past(if large { Past::LARGE } else { 0 }),
        });
        self.link_back(path, false, tsn);
        tsn
    }

    /// The chunk that waits longest to be retransmitted on a path.
    pub(crate) fn first_lost(&self, path: PathId) -> Option<u64> {
        self.flights[path].lost.first().copied()
    }

    /// A lost chunk was put into packet `packet` on `path`. Missing reports count for it if it is
    /// `counted`.
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
        // A lost slot's path is the one that it waits for; the one before it stands behind
        // `ambiguous`, which `lose` set.
        debug_assert_eq!(slot.state, SlotState::Lost);
        slot.state = SlotState::InFlight;
        slot.path = path;
        slot.packet = packet;
        slot.past.set(Past::LARGE, large);
        slot.past.set(Past::ELSEWHERE, false);
        slot.missing_reports = 0;
        let held = !counted;
        self.retransmissions.entry(tsn).or_default().again = true;
        self.flights[waited_on].lost.remove(&tsn);
        self.move_held(length, waited_on, path);
        self.lost -= 1;
        self.link_back(path, held, tsn);
        self.put_on(now, tsn);
    }

    /// A chunk in flight is held to be lost and will go out again on path `to`.
    pub(crate) fn lose(&mut self, tsn: u64, cause: Cause, to: PathId) {
        let sent = self.sent_at(tsn);
        self.take_off(tsn);
        let highest = self.next_tsn() - 1;
        let from = self.slot(tsn).path;
        let known = self.retransmissions.entry(tsn).or_default();
        (known.from, known.sent) = (from, sent);
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
    }

    fn move_held(&mut self, length: usize, from: PathId, to: PathId) {
        self.flights[from].held -= length;
        self.flights[to].held += length;
    }

    /// Chunks that wait to be retransmitted on `from` will go out on `to`.
    pub(crate) fn redirect_lost(&mut self, from: PathId, to: PathId) {
        if from == to {
            return;
        }
        let lost = std::mem::take(&mut self.flights[from].lost);
        for tsn in &lost {
            let slot = self.slot(*tsn);
            slot.path = to;
            slot.past.set(Past::AMBIGUOUS, true);
            let length = slot.payload.len();
            self.move_held(length, from, to);
        }
        self.flights[to].lost.extend(lost);
    }

    /// A chunk was acknowledged by a gap ack block: it leaves the flight and stays as a
    /// placeholder.
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

    /// The peer will not take back its acknowledgement of a chunk: its payload is freed, and what
    /// stays is the placeholder that keeps the TSNs in a row. Returns the bytes freed.
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
            SlotState::InFlight => self.take_off(tsn),
            SlotState::Lost => {
                let path = slot.path;
                self.flights[path].lost.remove(&tsn);
                self.lost -= 1;
            }
            SlotState::Acked | SlotState::NrAcked => {}
        }
    }

    /// The peer no longer acknowledges a chunk that it did acknowledge by a gap ack block
    /// (it reneged): the chunk is in flight again, as the oldest one. If the path that it stands with
    /// did not carry it, it waits for its retransmission there: among the packets of that path it has
    /// no place.
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

    /// When the packet left that carried a chunk in flight last.
    pub(crate) fn sent_at(&self, tsn: u64) -> Option<Instant> {
        let slot = self.get(tsn).filter(|slot| slot.state == SlotState::InFlight)?;
        self.flights[slot.path].packets.sent_at(slot.packet)
    }

    /// Packets in flight on a path.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn packets(&self, path: PathId) -> usize {
        self.flights[path].packets.len()
    }

    /// Number of the packet in flight on a path that left first, and when.
    pub(crate) fn oldest_packet(&self, path: PathId) -> Option<(u64, Instant)> {
        self.flights[path].packets.oldest()
    }

    /// What is known of a chunk's retransmissions; `None` if it was sent once and is not held to
    /// be lost.
    pub(crate) fn retransmission(&self, tsn: u64) -> Option<Retransmission> {
        // Most chunks that are acknowledged are newer than all that were sent again.
        if self.retransmissions.last_key_value().is_none_or(|(&last, _)| last < tsn) {
            return None;
        }
        self.retransmissions.get(&tsn).copied()
    }

    /// The user's context of the message that begins with the chunk `tsn`.
    pub(crate) fn context(&self, tsn: u64) -> u64 {
        self.contexts.get(&tsn).copied().unwrap_or(0)
    }

    /// Takes out the first slot, cumulatively acknowledged.
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
        if let Some(context) = self.contexts.remove(&self.base) {
            // It stays with what is left of the message.
            if slot.as_ref().is_some_and(|slot| !slot.flags.end()) {
                self.contexts.insert(self.base + 1, context);
            }
        }
        self.base += 1;
        if self.slots.is_empty() {
            // Idle associations hold no memory for a window that they once had.
            self.slots.shrink_to(1);
        }
        slot
    }

    /// The chunk in flight on a path that was sent first, of those that missing reports count
    /// for.
    pub(crate) fn oldest_counted(&self, path: PathId) -> Option<u64> {
        self.flights[path].order.ends.map(|(head, _)| head)
    }

    /// The chunk sent next after `tsn` on the same path, in the same list.
    pub(crate) fn sent_after(&self, tsn: u64) -> Option<u64> {
        let next = self.get(tsn)?.next;
        (next != tsn as u32).then(|| self.absolute(next))
    }

    /// The earliest outstanding chunk on a path, which its timer stands for.
    pub(crate) fn earliest(&self, path: PathId) -> Option<u64> {
        let flight = &self.flights[path];
        flight.uncounted.ends.or(flight.order.ends).map(|(head, _)| head)
    }

    /// Whether a path has chunks in flight.
    pub(crate) fn in_flight(&self, path: PathId) -> bool {
        self.flights[path].bytes > 0
    }

    /// So many missing reports more for a chunk; returns how many it has.
    // req: rfc9260 6.7 "MUST be recorded by the data sender"
    pub(crate) fn report_missing(&mut self, tsn: u64, reports: u8) -> u8 {
        let slot = self.slot(tsn);
        slot.missing_reports = slot.missing_reports.saturating_add(reports);
        slot.missing_reports
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: PathId = PathId(0);
    const B: PathId = PathId(1);

    fn fragment(len: usize) -> Fragment {
        Fragment {
            stream: 0,
            ssn: Ssn(0),
            ppid: Ppid(0),
            flags: DataFlags(3),
            context: 0,
            payload: Bytes::from(vec![7; len]),
        }
    }

    fn filled(first: u64, count: u64) -> Outstanding {
        let mut ring = Outstanding::new(first);
        [A, B].into_iter().for_each(|path| ring.add_path(path));
        for i in 0..count {
            let tsn = ring.push(Instant::ZERO, fragment(100), A, i, false);
            assert_eq!(tsn, first + i);
        }
        ring
    }

    fn order(ring: &Outstanding, path: PathId) -> Vec<u64> {
        let mut out = Vec::new();
        let mut at = ring.oldest_counted(path);
        while let Some(tsn) = at {
            out.push(tsn);
            at = ring.sent_after(tsn);
        }
        out
    }

    #[test]
    fn order_survives_loss_and_ack_across_the_wrap() {
        let first = (1u64 << 33) - 3;
        let mut ring = filled(first, 6);
        assert_eq!(ring.flight(A), 6 * 116);
        ring.gap_ack(first + 4);
        ring.lose(first + 1, Cause::MissingReports, B);
        assert_eq!(order(&ring, A), [first, first + 2, first + 3, first + 5]);
        assert_eq!(ring.first_lost(B), Some(first + 1));
        assert_eq!((ring.flight(A), ring.flight(B)), (4 * 116, 0));
        ring.retransmitted(Instant::ZERO, first + 1, B, 9, true, false);
        assert_eq!(order(&ring, B), [first + 1]);
        assert!(ring.get(first + 1).unwrap().ambiguous());
        ring.renege(Instant::ZERO, first + 4);
        assert_eq!(order(&ring, A), [first + 4, first, first + 2, first + 3, first + 5]);
        for expected in first..first + 6 {
            assert_eq!(ring.base(), expected);
            ring.pop().unwrap();
        }
        assert!(ring.pop().is_none());
        assert_eq!((ring.flight(A), ring.flight(B), ring.payload_in_flight()), (0, 0, 0));
        assert_eq!(ring.next_tsn(), first + 6);
    }

    #[test]
    fn held_chunks_are_not_counted_but_timed() {
        let mut ring = filled(10, 3);
        ring.lose(10, Cause::MissingReports, A);
        assert_eq!(ring.lost_chunks(), 1);
        ring.retransmitted(Instant::ZERO, 10, A, 9, false, false);
        assert_eq!(order(&ring, A), [11, 12]);
        assert_eq!(ring.earliest(A), Some(10));
        ring.gap_ack(11);
        ring.gap_ack(12);
        assert_eq!(ring.flight(A), 116);
        assert!(ring.in_flight(A));
        ring.gap_ack(10);
        assert!(!ring.in_flight(A));
        assert_eq!(ring.earliest(A), None);
    }

    #[test]
    fn lost_chunks_can_be_redirected() {
        let mut ring = filled(10, 3);
        for tsn in 10..13 {
            ring.lose(tsn, Cause::Timeout, A);
        }
        ring.redirect_lost(A, B);
        assert_eq!((ring.first_lost(A), ring.first_lost(B)), (None, Some(10)));
        ring.pop();
        assert_eq!(ring.first_lost(B), Some(11));
        assert_eq!(ring.lost_chunks(), 2);
    }

    #[test]
    fn what_a_path_carried_stands_with_another_one_when_it_goes() {
        let mut ring = filled(10, 3);
        let tsn = ring.push(Instant::ZERO, fragment(100), B, 1_000_000, false);
        ring.push(Instant::ZERO, fragment(100), B, 1_000_001, false);
        ring.lose(tsn + 1, Cause::Timeout, B);
        ring.gap_ack(tsn);
        ring.remove_path(B, A);
        ring.check_invariants().unwrap();
        assert_eq!((ring.held_on(A), ring.first_lost(A)), (500, Some(tsn + 1)));
        // The peer takes its word back: the packet's number is none of this path's.
        ring.renege(Instant::ZERO, tsn);
        ring.check_invariants().unwrap();
        assert_eq!((ring.first_lost(A), ring.packets(A)), (Some(tsn), 3));
        ring.retransmitted(Instant::ZERO, tsn, A, 4, true, false);
        ring.gap_ack(tsn);
        ring.renege(Instant::ZERO, tsn);
        assert_eq!(ring.oldest_counted(A), Some(tsn), "this time the path carried it");
        ring.check_invariants().unwrap();
        while ring.pop().is_some() {}
        assert_eq!((ring.held(), ring.held_on(A), ring.lost_chunks()), (0, 0, 0));
    }

    /// With concurrent multipath transfer paths number their packets each for itself.
    #[test]
    fn what_waited_for_another_path_and_is_taken_back_costs_no_memory() {
        let mut ring = filled(10, 1);
        let tsn = ring.push(Instant::ZERO, fragment(100), B, 1 << 40, false);
        ring.lose(tsn, Cause::Timeout, A);
        ring.gap_ack(tsn);
        ring.renege(Instant::ZERO, tsn);
        assert_eq!((ring.first_lost(A), ring.packets(A)), (Some(tsn), 1));
        ring.check_invariants().unwrap();
    }
}
