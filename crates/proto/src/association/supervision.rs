//! Path supervision: error counters, failover and return, heartbeats, MTU probes.

use std::net::IpAddr;
use std::time::Duration;

use super::Association;
use super::state::State;
use crate::config::{HeartbeatRetry, ProtocolUnreachable};
use crate::event::{CloseReason, Event, PathId, PathState};
use crate::marks::mark;
use crate::path::{HeartbeatInfo, Path, heartbeat};
use crate::policy::failover::Input;
use crate::recovery::ack::AckSummary;
use crate::time::Instant;

impl Association {
    /// Starts heartbeats when the association is up: those that verify paths at once, a few in
    /// each RTO.
    // req: rfc9260 5.4 "SHOULD be limited by the 'HB.Max.Burst' parameter"
    pub(super) fn start_supervision(&mut self, now: Instant) {
        self.choose_concurrent_paths();
        let burst = self.config.hb_max_burst.max(1);
        let mut unconfirmed = 0;
        for index in 0..self.paths.len() {
            if self.paths[index].state == PathState::Unconfirmed {
                let wait = self.config.rto_initial * (unconfirmed / burst);
                self.paths[index].heartbeat.schedule(Some(now + wait));
                unconfirmed += 1;
            } else {
                self.paths[index].mtu.on_path_confirmed();
                self.schedule_heartbeat(now, index);
            }
            self.paths[index].last_probe = now;
        }
    }

    pub(super) fn stop_heartbeats(&mut self) {
        for path in &mut self.paths {
            path.heartbeat = crate::path::Heartbeat::default();
        }
    }

    /// The next regular heartbeat of a path.
    pub(super) fn schedule_heartbeat(&mut self, from: Instant, index: usize) {
        if self.paths[index].is_potentially_failed() {
            // The end of the RTO brings the next one.
            // req: rfc7829 3.2 "MUST be ignored for destination addresses in PF state"
            self.paths[index].heartbeat.schedule(None);
            return;
        }
        let path = &self.paths[index];
        let rto = path.rtt.rto();
        let rarer = path.verification_back_off(self.config.path_max_retrans);
        let mut due = self
            .config
            .heartbeat_interval
            .map(|interval| from + heartbeat::period(interval * rarer, rto, &mut self.rng));
        if self.measures_loss() {
            // Not before the one on its way counts as unanswered: a later one would take its place.
            let probe = from + self.config.loss_probe_interval.max(rto);
            due = Some(due.map_or(probe, |due| due.min(probe)));
        }
        self.paths[index].heartbeat.schedule(due);
    }

    /// Whether a heartbeat is to leave on a path now. Paths that carried data since the last
    /// one are not idle and wait for another period.
    // req: rfc9260 8.3 "SHOULD monitor the reachability of the"
    pub(super) fn on_heartbeat_timer(&mut self, now: Instant, index: usize) {
        if self.paths[index].heartbeat.take_unanswered(now) {
            self.heartbeat_unanswered(now, index);
            if self.is_closed() {
                return;
            }
        }
        let path = &self.paths[index];
        let mut interval = self.config.heartbeat_interval.unwrap_or(Duration::ZERO);
        if self.measures_loss() {
            interval = interval.min(self.config.loss_probe_interval);
        }
        if !path.heartbeat.is_due(now) {
            return;
        }
        let idle = path.last_probe + interval <= now;
        if path.is_active() && !idle && !path.heartbeat.is_demanded() {
            self.schedule_heartbeat(path.last_probe, index);
        } else {
            self.paths[index].heartbeat.make_ready();
        }
    }

    // req: rfc9260 8.3 "SHOULD increment the respective error counter of"
    fn heartbeat_unanswered(&mut self, now: Instant, index: usize) {
        let state = self.paths[index].state;
        self.paths[index].loss.on_probe(false);
        if self.is_left_to_data(index) {
            self.probe_potentially_failed(now, index);
            return;
        }
        self.paths[index].rtt.back_off();
        self.count_path_error(now, index);
        // req: rfc9260 8.1 "Unacknowledged HEARTBEAT chunks observed on paths"
        // An unconfirmed path says nothing about the peer (RFC 9260 section 5.4).
        if index == self.active && state != PathState::Unconfirmed {
            self.count_association_error();
        }
        if self.is_closed() || !self.state.heartbeats() {
            return;
        }
        if self.paths[index].state == PathState::Unconfirmed {
            // The others have their turn before it, so that a long list of addresses that do
            // not answer costs no more than HB.Max.Burst in an RTO either.
            let others =
                self.paths.iter().filter(|path| path.state == PathState::Unconfirmed).count() - 1;
            let turns = u32::try_from(others).unwrap_or(u32::MAX) / self.config.hb_max_burst.max(1);
            self.paths[index].heartbeat.schedule(Some(now + self.config.rto_initial * turns));
        } else if self.repeats_heartbeats_at_once()
            && self.paths[index].is_verified()
            && !self.paths[index].is_potentially_failed()
        {
            self.paths[index].heartbeat.demand(now);
        } else if state == PathState::Unconfirmed {
            // It has become inactive: the rate is that of other heartbeats from now on.
            self.schedule_heartbeat(now, index);
        }
    }

    fn repeats_heartbeats_at_once(&self) -> bool {
        self.config.heartbeat_retry == HeartbeatRetry::AtOnce
            && self.config.heartbeat_interval.is_some()
    }

    /// Whether idle paths are probed for their loss.
    fn measures_loss(&self) -> bool {
        self.config.informed_failover
            && self.config.change_primary_threshold.is_some()
            && self.paths.len() > 1
    }

    /// One error more on a path (RFC 9260 section 8.2).
    pub(super) fn count_path_error(&mut self, now: Instant, index: usize) {
        let path = &mut self.paths[index];
        // req: rfc9260 8.2 "SHOULD keep an error counter for each"
        path.error_count = path.error_count.saturating_add(1);
        // req: rfc9260 8.3 "SHOULD mark the corresponding destination address as"
        let before = path.state;
        if before != PathState::Inactive && path.error_count > self.config.path_max_retrans {
            // RFC 7829 section 3.2, 8.
            self.set_path_state(index, PathState::Inactive);
            if self.repeats_heartbeats_at_once() && self.paths[index].is_verified() {
                self.paths[index].heartbeat.demand(now);
            } else if before == PathState::PotentiallyFailed {
                self.schedule_heartbeat(now, index);
            }
            let input = match before {
                PathState::PotentiallyFailed => Input::TimedOut(index),
                _ => Input::Failed(index),
            };
            self.fail_over(input);
            self.redirect_lost(index);
        } else if self.exceeds_pfmr(index) {
            self.suspect(now, index);
        }
        self.consider_primary();
    }

    /// Data timed out on a path that has failed: one error more.
    pub(super) fn count_error_of_failed(&mut self, index: usize) {
        let path = &mut self.paths[index];
        path.error_count = path.error_count.saturating_add(1);
        self.fail_over(Input::TimedOut(index));
        self.consider_primary();
    }

    // req: rfc7829 5 "MUST autonomously select and set a new primary path"
    // req: rfc7829 5 "MUST be the path that, at the given time, would be chosen for data transfer"
    fn consider_primary(&mut self) {
        if self.may_give_up_primary() {
            self.fail_over(Input::GiveUpPrimary);
        }
    }

    /// One retransmission more without an answer (RFC 9260 section 8.1).
    // req: rfc9260 8.1 "SHOULD keep a counter on the total"
    pub(super) fn count_association_error(&mut self) {
        self.error_count = self.error_count.saturating_add(1);
        // req: rfc9260 8.1 "SHOULD consider the peer endpoint unreachable"
        if self.error_count > self.config.association_max_retrans {
            self.control.clear();
            // req: rfc9260 8.1 "SHALL stop transmitting any more data to"
            // req: rfc9260 8.1 "SHOULD report the failure to the upper"
            mark!(Unreachable);
            self.close(CloseReason::Unreachable);
        }
    }

    pub(super) fn set_path_state(&mut self, index: usize, state: PathState) {
        let path = &mut self.paths[index];
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
                self.paths_changed |= !path.is_verified();
                path.activate();
                path.mtu.on_path_confirmed();
                if was_doubtful && let Some(multipath) = self.config.multipath {
                    mark!(RecoveredWindow);
                    path.congestion.on_recovered(multipath.recovered_cwnd_mtus);
                }
            }
            PathState::Inactive => {
                path.mtu.on_path_lost();
                path.mtu_changed();
            }
            // Its windows and its MTU are those that data finds when it is back.
            // req: rfc7829 3.2 "it MUST do this following the prescriptions of Section 7.2"
            PathState::PotentiallyFailed | PathState::Unconfirmed => {}
        }
        let (local, remote) = (path.local, path.remote);
        self.choose_concurrent_paths();
        tracing::debug!(path = index, %remote, %state, "path state");
        // req: rfc7829 3.2 "as well as provide the means to notify the ULP of state transitions"
        // req: rfc7829 3.2 "notify the Upper Layer Protocol (ULP) about this state transition"
        // req: rfc9260 8.2 "a notification SHOULD be sent to the upper layer"
        self.events.push_back(Event::PathChanged {
            path: PathId(index as u8),
            local,
            remote,
            state,
        });
    }

    /// Something on path `index` was answered.
    // req: rfc9260 8.2 "SHOULD clear the error counter of the destination"
    // req: rfc7829 3.2 "MUST transition a destination address in PF state back to active state"
    pub(super) fn path_works(&mut self, now: Instant, index: usize) {
        let path = &mut self.paths[index];
        path.error_count = 0;
        path.stats.timeout_runs.end();
        let before = path.state;
        if matches!(before, PathState::PotentiallyFailed | PathState::Inactive) {
            self.set_path_state(index, PathState::Active);
            if before == PathState::PotentiallyFailed {
                // A heartbeat on its way has no more to prove.
                self.paths[index].heartbeat.excuse();
                self.schedule_heartbeat(now, index);
            }
            self.fail_over(Input::Responds(index));
        }
    }

    /// A HEARTBEAT ACK came.
    pub(super) fn on_heartbeat_ack(&mut self, now: Instant, info: HeartbeatInfo) {
        if self.on_challenge_answer(now, info) {
            return;
        }
        let index = usize::from(info.path);
        let Some(path) = self.paths.get_mut(index) else { return };
        if info.probe != 0 {
            if path.heartbeat.is_probe_ack(info.nonce) {
                path.mtu.on_probe_acked(now, info.probe);
                path.mtu_changed();
            }
            return;
        }
        // A nonce that was not sent, or long ago, does not count (RFC 9260 section 5.4).
        let Some(rtt) = path.heartbeat.on_ack(now, info.nonce) else { return };
        path.stats.heartbeats_acked += 1;
        path.loss.on_probe(true);
        // req: rfc9260 8.3 "SHOULD also perform an RTT"
        path.rtt.on_measurement(rtt);
        // A timer from before the interface came back may have been backed off for long.
        if std::mem::take(&mut path.regained)
            && let Some(t3) = &mut path.t3
        {
            *t3 = (*t3).min(now + path.rtt.rto());
        }
        // req: rfc9260 8.3 "SHOULD clear the error counter of the"
        path.error_count = 0;
        path.stats.timeout_runs.end();
        // req: rfc9260 8.3 "SHOULD also clear the association overall error count"
        // req: rfc9260 8.1 "the counter SHOULD also be reset"
        // A heartbeat that leaves because data timed out must not keep an association alive in which
        // heartbeats get through and data does not.
        if !self.paths[index].is_potentially_failed() || self.outstanding.is_empty() {
            self.error_count = 0;
        }
        // req: rfc7829 3.2 "SHOULD clear the error counter of the destination address and transition"
        if self.paths[index].state != PathState::Active {
            self.set_path_state(index, PathState::Active);
            self.fail_over(Input::Responds(index));
        }
        if self.state.heartbeats() {
            self.schedule_heartbeat(now, index);
        }
    }

    /// Makes the HEARTBEAT for a path; the packet that carries it leaves now.
    // req: rfc9260 3.3.5 "SHOULD send a HEARTBEAT (HB) chunk to its"
    // req: rfc9260 8.3 "SHOULD include in the Heartbeat Information field"
    pub(super) fn next_heartbeat(&mut self, now: Instant, index: usize) -> HeartbeatInfo {
        let nonce = self.rng.next_u64();
        let rto = self.paths[index].rtt.rto();
        let path = &mut self.paths[index];
        let unconfirmed = path.state == PathState::Unconfirmed;
        path.heartbeat.on_sent(now, nonce, rto);
        path.last_probe = now;
        path.stats.heartbeats_sent += 1;
        self.receiver.trim();
        self.summary = AckSummary::default();
        if !unconfirmed {
            self.schedule_heartbeat(now, index);
        }
        HeartbeatInfo { path: index as u8, probe: 0, nonce }
    }

    /// Makes the HEARTBEAT that probes a path for IP packets of `size` bytes.
    // req: rfc8899 6.2 "The RECOMMENDED method for generating probes"
    // req: rfc8899 6.2 "defined in RFC4820 SHOULD be attached to a"
    // req: rfc8899 6.2.2 "The RECOMMENDED method for determining the MTU of"
    // req: rfc8899 3 "It is RECOMMENDED to use probe packets"
    // req: rfc8899 3 "Flow control SHOULD NOT apply to DPLPMTU when"
    pub(super) fn next_mtu_probe(
        &mut self,
        now: Instant,
        index: usize,
        size: u16,
    ) -> HeartbeatInfo {
        // Never 0, which stands for no probe.
        let nonce = self.rng.next_u64() | 1;
        let path = &mut self.paths[index];
        path.heartbeat.on_probe_sent(nonce);
        let rto = path.rtt.rto();
        path.mtu.on_probe_sent(now, size, rto);
        HeartbeatInfo { path: index as u8, probe: size, nonce }
    }

    /// The driver could not send to a path at all. It counts like an expiry of the path's
    /// timer, at most once in an RTO.
    pub(crate) fn on_send_error(&mut self, now: Instant, local: IpAddr, remote: IpAddr) {
        let pair = |path: &Path| path.local == local && path.remote == remote;
        let Some(index) = self.paths.iter().position(pair) else { return };
        if self.is_closed() || now < self.paths[index].next_send_error {
            return;
        }
        let rto = self.paths[index].rtt.rto();
        self.paths[index].next_send_error = now + rto;
        if self.outstanding.in_flight(index) {
            mark!(SendErrorInFlight);
            self.on_t3(now, index);
        } else if self.is_established() {
            self.count_path_error(now, index);
        }
    }

    /// A local address can no longer be used, or again.
    ///
    /// Its paths do not wait for timeouts then, as long as there is another path: what is not
    /// acknowledged goes there. When it can be used again, its paths are probed at once.
    pub(crate) fn on_local_address(&mut self, now: Instant, local: IpAddr, usable: bool) {
        if !self.is_established() {
            return;
        }
        for index in 0..self.paths.len() {
            let path = &mut self.paths[index];
            if path.local != local {
                continue;
            }
            let attached = std::mem::replace(&mut path.detached, !usable) && usable;
            if attached {
                // The interface may be in another network by now.
                // req: rfc9260 7.2.5 "When detected by an SCTP implementation"
                // req: rfc9260 7.2.5.2 "If such a routing change happens"
                path.congestion.reinitialize();
            }
            if usable {
                if self.state.heartbeats() {
                    path.heartbeat.demand(now);
                    path.regained = true;
                }
                continue;
            }
            let alternative =
                self.paths.iter().any(|other| other.local != local && other.is_active());
            let path = &self.paths[index];
            if alternative && (path.is_active() || path.is_potentially_failed()) {
                mark!(AddressVanished);
                self.paths[index].error_count = self.config.path_max_retrans;
                if self.outstanding.in_flight(index) {
                    self.on_t3(now, index);
                } else {
                    self.count_path_error(now, index);
                }
                if self.is_closed() {
                    return;
                }
            }
        }
    }

    /// IP packets between two addresses must not exceed `mtu` bytes: a router said so, or the
    /// `local_interface` did.
    pub(crate) fn on_packet_too_big(
        &mut self,
        now: Instant,
        (local, remote): (IpAddr, IpAddr),
        mtu: u16,
        local_interface: bool,
    ) {
        let pair = |path: &Path| path.local == local && path.remote == remote;
        let Some(index) = self.paths.iter().position(pair) else { return };
        let path = &mut self.paths[index];
        let before = path.mtu.current();
        if local_interface {
            path.mtu.on_local_limit(now, mtu);
        } else {
            path.mtu.on_packet_too_big(now, mtu);
        }
        if path.mtu.current() < before {
            path.mtu_changed();
            // What is in flight in larger packets is lost; it need not wait for the timer.
            self.resend_too_big(now, index);
        }
    }

    /// A validated ICMP message says that a destination cannot be reached.
    // req: rfc9260 10 "alternatively, increment the path error counter"
    pub(crate) fn on_unreachable(&mut self, now: Instant, local: IpAddr, remote: IpAddr) {
        self.on_send_error(now, local, remote);
    }

    /// A validated ICMP message says that nothing listens on the UDP port of a path. An INIT goes
    /// to the next address at once, or the association is given up if none is left.
    // exempt: rfc6951 5.5 "processed, the following mapping SHOULD apply" a peer that was there may come back, or answer on another path, so that only the path is blamed
    // exempt: rfc6951 5.5 "SHOULD be treated as ICMP messages with type" a peer that was there may come back, or answer on another path, so that only the path is blamed
    // exempt: rfc6951 5.5 "SHOULD be treated as ICMPv6 messages with type" a peer that was there may come back, or answer on another path, so that only the path is blamed
    pub(crate) fn on_port_unreachable(
        &mut self,
        now: Instant,
        (local, remote): (IpAddr, IpAddr),
        quotes_init: bool,
    ) {
        if !quotes_init {
            self.on_unreachable(now, local, remote);
            return;
        }
        self.refused(now, (local, remote), CloseReason::PortUnreachable);
    }

    /// A validated ICMP message says that the peer has no SCTP. About an INIT it counts in
    /// COOKIE-WAIT only; otherwise [`ProtocolUnreachable`] says when it is believed.
    // req: rfc9260 10 "MUST treat this message as an abort with"
    pub(crate) fn on_protocol_unreachable(
        &mut self,
        now: Instant,
        pair: (IpAddr, IpAddr),
        quotes_init: bool,
    ) {
        if quotes_init {
            self.refused(now, pair, CloseReason::NoSctp);
            return;
        }
        let believed = match self.config.protocol_unreachable {
            ProtocolUnreachable::Aborts => true,
            ProtocolUnreachable::AbortsWhenRepeated => {
                let since = *self.no_sctp_since.get_or_insert(now);
                now >= since + self.paths[self.active].rtt.rto()
            }
        };
        if !believed {
            return;
        }
        self.control.clear();
        self.close(CloseReason::NoSctp);
    }

    /// An address that an INIT went to refuses, as with an ABORT: the next one is asked.
    fn refused(&mut self, now: Instant, (local, remote): (IpAddr, IpAddr), reason: CloseReason) {
        let pair = |path: &Path| path.local == local && path.remote == remote;
        let Some(index) = self.paths.iter().position(pair) else { return };
        if matches!(self.state, State::CookieWait { .. }) && !self.drop_candidate(now, index) {
            self.control.clear();
            self.close(reason);
        }
    }
}
