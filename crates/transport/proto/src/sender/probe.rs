//! Sends tail loss probes (RFC 8985 section 7): decides when one is due and what it contains, and
//! evaluates its acknowledgement.

use anabranch_wire::TsnList;

use super::Sender;
use super::lane::Exception;
use crate::marks::mark;
use crate::path::Paths;
use crate::per_path::PathId;
use crate::recovery::Again;
use crate::recovery::tail_probe::{self, Answer, Probing};
use crate::send::{Cause, SlotState};
use crate::time::Instant;

impl Sender {
    /// When [`on_evidence_deadline`](Self::on_evidence_deadline) must be called.
    pub(crate) fn evidence_deadline(&self, path: PathId) -> Option<Instant> {
        let evidence = self.lanes[path].evidence.as_ref()?;
        match (evidence.look_again, evidence.probe.deadline) {
            (Some(look), Some(probe)) => Some(look.min(probe)),
            (look, probe) => look.or(probe),
        }
    }

    /// Checks whether late chunks are lost, and whether a probe is due.
    pub(crate) fn on_evidence_deadline(&mut self, now: Instant, path: PathId, paths: &mut Paths) {
        let due = |deadline: Option<Instant>| deadline.is_some_and(|deadline| deadline <= now);
        let Some(evidence) = self.lanes[path].evidence.as_deref() else { return };
        let (look, probe) = (due(evidence.look_again), due(evidence.probe.deadline));
        if look {
            self.on_reordering_deadline(now, path, paths);
        }
        if probe {
            self.on_probe_deadline(now, path, paths);
        }
    }

    /// Sets the timer for a probe, in case nothing arrives.
    pub(super) fn probe_follows(&mut self, now: Instant, path: PathId, paths: &Paths) {
        let recovers =
            self.lanes[path].recovery_exit.is_some() || self.outstanding.first_lost(path).is_some();
        let packets = self.outstanding.packets(path);
        let lane = &mut self.lanes[path];
        let probe = &mut lane.evidence.get_or_insert_default().probe;
        if recovers || packets == 0 {
            probe.disarm();
        } else {
            probe.arm(now, tail_probe::interval(paths[path].rtt.srtt(), packets), lane.t3);
        }
    }

    /// Records that new data is sent as a probe.
    #[cold]
    pub(super) fn probe_left(&mut self, now: Instant, path: PathId) {
        let lane = &mut self.lanes[path];
        lane.exception.end_probe();
        if let Some(evidence) = lane.evidence.as_deref_mut() {
            evidence.probe.out = Some(Probing { again: None, at: now, t3: None });
        }
    }

    /// Sets the timers for probes again after an acknowledgement was processed, or stops them.
    pub(super) fn arm_probes(&mut self, now: Instant, paths: &Paths) {
        if !self.config.recovery.tail_probe {
            return;
        }
        for path in self.lanes.ids_now() {
            let ack = &self.summary.paths[path];
            if ack.bytes > 0 || ack.copied {
                self.lanes[path].exception.end_probe();
                self.probe_follows(now, path, paths);
            }
        }
    }

    /// Sends a probe, because nothing has arrived for long: new data, or the last chunk again.
    fn on_probe_deadline(&mut self, now: Instant, path: PathId, paths: &mut Paths) {
        let fits = self.outstanding.lost_chunks() == 0 && self.may_go_forward(path, paths);
        let latest = self.outstanding.latest(path);
        // Otherwise it would be given up in place of being sent again, although it may have arrived.
        let latest = latest.filter(|tsn| fits || self.may_repeat(now, *tsn));
        let lane = &mut self.lanes[path];
        let Some(evidence) = lane.evidence.as_deref_mut() else { return };
        evidence.probe.disarm();
        let Some(tsn) = latest else { return };
        mark!(TailProbe);
        self.counts.tail_probes = self.counts.tail_probes.wrapping_add(1);
        if fits {
            lane.exception = Exception::Probe;
            return;
        }
        self.lose(tsn, Cause::TailProbe, Some(path), paths);
        let in_flight = self.in_flight(path);
        let lane = &mut self.lanes[path];
        lane.retransmit_at_once = true;
        // With nothing in flight, the timer is stopped until the probe is sent, possibly on another
        // path.
        let t3 = if in_flight { None } else { lane.t3.take() };
        let probe = &mut lane.evidence.get_or_insert_default().probe;
        probe.out = Some(Probing { again: Some(tsn), at: now, t3 });
    }

    /// The probe in which a chunk is sent again, if any.
    pub(super) fn probe_of(&self, path: PathId, tsn: u64) -> Option<Probing> {
        let probe = self.lanes[path].evidence.as_ref().and_then(|evidence| evidence.probe.out);
        probe.filter(|probe| probe.again == Some(tsn))
    }

    /// Evaluates the current acknowledgement for outstanding probes (RFC 8985 section 7.4.2).
    pub(super) fn answer_probes(
        &mut self,
        now: Instant,
        duplicates: TsnList<'_>,
        paths: &mut Paths,
    ) {
        for path in self.lanes.ids_now() {
            let news = self.summary.paths[path].bytes > 0;
            let Some(evidence) = self.lanes[path].evidence.as_deref_mut() else { continue };
            let Some(probing) = evidence.probe.out else { continue };
            let Some(tsn) = probing.again else {
                evidence.probe.out = evidence.probe.out.filter(|_| !news);
                continue;
            };
            let slot = self.outstanding.get(tsn);
            if slot.is_some_and(|slot| !slot.state.is_acked()) {
                // Other data arrived. If the chunk is lost after all, another probe may show that.
                if slot.is_some_and(|slot| slot.state == SlotState::InFlight) && news {
                    evidence.probe.out = None;
                }
                continue;
            }
            let duplicate = duplicates.iter().any(|duplicate| duplicate.0 == tsn as u32);
            evidence.probe.out = None;
            let too_soon = evidence.rack.is_too_soon(now.saturating_since(probing.at));
            match tail_probe::answer(duplicate, too_soon) {
                Answer::Needless => {
                    mark!(TailProbeNeedless);
                    self.counts.spurious_retransmissions =
                        self.counts.spurious_retransmissions.wrapping_add(1);
                }
                Answer::Repaired => {
                    mark!(TailProbeRepaired);
                    self.on_repaired_by_probe(now, tsn, path, paths);
                }
            }
        }
    }

    /// Handles a loss that a probe has repaired: lowers the windows as for any other loss.
    fn on_repaired_by_probe(&mut self, now: Instant, tsn: u64, path: PathId, paths: &mut Paths) {
        paths[path].loss.on_lost(1);
        if self.lanes[path].recovery_exit.is_none() {
            let highest = self.outstanding.next_tsn() - 1;
            self.begin_recovery(now, path, highest, paths);
            // The peer may still report it as a duplicate.
            self.note_sent_again(path, Again::new(tsn, self.packet_number(path), false));
        }
    }

    /// Whether new data may be sent on a path, considering only the data and the peer's window.
    pub(super) fn may_go_forward(&self, path: PathId, paths: &Paths) -> bool {
        self.carries_new(path, paths) && self.queue_fits_window(path, paths)
    }

    /// Whether new data is waiting for a path and fits into the peer's window.
    fn queue_fits_window(&self, path: PathId, paths: &Paths) -> bool {
        let full = self.largest_payload(paths);
        !self.queue.is_empty()
            && self
                .next_for(path, paths)
                .and_then(|next| self.chunk_of(next, full, full, true))
                .is_some_and(|next| next <= self.window.left())
    }
}
