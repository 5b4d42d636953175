//! State that the driver task and the application's handles share under one lock.
//!
//! Critical sections are short: they make no system calls and do not await. Wakers collected in
//! them are woken after the lock is released.

mod ending;
mod events;
mod handed;
mod lingering;
mod transfer;

use std::collections::{BTreeSet, VecDeque};
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use anabranch_proto::config::IpVersions;
use anabranch_proto::{AssociationId, Instant, Transmit};

use crate::numbers::NumberMap;
use crate::runtime::{Binding, LocalAddress, Runtime};
use crate::sockets::OpenedSocket;
use crate::state::{AssociationState, Last};
use crate::statistics::EndpointStatistics;
use crate::wakers::WakerSet;

pub(crate) use handed::{Handed, HandedQueue};

/// The part of an endpoint that its driver and all handles share.
#[derive(Debug)]
pub(crate) struct Shared {
    state: Mutex<State>,
    pub(crate) runtime: Arc<dyn Runtime>,
    /// The UDP port of all local addresses; 0 for IP protocol 132.
    pub(crate) udp_port: u16,
    /// How a socket for another address is opened; `None` if there can be none.
    pub(crate) pattern: Option<Binding>,
    /// Addresses are numbers of sealed paths.
    #[cfg(feature = "seal")]
    pub(crate) is_sealed: bool,
}

/// The state that the lock protects.
pub(crate) struct State {
    pub(crate) engine: anabranch_proto::Endpoint,
    pub(crate) associations: NumberMap<AssociationId, AssociationState>,
    pub(crate) listeners: NumberMap<u16, ListenerState>,
    /// Associations without handles, with the time at which they are aborted if nothing was
    /// delivered.
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
    /// Sockets that were opened for more addresses, until the driver takes them.
    pub(crate) opened: Vec<OpenedSocket>,
    driver: Option<Waker>,
    /// The driver has been woken and has not read the state since.
    driver_woken: bool,
    pub(crate) wakes: Vec<Waker>,
    /// Packets that were taken from the engine before the driver looked.
    pub(crate) unsent: Unsent,
}

/// Transmits, and their bytes in sequence.
#[derive(Default)]
pub(crate) struct Unsent {
    pub(crate) transmits: Vec<Transmit>,
    pub(crate) bytes: Vec<u8>,
}

/// Associations that wait to be accepted on one SCTP port.
#[derive(Debug)]
pub(crate) struct ListenerState {
    pub(crate) backlog: VecDeque<AssociationId>,
    pub(crate) limit: usize,
    pub(crate) linger: Duration,
    pub(crate) ip_versions: IpVersions,
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
            // The usual case of a single waker needs no allocation.
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
        pattern: Option<Binding>,
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
            opened: Vec::new(),
            driver: None,
            driver_woken: false,
            wakes: Vec::new(),
            unsent: Unsent::default(),
        };
        Self {
            state: Mutex::new(state),
            runtime,
            udp_port,
            pattern,
            #[cfg(feature = "seal")]
            is_sealed: false,
        }
    }

    #[cfg(feature = "seal")]
    pub(crate) fn sealed(self, is_sealed: bool) -> Self {
        Self { is_sealed, ..self }
    }

    /// Locks the state. A panic while it is locked ends the driver, which closes everything; the
    /// rest of the state can still be read.
    pub(crate) fn lock(&self) -> Guard<'_> {
        Guard(Some(self.state.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}

impl State {
    /// Wakes the driver: there may be something to transmit.
    pub(crate) fn wake_driver(&mut self) {
        if !self.driver_woken {
            self.driver_woken = true;
            self.wakes.extend(self.driver.clone());
        }
    }

    /// Whether the driver has been woken and has not read the state since.
    pub(crate) fn driver_is_wanted(&self) -> bool {
        self.driver_woken
    }

    /// Called by the driver when it reads the state; `waker` wakes it from then on.
    pub(crate) fn driver_looks(&mut self, waker: &Waker) {
        self.driver_woken = false;
        match &mut self.driver {
            Some(old) => old.clone_from(waker),
            None => self.driver = Some(waker.clone()),
        }
    }

    /// Adds wakers, which are woken when the lock is released.
    pub(crate) fn wake(&mut self, wakers: impl IntoIterator<Item = Waker>) {
        self.wakes.extend(wakers);
    }

    /// Whether releasing the lock will wake a task.
    pub(crate) fn wakes_somebody(&self) -> bool {
        !self.wakes.is_empty()
    }

    /// The endpoint's addresses, without link-local ones of interfaces other than these.
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

    /// An address at either end of a path from `local`; the scope of a link-local one is the link
    /// of `local`.
    pub(crate) fn with_scope(&self, local: IpAddr, ip: IpAddr, port: u16) -> SocketAddr {
        match ip {
            IpAddr::V6(v6) if v6.is_unicast_link_local() => {
                let known = self.addresses.iter().find(|address| address.ip == local);
                SocketAddrV6::new(v6, port, 0, known.map_or(0, |known| known.index)).into()
            }
            ip => SocketAddr::new(ip, port),
        }
    }

    /// The endpoint's totals.
    pub(crate) fn totals(&self) -> EndpointStatistics {
        let memory_used = self.engine.memory_used();
        EndpointStatistics { associations: self.live, memory_used, ..self.statistics }
    }

    /// Returns the engine's values for an association, or those stored when it ended.
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

    /// Whether the driver has nothing left to do.
    pub(crate) fn is_finished(&self) -> bool {
        let unused = !self.has_handle && self.listeners.is_empty();
        (self.closing && self.live == 0) || (unused && self.associations.is_empty())
    }

    /// The next time at which something must be done even without datagrams or calls.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        let lingering = self.lingering.first().map(|&(deadline, _)| deadline);
        [self.engine.next_deadline(), lingering].into_iter().flatten().min()
    }
}
