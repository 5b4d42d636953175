//! Handles T3-rtx (RFC 9260 sections 6.3.2 and 6.3.3), and its effects on windows.

use std::time::Duration;

use super::Sender;
use super::coupled::views;
use crate::congestion::{CongestionEvent, Coupled, Loss};
use crate::marks::mark;
use crate::path::Paths;
use crate::per_path::PathId;
use crate::recovery::rto_restart;
use crate::recovery::tail_probe::TailProbe;
use crate::revision::Revision;
use crate::send::Cause;
use crate::time::Instant;

impl Sender {
    /// When T3-rtx of a path expires.
    pub(crate) fn t3(&self, path: PathId) -> Option<Instant> {
        self.lanes[path].t3
    }

    /// Makes T3-rtx of a path, if it runs, expire at `at` at the latest.
    pub(crate) fn hasten(&mut self, path: PathId, at: Instant) {
        if let Some(t3) = &mut self.lanes[path].t3 {
            *t3 = (*t3).min(at);
        }
    }

    /// The earliest deadline of pacing, of the rest of a slow path, or of copies that fill the window.
    pub(crate) fn pacing_deadline(&self, path: PathId) -> Option<Instant> {
        let paced = self.lanes[path].paced_until.into_iter();
        paced.chain(self.slow_path_deadline(path)).chain(self.copies_deadline(path)).min()
    }

    /// Handles that deadline: pacing may permit data again, or what else held it back has ended. Copies have a handler of
    /// their own.
    pub(crate) fn on_pacing_deadline(&mut self, now: Instant, path: PathId) {
        self.lanes[path].paced_until.take_if(|until| *until <= now);
        self.on_slow_path_deadline(now, path);
    }

    /// When [`on_window_deadline`](Self::on_window_deadline) must be called.
    pub(crate) fn window_deadline(&self) -> Option<Instant> {
        self.window.deadline()
    }

    /// Permits a probe of a closed window.
    pub(crate) fn on_window_deadline(&mut self) {
        self.window.on_deadline();
    }

    /// Handles the expiry of a path's T3-rtx, or an event with the same effect: reduces the window and backs
    /// off the timer. `true` if the expiry is not an error of path or peer, because the peer answers probes
    /// of its closed window.
    // req: rfc9260 6.1 "SHOULD NOT increment the error counter for the"
    pub(crate) fn begin_timeout(&mut self, now: Instant, id: PathId, paths: &mut Paths) -> bool {
        self.lanes[id].t3 = None;
        self.question_timeout(id);
        self.counts.timeouts += 1;
        paths[id].stats.troubles().timeouts += 1;
        let closed = self.window.is_closed(paths[paths.active()].pmdcs());
        let excused = self.window.on_timeout(closed);
        if excused {
            mark!(TimeoutExcused);
            self.end_question(id);
        } else {
            mark!(Timeout);
            // RFC 9260 section 6.3.3, E1.
            let number = self.packet_number(id);
            let coupling =
                self.view_paths_at_loss(id, paths, |sender, path| sender.outstanding.flight(path));
            let event = CongestionEvent {
                coupled: Coupled::new(coupling, views(&self.views), self.place(id)),
                ..CongestionEvent::new(now, Loss::Timeout, self.outstanding.flight(id))
            };
            self.lanes[id].congestion.tell(|c| c.on_congestion_event(&event));
            self.lanes[id].lowered_at = number;
            // With the older RFCs, an option decides this for all paths.
            self.lanes[id].one_packet = self.config.revision >= Revision::Rfc9260;
            self.doubt_ecn(id);
            paths[id].stats.troubles().timeout_runs.on_timeout();
            self.blocking.on_timeout(self.outstanding.next_tsn() - 1);
        }
        if !excused {
            self.begin_episode(id);
        }
        if let Some(evidence) = self.lanes[id].evidence.as_deref_mut() {
            evidence.order.on_timeout();
            evidence.look_again = None;
            evidence.probe = TailProbe::after_timeout(now);
        }
        // RFC 9260 section 6.3.3, E2.
        paths[id].rtt.back_off();
        self.lanes[id].recovery_exit = None;
        self.lanes[id].timed = None;
        excused
    }

    /// Retransmits the chunks in flight on path `to`. `true` if these include packets larger than the base
    /// MTU.
    pub(crate) fn finish_timeout(
        &mut self,
        now: Instant,
        id: PathId,
        cause: Cause,
        to: PathId,
        paths: &mut Paths,
    ) -> bool {
        if to != id {
            mark!(RetransmittedElsewhere);
            self.end_question(id);
        }
        let patience = self.patience(id, paths).filter(|_| cause == Cause::Timeout && to == id);
        let large = match patience {
            Some(patience) => self.lose_overdue(now, id, patience, paths),
            None => self.lose_flight(id, cause, to, paths),
        };
        // Chunks that wait for the path since an earlier loss would wait for its backed-off timer, one packet
        // at a time. The path was the best one then, or they are outstanding there like the data in flight
        // (RFC 9260 section 6.3.3, E3).
        if self.config.paths.retransmission.is_comparing() {
            self.redirect(id, to);
        } else {
            self.outstanding.redirect_lost_there(id, to);
        }
        self.report_lost(now, Loss::Timeout);
        self.end_rests(now, paths);
        // RFC 9260 section 6.3.3, E3.
        self.lanes[to].retransmit_at_once = true;
        // F-RTO, too, retransmits only one chunk.
        self.awaits_sack = self.config.recovery.one_packet_after_timeout || self.is_questioned(id);
        self.repeat_forward_tsn();
        self.begin_burst();
        large
    }

    /// Stops T3-rtx of a path on which no data is in flight, unless a FORWARD TSN is.
    pub(super) fn stop_t3(&mut self, path: PathId) {
        if self.forward_tsn_path() != Some(path) {
            self.lanes[path].t3 = None;
        }
    }

    /// Restarts or stops T3-rtx of every path after an acknowledgement (RFC 9260 section 6.3.2).
    pub(super) fn restart_timers(&mut self, now: Instant, paths: &Paths) {
        let restarts = self.config.recovery.rto_restart;
        let full = self.largest_payload(paths);
        let unsent = if restarts { self.queue.unsent().div_ceil(full) } else { 0 };
        let forward = self.forward_tsn_path();
        for lane in self.lanes.iter_mut() {
            let path = lane.path;
            // RFC 9260 section 6.3.2, R2.
            if !self.outstanding.in_flight(path) {
                if forward != Some(path) {
                    lane.t3 = None;
                }
            // RFC 9260 section 6.3.2, R3 and R4.
            } else if self.summary.paths[path].earliest || lane.t3.is_none() {
                let rto = paths[path].rtt.rto();
                let few =
                    restarts && self.outstanding.packets(path) + unsent < rto_restart::THRESHOLD;
                let age = if few { self.outstanding.oldest_packet(path) } else { None }
                    .map_or(Duration::ZERO, |(_, sent)| now.saturating_since(sent));
                lane.t3 = Some(now + rto_restart::interval(rto, age));
            }
        }
        self.watch_forward_tsn(now, paths);
    }
}
