//! What may leave now: the rules for data of RFC 9260 section 6.1, Nagle's algorithm, pacing,
//! Max.Burst.

use anabranch_wire::Data;

use super::Association;
use crate::marks::mark;
use crate::policy::RetransmissionPrecedence;
use crate::time::Instant;

/// Chunks that may be outstanding: what gap ack blocks can describe, and no more ordered
/// messages of a stream than their numbers tell apart.
pub(super) const MAX_OUTSTANDING: usize = u16::MAX as usize;

impl Association {
    /// Whether a packet of retransmissions may leave on a path.
    // req: rfc9260 6.1 "The breach of cwnd MUST constitute one packet"
    pub(super) fn may_retransmit(&self, now: Instant, path: usize) -> bool {
        let state = &self.paths[path];
        self.outstanding.first_lost(path).is_some()
            && (state.retransmit_at_once
                || (!state.is_paced(now)
                    && !self.must_await_sack()
                    && self.outstanding.flight(path) < state.congestion.cwnd()))
    }

    /// Whether nothing follows the packet that a timeout sent before a SACK comes. With nothing in
    /// flight none would.
    fn must_await_sack(&self) -> bool {
        self.awaits_sack && self.outstanding.payload_in_flight() > 0
    }

    /// Whether a path has room for a packet with new data.
    pub(super) fn has_room(&self, now: Instant, path: usize) -> bool {
        let state = &self.paths[path];
        if state.burst_left == 0 || self.must_await_sack() {
            return false;
        }
        // req: rfc9260 6.1 "MUST first transmit any DATA chunks"
        let pending = match self.config.paths.retransmission_precedence {
            RetransmissionPrecedence::AllPaths => self.outstanding.lost_chunks() > 0,
            RetransmissionPrecedence::SamePath => self.outstanding.first_lost(path).is_some(),
        };
        // req: rfc9260 6.1 "the sender SHOULD exceed cwnd by up to"
        // req: rfc9260 7.2.1 "in rule B in Section 6.1 SHOULD be"
        // req: rfc9260 6.1 "the sender MUST NOT transmit new data to a"
        !pending
            && self.outstanding.flight(path) < state.congestion.cwnd()
            && self.outstanding.len() < MAX_OUTSTANDING
            && !state.is_paced(now)
    }

    /// Whether a packet with new data may leave on a path.
    pub(super) fn may_send_new(&mut self, now: Instant, path: usize) -> bool {
        if self.send.is_empty() || !self.state.sends_data() || !self.has_room(now, path) {
            return false;
        }
        self.expire_messages(now);
        let full = self.amdcs() - Data::HEADER_LEN;
        let Some(next) = self.next_chunk(full, full, true) else { return false };
        // req: rfc9260 6.1 "MUST transmit no more DATA chunks until"
        // req: rfc9260 6.1 "that the peer has no buffer space (i.e., rwnd is smaller"
        if next > self.peer_rwnd as usize {
            return self.may_probe_window(now);
        }
        self.window_probe = None;
        // A small packet waits while something is outstanding (Nagle's algorithm).
        !(self.config.sending.nagle
            && !self.outstanding.is_empty()
            && self.send.ends_within(full - 1))
    }

    /// Length of the next chunk's payload, cut to what the peer's window lets through: the whole of
    /// it if there is room, else half of the largest window seen. A peer whose window is never as
    /// large as a packet would get nothing but probes otherwise.
    // req: rfc9260 6.1 "avoid silly window syndrome (SWS) as described"
    pub(super) fn next_chunk(
        &mut self,
        room: usize,
        largest: usize,
        packet_empty: bool,
    ) -> Option<usize> {
        let next = self.send.peek(room, largest, packet_empty)?;
        let half = self.largest_rwnd as usize / 2;
        if next <= self.peer_rwnd as usize || half >= largest {
            return Some(next);
        }
        self.send.peek(room, half, packet_empty)
    }

    /// Whether a chunk may leave although the peer's window has no room for it.
    // req: rfc9260 6.1 "SHOULD only be sent when all"
    // req: rfc9260 6.1 "A zero window probe MUST only be sent"
    // req: rfc9260 6.1 "Senders MUST support zero window probing"
    pub(super) fn may_probe_window(&mut self, now: Instant) -> bool {
        if !self.outstanding.is_empty() {
            return false;
        }
        if self.probe_now {
            return true;
        }
        // req: rfc9260 6.1 "SHOULD send the first zero window probe after 1 RTO"
        let rto = self.paths[self.paths.active()].rtt.rto();
        self.window_probe.get_or_insert(now + rto);
        false
    }

    pub(super) fn data_may_follow(&mut self, now: Instant, path: usize) -> bool {
        (self.outstanding.lost_chunks() > 0 && self.may_retransmit(now, path))
            || (self.carries_new(path) && self.may_send_new(now, path))
    }

    /// Whether pacing lets a packet of new data go; otherwise notes when it will.
    pub(super) fn pace(&mut self, now: Instant, path: usize, budget: &mut Budget) -> bool {
        let full = self.paths[path].packet_size();
        let state = &mut self.paths[path];
        let Some(pacer) = &mut state.pacer else { return true };
        let slow_start = state.congestion.cwnd() < state.congestion.ssthresh();
        let cwnd = state.congestion.cwnd();
        if budget.allowance.is_none() {
            match pacer.allowance(now, state.rtt.srtt(), cwnd, slow_start, full) {
                Ok(bytes) => budget.allowance = Some(bytes),
                Err(until) => {
                    state.paced_until = Some(until);
                    return false;
                }
            }
        }
        budget.allowance.is_some_and(|allowance| budget.bytes + full <= allowance)
    }

    /// What a time without data did to cwnd (RFC 9260 section 7.2.1).
    // req: rfc9260 6.1 "cwnd SHOULD be adjusted according to"
    // req: rfc9260 7.1 "The parameters SHOULD decay if the address"
    // req: rfc9260 7.2.2 "cwnd of the transport address SHOULD be"
    pub(super) fn apply_idle(&mut self, now: Instant, path: usize) {
        if self.outstanding.in_flight(path) {
            return;
        }
        let state = &mut self.paths[path];
        let rto = state.rtt.rto();
        let idle = now.saturating_since(state.last_data);
        if idle >= rto {
            let rtos = (idle.as_nanos() / rto.as_nanos().max(1)).min(64) as u32;
            mark!(IdleWindow);
            state.congestion.on_idle(rtos);
            state.last_data = now;
        }
    }

    pub(super) fn expire_messages(&mut self, now: Instant) {
        while let Some(message) = self.send.expire(now) {
            mark!(LifetimeOver);
            let message = Box::new(message.into_message());
            self.events.push_back(crate::event::Event::SendFailed { message, sent: false });
        }
    }

    /// Gives up all messages whose lifetime has passed, wherever they stand.
    pub(in crate::association) fn expire_all_messages(&mut self, now: Instant) {
        for message in self.send.expire_all(now) {
            mark!(LifetimeOverInQueue);
            self.fail_queued(None, message);
        }
    }

    /// Association Maximum DATA Chunk Size: what fits on every path (RFC 9260 section 7.3).
    // req: rfc9260 7.3 "sender SHOULD track an AMDCS that will be the smallest"
    // req: rfc9260 6.9 "MUST take into account the SCTP packet header"
    // req: rfc9260 7.3 "this AMDCS SHOULD be used to calculate"
    // req: rfc9260 6 "SHOULD be smaller than or equal to the"
    // req: rfc9260 6.9 "SHOULD choose a size of DATA chunks"
    pub(super) fn amdcs(&self) -> usize {
        self.paths.iter().map(crate::path::Path::pmdcs).min().unwrap_or(512)
    }
}

/// Data that leaves in one call.
#[derive(Debug, Default)]
pub(super) struct Budget {
    pub(super) packets: usize,
    pub(super) bytes: usize,
    /// Packets are limited to the length of a short one that leads them.
    pub(super) short: bool,
    /// What pacing allowed at the start.
    allowance: Option<usize>,
}
