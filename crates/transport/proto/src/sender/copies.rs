//! Sends chunks on a second path as well, and keeps track of them. `policy/copies.rs` has the rules.
//!
//! The slot of a copied chunk belongs to its first transmission. The copy is only charged to the window of its path: no
//! timer runs for it, and its acknowledgement is not credited to any path, since nobody knows which transmission has
//! arrived. So a chunk that was lost on both paths is found here, by time.

use std::collections::VecDeque;
use std::time::Duration;

use anabranch_wire::{PacketWriter, Tsn};

use super::{Carrier, Sender};
use crate::marks::mark;
use crate::path::{Path, Paths};
use crate::per_path::PathId;
use crate::policy::copies::{self, Room};
use crate::send::{Cause, SlotState};
use crate::time::Instant;
use crate::user_data::UserData;

/// The maximum number of copied chunks that are tracked; no chunk is copied beyond it.
const MAX_COPIED: usize = 256;

/// A transmission that occupies the window of a path.
#[derive(Clone, Copy, Debug)]
struct Charge {
    path: PathId,
    /// A round trip after it was sent.
    until: Instant,
}

/// A chunk that was sent on two paths.
#[derive(Clone, Copy, Debug)]
struct Copied {
    tsn: u64,
    sent: Instant,
    bytes: usize,
    first: Charge,
    second: Charge,
    /// When both transmissions should have been acknowledged.
    overdue: Instant,
    /// It was acknowledged, or sent once more.
    settled: bool,
}

impl Copied {
    /// The transmissions that occupy a window beside what is in flight.
    fn charges(&self, now: Instant) -> impl Iterator<Item = Charge> + use<> {
        // Until then the first transmission is in flight like any other.
        let first = self.settled.then_some(self.first);
        first.into_iter().chain(Some(self.second)).filter(move |charge| charge.until > now)
    }
}

/// The bytes of copied chunks on a path, beside what is in flight.
#[derive(Clone, Copy, Debug)]
struct Charged {
    path: PathId,
    bytes: usize,
    /// Of these, second transmissions.
    copies: usize,
    /// When some of them leave.
    until: Instant,
}

/// Chunks that are to be copied, and those that were.
#[derive(Debug, Default)]
pub(super) struct Copies {
    /// Chunks that were just sent, in order.
    waiting: VecDeque<u64>,
    /// The path for the copy of the first of them.
    to: Option<PathId>,
    /// Copied chunks, in the order of sending.
    copied: VecDeque<Copied>,
    charged: Vec<Charged>,
    /// When the latest acknowledged one was sent.
    latest_acked: Option<Instant>,
}

impl Copies {
    fn charged(&self, path: PathId) -> Option<&Charged> {
        self.charged.iter().find(|charged| charged.path == path)
    }

    /// Adds up what occupies the windows now.
    fn add_up(&mut self, now: Instant) {
        self.copied.retain(|copied| !copied.settled || copied.charges(now).next().is_some());
        self.charged.clear();
        for copied in &self.copied {
            for Charge { path, until } in copied.charges(now) {
                let place = self.charged.iter().position(|charged| charged.path == path);
                let place = place.unwrap_or_else(|| {
                    self.charged.push(Charged { path, bytes: 0, copies: 0, until });
                    self.charged.len() - 1
                });
                let charged = &mut self.charged[place];
                charged.bytes += copied.bytes;
                charged.until = charged.until.min(until);
                if path == copied.second.path {
                    charged.copies += copied.bytes;
                }
            }
        }
    }

    /// Whether nothing is left of it.
    pub(super) fn is_idle(&self) -> bool {
        self.copied.is_empty() && self.waiting.is_empty()
    }

    /// Removes a path.
    pub(super) fn remove(&mut self, path: PathId) {
        self.copied.retain(|copied| copied.first.path != path && copied.second.path != path);
        self.charged.retain(|charged| charged.path != path);
        self.to = self.to.filter(|to| *to != path);
    }
}

impl Sender {
    /// Records that a chunk was sent, which is copied if its message is complete and small.
    #[inline(always)]
    pub(super) fn consider_copy(&mut self, tsn: u64) {
        if let Some(most) = self.config.paths.copies_up_to {
            self.copy_up_to(most, tsn);
        }
    }

    fn copy_up_to(&mut self, most: usize, tsn: u64) {
        let Some(slot) = self.outstanding.get(tsn) else { return };
        let bound = self.outstanding.message(slot).is_some_and(|of| self.is_bound(of.stream));
        if slot.payload.len() <= most && slot.flags.begin() && slot.flags.end() && !bound {
            self.copies.get_or_insert_default().waiting.push_back(tsn);
        }
    }

    /// Whether all chunks from `first` on wait for a copy, so that they measure no path.
    pub(super) fn all_wait_for_copies(&self, first: u64) -> bool {
        let Some(copies) = &self.copies else { return false };
        let waiting = copies.waiting.iter().filter(|tsn| **tsn >= first).count();
        waiting as u64 == self.outstanding.next_tsn() - first
    }

    /// Chooses the path for the copy of the first chunk that waits. Chunks for which no path has room are not
    /// copied.
    pub(super) fn plan_copies(&mut self, now: Instant, paths: &Paths) {
        let Some(mut copies) = self.copies.take() else { return };
        copies.add_up(now);
        copies.to = None;
        while let Some(tsn) = copies.waiting.front().copied() {
            copies.to = self.path_for_copy(tsn, &copies, paths);
            if copies.to.is_some() {
                break;
            }
            copies.waiting.pop_front();
        }
        self.copies = Some(copies);
    }

    fn path_for_copy(&mut self, tsn: u64, copies: &Copies, paths: &Paths) -> Option<PathId> {
        let slot = self.outstanding.get(tsn)?;
        if slot.state != SlotState::InFlight || slot.copied() {
            return None;
        }
        let (from, size) = (slot.path, slot.size());
        let room = |path: &Path| {
            let charged = copies.charged(path.id);
            let bytes = charged.map_or(0, |charged| charged.bytes);
            Room {
                path: path.id,
                doubtful: path.error_count > 0,
                latency: path.rtt.srtt(),
                cwnd: self.lanes[path.id].congestion.cwnd(),
                charged: self.outstanding.flight(path.id) + bytes,
                copies: charged.map_or(0, |charged| charged.copies),
                packet: path.pmdcs(),
            }
        };
        // One lost heartbeat makes a path doubtful. A copy risks nothing there.
        let works = |path: &&Path| {
            let doubtful = path.is_potentially_failed() && path.may_carry();
            path.id != from && path.error_count <= 1 && (path.is_active() || doubtful)
        };
        let to = (copies.copied.len() < MAX_COPIED)
            .then(|| paths.iter().filter(works).map(room))
            .and_then(|rooms| copies::path(rooms, size, self.config.paths.copies_share));
        if to.is_none() {
            mark!(CopyWithoutRoom);
            self.counts.uncopied_chunks = self.counts.uncopied_chunks.wrapping_add(1);
        }
        to
    }

    /// The path on which a packet with copies may be sent.
    pub(crate) fn path_for_copies(&self) -> Option<PathId> {
        self.copies.as_ref()?.to
    }

    /// Writes the copies for a path into a packet, as many as there is room for; returns whether there were any.
    pub(crate) fn write_copies(
        &mut self,
        now: Instant,
        carrier: Carrier,
        packet: &mut PacketWriter<'_>,
        paths: &mut Paths,
    ) -> bool {
        let before = packet.len();
        while self.path_for_copies() == Some(carrier.path) {
            let Some(tsn) = self.copies.as_mut().and_then(|copies| copies.waiting.pop_front())
            else {
                break;
            };
            // What does not fit is not copied: a copy does not wait.
            if !self.write_copy(now, tsn, carrier.path, packet, paths) {
                break;
            }
            self.plan_copies(now, paths);
        }
        let bytes = packet.len() - before;
        if bytes > 0 {
            let lane = &mut self.lanes[carrier.path];
            lane.last_data = now;
            if let Some(pacer) = &mut lane.pacer {
                pacer.sent(bytes);
            }
        }
        // One that did not fit was not the last one that waits.
        self.plan_copies(now, paths);
        bytes > 0
    }

    fn write_copy(
        &mut self,
        now: Instant,
        tsn: u64,
        path: PathId,
        packet: &mut PacketWriter<'_>,
        paths: &mut Paths,
    ) -> bool {
        let Some(slot) = self.outstanding.get(tsn) else { return false };
        let Some(message) = self.outstanding.message(slot) else { return false };
        let chunk = UserData {
            flags: slot.flags,
            tsn: Tsn(tsn as u32),
            stream: message.stream,
            sequence: message.sequence,
            fsn: slot.fsn,
            ppid: message.ppid,
            payload: &slot.payload,
        };
        let (from, bytes, length) = (slot.path, slot.size(), slot.payload.len());
        if chunk.write(packet, self.queue.interleaves()).is_err() {
            return false;
        }
        let sent = self.outstanding.sent_at(tsn).unwrap_or(now);
        let trip = |path: PathId| paths[path].rtt.srtt().unwrap_or_default();
        let patience = |path: PathId| {
            let srtt = trip(path);
            srtt + (srtt / 4).max(paths[path].rtt.rttvar() * 4)
        };
        let copied = Copied {
            tsn,
            sent,
            bytes,
            first: Charge { path: from, until: sent + trip(from) },
            second: Charge { path, until: now + trip(path) },
            overdue: (sent + patience(from)).max(now + patience(path)),
            settled: false,
        };
        self.outstanding.on_copied(tsn);
        // req: rfc9260 6.3.1 "RTT measurements MUST NOT be made using"
        self.lanes[from].timed.take_if(|(timed, _)| *timed == tsn);
        let copies = self.copies.get_or_insert_default();
        let before = copies.copied.iter_mut().filter(|copied| copied.tsn == tsn);
        before.for_each(|copied| copied.settled = true);
        copies.copied.push_back(copied);
        self.counts.copied_chunks = self.counts.copied_chunks.wrapping_add(1);
        let stats = &mut paths[path].stats;
        stats.data_chunks_sent += 1;
        stats.data_bytes_sent += length as u64;
        mark!(Copied);
        true
    }

    /// Bytes of copied chunks that occupy the window of a path beside what is in flight.
    #[inline]
    pub(super) fn charged_copies(&self, path: PathId) -> usize {
        let Some(copies) = &self.copies else { return 0 };
        copies.charged(path).map_or(0, |charged| charged.bytes)
    }

    /// When copies no longer fill the window of a path, which nothing else may tell.
    pub(super) fn copies_deadline(&self, path: PathId) -> Option<Instant> {
        let charged = self.copies.as_ref()?.charged(path)?;
        let full = self.charged(path) >= self.lanes[path].congestion.cwnd();
        full.then_some(charged.until)
    }

    /// Handles that deadline, if it is due.
    pub(crate) fn on_copies_deadline(&mut self, now: Instant) {
        if let Some(copies) = &mut self.copies {
            copies.add_up(now);
        }
    }

    /// Notes which copied chunks the current acknowledgement has acknowledged.
    pub(super) fn settle_copies(&mut self, now: Instant) {
        if !self.summary.copied {
            return;
        }
        let Some(mut copies) = self.copies.take() else { return };
        for copied in copies.copied.iter_mut().filter(|copied| !copied.settled) {
            let slot = self.outstanding.get(copied.tsn);
            copied.settled = slot.is_none_or(|slot| slot.state.is_acked());
            if copied.settled {
                copies.latest_acked = copies.latest_acked.max(Some(copied.sent));
            }
        }
        copies.add_up(now);
        self.copies = Some(copies);
    }

    /// The chunks that were lost on both paths: a copied chunk that was sent later is acknowledged, and there was
    /// enough time for this one on either path.
    ///
    /// Also small chunks for which there was no room for a copy, after two round trips: if everything after them is
    /// copied, nothing else shows that they are lost. That may be a mistake, so it is not held against the path.
    pub(super) fn overdue_copies(&self, now: Instant, paths: &Paths) -> Vec<(u64, Cause)> {
        let Some(copies) = &self.copies else { return Vec::new() };
        let Some(latest) = copies.latest_acked else { return Vec::new() };
        let is_lost = |copied: &&Copied| {
            let slot = self.outstanding.get(copied.tsn);
            !copied.settled
                && copied.sent < latest
                && copied.overdue + PATIENCE <= now
                && slot.is_some_and(|slot| slot.state == SlotState::InFlight && slot.copied())
        };
        let lost = copies.copied.iter().filter(is_lost);
        let lost = lost.map(|copied| (copied.tsn, Cause::TimeThreshold));
        let single = self.lanes.ids().filter_map(|path| {
            let tsn = self.outstanding.oldest_counted(path)?;
            let slot = self.outstanding.get(tsn).filter(|slot| !slot.copied())?;
            let rtt = &paths[path].rtt;
            let patience = rtt.srtt()? * 2 + rtt.rttvar() * 4;
            let sent = self.outstanding.sent_at(tsn)?;
            let small = Some(slot.payload.len()) <= self.config.paths.copies_up_to;
            (small && sent < latest && sent + patience <= now).then_some((tsn, Cause::TailProbe))
        });
        lost.chain(single).collect()
    }
}

/// What the peer's timers and ours may add to a round trip.
const PATIENCE: Duration = Duration::from_millis(1);
