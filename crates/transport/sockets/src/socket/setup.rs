//! Binding, listening, connecting, accepting, peeling off and closing.

use std::net::{IpAddr, Shutdown, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anabranch::{
    AddressChange, Association, AssociationConfig, AssociationError, CloseError, ConnectOptions,
    IpVersions, ListenOptions, SCTP_UDP_PORT,
};
use tokio::sync::Notify;

use super::link::{Accepting, primary};
use super::{Bound, Socket, State, Style};
use crate::assoc_id::AssocId;
use crate::endpoints::{Binding, Lease, Local};
use crate::error::Error;
use crate::family::Family;
use crate::host::Host;
use crate::lock::lock;

/// How long a closed association may take to deliver its data. Long, because `finish` waits for all
/// closed associations.
const LINGER: Duration = Duration::from_secs(3600);

/// Maximum backlog: the default of Linux (net.core.somaxconn).
const MOST_BACKLOG: usize = 4096;

/// The first use of a socket, which decides its UDP port unless the user set one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    Listening,
    Connecting,
}

impl Socket {
    /// Binds to local addresses (RFC 6458 sections 3.1.2 and 9.1). All must have the same SCTP port, or 0, which
    /// picks one. The wildcard address means all addresses of the host.
    ///
    /// # Errors
    /// [`Error::Invalid`]: the socket is bound or has been used, the list is empty, or its ports differ.
    /// [`Error::WrongFamily`], [`Error::AddressNotAvailable`]: the socket cannot use an address.
    /// [`Error::AddressInUse`]: an address is in the list twice.
    pub fn bind(&self, addresses: &[SocketAddr]) -> Result<(), Error> {
        self.with(|state| {
            if state.closed {
                return Err(Error::Closed);
            }
            if state.bound.is_some() || state.listening || state.used {
                return Err(Error::Invalid);
            }
            let port = self.check_addresses(state, addresses, None)?;
            let wildcard = addresses.iter().any(|address| address.ip().is_unspecified());
            let mut bound = Bound::anywhere(self.family);
            if !wildcard {
                bound.add(addresses)?;
            }
            // 0.0.0.0 means all IPv4 addresses, also on an AF_INET6 socket.
            bound.ipv4 |= wildcard && addresses.iter().all(SocketAddr::is_ipv4);
            if port != 0 {
                bound.port = port;
            }
            state.bound = Some(bound);
            Ok(())
        })
    }

    /// `sctp_bindx` with SCTP_BINDX_ADD_ADDR: adds local addresses, or binds the socket (RFC 6458 section 9.1). Once the
    /// socket has been used, it asks the peers of its associations to agree (RFC 5061), and does not wait for them; later
    /// associations, also of other sockets with the same binding, have the addresses from the start.
    ///
    /// # Errors
    /// As [`bind`](Self::bind). Once the socket has been used: [`Error::NotSupported`]: the socket has these addresses
    /// or has all of the host, and no association can change. [`Error::AddressInUse`]: an association has it.
    /// [`Error::NoBuffers`]: too many requests wait.
    pub fn bind_more(&self, addresses: &[SocketAddr]) -> Result<(), Error> {
        if self.with(|state| state.bound.is_none() && !state.listening && !state.used) {
            return self.bind(addresses);
        }
        self.with(|state| {
            if state.listening || state.used {
                return state.change_addresses(AddressChange::Added, addresses);
            }
            let mut bound = state.bound.clone().unwrap_or_default();
            self.check_addresses(state, addresses, Some(bound.port))?;
            if addresses.iter().any(|address| address.ip().is_unspecified()) {
                return Err(Error::Invalid);
            }
            bound.add(addresses)?;
            state.bound = Some(bound);
            Ok(())
        })
    }

    /// `sctp_bindx` with SCTP_BINDX_REM_ADDR: removes local addresses, but not all (RFC 6458 section 9.1). Once the socket
    /// has been used, it removes them from its associations (RFC 5061); later ones have them.
    ///
    /// # Errors
    /// As [`bind_more`](Self::bind_more).
    pub fn bind_less(&self, addresses: &[SocketAddr]) -> Result<(), Error> {
        self.with(|state| {
            if state.listening || state.used {
                return state.change_addresses(AddressChange::Removed, addresses);
            }
            let Some(bound) = &mut state.bound else { return Err(Error::Invalid) };
            let mut left = bound.addresses.clone();
            for ip in addresses.iter().map(SocketAddr::ip) {
                let at = left.iter().position(|known| known.ip() == ip).ok_or(Error::Invalid)?;
                left.remove(at);
            }
            // An empty list would mean all addresses of the host.
            if left.is_empty() {
                return Err(Error::Invalid);
            }
            bound.addresses = left;
            Ok(())
        })
    }

    /// Checks that the socket can be bound to these addresses. Returns their common port.
    fn check_addresses(
        &self,
        state: &State,
        addresses: &[SocketAddr],
        port: Option<u16>,
    ) -> Result<u16, Error> {
        let given = match &self.host.only {
            Some(only) => &only.addresses,
            None => &state.options.addresses,
        };
        let first = addresses.first().ok_or(Error::Invalid)?.port();
        let port = port.unwrap_or(first);
        for address in addresses {
            if !self.family.fits(address.ip()) {
                return Err(Error::WrongFamily);
            }
            // RFC 6458 section 9.1: the port is the same in all, or 0.
            if address.port() != port && address.port() != 0 {
                return Err(Error::Invalid);
            }
            let is_here = match (given.is_empty(), &self.host.only) {
                (true, None) => is_here(*address),
                _ => given.iter().any(|local| local.ip == address.ip()),
            };
            if !address.ip().is_unspecified() && !is_here {
                return Err(Error::AddressNotAvailable);
            }
        }
        Ok(port)
    }

    /// The endpoint for the socket's binding. Opens it on first use.
    fn endpoint(&self, state: &mut State, first: Use) -> Result<Arc<Lease>, Error> {
        if let Some(endpoint) = &state.endpoint {
            return Ok(endpoint.clone());
        }
        let mut addresses = state.options.addresses.clone();
        if !addresses.is_empty() {
            // Another family's alone would be none at all.
            if !addresses.iter().any(|local| self.family.fits(local.ip)) {
                return Err(Error::AddressNotAvailable);
            }
        } else {
            for address in state.bound.iter().flat_map(|bound| &bound.addresses) {
                addresses.push(Local::of(*address)?);
            }
        }
        addresses.sort_unstable();
        let usual = if first == Use::Listening { SCTP_UDP_PORT } else { 0 };
        let udp_port = state.options.udp_port.unwrap_or(usual);
        let udp_port = if state.options.raw { None } else { Some(udp_port) };
        let interface = state.options.interface.clone();
        let traffic_class = state.options.traffic_class;
        let binding = Binding { addresses, udp_port, interface, traffic_class };
        let endpoint = self.host.endpoint(&binding)?;
        state.endpoint = Some(endpoint.clone());
        Ok(endpoint)
    }

    /// Listens for associations (RFC 6458 sections 3.1.3 and 4.1.3). On a one-to-one socket at most `backlog` of
    /// them wait for [`accept`](Self::accept), and never more than 4,096. A backlog of 0 stops listening, and
    /// aborts the waiting ones.
    ///
    /// # Errors
    /// [`Error::AlreadyConnected`]: a one-to-one socket has been used for an association.
    /// [`Error::AddressInUse`]: another socket listens on the SCTP port, or the UDP port is in use.
    pub fn listen(self: &Arc<Self>, backlog: usize) -> Result<(), Error> {
        if backlog == 0 {
            self.stop_listening();
            return Ok(());
        }
        let result = self.with(|state| {
            if state.closed {
                return Err(Error::Closed);
            }
            if self.style == Style::OneToOne && state.used {
                return Err(Error::AlreadyConnected);
            }
            state.backlog = backlog.min(MOST_BACKLOG);
            if state.listening {
                return Ok(());
            }
            let bound = state.bound.get_or_insert_with(|| Bound::anywhere(self.family));
            let (port, ip_versions) = (bound.port, bound.ip_versions());
            let endpoint = self.endpoint(state, Use::Listening)?;
            let mut options =
                ListenOptions::from(state.options.offered(state.options.config.clone()));
            // The socket takes all associations from the listener, and counts those that wait for `accept`.
            options.backlog = usize::MAX;
            options.ip_versions = ip_versions;
            options.linger = LINGER;
            let listener = endpoint.endpoint().listen(port, options)?;
            state.listening = true;
            self.start_accepting(state, listener);
            Ok(())
        });
        self.host.reactor.settle();
        result
    }

    /// Stops listening, and aborts associations that were not accepted. The port is free afterwards.
    fn stop_listening(&self) {
        if let Some(stopped) = self.start_to_stop_listening() {
            // Another thread may listen again meanwhile.
            let is_it = |accepting: &Accepting| Arc::ptr_eq(&accepting.stop, &stopped);
            self.wait_until(|state| !state.accepting.as_ref().is_some_and(is_it));
        }
    }

    /// As [`stop_listening`](Self::stop_listening), but does not wait until the port is free. Returns what was told to
    /// stop.
    fn start_to_stop_listening(&self) -> Option<Arc<Notify>> {
        let (stopped, accepted) = self.with(|state| {
            let stop = state.accepting.as_ref().map(|accepting| accepting.stop.clone());
            if let Some(stop) = &stop {
                stop.notify_one();
            }
            state.listening = false;
            (stop, std::mem::take(&mut state.accepted))
        });
        for association in accepted {
            association.abort(b"closed before it was accepted");
        }
        stopped
    }

    /// Sets up an association with a peer that has these addresses, all with the same port (RFC 6458 sections
    /// 4.1.5 and 9.9). Waits until it is established, at most for SO_SNDTIMEO, and returns its id.
    ///
    /// # Errors
    /// [`Error::InProgress`]: the socket is non-blocking, or the time has expired; the setup continues.
    /// [`Error::Refused`], [`Error::TimedOut`], [`Error::Unreachable`]: the setup failed.
    /// [`Error::AlreadyConnected`], [`Error::AlreadyConnecting`]: there is an association already.
    /// [`Error::Invalid`]: the list is empty, or its ports differ or are 0. [`Error::NotSupported`]: a one-to-one
    /// socket listens.
    pub fn connect(self: &Arc<Self>, remotes: Vec<SocketAddr>) -> Result<AssocId, Error> {
        self.connect_with(remotes, |_| {})
    }

    /// As [`connect`](Self::connect). Calls `begun` with the id as soon as the setup has begun.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub fn connect_with(
        self: &Arc<Self>,
        remotes: Vec<SocketAddr>,
        begun: impl FnOnce(AssocId),
    ) -> Result<AssocId, Error> {
        let nonblocking = self.is_nonblocking(false);
        let id = self.with(|state| {
            let id = self.begin_connecting(state, remotes, None)?;
            if !nonblocking {
                state.awaited.insert(id, None);
            }
            Ok::<_, Error>(id)
        })?;
        begun(id);
        if nonblocking {
            self.host.reactor.settle();
            return Err(Error::InProgress);
        }
        let limit = self.with(|state| state.options.send_timeout);
        let waited = self.wait(false, limit, |state| {
            if let Some(error) = state.awaited.get(&id).copied().flatten() {
                return Some(Err(error));
            }
            match state.peers.get(&id) {
                Some(peer) if peer.association.is_none() => None,
                _ => Some(Ok(id)),
            }
        });
        let failed = self.with(|state| state.awaited.remove(&id)).flatten();
        // The setup may have failed when the time expired, and nothing else would report that.
        waited.map_err(|error| match error {
            Error::WouldBlock => failed.unwrap_or(Error::InProgress),
            error => failed.unwrap_or(error),
        })
    }

    /// The first half of [`connect`](Self::connect) for tasks: starts to set up an association. May wait up to a
    /// second for a UDP port that closes, so tasks must call it on a thread of its own. Wait for the outcome with
    /// [`connected`](Self::connected), which must follow.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub fn start_connect(self: &Arc<Self>, remotes: Vec<SocketAddr>) -> Result<AssocId, Error> {
        self.with(|state| {
            let id = self.begin_connecting(state, remotes, None)?;
            state.awaited.insert(id, None);
            Ok(id)
        })
    }

    /// The second half: waits until the association of [`start_connect`](Self::start_connect) is established.
    /// `Ok` also if it has ended or the socket was closed meanwhile.
    ///
    /// # Errors
    /// As [`connect`](Self::connect). No other call returns this error.
    pub async fn connected(&self, id: AssocId) -> Result<(), Error> {
        let result = self.when_ready(|| {
            self.look(|state| match (state.awaited.get(&id), state.peers.get(&id)) {
                (Some(Some(error)), _) => Err(*error),
                (_, Some(peer)) if peer.association.is_none() => Err(Error::WouldBlock),
                _ => Ok(()),
            })
        });
        let result = result.await;
        self.with(|state| state.awaited.remove(&id));
        result
    }

    /// Starts to set up an association with `config`, or if that is `None`, with the socket's options.
    pub(super) fn begin_connecting(
        self: &Arc<Self>,
        state: &mut State,
        remotes: Vec<SocketAddr>,
        config: Option<AssociationConfig>,
    ) -> Result<AssocId, Error> {
        if state.closed {
            return Err(Error::Closed);
        }
        let port = remotes.first().ok_or(Error::Invalid)?.port();
        if port == 0 || remotes.iter().any(|remote| remote.port() != port) {
            return Err(Error::Invalid);
        }
        if remotes.iter().any(|remote| !self.family.fits(remote.ip())) {
            return Err(Error::WrongFamily);
        }
        if remotes.iter().any(|remote| state.lacks_scope(*remote)) {
            return Err(Error::Invalid);
        }
        if self.style == Style::OneToOne {
            if state.listening {
                return Err(Error::NotSupported);
            }
            if let Some((_, peer)) = state.only() {
                return Err(match peer.association {
                    Some(_) => Error::AlreadyConnected,
                    None => Error::AlreadyConnecting,
                });
            }
            state.error = None;
        } else if state.peer_of(&remotes).is_some() {
            return Err(Error::AlreadyConnected);
        }
        let endpoint = self.endpoint(state, Use::Connecting)?;
        let config = config.unwrap_or_else(|| state.options.config.clone());
        let mut options = ConnectOptions::from(state.options.offered(config));
        options.remote_udp_port = state.options.remote_udp_port;
        options.linger = LINGER;
        if self.style == Style::OneToMany {
            // All associations of the socket must have the same port.
            state.bound.get_or_insert_with(|| Bound::anywhere(self.family));
        }
        options.local_port = state.bound.as_ref().map(|bound| bound.port);
        let anywhere = || Bound::anywhere(self.family).ip_versions();
        options.ip_versions = state.bound.as_ref().map_or_else(anywhere, Bound::ip_versions);
        Ok(self.start_connecting(state, &endpoint, remotes, options))
    }

    /// Accepts an association that a peer set up (RFC 6458 section 4.1.4). Returns a new socket for it, and the
    /// peer's address. The new socket has the options of this one, and is non-blocking if requested.
    ///
    /// # Errors
    /// [`Error::NotSupported`]: this is a one-to-many socket. [`Error::Invalid`]: it does not listen.
    /// [`Error::WouldBlock`]: none waits, and the socket is non-blocking or SO_RCVTIMEO has expired.
    pub fn accept(self: &Arc<Self>, nonblocking: bool) -> Result<(Arc<Self>, SocketAddr), Error> {
        if self.style == Style::OneToMany {
            return Err(Error::NotSupported);
        }
        let wait = self.is_nonblocking(false);
        let limit = self.look(|state| state.options.receive_timeout);
        let (descriptor, association, mut options, place) = self.wait(wait, limit, |state| {
            if !state.listening {
                return Some(Err(Error::Invalid));
            }
            self.welcome_all(state);
            let waiting = state.accepted.front()?.clone();
            // If no descriptor is left, the association keeps waiting.
            let descriptor = match self.descriptor.another(nonblocking) {
                Ok(descriptor) => descriptor,
                Err(error) => return Some(Err(error)),
            };
            state.accepted.pop_front();
            let place = (state.bound.clone(), state.endpoint.clone());
            Some(Ok((descriptor, waiting, state.options.clone(), place)))
        })?;
        options.linger = None;
        // An association that has ended can be accepted, too, with the messages received before.
        let remote = primary(&association).ok_or(Error::Aborted)?;
        let (host, (bound, endpoint)) = (self.host.clone(), place);
        let accepted =
            Self::with_options(host, self.style, self.family, descriptor, endpoint, options);
        accepted.with(|state| {
            state.bound = bound;
            accepted.adopt(state, association);
        });
        self.host.reactor.settle();
        Ok((accepted, remote))
    }

    /// `sctp_peeloff`: moves an association of a one-to-many socket to a new one-to-one socket (RFC 6458 section
    /// 9.2), with its messages and notifications.
    ///
    /// # Errors
    /// [`Error::NotSupported`]: this is a one-to-one socket. [`Error::Invalid`]: the association does not exist.
    /// [`Error::NotConnected`]: it is not established yet.
    pub fn peel_off(&self, id: AssocId) -> Result<Arc<Self>, Error> {
        if self.style == Style::OneToOne {
            return Err(Error::NotSupported);
        }
        let (options, bound, endpoint) = self.with(|state| match state.peers.get(&id) {
            Some(peer) if peer.association.is_some() => {
                Ok((state.options.clone(), state.bound.clone(), state.endpoint.clone()))
            }
            Some(_) => Err(Error::NotConnected),
            None => Err(Error::Invalid),
        })?;
        let (style, host) = (Style::OneToOne, self.host.clone());
        let descriptor = self.descriptor.another(false)?;
        let peeled = Self::with_options(host, style, self.family, descriptor, endpoint, options);
        // Lock both sockets, the old one first, so that arriving events always find the association in one
        // of them. No other code locks two sockets.
        let moved = self.with(|state| {
            let peer = state.peers.remove(&id)?;
            let waiting = state.notifications.split_off(id);
            state.ready.retain(|ready| *ready != id);
            peeled.with(|state| {
                state.bound = bound;
                state.used = true;
                state.notifications = waiting;
                if peer.head.is_some() {
                    state.ready.push_back(id);
                }
                peer.link.move_to(&peeled);
                state.peers.insert(id, peer);
            });
            Some(())
        });
        if moved.is_none() {
            return Err(Error::Invalid);
        }
        Ok(peeled)
    }

    /// Ends sending on a one-to-one socket (RFC 6458 section 4.1.7). Data already sent is delivered first.
    /// Ending only reception has no effect.
    ///
    /// # Errors
    /// [`Error::NotSupported`]: this is a one-to-many socket. [`Error::NotConnected`]: there is no association.
    pub fn shut_down(&self, how: Shutdown) -> Result<(), Error> {
        if self.style == Style::OneToMany {
            return Err(Error::NotSupported);
        }
        let result = self.with(|state| match how {
            Shutdown::Read => Ok(()),
            Shutdown::Write | Shutdown::Both => {
                let (_, peer) = state.peer(self.style, AssocId::FUTURE)?;
                if peer.association.is_none() {
                    return Err(Error::NotConnected);
                }
                peer.finished = true;
                self.start_finishing(peer);
                Ok(())
            }
        });
        self.host.reactor.settle();
        result
    }

    /// Closes the socket (RFC 6458 sections 3.1.4 and 4.1.6). Its associations are shut down gracefully in the
    /// background. With SO_LINGER the call waits for that, up to its time; a time of 0 aborts them. The descriptor
    /// is closed when the last reference to the socket is dropped.
    ///
    /// # Errors
    /// [`Error::TimedOut`]: SO_LINGER has expired, and data was not delivered. Or the error that ended an
    /// association before that. In both cases the socket is closed. [`Error::Closed`]: it was already closed.
    pub fn close(&self) -> Result<(), Error> {
        if self.with(|state| state.closed) {
            return Err(Error::Closed);
        }
        let Ended { closing, linger, endpoint } = self.end();
        let result = match linger.filter(|limit| !limit.is_zero()) {
            Some(limit) => linger_for(&self.host, limit, closing),
            None => Ok(()),
        };
        endpoint.into_iter().for_each(Lease::let_go);
        result
    }

    /// Closes the socket as process exit does: without waiting, whatever SO_LINGER says.
    pub fn abandon(&self) {
        self.end();
    }

    /// Closes the socket without waiting, for tasks: associations are shut down gracefully in the background, or
    /// aborted if SO_LINGER is 0. Later calls fail with [`Error::Closed`].
    pub fn let_go(&self) {
        if !self.look(|state| state.closed) {
            self.end_with(|socket| {
                socket.start_to_stop_listening();
            });
        }
    }

    /// Ends the associations of a socket that is closed, and waits until its port is free.
    fn end(&self) -> Ended {
        self.end_with(Self::stop_listening)
    }

    fn end_with(&self, stop_listening: impl FnOnce(&Self)) -> Ended {
        let (peers, linger) = self.with(|state| {
            state.closed = true;
            (std::mem::take(&mut state.peers), state.options.linger)
        });
        stop_listening(self);
        // Only now: ending a listener needs its endpoint.
        let endpoint = self.with(|state| state.endpoint.take());
        let mut closing = Vec::new();
        for peer in peers.into_values() {
            match (&peer.association, linger) {
                (Some(association), Some(Duration::ZERO)) => association.abort(b""),
                _ => self.start_finishing(&peer),
            }
            closing.extend(peer.association);
            peer.link.taken.notify_one();
        }
        self.host.reactor.settle();
        Ended { closing, linger, endpoint }
    }
}

impl Drop for Socket {
    /// Closes the socket if it is still open. Does not wait, because a task may drop the last reference.
    fn drop(&mut self) {
        self.let_go();
    }
}

/// What a closed socket leaves behind.
struct Ended {
    /// Its associations, which are being shut down.
    closing: Vec<Association>,
    /// SO_LINGER.
    linger: Option<Duration>,
    endpoint: Option<Arc<Lease>>,
}

impl Bound {
    /// The implicit binding of a socket of this family.
    fn anywhere(family: Family) -> Self {
        Self { port: ephemeral(), addresses: Vec::new(), ipv4: family == Family::Ipv4 }
    }

    /// Adds addresses, each at most once.
    fn add(&mut self, addresses: &[SocketAddr]) -> Result<(), Error> {
        for mut address in addresses.iter().copied() {
            if self.addresses.iter().any(|known| known.ip() == address.ip()) {
                return Err(Error::AddressInUse);
            }
            address.set_port(0);
            self.addresses.push(address);
        }
        Ok(())
    }

    /// The IP versions that associations may use, even if a shared endpoint has more.
    fn ip_versions(&self) -> IpVersions {
        if self.ipv4 { IpVersions::Ipv4 } else { IpVersions::Both }
    }
}

impl State {
    /// Whether an address is link-local, and neither it nor the socket identifies the link.
    fn lacks_scope(&self, remote: SocketAddr) -> bool {
        let SocketAddr::V6(v6) = remote else { return false };
        let is_tied = || {
            let bound = self.bound.iter().flat_map(|bound| &bound.addresses);
            self.options.interface.is_some()
                || bound.map(SocketAddr::ip).any(is_link_local)
                || self.endpoint.as_ref().is_some_and(|endpoint| !endpoint.is_shared())
        };
        is_link_local((*v6.ip()).into()) && v6.scope_id() == 0 && !is_tied()
    }
}

/// Whether this host has an address. A link-local one without a scope may be on any link.
fn is_here(mut address: SocketAddr) -> bool {
    address.set_port(0);
    UdpSocket::bind(address).is_ok()
        || matches!(address, SocketAddr::V6(v6) if is_link_local(address.ip()) && v6.scope_id() == 0)
}

/// Waits for associations to end. Undelivered data is an error: ETIMEDOUT when the time has expired,
/// or the error of the association.
fn linger_for(host: &Host, limit: Duration, closing: Vec<Association>) -> Result<(), Error> {
    let outcome = Arc::new(Mutex::new(Ok(())));
    let told = outcome.clone();
    let ended = host.reactor.within(Some(limit), async move {
        for association in &closing {
            if let Err(CloseError { error: AssociationError::Closed(reason), undelivered, .. }) =
                association.closed().await
                && undelivered > 0
                && let Some(error) = Error::of_end(&reason)
            {
                *lock(&told) = Err(error);
            }
        }
    });
    if ended { *lock(&outcome) } else { Err(Error::TimedOut) }
}

/// A port of the ephemeral range (RFC 6335). If it is in use, the call that needs it fails.
fn ephemeral() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = std::process::id() as u16;
    49_152 + (first.wrapping_mul(97).wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed))) % 16_384
}

fn is_link_local(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V6(v6) if v6.is_unicast_link_local())
}
