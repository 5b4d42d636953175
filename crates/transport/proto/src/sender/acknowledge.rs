//! Applies an acknowledgement to the sender: windows, round-trip times, timers.

use anabranch_wire::{NrSack, Tsn};

use super::Sender;
use super::coupled::views;
use crate::congestion::{Acked, Coupled, Loss, Rtt};
use crate::marks::mark;
use crate::path::Paths;
use crate::per_path::PathId;
use crate::policy::SlowPaths;
use crate::recovery::ack::{AckError, Freed, Reported};
use crate::revision::Revision;
use crate::send::Cause;
use crate::time::Instant;
use crate::tsn;

/// The evidence that an acknowledgement gives about a path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Proof {
    /// A chunk arrived that only this path carried.
    pub(crate) carried: bool,
    /// A chunk arrived that only this path carried, or that it carried last.
    pub(crate) carried_last: bool,
}

impl Sender {
    /// Processes an acknowledgement by SACK, NR-SACK or SHUTDOWN (RFC 9260 section 6.2.1): frees
    /// acknowledged chunks and updates windows and round-trip times. `complete`: it lists everything
    /// received. `covered_packets`: the number of packets that it acknowledges, if the receiver reports
    /// that. [`recover`](Self::recover) must be called afterwards.
    ///
    /// # Errors
    /// The acknowledgement is older than a previous one, or impossible.
    pub(crate) fn acknowledge(
        &mut self,
        now: Instant,
        sack: &NrSack<'_>,
        complete: bool,
        covered_packets: u8,
        paths: &mut Paths,
    ) -> Result<(), AckError> {
        let cumulative = tsn::unwrap(self.outstanding.base(), sack.cumulative_tsn_ack.0);
        let blocks = sack.gap_blocks.iter().map(|block| (block.start, block.end));
        let nr_blocks = sack.nr_gap_blocks.iter().map(|block| (block.start, block.end));
        self.occupancy.note(now, self.outstanding.held(), self.outstanding.held_acked());
        self.summary.split = self.config.judges_by_path();
        if self.config.recovery.gathers() {
            self.summary.gathered.get_or_insert_default();
        }
        self.summary.times_packets = self.lanes.iter().any(|lane| lane.times_packets);
        self.summary.tells_repeats = self.ecn;
        self.summary.covered_packets = covered_packets;
        let may_be_old = self.acks_may_be_old();
        let queue = &mut self.queue;
        let lanes = &mut self.lanes;
        let longest_rto = paths.iter().map(|path| path.rtt.rto()).max().unwrap_or_default();
        self.acknowledged.digest(
            now,
            Reported { cumulative, blocks, nr_blocks, complete, may_be_old, longest_rto },
            &mut self.outstanding,
            &mut self.summary,
            |path, tsns| {
                let timed = lanes[path].timed.take_if(|(timed, _)| tsns.contains(timed));
                timed.map(|(_, sent)| now.saturating_since(sent))
            },
            |freed| match freed {
                Freed::Slots { count, bytes } => queue.release(count, bytes),
                Freed::Payload(length) => {
                    mark!(NrSackFreed);
                    queue.release_payload(length);
                }
            },
        )?;
        let gaps = !sack.gap_blocks.is_empty() || !sack.nr_gap_blocks.is_empty();
        if gaps || complete {
            self.occupancy.on_acknowledgement(gaps, self.summary.cumulative_advanced);
        }
        self.awaits_sack = false;
        self.settle_copies(now);
        if self.summary.gathered.is_some() {
            self.gather(now, sack.duplicate_tsns, paths);
        }
        let pmdcs = paths[paths.active()].pmdcs();
        self.window.announce(sack.a_rwnd, self.outstanding.payload_in_flight(), pmdcs);
        if self.config.recovery.f_rto {
            self.judge_timeouts(now, sack.duplicate_tsns.iter().next().is_some(), paths);
        }
        self.grow_windows(now, paths);
        self.measure_paths(now, paths);
        Ok(())
    }

    /// Whether an acknowledgement that no longer lists a chunk may be one that another overtook: the receiver answers data
    /// on the path that carried it. What it does not list would be in flight again, and counted, timed and credited once
    /// more by the next acknowledgement; measurements of a path's rate would be wrong.
    ///
    /// The profiles of the RFCs believe each acknowledgement with several paths, as the published studies do.
    pub(super) fn acks_may_be_old(&self) -> bool {
        let multipath = &self.config.multipath;
        let several = multipath.is_on()
            && (multipath.slow_paths == SlowPaths::InTime
                || self.lanes.iter().any(|lane| lane.congestion.rate.is_some()));
        let spreads =
            several || self.config.needs_latencies() || self.config.paths.class_from.is_some();
        spreads && self.lanes.len() > 1
    }

    /// Whether a TSN was sent.
    pub(crate) fn has_sent(&self, tsn: Tsn) -> bool {
        tsn::unwrap(self.outstanding.base(), tsn.0) < self.outstanding.next_tsn()
    }

    /// The window after an acknowledgement that does not announce one, such as a SHUTDOWN: it is
    /// unchanged.
    pub(crate) fn window_without_word(&self) -> u32 {
        let in_flight = u32::try_from(self.outstanding.payload_in_flight()).unwrap_or(u32::MAX);
        u32::try_from(self.window.left()).unwrap_or(u32::MAX).saturating_add(in_flight)
    }

    /// Whether the current acknowledgement acknowledges anything new.
    pub(crate) fn has_news(&self) -> bool {
        self.summary.newly_acked()
    }

    /// The evidence that the current acknowledgement gives about a path.
    pub(crate) fn proof(&self, path: PathId) -> Proof {
        let ack = &self.summary.paths[path];
        Proof { carried: ack.proven, carried_last: ack.alive }
    }

    /// Finds the losses that the current acknowledgement proves, and restarts the timers. The
    /// association must have updated its paths before.
    pub(crate) fn recover(&mut self, now: Instant, paths: &mut Paths) {
        self.detect_losses(now, paths);
        self.report_lost(now, Loss::Reported);
        // RFC 9260 section 6.2.1 D v.
        for lane in self.lanes.iter_mut() {
            let path = lane.path;
            let over = lane.recovery_exit.take_if(|exit| exit.is_reached(path, &self.outstanding));
            if let (Some(_), Some(evidence)) = (over, lane.evidence.as_deref_mut()) {
                evidence.rack.on_recovered();
            }
        }
        if self.partial.is_some() {
            self.on_peer_moved(now, paths);
        }
        self.restart_timers(now, paths);
        self.arm_probes(now, paths);
        if self.window.is_probed() {
            self.after_probe(paths);
        }
    }

    /// Updates congestion windows and round-trip times.
    // req: rfc9260 7.2.4 "MUST be applied first"
    // req: rfc9260 7.2.1 "SHOULD update its cwnd (or cwnds) apportioned"
    fn grow_windows(&mut self, now: Instant, paths: &mut Paths) {
        let coupling = self.view_paths(paths, |sender, path| {
            let (at, flight) = sender.lanes[path].flight_before;
            let flight = if at == now { flight } else { 0 };
            flight.max(sender.summary.paths[path].flight_before)
        });
        for (place, lane) in self.lanes.iter_mut().enumerate() {
            let id = lane.path;
            let path = &mut paths[id];
            let ack = &self.summary.paths[id];
            if let Some(rtt) = ack.rtt {
                path.rtt.on_measurement(rtt);
                lane.congestion.measure(now, rtt, path.rtt.srtt());
            }
            if ack.bytes == 0 {
                continue;
            }
            lane.one_packet = false;
            path.loss.on_delivered(ack.chunks);
            // RFC 2960 and RFC 4960, section 1.4: chunks that were not acknowledged are outstanding,
            // even if they are considered lost. RFC 9260 section 2.3 excludes them.
            let mut flight_before = ack.flight_before;
            if self.config.revision < Revision::Rfc9260 {
                flight_before += ack.bytes_held_lost;
            }
            if lane.flight_before.0 != now {
                lane.flight_before = (now, flight_before);
            }
            let paced = lane.is_paced(now);
            let congestion = &mut lane.congestion;
            let oldest = || self.outstanding.oldest_packet(id).map(|(number, _)| number);
            let rate = congestion.rate.as_mut().zip(ack.highest_packet);
            let acked = Acked {
                flight_before: lane.flight_before.1.max(flight_before),
                in_flight: self.outstanding.flight(id),
                all: !self.outstanding.in_flight(id),
                cumulative_advanced: if self.summary.split {
                    ack.pseudo_cumack_advanced
                } else {
                    self.summary.cumulative_advanced
                },
                // The acknowledgement that reaches the exit point ends recovery: cwnd may grow again.
                in_fast_recovery: lane
                    .recovery_exit
                    .is_some_and(|exit| !exit.is_reached(id, &self.outstanding)),
                rate: rate
                    .and_then(|(rate, packet)| rate.on_acked(now, ack.bytes, packet, oldest())),
                paced,
                rtt: Rtt { latest: ack.rtt, ..congestion.rtt(path.rtt.srtt()) },
                packet_rtt: ack.sent_once.map(|packet| now.saturating_since(packet.at)),
                coupled: Coupled::new(coupling, views(&self.views), place),
                ..Acked::new(now, ack.bytes)
            };
            congestion.tell(|c| c.on_acked(&acked));
            if ack.large {
                path.mtu.on_full_size_acked();
            }
        }
    }

    /// Handles an acknowledgement that arrived while a closed window was being probed: once the window
    /// opens, chunks that the peer had to drop are retransmitted immediately instead of waiting for a
    /// backed-off timer.
    fn after_probe(&mut self, paths: &mut Paths) {
        let opened = self.window.opens();
        if opened {
            mark!(WindowOpenedAfterProbe);
        }
        let done = self.outstanding.is_empty();
        if done || opened {
            self.window.end_probe();
        }
        if done || !(self.summary.cumulative_advanced || opened) {
            return;
        }
        let active = paths.active();
        for path in self.lanes.ids_now() {
            if self.in_flight(path) {
                self.lose_flight(path, Cause::WindowOpened, active, paths);
            }
        }
        self.lanes[active].retransmit_at_once = true;
    }
}
