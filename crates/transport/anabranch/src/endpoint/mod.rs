//! The endpoint: the owner of the sockets, the engine and the associations.

mod builder;
mod listener;
mod snapshot;

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use std::task::Poll;

use anabranch_proto::ConnectRequest;
use anabranch_proto::config::ConfigError;

use crate::association::Association;
use crate::error::{AssociationError, BindError, ConnectError, ListenError};
use crate::options::{ConnectOptions, LINGER, ListenOptions, Remotes};
use crate::shards;
use crate::shared::{ListenerState, Shared, State};
use crate::sockets::OpenedSocket;
use crate::state::{AssociationState, Phase};
use crate::statistics::EndpointStatistics;
use crate::wakers::Key;

pub use builder::Builder;
pub use listener::Listener;
pub use snapshot::{AssociationSnapshot, EndpointSnapshot};

/// The first ephemeral SCTP port (RFC 6335). Its bits are set in all ephemeral ports.
const EPHEMERAL: u16 = 0xc000;

/// Sockets of one UDP port and the associations over them, on any number of SCTP ports.
///
/// A cheap handle; clones refer to the same endpoint. A task, or one for each of its [shards](Builder::shards), runs it
/// until all handles of it, its listeners and its associations are dropped, or until it is [closed](Self::close).
/// Endpoints share nothing, and a process may have any number of them.
///
/// ```
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use anabranch::{AssociationConfig, ConnectOptions, Endpoint};
///
/// let endpoint = Endpoint::builder().bind()?;
/// // It listens and connects, both over its one UDP port.
/// let listener = endpoint.listen(5000, AssociationConfig::default())?;
/// let peer: std::net::IpAddr = "192.0.2.1".parse()?;
/// let association = endpoint.connect((peer, 5000), ConnectOptions::default()).await?;
/// association.close().await?;
/// endpoint.close().await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Endpoint {
    inner: Arc<EndpointRef>,
}

impl Endpoint {
    /// Makes the endpoint of these shards, which are already running. If there are several, the search for SCTP ports
    /// begins at `first_port`.
    pub(crate) fn of(shards: Arc<[Arc<Shared>]>, first_port: u16) -> Self {
        let (turn, next_port) = (AtomicUsize::new(0), AtomicU16::new(first_port));
        Self { inner: Arc::new(EndpointRef { shards, turn, next_port }) }
    }

    /// Configures an endpoint; the default is all local addresses and a free UDP port.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// The UDP port of all local addresses; 0 for IP protocol 132.
    pub fn udp_port(&self) -> u16 {
        self.inner.first().udp_port
    }

    /// The local addresses that new associations use. They follow those of the host, unless the builder was given
    /// addresses.
    pub fn local_addresses(&self) -> Vec<IpAddr> {
        self.inner.first().lock().engine.local_addresses().to_vec()
    }

    /// A local address of this endpoint with this port. The scope of a link-local one is the number of its interface.
    pub fn local_address(&self, ip: IpAddr, port: u16) -> SocketAddr {
        self.inner.first().lock().with_scope(ip, ip, port)
    }

    /// Opens a socket for one more address of this host, if the [builder](Builder::local_addresses) was given addresses. New
    /// associations use it from now on. Those that are up do not, except with the option `roam`:
    /// [`Association::add_address`] adds it to one of them.
    ///
    /// # Errors
    /// The system refuses, or the endpoint has the address. An endpoint on all addresses follows them by itself; one with
    /// several shards, sealed paths or sockets that were passed in open takes no further ones
    /// ([`BindError::Fixed`]).
    pub fn add_local_address(&self, ip: IpAddr) -> Result<(), BindError> {
        let shared = self.inner.first();
        let pattern = shared.pattern.as_ref().ok_or(BindError::Fixed)?;
        // The system is asked without the lock. It gives an address and port to one socket only.
        let known = |guard: &State| guard.addresses.iter().any(|address| address.ip == ip);
        if known(&shared.lock()) {
            return Err(BindError::DuplicateAddress(ip));
        }
        let opened = OpenedSocket::open(&*shared.runtime, pattern, ip)?;
        let now = shared.runtime.now();
        let mut guard = shared.lock();
        if known(&guard) {
            return Err(BindError::DuplicateAddress(ip));
        }
        if guard.closing {
            return Err(BindError::Fixed);
        }
        let mut general = guard.engine.local_addresses().to_vec();
        general.push(ip);
        guard.engine.set_local_addresses(now, &general);
        guard.addresses.push(opened.address.clone());
        guard.opened.push(opened);
        guard.wake_driver();
        Ok(())
    }

    /// Accepts associations on an SCTP port.
    ///
    /// # Errors
    /// The port is listened on already, or an option is out of range.
    pub fn listen(
        &self,
        port: u16,
        options: impl Into<ListenOptions>,
    ) -> Result<Listener, ListenError> {
        let options = options.into();
        let config = Arc::new(options.config);
        let shards = &self.inner.shards;
        // Lock in order: if two callers want the port, one of them gets it on all shards.
        let mut guards: Vec<_> = shards.iter().map(|shared| shared.lock()).collect();
        if guards.iter().any(|guard| guard.closing) {
            return Err(ListenError::EndpointClosed);
        }
        if guards.iter().any(|guard| guard.listeners.contains_key(&port)) {
            return Err(ListenError::InUse(port));
        }
        for guard in &mut guards {
            guard
                .engine
                .listen_within(port, config.clone(), options.ip_versions)
                .map_err(|reason| ListenError::refused(port, reason))?;
            let listener = ListenerState {
                backlog: VecDeque::new(),
                limit: options.backlog.div_ceil(shards.len()),
                linger: options.linger,
                ip_versions: options.ip_versions,
                waiting: Default::default(),
            };
            guard.listeners.insert(port, listener);
        }
        drop(guards);
        Ok(Listener::new(shards.clone(), port))
    }

    /// The addresses that a new association tries.
    #[cfg(feature = "seal")]
    fn usable(&self, mut remotes: Vec<SocketAddr>) -> Vec<SocketAddr> {
        let shared = self.inner.first();
        if shared.is_sealed {
            crate::seal::keep_usable(&mut remotes, &shared.lock().addresses);
        }
        remotes
    }

    /// Sets up an association with a peer that has these addresses; the peer's answer lists its other addresses. Ready
    /// when data can be sent. Cancel-safe: dropping the future aborts the attempt.
    ///
    /// With default options, a peer that does not answer is given up after four minutes (`max_init_retransmits` is 8,
    /// `rto_initial` 1 s, `rto_max` 60 s). Use a timeout to give up earlier.
    ///
    /// # Errors
    /// The peer cannot be reached or refuses, or an option is out of range.
    pub async fn connect(
        &self,
        remotes: impl Into<Remotes>,
        options: impl Into<ConnectOptions>,
    ) -> Result<Association, ConnectError> {
        let (Remotes(remotes), options) = (remotes.into(), options.into());
        #[cfg(feature = "seal")]
        let remotes = self.usable(remotes);
        let port = remotes.first().map_or(0, SocketAddr::port);
        if let Some(other) = remotes.iter().find(|remote| remote.port() != port) {
            return Err(ConnectError::PortsDiffer(port, other.port()));
        }
        // The scope of a link-local address is its link.
        let scopes = remotes.iter().filter_map(|remote| match remote {
            SocketAddr::V6(v6) if v6.ip().is_unicast_link_local() => Some(v6.scope_id()),
            _ => None,
        });
        let scopes: Vec<u32> = scopes.filter(|scope| *scope != 0).collect();
        let ips = remotes.iter().map(SocketAddr::ip).collect();
        let mut request = ConnectRequest::new(ips, port);
        let (shared, local_port) = self.inner.shard_for(port, options.local_port);
        // Without UDP there is no UDP port.
        let udp_port = match (shared.udp_port, options.remote_udp_port) {
            (0, _) => 0,
            (_, 0) => {
                let expected = "must not be 0: the peer's UDP port".to_owned();
                let error = ConfigError { option: "remote_udp_port", expected };
                return Err(ConnectError::Config(error));
            }
            (_, port) => port,
        };
        request.remote_udp_port = udp_port;
        request.local_port = local_port;
        request.ip_versions = options.ip_versions;
        request.config = Arc::new(options.config);
        let now = shared.runtime.now();
        let association = {
            let mut guard = shared.lock();
            if guard.closing {
                return Err(ConnectError::EndpointClosed);
            }
            if !scopes.is_empty() {
                request.locals = Some(guard.within_links(&scopes));
            }
            // Maximum number of attempts with ports of this shard.
            let mut left = usize::from(u16::MAX - EPHEMERAL) + 1;
            let id = loop {
                match guard.engine.connect(now, request.clone()) {
                    // Another port will do, unless this one was requested.
                    Err(anabranch_proto::ConnectError::AlreadyConnected)
                        if options.local_port.is_none() =>
                    {
                        left = left.saturating_sub(1);
                        if left == 0 {
                            let full = anabranch_proto::ConnectError::TooManyAssociations;
                            return Err(ConnectError::refused(full));
                        }
                        request.local_port = self.inner.next_port_of(shared, port);
                    }
                    result => break result.map_err(ConnectError::refused)?,
                }
            };
            guard.associations.insert(id, AssociationState::new(options.linger));
            guard.live += 1;
            guard.wake_driver();
            id
        };
        let association = Association::new(shared.clone(), association);
        match association.connected().await {
            Ok(()) => Ok(association),
            Err(AssociationError::Closed(reason)) => {
                Err(ConnectError::Failed { remotes, udp_port, reason })
            }
            Err(_) => Err(ConnectError::EndpointClosed),
        }
    }

    /// Waits until no association is left. Cancel-safe.
    pub async fn wait_idle(&self) {
        self.wait(|state| state.live == 0).await;
    }

    /// Shuts down all associations gracefully, aborts those that deliver none of their sent data for 5 s, and closes
    /// the sockets. Accepts no more associations. The shutdown continues if the future is dropped.
    pub async fn close(&self) {
        let now = self.inner.first().runtime.now();
        for shared in self.inner.shards.iter() {
            let mut guard = shared.lock();
            guard.closing = true;
            let ports: Vec<u16> = guard.listeners.keys().copied().collect();
            for port in ports {
                guard.engine.stop_listening(port);
                let waiting = guard.listeners.get_mut(&port);
                let woken: Vec<_> =
                    waiting.map(|listener| listener.waiting.drain().collect()).unwrap_or_default();
                guard.wake(woken);
            }
            let live = guard.associations.iter();
            let live: Vec<_> = live.map(|(id, state)| (*id, state.life.phase().clone())).collect();
            for (id, phase) in live {
                match phase {
                    Phase::Up => {
                        guard.linger(now, id, LINGER);
                        guard.shut_down(now, id);
                    }
                    Phase::Connecting => guard.abort(now, id, b"endpoint closed"),
                    Phase::Closed(_) => {}
                }
            }
            guard.wake_driver();
        }
        self.wait(|state| state.driver_gone).await;
    }

    pub(crate) fn shards(&self) -> &[Arc<Shared>] {
        &self.inner.shards
    }

    /// Waits until `done` is true of all shards.
    pub(crate) async fn wait(&self, done: impl Fn(&State) -> bool) {
        for shared in self.inner.shards.iter() {
            let mut turn = IdleTurn { shared, key: None };
            std::future::poll_fn(|cx| {
                let mut guard = turn.shared.lock();
                if done(&guard) {
                    return Poll::Ready(());
                }
                guard.idle.register(&mut turn.key, cx.waker());
                Poll::Pending
            })
            .await;
        }
    }

    /// The totals of all shards.
    pub fn statistics(&self) -> EndpointStatistics {
        let mut sum = EndpointStatistics::default();
        for shared in self.inner.shards.iter() {
            sum.add(&shared.lock().totals());
        }
        sum
    }
}

/// A place in the queue of tasks that wait for the endpoint to become idle.
struct IdleTurn<'a> {
    shared: &'a Shared,
    key: Option<Key>,
}

impl Drop for IdleTurn<'_> {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.shared.lock().idle.remove(key);
        }
    }
}

/// Dropped with the last handle of the endpoint.
#[derive(Debug)]
struct EndpointRef {
    shards: Arc<[Arc<Shared>]>,
    /// Counts connections, which are assigned to shards in rotation.
    turn: AtomicUsize,
    /// Where the search for a free SCTP port continues, if there are several shards.
    next_port: AtomicU16,
}

impl EndpointRef {
    fn first(&self) -> &Arc<Shared> {
        &self.shards[0]
    }

    /// The shard for a new association with this SCTP port of the peer, and the local port to use. With a single shard,
    /// the engine chooses the port.
    fn shard_for(&self, remote_port: u16, local_port: Option<u16>) -> (&Arc<Shared>, Option<u16>) {
        let count = self.shards.len();
        let shard = match local_port {
            _ if count == 1 => return (self.first(), local_port),
            Some(port) => shards::shard_of(remote_port, port, count),
            None => self.turn.fetch_add(1, Ordering::Relaxed) % count,
        };
        let shared = &self.shards[shard];
        (shared, local_port.or_else(|| self.next_port_of(shared, remote_port)))
    }

    /// The next ephemeral port whose associations with this remote port belong to this shard.
    fn next_port_of(&self, shared: &Arc<Shared>, remote_port: u16) -> Option<u16> {
        let next = || EPHEMERAL | self.next_port.fetch_add(1, Ordering::Relaxed);
        let shard = |port| shards::shard_of(remote_port, port, self.shards.len());
        let is_its = |port: &u16| Arc::ptr_eq(&self.shards[shard(*port)], shared);
        std::iter::repeat_with(next).take(usize::from(u16::MAX)).find(is_its)
    }
}

impl Drop for EndpointRef {
    fn drop(&mut self) {
        for shared in self.shards.iter() {
            let mut guard = shared.lock();
            guard.has_handle = false;
            guard.wake_driver();
        }
    }
}
