//! Requests of this side (RFC 5061 sections 5.1, 5.3 and 5.5).

use std::collections::VecDeque;
use std::net::IpAddr;

use anabranch_wire::{Parameter, Parameters};
use bytes::Bytes;

use super::roam::SETTLE;
use super::{Change, Readdressing, encode_address, wildcard};
use crate::association::state::State;
use crate::association::{Association, Control};
use crate::marks::mark;
use crate::path::Path;
use crate::per_path::PathId;
use crate::reconfiguration::ReconfigurationResult;
use crate::roaming::AddressChange;
use crate::send::Cause as LossCause;
use crate::time::Instant;

/// The most requests in one chunk: it fits into the smallest packet.
const MOST_REQUESTS: usize = 8;
/// The most bytes of earlier chunks to which another one is added.
const MOST_EARLIER: usize = 200;
/// How often a chunk is sent before an address that it removes may send it.
const PATIENT_TRIES: u32 = 5;

impl Association {
    /// Sends the next requests, if none is outstanding.
    // req: rfc5061 5.1.1 "ASCONF Chunk, it MUST wait until the ASCONF-ACK Chunk returns"
    // req: rfc5061 5.1.1 "Both ASCONF and ASCONF-ACK Chunks MUST NOT be sent in any SCTP"
    pub(super) fn ask_for_changes(&mut self, now: Instant, state: &mut Readdressing) {
        if !self.state.acknowledges() {
            return;
        }
        if state.requests.is_free()
            && !state.wishes.is_empty()
            && matches!(self.state, State::Established)
        {
            let (changes, source) = self.next_changes(state);
            if !changes.is_empty() {
                self.begin_changes(now, state, changes, source);
            }
        }
        if self.is_stranded(state) {
            self.overtake(now, state);
        }
        if state.requests.due().is_some() {
            self.send_changes(now, state);
        }
    }

    /// Whether no interface is left that can send the outstanding chunk, while another address could. That one is there
    /// already, or is to be added.
    fn is_stranded(&self, state: &Readdressing) -> bool {
        if state.requests.is_free() {
            return false;
        }
        let here = |path: &Path| !path.detached && !path.disowned;
        let other = |local: IpAddr| state.source.is_some_and(|source| source != local);
        let stays = self.paths.iter().any(|path| here(path) && !other(path.local));
        !stays && (self.paths.iter().any(here) || self.next_may_travel_too(state))
    }

    /// Whether the next chunk may be sent behind the outstanding one, because it adds an address.
    fn next_may_travel_too(&self, state: &Readdressing) -> bool {
        let earlier: usize = state.earlier.iter().map(Bytes::len).sum();
        let is_new = |address: IpAddr| self.paths.iter().all(|path| path.local != address);
        let comes = |wish: &Change| {
            wish.what == AddressChange::Added
                && is_new(wish.address)
                && !state.absent.contains(&wish.address)
        };
        matches!(self.state, State::Established)
            && earlier <= MOST_EARLIER
            && state.wishes.iter().any(comes)
    }

    /// Gives up requests that cannot be sent any more as they are. The next ones, if an address is to be added, travel with
    /// them and need not wait.
    // req: rfc5061 5.5 "multiple ASCONFs, the following rules MUST be followed"
    // req: rfc5061 5.5 "ASCONF lookup address MUST be populated as if"
    fn overtake(&mut self, now: Instant, state: &mut Readdressing) {
        let was_bound = state.source.is_some();
        self.give_up_source(now, state);
        let waits = !state.asked.is_empty() && self.paths.iter().any(|path| !path.detached);
        let (changes, source) = match !waits && self.next_may_travel_too(state) {
            true => self.next_changes(state),
            false => Default::default(),
        };
        if changes.is_empty() {
            if was_bound {
                state.requests.hasten();
            }
            return;
        }
        for change in std::mem::take(&mut state.asked) {
            self.end_change(now, change, ReconfigurationResult::Failed, None);
        }
        state.earlier.extend(state.requests.overtake());
        self.begin_changes(now, state, changes, source);
    }

    /// The changes that go into the next chunk, in their order, and the local address that must send it. An address goes
    /// only if another one that the peer knows remains, or is added before it in the chunk.
    // req: rfc5061 5.3 "homed, it MUST NOT use the delete IP address without an Add IP"
    // req: rfc5061 5.3 "it MUST NOT delete all of the IP addresses that the peer has"
    fn next_changes(&mut self, state: &mut Readdressing) -> (Vec<Change>, Option<IpAddr>) {
        // One that left while its addition waited for its turn is added when it comes back.
        let Readdressing { wishes, absent, .. } = &mut *state;
        let may_ask =
            |wish: &Change| wish.what != AddressChange::Added || !absent.contains(&wish.address);
        for change in wishes.iter().filter(|wish| !may_ask(wish)) {
            self.tell_change(*change, ReconfigurationResult::Failed);
        }
        wishes.retain(may_ask);
        let mut known: Vec<IpAddr> =
            self.paths.iter().filter(|path| !path.silent).map(|path| path.local).collect();
        let mut changes: Vec<Change> = Vec::new();
        let mut source = None;
        while let Some(change) = state.wishes.front().copied() {
            let Change { what, address } = change;
            let other = known.iter().any(|own| *own != address);
            let fits = match (what, self.may_name(address)) {
                (AddressChange::Added, true) => source.is_none(),
                (AddressChange::Removed, _) if self.makes_first(address, &changes) => false,
                (AddressChange::Removed, true) => source != Some(address) && other,
                (AddressChange::Preferred, true) => source.is_none() && known.contains(&address),
                // The chunk must come from an address that cannot be named.
                (AddressChange::Added | AddressChange::Preferred, false) => changes.is_empty(),
                // All other addresses are removed, so one must remain.
                (AddressChange::Removed, false) => {
                    let mut others = known.iter().filter(|own| **own != address);
                    let rest = others.next().copied();
                    let alone = others.all(|own| Some(*own) == rest);
                    let here = changes.is_empty() || source == rest;
                    if rest.is_some() && alone && here {
                        source = rest;
                    }
                    rest.is_some() && here
                }
            };
            // If the first request about an address fails, so does the second, which would say something else.
            let again = changes.iter().any(|earlier| {
                earlier.address == address && earlier.what != AddressChange::Preferred
            });
            if !fits && changes.is_empty() && bring_addition_forward(&mut state.wishes) {
                continue;
            }
            if !fits || again || changes.len() >= MOST_REQUESTS {
                break;
            }
            state.wishes.pop_front();
            match what {
                AddressChange::Added => {
                    source = source.or((!self.may_name(address)).then_some(address));
                    known.extend(self.reaches_peer(state, address).then_some(address));
                }
                AddressChange::Removed => known.retain(|own| *own != address),
                AddressChange::Preferred if !self.may_name(address) => source = Some(address),
                AddressChange::Preferred => {}
            }
            changes.push(change);
        }
        (changes, source)
    }

    /// Whether an address stays until another one works.
    fn makes_first(&self, address: IpAddr, changes: &[Change]) -> bool {
        let adds = changes.iter().any(|change| change.what == AddressChange::Added);
        self.config.addresses.handover.waits(address, adds, &self.paths)
    }

    /// Numbers the requests, makes their chunk, and prepares the paths.
    // req: rfc5061 5.1 "remote endpoint, it MUST do the following"
    // req: rfc5061 5.1 "A Sequence Number MUST be assigned to the Chunk"
    // req: rfc5061 5.1 "The Sequence Number MUST be larger by one"
    // req: rfc5061 5.3 "IP addresses, the following rules MUST be applied"
    // req: rfc5061 5.1 "MUST contain all of the TLV(s) of information necessary"
    // req: rfc5061 5.1 "new ASCONF Chunk is created, it MUST be incremented by one after"
    // req: rfc5061 4.1.1 "This parameter MUST be present in every ASCONF"
    // req: rfc5061 5.3.2 "reason, the sender MUST fill in the Address Parameter field with an"
    // exempt: rfc5061 5.1.1 "An ASCONF Chunk and an ASCONF-ACK Chunk SHOULD not be larger" the number of requests is limited in place of their size
    fn begin_changes(
        &mut self,
        now: Instant,
        state: &mut Readdressing,
        changes: Vec<Change>,
        source: Option<IpAddr>,
    ) {
        let mut value = state.requests.next().to_be_bytes().to_vec();
        encode_address(self.known_address(), &mut value);
        // A translator may show the peer another address than the one that it knows. A peer discards what comes from an
        // unknown address, unless it adds that address.
        let adds = |source: IpAddr| {
            let same =
                |change: &Change| change.what == AddressChange::Added && change.address == source;
            changes.iter().any(same)
        };
        let known = state.known.take();
        state.adds_source = source.is_some_and(|source| !adds(source) && known != Some(source));
        if let Some(source) = source.filter(|_| state.adds_source) {
            let mut any = Vec::new();
            encode_address(wildcard(source), &mut any);
            let correlation = u32::try_from(changes.len()).unwrap_or(u32::MAX);
            let address = Parameters::new(&any);
            Parameter::AddIpAddress { correlation, address }.encode(&mut value);
        }
        for (correlation, change) in (0..).zip(&changes) {
            let alone = |address: &IpAddr| source.is_some() && !self.may_name(*address);
            let named = match alone(&change.address) {
                true => wildcard(change.address),
                false => change.address,
            };
            let mut list = Vec::new();
            encode_address(named, &mut list);
            let address = Parameters::new(&list);
            match change.what {
                AddressChange::Added => Parameter::AddIpAddress { correlation, address },
                AddressChange::Removed => Parameter::DeleteIpAddress { correlation, address },
                AddressChange::Preferred => Parameter::SetPrimaryAddress { correlation, address },
            }
            .encode(&mut value);
        }
        for change in &changes {
            if change.what == AddressChange::Added {
                self.add_silent_paths(now, change.address, &state.beyond);
            }
        }
        for change in &changes {
            if change.what == AddressChange::Removed {
                self.silence(change.address);
                if let Some(source) = source.filter(|_| !self.may_name(change.address)) {
                    // The wildcard removes all others, also those that reach no address of the peer at present.
                    self.surroundings.locals = [source].into();
                }
            }
        }
        (state.asked, state.source, state.last, state.first_sent) = (changes, source, None, None);
        state.tries = 0;
        let begun = state.requests.begin(value.into(), 1);
        debug_assert!(begun.is_ok(), "another request is outstanding");
    }

    /// An address of the association that the peer knows.
    // req: rfc5061 4.1.1 "the address MUST be considered part of the association by the"
    // req: rfc5061 4.1.1 "host name address MUST NOT be sent and"
    fn known_address(&self) -> IpAddr {
        let known = self.paths.iter().find(|path| !path.silent);
        let active = &self.paths[self.paths.active()];
        if active.silent { known.unwrap_or(active).local } else { active.local }
    }

    /// Makes paths from a new address, one to each address of the peer, also to those `beyond` the present paths. They carry only ASCONF until the peer has agreed.
    // req: rfc5061 5.3 "containing the add is acknowledged, the sender MUST NOT use the"
    // req: rfc5061 5.3 "case, an endpoint SHOULD consider the newly added IP address"
    // req: rfc5061 5.3 "MUST NOT source data from this new address"
    // req: rfc5061 5.3 "data as illustrated and MUST NOT treat this data as an OOTB"
    // req: rfc5061 5.3 "association, but it MUST NOT respond with an ABORT"
    pub(super) fn add_silent_paths(&mut self, now: Instant, local: IpAddr, beyond: &[IpAddr]) {
        let mut remotes: Vec<(IpAddr, u16)> = (self.paths.iter())
            .filter(|path| !path.disowned)
            .map(|path| (path.remote, path.remote_udp_port))
            .collect();
        let port = self.paths[self.paths.active()].remote_udp_port;
        remotes.extend(beyond.iter().map(|remote| (*remote, port)));
        let routes = &self.surroundings.common.routes;
        remotes.retain(|(remote, _)| routes.reaches(local, *remote));
        let setup = self.config.of_path(self.surroundings.headers);
        let mut added = Vec::new();
        for (remote, port) in remotes {
            let mut path = Path::new(now, local, remote, port, &setup);
            path.silent = true;
            if !self.paths.iter().any(|path| path.local == local && path.remote == remote) {
                added.extend(self.paths.push(path));
            }
        }
        self.begin_lanes(now, &added);
    }

    /// Stops sending from an address that goes, except for ASCONF if there is no other way. Packets that still arrive
    /// there are read. What is in flight on its paths goes to another one.
    // req: rfc5061 5.3 "MUST be considered a valid destination address for the reception"
    // req: rfc5061 5.3 "used as a source address for any subsequent packets"
    // req: rfc5061 5.3 "any datagrams that arrive before the ASCONF-ACK destined to"
    pub(super) fn silence(&mut self, local: IpAddr) {
        let goes: Vec<PathId> =
            self.paths.iter().filter(|path| path.local == local).map(|path| path.id).collect();
        for id in &goes {
            self.paths[*id].silent = true;
        }
        self.leave_closed_path();
        let active = self.paths.active();
        if !self.paths[active].may_carry() {
            return;
        }
        for id in goes {
            if self.sender.in_flight(id) {
                self.sender.lose_flight(id, LossCause::WrongAddress, active, &mut self.paths);
            }
            self.sender.redirect(id, active);
        }
        self.choose_concurrent_paths();
        self.sender.begin_burst();
    }

    /// Sends the outstanding chunk.
    // req: rfc5061 5.1 "The sender MUST Start a T-4 Retransmission Timeout (RTO) timer"
    // req: rfc5061 5.1 "chunk; it MUST be the same (including its Sequence Number) as"
    // req: rfc5061 5.1 "An endpoint MUST NOT add new parameters to this"
    // req: rfc5061 5.5 "Previously transmitted ASCONF Chunks MUST be left unchanged"
    // req: rfc5061 5.1.1 "that these transfers MUST NOT cause congestion within"
    // req: rfc5061 4.1.1 "chunk MUST be sent in an authenticated way by using the mechanism"
    fn send_changes(&mut self, now: Instant, state: &mut Readdressing) {
        let mut path = self.path_for_changes(state);
        if path.is_none() && state.source.is_some() {
            self.give_up_source(now, state);
            path = self.path_for_changes(state);
        }
        let Some(path) = path.filter(|_| !self.is_closed()) else { return };
        let Some((_, chunk)) = state.requests.due() else { return };
        let mut chunks = state.earlier.clone();
        chunks.push(chunk.clone());
        let rto = self.paths[path].rtt.rto();
        let repeated = state.tries > 0;
        state.first_sent = (!repeated).then_some(now);
        state.last = Some(path);
        state.tries = state.tries.saturating_add(1);
        state.counts.address_changes_sent = state.counts.address_changes_sent.wrapping_add(1);
        state.requests.on_sent(path, now + rto);
        let waits = |control: &Control| matches!(control, Control::Asconf(_));
        self.outbox.chunks.retain(|(_, control)| !waits(control));
        // req: rfc5061 5.5 "containing ASCONF Chunks MUST be bundled starting with"
        // req: rfc5061 5.5 "within the packet MUST be adjacent to each"
        for chunk in chunks {
            self.queue(path, Control::Asconf(chunk));
        }
    }

    /// Gives up requests that had to come from an address which left, or which reaches no address of the peer any more.
    /// Their chunk is still sent, because the peer expects its number; it changes nothing then but the peer's view of
    /// addresses that are gone. An address that is still here may have been added before, so the answer decides; its paths
    /// are verified in any case.
    fn give_up_source(&mut self, now: Instant, state: &mut Readdressing) {
        let here = state.source.take().is_some_and(|source| {
            let mut own = self.paths.iter().filter(|path| path.local == source);
            !state.absent.contains(&source) && own.all(|path| !path.detached)
        });
        let asked = std::mem::take(&mut state.asked);
        for (place, change) in asked.into_iter().enumerate() {
            // It is the first request, as before, which the answer names by its place.
            if here && place == 0 && change.what == AddressChange::Added {
                state.asked.push(change);
                continue;
            }
            self.end_change(now, change, ReconfigurationResult::Failed, None);
            if change.what == AddressChange::Removed && self.config.addresses.roam {
                let patience = self.config.addresses.roam_patience.max(SETTLE);
                state.departed.push((change.address, now + patience));
            }
        }
    }

    /// The path for the chunk: one that works, then one of an address that it adds, then any other. A path that it took
    /// is followed by the next one in this order. If none works, also one of an address that it removes: the peer refuses
    /// that, and the address stays. Both sides may have removed what the other one still has.
    // req: rfc5061 5.3 "An endpoint MUST NOT set an IP header source address for an SCTP"
    // exempt: rfc5061 5.3 "An endpoint MUST NOT set an IP header source address for an SCTP" where no other path works, its refusal is the only answer that can come
    fn path_for_changes(&self, state: &Readdressing) -> Option<PathId> {
        let goes = |local: IpAddr| {
            let removed =
                |change: &Change| change.what == AddressChange::Removed && change.address == local;
            state.asked.iter().any(removed)
        };
        let rank = |path: &Path| match () {
            () if goes(path.local) => 3,
            () if path.may_carry() && path.is_active() && !path.detached => 0,
            () if path.silent && !path.detached => 1,
            () => 2,
        };
        let active = self.paths.active();
        let mut order: Vec<(u8, bool, PathId)> = (self.paths.iter())
            .filter(|path| !path.disowned || goes(path.local))
            .filter(|path| state.source.is_none_or(|source| source == path.local))
            .map(|path| (rank(path), path.id != active, path.id))
            .collect();
        let attached = |id: PathId| !self.paths[id].detached;
        if order.iter().any(|(_, _, path)| attached(*path)) {
            order.retain(|(_, _, path)| attached(*path));
        }
        let others = order.iter().any(|(rank, ..)| *rank < 3);
        let works = order.iter().any(|(rank, ..)| *rank == 0);
        if works || others && state.tries < PATIENT_TRIES {
            order.retain(|(rank, ..)| *rank != 3);
        }
        order.sort_unstable();
        let at = order.iter().position(|(_, _, path)| Some(*path) == state.last);
        let next = at.map_or(0, |at| (at + 1) % order.len());
        order.get(next).map(|(_, _, path)| *path)
    }

    /// Repeats the outstanding chunk if its answer is overdue.
    // req: rfc5061 5.1 "If the T-4 RTO timer expires the endpoint MUST do the following"
    pub(super) fn repeat_changes(&mut self, now: Instant) {
        let Some(state) = &mut self.readdressing else { return };
        let Some(path) = state.requests.on_timeout(now) else { return };
        mark!(AddressChangeRepeated);
        let carries = self.paths.get(path).is_some_and(Path::may_carry);
        if let Some(path) = self.paths.get_mut(path) {
            path.rtt.back_off();
        }
        // An address that the peer does not know yet may lead nowhere, which says nothing about the peer.
        if carries || !self.paths.iter().any(Path::may_carry) {
            self.count_association_error(now);
        }
        if carries && !self.is_closed() {
            self.count_path_error(now, path);
        }
        if !self.is_closed() {
            self.advance_readdressing(now);
        }
    }
}

/// Moves the first wish for a new address before others that have to wait for one. Returns whether there was any.
fn bring_addition_forward(wishes: &mut VecDeque<Change>) -> bool {
    let at = wishes.iter().position(|wish| wish.what == AddressChange::Added);
    let Some(at) = at.filter(|at| *at > 0) else { return false };
    let address = wishes[at].address;
    // One that goes first, and comes back, stays in its order.
    if wishes.iter().take(at).any(|wish| wish.address == address) {
        return false;
    }
    if let Some(addition) = wishes.remove(at) {
        wishes.push_front(addition);
    }
    true
}
