//! Applies F-RTO: sends new data before retransmissions while a timeout may be spurious.

use super::Sender;
use super::lane::Exception;
use crate::marks::mark;
use crate::path::Paths;
use crate::per_path::PathId;
use crate::recovery::forward_rto::{ForwardRto, Seen, Verdict};
use crate::time::Instant;

impl Sender {
    /// Begins F-RTO after a timeout, unless data was already lost or nothing else was in flight.
    // RFC 5682 section 3.1, step 1.
    pub(super) fn question_timeout(&mut self, path: PathId) {
        let lane = &self.lanes[path];
        let in_recovery =
            lane.recovery_exit.is_some() || self.outstanding.first_lost(path).is_some();
        let questions =
            self.config.recovery.f_rto && !in_recovery && self.outstanding.packets(path) > 1;
        let lane = &mut self.lanes[path];
        lane.exception = Exception::None;
        if questions {
            lane.evidence.get_or_insert_default().forward = ForwardRto::Retransmitted;
        } else {
            self.end_question(path);
        }
    }

    /// Whether a path's timeout may still prove spurious.
    pub(super) fn is_questioned(&self, path: PathId) -> bool {
        let evidence = self.lanes[path].evidence.as_deref();
        evidence.is_some_and(|evidence| evidence.forward != ForwardRto::Idle)
    }

    /// Ends F-RTO on a path: it is known whether the timeout was spurious.
    pub(super) fn end_question(&mut self, path: PathId) {
        let lane = &mut self.lanes[path];
        lane.exception = Exception::None;
        if let Some(evidence) = lane.evidence.as_deref_mut() {
            evidence.forward = ForwardRto::Idle;
        }
    }

    /// Evaluates the current acknowledgement for timeouts that may be spurious.
    pub(super) fn judge_timeouts(&mut self, now: Instant, duplicates: bool, paths: &mut Paths) {
        for path in self.lanes.ids_now() {
            let Some(evidence) = self.lanes[path].evidence.as_deref() else { continue };
            let mut state = evidence.forward;
            if state == ForwardRto::Idle {
                continue;
            }
            let arrived = self.summary.gathered.as_ref().and_then(|all| all.arrived.get(path));
            let Some(arrived) = arrived else { continue };
            let seen = Seen {
                again: arrived.again.is_some(),
                late: arrived.late,
                newest: arrived.first_time.map(|packet| packet.number),
                tells: self.summary.paths[path].bytes > 0
                    || self.summary.reports_gaps
                    || duplicates,
                waits: self.outstanding.first_lost(path).is_some(),
                has_new: self.may_go_forward(path, paths),
                next: self.packet_number(path),
            };
            let verdict = state.on_acknowledgement(&seen);
            let lane = &mut self.lanes[path];
            lane.evidence.get_or_insert_default().forward = state;
            match verdict {
                Verdict::Undecided => {}
                Verdict::Wait => lane.exception = Exception::Forward,
                Verdict::SendNew => lane.exception = Exception::ForwardTwo,
                Verdict::Timeout => lane.exception = Exception::None,
                Verdict::Spurious => {
                    mark!(SpuriousTimeout);
                    lane.exception = Exception::None;
                    lane.evidence.get_or_insert_default().episode = None;
                    self.counts.spurious_timeouts = self.counts.spurious_timeouts.wrapping_add(1);
                    self.undo(now, path, paths);
                }
            }
        }
    }

    /// Ends F-RTO where the new data that it sends first cannot be sent, and nothing is in flight
    /// whose acknowledgement could show whether the timeout was spurious. The retransmissions are
    /// then sent.
    pub(super) fn end_idle_questions(&mut self, now: Instant, paths: &Paths) {
        for path in self.lanes.ids_now() {
            let lane = &self.lanes[path];
            let waits = self.outstanding.in_flight(path) || lane.is_paced(now);
            let sends = || self.path_for_new(now, paths) == Some(path);
            if lane.exception.is_forward() && !waits && !sends() {
                self.end_question(path);
            }
        }
    }
}
