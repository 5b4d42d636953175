//! What an acknowledgement does to the association: windows, timers, recovery, error counters.

use anabranch_wire::{Cause, NrSack};

use super::Association;
use super::timers::Why;
use crate::config::{BurstControl, Revision};
use crate::congestion::{AckInfo, Coupled};
use crate::event::CloseReason;
use crate::marks::mark;
use crate::recovery::ack::{AckError, Freed};
use crate::recovery::{RecoveryExit, loss};
use crate::send::{LostBy, SlotState};
use crate::time::Instant;
use crate::tsn;

impl Association {
    /// An acknowledgement came, by SACK, NR-SACK or SHUTDOWN (RFC 9260 section 6.2.1). `complete`
    /// says that it lists all that was received. `covered_packets`: how many packets it is for, if
    /// the receiver said so.
    pub(super) fn on_acknowledgement(
        &mut self,
        now: Instant,
        path: usize,
        sack: &NrSack<'_>,
        complete: bool,
        covered_packets: u8,
    ) {
        let cumulative = tsn::unwrap(self.outstanding.base(), sack.cumulative_tsn_ack.0);
        let blocks = sack.gap_blocks.iter().map(|block| (block.start, block.end));
        let nr_blocks = sack.nr_gap_blocks.iter().map(|block| (block.start, block.end));
        self.occupancy.note(now, self.outstanding.held(), self.outstanding.held_acked());
        let mut summary = std::mem::take(&mut self.summary);
        summary.split = self.config.multipath.is_on();
        summary.covered_packets = covered_packets;
        let send = &mut self.send;
        let digest = self.acknowledged.digest(
            now,
            cumulative,
            blocks,
            nr_blocks,
            complete,
            &mut self.outstanding,
            &mut self.paths,
            &mut summary,
            |freed| match freed {
                Freed::Slot(length) => send.release(length),
                Freed::Payload(length) => {
                    mark!(NrSackFreed);
                    send.release_payload(length);
                }
            },
        );
        self.summary = summary;
        match digest {
            Ok(()) => {}
            Err(AckError::Old) => {
                mark!(SackOld);
                return;
            }
            // req: rfc9260 12.4 "MUST abort the association if it receives"
            Err(error @ (AckError::NeverSent | AckError::TakenBack)) => {
                let what = match error {
                    AckError::NeverSent => "it acknowledges what was never sent",
                    _ => "it takes back what it acknowledged for good",
                };
                let mut cause = Vec::new();
                Cause::ProtocolViolation(what.as_bytes()).encode(&mut cause);
                self.abort_with(path, cause, CloseReason::ProtocolViolation(what));
                return;
            }
        }
        let gaps = !sack.gap_blocks.is_empty() || !sack.nr_gap_blocks.is_empty();
        if gaps || complete {
            self.occupancy.on_acknowledgement(gaps, self.summary.cumulative_advanced);
        }
        self.sack_since_probe = true;
        self.awaits_sack = false;
        let was_closed = self.window_is_closed();
        self.announced_rwnd = sack.a_rwnd;
        self.largest_rwnd = self.largest_rwnd.max(sack.a_rwnd);
        let in_flight = self.outstanding.payload_in_flight();
        // req: rfc9260 6.2.1 "SHOULD use the following rules to calculate"
        // RFC 9260 section 6.2.1 D ii.
        self.peer_rwnd = sack.a_rwnd.saturating_sub(u32::try_from(in_flight).unwrap_or(u32::MAX));

        self.grow_windows(now);
        self.use_echo(now);
        self.supervise_acked(now);
        self.detect_losses(now);
        self.exit_recovery();
        self.restart_timers(now);
        if self.probing {
            self.after_probe(was_closed);
        }
        if self.outstanding.is_empty() {
            self.advance_shutdown(now);
            self.send.shrink();
        }
        self.begin_burst();
    }

    /// Congestion windows and round-trip times.
    // req: rfc9260 7.2.4 "MUST be applied first"
    // req: rfc9260 7.2.1 "SHOULD update its cwnd (or cwnds) apportioned"
    fn grow_windows(&mut self, now: Instant) {
        let coupling = self.view_paths(|all, index| {
            let (at, flight) = all.paths[index].flight_before;
            let flight = if at == now { flight } else { 0 };
            flight.max(all.summary.paths[index].flight_before)
        });
        for (index, path) in self.paths.iter_mut().enumerate() {
            let ack = &self.summary.paths[index];
            if let Some(rtt) = ack.rtt {
                path.rtt.on_measurement(rtt);
            }
            if ack.bytes == 0 {
                continue;
            }
            path.loss.on_delivered(ack.chunks);
            // RFC 2960 and RFC 4960, section 1.4: what was not acknowledged is outstanding, also if
            // it is held to be lost. RFC 9260 section 2.3 excludes that.
            let mut flight_before = ack.flight_before;
            if self.config.revision < Revision::Rfc9260 {
                flight_before += ack.bytes_held_lost;
            }
            if path.flight_before.0 != now {
                path.flight_before = (now, flight_before);
            }
            let info = AckInfo {
                bytes_acked: ack.bytes,
                flight_before: path.flight_before.1.max(flight_before),
                all_acked: !self.outstanding.in_flight(index),
                cumulative_advanced: if self.summary.split {
                    ack.pseudo_cumack_advanced
                } else {
                    self.summary.cumulative_advanced
                },
                // The acknowledgement that reaches the exit point ends it, and counts.
                in_fast_recovery: path
                    .recovery_exit
                    .is_some_and(|exit| !exit.is_reached(index, &self.outstanding)),
            };
            path.congestion.on_ack(&info, &Coupled::new(coupling, &self.path_views, index));
            if ack.large {
                path.mtu.on_full_size_acked();
            }
        }
    }

    /// Error counters: an acknowledged chunk proves that its path works.
    fn supervise_acked(&mut self, now: Instant) {
        if !self.summary.newly_acked() {
            return;
        }
        // req: rfc9260 8.1 "The counter used for endpoint failure detection MUST be"
        self.error_count = 0;
        for index in 0..self.paths.len() {
            let ack = &self.summary.paths[index];
            // With timestamps the echo told which transmission arrived.
            // req: rfc7829 3.2 "SHOULD NOT move a destination address in PF state back to active"
            let credited = self.config.recovery.credit_retransmissions
                && !self.timestamps.in_use
                && !self.needs_proof(index);
            if ack.proven || (credited && ack.alive) {
                self.path_works(now, index);
            }
        }
    }

    fn detect_losses(&mut self, now: Instant) {
        let mut lost = Vec::new();
        let paths = &self.paths;
        // RFC 9260 section 6.2.1 D iii: a miss indication for what was reneged.
        self.counters.taken_back_chunks += self.summary.reneged.len() as u64;
        for tsn in &self.summary.reneged {
            mark!(SackReneged);
            self.outstanding.report_missing(*tsn, 1);
        }
        loss::detect(
            &self.config.recovery,
            self.config.revision,
            &self.summary,
            &self.acknowledged,
            |path| paths[path].recovery_exit.is_some(),
            &mut self.outstanding,
            &mut lost,
        );
        if !lost.is_empty() {
            self.fast_retransmit(now, &lost);
        }
    }

    /// Chunks are lost by missing reports (RFC 9260 section 7.2.4).
    fn fast_retransmit(&mut self, now: Instant, lost: &[u64]) {
        self.counters.fast_retransmitted_chunks += lost.len() as u64;
        let highest = self.outstanding.next_tsn() - 1;
        for tsn in lost {
            let Some(slot) = self.outstanding.get(*tsn) else { continue };
            if slot.state != SlotState::InFlight {
                continue;
            }
            let (from, length) = (usize::from(slot.path), slot.payload.len());
            let packet = slot.packet;
            let retransmitted = self.outstanding.retransmission(*tsn).is_some();
            if retransmitted {
                mark!(FastRetransmitAgain);
            }
            let number = self.packet_number(from);
            let path = &mut self.paths[from];
            path.loss.on_lost(1);
            // That a retransmission is lost is another sign of congestion, which RFC 9260 leaves to
            // the timer and RFC 5681 section 4.3 has the windows lowered for again. What left
            // before they were lowered last is the same sign. In the studies of the older RFCs
            // there is one sign in a recovery.
            let again = self.config.revision >= Revision::Rfc9260
                && retransmitted
                && packet >= path.lowered_at;
            let begins = path.recovery_exit.is_none() || again;
            // RFC 9260 section 7.2.4, step 2.
            // req: rfc9260 7.2.4 "SHOULD NOT change for any destinations due"
            if begins {
                path.recovery_exit = Some(if self.config.multipath.is_on() {
                    RecoveryExit::Packet(number)
                } else {
                    RecoveryExit::Tsn(highest)
                });
                path.lowered_at = number;
                let coupling = self
                    .view_paths_at_loss(from, |all, index| all.summary.paths[index].flight_before);
                let coupled = Coupled::new(coupling, &self.path_views, from);
                self.paths[from].congestion.on_fast_retransmit(&coupled);
                self.counters.fast_recoveries += 1;
                mark!(FastRecovery);
            }
            let to = self.rtx_path(LostBy::MissingReports, from);
            let first = self.outstanding.earliest(from) == Some(*tsn);
            self.outstanding.lose(*tsn, LostBy::MissingReports, to);
            // RFC 9260 section 7.2.4, step 4: what else is in flight on the path has its own time,
            // also if the retransmission leaves on another one.
            if first && to != from && self.outstanding.in_flight(from) {
                self.paths[from].t3 = Some(now + self.paths[from].rtt.rto());
            }
            // RFC 9260 section 6.2.1 C.
            self.peer_rwnd =
                self.peer_rwnd.saturating_add(u32::try_from(length).unwrap_or(u32::MAX));
            // req: rfc9260 7.2.4 "SHOULD NOT delay retransmission for"
            // req: rfc9260 7.2.4 "SHOULD ignore the value of cwnd and"
            self.paths[to].retransmit_at_once |= begins || self.config.revision < Revision::Rfc9260;
        }
    }

    fn exit_recovery(&mut self) {
        // RFC 9260 section 6.2.1 D v.
        for (index, path) in self.paths.iter_mut().enumerate() {
            path.recovery_exit.take_if(|exit| exit.is_reached(index, &self.outstanding));
        }
    }

    /// T3-rtx of every path after an acknowledgement (RFC 9260 section 6.3.2).
    fn restart_timers(&mut self, now: Instant) {
        for (index, path) in self.paths.iter_mut().enumerate() {
            // RFC 9260 section 6.3.2, R2.
            if !self.outstanding.in_flight(index) {
                path.t3 = None;
            // RFC 9260 section 6.3.2, R3 and R4.
            } else if self.summary.paths[index].earliest || path.t3.is_none() {
                path.t3 = Some(now + path.rtt.rto());
            }
        }
    }

    /// Whether the peer announced less room than a chunk of ordinary size takes, or one of the size
    /// that its window lets through.
    pub(super) fn window_is_closed(&self) -> bool {
        let ordinary = self.paths[self.paths.active()].pmdcs().min(self.largest_rwnd as usize / 2);
        (self.announced_rwnd as usize) < ordinary
    }

    /// An acknowledgement came while a closed window was being probed: once the window opens,
    /// what the peer had to drop goes out again at once instead of waiting for a timer that has
    /// backed off.
    fn after_probe(&mut self, was_closed: bool) {
        let opened = was_closed && !self.window_is_closed();
        if opened {
            mark!(WindowOpenedAfterProbe);
        }
        if self.outstanding.is_empty() || opened {
            self.probing = false;
        }
        if self.outstanding.is_empty() || !(self.summary.cumulative_advanced || opened) {
            return;
        }
        for path in 0..self.paths.len() {
            if self.outstanding.in_flight(path) {
                self.lose_flight(path, Why::Useless, self.paths.active());
            }
        }
        let active = self.paths.active();
        self.paths[active].retransmit_at_once = true;
    }

    /// Max.Burst as cwnd's cut, applied when the time comes to send new data.
    pub(super) fn cut_cwnd_to_burst(&mut self, path: usize) {
        if let BurstControl::MaxBurstCutsCwnd(packets) = self.config.congestion.burst {
            let flight = self.outstanding.flight(path);
            self.paths[path].congestion.on_burst_limit(flight, packets);
        }
    }
}
