//! What a socket can be asked.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use anabranch::{Association, AssociationState, PathState, PathStatistics};

use super::configure::{ALL_ASSOC, CURRENT_ASSOC, FUTURE_ASSOC};
use super::{Peer, Socket, State, Style};
use crate::abi::{AlignedStorage, AssocStats, Paddrinfo, Status};
use crate::address;
use crate::error::Error;
use crate::family::{self, Family};

/// `enum sctp_spinfo_state`.
const INACTIVE: i32 = 0;
const POTENTIALLY_FAILED: i32 = 1;
const ACTIVE: i32 = 2;
const UNCONFIRMED: i32 = 3;

/// An SCTP common header and the header of a DATA chunk.
pub(crate) const DATA_OVERHEAD: u32 = 12 + 16;

impl Socket {
    /// Returns an address in the form that the socket's user wants for IPv4.
    fn shown(&self, state: &State, address: SocketAddr) -> SocketAddr {
        if state.options.mapped && self.family == Family::Ipv6 {
            family::mapped(address)
        } else {
            address
        }
    }

    /// As [`shown`](Self::shown).
    pub(crate) fn show(&self, address: SocketAddr) -> SocketAddr {
        self.with(|state| self.shown(state, address))
    }

    /// Addresses of the peer, the primary one first (RFC 6458 section 9.3).
    pub(crate) fn peer_addresses(&self, id: i32) -> Result<Vec<SocketAddr>, Error> {
        self.with(|state| {
            let (_, peer) = state.peer(self.style, id)?;
            let association = peer.association.as_ref().ok_or(Error::NotConnected)?;
            let known = association.peer_addresses();
            Ok(known.into_iter().map(|address| self.shown(state, address)).collect())
        })
    }

    /// Local addresses of an association, or with number 0 of the socket (RFC 6458 section 9.5).
    pub(crate) fn local_addresses(&self, id: i32) -> Result<Vec<SocketAddr>, Error> {
        self.with(|state| {
            let own = match state.peer(self.style, id) {
                Ok((_, peer)) => peer.association.as_ref().map(Association::local_addresses),
                Err(error) if id != 0 => return Err(error),
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

    /// What the socket is bound to, if it is.
    fn bound_addresses(&self, state: &State) -> Option<Vec<SocketAddr>> {
        let bound = state.bound.as_ref()?;
        let with_port = |mut address: SocketAddr| {
            address.set_port(bound.port);
            address
        };
        let mut addresses: Vec<SocketAddr> =
            bound.addresses.iter().copied().map(with_port).collect();
        if let (true, Some(endpoint)) = (addresses.is_empty(), &state.endpoint) {
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

    /// The peer's primary address, for `getpeername`.
    pub(crate) fn peer_name(&self) -> Result<SocketAddr, Error> {
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

    /// One local address, for `getsockname`.
    pub(crate) fn name(&self) -> SocketAddr {
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
    pub(crate) fn status(&self, id: i32) -> Result<Status, Error> {
        self.with(|state| {
            let (id, peer) = state.peer(self.style, id)?;
            let remote = peer.remote;
            let (Some(association), Some(known)) = (&peer.association, peer.statistics()) else {
                return Ok(being_set_up(id, self.shown(state, remote)));
            };
            let (instrms, outstrms) =
                (association.inbound_streams(), association.outbound_streams());
            let primary = known.path(known.primary).ok_or(Error::NotConnected)?;
            let address = peer.address(primary.remote);
            let address = self.shown(state, address);
            Ok(Status {
                assoc_id: id,
                state: number_of(known.state),
                rwnd: known.peer_rwnd,
                unackdata: u16::try_from(known.outstanding_chunks).unwrap_or(u16::MAX),
                penddata: 0,
                instrms,
                outstrms,
                fragmentation_point: largest_fragment(primary, state.options.raw),
                primary: path_info(id, address, primary, state.options.expose_pf),
            })
        })
    }

    /// SCTP_GET_PEER_ADDR_INFO (RFC 6458 section 8.2.2).
    pub(crate) fn path_info(&self, id: i32, remote: SocketAddr) -> Result<Paddrinfo, Error> {
        self.with(|state| {
            let (id, peer) = state.peer(self.style, id)?;
            let known = peer.statistics().ok_or(Error::NotConnected)?;
            // Of several paths to the address the best one counts.
            let paths = known.paths.iter().filter(|path| path.remote == remote.ip());
            let path = paths.min_by_key(|path| match path.state {
                PathState::Active => 0,
                PathState::PotentiallyFailed => 1,
                _ => 2,
            });
            let address = peer.address(remote.ip());
            let address = self.shown(state, address);
            let expose_pf = state.options.expose_pf;
            path.map(|path| path_info(id, address, path, expose_pf)).ok_or(Error::Invalid)
        })
    }

    /// SCTP_GET_ASSOC_STATS, as far as the engine counts it; also after the end.
    pub(crate) fn totals(&self, id: i32) -> Result<AssocStats, Error> {
        self.with(|state| {
            let (id, peer) = state.peer(self.style, id)?;
            let known = peer.statistics().ok_or(Error::NotConnected)?;
            let slowest = known.paths.iter().max_by_key(|path| path.rto);
            let address = slowest.map_or(peer.remote, |path| peer.address(path.remote));
            let counters = known.counters;
            let sum = |of: fn(&PathStatistics) -> u64| known.paths.iter().map(of).sum::<u64>();
            Ok(AssocStats {
                assoc_id: id,
                address: AlignedStorage(address::to_storage(self.shown(state, address))),
                maxrto: slowest.map_or(0, |path| path.rto.as_millis() as u64),
                isacks: counters.sacks_received,
                osacks: counters.sacks_sent,
                opackets: sum(|path| path.packets_sent),
                ipackets: sum(|path| path.packets_received),
                rtxchunks: sum(|path| path.retransmitted_chunks),
                outofseqtsns: counters.out_of_sequence_chunks,
                idupchunks: counters.duplicate_chunks,
                gapcnt: counters.gap_blocks_received,
                oodchunks: sum(|path| path.data_chunks_sent),
                iodchunks: counters.data_chunks_received,
                octrlchunks: counters.control_chunks_sent,
                ictrlchunks: counters.control_chunks_received,
                ..AssocStats::default()
            })
        })
    }

    /// Whether it accepts associations.
    pub(crate) fn is_listening(&self) -> bool {
        self.with(|state| state.listening)
    }

    /// The association with a peer that has this address (`sctp_getassocid`).
    pub(crate) fn id_of(&self, remote: SocketAddr) -> Result<i32, Error> {
        self.with(|state| state.peer_of(&[remote]).ok_or(Error::Invalid))
    }

    /// Bytes of the next message that can be taken, as far as it has come (FIONREAD).
    pub(crate) fn next_length(&self) -> usize {
        self.with(|state| {
            if let Some(told) = state.notifications.front() {
                return told.bytes.len();
            }
            let head = state.ready.iter().find_map(|id| state.peers.get(id)?.head.as_ref());
            head.map_or(0, |message| message.payload.len())
        })
    }

    /// The numbers of the associations.
    pub(crate) fn ids(&self) -> Vec<i32> {
        self.with(|state| state.peers.keys().copied().collect())
    }

    /// The peer's UDP port at one of its addresses, or without one at the address that data goes to;
    /// 0 without UDP. `None` if there is no such association yet.
    pub(crate) fn remote_udp_port(
        &self,
        id: i32,
        remote: Option<IpAddr>,
    ) -> Result<Option<u16>, Error> {
        self.with(|state| {
            let peer = match (self.style, id) {
                (Style::OneToOne, _) => state.only().map(|(_, peer)| peer),
                (_, FUTURE_ASSOC) => None,
                (_, CURRENT_ASSOC | ALL_ASSOC) => return Err(Error::Invalid),
                (_, id) => Some(&*state.peer(self.style, id)?.1),
            };
            let Some(known) = peer.and_then(Peer::statistics) else { return Ok(None) };
            let path = match remote {
                Some(ip) => known.paths.iter().find(|path| path.remote == ip),
                None => known.path(known.primary),
            };
            path.map(|path| Some(path.remote_udp_port)).ok_or(Error::Invalid)
        })
    }

    /// The UDP port of this side, if it is known yet; 0 otherwise.
    pub(crate) fn udp_port(&self) -> u16 {
        self.with(|state| match &state.endpoint {
            Some(endpoint) => endpoint.udp_port(),
            None => state.options.udp_port.unwrap_or(0),
        })
    }

    /// Calls `act` with an association that is up.
    pub(crate) fn with_association<T>(
        &self,
        id: i32,
        act: impl FnOnce(&Association) -> T,
    ) -> Result<T, Error> {
        self.with(|state| {
            let (_, peer) = state.peer(self.style, id)?;
            peer.association.as_ref().map(act).ok_or(Error::NotConnected)
        })
    }

    /// Takes the error that SO_ERROR tells.
    pub(crate) fn take_error(&self) -> Option<Error> {
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

/// SCTP_STATUS of an association that is set up: little is known yet.
fn being_set_up(id: i32, remote: SocketAddr) -> Status {
    let address = address::to_storage(remote);
    Status {
        assoc_id: id,
        state: number_of(AssociationState::CookieWait),
        primary: Paddrinfo { assoc_id: id, address, state: ACTIVE, ..Paddrinfo::default() },
        ..Status::default()
    }
}

fn path_info(id: i32, address: SocketAddr, path: &PathStatistics, expose_pf: bool) -> Paddrinfo {
    let milliseconds =
        |time: std::time::Duration| u32::try_from(time.as_millis()).unwrap_or(u32::MAX);
    Paddrinfo {
        assoc_id: id,
        address: address::to_storage(address),
        state: match path.state {
            PathState::PotentiallyFailed if expose_pf => POTENTIALLY_FAILED,
            PathState::Active | PathState::PotentiallyFailed => ACTIVE,
            PathState::Inactive => INACTIVE,
            _ => UNCONFIRMED,
        },
        cwnd: u32::try_from(path.cwnd).unwrap_or(u32::MAX),
        srtt: path.srtt.map_or(0, milliseconds),
        rto: milliseconds(path.rto),
        mtu: u32::from(path.mtu),
    }
}

/// Bytes of the largest DATA chunk's user data that one packet on a path takes.
pub(super) fn largest_fragment(path: &PathStatistics, raw: bool) -> u32 {
    let ip = if path.remote.is_ipv4() { 20 } else { 40 };
    let udp = if raw { 0 } else { 8 };
    // Chunks are padded to multiples of 4.
    u32::from(path.mtu).saturating_sub(ip + udp + DATA_OVERHEAD) & !3
}

/// `enum sctp_sstat_state`.
fn number_of(state: AssociationState) -> i32 {
    match state {
        AssociationState::CookieWait => 2,
        AssociationState::CookieEchoed => 3,
        AssociationState::Established => 4,
        AssociationState::ShutdownPending => 5,
        AssociationState::ShutdownSent => 6,
        AssociationState::ShutdownReceived => 7,
        AssociationState::ShutdownAckSent => 8,
        _ => 1,
    }
}
