//! SCTP sockets (RFC 6458) over the associations of the library.
//!
//! A [`Socket`] has a state behind a lock, a condition to wait on, and a descriptor whose readiness
//! follows the state. Tasks move events and messages of associations into the state ([`link`]).
//! Calls check the state, and wait for it to change unless they are non-blocking.

mod associations;
mod authentication;
mod configure;
mod counter;
mod feed;
mod interleave;
mod link;
mod named;
mod notifications;
mod options;
mod outgoing;
mod partial;
mod query;
mod reach;
mod readdressing;
mod receive;
mod reconfiguration;
mod records;
mod send;
mod sending;
mod setup;

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::RawFd;
use std::pin::pin;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anabranch::{Association, Message, Statistics};
use bytes::Bytes;

use self::link::{Accepting, Link};
use self::notifications::{Notifications, Waiting};
use self::partial::Partial;
use self::reach::Reach;
use self::records::Records;
use crate::assoc_id::AssocId;
use crate::descriptor::{Descriptor, Readiness};
use crate::endpoints::Lease;
use crate::error::Error;
use crate::family::Family;
use crate::host::Host;
use crate::lock::lock;
use crate::notification::{Event, Notification};
use crate::wait::Changes;

pub use self::named::{PROFILE, Refused};
pub use self::options::{Options, Own};
pub use self::receive::{Received, Receiving, Taken};
use self::send::{Outgoing, Target};
pub use self::sending::Sending;

/// Minimum bound for the bytes of waiting notifications. A larger send buffer raises the bound, because all
/// of its messages may be returned.
const NOTIFICATION_BYTES: usize = 256 << 10;

/// The two styles of RFC 6458.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// SOCK_STREAM: one association, as with TCP (RFC 6458 section 4).
    OneToOne,
    /// SOCK_SEQPACKET: any number of associations (RFC 6458 section 3).
    OneToMany,
}

/// An SCTP socket. Dropping the last reference closes it, see [`close`](Self::close).
#[derive(Debug)]
pub struct Socket {
    host: Arc<Host>,
    style: Style,
    family: Family,
    descriptor: Descriptor,
    state: Mutex<State>,
    changed: Changes,
}

/// State that the lock of a socket protects.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) options: Options,
    /// Set by `close`; makes waiting calls return.
    closed: bool,
    /// The endpoint: passed by the user, or opened when the first association needs it.
    endpoint: Option<Arc<Lease>>,
    /// SCTP port and local addresses, after `bind`.
    bound: Option<Bound>,
    listening: bool,
    /// One-to-one: associations that may wait to be accepted.
    backlog: usize,
    /// Set while there is a listener.
    accepting: Option<Accepting>,
    /// Associations that wait for `accept`.
    accepted: VecDeque<Association>,
    peers: BTreeMap<AssocId, Peer>,
    /// Associations with a message to take, in the order in which calls take from them.
    ready: VecDeque<AssocId>,
    /// The association from which the last call took, if the message was not finished.
    amid: Option<AssocId>,
    notifications: Notifications,
    /// One-to-one: whether there was ever an association.
    used: bool,
    /// One-to-one: the error that the next call returns, or SO_ERROR.
    error: Option<Error>,
    /// Associations in setup that a call waits for; the error if setup failed.
    awaited: BTreeMap<AssocId, Option<Error>>,
    shown: Readiness,
}

/// The local addresses and SCTP port of a bound socket.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bound {
    pub(crate) port: u16,
    /// With scopes, without ports; empty means all addresses of the host.
    pub(crate) addresses: Vec<SocketAddr>,
    /// Only IPv4 addresses, also if the list is empty.
    pub(crate) ipv4: bool,
}

/// An association of a socket.
#[derive(Debug)]
pub(crate) struct Peer {
    /// `None` during setup.
    association: Option<Association>,
    link: Arc<Link>,
    /// An address of the peer.
    remote: SocketAddr,
    local_port: u16,
    /// The message to take next, or the rest of it.
    head: Option<Message>,
    /// Set when receiving has ended: gracefully, or with an error that the next call returns.
    end: Option<Result<(), Error>>,
    /// The last reported state of each address.
    reachable: BTreeMap<IpAddr, Reach>,
    /// This side has shut down or aborted.
    finished: bool,
    /// Settings that may differ from the socket's.
    own: Option<Own>,
    partial: Partial,
    /// Messages of each stream that were given up for more important ones, before the association had them.
    displaced: BTreeMap<u16, u64>,
    records: Records,
}

/// A new association id, never used before. RFC 6458 reserves 0 to 2.
fn fresh_id() -> AssocId {
    static NEXT: AtomicI32 = AtomicI32::new(3);
    AssocId(NEXT.fetch_add(1, Ordering::Relaxed))
}

impl Socket {
    /// Opens a blocking socket.
    ///
    /// # Errors
    /// [`Error::System`]: the process has no descriptor left.
    pub fn new(host: &Arc<Host>, style: Style, family: Family) -> Result<Arc<Self>, Error> {
        Self::open(host.clone(), style, family, false, None)
    }

    /// Opens a socket, on an explicit endpoint or on one shared by sockets with the same binding.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn open(
        host: Arc<Host>,
        style: Style,
        family: Family,
        nonblocking: bool,
        endpoint: Option<Arc<Lease>>,
    ) -> Result<Arc<Self>, Error> {
        let (options, descriptor) = (Options::new(&host), Descriptor::new(nonblocking)?);
        Ok(Self::with_options(host, style, family, descriptor, endpoint, options))
    }

    /// Opens a socket without a descriptor, for callers that wait as tasks do. Its calls never block, and
    /// [`when_ready`](Self::when_ready) repeats them.
    #[must_use]
    pub fn detached(host: &Arc<Host>, style: Style, family: Family) -> Arc<Self> {
        let options = Options::new(host);
        Self::with_options(host.clone(), style, family, Descriptor::NONE, None, options)
    }

    fn with_options(
        host: Arc<Host>,
        style: Style,
        family: Family,
        descriptor: Descriptor,
        endpoint: Option<Arc<Lease>>,
        options: Options,
    ) -> Arc<Self> {
        let state = State {
            options,
            closed: false,
            endpoint,
            bound: None,
            listening: false,
            backlog: 0,
            accepting: None,
            accepted: VecDeque::new(),
            peers: BTreeMap::new(),
            ready: VecDeque::new(),
            amid: None,
            notifications: Notifications::default(),
            used: false,
            error: None,
            awaited: BTreeMap::new(),
            shown: Readiness::NEW,
        };
        Arc::new(Self {
            host,
            style,
            family,
            descriptor,
            state: Mutex::new(state),
            changed: Changes::default(),
        })
    }

    /// The style of the socket.
    #[must_use]
    pub fn style(&self) -> Style {
        self.style
    }

    /// The address family of the socket.
    #[must_use]
    pub fn family(&self) -> Family {
        self.family
    }

    /// The file descriptor, which `poll` can wait for: readable while there is a message, a notification, an
    /// association to accept or an error; writable while `send` would accept a message. It is closed with the
    /// socket. -1 if the socket is detached.
    #[must_use]
    pub fn number(&self) -> RawFd {
        self.descriptor.number()
    }

    /// Sets or clears O_NONBLOCK of the descriptor, as `fcntl` does.
    ///
    /// # Errors
    /// [`Error::System`]: the operating system refuses it.
    pub fn set_nonblocking(&self, on: bool) -> Result<(), Error> {
        self.descriptor.set_nonblocking(on)
    }

    /// A message to send to the peer with these addresses. They may be empty on a one-to-one socket that has an
    /// association.
    #[must_use]
    pub fn message(self: &Arc<Self>, data: impl Into<Bytes>, remotes: &[SocketAddr]) -> Sending {
        Sending::new(self.clone(), data.into(), remotes.to_vec())
    }

    /// Whether a call must not block, because of `dont_wait` or O_NONBLOCK.
    #[must_use]
    pub fn is_nonblocking(&self, dont_wait: bool) -> bool {
        dont_wait || self.descriptor.is_nonblocking()
    }

    /// Runs `act` on the state, then wakes threads that wait for a change.
    pub(crate) fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        let mut state = lock(&self.state);
        let result = act(&mut state);
        self.publish(&mut state);
        result
    }

    fn publish(&self, state: &mut State) {
        let wanted = state.readiness(self.style);
        if wanted != state.shown {
            state.shown = self.descriptor.show(state.shown, wanted);
        }
        self.changed.announce();
    }

    /// Runs `read` on the state, which does not change.
    pub(crate) fn look<T>(&self, read: impl FnOnce(&State) -> T) -> T {
        read(&lock(&self.state))
    }

    /// Repeats a call that does not block whenever the socket has changed, until it returns something else than
    /// [`Error::WouldBlock`]. This is how tasks wait for a socket: `when_ready(|| socket.receive(room, dont_wait))`.
    /// Cancel-safe if the call is.
    ///
    /// # Errors
    /// As the call.
    pub async fn when_ready<T>(
        &self,
        mut call: impl FnMut() -> Result<T, Error>,
    ) -> Result<T, Error> {
        loop {
            let mut changed = pin!(self.changed.next());
            // A change from now on counts, also one during the call.
            changed.as_mut().enable();
            match call() {
                Err(Error::WouldBlock) => changed.await,
                result => return result,
            }
        }
    }

    /// Waits until a task has changed the state.
    fn wait_until(&self, done: impl Fn(&State) -> bool) {
        self.host.reactor.settle();
        let mut state = lock(&self.state);
        while !done(&state) {
            let seen = self.changed.now();
            drop(state);
            // A signal does not end this: the wait is short.
            let _ = self.changed.wait(seen, None);
            state = lock(&self.state);
        }
    }

    /// Calls `act` until it returns something. Fails with [`Error::WouldBlock`] after `limit`, or immediately
    /// if the call must not block. A signal handler ends the wait with [`Error::Interrupted`], as described
    /// in signal(7).
    pub(crate) fn wait<T>(
        &self,
        nonblocking: bool,
        limit: Option<Duration>,
        mut act: impl FnMut(&mut State) -> Option<Result<T, Error>>,
    ) -> Result<T, Error> {
        let until = limit.and_then(|limit| Instant::now().checked_add(limit));
        let mut settled = !self.host.reactor.settles();
        let mut state = lock(&self.state);
        loop {
            if state.closed {
                return Err(Error::Closed);
            }
            if let Some(result) = act(&mut state) {
                // Without an association nothing has changed. Announcing it would wake the task that waits for one.
                if !matches!(result, Err(Error::NotConnected)) {
                    self.publish(&mut state);
                }
                drop(state);
                self.host.reactor.settle();
                return result;
            }
            if !settled {
                drop(state);
                self.host.reactor.settle();
                settled = true;
                state = lock(&self.state);
                continue;
            }
            if nonblocking {
                return Err(Error::WouldBlock);
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Err(Error::WouldBlock);
            }
            let seen = self.changed.now();
            drop(state);
            self.changed.wait(seen, left)?;
            state = lock(&self.state);
        }
    }
}

impl State {
    fn readiness(&self, style: Style) -> Readiness {
        if self.closed {
            // Threads that still poll must notice.
            return Readiness { readable: true, writable: true };
        }
        let readable =
            !self.notifications.is_empty() || self.has_message() || !self.accepted.is_empty();
        if style == Style::OneToMany {
            // A message to a new peer is always accepted.
            let full = self.peers.len() == 1 && self.peers.values().any(|peer| !peer.has_room());
            return Readiness { readable, writable: !full };
        }
        let peer = self.peers.values().next();
        let ended = peer.is_some_and(|peer| peer.end.is_some());
        let writable = peer.is_none_or(|peer| {
            (peer.association.is_some() && peer.has_room()) || peer.finished || ended
        });
        Readiness { readable: readable || ended || self.error.is_some(), writable }
    }

    /// The association of a one-to-one socket.
    fn only(&self) -> Option<(AssocId, &Peer)> {
        self.peers.iter().next().map(|(id, peer)| (*id, peer))
    }

    /// The association that a call refers to: the only one, or the one with this id.
    fn peer(&mut self, style: Style, id: AssocId) -> Result<(AssocId, &mut Peer), Error> {
        let missing = if style == Style::OneToOne { Error::NotConnected } else { Error::Invalid };
        let found = match style {
            Style::OneToOne => self.peers.iter_mut().next(),
            Style::OneToMany => self.peers.range_mut(id..=id).next(),
        };
        found.map(|(id, peer)| (*id, peer)).ok_or(missing)
    }

    /// Queues a notification if its type is enabled.
    fn report(&mut self, id: AssocId, event: Event) {
        if self.own(id).events.contains(&event.kind()) {
            let from = self.peers.get(&id).map(|peer| peer.remote);
            let most = self.options.config.sending.first_send_buffer().max(NOTIFICATION_BYTES);
            self.notifications.push(Waiting::new(Notification { id, event }, from), most);
        }
    }
}

impl Peer {
    /// Whether the association would accept a message now.
    fn has_room(&self) -> bool {
        !lock(&self.link.outgoing).busy
    }

    /// An address of the peer, with its port and on its link.
    fn address(&self, ip: IpAddr) -> SocketAddr {
        let known = self.association.as_ref().map(Association::peer_addresses);
        let found = known.into_iter().flatten().find(|address| address.ip() == ip);
        found.unwrap_or(SocketAddr::new(ip, self.remote.port()))
    }

    /// Counters and paths.
    fn statistics(&self) -> Option<Statistics> {
        Some(self.association.as_ref()?.statistics())
    }
}

#[cfg(test)]
mod tests {
    use self::notifications::TakenNotification;
    use super::*;
    use crate::notification::EventKind;

    fn socket(style: Style) -> Arc<Socket> {
        Socket::open(Host::start().unwrap(), style, Family::Ipv4, true, None).unwrap()
    }

    #[test]
    fn notifications_that_nobody_takes_are_bounded() {
        let socket = socket(Style::OneToMany);
        socket.with(|state| {
            let id = AssocId(3);
            state.options.own.events.insert(EventKind::Shutdown);
            state.report(id, Event::SenderDry);
            assert!(state.notifications.is_empty(), "not wanted");
            (0..10_000).for_each(|_| state.report(id, Event::Shutdown));
            let take = || state.notifications.take(usize::MAX, false, |_| 0);
            let taken: Vec<_> = std::iter::from_fn(take).collect();
            assert!((1000..5000).contains(&taken.len()), "{}", taken.len());
            let is_shutdown = |taken: &TakenNotification| {
                taken.notification.id == id && matches!(taken.notification.event, Event::Shutdown)
            };
            assert!(taken.iter().all(is_shutdown));
        });
        socket.close().unwrap();
    }

    #[test]
    fn a_closed_socket_wakes_who_polls_it() {
        let socket = socket(Style::OneToOne);
        assert_eq!(socket.with(|state| state.readiness(Style::OneToOne)), Readiness::NEW);
        socket.close().unwrap();
        let ready = Readiness { readable: true, writable: true };
        assert_eq!(socket.with(|state| state.shown), ready);
        assert_eq!(socket.receive(1, Receiving::default()).err(), Some(Error::Closed));
        assert_eq!(socket.close().err(), Some(Error::Closed));
    }
}
