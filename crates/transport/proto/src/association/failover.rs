//! Failover and return: how the state machine of `policy/failover.rs` affects an association.

use super::Association;
use crate::config::DataPath;
use crate::event::Notification;
use crate::marks::mark;
use crate::path::{Failover, Path, Phase};
use crate::per_path::PathId;
use crate::policy::failover::{Input, View};
use crate::policy::{self, disjoint};
use crate::time::Instant;

impl Association {
    /// Applies a change of a path, or of the choice of paths.
    // req: rfc9260 6.4.1 "send the data to an alternate active destination"
    // req: rfc9260 8.2 "only ONE transport address SHOULD be chosen"
    // req: rfc7829 3.2 "SHOULD choose a destination address in active state, if one exists, and use"
    // req: rfc7829 3.2 "the sender MUST choose one destination address in PF state"
    // req: rfc7829 4.1 "the sender MUST choose one destination and transmit data"
    // req: rfc7829 4.1 "MUST NOT change the state of the chosen destination address"
    // req: rfc7829 4.1 "MUST NOT clear the error counter of the destination address as a result"
    // req: rfc7829 4 "MUST NOT be coupled to the value of the PFMR"
    // req: rfc7829 4 "SHOULD operate as described in Section 4.1 during dormant state"
    pub(super) fn fail_over(&mut self, input: Input) {
        let before = self.paths.choice();
        let paths = &self.paths;
        let after = before.step(
            input,
            &View {
                dormant: self.config.paths.dormant,
                is_active: &|path| paths[path].is_active(),
                alternate: &|path| policy::alternate(paths, path),
                potentially_failed: &|path| {
                    policy::fewest_errors(paths, path, |path| {
                        path.is_potentially_failed() && path.may_carry()
                    })
                },
                fewest_errors: &|path| policy::fewest_errors(paths, path, Path::may_carry),
                next_usable: &|path| {
                    paths.in_turn_after(path).find(|path| paths[*path].may_carry())
                },
            },
        );
        if after == before {
            return;
        }
        self.paths.choose(after.phase, after.primary);
        self.tell_failover(input, before, after);
        if after.in_use != before.in_use {
            self.use_path(after.in_use);
            if !self.paths[before.in_use].is_active() {
                self.sender.redirect(before.in_use, after.in_use);
            }
        }
    }

    fn tell_failover(&mut self, input: Input, before: Failover, after: Failover) {
        let remote = self.paths[after.in_use].remote;
        let to = after.in_use;
        let event = match (input, before.phase, after.phase) {
            (Input::SetPrimary(_), ..) => {
                mark!(PrimaryChosen);
                return;
            }
            (Input::Failed(_) | Input::TimedOut(_), phase, Phase::Dormant)
                if phase != Phase::Dormant =>
            {
                mark!(Dormant);
                Notification::Dormant
            }
            (Input::Failed(_), _, Phase::PotentiallyFailed) => {
                mark!(AllPotentiallyFailed);
                if after.in_use == before.in_use {
                    return;
                }
                let from = before.in_use;
                Notification::FailedOver { from, to, remote, permanent: false }
            }
            (Input::Failed(_), phase, _) => {
                match phase {
                    Phase::Alternate => mark!(FailedOverTwice),
                    _ => mark!(FailedOver),
                }
                let from = before.in_use;
                Notification::FailedOver { from, to, remote, permanent: false }
            }
            (Input::GiveUpPrimary, ..) => {
                mark!(PrimaryGivenUp);
                let from = before.primary;
                Notification::FailedOver { from, to, remote, permanent: true }
            }
            // Data does not return to the path that it already uses.
            (Input::Responds(_), Phase::PotentiallyFailed, _) if after.in_use == before.in_use => {
                return;
            }
            (Input::Responds(_), phase, _) => {
                if phase == Phase::Dormant {
                    mark!(DormantEnded);
                }
                Notification::Recovered { path: to, remote }
            }
            (Input::TimedOut(_), _, phase) => {
                match phase {
                    Phase::PotentiallyFailed => mark!(PotentiallyFailedMoved),
                    _ => mark!(DormantMoved),
                }
                return;
            }
        };
        tracing::debug!(?event, "failover");
        self.news.notify(event);
    }

    /// Whether to make the failover of the primary path permanent (caro 3.4, RFC 7829 section 5): its
    /// error count exceeds the change-primary threshold, and there is no evidence against it.
    // req: rfc7829 5 "MUST support the setting of PSMR = PFMR"
    // req: rfc7829 5 "MUST support the setting of PSMR = PMR"
    // req: rfc7829 5 "It MUST be possible to disable the Primary Path Switchover operation"
    // exempt: rfc7829 5 "the PSMR MUST be set greater than or equal to the PMR value" the primary path is given up after its failover only, so that a lower value takes effect as PMR does; the studies have such values
    pub(super) fn may_give_up_primary(&self) -> bool {
        let exceeded = (self.config.paths.change_primary_threshold)
            .is_some_and(|threshold| self.paths[self.paths.primary()].error_count > threshold);
        if !exceeded || self.paths.phase() == Phase::Primary {
            return false;
        }
        let promising = !self.config.paths.informed_failover || self.promises_more() == Some(true);
        if !promising {
            mark!(PrimaryKept);
        }
        promising
    }

    /// Whether the path in use promises more throughput than the primary one.
    fn promises_more(&self) -> Option<bool> {
        let estimate = |path: PathId| {
            let path = &self.paths[path];
            (path.rtt.srtt(), path.loss.loss())
        };
        policy::informed::is_better(estimate(self.paths.primary()), estimate(self.paths.active()))
    }

    /// Sends chunks that wait for retransmission on a failed path on another one.
    pub(super) fn redirect_lost(&mut self, failed: PathId) {
        let next = self.sender.path_after_timeout(failed, &self.paths);
        if self.paths[next].may_carry() {
            self.sender.redirect(failed, next);
        }
    }

    /// Chooses again which paths carry data together, after a path was added or removed, or another one is in use.
    pub(super) fn choose_concurrent_paths(&mut self) {
        if self.config.multipath.is_on() {
            let active = self.paths.active();
            disjoint::choose(&mut self.paths, active);
        }
    }

    /// Moves new data to the path with the lowest latency, if an option says so.
    pub(super) fn follow_latency(&mut self, now: Instant) {
        let follows = self.config.paths.data_path == DataPath::LowestLatency;
        if !follows || self.config.multipath.is_on() || !self.state.sends_data() {
            return;
        }
        let (current, moved) = (self.paths.active(), self.paths.moved(now));
        if self.paths[current].is_active()
            && let Some(path) = policy::lowest_latency(now, current, moved, &self.paths)
        {
            mark!(LowerLatency);
            self.paths.on_moved(now);
            self.use_path(path);
        }
    }

    /// Makes `id` the path for new data.
    pub(super) fn use_path(&mut self, id: PathId) {
        if self.paths.active() == id {
            return;
        }
        self.paths.activate(id);
        self.choose_concurrent_paths();
        let remote = self.paths[id].remote;
        self.news.notify(Notification::ActivePathChanged { path: id, remote });
    }
}
