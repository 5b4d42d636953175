//! State that the driver task and the application's handles share, under one lock.
//!
//! Critical sections are short: no system call is made and nothing is awaited within them. Wakers
//! collected within are woken after the lock is released.

mod handed;

use std::collections::{BTreeSet, VecDeque};
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use anabranch_proto::{AssociationId, CloseReason, Event, Instant};

use crate::error::AssociationError;
use crate::notification::Notification;
use crate::numbers::NumberMap;
use crate::runtime::{LocalAddress, Runtime};
use crate::state::{AssociationState, Last, Phase};
use crate::statistics::EndpointStatistics;
use crate::wakers::WakerSet;

pub(crate) use handed::{Handed, HandedQueue};

/// The endpoint as its driver and all its handles see it.
#[derive(Debug)]
pub(crate) struct Shared {
    state: Mutex<State>,
    pub(crate) runtime: Arc<dyn Runtime>,
    /// The UDP port of all local addresses; 0 for IP protocol 132.
    pub(crate) udp_port: u16,
}

/// The state that the lock protects.
pub(crate) struct State {
    pub(crate) engine: anabranch_proto::Endpoint,
    pub(crate) associations: NumberMap<AssociationId, AssociationState>,
    pub(crate) listeners: NumberMap<u16, ListenerState>,
    /// Aborted when their time is over without any delivery; they have no handles any more.
    pub(crate) lingering: BTreeSet<(Instant, AssociationId)>,
    /// Associations that have not ended.
    pub(crate) live: usize,
    /// An `Endpoint` handle exists.
    pub(crate) has_handle: bool,
    /// `Endpoint::close` was called, or the driver has ended.
    pub(crate) closing: bool,
    /// The driver has ended and its sockets are closed.
    pub(crate) driver_gone: bool,
    /// Tasks that wait for `live` to become 0, or for the driver to end.
    pub(crate) idle: WakerSet,
    pub(crate) statistics: EndpointStatistics,
    /// Packets that other shards have received for this one.
    pub(crate) handed: HandedQueue,
    /// The endpoint's addresses, with their interfaces.
    pub(crate) addresses: Vec<LocalAddress>,
    driver: Option<Waker>,
    /// The driver has been woken and has not looked since.
    driver_woken: bool,
    pub(crate) wakes: Vec<Waker>,
}

/// Associations that wait to be accepted on one SCTP port.
#[derive(Debug)]
pub(crate) struct ListenerState {
    pub(crate) backlog: VecDeque<AssociationId>,
    pub(crate) limit: usize,
    pub(crate) linger: Duration,
    pub(crate) waiting: WakerSet,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("live", &self.live).finish_non_exhaustive()
    }
}

/// The locked state; wakes the collected wakers when dropped.
pub(crate) struct Guard<'a>(Option<MutexGuard<'a, State>>);

impl Deref for Guard<'_> {
    type Target = State;

    fn deref(&self) -> &State {
        self.0.as_ref().expect("present until dropped")
    }
}

impl DerefMut for Guard<'_> {
    fn deref_mut(&mut self) -> &mut State {
        self.0.as_mut().expect("present until dropped")
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if let Some(mut state) = self.0.take() {
            // A single waker, the usual case, costs no allocation.
            let last = state.wakes.pop();
            if state.wakes.is_empty() {
                drop(state);
            } else {
                let others = std::mem::take(&mut state.wakes);
                drop(state);
                others.into_iter().for_each(Waker::wake);
            }
            if let Some(last) = last {
                last.wake();
            }
        }
    }
}

impl Shared {
    pub(crate) fn new(
        engine: anabranch_proto::Endpoint,
        runtime: Arc<dyn Runtime>,
        udp_port: u16,
    ) -> Self {
        let state = State {
            engine,
            associations: NumberMap::default(),
            listeners: NumberMap::default(),
            lingering: BTreeSet::new(),
            live: 0,
            has_handle: true,
            closing: false,
            driver_gone: false,
            idle: WakerSet::default(),
            statistics: EndpointStatistics::default(),
            handed: HandedQueue::default(),
            addresses: Vec::new(),
            driver: None,
            driver_woken: false,
            wakes: Vec::new(),
        };
        Self { state: Mutex::new(state), runtime, udp_port }
    }

    /// Locks the state. A panic under the lock ends the driver, which closes everything; the rest
    /// can still be read.
    pub(crate) fn lock(&self) -> Guard<'_> {
        Guard(Some(self.state.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}

impl State {
    /// Lets the driver run: there may be something to transmit.
    pub(crate) fn wake_driver(&mut self) {
        if !self.driver_woken {
            self.driver_woken = true;
            self.wakes.extend(self.driver.clone());
        }
    }

    /// Whether the driver has been woken and has not looked since.
    pub(crate) fn driver_is_wanted(&self) -> bool {
        self.driver_woken
    }

    /// The driver reads the state now and wants to be woken by this waker later.
    pub(crate) fn driver_looks(&mut self, waker: &Waker) {
        self.driver_woken = false;
        match &mut self.driver {
            Some(old) => old.clone_from(waker),
            None => self.driver = Some(waker.clone()),
        }
    }

    /// Wakes these when the lock is released.
    pub(crate) fn wake(&mut self, wakers: impl IntoIterator<Item = Waker>) {
        self.wakes.extend(wakers);
    }

    /// Whether somebody is woken when the lock is released.
    pub(crate) fn wakes_somebody(&self) -> bool {
        !self.wakes.is_empty()
    }

    /// The endpoint's addresses without link-local ones of other interfaces than these.
    pub(crate) fn within_links(&self, interfaces: &[u32]) -> Vec<IpAddr> {
        let within = |address: &&LocalAddress| {
            let is_link_local = match address.ip {
                IpAddr::V4(v4) => v4.is_link_local(),
                IpAddr::V6(v6) => v6.is_unicast_link_local(),
            };
            !is_link_local || interfaces.contains(&address.index)
        };
        self.addresses.iter().filter(within).map(|address| address.ip).collect()
    }

    /// An address at the far or near end of a path from `local`: a link-local one is on its link.
    pub(crate) fn with_scope(&self, local: IpAddr, ip: IpAddr, port: u16) -> SocketAddr {
        match ip {
            IpAddr::V6(v6) if v6.is_unicast_link_local() => {
                let known = self.addresses.iter().find(|address| address.ip == local);
                SocketAddrV6::new(v6, port, 0, known.map_or(0, |known| known.index)).into()
            }
            ip => SocketAddr::new(ip, port),
        }
    }

    /// Totals.
    pub(crate) fn totals(&self) -> EndpointStatistics {
        let memory_used = self.engine.memory_used();
        EndpointStatistics { associations: self.live, memory_used, ..self.statistics }
    }

    /// The engine's values for an association, or those stored when it ended.
    pub(crate) fn known<T>(
        &self,
        id: AssociationId,
        live: impl FnOnce(&anabranch_proto::Association) -> T,
        ended: impl FnOnce(&Last) -> T,
    ) -> T {
        match self.engine.association(id) {
            Some(association) => live(association),
            None => {
                let last = self.associations.get(&id).and_then(|state| state.last());
                ended(last.expect("kept at the end, while there are handles"))
            }
        }
    }

    /// Whether the driver has nothing to do any more.
    pub(crate) fn is_finished(&self) -> bool {
        let unused = !self.has_handle && self.listeners.is_empty();
        (self.closing && self.live == 0) || (unused && self.associations.is_empty())
    }

    /// Passes all events of the engine on. Returns whether there were any.
    pub(crate) fn handle_events(&mut self, now: Instant) -> bool {
        let mut any = false;
        while let Some((id, event)) = self.engine.poll_event() {
            self.handle_event(now, id, event);
            any = true;
        }
        any
    }

    fn handle_event(&mut self, now: Instant, id: AssociationId, event: Event) {
        match event {
            Event::Connected { incoming: true, outbound_streams, inbound_streams, .. } => {
                tracing::debug!(name: "connectivity:association_accepted", association = %id);
                self.queue_incoming(now, id, outbound_streams, inbound_streams);
                self.notify(now, id, event);
            }
            Event::Connected { incoming: false, outbound_streams, inbound_streams, .. } => {
                tracing::debug!(name: "connectivity:association_connected", association = %id);
                let Self { associations, wakes, .. } = self;
                if let Some(state) = associations.get_mut(&id) {
                    wakes.extend(state.connected(false, outbound_streams, inbound_streams));
                }
                self.notify(now, id, event);
            }
            Event::Readable => self.take_in(now, id),
            Event::Writable => self.make_use_of_room(now, id),
            Event::Closed(reason) => self.end(now, id, reason),
            other => {
                tracing::debug!(name: "connectivity:event", association = %id, event = ?other);
                if matches!(other, Event::PeerShutdown | Event::Restarted { .. }) {
                    self.take_in(now, id);
                }
                let Self { associations, wakes, .. } = self;
                let Some(state) = associations.get_mut(&id) else {
                    return;
                };
                match &other {
                    Event::SendFailed { .. } => state.life.count_undelivered(),
                    Event::PeerShutdown => {
                        state.life.peer_shut_down();
                        wakes.extend(state.streams.take_receivers());
                        // Messages that wait for room will not be sent any more.
                        wakes.extend(state.streams.wake_senders());
                    }
                    _ => {}
                }
                self.notify(now, id, other);
            }
        }
    }

    /// Stores an event for its readers, if there is memory.
    fn notify(&mut self, now: Instant, id: AssociationId, event: Event) {
        let Self { engine, associations, wakes, .. } = self;
        let (Some(state), Some(notification), Some(mut association)) =
            (associations.get_mut(&id), Notification::of(event), engine.association_mut(now, id))
        else {
            return;
        };
        if notification.needs_memory().is_some_and(|bytes| !association.may_keep(bytes)) {
            state.notifications.leave_out();
        } else {
            let most = association.config().sending.send_buffer;
            wakes.extend(state.notifications.push(notification, most));
        }
        state.count_kept(&mut association);
    }

    /// A peer's association goes to its listener, unless its backlog is full.
    fn queue_incoming(&mut self, now: Instant, id: AssociationId, outbound: u16, inbound: u16) {
        let Some(association) = self.engine.association(id) else {
            return;
        };
        let listener = self.listeners.get_mut(&association.local_port());
        let linger = listener.as_ref().map_or(Duration::ZERO, |listener| listener.linger);
        let mut state = AssociationState::new(linger);
        self.wakes.extend(state.connected(true, outbound, inbound));
        match listener {
            Some(listener) if listener.backlog.len() < listener.limit && !self.closing => {
                listener.backlog.push_back(id);
                self.wakes.extend(listener.waiting.drain());
            }
            _ => {
                state.life.orphan();
                if let Some(mut association) = self.engine.association_mut(now, id) {
                    association.abort(now, b"too many associations wait to be accepted");
                }
            }
        }
        self.live += 1;
        self.associations.insert(id, state);
    }

    /// Moves messages that the engine has received to the application's queues.
    fn take_in(&mut self, now: Instant, id: AssociationId) {
        let Self { engine, associations, wakes, .. } = self;
        let Some(mut association) = engine.association_mut(now, id) else {
            return;
        };
        let Some(state) = associations.get_mut(&id) else {
            return;
        };
        let mut released = 0;
        loop {
            // The messages of the old incarnation come before those of the new one.
            let restarts = association.restarts();
            if restarts != state.streams.incarnation() && !association.next_is_from_before_restart()
            {
                let streams = (association.outbound_streams(), association.inbound_streams());
                let (woken, dropped) = state.restart(restarts, streams.0, streams.1);
                wakes.extend(woken);
                released += dropped;
                if state.life.take_owed_shutdown() {
                    association.shutdown(now);
                }
            }
            let Some(message) = association.receive() else { break };
            if state.life.is_orphaned() {
                released += message.charge();
                continue;
            }
            let charge = message.charge();
            let message = state.streams.enter(now, &mut association, message, wakes);
            // A row for each stream that the peer uses, which lasts as long as the association.
            let grown = state.count_kept(&mut association);
            if grown > 0 && !association.may_keep_for_good(1) {
                association.abort_for_memory();
                break;
            }
            let Some(message) = message else {
                released += charge;
                continue;
            };
            released += state.streams.push(message, wakes);
        }
        if state.streams.owes_signals() {
            state.streams.send_due(now, &mut association, wakes);
        }
        state.count_kept(&mut association);
        if released > 0 {
            association.release(released);
        }
    }

    /// The send buffer has room: first for due end marks, then for waiting senders.
    fn make_use_of_room(&mut self, now: Instant, id: AssociationId) {
        let Self { engine, associations, wakes, .. } = self;
        let Some(mut association) = engine.association_mut(now, id) else {
            return;
        };
        let Some(state) = associations.get_mut(&id) else {
            return;
        };
        state.streams.send_due(now, &mut association, wakes);
        if state.streams.owes_marks() {
            return;
        }
        if state.life.take_owed_shutdown() {
            association.shutdown(now);
        }
        wakes.extend(state.streams.senders().wake_all());
    }

    /// Returns receive buffer that the application has freed, and sends the resulting signals of byte
    /// streams to the peer.
    pub(crate) fn release(&mut self, now: Instant, id: AssociationId, charge: u32) {
        let Self { engine, associations, wakes, .. } = self;
        if let Some(mut association) = engine.association_mut(now, id) {
            association.release(charge);
            if let Some(state) = associations.get_mut(&id) {
                state.count_kept(&mut association);
                if state.streams.owes_signals() {
                    state.streams.send_due(now, &mut association, wakes);
                }
            }
        } else if let Some(state) = associations.get_mut(&id) {
            state.count_nothing();
        }
        // A window that opens may be worth a SACK.
        self.wake_driver();
    }

    /// The association has ended: received data stays readable, and all waiting tasks are woken.
    fn end(&mut self, now: Instant, id: AssociationId, reason: CloseReason) {
        tracing::debug!(name: "connectivity:association_closed", association = %id, %reason);
        self.take_in(now, id);
        let Self { engine, associations, wakes, live, lingering, .. } = self;
        let Some(state) = associations.get_mut(&id) else {
            engine.remove(id);
            return;
        };
        if !state.life.is_orphaned()
            && let Some(ended) = engine.association(id)
        {
            state.keep_last(ended);
        }
        engine.remove(id);
        if let Some(at) = state.lingering.end() {
            lingering.remove(&(at, id));
        }
        let closed = Notification::Closed(reason.clone());
        wakes.extend(state.notifications.push(closed, usize::MAX));
        state.count_nothing();
        *live -= 1;
        let orphaned = state.life.is_orphaned();
        wakes.extend(state.close(AssociationError::Closed(reason)));
        if orphaned {
            self.associations.remove(&id);
        }
        if self.live == 0 {
            self.wakes.extend(self.idle.drain());
        }
    }

    /// Starts the graceful shutdown of an association, after its due end marks.
    pub(crate) fn shut_down(&mut self, now: Instant, id: AssociationId) {
        let Some(state) = self.associations.get_mut(&id) else {
            return;
        };
        if !state.life.begin_shutdown() {
            return;
        }
        let woken = state.streams.wake_senders();
        if !state.streams.owes_marks() {
            if let Some(mut association) = self.engine.association_mut(now, id) {
                association.shutdown(now);
            }
        } else {
            state.life.owe_shutdown();
        }
        self.wakes.extend(woken);
        self.wake_driver();
    }

    /// Aborts an association.
    pub(crate) fn abort(&mut self, now: Instant, id: AssociationId, reason: &[u8]) {
        if let Some(mut association) = self.engine.association_mut(now, id) {
            association.abort(now, reason);
        }
        self.wake_driver();
    }

    /// The last handle of an association was dropped.
    pub(crate) fn let_go(&mut self, now: Instant, id: AssociationId) {
        let Some(state) = self.associations.get_mut(&id) else {
            return;
        };
        state.life.orphan();
        let (linger, unread) = (state.lingering.interval(), state.streams.clear());
        match state.life.phase() {
            Phase::Closed(_) => {
                self.associations.remove(&id);
                self.wake_driver();
            }
            Phase::Up if !linger.is_zero() => {
                self.release(now, id, unread);
                self.linger(now, id, linger);
                self.shut_down(now, id);
                self.wake_driver();
            }
            Phase::Up | Phase::Connecting => self.abort(now, id, b"no longer wanted"),
        }
    }

    /// An association is not accepted.
    pub(crate) fn reject(&mut self, now: Instant, id: AssociationId) {
        let Some(state) = self.associations.get_mut(&id) else {
            return;
        };
        state.lingering.forbid();
        self.let_go(now, id);
    }

    /// An association may take its time to end, as long as some of its sent data is delivered in
    /// each `interval`.
    pub(crate) fn linger(&mut self, now: Instant, id: AssociationId, interval: Duration) {
        let left = self.engine.association(id).map_or(0, |association| association.pending_bytes());
        if let Some(state) = self.associations.get_mut(&id) {
            if let Some((at, before)) = state.lingering.begin(now, interval, left) {
                if let Some(before) = before {
                    self.lingering.remove(&(before, id));
                }
                self.lingering.insert((at, id));
            }
        }
    }

    /// Aborts associations that have lingered without progress.
    pub(crate) fn end_lingering(&mut self, now: Instant) {
        while let Some(&(deadline, id)) = self.lingering.first() {
            if deadline > now {
                break;
            }
            self.lingering.pop_first();
            let left = self.engine.association(id).map(|association| association.pending_bytes());
            let state = self.associations.get_mut(&id).zip(left);
            match state.and_then(|(state, left)| state.lingering.check(now, left)) {
                Some(at) => _ = self.lingering.insert((at, id)),
                None => self.abort(now, id, b"not shut down in time"),
            }
        }
    }

    /// When something happens without datagrams or calls.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        let lingering = self.lingering.first().map(|&(deadline, _)| deadline);
        [self.engine.next_deadline(), lingering].into_iter().flatten().min()
    }

    /// The driver has ended, for whatever reason: nothing works any more.
    pub(crate) fn close_all(&mut self) {
        self.closing = true;
        self.driver_gone = true;
        self.live = 0;
        let Self { associations, listeners, wakes, idle, .. } = self;
        for state in associations.values_mut() {
            if !state.life.is_closed() {
                wakes.extend(state.close(AssociationError::EndpointClosed));
            }
        }
        associations.retain(|_, state| !state.life.is_orphaned());
        listeners.values_mut().for_each(|listener| wakes.extend(listener.waiting.drain()));
        wakes.extend(idle.drain());
    }
}
