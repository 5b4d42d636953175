//! Handles reports of the host and the network: send errors, local addresses added or removed, ICMP.

use std::net::IpAddr;

use super::Association;
use super::state::State;
use crate::config::ProtocolUnreachable;
use crate::event::CloseReason;
use crate::marks::mark;
use crate::per_path::PathId;
use crate::send::Cause;
use crate::time::Instant;

impl Association {
    /// Handles a send error: the driver could not send to a path at all. If another path works, data in
    /// flight is retransmitted there immediately; otherwise it waits for the timer (without vigilance
    /// this acts like an expiry). The error counts against the path, at most once per RTO, but never
    /// against the peer, because a local error says nothing about the peer.
    pub(crate) fn on_send_error(&mut self, now: Instant, local: IpAddr, remote: IpAddr) {
        let Some(id) = self.path_between(local, remote) else { return };
        if self.is_closed() || now < self.paths[id].next_send_error {
            return;
        }
        let rto = self.paths[id].rtt.rto();
        self.paths[id].next_send_error = now + rto;
        let elsewhere = self.paths.iter().any(|path| path.id != id && path.is_active());
        if self.sender.in_flight(id) && (elsewhere || self.config.paths.vigilance().is_none()) {
            mark!(SendErrorInFlight);
            self.time_out(now, id, Cause::InterfaceGone);
        } else if self.is_established() && !self.paths[id].is_potentially_failed() {
            self.count_path_error(now, id);
        }
    }

    /// Handles a local address that has become unusable, or usable again.
    ///
    /// If it is unusable and there is another path, its paths do not wait for timeouts: unacknowledged
    /// data moves to the other path. If it is usable again, its paths are probed immediately.
    pub(crate) fn on_local_address(&mut self, now: Instant, local: IpAddr, usable: bool) {
        if !self.is_established() {
            return;
        }
        self.roam(now, local, usable);
        for id in self.paths.ids_now() {
            let path = &mut self.paths[id];
            if path.local != local {
                continue;
            }
            let attached = std::mem::replace(&mut path.detached, !usable) && usable;
            if attached {
                // The interface may be in another network now.
                // req: rfc9260 7.2.5 "When detected by an SCTP implementation"
                // req: rfc9260 7.2.5.2 "If such a routing change happens"
                self.sender.forget_network(now, id);
            }
            if usable {
                if self.state.heartbeats() {
                    path.heartbeat.demand(now);
                    path.regained = true;
                }
                continue;
            }
            self.leave_detached(now, id);
            if self.is_closed() {
                return;
            }
        }
        if usable {
            self.hasten_changes(now);
        }
    }

    /// Handles a path that leads to the peer again. Returns whether the association has it, and asks the peer there.
    pub(crate) fn on_path_answer(&mut self, now: Instant, local: IpAddr, remote: IpAddr) -> bool {
        if !self.is_established() || !self.state.heartbeats() {
            return false;
        }
        let Some(id) = self.path_between(local, remote) else { return false };
        let path = &mut self.paths[id];
        path.heartbeat.demand(now);
        path.regained = true;
        true
    }

    /// Moves unacknowledged data away from a path whose local address is unusable, if there is another path.
    fn leave_detached(&mut self, now: Instant, id: PathId) {
        let local = self.paths[id].local;
        let alternative = self.paths.iter().any(|other| other.local != local && other.is_active());
        let path = &self.paths[id];
        if alternative && (path.is_active() || path.is_potentially_failed()) {
            mark!(AddressVanished);
            self.paths[id].error_count = self.config.paths.path_max_retrans;
            if self.sender.in_flight(id) {
                self.time_out(now, id, Cause::Timeout);
            } else {
                self.count_path_error(now, id);
            }
        }
    }

    /// The same for all of them, after a path has become active.
    pub(super) fn leave_all_detached(&mut self, now: Instant) {
        for id in self.paths.ids_now() {
            if self.paths[id].detached && !self.is_closed() {
                self.leave_detached(now, id);
            }
        }
    }

    /// Limits IP packets between two addresses to `mtu` bytes, as reported by a router or by the
    /// `local_interface`.
    pub(crate) fn on_packet_too_big(
        &mut self,
        now: Instant,
        (local, remote): (IpAddr, IpAddr),
        mtu: u16,
        local_interface: bool,
    ) {
        let Some(id) = self.path_between(local, remote) else { return };
        let path = &mut self.paths[id];
        let before = path.mtu.current();
        if local_interface {
            path.mtu.on_local_limit(now, mtu);
        } else {
            path.mtu.on_packet_too_big(now, mtu);
        }
        if path.mtu.current() < before {
            self.mtu_changed(now, id);
            // Larger packets in flight are lost; they need not wait for the timer.
            self.sender.resend(id, Cause::MtuFell, id, &mut self.paths);
            self.sender.begin_burst();
        }
    }

    fn path_between(&self, local: IpAddr, remote: IpAddr) -> Option<PathId> {
        let mut paths = self.paths.iter();
        paths.find(|path| path.local == local && path.remote == remote).map(|path| path.id)
    }

    /// Handles a validated ICMP message that a destination cannot be reached.
    // req: rfc9260 10 "alternatively, increment the path error counter"
    pub(crate) fn on_unreachable(&mut self, now: Instant, local: IpAddr, remote: IpAddr) {
        self.on_send_error(now, local, remote);
    }

    /// A validated ICMP message says that no process listens on the UDP port of a path. Sends an INIT to
    /// the next address immediately, or gives up the association if none is left.
    // exempt: rfc6951 5.5 "SHOULD be treated as ICMPv6 messages with type" the same as for ICMP
    pub(crate) fn on_port_unreachable(
        &mut self,
        now: Instant,
        (local, remote): (IpAddr, IpAddr),
        quotes_init: bool,
    ) {
        if !quotes_init {
            self.on_unreachable(now, local, remote);
            if let Some(id) = self.path_between(local, remote)
                && self.is_established()
            {
                self.on_refusal(now, id);
            }
            return;
        }
        self.refused(now, (local, remote), CloseReason::PortUnreachable);
    }

    /// Handles a validated ICMP message that the peer does not support SCTP. For an INIT it counts only
    /// in COOKIE-WAIT; otherwise [`ProtocolUnreachable`] decides when it is believed.
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
        let believed = match self.config.paths.protocol_unreachable {
            ProtocolUnreachable::Aborts => true,
            ProtocolUnreachable::AbortsWhenRepeated => {
                let since = *self.watch.denied_since.get_or_insert(now);
                now >= since + self.paths[self.paths.active()].rtt.rto()
            }
        };
        if believed {
            self.peer_is_gone(CloseReason::NoSctp);
        }
    }

    /// Handles a refusal by the address that an INIT was sent to, as with an ABORT: tries the next one.
    fn refused(&mut self, now: Instant, (local, remote): (IpAddr, IpAddr), reason: CloseReason) {
        let Some(id) = self.path_between(local, remote) else { return };
        if matches!(self.state, State::CookieWait { .. }) && !self.drop_candidate(now, id) {
            self.outbox.chunks.clear();
            self.close(reason);
        }
    }
}
