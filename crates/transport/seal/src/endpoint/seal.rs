//! Seals packets of the layer above.

use std::net::IpAddr;

use anabranch_units::Instant;

use super::Endpoint;
use super::peer::Side;
use crate::Route;
use crate::record::{Kind, OVERHEAD};
use crate::virtual_network::VirtualNetwork;

/// What became of packets to seal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sealed {
    /// They are sealed: send them this way.
    Send {
        /// The way.
        route: Route,
        /// Size of every sealed packet except the last one.
        segment_size: usize,
    },
    /// They wait for the handshake.
    Queued,
}

/// Why packets were not sealed. They are lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// The destination is not the virtual address of a peer, or the path numbers differ.
    #[error("no peer has this virtual address")]
    NoPeer,
    /// The path has no uplink, or the peer's address on it is not known.
    #[error("the path is down")]
    Down,
    /// The peer's address must answer first.
    #[error("the peer has not confirmed its address")]
    Unverified,
    /// The keys are used up, and no handshake has replaced them.
    #[error("the keys of the session are used up")]
    UsedUp,
}

impl Endpoint {
    /// Seals packets of equal size from one virtual address to another, and appends them to `out`.
    ///
    /// # Errors
    /// The packets cannot be sent now.
    pub fn seal(
        &mut self,
        now: Instant,
        (local, remote): (IpAddr, IpAddr),
        packets: &[u8],
        segment_size: usize,
        out: &mut Vec<u8>,
    ) -> Result<Sealed, SealError> {
        let (network, path) = VirtualNetwork::split(remote).ok_or(SealError::NoPeer)?;
        if IpAddr::from(self.own.address(path)) != local {
            return Err(SealError::NoPeer);
        }
        let routes = self.routes(network, path);
        let peer = self.peers.get_mut(&network).ok_or(SealError::NoPeer)?;
        let segment_size = segment_size.max(1);
        let bytes = packets.len() + packets.len().div_ceil(segment_size) * OVERHEAD;
        let Some(session) = &mut peer.sessions.current else {
            let Side::Host(host) = &mut peer.side else { return Err(SealError::Down) };
            if routes.is_empty() {
                return Err(SealError::Down);
            }
            host.keep(path, packets, segment_size);
            self.dial(now, network);
            return Ok(Sealed::Queued);
        };
        if session.is_used_up() {
            // A server that is heard does not cause a handshake.
            self.dial(now, network);
            return Err(SealError::UsedUp);
        }
        let route = match &mut peer.side {
            Side::Host(_) if routes.is_empty() => return Err(SealError::Down),
            Side::Host(host) => {
                host.unanswered.get_or_insert(now);
                host.paths[usize::from(path)].route(now, &routes, bytes)
            }
            Side::Guest(guest) => {
                let path = &mut guest.paths[usize::from(path)];
                if !path.is_known() {
                    return Err(SealError::Down);
                }
                path.route(bytes)
            }
        };
        let route = route.ok_or(SealError::Unverified)?;
        for packet in packets.chunks(segment_size) {
            session.seal(Kind::Data, path, packet, out).ok_or(SealError::UsedUp)?;
        }
        let is_old = session.wants_replacement(now) && matches!(peer.side, Side::Host(_));
        if is_old {
            self.dial(now, network);
        }
        let segment_size = segment_size.min(packets.len()) + OVERHEAD;
        Ok(Sealed::Send { route, segment_size })
    }

    /// Seals the content of a control record and queues it. The caller has counted it.
    pub(super) fn send_control(
        &mut self,
        network: VirtualNetwork,
        path: u8,
        route: Route,
        content: &[u8],
    ) {
        let peer = self.peers.get_mut(&network);
        let Some(session) = peer.and_then(|peer| peer.sessions.current.as_mut()) else { return };
        let mut record = Vec::new();
        if session.seal(Kind::Control, path, content, &mut record).is_some() {
            self.transmit(route, record);
        }
    }

    /// The ways from an uplink to the addresses of a peer that this side connects to.
    pub(super) fn routes(&self, network: VirtualNetwork, path: u8) -> Vec<Route> {
        let peer = self.peers.get(&network);
        let Some(Side::Host(host)) = peer.map(|peer| &peer.side) else { return Vec::new() };
        let families = self.uplinks.get(usize::from(path)).copied().unwrap_or_default();
        let socket = usize::from(path) * 2;
        let addresses = host.addresses.iter().filter(|remote| families.includes(remote));
        addresses
            .map(|remote| Route {
                socket: socket + usize::from(remote.is_ipv6()),
                local: None,
                remote: *remote,
            })
            .collect()
    }
}
