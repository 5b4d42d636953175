//! Error counters of paths and of the association, and the resulting states.

use super::Association;
use crate::event::{CloseReason, Notification, PathState};
use crate::marks::mark;
use crate::per_path::PathId;
use crate::policy::failover::Input;
use crate::send::Cause;
use crate::time::Instant;

impl Association {
    /// Counts an error of a path (RFC 9260 section 8.2).
    pub(super) fn count_path_error(&mut self, now: Instant, id: PathId) {
        let path = &mut self.paths[id];
        // req: rfc9260 8.2 "SHOULD keep an error counter for each"
        path.error_count = path.error_count.saturating_add(1);
        // req: rfc9260 8.3 "SHOULD mark the corresponding destination address as"
        let before = path.state;
        if before != PathState::Inactive && path.error_count > self.config.paths.path_max_retrans {
            // RFC 7829 section 3.2, item 8.
            self.set_path_state(now, id, PathState::Inactive);
            if self.repeats_heartbeats_at_once() && self.paths[id].is_verified() {
                self.paths[id].heartbeat.demand(now);
            } else if before == PathState::PotentiallyFailed {
                self.schedule_heartbeat(now, id);
            }
            let input = match before {
                PathState::PotentiallyFailed => Input::TimedOut(id),
                _ => Input::Failed(id),
            };
            self.fail_over(input);
            self.redirect_lost(id);
        } else if self.exceeds_pfmr(id) {
            self.suspect(now, id);
        }
        self.doubt_announcement(now, id);
        self.consider_primary();
    }

    /// Counts an error because data timed out on a path that has failed already.
    pub(super) fn count_error_of_failed(&mut self, id: PathId) {
        let path = &mut self.paths[id];
        path.error_count = path.error_count.saturating_add(1);
        self.fail_over(Input::TimedOut(id));
        self.consider_primary();
    }

    // req: rfc7829 5 "MUST autonomously select and set a new primary path"
    // req: rfc7829 5 "MUST be the path that, at the given time, would be chosen for data transfer"
    fn consider_primary(&mut self) {
        if self.may_give_up_primary() {
            self.fail_over(Input::GiveUpPrimary);
        }
    }

    /// Counts a retransmission that was not answered (RFC 9260 section 8.1).
    // req: rfc9260 8.1 "SHOULD keep a counter on the total"
    // exempt: rfc9260 8.1 "SHOULD consider the peer endpoint unreachable" with vigilance not before the timeouts of one path would have come to the limit, since the errors of several paths come faster
    pub(super) fn count_association_error(&mut self, now: Instant) {
        if self.watch.error_count == 0 {
            self.watch.silence_begins(now);
        }
        self.watch.error_count = self.watch.error_count.saturating_add(1);
        // req: rfc9260 8.1 "SHOULD consider the peer endpoint unreachable"
        if self.watch.error_count > self.config.paths.association_max_retrans
            && self.has_been_patient(now)
        {
            self.outbox.chunks.clear();
            // req: rfc9260 8.1 "SHALL stop transmitting any more data to"
            // req: rfc9260 8.1 "SHOULD report the failure to the upper"
            mark!(Unreachable);
            self.close(CloseReason::Unreachable);
        }
    }

    pub(super) fn set_path_state(&mut self, now: Instant, id: PathId, state: PathState) {
        let path = &mut self.paths[id];
        if path.state == state {
            return;
        }
        match (path.state, state) {
            (PathState::Inactive, PathState::Active) => mark!(PathBack),
            (PathState::PotentiallyFailed, PathState::Active) => mark!(PotentiallyFailedBack),
            (_, PathState::Active) => mark!(PathConfirmed),
            (_, PathState::PotentiallyFailed) => mark!(PathPotentiallyFailed),
            (PathState::PotentiallyFailed, PathState::Inactive) => mark!(PotentiallyFailedFailed),
            (_, PathState::Inactive) => mark!(PathFailed),
            (_, PathState::Unconfirmed) => {}
        }
        let was_doubtful = path.is_potentially_failed();
        path.state = state;
        match state {
            PathState::Active => {
                self.identity.changed |= !path.is_verified();
                path.activate();
                path.mtu.on_path_confirmed();
                if was_doubtful && let Some(multipath) = self.config.concurrent() {
                    mark!(RecoveredWindow);
                    self.sender.on_recovered(now, id, multipath.recovered_cwnd_mtus);
                }
            }
            PathState::Inactive => {
                path.mtu.on_path_lost();
                self.mtu_changed(now, id);
            }
            // Its windows and its path MTU apply to data again when it recovers.
            // req: rfc7829 3.2 "it MUST do this following the prescriptions of Section 7.2"
            PathState::PotentiallyFailed | PathState::Unconfirmed => {}
        }
        let (local, remote) = (self.paths[id].local, self.paths[id].remote);
        if state == PathState::Inactive {
            self.announce_again(now, local);
        }
        self.choose_concurrent_paths();
        tracing::debug!(path = %id, %remote, %state, "path state");
        // req: rfc7829 3.2 "as well as provide the means to notify the ULP of state transitions"
        // req: rfc7829 3.2 "notify the Upper Layer Protocol (ULP) about this state transition"
        // req: rfc9260 8.2 "a notification SHOULD be sent to the upper layer"
        self.news.notify(Notification::PathChanged { path: id, local, remote, state });
        if state == PathState::Active && !self.paths[id].detached {
            self.leave_all_detached(now);
        }
    }

    /// Handles an ABORT on a path with this side's tag reflected: the host there does not know the association. If the
    /// peer has never answered on this path, but has on another, that says nothing about the peer: a NAT may have
    /// translated the address, or the listed or configured address is not the peer's. In this case the path fails and
    /// is probed ever more rarely, the association continues, and the result is `true`.
    // exempt: rfc9260 8.5.1 "The receiver of an ABORT chunk MUST accept" on a path that the peer has not answered on beside one that it has a reflected tag ends the path only, since it answers a HEARTBEAT that the peer takes for one out of the blue (section 8.4)
    pub(super) fn disown_path(&mut self, now: Instant, id: PathId) -> bool {
        let elsewhere = self.paths.iter().find(|path| path.proven).map(|path| path.id);
        if elsewhere.is_none() || self.paths[id].proven {
            return false;
        }
        mark!(PathRefused);
        self.identity.changed |= self.paths[id].is_verified();
        self.paths[id].disown();
        self.on_refused_address(now, id);
        // It may have carried data because the user vouched for it.
        self.fail_over(Input::Failed(id));
        if let Some(to) = elsewhere.filter(|_| !self.paths[self.paths.active()].is_verified()) {
            self.use_path(to);
        }
        let active = self.paths.active();
        if self.sender.in_flight(id) {
            self.sender.lose_flight(id, Cause::WrongAddress, active, &mut self.paths);
        }
        self.sender.redirect(id, active);
        self.sender.begin_burst();
        true
    }

    /// Handles an answer to something sent on path `id`.
    // req: rfc9260 8.2 "SHOULD clear the error counter of the destination"
    // req: rfc7829 3.2 "MUST transition a destination address in PF state back to active state"
    pub(super) fn path_works(&mut self, now: Instant, id: PathId) {
        let path = &mut self.paths[id];
        path.error_count = 0;
        path.proven = true;
        path.stats.end_timeout_run();
        let before = path.state;
        if matches!(before, PathState::PotentiallyFailed | PathState::Inactive) {
            self.set_path_state(now, id, PathState::Active);
            if before == PathState::PotentiallyFailed {
                // A missing answer to a heartbeat in flight no longer counts.
                self.paths[id].heartbeat.excuse();
                self.schedule_heartbeat(now, id);
            }
            self.fail_over(Input::Responds(id));
        }
    }
}
