//! Tasks between the library's associations and sockets.
//!
//! Messages stay with the association, where they occupy the receive window. A task fetches the next one
//! only when the socket has none ([`feed`](super::feed)).

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, Weak};

use anabranch::{
    Association, AssociationError, ConnectOptions, InSockets, Listener, Message, Notification,
    OutgoingMessage, PathState,
};
use bytes::Bytes;
use tokio::sync::Notify;

use super::feed::{Feed, at_once};
use super::options::Options;
use super::outgoing::{OutgoingState, begin};
use super::partial::Partial;
use super::reach::Reach;
use super::records::Records;
use super::{Peer, Socket, State, Style, fresh_id, reconfiguration};
use crate::assoc_id::AssocId;
use crate::endpoints::Lease;
use crate::error::Error;
use crate::family;
use crate::lock::lock;
use crate::notification::{AddressChange, AssocChange, CutShort, Event, EventKind, FailedMessage};

/// State shared by the tasks of an association and its socket.
#[derive(Debug, Default)]
pub(crate) struct Link {
    /// The socket that owns the association now.
    socket: Mutex<Weak<Socket>>,
    /// Notified when the socket took its message, or dropped the association.
    pub(super) taken: Notify,
    pub(super) outgoing: Mutex<OutgoingState>,
}

impl Link {
    pub(super) fn new(socket: &Arc<Socket>) -> Arc<Self> {
        let link = Self::default();
        *lock(&link.socket) = Arc::downgrade(socket);
        Arc::new(link)
    }

    /// Moves the association to another socket.
    pub(super) fn move_to(&self, socket: &Arc<Socket>) {
        *lock(&self.socket) = Arc::downgrade(socket);
    }

    pub(super) fn socket(&self) -> Option<Arc<Socket>> {
        lock(&self.socket).upgrade()
    }

    /// Runs `act` on the state of the association's socket; `None` if no socket owns it.
    pub(super) fn with<T>(
        &self,
        id: AssocId,
        mut act: impl FnMut(&Socket, &mut State) -> T,
    ) -> Option<T> {
        loop {
            let socket = self.socket()?;
            let result =
                socket.with(|state| state.peers.contains_key(&id).then(|| act(&socket, state)));
            if result.is_some() {
                return result;
            }
            // It may have moved to another socket meanwhile.
            if self.socket().is_none_or(|now| Arc::ptr_eq(&now, &socket)) {
                return None;
            }
        }
    }
}

impl Socket {
    /// Sets up an association.
    pub(super) fn start_connecting(
        self: &Arc<Self>,
        state: &mut State,
        endpoint: &Lease,
        remotes: Vec<SocketAddr>,
        options: ConnectOptions,
    ) -> AssocId {
        let (id, link) = (fresh_id(), Link::new(self));
        let remote = remotes.first().copied().unwrap_or(([0, 0, 0, 0], 0).into());
        state.peers.insert(id, Peer::new(link.clone(), remote));
        state.used = true;
        // No lease is needed: an endpoint stays open as long as it has associations.
        let (endpoint, hooks) = (endpoint.endpoint(), self.host.hooks.clone());
        self.host.reactor.spawn(async move {
            let connecting = endpoint.connect(remotes, options);
            tokio::pin!(connecting);
            let result = loop {
                tokio::select! {
                    result = &mut connecting => break result,
                    // A closed socket does not need the association, unless a message waits for it.
                    () = link.taken.notified() => {
                        if link.with(id, |_, _| ()).is_none() && lock(&link.outgoing).early.is_none() {
                            return;
                        }
                    }
                }
            };
            match result {
                Ok(association) => {
                    link.with(id, |_, state| {
                        if let Some(peer) = state.peers.get_mut(&id) {
                            peer.attach(association.clone(), &state.options);
                        }
                    });
                    let feed = Feed::new(id, association.clone());
                    hooks.established(&association, false);
                    let begin = begin(&link, id, &association);
                    tokio::join!(begin, feed.run(link.clone()));
                }
                Err(error) => {
                    let error = Error::from(error);
                    link.with(id, |socket, state| state.failed(socket.style, id, error));
                }
            }
        });
        id
    }

    /// Adds an established association to this socket.
    pub(super) fn adopt(self: &Arc<Self>, state: &mut State, association: Association) -> AssocId {
        let (id, link) = (fresh_id(), Link::new(self));
        let remote = primary(&association).unwrap_or(([0, 0, 0, 0], 0).into());
        let mut peer = Peer::new(link.clone(), remote);
        peer.attach(association.clone(), &state.options);
        state.peers.insert(id, peer);
        state.used = true;
        let mut feed = Feed::new(id, association.clone());
        self.host.hooks.established(&association, true);
        // Data and events that have arrived are available to the next call.
        if !feed.catch_up(self, state) {
            self.host.reactor.spawn(feed.run(link));
        }
        id
    }

    /// Takes associations from a listener until the socket stops listening.
    pub(super) fn start_accepting(self: &Arc<Self>, state: &mut State, listener: Listener) {
        let (stop, listener) = (Arc::new(Notify::new()), Arc::new(listener));
        state.accepting = Some(Accepting { stop: stop.clone(), listener: listener.clone() });
        let socket = Arc::downgrade(self);
        self.host.reactor.spawn(async move {
            accept(&socket, &listener, &stop).await;
            drop(listener);
            // The port is free now.
            if let Some(socket) = socket.upgrade() {
                socket.with(|state| {
                    state.accepting.take_if(|accepting| Arc::ptr_eq(&accepting.stop, &stop));
                });
            }
        });
    }

    /// Accepts an association that a peer set up, or aborts it.
    fn welcome(self: &Arc<Self>, state: &mut State, association: Association) {
        if state.closed || !state.listening {
            association.abort(b"no longer accepted");
            return;
        }
        match self.style {
            // As in a kernel, one association more than the backlog may wait.
            Style::OneToOne if state.accepted.len() > state.backlog => {
                association.abort(b"too many associations wait to be accepted");
            }
            Style::OneToOne => state.accepted.push_back(association),
            Style::OneToMany => {
                self.adopt(state, association);
            }
        }
    }

    /// Accepts associations that the task has not seen yet, so that a non-blocking call does not miss
    /// them.
    pub(super) fn welcome_all(self: &Arc<Self>, state: &mut State) {
        let Some(listener) = state.accepting.as_ref().map(|known| known.listener.clone()) else {
            return;
        };
        while let Some(Some(association)) = at_once(listener.accept()) {
            self.welcome(state, association);
        }
    }
}

/// A listener, while there is one.
#[derive(Debug)]
pub(crate) struct Accepting {
    /// Stops the task that accepts its associations.
    pub(super) stop: Arc<Notify>,
    pub(super) listener: Arc<Listener>,
}

/// Moves associations from a listener to a socket.
async fn accept(socket: &Weak<Socket>, listener: &Listener, stop: &Notify) {
    loop {
        let association = tokio::select! {
            biased;
            () = stop.notified() => return,
            association = listener.accept() => association,
        };
        let (Some(association), Some(socket)) = (association, socket.upgrade()) else {
            return;
        };
        socket.with(|state| socket.welcome(state, association));
    }
}

/// The peer's primary address, with its SCTP port; also after the end.
pub(super) fn primary(association: &Association) -> Option<SocketAddr> {
    association.peer_addresses().first().copied()
}

impl Peer {
    fn new(link: Arc<Link>, remote: SocketAddr) -> Self {
        Self {
            association: None,
            link,
            remote,
            local_port: 0,
            head: None,
            end: None,
            reachable: BTreeMap::new(),
            finished: false,
            own: None,
            partial: Partial::default(),
            displaced: BTreeMap::new(),
            records: Records::default(),
        }
    }

    /// Attaches the association when it is established. Options may have changed since setup began.
    fn attach(&mut self, association: Association, options: &Options) {
        // They were validated when they were set.
        let _ = association.reconfigure(|config| *config = config.adjusted(&options.config));
        if self.own.as_ref().unwrap_or(&options.own).events.contains(&EventKind::SenderDry) {
            // Nothing was sent yet, so there is nothing to report.
            association.tell_when_dry(true);
        }
        if let Some(remote) = primary(&association) {
            self.remote = remote;
        }
        self.local_port = association.ports().0;
        // Addresses that the user passed or the handshake used are already confirmed.
        for path in &association.statistics().paths {
            if path.state == PathState::Active {
                self.reachable.insert(path.remote, Reach::Active);
            }
        }
        for (stream, value) in &self.own.as_ref().unwrap_or(&options.own).stream_values {
            association.set_stream_priority(*stream, *value);
        }
        self.association = Some(association);
    }
}

impl State {
    /// Stores the next message of an association.
    pub(super) fn give(&mut self, id: AssocId, message: Message) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        let cut_short = peer.partial.next(&message);
        peer.head = Some(message);
        self.ready.push_back(id);
        self.report_cut_short(id, cut_short);
    }

    /// Whether the next message of an association is not known.
    pub(super) fn has_none_of(&self, id: AssocId) -> bool {
        self.peers.get(&id).is_none_or(|peer| peer.head.is_none())
    }

    /// Records that everything of an association was taken that has come so far.
    pub(super) fn all_taken(&mut self, id: AssocId) {
        if let Some(peer) = self.peers.get_mut(&id) {
            let cut_short = peer.partial.all_taken();
            self.report_cut_short(id, cut_short);
        }
    }

    pub(super) fn report_cut_short(&mut self, id: AssocId, messages: Vec<CutShort>) {
        for message in messages {
            self.report(id, Event::PartialDelivery(message));
        }
    }

    /// Records the end: all messages of an association were taken, and no more will come.
    pub(super) fn received_all(&mut self, id: AssocId, end: &Result<(), AssociationError>) {
        if let Some(peer) = self.peers.get_mut(&id) {
            peer.end = Some(match end {
                Err(AssociationError::Closed(reason)) => Error::of_end(reason).map_or(Ok(()), Err),
                _ => Ok(()),
            });
            let cut_short = peer.partial.end();
            self.report_cut_short(id, cut_short);
        }
    }

    /// Records that an association could not be set up.
    pub(super) fn failed(&mut self, style: Style, id: AssocId, error: Error) {
        if let Some(awaited) = self.awaited.get_mut(&id) {
            *awaited = Some(error);
        } else if style == Style::OneToOne {
            self.error = Some(error);
        }
        self.report(id, Event::AssocChange(AssocChange::CannotStart(error)));
        let early = |peer: &Peer| lock(&peer.link.outgoing).early.take();
        if let Some(message) = self.peers.get(&id).and_then(early) {
            self.send_failed(id, &message, false);
        }
        self.peers.remove(&id);
    }

    pub(super) fn send_failed(&mut self, id: AssocId, message: &OutgoingMessage, sent: bool) {
        let events = &self.own(id).events;
        if !events.contains(&EventKind::SendFailedEvent) && !events.contains(&EventKind::SendFailed)
        {
            return;
        }
        // Copy: the data may be a small part of a large buffer, which would stay allocated.
        let mut message = message.clone();
        message.data = Bytes::copy_from_slice(&message.data);
        let failed = FailedMessage { message: Box::new(message), sent };
        self.report(id, Event::SendFailedEvent(failed.clone()));
        self.report(id, Event::SendFailed(failed));
    }

    /// Reports that the peer changed its addresses.
    fn address_changed(
        &mut self,
        id: AssocId,
        change: anabranch::AddressChange,
        remote: std::net::IpAddr,
    ) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        let address = peer.address(remote);
        let change = match change {
            anabranch::AddressChange::Added => AddressChange::Added,
            anabranch::AddressChange::Removed => {
                peer.reachable.remove(&remote);
                AddressChange::Removed
            }
            _ => AddressChange::MadePrimary,
        };
        let address = if self.options.mapped { family::mapped(address) } else { address };
        self.report(id, Event::PeerAddrChange { address, change });
    }

    /// Reports an event of an association.
    pub(super) fn happened(&mut self, socket: &Socket, id: AssocId, event: &Notification) {
        let mapped = self.options.mapped;
        let shown = |address| if mapped { family::mapped(address) } else { address };
        let Some(peer) = self.peers.get_mut(&id) else { return };
        match event {
            Notification::Up { outbound_streams, inbound_streams, .. } => {
                let (outbound_streams, inbound_streams) = (*outbound_streams, *inbound_streams);
                let change = AssocChange::Up { outbound_streams, inbound_streams };
                self.report(id, Event::AssocChange(change));
            }
            Notification::Restarted { outbound_streams, inbound_streams, .. } => {
                peer.end = None;
                peer.partial.report_all();
                let (outbound_streams, inbound_streams) = (*outbound_streams, *inbound_streams);
                let change = AssocChange::Restart { outbound_streams, inbound_streams };
                self.report(id, Event::AssocChange(change));
            }
            Notification::PathChanged { remote, .. } => {
                // The best path to an address counts.
                let known = peer.statistics();
                let paths = known.iter().flat_map(|known| &known.paths);
                let states = paths.filter(|path| path.remote == *remote).map(|path| path.state);
                let reach = Reach::of(states, self.options.expose_pf);
                let before = peer.reachable.insert(*remote, reach);
                let Some(change) = Reach::change(before, reach) else { return };
                let address = shown(peer.address(*remote));
                self.report(id, Event::PeerAddrChange { address, change });
            }
            Notification::FailedOver { remote, permanent: true, .. } => {
                let address = shown(peer.address(*remote));
                let change = AddressChange::MadePrimary;
                self.report(id, Event::PeerAddrChange { address, change });
            }
            Notification::PeerAddressChanged { change, remote } => {
                self.address_changed(id, *change, *remote);
            }
            // Without room, a message still waits to be sent.
            Notification::SenderDry if peer.has_room() => self.report(id, Event::SenderDry),
            Notification::SendFailed { message, sent } => self.send_failed(id, message, *sent),
            Notification::PartialDeliveryAborted { stream, sequence, unordered } => {
                peer.partial.report(*stream, *sequence, *unordered);
            }
            Notification::PeerError { code, cause } => {
                // A copy: a slice would keep the whole received buffer.
                let cause = Bytes::copy_from_slice(cause);
                self.report(id, Event::RemoteError { code: *code, cause });
            }
            Notification::AdaptationIndication(value) => {
                self.report(id, Event::Adaptation(*value));
            }
            Notification::StreamsReset { .. }
            | Notification::AssociationReset { .. }
            | Notification::StreamsAdded { .. } => {
                reconfiguration::event(event).into_iter().for_each(|event| self.report(id, event));
            }
            Notification::Authentication { change, key } => {
                self.report(id, Event::Authentication { change: *change, key: *key });
            }
            Notification::PeerShutdown => self.report(id, Event::Shutdown),
            Notification::Closed(reason) => {
                self.report(id, Event::AssocChange(AssocChange::of_end(reason)));
                if socket.style == Style::OneToMany {
                    self.peers.remove(&id);
                }
            }
            other
                if other.kind().sockets == InSockets::Named
                    && self.own(id).events.contains(&EventKind::Named) =>
            {
                let text = Bytes::from(format!("{other}\0"));
                self.report(id, Event::Named { name: other.kind().name, text });
            }
            _ => {}
        }
    }
}
