//! Deadlines of an association, and what happens at each.

use super::Association;
use super::state::State;
use crate::congestion::Coupled;
use crate::event::PathState;
use crate::marks::mark;
use crate::policy::{self, RetransmissionPolicy};
use crate::send::LostBy;
use crate::time::Instant;

fn earliest(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

/// Why everything in flight on a path goes out again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// T3-rtx expired: the path lost it.
    Timeout,
    /// It is known to have been of no use, which says nothing of losses: packets larger than the path
    /// carries now, or probes of a closed window that the peer had no room for.
    Useless,
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
        next = earliest(next, self.window_probe);
        next = earliest(next, self.send.next_expiry());
        next = earliest(next, self.data_stop());
        if let Some(limit) = self.config.timers.autoclose
            && matches!(self.state, State::Established)
        {
            next = earliest(next, Some(self.last_user_data + limit));
        }
        for path in self.paths.iter() {
            next = earliest(next, path.t3);
            next = earliest(next, path.paced_until);
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
        if due(self.send.next_expiry()) {
            self.expire_all_messages(now);
        }
        if due(self.data_stop()) {
            self.on_data_stop(now);
        }
        if due(self.window_probe) {
            self.window_probe = None;
            self.probe_now = true;
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
            self.paths[index].paced_until.take_if(|until| *until <= now);
            if due(self.paths[index].t3) {
                self.on_t3(now, index);
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
                    path.mtu_changed();
                }
            }
        }
        self.begin_burst();
    }

    /// T3-rtx of a path expired (RFC 9260 section 6.3.3).
    pub(super) fn on_t3(&mut self, now: Instant, index: usize) {
        self.time_out(now, index, true);
    }

    /// What is in flight on a path is lost, as when T3-rtx expires. `counts`: also against the peer,
    /// not against the path alone.
    pub(super) fn time_out(&mut self, now: Instant, index: usize, counts: bool) {
        let path = &mut self.paths[index];
        path.t3 = None;
        path.stats.t3_timeouts += 1;
        self.counters.t3_timeouts += 1;
        // A peer that answers probes with a closed window is alive.
        // req: rfc9260 6.1 "SHOULD NOT increment the error counter for the"
        let closed = self.window_is_closed();
        let excused = closed && self.probing && self.sack_since_probe;
        // What is sent again while the window is closed probes it.
        self.probing |= closed;
        if excused {
            mark!(TimeoutExcused);
        } else {
            mark!(Timeout);
        }
        self.sack_since_probe = false;
        let number = self.packet_number(index);
        if !excused {
            // RFC 9260 section 6.3.3, E1.
            let coupling =
                self.view_paths_at_loss(index, |all, index| all.outstanding.flight(index));
            let coupled = Coupled::new(coupling, &self.path_views, index);
            let path = &mut self.paths[index];
            path.congestion.on_timeout(&coupled);
            path.stats.timeout_runs.on_timeout();
            path.lowered_at = number;
            self.blocking.on_timeout(self.outstanding.next_tsn() - 1);
        }
        let path = &mut self.paths[index];
        // RFC 9260 section 6.3.3, E2.
        path.rtt.back_off();
        path.recovery_exit = None;
        path.timed = None;
        if !excused {
            if counts {
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
        let to = self.retransmission_path(index);
        if to != index {
            mark!(RetransmittedElsewhere);
        }
        if self.lose_flight(index, Why::Timeout, to) {
            self.paths[index].mtu.on_full_size_loss();
            self.paths[index].mtu_changed();
        }
        // RFC 9260 section 6.3.3, E3.
        self.paths[to].retransmit_at_once = true;
        self.awaits_sack = self.config.recovery.one_packet_after_timeout;
        self.begin_burst();
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

    /// Where what timed out on path `index` goes; the data path if no path is active.
    // req: rfc7829 3.2 "SHOULD choose an alternate destination transport address in active state"
    pub(super) fn retransmission_path(&self, index: usize) -> usize {
        let to = self.rtx_path(LostBy::Timeout, index);
        if self.paths[to].is_active() { to } else { self.paths.active() }
    }

    /// Everything in flight on a path is held to be lost. `true` if packets larger than the
    /// base MTU were among it.
    pub(super) fn lose_flight(&mut self, index: usize, why: Why, to: usize) -> bool {
        let mut large = false;
        while let Some(tsn) = self.outstanding.earliest(index) {
            let Some(slot) = self.outstanding.get(tsn) else { break };
            let length = slot.payload.len();
            large |= slot.large;
            self.outstanding.lose(tsn, LostBy::Timeout, to);
            match why {
                Why::Timeout => {
                    self.counters.timeout_retransmitted_chunks += 1;
                    self.paths[index].loss.on_lost(1);
                }
                Why::Useless => self.counters.useless_retransmitted_chunks += 1,
            }
            // RFC 9260 section 6.2.1 C.
            self.peer_rwnd =
                self.peer_rwnd.saturating_add(u32::try_from(length).unwrap_or(u32::MAX));
        }
        self.paths[index].t3 = None;
        large
    }

    /// The path carries less than before: what is in flight on it goes out again.
    pub(super) fn resend_too_big(&mut self, _now: Instant, index: usize) {
        if self.outstanding.in_flight(index) {
            self.lose_flight(index, Why::Useless, index);
            self.paths[index].retransmit_at_once = true;
            self.begin_burst();
        }
    }
}
