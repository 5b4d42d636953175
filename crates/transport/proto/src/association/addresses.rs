//! The peer's transport addresses, and the possible source addresses of its packets.

use std::net::IpAddr;

use anabranch_wire::{Chunk, Parameter, RawChunk};

use super::state::State;
use super::{Arrival, Association};
use crate::event::PathState;
use crate::marks::mark;
use crate::path::Path;
use crate::per_path::{MAX_PATHS, PathId};
use crate::time::Instant;

impl Association {
    /// Remote addresses of the paths, one for each.
    pub(crate) fn remotes(&self) -> impl Iterator<Item = IpAddr> + '_ {
        self.paths.iter().map(|path| path.remote)
    }

    /// For each path the peer's address and UDP port, and whether they are known to be its own.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = (IpAddr, u16, bool)> + '_ {
        self.paths.iter().map(|path| (path.remote, path.remote_udp_port, path.is_verified()))
    }

    /// The UDP ports that the peer has at an address that is known to be its own.
    pub(crate) fn udp_ports(&self, remote: IpAddr) -> impl Iterator<Item = u16> + '_ {
        self.addresses()
            .filter(move |(address, _, verified)| *address == remote && *verified)
            .map(|(_, port, _)| port)
    }

    /// The path that a packet from `remote` to `local` used. If the local address is unknown, this is the first path to
    /// the remote address.
    #[inline]
    pub(crate) fn path_of(&self, local: IpAddr, remote: IpAddr) -> Option<PathId> {
        (self.paths.iter())
            .find(|path| path.remote == remote && path.local == local)
            .or_else(|| self.paths.iter().find(|path| path.remote == remote))
            .map(|path| path.id)
    }

    /// Whether a packet with the right tag from an address that the user did not pass answers the
    /// INIT: it must list an address that the user passed.
    pub(crate) fn may_be_answered_from(&self, remote: IpAddr, first: RawChunk<'_>) -> bool {
        if !matches!(self.state, State::CookieWait { .. })
            || self.paths.len() >= MAX_PATHS
            || !self.paths.iter().any(|path| path.local.is_ipv4() == remote.is_ipv4())
        {
            return false;
        }
        let Ok(Chunk::InitAck(init)) = first.decode() else { return false };
        init.parameters.iter().map_while(Result::ok).take(32).any(|parameter| {
            let listed = match parameter.decode() {
                Ok(Parameter::Ipv4Address(v4)) => IpAddr::V4(v4),
                Ok(Parameter::Ipv6Address(v6)) => IpAddr::V6(v6),
                _ => return false,
            };
            self.remotes().any(|given| given == listed)
        })
    }

    /// The path on which a packet arrived; creates one for the address that answered the INIT.
    pub(super) fn arrived_on(&mut self, now: Instant, arrival: &Arrival) -> Option<PathId> {
        let known = self.path_of(arrival.local, arrival.remote);
        if known.is_some() || !matches!(self.state, State::CookieWait { .. }) {
            return known;
        }
        let port = arrival.remote_udp_port;
        let setup = self.config.of_path(self.surroundings.headers);
        let (local, remote) = (arrival.local, arrival.remote);
        let path = self.paths.push(Path::new(now, local, remote, port, &setup))?;
        self.add_lanes(now);
        Some(path)
    }

    /// Records the UDP source port of a packet with the right tag.
    ///
    /// For a peer that is just answering, and for an unverified address, which gets only heartbeats, the
    /// last port is the best guess. A path in use keeps its port until the new one has proven itself.
    // req: rfc6951 5.4 "UDP source port MUST be stored as the"
    // exempt: rfc6951 5.4 "UDP source port MUST be stored as the" a packet that somebody has recorded and sends again from another port must not divert a path: the port is challenged first
    pub(super) fn note_port(&mut self, now: Instant, path: PathId, arrival: &Arrival) {
        self.ports.arrived_from = arrival.remote_udp_port;
        let state = &mut self.paths[path];
        if arrival.remote_udp_port == state.remote_udp_port || arrival.remote_udp_port == 0 {
            return;
        }
        if matches!(self.state, State::CookieWait { .. }) || !state.is_verified() {
            state.remote_udp_port = arrival.remote_udp_port;
            self.identity.changed = true;
        } else if state.local == arrival.local {
            self.on_new_port(now, path, arrival.remote_udp_port);
        }
    }

    /// Whether the peer has listed this path but not answered on it.
    pub(crate) fn is_unverified(&self, local: IpAddr, remote: IpAddr) -> bool {
        self.path_of(local, remote).is_some_and(|path| !self.paths[path].is_verified())
    }

    /// Handles a refusal from an unverified address: the host there does not have the association, because it is
    /// another host or a different side of a NAT. That says nothing about the peer.
    pub(super) fn on_refused_address(&mut self, now: Instant, id: PathId) {
        mark!(AddressRefused);
        let path = &mut self.paths[id];
        path.heartbeat = crate::path::Heartbeat::default();
        // As after many unanswered probes, so it is probed rarely.
        path.error_count = self.config.paths.path_max_retrans.saturating_add(4);
        self.set_path_state(now, id, PathState::Inactive);
        self.schedule_heartbeat(now, id);
    }

    /// Handles a packet with the right tag from an address that could not be verified and is probed ever more rarely:
    /// another probe may succeed now.
    pub(super) fn verify_again(&mut self, now: Instant, id: PathId) {
        let path = &mut self.paths[id];
        if path.is_verified() || path.state != PathState::Inactive || !self.state.heartbeats() {
            return;
        }
        if path.last_probe + self.config.timers.rto_initial <= now {
            path.heartbeat.demand(now);
        }
    }
}
