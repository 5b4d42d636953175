//! Gathers evidence from acknowledgements beyond missing reports: order and times of arrival, and
//! spurious retransmissions. This happens once per acknowledgement, before all other steps, and only if
//! an option needs it.

use std::cmp::Reverse;

use anabranch_wire::TsnList;

use super::Sender;
use crate::marks::mark;
use crate::path::Paths;
use crate::per_path::{MAX_PATHS, PathId};
use crate::recovery::forward_rto::ForwardRto;
use crate::recovery::rack::Rack;
use crate::recovery::tail_probe::TailProbe;
use crate::recovery::{Again, Episode, Order, Reordering, early_retransmit};
use crate::time::Instant;
use crate::tsn;

/// Recovery state of a path beyond missing reports; allocated only if there is any.
#[derive(Debug)]
pub(super) struct Evidence {
    pub(super) rack: Rack,
    pub(super) order: Order,
    pub(super) probe: TailProbe,
    pub(super) episode: Option<Episode>,
    /// The detection of a spurious timeout (F-RTO).
    pub(super) forward: ForwardRto,
    /// With timestamps: only packets sent from this time on give the next measurement, so there is one
    /// per round trip.
    pub(super) measured_to: Instant,
    /// When a chunk that may only be late must be checked again.
    pub(super) look_again: Option<Instant>,
    /// The number of packets that were outstanding when the first of the current gap reports arrived.
    pub(super) disorder: Option<u64>,
    /// Half of the bytes acknowledged since then: careful TCP-NCR does not send that much.
    pub(super) withheld: usize,
}

impl Default for Evidence {
    fn default() -> Self {
        Self {
            rack: Rack::default(),
            order: Order::default(),
            probe: TailProbe::default(),
            episode: None,
            forward: ForwardRto::Idle,
            measured_to: Instant::ZERO,
            look_again: None,
            disorder: None,
            withheld: 0,
        }
    }
}

impl Evidence {
    /// Whether it contains no information that would help later recoveries.
    pub(super) fn is_idle(&self) -> bool {
        !self.order.is_reordered() && !self.episode.as_ref().is_some_and(Episode::is_open)
    }
}

impl Sender {
    /// Gathers the evidence of the current acknowledgement, which reports these duplicates.
    pub(super) fn gather(&mut self, now: Instant, duplicates: TsnList<'_>, paths: &mut Paths) {
        let gaps = self.summary.reports_gaps;
        let Some(gathered) = self.summary.gathered.take() else { return };
        for lane in self.lanes.iter_mut() {
            let ack = &self.summary.paths[lane.path];
            let ends = self.summary.cumulative_advanced || !gaps;
            if let Some(evidence) = lane.evidence.as_deref_mut().filter(|_| ends) {
                (evidence.disorder, evidence.withheld) = (None, 0);
            }
            let Some(latest) = ack.highest_packet else { continue };
            let evidence = lane.evidence.get_or_insert_default();
            if let Some(least) = paths[lane.path].rtt.take_least() {
                evidence.rack.recall(now, least);
            }
            let Some(arrived) = gathered.arrived.get(lane.path) else { continue };
            for (packet, again) in [(arrived.first_time, false), (arrived.again, true)] {
                if let Some(packet) = packet {
                    evidence.rack.on_arrived(now, packet, again);
                }
            }
            evidence.order.on_arrived(arrived.earliest, latest);
            if arrived.late
                && let Some(episode) = &mut evidence.episode
            {
                episode.on_late();
            }
            if !ends && lane.recovery_exit.is_none() {
                evidence.withheld += ack.bytes / 2;
            }
        }
        for tsn in &gathered.again {
            for lane in self.lanes.iter_mut() {
                if let Some(Evidence { episode: Some(episode), order, .. }) =
                    lane.evidence.as_deref_mut()
                {
                    episode.on_acked(*tsn, order.latest());
                }
            }
        }
        self.summary.gathered = Some(gathered);
        self.read_duplicates(duplicates);
        self.answer_probes(now, duplicates, paths);
        if self.config.recovery.undo.by_duplicates() {
            self.undo_what_was_needless(now, false, paths);
        }
    }

    /// Records that a retransmission was spurious. Returns `false` if the retransmission is unknown.
    fn on_needless(&mut self, tsn: u64) -> bool {
        for path in self.lanes.ids_now() {
            let next = self.packet_number(path);
            let Some(evidence) = self.lanes[path].evidence.as_deref_mut() else { continue };
            let Some(episode) = &mut evidence.episode else { continue };
            let Some(again) = episode.on_needless(tsn) else { continue };
            // A timer that expired too early shows no reordering.
            if again.reported {
                self.early_off |= episode.early;
                evidence.order.on_needless(again.late);
                evidence.rack.on_needless(next);
            }
            return true;
        }
        false
    }

    /// Evaluates reports that the peer received chunks twice.
    fn read_duplicates(&mut self, duplicates: TsnList<'_>) {
        for duplicate in duplicates.iter() {
            if self.on_needless(tsn::unwrap(self.outstanding.base(), duplicate.0)) {
                mark!(NeedlessByDuplicate);
                self.counts.spurious_retransmissions =
                    self.counts.spurious_retransmissions.wrapping_add(1);
            }
        }
    }

    /// Records that the retransmissions of the newly acknowledged chunks were spurious, as a timestamp
    /// echo has shown.
    pub(super) fn on_needless_by_echo(&mut self, now: Instant, paths: &mut Paths) {
        let Some(gathered) = self.summary.gathered.take() else { return };
        for tsn in &gathered.again {
            self.on_needless(*tsn);
        }
        self.summary.gathered = Some(gathered);
        if self.config.recovery.undo.by_timestamps() {
            // Chunks that wait for retransmission do not need it, either (RFC 3522).
            self.undo_what_was_needless(now, true, paths);
        }
    }

    /// Undoes recoveries in which all retransmissions were spurious; with `at_once`, even if chunks still
    /// wait for retransmission.
    fn undo_what_was_needless(&mut self, now: Instant, at_once: bool, paths: &mut Paths) {
        for path in self.lanes.ids_now() {
            let Some(evidence) = self.lanes[path].evidence.as_deref_mut() else { continue };
            let needless = evidence.episode.as_ref().is_some_and(Episode::was_needless);
            if needless && (at_once || self.outstanding.lost_by(path).next().is_none()) {
                evidence.episode = None;
                self.undo(now, path, paths);
            }
        }
    }

    /// Restores the windows of a path from before its last loss, which was spurious, computes its timeout
    /// from the measurements, and cancels waiting retransmissions (RFC 4015).
    pub(super) fn undo(&mut self, now: Instant, path: PathId, paths: &mut Paths) {
        mark!(Undone);
        self.counts.undone_recoveries = self.counts.undone_recoveries.wrapping_add(1);
        let lane = &mut self.lanes[path];
        lane.congestion.tell(|c| c.undo(now));
        // Packets sent before may be lost after all; that must lower the windows again.
        (lane.recovery_exit, lane.lowered_at) = (None, 0);
        if let Some(evidence) = self.lanes[path].evidence.as_deref_mut() {
            evidence.rack.on_undone();
            evidence.look_again = None;
        }
        paths[path].rtt.end_back_off();
        self.awaits_sack = false;
        // The latest one first: then the place of each in the order of sending is at the front.
        let mut waiting: Vec<u64> = self.outstanding.lost_by(path).collect();
        waiting.sort_by_key(|tsn| Reverse(self.outstanding.get(*tsn).map(|slot| slot.packet)));
        for tsn in waiting {
            let Some(slot) = self.outstanding.get(tsn) else { continue };
            let length = slot.payload.len();
            if self.outstanding.take_back(now, tsn) {
                self.window.take(length);
            }
        }
    }

    /// Begins a new episode of retransmissions, because a path's windows were lowered.
    pub(super) fn begin_episode(&mut self, path: PathId) {
        if self.config.recovery.gathers() {
            let evidence = self.lanes[path].evidence.get_or_insert_default();
            evidence.episode = Some(Episode::default());
            (evidence.disorder, evidence.withheld) = (None, 0);
        }
    }

    /// Records that a chunk from path `from` is retransmitted.
    pub(super) fn note_sent_again(&mut self, from: PathId, again: Again) {
        let lane = self.lanes.get_mut(from);
        let evidence = lane.and_then(|lane| lane.evidence.as_deref_mut());
        if let Some(episode) = evidence.and_then(|evidence| evidence.episode.as_mut()) {
            episode.on_sent_again(again);
        }
    }

    /// Whether the number of reports that prove a loss may differ from the configured one.
    pub(super) fn judges_differently(&self) -> bool {
        let recovery = &self.config.recovery;
        self.summary.reports_gaps
            && (recovery.early_retransmit || recovery.reordering != Reordering::Fixed)
    }

    /// By the place of each path: the number of later packets, or reports, that prove a loss, and whether
    /// early retransmit has lowered it.
    #[cold]
    pub(super) fn thresholds(&mut self) -> [(u32, bool); MAX_PATHS] {
        let recovery = &self.config.recovery;
        let usual = recovery.missing_reports;
        let mut thresholds = [(usual, false); MAX_PATHS];
        let split = self.config.judges_by_path();
        let early = recovery.early_retransmit
            && !self.early_off
            && (self.queue.is_empty() || self.window.left() == 0);
        for (lane, threshold) in self.lanes.iter_mut().zip(&mut thresholds) {
            if let Some(evidence) = lane.evidence.as_deref_mut()
                && recovery.reordering != Reordering::Fixed
            {
                let next = if split { lane.next_packet } else { self.next_packet };
                let oldest = self.outstanding.oldest_packet(lane.path);
                let packets = oldest.map_or(0, |(oldest, _)| next - oldest);
                let outstanding = *evidence.disorder.get_or_insert(packets);
                threshold.0 = evidence.order.threshold(recovery.reordering, usual, outstanding);
            }
            if early {
                let lowered = early_retransmit::threshold(
                    threshold.0,
                    self.outstanding.few_packets(lane.path),
                );
                *threshold = (lowered, lowered < threshold.0);
            }
        }
        thresholds
    }
}
