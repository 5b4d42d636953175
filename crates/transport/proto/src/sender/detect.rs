//! Finds the losses that an acknowledgement proves (RFC 9260 section 7.2.4), and enters fast recovery.

use std::time::Duration;

use super::Sender;
use super::coupled::views;
use crate::congestion::{CongestionEvent, Coupled, Loss};
use crate::marks::mark;
use crate::path::Paths;
use crate::per_path::PathId;
use crate::recovery::{LossDetection, RecoveryExit, loss, rack};
use crate::revision::Revision;
use crate::send::Cause;
use crate::send::SlotState;
use crate::time::Instant;

impl Sender {
    pub(super) fn detect_losses(&mut self, now: Instant, paths: &mut Paths) {
        let mut lost = Vec::new();
        // RFC 9260 section 6.2.1 D iii: a miss indication for reneged chunks.
        let reneged = self.summary.reneged.len() as u32;
        self.counts.taken_back_chunks = self.counts.taken_back_chunks.wrapping_add(reneged);
        for tsn in &self.summary.reneged {
            mark!(SackReneged);
            self.outstanding.report_missing(*tsn, 1);
        }
        let usual = self.config.recovery.missing_reports;
        let thresholds = self.judges_differently().then(|| self.thresholds());
        let judged = |place: usize| thresholds.as_ref().map_or((usual, false), |all| all[place]);
        let by_time = self.config.recovery.loss_detection == LossDetection::TimeThreshold;
        let lanes = &self.lanes;
        if !by_time {
            loss::detect(
                &self.config.recovery,
                self.config.revision,
                &self.summary,
                &self.acknowledged,
                |path| loss::Judged {
                    in_recovery: lanes[path].recovery_exit.is_some(),
                    threshold: judged(lanes.place(path)).0,
                },
                &mut self.outstanding,
                &mut lost,
            );
        }
        let highest = self.outstanding.next_tsn() - 1;
        for tsn in lost {
            let path = self.outstanding.get(tsn).map(|slot| slot.path);
            let early = path.is_some_and(|path| judged(self.lanes.place(path)).1);
            let cause = if early { Cause::FewPackets } else { Cause::MissingReports };
            self.fast_retransmit(now, tsn, cause, highest, paths);
        }
        if by_time {
            for path in self.lanes.ids_now() {
                let (threshold, early) = judged(self.lanes.place(path));
                self.detect_by_time(now, path, threshold, early, paths);
            }
        }
        for (tsn, cause) in self.overdue_copies(now, paths) {
            mark!(CopiesOverdue);
            if cause.is_loss() {
                self.fast_retransmit(now, tsn, cause, highest, paths);
            } else {
                let to = self.lose(tsn, cause, None, paths);
                self.lanes[to].retransmit_at_once = true;
            }
        }
    }

    /// Finds chunks that have not arrived on a path although there was enough time (RFC 8985), or
    /// although `threshold` later packets have arrived.
    fn detect_by_time(
        &mut self,
        now: Instant,
        path: PathId,
        threshold: u32,
        early: bool,
        paths: &mut Paths,
    ) {
        let lane = &self.lanes[path];
        let Some(evidence) = lane.evidence.as_deref() else { return };
        let reordered = evidence.order.is_reordered();
        let around = rack::Surroundings {
            threshold: (!reordered || early).then_some(threshold),
            in_recovery: lane.recovery_exit.is_some(),
            srtt: paths[path].rtt.srtt(),
        };
        let mut lost = Vec::new();
        let rack = evidence.rack;
        let again = rack.detect(now, path, &around, &self.outstanding, &mut lost);
        self.lanes[path].evidence.get_or_insert_default().look_again = again;
        let highest = self.outstanding.next_tsn() - 1;
        let cause = if early { Cause::FewPackets } else { Cause::TimeThreshold };
        for tsn in lost {
            self.fast_retransmit(now, tsn, cause, highest, paths);
        }
    }

    /// With loss detection by time: how long after its transmission a packet is considered lost if
    /// later packets have arrived; otherwise, or if that time is unknown, `None`. Probes of a closed
    /// window are never late.
    pub(super) fn patience(&self, path: PathId, paths: &Paths) -> Option<Duration> {
        let by_time = self.config.recovery.loss_detection == LossDetection::TimeThreshold;
        if !by_time || self.window.is_probed() {
            return None;
        }
        let srtt = paths[path].rtt.srtt();
        let around = rack::Surroundings { threshold: None, in_recovery: false, srtt };
        let evidence = self.lanes[path].evidence.as_deref();
        // An idle association keeps only the average.
        let known = evidence.and_then(|evidence| evidence.rack.patience(&around));
        known.or_else(|| srtt.map(|srtt| srtt + srtt / 4))
    }

    /// Considers chunks lost that might only have been late until now.
    pub(super) fn on_reordering_deadline(&mut self, now: Instant, path: PathId, paths: &mut Paths) {
        mark!(ReorderingTimer);
        let usual = self.config.recovery.missing_reports;
        self.detect_by_time(now, path, usual, false, paths);
        self.report_lost(now, Loss::Reported);
        // RFC 9260 section 6.3.2, R2, for chunks that are sent on another path.
        if !self.outstanding.in_flight(path) {
            self.stop_t3(path);
        }
    }

    /// Handles a chunk that later arrivals prove lost; `highest` is the last TSN sent.
    fn fast_retransmit(
        &mut self,
        now: Instant,
        tsn: u64,
        cause: Cause,
        highest: u64,
        paths: &mut Paths,
    ) {
        let Some(slot) = self.outstanding.get(tsn) else { return };
        if slot.state != SlotState::InFlight {
            return;
        }
        let from = slot.path;
        let packet = slot.packet;
        let retransmitted = self.outstanding.retransmission(tsn).is_some();
        if retransmitted {
            mark!(FastRetransmitAgain);
        }
        // A lost retransmission is a new congestion event: RFC 9260 leaves it to the timer, and RFC
        // 5681 section 4.3 lowers the windows again. A loss of a packet sent before they were last
        // lowered belongs to the same event. In the studies of the older RFCs there is one event per
        // recovery.
        let lane = &self.lanes[from];
        let again =
            self.config.revision >= Revision::Rfc9260 && retransmitted && packet >= lane.lowered_at;
        // Chunks that a timeout left in flight belong to the loss for which it lowered the windows.
        // So do all for which windows were lowered when the peer reported a mark.
        let same = (cause == Cause::TimeThreshold || self.ecn) && packet < lane.lowered_at;
        let begins = (lane.recovery_exit.is_none() && !same) || again;
        if begins {
            self.begin_recovery(now, from, highest, paths);
        }
        if cause == Cause::FewPackets
            && let Some(evidence) = self.lanes[from].evidence.as_deref_mut()
            && let Some(episode) = &mut evidence.episode
        {
            mark!(EarlyRetransmit);
            episode.early = true;
        }
        let first = self.outstanding.earliest(from) == Some(tsn);
        let to = self.lose(tsn, cause, None, paths);
        // RFC 9260 section 7.2.4, step 4: the timer for the other chunks in flight on the path is
        // restarted, even if the retransmission is sent on another path.
        if first && to != from && self.outstanding.in_flight(from) {
            self.lanes[from].t3 = Some(now + paths[from].rtt.rto());
        }
        // req: rfc9260 7.2.4 "SHOULD NOT delay retransmission for"
        // req: rfc9260 7.2.4 "SHOULD ignore the value of cwnd and"
        self.lanes[to].retransmit_at_once |= begins || self.config.revision < Revision::Rfc9260;
    }

    /// A path had a loss: lowers its window, once for all data in flight.
    // RFC 9260 section 7.2.4, step 2.
    // req: rfc9260 7.2.4 "SHOULD NOT change for any destinations due"
    pub(super) fn begin_recovery(
        &mut self,
        now: Instant,
        from: PathId,
        highest: u64,
        paths: &Paths,
    ) {
        self.begin_episode(from);
        let number = self.packet_number(from);
        self.lanes[from].recovery_exit = Some(if self.config.judges_by_path() {
            RecoveryExit::Packet(number)
        } else {
            RecoveryExit::Tsn(highest)
        });
        self.lower_windows(now, from, Loss::Reported, paths);
        self.counts.fast_recoveries += 1;
        mark!(FastRecovery);
    }

    /// Tells the controller of a path about congestion that an acknowledgement shows.
    pub(super) fn lower_windows(&mut self, now: Instant, from: PathId, cause: Loss, paths: &Paths) {
        self.lanes[from].lowered_at = self.packet_number(from);
        if !matches!(cause, Loss::Marked) {
            self.lanes[from].ecn.on_loss();
        }
        let coupling = self.view_paths_at_loss(from, paths, |sender, path| {
            // The path may have been added after the last acknowledgement, because time proves losses,
            // too.
            sender.summary.paths.get(path).map_or(0, |ack| ack.flight_before)
        });
        let in_flight = self.summary.paths.get(from).map_or(0, |ack| ack.flight_before);
        let in_flight = in_flight.max(self.outstanding.flight(from));
        let event = CongestionEvent {
            coupled: Coupled::new(coupling, views(&self.views), self.place(from)),
            ..CongestionEvent::new(now, cause, in_flight)
        };
        self.lanes[from].congestion.tell(|c| c.on_congestion_event(&event));
    }
}
