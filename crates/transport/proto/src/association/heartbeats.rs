//! Heartbeats: when to send them, the effect of an answer or of its absence, and probes of the path MTU.

use std::time::Duration;

use super::Association;
use crate::config::HeartbeatRetry;
use crate::event::PathState;
use crate::path::{HeartbeatInfo, heartbeat};
use crate::per_path::PathId;
use crate::policy::failover::Input;
use crate::time::Instant;

/// Time between heartbeats, if none are configured, while no path is known to lead to the peer (RFC 9260 section 16:
/// HB.interval).
const LOST_INTERVAL: Duration = Duration::from_secs(30);

impl Association {
    /// Starts heartbeats when the association is established. Those that verify paths are sent
    /// immediately, a few per RTO.
    // req: rfc9260 5.4 "SHOULD be limited by the 'HB.Max.Burst' parameter"
    pub(super) fn start_supervision(&mut self, now: Instant) {
        self.choose_concurrent_paths();
        let burst = self.config.paths.hb_max_burst.max(1);
        let mut unconfirmed = 0;
        for id in self.paths.ids_now() {
            if self.paths[id].state == PathState::Unconfirmed {
                let wait = self.config.timers.rto_initial * (unconfirmed / burst);
                self.paths[id].heartbeat.schedule(Some(now + wait));
                unconfirmed += 1;
            } else {
                self.paths[id].mtu.on_path_confirmed();
                self.schedule_heartbeat(now, id);
            }
            self.paths[id].last_probe = now;
        }
    }

    pub(super) fn stop_heartbeats(&mut self) {
        for path in self.paths.iter_mut() {
            path.heartbeat = crate::path::Heartbeat::default();
        }
    }

    /// Schedules the next regular heartbeat of a path.
    pub(super) fn schedule_heartbeat(&mut self, from: Instant, id: PathId) {
        if self.paths[id].is_potentially_failed() {
            // The next one is sent at the end of the RTO.
            // req: rfc7829 3.2 "MUST be ignored for destination addresses in PF state"
            self.paths[id].heartbeat.schedule(None);
            return;
        }
        let path = &self.paths[id];
        let rto = path.rtt.rto();
        // Nothing else is sent on paths that are not verified: without HEARTBEATs it would never be found out that the
        // peer is gone.
        let (least, rarer) = match self.has_lost_its_way() {
            true => (Some(LOST_INTERVAL), 1),
            false => (None, path.heartbeat_back_off(self.config.paths.path_max_retrans)),
        };
        let interval = self.config.timers.heartbeat_interval.or(least);
        let mut due =
            interval.map(|interval| from + heartbeat::period(interval * rarer, rto, &mut self.rng));
        if let Some(interval) = self.probe_interval() {
            // Do not send it before the outstanding probe counts as unanswered, because it would replace
            // that probe.
            let probe = from + interval.max(rto);
            due = Some(due.map_or(probe, |due| due.min(probe)));
        }
        self.paths[id].heartbeat.schedule(due);
    }

    /// Whether to send a heartbeat on a path now. Paths that carried data since the last one are not
    /// idle and wait for another period.
    // req: rfc9260 8.3 "SHOULD monitor the reachability of the"
    pub(super) fn on_heartbeat_timer(&mut self, now: Instant, id: PathId) {
        if self.paths[id].heartbeat.take_unanswered(now) {
            self.heartbeat_unanswered(now, id);
            if self.is_closed() {
                return;
            }
        }
        let path = &self.paths[id];
        let mut interval = self.config.timers.heartbeat_interval.unwrap_or(Duration::ZERO);
        if let Some(probes) = self.probe_interval() {
            interval = interval.min(probes);
        }
        if !path.heartbeat.is_due(now) {
            return;
        }
        let idle = path.last_probe + interval <= now;
        if path.is_active() && !idle && !path.heartbeat.is_demanded() {
            self.schedule_heartbeat(path.last_probe, id);
        } else {
            self.paths[id].heartbeat.make_ready();
        }
    }

    // req: rfc9260 8.3 "SHOULD increment the respective error counter of"
    fn heartbeat_unanswered(&mut self, now: Instant, id: PathId) {
        let state = self.paths[id].state;
        self.paths[id].loss.on_probe(false);
        if self.is_left_to_data(id) {
            self.probe_potentially_failed(now, id);
            return;
        }
        self.paths[id].rtt.back_off();
        self.count_path_error(now, id);
        // req: rfc9260 8.1 "Unacknowledged HEARTBEAT chunks observed on paths"
        // An unconfirmed path says nothing about the peer (RFC 9260 section 5.4).
        if id == self.paths.active() && (state != PathState::Unconfirmed || self.has_lost_its_way())
        {
            self.count_association_error(now);
        }
        if self.is_closed() || !self.state.heartbeats() {
            return;
        }
        if self.paths[id].state == PathState::Unconfirmed {
            // The other unconfirmed paths come first, so that even a long list of silent addresses costs
            // at most HB.Max.Burst heartbeats per RTO.
            let others =
                self.paths.iter().filter(|path| path.state == PathState::Unconfirmed).count() - 1;
            let turns =
                u32::try_from(others).unwrap_or(u32::MAX) / self.config.paths.hb_max_burst.max(1);
            self.paths[id].heartbeat.schedule(Some(now + self.config.timers.rto_initial * turns));
        } else if self.repeats_heartbeats_at_once()
            && self.paths[id].is_verified()
            && !self.paths[id].is_potentially_failed()
        {
            self.paths[id].heartbeat.demand(now);
        } else if state == PathState::Unconfirmed {
            // It has become inactive: use the rate of other heartbeats from now on.
            self.schedule_heartbeat(now, id);
        }
    }

    /// Verifies a path on which the peer sent a heartbeat. A translator may have dropped earlier ones, because nothing
    /// had left through it, and the next one would come only after those for all other unconfirmed paths.
    pub(super) fn verify_in_return(&mut self, now: Instant, id: PathId) {
        let vigilant = self.config.paths.vigilance.is_some();
        if vigilant && self.state.heartbeats() && self.paths[id].state == PathState::Unconfirmed {
            self.paths[id].heartbeat.prompt(now);
        }
    }

    pub(super) fn repeats_heartbeats_at_once(&self) -> bool {
        self.config.paths.heartbeat_retry == HeartbeatRetry::AtOnce
            && self.config.timers.heartbeat_interval.is_some()
    }

    /// The time between heartbeats that probe idle paths for their loss or their latency, if they are probed.
    fn probe_interval(&self) -> Option<Duration> {
        let options = &self.config.paths;
        let loss = options.informed_failover && options.change_primary_threshold.is_some();
        let loss = loss.then_some(options.loss_probe_interval);
        let latency = self.config.needs_latencies().then_some(options.latency_probe_interval);
        loss.into_iter().chain(latency).min().filter(|_| self.paths.len() > 1)
    }

    /// Handles a HEARTBEAT ACK.
    pub(super) fn on_heartbeat_ack(&mut self, now: Instant, info: HeartbeatInfo) {
        if self.on_challenge_answer(now, info) {
            return;
        }
        let id = info.path;
        let Some(path) = self.paths.get_mut(id) else { return };
        if info.probe != 0 {
            if path.heartbeat.is_probe_ack(info.nonce) {
                path.proven = true;
                path.mtu.on_probe_acked(now, info.probe);
                self.mtu_changed(now, id);
            }
            return;
        }
        // A nonce that was never sent, or sent long ago, does not count (RFC 9260 section 5.4).
        let Some(rtt) = path.heartbeat.on_ack(now, info.nonce) else { return };
        path.proven = true;
        let timed_out = path.error_count > 0 || path.is_potentially_failed();
        path.stats.heartbeats_acked += 1;
        path.loss.on_probe(true);
        // req: rfc9260 8.3 "SHOULD also perform an RTT"
        path.rtt.on_measurement(rtt);
        self.follow_latency(now);
        self.sender.on_path_answer(now, id, rtt, &self.paths);
        let path = &mut self.paths[id];
        // A timer set before the interface came back may have been backed off for a long time.
        if std::mem::take(&mut path.regained) {
            self.sender.hasten(id, now + path.rtt.rto());
        }
        // req: rfc9260 8.3 "SHOULD clear the error counter of the"
        path.error_count = 0;
        path.stats.end_timeout_run();
        // req: rfc9260 8.3 "SHOULD also clear the association overall error count"
        // req: rfc9260 8.1 "the counter SHOULD also be reset"
        // A heartbeat that is sent because data timed out must not keep an association alive in which
        // heartbeats get through and data does not.
        if !self.paths[id].is_potentially_failed() || self.sender.has_all_acknowledged() {
            self.watch.error_count = 0;
        }
        // req: rfc7829 3.2 "SHOULD clear the error counter of the destination address and transition"
        if self.paths[id].state != PathState::Active {
            self.set_path_state(now, id, PathState::Active);
            self.fail_over(Input::Responds(id));
        }
        if timed_out {
            self.resume(now, id, now - rtt);
        }
        if self.state.heartbeats() {
            self.schedule_heartbeat(now, id);
        }
    }

    /// Makes the HEARTBEAT for a path; the packet that carries it is sent now.
    // req: rfc9260 3.3.5 "SHOULD send a HEARTBEAT (HB) chunk to its"
    // req: rfc9260 8.3 "SHOULD include in the Heartbeat Information field"
    pub(super) fn next_heartbeat(&mut self, now: Instant, id: PathId) -> HeartbeatInfo {
        let nonce = self.rng.next_u64();
        // Addresses that may not lead to the peer are not probed more often than necessary.
        let urgent = self.urgent_interval(now).filter(|_| self.paths[id].is_verified());
        let rto = self.paths[id].rtt.rto();
        let path = &mut self.paths[id];
        let unconfirmed = path.state == PathState::Unconfirmed;
        path.heartbeat.on_sent(now, nonce, rto, urgent.is_some());
        path.last_probe = now;
        path.stats.heartbeats_sent += 1;
        self.receiver.trim();
        if !unconfirmed {
            self.schedule_heartbeat(now, id);
            if let Some(interval) = urgent {
                let wait = self.until_asked_again(interval);
                self.paths[id].heartbeat.demand_at(now + wait);
            }
        }
        HeartbeatInfo { path: id, probe: 0, nonce }
    }

    /// Makes the HEARTBEAT that probes a path for IP packets of `size` bytes.
    // req: rfc8899 6.2 "The RECOMMENDED method for generating probes"
    // req: rfc8899 6.2 "defined in RFC4820 SHOULD be attached to a"
    // req: rfc8899 6.2.2 "The RECOMMENDED method for determining the MTU of"
    // req: rfc8899 3 "It is RECOMMENDED to use probe packets"
    // req: rfc8899 3 "Flow control SHOULD NOT apply to DPLPMTU when"
    pub(super) fn next_mtu_probe(&mut self, now: Instant, id: PathId, size: u16) -> HeartbeatInfo {
        // The nonce is never 0, which means "no probe".
        let nonce = self.rng.next_u64() | 1;
        let path = &mut self.paths[id];
        path.heartbeat.on_probe_sent(nonce);
        let rto = path.rtt.rto();
        path.mtu.on_probe_sent(now, size, rto);
        HeartbeatInfo { path: id, probe: size, nonce }
    }
}
