//! Deadlines of an association, and what happens at each.

use super::Association;
use super::state::State;
use crate::event::PathState;
use crate::marks::mark;
use crate::policy::{self, RetransmissionPolicy};
use crate::send::Cause;
use crate::time::Instant;

fn earliest(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

impl Association {
    /// When [`handle_timeout`](Self::handle_timeout) wants to be called next.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        let mut next = match &self.state {
            State::CookieWait { t1, .. } | State::CookieEchoed { t1, .. } => Some(t1.deadline),
            State::ShutdownSent { t2 } | State::ShutdownAckSent { t2 } => Some(t2.deadline),
            State::Established | State::ShutdownPending | State::ShutdownReceived => None,
            State::Closed => return None,
        };
        next = earliest(next, self.acknowledger.deadline());
        next = earliest(next, self.t5);
        next = earliest(next, self.sender.window_deadline());
        next = earliest(next, self.sender.next_expiry());
        next = earliest(next, self.data_stop());
        if let Some(limit) = self.config.timers.autoclose
            && matches!(self.state, State::Established)
        {
            next = earliest(next, Some(self.last_user_data + limit));
        }
        for (index, path) in self.paths.iter().enumerate() {
            next = earliest(next, self.sender.t3(index));
            next = earliest(next, self.sender.pacing_deadline(index));
            if self.state.heartbeats() {
                next = earliest(next, path.heartbeat.deadline());
                if path.state == PathState::Active {
                    next = earliest(next, path.mtu.deadline());
                }
            }
        }
        next
    }

    /// Does everything that is due.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        let due = |deadline: Option<Instant>| deadline.is_some_and(|deadline| deadline <= now);
        match &self.state {
            State::CookieWait { t1, .. } | State::CookieEchoed { t1, .. }
                if due(Some(t1.deadline)) =>
            {
                self.on_t1(now);
            }
            State::ShutdownSent { t2 } | State::ShutdownAckSent { t2 }
                if due(Some(t2.deadline)) =>
            {
                self.on_t2(now);
            }
            _ => {}
        }
        if self.is_closed() {
            return;
        }
        self.acknowledger.on_timeout(now);
        if due(self.t5) {
            self.on_t5();
            return;
        }
        if due(self.sender.next_expiry()) {
            self.expire_all_messages(now);
        }
        if due(self.data_stop()) {
            self.on_data_stop(now);
        }
        if due(self.sender.window_deadline()) {
            self.sender.on_window_deadline();
        }
        if let Some(limit) = self.config.timers.autoclose
            && due(Some(self.last_user_data + limit))
            && matches!(self.state, State::Established)
        {
            self.last_user_data = now;
            mark!(Autoclose);
            self.user_shutdown(now);
        }
        for index in 0..self.paths.len() {
            self.sender.on_pacing_deadline(now, index);
            if due(self.sender.t3(index)) {
                self.time_out(now, index, Cause::Timeout);
            }
            if self.is_closed() {
                return;
            }
            if self.state.heartbeats() {
                self.on_heartbeat_timer(now, index);
                if self.is_closed() {
                    return;
                }
                let path = &mut self.paths[index];
                if path.state == PathState::Active && due(path.mtu.deadline()) {
                    path.mtu.on_timeout(now);
                    self.mtu_changed(index);
                }
            }
        }
        self.sender.begin_burst();
    }

    /// What is in flight on a path is lost, as when T3-rtx expires (RFC 9260 section 6.3.3). An error
    /// of this host counts against the path alone, and not against the peer.
    pub(super) fn time_out(&mut self, now: Instant, index: usize, cause: Cause) {
        let excused = self.sender.begin_timeout(index, &mut self.paths);
        if !excused {
            if cause == Cause::Timeout {
                self.count_association_error(now);
            }
            if self.is_closed() {
                return;
            }
            if self.paths[index].state == PathState::Inactive {
                self.count_error_of_failed(index);
            } else {
                self.count_path_error(now, index);
            }
            self.heartbeat_after_rto(now, index);
        }
        let to = self.sender.path_after_timeout(index, &self.paths);
        if self.sender.finish_timeout(index, cause, to, &mut self.paths) {
            self.paths[index].mtu.on_full_size_loss();
            self.mtu_changed(index);
        }
    }

    /// HAR: what timed out goes elsewhere, and a heartbeat finds out how the path is (caro 2.4.1).
    fn heartbeat_after_rto(&mut self, now: Instant, index: usize) {
        let elsewhere = self.config.paths.retransmission != RetransmissionPolicy::AllRtxSame
            && policy::alternate(&self.paths, index).is_some();
        if self.config.paths.heartbeat_after_rto && elsewhere {
            mark!(HeartbeatAfterTimeout);
            self.paths[index].heartbeat.demand(now);
        }
    }

    /// The search for the path MTU has found something, or begins anew.
    // req: rfc8899 3 "PLPMTU (or MPS) MUST NOT increase the congestion"
    pub(super) fn mtu_changed(&mut self, index: usize) {
        self.sender.on_pmdcs_change(index, &self.paths[index]);
    }
}
