//! The host of sockets: a runtime, and the endpoints that sockets share.

use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anabranch::runtime::Runtime;
use anabranch::{AssociationConfig, Endpoint, SCTP_UDP_PORT};

use crate::endpoints::{Binding, Endpoints, Lease};
use crate::error::Error;
use crate::hooks::{Hooks, NoHooks};
use crate::lock::lock;
use crate::reactor::Reactor;

/// The host of sockets: a runtime that runs their associations, and the endpoints that they share. Sockets
/// keep it alive. When it is dropped, nothing more is delivered: call [`finish`](Self::finish) first.
#[derive(Debug)]
pub struct Host {
    pub(crate) reactor: Arc<Reactor>,
    endpoints: Arc<Endpoints>,
    pub(crate) hooks: Arc<dyn Hooks>,
    /// If set, replaces the binding that sockets ask for.
    pub(crate) only: Option<Binding>,
    /// Initial configuration of new sockets.
    pub(crate) config: Mutex<AssociationConfig>,
    /// Default UDP port of peers.
    pub(crate) remote_udp_port: u16,
}

impl Host {
    /// A host on another runtime. `settle` runs its tasks until none can make progress. Its only endpoint is
    /// bound to `only`.
    pub fn on(
        runtime: Arc<dyn Runtime>,
        settle: Box<dyn Fn() + Send + Sync>,
        only: Binding,
    ) -> Self {
        // The caller decides which endpoint there is, so keep it open.
        let endpoints = Endpoints::kept_open();
        Self::new(Reactor::on(runtime, settle), endpoints, Arc::new(NoHooks), Some(only), 0)
    }

    /// A host on the operating system's sockets. Starts a thread that runs it.
    ///
    /// # Errors
    /// [`Error::System`]: the thread or its descriptors cannot be created.
    pub fn start() -> Result<Arc<Self>, Error> {
        Self::start_with(Arc::new(NoHooks))
    }

    /// As [`start`](Self::start), with additions to its endpoints and associations.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_with(hooks: Arc<dyn Hooks>) -> Result<Arc<Self>, Error> {
        let reactor = Reactor::start()?;
        let endpoints = Endpoints::with(hooks.clone());
        Ok(Arc::new(Self::new(reactor, endpoints, hooks, None, SCTP_UDP_PORT)))
    }

    fn new(
        reactor: Reactor,
        endpoints: Endpoints,
        hooks: Arc<dyn Hooks>,
        only: Option<Binding>,
        remote_udp_port: u16,
    ) -> Self {
        let (reactor, endpoints) = (Arc::new(reactor), Arc::new(endpoints));
        Self { reactor, endpoints, hooks, only, config: Mutex::default(), remote_udp_port }
    }

    /// Changes the initial options of new sockets.
    pub fn configure(&self, change: impl FnOnce(&mut AssociationConfig)) {
        change(&mut lock(&self.config));
    }

    /// Returns the endpoint with this binding, which sockets with the same binding share. Opens one if there is none.
    /// May wait up to a second for a UDP port that closes, so tasks must call it on a thread of its own.
    ///
    /// # Errors
    /// As [`own_endpoint`](Self::own_endpoint).
    pub fn endpoint(&self, binding: &Binding) -> Result<Arc<Lease>, Error> {
        let binding = self.only.as_ref().unwrap_or(binding);
        Endpoints::shared(&self.endpoints, &self.reactor, binding)
    }

    /// Opens an explicit endpoint. Only sockets opened on it use it.
    ///
    /// # Errors
    /// [`Error::AddressInUse`]: the UDP port is in use. [`Error::AddressNotAvailable`]: the host does not have an
    /// address. [`Error::System`]: the operating system refuses, for example raw sockets without privileges.
    pub fn own_endpoint(&self, binding: &Binding) -> Result<Arc<Lease>, Error> {
        Endpoints::own(&self.endpoints, &self.reactor, binding)
    }

    /// Opens an endpoint with sealed paths. Only sockets opened on it use it, and its addresses are virtual ones of IPv6.
    ///
    /// # Errors
    /// As [`Builder::bind`](anabranch::Builder::bind).
    #[cfg(feature = "seal")]
    pub fn sealed_endpoint(
        &self,
        seal: anabranch::seal::Seal,
    ) -> Result<Arc<Lease>, anabranch::BindError> {
        Endpoints::sealed(&self.endpoints, &self.reactor, seal)
    }

    /// Whether an endpoint is on this host.
    #[must_use]
    pub fn has(&self, lease: &Lease) -> bool {
        lease.is_on(&self.reactor)
    }

    /// Runs a task on the thread that runs the associations, within its tokio runtime. The task must not block.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.reactor.spawn(task);
    }

    /// Waits until an endpoint has no associations, at most for `limit`. Returns whether it has none.
    #[must_use]
    pub fn wait_idle(&self, lease: &Lease, limit: Option<Duration>) -> bool {
        let endpoint = lease.endpoint();
        self.reactor.within(limit, async move { endpoint.wait_idle().await })
    }

    /// Waits until all associations have ended, then closes the shared endpoints. Gives up if no association ends
    /// or delivers data for `limit`. Returns whether all have ended.
    pub fn finish(&self, limit: Option<Duration>) -> bool {
        let endpoints = self.endpoints.to_finish();
        let mut least = held(&endpoints);
        let idle = loop {
            let waiting = endpoints.clone();
            let idle = self.reactor.within(limit, async move {
                for endpoint in &waiting {
                    endpoint.wait_idle().await;
                }
            });
            // Any progress restarts the limit: slow links may take long.
            let now = held(&endpoints);
            if idle || (now.0 >= least.0 && now.1 >= least.1) {
                break idle;
            }
            least = (now.0.min(least.0), now.1.min(least.1));
        };
        if idle {
            let endpoints = self.endpoints.finish();
            // Returns when the last packets have been sent.
            self.reactor.within(None, async move {
                for endpoint in &endpoints {
                    endpoint.close().await;
                }
            });
        }
        idle
    }
}

/// The number of associations, and of bytes in their buffers.
fn held(endpoints: &[Endpoint]) -> (usize, usize) {
    let statistics = endpoints.iter().map(Endpoint::statistics);
    statistics.fold((0, 0), |all, one| (all.0 + one.associations, all.1 + one.memory_used))
}
