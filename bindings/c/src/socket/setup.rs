//! Binding, listening, connecting, accepting, peeling off and closing.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anabranch::{
    Association, AssociationConfig, AssociationError, CloseError, ConnectOptions, Endpoint,
    ListenOptions, SCTP_UDP_PORT,
};

use super::link::primary;
use super::{Bound, Socket, State, Style, forget, forget_all};
use crate::address;
use crate::descriptor::Descriptor;
use crate::errno::Errno;
use crate::host::{Binding, Host, lock};

/// A dropped association has this long; all that are closed are waited for.
const LINGER: Duration = Duration::from_secs(3600);

/// What a socket does first, which decides its UDP port unless it was told one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    Listening,
    Connecting,
}

impl Socket {
    /// Binds to addresses with one port; to the wildcard address for all of the host.
    pub(crate) fn bind(&self, addresses: &[SocketAddr]) -> Result<(), Errno> {
        self.with(|state| {
            if state.closed {
                return Err(Errno::EBADF);
            }
            if state.bound.is_some() || state.listening || state.used {
                return Err(Errno::EINVAL);
            }
            let port = self.check_addresses(addresses, None)?;
            let wildcard = addresses.iter().any(|address| address.ip().is_unspecified());
            let mut ips: Vec<IpAddr> = addresses.iter().map(SocketAddr::ip).collect();
            if wildcard {
                ips.clear();
            }
            if (1..ips.len()).any(|at| ips[..at].contains(&ips[at])) {
                return Err(Errno::EADDRINUSE);
            }
            let port = if port == 0 { ephemeral() } else { port };
            state.bound = Some(Bound { port, addresses: ips });
            Ok(())
        })
    }

    /// Adds addresses to those that the socket is bound to, or binds it (RFC 6458 section 9.1).
    pub(crate) fn bind_more(&self, addresses: &[SocketAddr]) -> Result<(), Errno> {
        if self.with(|state| state.bound.is_none()) {
            return self.bind(addresses);
        }
        self.with(|state| {
            if state.listening || state.used {
                // Address lists of what is in use change with ASCONF only.
                return Err(Errno::EOPNOTSUPP);
            }
            let bound = state.bound.clone().unwrap_or_default();
            self.check_addresses(addresses, Some(bound.port))?;
            if addresses.iter().any(|address| address.ip().is_unspecified()) {
                return Err(Errno::EINVAL);
            }
            let mut ips = bound.addresses;
            for ip in addresses.iter().map(SocketAddr::ip) {
                if ips.contains(&ip) {
                    return Err(Errno::EADDRINUSE);
                }
                ips.push(ip);
            }
            state.bound = Some(Bound { addresses: ips, ..bound });
            Ok(())
        })
    }

    /// Removes addresses.
    pub(crate) fn bind_less(&self, addresses: &[SocketAddr]) -> Result<(), Errno> {
        self.with(|state| {
            if state.listening || state.used {
                return Err(Errno::EOPNOTSUPP);
            }
            let Some(bound) = &mut state.bound else { return Err(Errno::EINVAL) };
            let mut ips = bound.addresses.clone();
            for ip in addresses.iter().map(SocketAddr::ip) {
                let at = ips.iter().position(|known| *known == ip).ok_or(Errno::EINVAL)?;
                ips.remove(at);
            }
            // None left would mean all of the host.
            if ips.is_empty() {
                return Err(Errno::EINVAL);
            }
            bound.addresses = ips;
            Ok(())
        })
    }

    /// Whether a socket can be bound to these: their one port.
    fn check_addresses(&self, addresses: &[SocketAddr], port: Option<u16>) -> Result<u16, Errno> {
        let first = addresses.first().ok_or(Errno::EINVAL)?.port();
        let port = port.unwrap_or(first);
        for address in addresses {
            if !address::fits(self.domain, address.ip()) {
                return Err(Errno::EAFNOSUPPORT);
            }
            // RFC 6458 section 9.1: the port is the same in all, or 0.
            if address.port() != port && address.port() != 0 {
                return Err(Errno::EINVAL);
            }
            let ours = self.host.only.as_ref();
            let is_here = match ours {
                Some(only) => only.addresses.contains(&address.ip()),
                None => UdpSocket::bind((address.ip(), 0)).is_ok() || is_link_local(address.ip()),
            };
            if !address.ip().is_unspecified() && !is_here {
                return Err(Errno::EADDRNOTAVAIL);
            }
        }
        Ok(port)
    }

    /// The endpoint for what the socket is bound to.
    fn endpoint(&self, state: &mut State, first: Use) -> Result<Endpoint, Errno> {
        if let Some(endpoint) = &state.endpoint {
            return Ok(endpoint.clone());
        }
        let mut addresses = state.bound.clone().unwrap_or_default().addresses;
        addresses.sort_unstable();
        let usual = if first == Use::Listening { SCTP_UDP_PORT } else { 0 };
        let udp_port = state.options.udp_port.unwrap_or(usual);
        let udp_port = if state.options.raw { None } else { Some(udp_port) };
        let interface = state.options.interface.clone();
        let traffic_class = state.options.traffic_class;
        let binding = Binding { addresses, udp_port, interface, traffic_class };
        let endpoint = self.host.endpoint(binding)?;
        state.endpoint = Some(endpoint.clone());
        Ok(endpoint)
    }

    /// Accepts associations from now on, or with a backlog of 0 no more.
    pub(crate) fn listen(self: &Arc<Self>, backlog: i32) -> Result<(), Errno> {
        if backlog == 0 {
            self.stop_listening();
            return Ok(());
        }
        let result = self.with(|state| {
            if state.closed {
                return Err(Errno::EBADF);
            }
            if self.style == Style::OneToOne && state.used {
                return Err(Errno::EISCONN);
            }
            if state.listening {
                return Ok(());
            }
            let port = state.bound.get_or_insert_with(Bound::anywhere).port;
            let endpoint = self.endpoint(state, Use::Listening)?;
            let mut options = ListenOptions::from(state.options.config.clone());
            options.backlog = usize::try_from(backlog).unwrap_or(options.backlog);
            options.linger = LINGER;
            let listener = endpoint.listen(port, options)?;
            state.listening = true;
            self.start_accepting(state, listener);
            Ok(())
        });
        self.host.settle();
        result
    }

    /// Accepts no more; what was not accepted yet is aborted. The port is free afterwards.
    fn stop_listening(&self) {
        let accepted = self.with(|state| {
            if let Some(stop) = &state.accepting {
                stop.notify_one();
            }
            state.listening = false;
            std::mem::take(&mut state.accepted)
        });
        for association in accepted {
            association.abort(b"closed before it was accepted");
        }
        self.accepted_taken.notify_one();
        self.wait_until(|state| state.accepting.is_none());
    }

    /// Sets an association up; returns its number (RFC 6458 section 9.9).
    pub(crate) fn connect(self: &Arc<Self>, remotes: Vec<SocketAddr>) -> Result<i32, Errno> {
        self.connect_with(remotes, |_| {})
    }

    /// As [`connect`](Self::connect); `begun` learns the number even if nobody waits for the end.
    pub(crate) fn connect_with(
        self: &Arc<Self>,
        remotes: Vec<SocketAddr>,
        begun: impl FnOnce(i32),
    ) -> Result<i32, Errno> {
        let nonblocking = self.is_nonblocking(0);
        let id = self.with(|state| {
            let id = self.begin_connecting(state, remotes, None)?;
            if !nonblocking {
                state.awaited.insert(id, None);
            }
            Ok::<i32, Errno>(id)
        })?;
        begun(id);
        if nonblocking {
            self.host.settle();
            return Err(Errno::EINPROGRESS);
        }
        let limit = self.with(|state| state.options.send_timeout);
        let waited = self.wait(false, limit, |state| {
            if let Some(errno) = state.awaited.get(&id).copied().flatten() {
                return Some(Err(errno));
            }
            match state.peers.get(&id) {
                Some(peer) if peer.association.is_none() => None,
                _ => Some(Ok(id)),
            }
        });
        let failed = self.with(|state| state.awaited.remove(&id)).flatten();
        // It may have failed at the last moment, and nobody else is told.
        waited.map_err(|errno| match errno {
            Errno::EAGAIN => failed.unwrap_or(Errno::EINPROGRESS),
            errno => failed.unwrap_or(errno),
        })
    }

    /// Starts to set an association up, as `config` says or the socket's options.
    pub(super) fn begin_connecting(
        self: &Arc<Self>,
        state: &mut State,
        remotes: Vec<SocketAddr>,
        config: Option<AssociationConfig>,
    ) -> Result<i32, Errno> {
        if state.closed {
            return Err(Errno::EBADF);
        }
        let port = remotes.first().ok_or(Errno::EINVAL)?.port();
        if port == 0 || remotes.iter().any(|remote| remote.port() != port) {
            return Err(Errno::EINVAL);
        }
        if remotes.iter().any(|remote| !address::fits(self.domain, remote.ip())) {
            return Err(Errno::EAFNOSUPPORT);
        }
        if self.style == Style::OneToOne {
            if state.listening {
                return Err(Errno::EOPNOTSUPP);
            }
            if let Some((_, peer)) = state.only() {
                return Err(match peer.association {
                    Some(_) => Errno::EISCONN,
                    None => Errno::EALREADY,
                });
            }
            state.error = None;
        } else if state.peer_of(&remotes).is_some() {
            return Err(Errno::EISCONN);
        }
        let endpoint = self.endpoint(state, Use::Connecting)?;
        let mut options =
            ConnectOptions::from(config.unwrap_or_else(|| state.options.config.clone()));
        options.remote_udp_port = state.options.remote_udp_port;
        options.linger = LINGER;
        if self.style == Style::OneToMany {
            // All associations of the socket are to have the same port.
            state.bound.get_or_insert_with(Bound::anywhere);
        }
        options.local_port = state.bound.as_ref().map(|bound| bound.port);
        Ok(self.start_connecting(state, endpoint, remotes, options))
    }

    /// Takes an association that a peer set up.
    pub(crate) fn accept(
        self: &Arc<Self>,
        nonblocking: bool,
    ) -> Result<(Arc<Self>, SocketAddr), Errno> {
        if self.style == Style::OneToMany {
            return Err(Errno::EOPNOTSUPP);
        }
        let wait = self.is_nonblocking(0);
        let limit = self.with(|state| state.options.receive_timeout);
        let (descriptor, association, mut options, bound) = self.wait(wait, limit, |state| {
            if !state.listening {
                return Some(Err(Errno::EINVAL));
            }
            let waiting = state.accepted.front()?.clone();
            // Without a descriptor the association goes on waiting.
            let descriptor = match Descriptor::new(nonblocking) {
                Ok(descriptor) => descriptor,
                Err(errno) => return Some(Err(errno)),
            };
            state.accepted.pop_front();
            self.accepted_taken.notify_one();
            Some(Ok((descriptor, waiting, state.options.clone(), state.bound.clone())))
        })?;
        options.linger = None;
        // One that has ended is given, too, with what it brought.
        let remote = primary(&association).ok_or(Errno::ECONNABORTED)?;
        let (host, endpoint) = (self.host.clone(), self.with(|state| state.endpoint.clone()));
        let accepted =
            Self::with_options(host, self.style, self.domain, descriptor, endpoint, options);
        accepted.with(|state| {
            state.bound = bound;
            accepted.adopt(state, association);
        });
        self.host.settle();
        Ok((accepted, remote))
    }

    /// Makes an association of a one-to-many socket a one-to-one socket of its own
    /// (RFC 6458 section 9.2).
    pub(crate) fn peel_off(&self, id: i32) -> Result<Arc<Self>, Errno> {
        if self.style == Style::OneToOne {
            return Err(Errno::EOPNOTSUPP);
        }
        let (options, bound, endpoint) = self.with(|state| match state.peers.get(&id) {
            Some(peer) if peer.association.is_some() => {
                Ok((state.options.clone(), state.bound.clone(), state.endpoint.clone()))
            }
            Some(_) => Err(Errno::ENOTCONN),
            None => Err(Errno::EINVAL),
        })?;
        let (style, host) = (Style::OneToOne, self.host.clone());
        let descriptor = Descriptor::new(false)?;
        let peeled = Self::with_options(host, style, self.domain, descriptor, endpoint, options);
        // Both sockets are locked, the old one first, as nowhere else: what comes meanwhile finds the
        // association in one of them.
        let moved = self.with(|state| {
            let peer = state.peers.remove(&id)?;
            let notifications = std::mem::take(&mut state.notifications);
            let (waiting, others) = notifications.into_iter().partition(|told| told.id == id);
            state.notifications = others;
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
            let _ = forget(peeled.number());
            return Err(Errno::EINVAL);
        }
        Ok(peeled)
    }

    /// Ends sending (RFC 6458 section 4.1.7): everything that was sent is delivered first.
    pub(crate) fn shut_down(&self, how: i32) -> Result<(), Errno> {
        if self.style == Style::OneToMany {
            return Err(Errno::EOPNOTSUPP);
        }
        let result = self.with(|state| match how {
            libc::SHUT_RD => Ok(()),
            libc::SHUT_WR | libc::SHUT_RDWR => {
                let (_, peer) = state.peer(self.style, 0)?;
                if peer.association.is_none() {
                    return Err(Errno::ENOTCONN);
                }
                peer.finished = true;
                self.start_finishing(peer);
                Ok(())
            }
            _ => Err(Errno::EINVAL),
        });
        self.host.settle();
        result
    }

    /// Closes the socket. Its associations are shut down gracefully, in the background unless
    /// SO_LINGER says how long to wait, and at once if that says so.
    pub(crate) fn close(descriptor: i32) -> Result<(), Errno> {
        let socket = forget(descriptor)?;
        let (closing, linger) = socket.end();
        match linger.filter(|limit| !limit.is_zero()) {
            Some(limit) => linger_for(&socket.host, limit, closing),
            None => Ok(()),
        }
    }

    /// Closes all sockets, as the end of a process does: without waiting, whatever SO_LINGER says.
    pub(crate) fn close_all() {
        for socket in forget_all() {
            socket.end();
        }
    }

    /// Ends the associations of a socket that nobody finds any more; returns them, and SO_LINGER.
    fn end(&self) -> (Vec<Association>, Option<Duration>) {
        let (peers, linger) = self.with(|state| {
            state.closed = true;
            (std::mem::take(&mut state.peers), state.options.linger)
        });
        self.stop_listening();
        let mut closing = Vec::new();
        for peer in peers.into_values() {
            match (&peer.association, linger) {
                (Some(association), Some(Duration::ZERO)) => association.abort(b""),
                _ => self.start_finishing(&peer),
            }
            closing.extend(peer.association);
            peer.link.taken.notify_one();
        }
        self.host.settle();
        (closing, linger)
    }
}

impl Bound {
    /// What a socket is bound to that was not told.
    fn anywhere() -> Self {
        Self { port: ephemeral(), addresses: Vec::new() }
    }
}

/// Waits for associations to end. What was sent and has not arrived is an error: ETIMEDOUT when the
/// time is over, or that of the association. The descriptor is closed all the same.
fn linger_for(host: &Host, limit: Duration, closing: Vec<Association>) -> Result<(), Errno> {
    let outcome = Arc::new(Mutex::new(Ok(())));
    let told = outcome.clone();
    let ended = host.within(Some(limit), async move {
        for association in &closing {
            if let Err(CloseError { error: AssociationError::Closed(reason), undelivered, .. }) =
                association.closed().await
                && undelivered > 0
                && let Some(errno) = Errno::of_end(&reason)
            {
                *lock(&told) = Err(errno);
            }
        }
    });
    if ended { *lock(&outcome) } else { Err(Errno::ETIMEDOUT) }
}

/// A port of the ephemeral range (RFC 6335); if it is in use, the call that needs it says so.
fn ephemeral() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = std::process::id() as u16;
    49_152 + (first.wrapping_mul(97).wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed))) % 16_384
}

fn is_link_local(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V6(v6) if v6.is_unicast_link_local())
}
