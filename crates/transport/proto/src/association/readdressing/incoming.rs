//! Requests of the peer (RFC 5061 section 5.2).

use std::net::IpAddr;

use anabranch_wire::{Asconf, Cause, Causes, Chunk, Packet, Parameter, RawParameter, kind};
use bytes::Bytes;

use super::{Readdressing, decode_address};
use crate::association::authentication::Screen;
use crate::association::handshake::paths_to;
use crate::association::requests::Incoming;
use crate::association::{Arrival, Association, Control};
use crate::event::Notification;
use crate::features::Features;
use crate::marks::mark;
use crate::path::address;
use crate::per_path::{MAX_PATHS, PathId};
use crate::policy::failover::Input;
use crate::roaming::AddressChange;
use crate::time::Instant;

/// Bytes of the header and the serial number of a chunk.
const CHUNK_START: usize = 8;

/// Why a request is refused.
#[derive(Clone, Copy)]
enum Refusal {
    Unresolvable,
    Shortage,
    LastAddress,
    SourceAddress,
    Unrecognized,
}

impl Refusal {
    /// The error cause, with the request in it.
    fn cause(self, request: &[u8]) -> Cause<'_> {
        match self {
            Self::Unresolvable => Cause::UnresolvableAddress(request),
            Self::Shortage => Cause::ResourceShortage(request),
            Self::LastAddress => Cause::DeleteLastAddress(request),
            Self::SourceAddress => Cause::DeleteSourceAddress(request),
            Self::Unrecognized => Cause::UnrecognizedParameters(request),
        }
    }
}

impl Association {
    /// Whether the addresses of both sides can change: it was agreed, and the association is not ending.
    pub(crate) fn may_change_addresses(&self) -> bool {
        self.features.has(Features::ADDRESS_RECONFIGURATION) && self.state.acknowledges()
    }

    /// Whether an ABORT that reflects the tag may be about an address only, and not about the association. usrsctp and FreeBSD
    /// answer so to packets for an address that they have given up, while their request to remove it is under way, and
    /// the answer may come from any of their addresses. A HEARTBEAT asks: if the peer does not know the association, and
    /// so sends nothing else, the next such ABORT after a timeout is believed.
    pub(in crate::association) fn may_be_about_address(
        &mut self,
        now: Instant,
        path: PathId,
    ) -> bool {
        if !self.may_change_addresses() || !self.paths[path].proven {
            return false;
        }
        let first = self.watch.denied_since.is_none();
        let since = *self.watch.denied_since.get_or_insert(now);
        if first {
            self.paths[path].heartbeat.demand(now);
        }
        now < since + self.paths[path].rtt.rto()
    }

    /// Whether a packet from an unknown address may change the peer's addresses, judging by the types of its chunks.
    // req: rfc5061 5.2 "MUST encounter an AUTH chunk as described in"
    pub(crate) fn may_move(&self, packet: &Packet<'_>) -> bool {
        let mut kinds = packet.chunks().map_while(Result::ok).map(|chunk| chunk.kind);
        self.may_change_addresses()
            && kinds.next() == Some(kind::AUTH)
            && kinds.next() == Some(kind::ASCONF)
    }

    /// Handles a packet from an unknown address: if it asks for that address to be added, and is authentic, the address
    /// gets a path. Returns the path, and what is read of the packet.
    // req: rfc5061 5.3.2 "The receiver of such a chunk MUST always first use the source address"
    pub(in crate::association) fn move_to(
        &mut self,
        now: Instant,
        arrival: &Arrival,
        packet: &Packet<'_>,
    ) -> Option<(PathId, Screen)> {
        if !self.may_move(packet) {
            return None;
        }
        let (screen, _) = self.screen(packet);
        let mut chunks = packet.chunks();
        chunks.next()?.ok()?;
        let at = chunks.offset();
        if !screen.has_authenticated(at) {
            return None;
        }
        let source = arrival.remote;
        let requests = chunks.map_while(|chunk| match chunk.ok()?.decode() {
            Ok(Chunk::Asconf(asconf)) => Some(asconf),
            _ => None,
        });
        // Earlier ones, whose answers were lost, may come before it.
        let answers = &self.readdressing().answers;
        let is_old = |asconf: &Asconf<'_>| answers.on_request(asconf.serial) != Incoming::New;
        let mut parameters =
            requests.skip_while(is_old).flat_map(|asconf| asconf.parameters.iter().flatten());
        let is_added = parameters.any(|raw| {
            let Ok(Parameter::AddIpAddress { address, .. }) = raw.decode() else { return false };
            decode_address(address).is_some_and(|named| stands_for(named, source) == source)
        });
        let path = is_added.then(|| self.add_paths(now, source, arrival)).flatten()?;
        self.readdressing().arrived = Some(path);
        Some((path, screen))
    }

    /// Adds the paths to an address of the peer. Returns the one of the packet, or the first one.
    // req: rfc5061 5.3 "The receiver MUST NOT send packets to the new address"
    fn add_paths(&mut self, now: Instant, remote: IpAddr, arrival: &Arrival) -> Option<PathId> {
        let first = (remote == arrival.remote).then_some((arrival.local, remote));
        let port = arrival.remote_udp_port;
        let wanted = paths_to(now, &[remote], first, port, &self.config, &self.surroundings);
        let mut added = Vec::new();
        for mut path in wanted {
            // Nothing leaves from an address that comes or goes.
            path.silent = !self.surroundings.locals.contains(&path.local)
                || self.paths.iter().any(|other| other.local == path.local && other.silent);
            let id = self.paths.push(path);
            added.extend(id);
            // req: rfc5061 5.3 "put into the UNCONFIRMED state and MUST have path verification"
            // req: rfc5061 5.3 "receiver MUST use the path-verification procedure for the added"
            if let Some(id) = id {
                self.paths[id].heartbeat.schedule(Some(now));
            }
        }
        self.begin_lanes(now, &added);
        self.identity.changed = true;
        added.first().copied()
    }

    /// Processes an ASCONF that is authentic.
    // req: rfc5061 5.2 "ASCONF MUST queue the response ASCONF-ACK Chunk for"
    // req: rfc5061 5.2 "containing the ASCONF-ACK Chunks MUST be the source address of"
    // req: rfc5061 4.1.1 "configuration change requests that MUST be acknowledged"
    // req: rfc5061 4.1.2 "This chunk MUST be sent in an authenticated way"
    // req: rfc5061 5.1.1 "ASCONF-ACK Chunks, the chunks MUST appear in sequential order"
    // req: rfc5061 5.3.2 "The receiver MUST reply to the source address"
    pub(in crate::association) fn on_asconf(
        &mut self,
        now: Instant,
        path: PathId,
        asconf: &Asconf<'_>,
    ) {
        if !self.state.acknowledges() {
            return;
        }
        self.readdressing();
        let Some(mut state) = self.readdressing.take() else { return };
        state.counts.address_changes_received =
            state.counts.address_changes_received.wrapping_add(1);
        let answer = match state.answers.on_request(asconf.serial) {
            Incoming::New => {
                let answer = self.process_changes(now, path, &mut state, asconf);
                state.answers.on_answered(answer.clone(), 1);
                Some(answer)
            }
            Incoming::Again(answer) => {
                mark!(AddressChangeAgain);
                Some(answer)
            }
            // RFC 5061 section 5.2, rule E5.
            Incoming::OutOfOrder => {
                mark!(AddressChangeOutOfOrder);
                None
            }
        };
        // The paths of addresses that are being added lead to the peer's new addresses, too.
        for change in state.asked.iter().filter(|change| change.what == AddressChange::Added) {
            self.add_silent_paths(now, change.address, &state.beyond);
        }
        self.readdressing = Some(state);
        if let Some(answer) = answer {
            let length = CHUNK_START + answer.len();
            self.answer(self.open_path_to_source(path), Control::AsconfAck(answer), length);
        }
    }

    /// A path to the source of a packet that arrived on `path`, from an address that is not about to go if possible.
    fn open_path_to_source(&self, path: PathId) -> PathId {
        let source = self.paths[path].remote;
        let open = self.paths.iter().find(|other| other.remote == source && !other.silent);
        match self.paths[path].silent {
            true => open.map_or(path, |open| open.id),
            false => path,
        }
    }

    /// Processes the requests of a chunk in order, until one fails: those after it fail as well. One of a type that is not
    /// known here may ask to go on after its report. Returns the value of the answer.
    // req: rfc5061 5.2 "TLVs MUST be processed in order within the Chunk"
    // req: rfc5061 5.2 "in the Chunk MUST be processed first"
    // req: rfc5061 5.2 "one) MUST be processed second and"
    // req: rfc5061 5.2 "in the Chunk MUST be processed last"
    // req: rfc5061 5.2 "All responses MUST copy the ASCONF-Request Correlation ID"
    // req: rfc5061 5.3 "an 'Out of Resource' in its response, it MUST also fail any"
    // req: rfc5061 5.3 "receiver MUST NOT reject an ADD and then accept a subsequent"
    // req: rfc5061 4.1.1 "MUST be ignored if received"
    // req: rfc5061 4.2.1 "the receiver MUST NOT change this 32-bit value"
    // req: rfc5061 4.2.2 "the receiver MUST NOT change this 32-bit value"
    // req: rfc5061 4.2.3 "the receiver MUST NOT change this 32-bit value"
    // req: rfc5061 4.2.4 "the receiver MUST NOT change this 32-bit value"
    // req: rfc5061 5.2 "response packet but MUST continue to process all of the ASCONF"
    fn process_changes(
        &mut self,
        now: Instant,
        path: PathId,
        state: &mut Readdressing,
        asconf: &Asconf<'_>,
    ) -> Bytes {
        let mut answer = asconf.serial.to_be_bytes().to_vec();
        let mut errors = false;
        for raw in asconf.parameters.iter().map_while(Result::ok).skip(1) {
            let mut goes_on = false;
            let (correlation, outcome) = match raw.decode() {
                Ok(Parameter::AddIpAddress { correlation, address }) => {
                    (correlation, self.on_add(now, path, state, decode_address(address)))
                }
                Ok(Parameter::DeleteIpAddress { correlation, address }) => {
                    (correlation, self.on_delete(path, state, decode_address(address)))
                }
                Ok(Parameter::SetPrimaryAddress { correlation, address }) => {
                    (correlation, self.on_prefer(path, state, decode_address(address)))
                }
                // Without a report, whatever comes after it would count as done.
                Ok(Parameter::Unknown(_)) => {
                    let action = raw.unknown_action();
                    if !action.reports() && action.goes_on() {
                        continue;
                    }
                    goes_on = action.goes_on();
                    (first_word(&raw), Err(Refusal::Unrecognized))
                }
                // req: rfc5061 4.2 "the parameter MUST be ignored"
                // req: rfc5061 4.2 "A robust implementation SHOULD ignore the parameter and leave"
                // req: rfc5061 4.2.6 "received in another chunk, it MUST be ignored"
                Ok(_) => continue,
                Err(_) => (first_word(&raw), Err(Refusal::Unrecognized)),
            };
            match outcome {
                // It would count as failed after the error.
                Ok(()) if errors => Parameter::SuccessIndication(correlation).encode(&mut answer),
                Ok(()) => {}
                Err(why) => {
                    let mut causes = Vec::new();
                    why.cause(raw.bytes()).encode(&mut causes);
                    let causes = Causes::new(&causes);
                    Parameter::ErrorCauseIndication { correlation, causes }.encode(&mut answer);
                    if !goes_on {
                        break;
                    }
                    errors = true;
                }
            }
        }
        // The request for it may have come after one that failed, or be in the next chunk. The rest of the packet still
        // needs the path.
        state.unwanted = state.arrived.take().or(state.unwanted);
        answer.into()
    }

    // req: rfc5061 4.2.1 "::0 is provided, the source address of the packet MUST be added"
    // req: rfc5061 5.3 "association, it MUST return an Error Cause TLV set to the new"
    fn on_add(
        &mut self,
        now: Instant,
        path: PathId,
        state: &mut Readdressing,
        named: Option<IpAddr>,
    ) -> Result<(), Refusal> {
        let source = self.paths[path].remote;
        let Some(named) = named else { return Err(Refusal::Unresolvable) };
        let remote = stands_for(named, source);
        let names = |path: &mut PathId| self.paths[*path].remote == remote;
        let arrived = state.arrived.take_if(names).or_else(|| state.unwanted.take_if(names));
        let is_new = arrived.is_some();
        if !is_new {
            if self.paths.iter().any(|path| path.remote == remote) || state.beyond.contains(&remote)
            {
                return Ok(());
            }
            // req: rfc5061 4.2.1 "This parameter MUST NOT contain a broadcast or multicast address"
            if !address::is_unicast(remote) || !address::may_be_listed(remote, source) {
                return Err(Refusal::Unresolvable);
            }
            let arrival = Arrival {
                local: self.paths[path].local,
                remote: source,
                remote_udp_port: self.paths[path].remote_udp_port,
                congestion_experienced: false,
                continues: false,
            };
            let reached = self.reaches(remote);
            if reached && self.add_paths(now, remote, &arrival).is_none()
                || !reached && state.beyond.len() >= MAX_PATHS
            {
                return Err(Refusal::Shortage);
            }
            if !reached {
                state.beyond.push(remote);
            }
        }
        mark!(PeerAddressAdded);
        self.tell_peer(AddressChange::Added, remote);
        Ok(())
    }

    // req: rfc5061 4.2.2 "address of the packet MUST be deleted"
    // req: rfc5061 5.3 "of a peer endpoint, the receiver MUST send an Error Cause TLV"
    // req: rfc5061 5.3 "chunk, the receiver MUST reject this request"
    // req: rfc5061 5.3 "address, the endpoint MUST consider the address no longer part"
    // req: rfc5061 4.2.2 "NOT contain a broadcast or multicast address"
    // req: rfc5061 5.3 "NOT be performed or acted upon"
    // req: rfc5061 5.3 "request, the receiver MUST send an Error Cause TLV set to the"
    // req: rfc5061 5.3 "It MUST NOT send SCTP packets for the"
    // req: rfc5061 5.3 "association to that address and it MUST treat subsequent packets"
    fn on_delete(
        &mut self,
        path: PathId,
        state: &mut Readdressing,
        named: Option<IpAddr>,
    ) -> Result<(), Refusal> {
        let source = self.paths[path].remote;
        let Some(named) = named else { return Err(Refusal::Unresolvable) };
        let goes = |remote: IpAddr| match named.is_unspecified() {
            true => remote != source,
            false => remote == named,
        };
        if self.remotes().all(|remote| remote == named) {
            return Err(Refusal::LastAddress);
        }
        if named == source {
            return Err(Refusal::SourceAddress);
        }
        let mut gone: Vec<IpAddr> = self.remotes().filter(|remote| goes(*remote)).collect();
        gone.sort_unstable();
        gone.dedup();
        let known = state.beyond.len();
        state.beyond.retain(|remote| !goes(*remote));
        if gone.is_empty() && state.beyond.len() == known && !named.is_unspecified() {
            return Err(Refusal::Unresolvable);
        }
        if !gone.is_empty() {
            self.retain_paths(|path| !goes(path.remote));
            self.choose_after_removal();
        }
        for remote in gone {
            mark!(PeerAddressRemoved);
            self.tell_peer(AddressChange::Removed, remote);
        }
        Ok(())
    }

    // req: rfc5061 5.4 "set an address as primary that does not exist, the receiver SHOULD"
    fn on_prefer(
        &mut self,
        path: PathId,
        state: &mut Readdressing,
        named: Option<IpAddr>,
    ) -> Result<(), Refusal> {
        let Some(named) = named else { return Err(Refusal::Unresolvable) };
        let remote = stands_for(named, self.paths[path].remote);
        if !self.remotes().any(|known| known == remote) {
            return Err(Refusal::Unresolvable);
        }
        state.preferred = Some(remote);
        self.apply_preference(state);
        Ok(())
    }

    /// Makes the address that the peer prefers the primary one, once it is verified.
    // req: rfc5061 5.4 "path is an option the receiver SHOULD perform"
    pub(super) fn apply_preference(&mut self, state: &mut Readdressing) {
        let Some(remote) = state.preferred else { return };
        let verified = (self.paths.iter())
            .filter(|path| path.remote == remote && path.may_carry())
            .min_by_key(|path| (!path.is_active(), path.local != self.active_local()));
        if let Some(path) = verified.map(|path| path.id) {
            state.preferred = None;
            self.fail_over(Input::SetPrimary(path));
            self.tell_peer(AddressChange::Preferred, remote);
        } else if !self.remotes().any(|known| known == remote) {
            state.preferred = None;
        }
    }

    /// Whether an address of this side reaches this one of the peer.
    pub(in crate::association) fn reaches(&self, remote: IpAddr) -> bool {
        let routes = &self.surroundings.common.routes;
        self.surroundings.locals.iter().any(|local| routes.reaches(*local, remote))
    }

    fn active_local(&self) -> IpAddr {
        self.paths[self.paths.active()].local
    }

    fn tell_peer(&mut self, change: AddressChange, remote: IpAddr) {
        tracing::debug!(%change, %remote, "change of an address of the peer");
        self.news.notify(Notification::PeerAddressChanged { change, remote });
    }
}

/// The address that a parameter names: the wildcard stands for the source of the packet.
fn stands_for(named: IpAddr, source: IpAddr) -> IpAddr {
    if named.is_unspecified() { source } else { named }
}

/// The correlation identifier of a request of an unknown type.
fn first_word(raw: &RawParameter<'_>) -> u32 {
    raw.value.first_chunk().map_or(0, |word| u32::from_be_bytes(*word))
}
