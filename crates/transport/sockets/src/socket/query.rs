//! Queries of a socket's state.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use anabranch::{Association, GivenUpBy, PathState, PathStatistics};

use super::{Peer, Socket, State, Style};
use crate::assoc_id::AssocId;
use crate::error::Error;
use crate::family::{self, Family};
use crate::message::SendFlags;
use crate::notification::Notification;
use crate::policy;
use crate::status::{AssociationTotals, GivenUp, PathInfo, Status, fragmentation_point};

impl Socket {
    /// Returns an address in the form that the socket's user wants for IPv4.
    fn shown(&self, state: &State, address: SocketAddr) -> SocketAddr {
        if state.options.mapped && self.family == Family::Ipv6 {
            family::mapped(address)
        } else {
            address
        }
    }

    /// An address in the form that SCTP_I_WANT_MAPPED_V4_ADDR asks for.
    pub fn show(&self, address: SocketAddr) -> SocketAddr {
        self.with(|state| self.shown(state, address))
    }

    /// `sctp_getpaddrs`: addresses of the peer with its SCTP port, the primary one first (RFC 6458 section 9.3).
    ///
    /// # Errors
    /// [`Error::Invalid`]: the association does not exist. [`Error::NotConnected`]: it is not established yet, or
    /// a one-to-one socket has none.
    pub fn peer_addresses(&self, id: AssocId) -> Result<Vec<SocketAddr>, Error> {
        self.with(|state| {
            let (_, peer) = state.peer(self.style, id)?;
            let association = peer.association.as_ref().ok_or(Error::NotConnected)?;
            let known = association.peer_addresses();
            Ok(known.into_iter().map(|address| self.shown(state, address)).collect())
        })
    }

    /// `sctp_getladdrs`: local addresses of an association, or with [`AssocId::FUTURE`] of the socket (RFC 6458
    /// section 9.5). Empty if the socket is not bound.
    ///
    /// # Errors
    /// [`Error::Invalid`]: the association does not exist.
    pub fn local_addresses(&self, id: AssocId) -> Result<Vec<SocketAddr>, Error> {
        self.with(|state| {
            let own = match state.peer(self.style, id) {
                Ok((_, peer)) => peer.association.as_ref().map(Association::local_addresses),
                Err(error) if id != AssocId::FUTURE => return Err(error),
                Err(_) => None,
            };
            let Some(mut addresses) = own.or_else(|| self.bound_addresses(state)) else {
                return Ok(Vec::new());
            };
            addresses.sort_unstable();
            addresses.dedup();
            Ok(addresses.into_iter().map(|address| self.shown(state, address)).collect())
        })
    }

    /// The addresses that the socket is bound to, if any.
    fn bound_addresses(&self, state: &State) -> Option<Vec<SocketAddr>> {
        let bound = state.bound.as_ref()?;
        let with_port = |mut address: SocketAddr| {
            address.set_port(bound.port);
            address
        };
        let mut addresses: Vec<SocketAddr> =
            bound.addresses.iter().copied().map(with_port).collect();
        let is_whole = addresses.is_empty() || !state.options.addresses.is_empty();
        if let (true, Some(endpoint)) = (is_whole, &state.endpoint) {
            let endpoint = endpoint.endpoint();
            let all = endpoint.local_addresses();
            let used = all.into_iter().filter(|ip| ip.is_ipv4() || !bound.ipv4);
            addresses = used.map(|ip| endpoint.local_address(ip, bound.port)).collect();
        }
        if addresses.is_empty() {
            addresses.push((self.wildcard(), bound.port).into());
        }
        Some(addresses)
    }

    fn wildcard(&self) -> IpAddr {
        if self.family == Family::Ipv6 {
            Ipv6Addr::UNSPECIFIED.into()
        } else {
            Ipv4Addr::UNSPECIFIED.into()
        }
    }

    /// `getpeername`: the primary address of the peer of a one-to-one socket.
    ///
    /// # Errors
    /// [`Error::NotSupported`]: this is a one-to-many socket. [`Error::NotConnected`]: there is no association.
    pub fn peer_name(&self) -> Result<SocketAddr, Error> {
        if self.style == Style::OneToMany {
            return Err(Error::NotSupported);
        }
        self.with(|state| {
            let remote = match state.only() {
                Some((_, peer)) if peer.association.is_some() => peer.remote,
                _ => return Err(Error::NotConnected),
            };
            Ok(self.shown(state, remote))
        })
    }

    /// `getsockname`: a local address, or the wildcard address, with the SCTP port; port 0 if it has none yet.
    pub fn name(&self) -> SocketAddr {
        self.with(|state| {
            let bound = state.bound.clone().unwrap_or_default();
            let own = state.only().filter(|_| self.style == Style::OneToOne);
            let own = own.and_then(|(_, peer)| peer.association.as_ref());
            let address = match own.and_then(|known| known.local_addresses().first().copied()) {
                Some(address) => address,
                None => {
                    let first = bound.addresses.first().copied();
                    let mut address = first.unwrap_or((self.wildcard(), 0).into());
                    address.set_port(bound.port);
                    address
                }
            };
            self.shown(state, address)
        })
    }

    /// SCTP_STATUS (RFC 6458 section 8.2.1).
    ///
    /// # Errors
    /// [`Error::Invalid`]: the association does not exist. [`Error::NotConnected`]: a one-to-one socket has none.
    pub fn status(&self, id: AssocId) -> Result<Status, Error> {
        self.with(|state| {
            let (id, peer) = state.peer(self.style, id)?;
            let remote = peer.remote;
            let (Some(association), Some(known)) = (&peer.association, peer.statistics()) else {
                return Ok(Status::being_set_up(id, self.shown(state, remote)));
            };
            let streams = (association.inbound_streams(), association.outbound_streams());
            let primary = known.path(known.primary).ok_or(Error::NotConnected)?;
            let address = peer.address(primary.remote);
            let path = PathInfo::of(id, self.shown(state, address), primary);
            let status = Status::of(id, &known, streams, path.shown(state.options.expose_pf));
            let fragmentation_point = fragmentation_point(primary, state.options.raw);
            Ok(Status { fragmentation_point, ..status })
        })
    }

    /// SCTP_GET_PEER_ADDR_INFO (RFC 6458 section 8.2.2), for the best path to the address.
    ///
    /// # Errors
    /// As [`status`](Self::status). [`Error::Invalid`]: the peer does not have the address.
    pub fn path_info(&self, id: AssocId, remote: SocketAddr) -> Result<PathInfo, Error> {
        self.with(|state| {
            let (id, peer) = state.peer(self.style, id)?;
            let known = peer.statistics().ok_or(Error::NotConnected)?;
            // Several paths may lead to the address; report the best one.
            let paths = known.paths.iter().filter(|path| path.remote == remote.ip());
            let path = paths.min_by_key(|path| match path.state {
                PathState::Active => 0,
                PathState::PotentiallyFailed => 1,
                _ => 2,
            });
            let address = peer.address(remote.ip());
            let address = self.shown(state, address);
            let expose_pf = state.options.expose_pf;
            path.map(|path| PathInfo::of(id, address, path).shown(expose_pf)).ok_or(Error::Invalid)
        })
    }

    /// SCTP_GET_ASSOC_STATS: the numbers that the engine counts. Also available after the end.
    ///
    /// # Errors
    /// As [`status`](Self::status).
    pub fn totals(&self, id: AssocId) -> Result<AssociationTotals, Error> {
        self.with(|state| {
            let (id, peer) = state.peer(self.style, id)?;
            let known = peer.statistics().ok_or(Error::NotConnected)?;
            let slowest = known.paths.iter().max_by_key(|path| path.rto);
            let address = slowest.map_or(peer.remote, |path| peer.address(path.remote));
            let counters = known.counters;
            let sum = |of: fn(&PathStatistics) -> u64| known.paths.iter().map(of).sum::<u64>();
            Ok(AssociationTotals {
                id,
                slowest: self.shown(state, address),
                max_rto: slowest.map_or(Duration::ZERO, |path| path.rto),
                sacks_received: counters.sacks_received,
                sacks_sent: counters.sacks_sent,
                packets_sent: sum(|path| path.packets_sent),
                packets_received: sum(|path| path.packets_received),
                retransmitted_chunks: sum(|path| path.retransmitted_chunks),
                out_of_sequence_chunks: counters.out_of_sequence_chunks,
                duplicate_chunks: counters.duplicate_chunks,
                gap_blocks_received: counters.gap_blocks_received,
                data_chunks_sent: sum(|path| path.data_chunks_sent),
                data_chunks_received: counters.data_chunks_received,
                control_chunks_sent: counters.control_chunks_sent,
                control_chunks_received: counters.control_chunks_received,
            })
        })
    }

    /// SCTP_PR_ASSOC_STATUS, or with a stream SCTP_PR_STREAM_STATUS (RFC 7496 sections 4.3 and 4.4): the messages that
    /// were given up by a policy, or by all with [`POLICY_ALL`](SendFlags::POLICY_ALL). Also available after the end.
    ///
    /// # Errors
    /// As [`status`](Self::status). [`Error::Invalid`]: there is no such policy or stream.
    pub fn given_up(
        &self,
        id: AssocId,
        policy: SendFlags,
        stream: Option<u16>,
    ) -> Result<GivenUp, Error> {
        let policies = policy::counters(policy)?;
        self.with(|state| {
            let (_, peer) = state.peer(self.style, id)?;
            let association = peer.association.as_ref().ok_or(Error::NotConnected)?;
            if stream.is_some_and(|stream| stream >= association.outbound_streams()) {
                return Err(Error::Invalid);
            }
            let mut sum = GivenUp::default();
            for by in policies {
                let count = association.given_up(*by, stream);
                sum.unsent += u64::from(count.unsent);
                sum.sent += u64::from(count.sent);
            }
            if policies.contains(&GivenUpBy::Priority) {
                let displaced = peer.displaced.iter();
                let counts = displaced.filter(|(of, _)| stream.is_none_or(|stream| stream == **of));
                sum.unsent += counts.map(|(_, count)| count).sum::<u64>();
            }
            Ok(sum)
        })
    }

    /// Whether the socket listens.
    pub fn is_listening(&self) -> bool {
        self.look(|state| state.listening)
    }

    /// `sctp_getassocid`: the association with a peer that has this address and port (RFC 6458 section 9.6).
    ///
    /// # Errors
    /// [`Error::Invalid`]: there is none.
    pub fn id_of(&self, remote: SocketAddr) -> Result<AssocId, Error> {
        self.with(|state| state.peer_of(&[remote]).ok_or(Error::Invalid))
    }

    /// Bytes of the next message or notification that can be taken now (FIONREAD). `length` is as for
    /// [`receive_bytes`](Self::receive_bytes).
    pub fn next_length(&self, length: impl Fn(&Notification) -> usize) -> usize {
        self.with(|state| {
            if let Some(left) = state.notifications.next_length(length) {
                return left;
            }
            let head = state.ready.iter().find_map(|id| state.peers.get(id)?.head.as_ref());
            head.map_or(0, |message| message.payload.len())
        })
    }

    /// SCTP_GET_ASSOC_ID_LIST: the ids of the associations (RFC 6458 section 8.2.6).
    pub fn ids(&self) -> Vec<AssocId> {
        self.with(|state| state.peers.keys().copied().collect())
    }

    /// The peer's UDP port at one of its addresses, or if there is no address, at the primary one; 0 without
    /// UDP. Before there is an association, the port for future associations.
    ///
    /// # Errors
    /// [`Error::Invalid`]: the association does not exist, or its peer does not have the address.
    pub fn remote_udp_port(&self, id: AssocId, remote: Option<IpAddr>) -> Result<u16, Error> {
        self.with(|state| {
            let peer = match (self.style, id) {
                (Style::OneToOne, _) => state.only().map(|(_, peer)| peer),
                (_, AssocId::FUTURE) => None,
                (_, AssocId::CURRENT | AssocId::ALL) => return Err(Error::Invalid),
                (_, id) => Some(&*state.peer(self.style, id)?.1),
            };
            let Some(known) = peer.and_then(Peer::statistics) else {
                return Ok(state.options.remote_udp_port);
            };
            let path = match remote {
                Some(ip) => known.paths.iter().find(|path| path.remote == ip),
                None => known.path(known.primary),
            };
            path.map(|path| path.remote_udp_port).ok_or(Error::Invalid)
        })
    }

    /// The local UDP port; 0 if it is not known yet.
    pub fn udp_port(&self) -> u16 {
        self.with(|state| match &state.endpoint {
            Some(endpoint) => endpoint.udp_port(),
            None => state.options.udp_port.unwrap_or(0),
        })
    }

    /// Calls `act` with an established association.
    pub(super) fn with_association<T>(
        &self,
        id: AssocId,
        act: impl FnOnce(&Association) -> T,
    ) -> Result<T, Error> {
        self.with(|state| {
            let (_, peer) = state.peer(self.style, id)?;
            peer.association.as_ref().map(act).ok_or(Error::NotConnected)
        })
    }

    /// SO_ERROR: takes the error that the next call would return.
    pub fn take_error(&self) -> Option<Error> {
        self.with(|state| {
            let of_peer = state.peers.values_mut().next().and_then(|peer| match peer.end {
                Some(Err(error)) => {
                    peer.end = Some(Ok(()));
                    Some(error)
                }
                _ => None,
            });
            state.error.take().or(of_peer)
        })
    }
}
