//! Deadlines of an association, and the handling of each.

use super::Association;
use super::state::State;
use crate::event::PathState;
use crate::marks::mark;
use crate::per_path::PathId;
use crate::policy::{self, RetransmissionPolicy};
use crate::send::Cause;
use crate::sender::Decision;
use crate::time::Instant;

/// A timer of an association. Timers that expire at the same time are handled in this order.
#[derive(Clone, Copy, Debug)]
enum Timer {
    /// T1-init and T1-cookie (RFC 9260 section 5.1), or T2-shutdown (section 9.2).
    Repeat,
    /// The delayed acknowledgement (section 6.2).
    Sack,
    /// T5-shutdown-guard (section 9.2).
    ShutdownGuard,
    /// The Re-configuration Timer (RFC 6525 section 5.1.1).
    Reconfiguration,
    /// T4-rto (RFC 5061 section 5.1), or an address of this host does not come back.
    Readdressing,
    /// The lifetimes of queued messages (RFC 6458 section 5.3.4).
    Expiry,
    /// Incoming data has stopped.
    DataStop,
    /// A closed window is probed (RFC 9260 section 6.1).
    WindowProbe,
    /// The user has sent and received nothing for too long (RFC 6458 section 8.1.8).
    Autoclose,
}

/// A timer that each path has separately.
#[derive(Clone, Copy, Debug)]
enum PathTimer {
    /// Pacing allows data to be sent.
    Pacing,
    /// Chunks that may only be late are now late enough to count as lost, or a tail loss probe is due
    /// (RFC 8985).
    Evidence,
    /// T3-rtx (RFC 9260 section 6.3).
    T3,
    /// A heartbeat, or the lack of its answer (section 8.3).
    Heartbeat,
    /// The search for the path MTU (RFC 8899).
    Mtu,
}

fn earliest(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

impl Timer {
    const ALL: [Self; 9] = [
        Self::Repeat,
        Self::Sack,
        Self::ShutdownGuard,
        Self::Reconfiguration,
        Self::Readdressing,
        Self::Expiry,
        Self::DataStop,
        Self::WindowProbe,
        Self::Autoclose,
    ];
}

impl PathTimer {
    const ALL: [Self; 5] = [Self::Pacing, Self::Evidence, Self::T3, Self::Heartbeat, Self::Mtu];
}

impl Association {
    /// When a timer expires, if it is running.
    #[inline]
    fn deadline(&self, timer: Timer) -> Option<Instant> {
        match timer {
            Timer::Repeat => match &self.state {
                State::CookieWait { t1: repeat, .. }
                | State::CookieEchoed { t1: repeat, .. }
                | State::ShutdownSent { t2: repeat }
                | State::ShutdownAckSent { t2: repeat } => Some(repeat.deadline),
                _ => None,
            },
            Timer::Sack => self.acknowledger.deadline(),
            Timer::ShutdownGuard => self.ending.guard,
            Timer::Reconfiguration => self.reconfiguration_deadline(),
            Timer::Readdressing => self.readdressing_deadline(),
            Timer::Expiry => self.sender.next_expiry(),
            Timer::DataStop => self.watch.look_at(),
            Timer::WindowProbe => self.sender.window_deadline(),
            Timer::Autoclose => (self.config.timers.autoclose)
                .filter(|_| matches!(self.state, State::Established))
                .map(|limit| self.progress.last_user_data + limit),
        }
    }

    /// The same for a timer of a path.
    #[inline]
    fn path_deadline(&self, timer: PathTimer, id: PathId) -> Option<Instant> {
        let path = &self.paths[id];
        match timer {
            PathTimer::Pacing => self.sender.pacing_deadline(id),
            PathTimer::Evidence => self.sender.evidence_deadline(id),
            PathTimer::T3 => self.sender.t3(id),
            PathTimer::Heartbeat if self.state.heartbeats() && !path.silent => {
                path.heartbeat.deadline()
            }
            PathTimer::Mtu if self.state.heartbeats() && path.is_active() => path.mtu.deadline(),
            PathTimer::Heartbeat | PathTimer::Mtu => None,
        }
    }

    /// When [`handle_timeout`](Self::handle_timeout) must be called next.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        if self.is_closed() {
            return None;
        }
        let mut next = None;
        for timer in Timer::ALL {
            next = earliest(next, self.deadline(timer));
        }
        for id in self.paths.ids_now() {
            for timer in PathTimer::ALL {
                next = earliest(next, self.path_deadline(timer, id));
            }
        }
        next
    }

    /// Handles everything that is due.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        let due = |deadline: Option<Instant>| deadline.is_some_and(|deadline| deadline <= now);
        self.news.shrink();
        // First of all: if a timeout lowers a window, copies of long ago must not fill it.
        self.sender.on_copies_deadline(now);
        for timer in Timer::ALL {
            if due(self.deadline(timer)) {
                self.on_timer(now, timer);
            }
            if self.is_closed() {
                return;
            }
        }
        for id in self.paths.ids_now() {
            for timer in PathTimer::ALL {
                if due(self.path_deadline(timer, id)) {
                    self.on_path_timer(now, timer, id);
                }
                if self.is_closed() {
                    return;
                }
            }
        }
        self.sender.begin_burst();
    }

    fn on_timer(&mut self, now: Instant, timer: Timer) {
        match timer {
            Timer::Repeat if self.is_established() => self.on_t2(now),
            Timer::Repeat => self.on_t1(now),
            Timer::Sack => self.acknowledger.on_timeout(now),
            Timer::ShutdownGuard => self.on_t5(),
            Timer::Reconfiguration => self.on_reconfiguration_timeout(now),
            Timer::Readdressing => self.on_readdressing_timeout(now),
            Timer::Expiry => self.expire_all_messages(now),
            Timer::DataStop => self.look_at_data(now),
            Timer::WindowProbe => self.sender.on_window_deadline(),
            Timer::Autoclose => {
                self.progress.last_user_data = now;
                mark!(Autoclose);
                self.user_shutdown(now);
            }
        }
    }

    fn on_path_timer(&mut self, now: Instant, timer: PathTimer, id: PathId) {
        match timer {
            PathTimer::Pacing => self.sender.on_pacing_deadline(now, id),
            PathTimer::Evidence => self.sender.on_evidence_deadline(now, id, &mut self.paths),
            PathTimer::T3 => self.time_out(now, id, Cause::Timeout),
            PathTimer::Heartbeat => {
                self.sender.shrink_further();
                self.on_heartbeat_timer(now, id);
            }
            PathTimer::Mtu => {
                self.paths[id].mtu.on_timeout(now);
                self.mtu_changed(now, id);
            }
        }
    }

    /// Declares the chunks in flight on a path lost, as when T3-rtx expires (RFC 9260 section 6.3.3).
    /// An error of this host counts only against the path, not against the peer.
    pub(super) fn time_out(&mut self, now: Instant, id: PathId, cause: Cause) {
        let rto = self.paths[id].rtt.rto();
        let excused = self.sender.begin_timeout(now, id, &mut self.paths);
        self.sender.note(Decision::TimedOut { path: id, rto, cause, excused });
        if !excused {
            if cause == Cause::Timeout {
                self.count_association_error(now);
            }
            if self.is_closed() {
                return;
            }
            if self.paths[id].state == PathState::Inactive {
                self.count_error_of_failed(id);
            } else {
                self.count_path_error(now, id);
            }
            self.heartbeat_after_rto(now, id);
        }
        let to = self.sender.path_after_timeout(id, &self.paths);
        if self.sender.finish_timeout(now, id, cause, to, &mut self.paths) {
            self.paths[id].mtu.on_full_size_loss();
            self.mtu_changed(now, id);
        }
    }

    /// HAR: after a retransmission on another path, sends a heartbeat to check this one (caro 2.4.1).
    fn heartbeat_after_rto(&mut self, now: Instant, id: PathId) {
        let elsewhere = self.config.paths.retransmission != RetransmissionPolicy::AllRtxSame
            && policy::alternate(&self.paths, id).is_some();
        if self.config.paths.heartbeat_after_rto && elsewhere {
            mark!(HeartbeatAfterTimeout);
            self.paths[id].heartbeat.demand(now);
        }
    }

    /// Called when the search for the path MTU has found a larger size or starts again.
    // req: rfc8899 3 "PLPMTU (or MPS) MUST NOT increase the congestion"
    pub(super) fn mtu_changed(&mut self, now: Instant, id: PathId) {
        self.sender.on_pmdcs_change(now, id, &self.paths[id]);
    }
}
