//! Decides whether data may be sent now: the rules of RFC 9260 section 6.1, bundling, pacing,
//! Max.Burst.

use super::lane::Exception;
use super::{Budget, Sender};
use crate::config::BurstControl;
use crate::congestion::Idle;
use crate::marks::mark;
use crate::path::Paths;
use crate::per_path::PathId;
use crate::policy::RetransmissionPrecedence;
use crate::recovery::Reordering;
use crate::send::{Bundling, Queued};
use crate::time::Instant;

/// The maximum number of outstanding chunks: gap ack blocks must be able to describe them, and the
/// numbers of a stream's ordered messages must be distinct.
pub(super) const MAX_OUTSTANDING: usize = u16::MAX as usize;

/// The data that may be sent on a path.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DataTurn {
    /// Lost chunks.
    pub(crate) repairs: bool,
    /// Copies of chunks that another path carries.
    pub(crate) copies: bool,
    /// New data, if nothing was lost.
    pub(crate) new: bool,
}

impl DataTurn {
    pub(crate) fn any(self) -> bool {
        self.repairs || self.copies || self.new
    }
}

impl Sender {
    /// The first path on which a packet of retransmissions may be sent. Chunks that wait for a path that may not carry
    /// data, because it is silent or was never verified, hold up no other path.
    pub(crate) fn path_for_repairs(&self, now: Instant, paths: &Paths) -> Option<PathId> {
        self.lanes.ids().find(|path| self.may_retransmit(now, *path) && paths[*path].may_carry())
    }

    /// Whether a packet of retransmissions may be sent on a path.
    // req: rfc9260 6.1 "The breach of cwnd MUST constitute one packet"
    pub(super) fn may_retransmit(&self, now: Instant, path: PathId) -> bool {
        let lane = &self.lanes[path];
        self.outstanding.first_lost(path).is_some()
            && !lane.exception.is_forward()
            && (lane.retransmit_at_once
                || (!lane.is_paced(now)
                    && !self.must_await_sack(path)
                    && !self.has_its_packet(path)
                    && self.outstanding.flight(path) < lane.congestion.cwnd()))
    }

    /// Whether no packet may follow the one that a timeout sent until a SACK arrives. With nothing in
    /// flight, no SACK would arrive.
    fn must_await_sack(&self, path: PathId) -> bool {
        // With classes, only the path that timed out waits.
        let waits = self.config.paths.class_from.is_none() || self.lanes[path].one_packet;
        self.awaits_sack && waits && self.outstanding.payload_in_flight() > 0
    }

    /// Whether a path already has the one packet in flight that is permitted after a timeout until
    /// something is acknowledged. Checking cwnd is not sufficient: chunks that do not fill a packet
    /// leave room for another packet.
    // req: rfc9260 7.2.1 "only one packet is allowed to be in flight until"
    fn has_its_packet(&self, path: PathId) -> bool {
        self.lanes[path].one_packet && self.outstanding.in_flight(path)
    }

    /// The number of bytes that count against a path's window.
    #[inline(always)]
    pub(super) fn charged(&self, path: PathId) -> usize {
        let flight = self.outstanding.flight(path) + self.charged_copies(path);
        // With nothing in flight, no acknowledgement would end this state.
        if flight == 0 || self.config.recovery.reordering != Reordering::NcrCareful {
            return flight;
        }
        flight + self.lanes[path].evidence.as_ref().map_or(0, |evidence| evidence.withheld)
    }

    /// Whether a path has room for a packet with new data.
    #[inline(always)]
    pub(super) fn has_room(&self, now: Instant, path: PathId) -> bool {
        let lane = &self.lanes[path];
        if lane.burst_left == 0 || self.must_await_sack(path) {
            return false;
        }
        // req: rfc9260 6.1 "MUST first transmit any DATA chunks"
        let pending = match self.config.paths.retransmission_precedence {
            // With classes, losses of a full path must not hold up data on another one.
            RetransmissionPrecedence::AllPaths if self.config.paths.class_from.is_none() => {
                self.outstanding.lost_chunks() > 0
            }
            _ => self.outstanding.first_lost(path).is_some(),
        };
        // req: rfc9260 6.1 "the sender SHOULD exceed cwnd by up to"
        // req: rfc9260 7.2.1 "in rule B in Section 6.1 SHOULD be"
        // req: rfc9260 6.1 "the sender MUST NOT transmit new data to a"
        (!pending || lane.exception.lets_new_data_go())
            && ((self.charged(path) < lane.congestion.cwnd() && !self.has_its_packet(path))
                || lane.exception == Exception::Probe)
            && self.outstanding.len() < MAX_OUTSTANDING
            && !lane.is_paced(now)
    }

    /// Whether a packet with new data may be sent on a path.
    pub(super) fn may_send_new(&self, now: Instant, path: PathId, paths: &Paths) -> bool {
        if self.queue.is_empty()
            || !self.has_room(now, path)
            || !self.arrives_in_time(now, path, paths)
        {
            return false;
        }
        if self.leaves_no_window(path, paths) {
            return false;
        }
        let full = self.largest_payload(paths);
        let next = self.next_for(path, paths);
        let Some(next) = next.and_then(|next| self.chunk_of(next, full, full, true)) else {
            return false;
        };
        // req: rfc9260 6.1 "MUST transmit no more DATA chunks until"
        // req: rfc9260 6.1 "that the peer has no buffer space (i.e., rwnd is smaller"
        if next > self.window.left() {
            return self.may_probe_window();
        }
        !self.is_held_back(full + self.queue.header_len(), path)
    }

    /// Whether queued messages wait to share a packet of a path, which has this much room for chunks. With classes, they
    /// do not wait for data of another path.
    #[inline]
    pub(super) fn is_held_back(&self, room: usize, path: PathId) -> bool {
        let Some(bundle) = self.queue.bundle() else { return false };
        if !bundle.may_wait(room, self.queue.header_len()) {
            return false;
        }
        match self.config.sending.bundling {
            Bundling::None => false,
            Bundling::Nagle if self.queue.classes().is_some() => self.outstanding.in_flight(path),
            Bundling::Nagle => !self.outstanding.is_empty(),
            Bundling::Minshall | Bundling::Prompt | Bundling::MinshallPathMtu => bundle
                .small()
                .and_then(|tsn| self.outstanding.get(tsn))
                .filter(|slot| slot.path == path || self.queue.classes().is_none())
                .is_some_and(|slot| !slot.state.is_acked()),
        }
    }

    /// Records that a packet with new data was filled except for `room` bytes. Returns `true` if it
    /// should request an immediate acknowledgement.
    #[inline]
    pub(super) fn note_filled(&mut self, now: Instant, room: usize) -> bool {
        let bundling = self.config.sending.bundling;
        if bundling == Bundling::None {
            return false;
        }
        let next_fits = self.queue.is_empty() || bundling == Bundling::MinshallPathMtu;
        let small = next_fits && room > self.queue.header_len();
        let last = self.outstanding.next_tsn() - 1;
        if let Some(bundle) = self.queue.bundle_mut() {
            bundle.on_sent(now, last, !small);
        }
        small && bundling == Bundling::Prompt
    }

    /// User data in a chunk that fills a packet on every path, in bytes.
    #[inline]
    pub(super) fn largest_payload(&self, paths: &Paths) -> usize {
        paths.amdcs() - self.queue.header_len()
    }

    /// The length of the next chunk's payload, limited by the peer's window: the whole chunk if there
    /// is room, else half of the largest window seen. Without the latter, a peer whose window is never
    /// as large as a packet would get only probes.
    // req: rfc9260 6.1 "avoid silly window syndrome (SWS) as described"
    pub(super) fn next_chunk(
        &self,
        room: usize,
        largest: usize,
        packet_empty: bool,
    ) -> Option<usize> {
        self.chunk_of(self.queue.next()?, room, largest, packet_empty)
    }

    /// The same for a message that may be the next one.
    #[inline]
    pub(super) fn chunk_of(
        &self,
        message: &Queued,
        room: usize,
        largest: usize,
        packet_empty: bool,
    ) -> Option<usize> {
        let next = self.queue.length(message, room, largest, packet_empty)?;
        let half = self.window.half_of_largest();
        if next <= self.window.left() || half >= largest {
            return Some(next);
        }
        self.queue.length(message, room, half, packet_empty)
    }

    /// Whether a chunk may be sent although the peer's window has no room for it.
    // req: rfc9260 6.1 "SHOULD only be sent when all"
    // req: rfc9260 6.1 "A zero window probe MUST only be sent"
    // req: rfc9260 6.1 "Senders MUST support zero window probing"
    pub(super) fn may_probe_window(&self) -> bool {
        self.outstanding.is_empty() && self.window.may_be_probed()
    }

    /// Must be called when no more data can be sent now. If the peer's window is the reason, and no
    /// data is outstanding whose acknowledgement would update it, starts the timer for a window probe.
    pub(super) fn watch_window(&mut self, now: Instant, paths: &Paths) {
        let path = paths.active();
        if !self.outstanding.is_empty() || self.queue.is_empty() || !self.has_room(now, path) {
            return;
        }
        let full = self.largest_payload(paths);
        if self.next_chunk(full, full, true).is_some_and(|next| next > self.window.left()) {
            // req: rfc9260 6.1 "SHOULD send the first zero window probe after 1 RTO"
            self.window.wait(now + paths[path].rtt.rto());
        }
    }

    /// Must be called when no more data is sent now; records whether data waits to share a packet.
    pub(super) fn watch_bundling(&mut self, now: Instant, paths: &Paths) {
        if self.queue.is_empty() {
            return;
        }
        let held = |path| {
            self.is_held_back(paths.amdcs(), path)
                && self.carries_new(path, paths)
                && self.has_room(now, path)
        };
        if self.lanes.ids().any(held)
            && let Some(bundle) = self.queue.bundle_mut()
        {
            bundle.on_held(now);
        }
    }

    /// Whether retransmissions may be sent on a path.
    #[inline]
    pub(crate) fn has_repairs(&self, now: Instant, path: PathId) -> bool {
        self.has_losses() && self.may_retransmit(now, path)
    }

    /// The data that may be sent on a path.
    pub(crate) fn data_for(&self, now: Instant, path: PathId, paths: &Paths) -> DataTurn {
        let repairs = self.has_repairs(now, path);
        let new = !repairs && self.carries_new(path, paths) && self.may_send_new(now, path, paths);
        DataTurn { repairs, copies: self.path_for_copies() == Some(path), new }
    }

    /// Whether pacing permits a packet of data now; otherwise records when it will.
    #[inline]
    pub(super) fn pace(
        &mut self,
        now: Instant,
        path: PathId,
        budget: &mut Budget,
        paths: &Paths,
    ) -> bool {
        self.lanes[path].pacer.is_none() || self.ask_pacer(now, path, budget, paths)
    }

    fn ask_pacer(
        &mut self,
        now: Instant,
        path: PathId,
        budget: &mut Budget,
        paths: &Paths,
    ) -> bool {
        let full = paths[path].packet_size();
        let lane = &mut self.lanes[path];
        let Some(pacer) = &mut lane.pacer else { return true };
        let cwnd = lane.congestion.cwnd();
        let slow_start = cwnd < lane.congestion.ssthresh();
        if budget.allowance.is_none() {
            let srtt = paths[path].rtt.srtt();
            let rate = lane.congestion.pacing_rate();
            match pacer.allowance(now, srtt, cwnd, slow_start, rate, full) {
                Ok(bytes) => budget.allowance = Some(bytes),
                Err(until) => {
                    lane.paced_until = Some(until);
                    return false;
                }
            }
        }
        budget.allowance.is_some_and(|allowance| budget.bytes + full <= allowance)
    }

    /// Reduces cwnd after a time without data (RFC 9260 section 7.2.1).
    // req: rfc9260 6.1 "cwnd SHOULD be adjusted according to"
    // req: rfc9260 7.1 "The parameters SHOULD decay if the address"
    // req: rfc9260 7.2.2 "cwnd of the transport address SHOULD be"
    pub(crate) fn apply_idle(&mut self, now: Instant, path: PathId, paths: &Paths) {
        if self.outstanding.in_flight(path) {
            return;
        }
        let lane = &mut self.lanes[path];
        let rto = paths[path].rtt.rto();
        let idle = now.saturating_since(lane.last_data);
        if idle >= rto {
            let rtos = (idle.as_nanos() / rto.as_nanos().max(1)).min(64) as u32;
            mark!(IdleWindow);
            lane.congestion.tell(|c| c.on_idle(&Idle { now, rtos }));
            lane.last_data = now;
        }
    }

    /// Applies Max.Burst by reducing cwnd; called when new data is about to be sent.
    pub(super) fn cut_cwnd_to_burst(&mut self, now: Instant, path: PathId) {
        if let BurstControl::MaxBurstCutsCwnd(packets) = self.config.congestion.burst {
            let flight = self.outstanding.flight(path);
            self.lanes[path].congestion.tell(|c| c.on_burst_limit(now, flight, packets));
        }
    }
}
