//! Changes of addresses while the association is up (RFC 5061).
//!
//! This side has one ASCONF chunk outstanding; what the user wants meanwhile is collected in `wishes`, and becomes the
//! next chunk. A new local address gets its paths at once, but they are silent: they carry nothing but ASCONF until the
//! peer knows the address. So do the paths of an address that the peer is asked to forget, if there is no other way to
//! keep the association. A private address that the peer cannot use is added with the wildcard: the peer takes the address
//! and the port that a translator gave the packet. Such a chunk must come from that address. If the address goes before
//! the answer comes, the next chunk travels with this one.
//!
//! `outgoing` sends requests, `settlement` does what the peer answers, `incoming` processes the peer's requests, and `roam`
//! makes requests of its own when addresses of this host come and go. An association that uses none of this has no such
//! state.

mod incoming;
mod outgoing;
mod roam;
mod settlement;

use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::Duration;

use anabranch_wire::{Parameter, Parameters};
use bytes::Bytes;

use super::requests::{Answers, Requests};
use super::state::State;
use super::{Arrival, Association};
use crate::event::Notification;
use crate::features::Features;
use crate::path::{Path, Phase, address};
use crate::per_path::{MAX_PATHS, PathId};
use crate::policy::failover::Input;
use crate::reconfiguration::ReconfigurationResult;
use crate::roaming::{AddressChange, AddressError};
use crate::stats::AddressCounters;
use crate::time::Instant;

/// The most changes that wait for their turn.
const MOST_WISHES: usize = 32;

/// State of address reconfiguration.
#[derive(Debug)]
pub(super) struct Readdressing {
    requests: Requests,
    answers: Answers,
    /// Earlier chunks whose answers may not have come; they travel before the outstanding one, in the same packet.
    earlier: Vec<Bytes>,
    /// The requests of the outstanding chunk, whose places are their correlation identifiers.
    asked: Vec<Change>,
    /// The local address from which the chunk must be sent.
    source: Option<IpAddr>,
    /// The chunk also adds this address, because the peer may not know it.
    adds_source: bool,
    /// A source that the peer refused to add, because it has it.
    known: Option<IpAddr>,
    /// The path that the chunk last took, and when it was first sent, if it was not repeated.
    last: Option<PathId>,
    first_sent: Option<Instant>,
    /// How often it was sent.
    tries: u32,
    wishes: VecDeque<Change>,
    /// The peer does not understand requests to add and remove addresses, or those to prefer one, although changes were
    /// agreed on.
    refuses_moves: bool,
    refuses_preferences: bool,
    /// The ASCONF-ACK of the packet that is read. It is processed at its end, because it may remove the path on which
    /// the packet arrived.
    answer: Option<(u32, Bytes)>,
    /// The last HEARTBEAT on a silent path, which is answered when the peer knows the address.
    heard: Option<(PathId, Bytes)>,
    /// A path that was made for the source of the packet that is read, and that the peer has to add yet.
    arrived: Option<PathId>,
    /// Such a path that the peer did not add. It is removed at the end of the packet.
    unwanted: Option<PathId>,
    /// Addresses of the peer that none of the present addresses of this side reaches.
    beyond: Vec<IpAddr>,
    /// An address of the peer that is to be the primary one as soon as it is verified.
    preferred: Option<IpAddr>,
    /// Addresses of this host that came, or failed, and when they are added.
    arriving: Vec<(IpAddr, Instant)>,
    /// How long the next failed one waits.
    again: Duration,
    /// Addresses of this host that went away, and when this side tells the peer.
    departed: Vec<(IpAddr, Instant)>,
    /// Addresses that this host does not have at present.
    absent: Vec<IpAddr>,
    /// When the outstanding chunk is sent again, because an interface came back.
    hasten: Option<Instant>,
    /// The last address, which went away, too. This side tells the peer when it has added another one.
    stranded: Option<IpAddr>,
    counts: AddressCounters,
}

/// A change of a local address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Change {
    what: AddressChange,
    address: IpAddr,
}

impl Readdressing {
    /// Numbers of requests begin with the first TSNs.
    // req: rfc5061 5.1 "initialized at the start of the association to the same value as"
    fn new(local_tsn: u32, remote_tsn: u32) -> Self {
        Self {
            requests: Requests::new(local_tsn),
            answers: Answers::new(remote_tsn),
            earlier: Vec::new(),
            asked: Vec::new(),
            source: None,
            adds_source: false,
            known: None,
            last: None,
            first_sent: None,
            tries: 0,
            wishes: VecDeque::new(),
            refuses_moves: false,
            refuses_preferences: false,
            answer: None,
            heard: None,
            arrived: None,
            unwanted: None,
            beyond: Vec::new(),
            preferred: None,
            arriving: Vec::new(),
            again: roam::AGAIN,
            departed: Vec::new(),
            absent: Vec::new(),
            hasten: None,
            stranded: None,
            counts: AddressCounters::default(),
        }
    }

    /// Whether the peer does not understand such changes.
    fn refuses(&self, what: AddressChange) -> bool {
        match what {
            AddressChange::Added | AddressChange::Removed => self.refuses_moves,
            AddressChange::Preferred => self.refuses_preferences,
        }
    }

    /// What is asked for or will be, in order.
    fn coming(&self) -> impl Iterator<Item = &Change> {
        self.asked.iter().chain(&self.wishes)
    }
}

impl Association {
    /// Adds a local address, so that the peer can send to it, and this side from it, once the peer has agreed (RFC 5061).
    /// [`Notification::AddressChanged`] reports the end.
    ///
    /// # Errors
    /// [`AddressError`]; then nothing has happened.
    pub fn add_address(&mut self, now: Instant, local: IpAddr) -> Result<(), AddressError> {
        self.may_readdress(AddressChange::Added)?;
        if self.will_have(local) {
            return Err(AddressError::Known);
        }
        self.readdressing();
        let state = self.readdressing.as_deref();
        if !state.is_some_and(|state| self.reaches_peer(state, local)) {
            return Err(AddressError::Unreachable);
        }
        self.wish(now, AddressChange::Added, local)
    }

    /// Removes a local address: nothing is sent from it any more, and the peer is asked to forget it (RFC 5061). If it is
    /// the only one that works, that waits until another one was added. [`Notification::AddressChanged`] reports the end.
    ///
    /// # Errors
    /// [`AddressError`]; then nothing has happened.
    // req: rfc5061 5.3 "An endpoint MUST NOT delete its last remaining IP address from"
    pub fn remove_address(&mut self, now: Instant, local: IpAddr) -> Result<(), AddressError> {
        self.may_readdress(AddressChange::Removed)?;
        if !self.will_have(local) {
            return Err(AddressError::Unknown);
        }
        if !self.own_addresses().into_iter().any(|own| own != local) {
            return Err(AddressError::Last);
        }
        self.wish(now, AddressChange::Removed, local)
    }

    /// Asks the peer to send data to this local address rather than to the others (RFC 5061). The peer may ignore that.
    /// [`Notification::AddressChanged`] reports the end.
    ///
    /// # Errors
    /// [`AddressError`]; then nothing has happened.
    // req: rfc5061 5.4 "A sender MUST only send a set"
    pub fn prefer_address(&mut self, now: Instant, local: IpAddr) -> Result<(), AddressError> {
        self.may_readdress(AddressChange::Preferred)?;
        if !self.will_have(local) {
            return Err(AddressError::Unknown);
        }
        self.wish(now, AddressChange::Preferred, local)
    }

    /// Whether addresses can change so now.
    fn may_readdress(&self, what: AddressChange) -> Result<(), AddressError> {
        if !matches!(self.state, State::Established) {
            return Err(AddressError::NotUp);
        }
        let refused = self.readdressing.as_ref().is_some_and(|state| state.refuses(what));
        match self.features.has(Features::ADDRESS_RECONFIGURATION) && !refused {
            true => Ok(()),
            false => Err(AddressError::NotNegotiated),
        }
    }

    fn wish(
        &mut self,
        now: Instant,
        what: AddressChange,
        address: IpAddr,
    ) -> Result<(), AddressError> {
        let state = self.readdressing();
        if state.wishes.len() >= MOST_WISHES {
            return Err(AddressError::TooMany);
        }
        state.wishes.push_back(Change { what, address });
        self.advance_readdressing(now);
        Ok(())
    }

    /// The local addresses that the association will have when everything wanted is done.
    fn own_addresses(&self) -> Vec<IpAddr> {
        let silent = |local: IpAddr| {
            self.paths.iter().filter(|path| path.local == local).all(|path| path.silent)
        };
        let mut own: Vec<IpAddr> = Vec::new();
        for path in self.paths.iter() {
            if !own.contains(&path.local) && !silent(path.local) {
                own.push(path.local);
            }
        }
        for change in self.readdressing.iter().flat_map(|state| state.coming()) {
            match change.what {
                AddressChange::Added if !own.contains(&change.address) => own.push(change.address),
                AddressChange::Removed => own.retain(|address| *address != change.address),
                AddressChange::Added | AddressChange::Preferred => {}
            }
        }
        own
    }

    /// Keeps addresses of the peer in mind that none of this side's reaches now, because one that this side adds later
    /// may.
    pub(super) fn keep_in_mind(&mut self, remotes: &[IpAddr]) {
        if !self.features.has(Features::ADDRESS_RECONFIGURATION) {
            return;
        }
        for remote in remotes {
            if self.reaches(*remote) {
                continue;
            }
            let beyond = &mut self.readdressing().beyond;
            if !beyond.contains(remote) && beyond.len() < MAX_PATHS {
                beyond.push(*remote);
            }
        }
    }

    fn will_have(&self, local: IpAddr) -> bool {
        self.own_addresses().contains(&local)
    }

    /// Whether an address of the peer can be reached from this one.
    fn reaches_peer(&self, state: &Readdressing, local: IpAddr) -> bool {
        let routes = &self.surroundings.common.routes;
        let beyond = state.beyond.iter().copied();
        self.remotes().chain(beyond).any(|remote| routes.reaches(local, remote))
    }

    /// The state, which is made when it is first needed.
    fn readdressing(&mut self) -> &mut Readdressing {
        let tsns = (self.sender.initial_tsn().0, self.receiver.first_tsn());
        self.readdressing.get_or_insert_with(|| Readdressing::new(tsns.0, tsns.1).into())
    }

    /// Creates lanes for paths that were added while the association is up.
    fn begin_lanes(&mut self, now: Instant, added: &[PathId]) {
        self.add_lanes(now);
        let (old, ..) = self.sender.learnt(self.paths.active());
        for id in added {
            let pmdcs = self.paths[*id].pmdcs();
            if let Some(packets) = self.config.addresses.new_path_window.packets(old, pmdcs) {
                self.sender.on_recovered(now, *id, packets);
            }
        }
    }

    /// Sends what has become possible.
    pub(super) fn advance_readdressing(&mut self, now: Instant) {
        let Some(mut state) = self.readdressing.take() else { return };
        self.apply_preference(&mut state);
        self.ask_for_changes(now, &mut state);
        self.readdressing = Some(state);
        self.leave_closed_path();
        if !matches!(self.state, State::Established) {
            self.reopen_paths();
        }
    }

    /// Chooses again, after paths were removed, if the path in use does not work.
    fn choose_after_removal(&mut self) {
        let active = self.paths.active();
        let usual = matches!(self.paths.phase(), Phase::Primary | Phase::Alternate);
        if usual && self.paths[active].may_carry() && !self.paths[active].is_active() {
            self.fail_over(Input::Failed(active));
        }
    }

    /// Moves data to a path that may carry it, if the one in use may not: it is about to go, or was never verified.
    pub(super) fn leave_closed_path(&mut self) {
        let active = self.paths.active();
        if self.paths[active].may_carry() {
            self.redirect_closed(active);
            return;
        }
        let open = self.paths.iter().filter(|path| path.may_carry());
        let Some(open) = open.min_by_key(|path| !path.is_active()).map(|path| path.id) else {
            return;
        };
        if !self.paths[self.paths.primary()].may_carry() {
            self.paths.choose(Phase::Primary, open);
        }
        self.use_path(open);
        self.redirect_closed(open);
        self.choose_after_removal();
    }

    /// Moves chunks that wait for a path that may not carry data to one that may. Such a path was the only one left when
    /// others were removed; once another one is in use, nothing else would ever send them.
    fn redirect_closed(&mut self, open: PathId) {
        if !self.sender.has_losses() {
            return;
        }
        for id in self.paths.ids_now() {
            if !self.paths[id].may_carry() {
                self.sender.redirect(id, open);
            }
        }
    }

    /// When [`on_readdressing_timeout`](Self::on_readdressing_timeout) must be called.
    pub(super) fn readdressing_deadline(&self) -> Option<Instant> {
        let state = self.readdressing.as_ref()?;
        let told = state.departed.iter().chain(&state.arriving).map(|(_, at)| *at).min();
        state.requests.deadline().into_iter().chain(told).chain(state.hasten).min()
    }

    /// Handles a missing answer, and addresses that did not come back.
    pub(super) fn on_readdressing_timeout(&mut self, now: Instant) {
        self.follow_addresses(now);
        self.repeat_changes(now);
    }

    /// Ends all requests: the association has ended, or the peer has lost its state.
    pub(super) fn end_readdressing(&mut self) {
        let Some(mut state) = self.readdressing.take() else { return };
        state.requests.on_answer(state.requests.next().wrapping_sub(1));
        let changes: Vec<Change> = state.asked.drain(..).chain(state.wishes.drain(..)).collect();
        self.readdressing = Some(state);
        for change in changes {
            self.tell_change(change, ReconfigurationResult::Failed);
        }
    }

    /// Ends what was not asked for yet, because the association shuts down.
    pub(super) fn stop_readdressing(&mut self) {
        let wishes = self.readdressing.as_mut().map(|state| std::mem::take(&mut state.wishes));
        for change in wishes.into_iter().flatten() {
            self.tell_change(change, ReconfigurationResult::Failed);
        }
        self.reopen_paths();
    }

    /// Uses paths again that wait for changes which nobody asks for any more, because the association shuts down, if there
    /// is no other path. What is left to be sent takes them; if the peer does not know their addresses, their errors end
    /// the association.
    fn reopen_paths(&mut self) {
        let asks = self.readdressing.as_ref().is_some_and(|state| !state.asked.is_empty());
        if asks || !self.has_lost_its_way() {
            return;
        }
        self.paths.iter_mut().for_each(|path| path.silent = false);
        self.leave_closed_path();
    }

    /// Begins with the numbers of a new incarnation of the peer, which knows the addresses from its handshake.
    pub(super) fn renew_readdressing(&mut self) {
        let tsns = (self.sender.initial_tsn().0, self.receiver.first_tsn());
        if let Some(state) = &mut self.readdressing {
            let counts = state.counts;
            **state = Readdressing { counts, ..Readdressing::new(tsns.0, tsns.1) };
        }
        self.paths.iter_mut().for_each(|path| path.silent = false);
    }

    fn tell_change(&mut self, change: Change, result: ReconfigurationResult) {
        let Change { what, address } = change;
        tracing::debug!(%what, %address, %result, "change of a local address");
        self.news.notify(Notification::AddressChanged { change: what, address, result });
    }

    /// The counters.
    pub(super) fn address_counts(&self) -> AddressCounters {
        self.readdressing.as_ref().map(|state| state.counts).unwrap_or_default()
    }

    /// Whether the addresses have changed so that no path is known to lead to the peer.
    pub(super) fn has_lost_its_way(&self) -> bool {
        self.readdressing.is_some() && !self.paths.iter().any(Path::may_carry)
    }

    /// Whether an ABORT of a host that does not know the association came to an address that goes, or has gone: the peer
    /// has forgotten only the address.
    // req: rfc5061 5.3 "Chunks arriving destined to the IP address being deleted MUST be"
    // req: rfc5061 5.3.1 "Abort MUST be ignored if the destination address"
    pub(super) fn is_about_gone_address(&self, arrival: &Arrival) -> bool {
        let stays = |path: &Path| path.local == arrival.local && !path.silent;
        self.readdressing.is_some() && !self.paths.iter().any(stays)
    }

    /// Whether the peer can use this local address as it is: it need not pass a translator first.
    // req: rfc6951 3.2 "described in RFC5061 MUST be used only with"
    // req: rfc6951 5.7 "protocol extension RFC5061 MUST be used with wildcard"
    fn may_name(&self, local: IpAddr) -> bool {
        address::may_be_listed(local, self.paths[self.paths.active()].remote)
    }
}

/// Appends an address parameter.
fn encode_address(address: IpAddr, out: &mut Vec<u8>) {
    match address {
        IpAddr::V4(v4) => Parameter::Ipv4Address(v4).encode(out),
        IpAddr::V6(v6) => Parameter::Ipv6Address(v6).encode(out),
    }
}

/// The first address parameter of a list.
fn decode_address(parameters: Parameters<'_>) -> Option<IpAddr> {
    match parameters.iter().next()?.ok()?.decode().ok()? {
        Parameter::Ipv4Address(v4) => Some(IpAddr::V4(v4)),
        Parameter::Ipv6Address(v6) => Some(IpAddr::V6(v6)),
        _ => None,
    }
}

/// The address that stands for the source of the packet.
fn wildcard(like: IpAddr) -> IpAddr {
    match like {
        IpAddr::V4(_) => IpAddr::from([0; 4]),
        IpAddr::V6(_) => IpAddr::from([0; 16]),
    }
}
