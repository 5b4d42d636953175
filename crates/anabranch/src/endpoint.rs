//! The endpoint: owner of sockets, engine and associations.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::sync::Arc;
use std::task::Poll;

use anabranch_proto::{ConnectRequest, Encapsulation, EndpointConfig};

use crate::association::Association;
use crate::capture::Capture;
use crate::driver::Driver;
use crate::error::{AssociationError, BindError, ConnectError, ListenError};
use crate::listener::Listener;
use crate::options::{ConnectOptions, LINGER, ListenOptions, Remotes};
use crate::runtime::Runtime;
use crate::shared::{ListenerState, Shared, State};
use crate::sockets::{SocketSet, Wanted, WantedAddress};
use crate::state::{AssociationState, Phase};
use crate::wakers::Key;

/// Sockets of one UDP port and the associations over them, on any number of SCTP ports.
///
/// A cheap handle; clones mean the same endpoint. A task runs it until all handles of it, its
/// listeners and its associations are dropped, or until it is [closed](Self::close). Nothing is
/// shared between endpoints, and a process may have any number of them.
#[derive(Clone, Debug)]
pub struct Endpoint {
    inner: Arc<EndpointRef>,
}

/// Chooses what an [`Endpoint`] is bound to.
#[derive(Clone, Debug, Default)]
pub struct Builder {
    local_addresses: Vec<WantedAddress>,
    udp_port: u16,
    config: EndpointConfig,
    seed: Option<[u8; 32]>,
    capture: Option<PathBuf>,
    runtime: Option<Arc<dyn Runtime>>,
    interface: Option<String>,
    opened: Vec<Arc<UdpSocket>>,
}

impl Builder {
    /// Adds local addresses, each with a socket of its own, so that each is the source of its
    /// own paths. With none, the endpoint uses all addresses of the host.
    #[must_use]
    pub fn local_addresses(mut self, addresses: impl IntoIterator<Item = IpAddr>) -> Self {
        let wanted = addresses.into_iter().map(|ip| WantedAddress { ip, link: None });
        self.local_addresses.extend(wanted);
        self
    }

    /// Adds a local address as [`local_addresses`](Self::local_addresses) does, and says which
    /// interface has it: several may have the same link-local address.
    #[must_use]
    pub fn link_local_address(mut self, address: Ipv6Addr, interface: impl Into<String>) -> Self {
        let link = Some(interface.into());
        self.local_addresses.push(WantedAddress { ip: address.into(), link });
        self
    }

    /// Sends and receives over this network interface only, whatever the routes are, and with no
    /// local addresses given uses all of the interface, the link-local ones among them.
    ///
    /// Linux ties sockets to interfaces (SO_BINDTODEVICE); elsewhere binding fails.
    #[must_use]
    pub fn interface(mut self, name: impl Into<String>) -> Self {
        self.interface = Some(name.into());
        self
    }

    /// Adds a socket that was opened already, for instance by somebody who has the privilege for
    /// raw sockets: a UDP socket, or with [`Encapsulation::Ip`] a raw socket for protocol 132.
    /// Any descriptor becomes a `std::net::UdpSocket` with `From<OwnedFd>`. With such sockets no
    /// local addresses are needed.
    #[must_use]
    pub fn socket(mut self, socket: UdpSocket) -> Self {
        self.opened.push(Arc::new(socket));
        self
    }

    /// UDP port of all local addresses, without meaning to IP protocol 132; 0, the default, takes one that is free on all of them.
    /// Servers usually take [`SCTP_UDP_PORT`](crate::SCTP_UDP_PORT).
    #[must_use]
    pub fn udp_port(mut self, port: u16) -> Self {
        self.udp_port = port;
        self
    }

    /// What carries the packets: UDP, the default, or IP protocol 132, which other SCTP stacks
    /// expect. That needs raw sockets, and thus root or the capability CAP_NET_RAW.
    #[must_use]
    pub fn encapsulation(mut self, encapsulation: Encapsulation) -> Self {
        self.config.encapsulation = encapsulation;
        self
    }

    /// Options of the endpoint, [`encapsulation`](Self::encapsulation) among them.
    #[must_use]
    pub fn config(mut self, config: EndpointConfig) -> Self {
        self.config = config;
        self
    }

    /// The seed of all random numbers, for runs that are to be repeated. By default it comes
    /// from the operating system; whoever knows it can forge cookies.
    #[must_use]
    pub fn seed(mut self, seed: [u8; 32]) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Writes all packets to a pcapng file, which is replaced if it exists.
    #[must_use]
    pub fn capture(mut self, path: impl Into<PathBuf>) -> Self {
        self.capture = Some(path.into());
        self
    }

    /// What runs the endpoint; by default the tokio runtime within which it is bound.
    #[must_use]
    pub fn runtime(mut self, runtime: Arc<dyn Runtime>) -> Self {
        self.runtime = Some(runtime);
        self
    }

    /// Opens the sockets and starts the endpoint.
    ///
    /// # Errors
    /// An option is out of range, a socket or the capture file cannot be opened, or there is no
    /// runtime.
    pub fn bind(mut self) -> Result<Endpoint, BindError> {
        // Only simulators do without. On a network nobody would take such packets, and damaged
        // ones would be taken; RFC 9653 is about something else, which both ends agree on.
        self.config.checksum = true;
        self.config.validate().map_err(BindError::Config)?;
        let runtime = self.runtime.or_else(default_runtime).ok_or(BindError::NoRuntime)?;
        let seed = match self.seed {
            Some(seed) => seed,
            None => {
                let mut seed = [0; 32];
                getrandom::fill(&mut seed).map_err(|_| BindError::Randomness)?;
                seed
            }
        };
        let encapsulation = self.config.encapsulation;
        let mut opened = Vec::with_capacity(self.opened.len());
        for socket in &self.opened {
            opened.push(socket.try_clone().map_err(BindError::Opened)?);
        }
        let wanted = Wanted {
            encapsulation,
            addresses: self.local_addresses,
            port: self.udp_port,
            interface: self.interface,
            opened,
        };
        let sockets = SocketSet::bind(&*runtime, wanted)?;
        let clocks = (runtime.wall_clock(), runtime.now());
        let capture = match self.capture {
            Some(path) => match Capture::create(&path, encapsulation, clocks) {
                Ok(capture) => Some(capture),
                Err(source) => return Err(BindError::Capture { path, source }),
            },
            None => None,
        };
        let mut engine = anabranch_proto::Endpoint::new(self.config, seed);
        let addresses: Vec<IpAddr> = sockets.addresses().iter().map(|a| a.ip).collect();
        engine.set_local_addresses(runtime.now(), &addresses);
        let shared = Arc::new(Shared::new(engine, runtime.clone(), sockets.udp_port()));
        shared.lock().addresses = sockets.addresses().to_vec();
        runtime.spawn(Box::pin(Driver::new(shared.clone(), sockets, capture)));
        Ok(Endpoint { inner: Arc::new(EndpointRef { shared }) })
    }
}

#[cfg(feature = "runtime-tokio")]
fn default_runtime() -> Option<Arc<dyn Runtime>> {
    Some(Arc::new(crate::runtime::TokioRuntime::current()?))
}

#[cfg(not(feature = "runtime-tokio"))]
fn default_runtime() -> Option<Arc<dyn Runtime>> {
    None
}

/// Totals of an endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct EndpointStatistics {
    /// Associations that have not ended.
    pub associations: usize,
    /// UDP datagrams sent.
    pub datagrams_sent: u64,
    /// Calls that sent them; with segmentation offload one sends several.
    pub send_calls: u64,
    /// UDP datagrams received.
    pub datagrams_received: u64,
    /// Batches in which they came.
    pub batches_received: u64,
    /// Datagrams that could not be sent.
    pub send_errors: u64,
    /// Datagrams dropped because a queue of this host was full.
    pub datagrams_dropped: u64,
    /// Bytes in the receive and send buffers of all associations.
    pub memory_used: usize,
}

impl Endpoint {
    /// Starts with all local addresses and a free UDP port.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// The UDP port of all local addresses; 0 for IP protocol 132.
    pub fn udp_port(&self) -> u16 {
        self.inner.shared.udp_port
    }

    /// The local addresses that new associations use; without any given to the builder they
    /// follow those of the host.
    pub fn local_addresses(&self) -> Vec<IpAddr> {
        self.inner.shared.lock().engine.local_addresses().to_vec()
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
        let mut guard = self.inner.shared.lock();
        if guard.closing {
            return Err(ListenError::EndpointClosed);
        }
        guard
            .engine
            .listen(port, Arc::new(options.config))
            .map_err(|reason| ListenError::Refused { port, reason })?;
        let listener = ListenerState {
            backlog: VecDeque::new(),
            limit: options.backlog,
            linger: options.linger,
            waiting: Default::default(),
        };
        guard.listeners.insert(port, listener);
        Ok(Listener::new(self.inner.shared.clone(), port))
    }

    /// Sets an association up with a peer that has these addresses; a peer tells its others
    /// itself. Ready when data can be sent. Cancel-safe: a dropped future aborts the attempt.
    ///
    /// # Errors
    /// The peer cannot be reached or does not want to, or an option is out of range.
    pub async fn connect(
        &self,
        remotes: impl Into<Remotes>,
        options: impl Into<ConnectOptions>,
    ) -> Result<Association, ConnectError> {
        let (Remotes(remotes), options) = (remotes.into(), options.into());
        let port = remotes.first().map_or(0, SocketAddr::port);
        if let Some(other) = remotes.iter().find(|remote| remote.port() != port) {
            return Err(ConnectError::PortsDiffer(port, other.port()));
        }
        // A scope says which link a link-local address is on.
        let scopes = remotes.iter().filter_map(|remote| match remote {
            SocketAddr::V6(v6) if v6.ip().is_unicast_link_local() => Some(v6.scope_id()),
            _ => None,
        });
        let scopes: Vec<u32> = scopes.filter(|scope| *scope != 0).collect();
        let ips = remotes.iter().map(SocketAddr::ip).collect();
        let mut request = ConnectRequest::new(ips, port);
        let shared = &self.inner.shared;
        // Without UDP there is no port.
        let udp_port = if shared.udp_port == 0 { 0 } else { options.remote_udp_port };
        request.remote_udp_port = udp_port;
        request.local_port = options.local_port;
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
            let id = guard.engine.connect(now, request).map_err(ConnectError::Refused)?;
            guard.associations.insert(id, AssociationState::new(options.linger));
            guard.live += 1;
            guard.revision += 1;
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

    /// Shuts all associations down gracefully, aborts those that take longer than 5 s, and
    /// closes the sockets. Associations are no longer accepted from now on. Goes on when the
    /// future is dropped.
    pub async fn close(&self) {
        let shared = &self.inner.shared;
        let now = shared.runtime.now();
        {
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
            let live: Vec<_> = live.map(|(id, state)| (*id, state.phase.clone())).collect();
            for (id, phase) in live {
                match phase {
                    Phase::Up => {
                        guard.lingering.insert((now + LINGER, id));
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

    pub(crate) fn shared(&self) -> &Shared {
        &self.inner.shared
    }

    pub(crate) async fn wait(&self, done: impl Fn(&State) -> bool) {
        let mut turn = IdleTurn { shared: &self.inner.shared, key: None };
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

    /// Totals.
    pub fn statistics(&self) -> EndpointStatistics {
        self.inner.shared.lock().totals()
    }
}

/// A place among those who wait for the endpoint to become idle.
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
    shared: Arc<Shared>,
}

impl Drop for EndpointRef {
    fn drop(&mut self) {
        let mut guard = self.shared.lock();
        guard.has_handle = false;
        guard.wake_driver();
    }
}
