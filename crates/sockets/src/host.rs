//! What sockets stand on: a runtime, and the endpoints that they share.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use anabranch::runtime::Runtime;
use anabranch::{AssociationConfig, Endpoint, SCTP_UDP_PORT};

use crate::endpoints::{Binding, Endpoints, Lease};
use crate::error::Error;
use crate::lock::lock;
use crate::reactor::Reactor;

/// What sockets stand on: a runtime that runs their associations, and the endpoints that they share. Sockets
/// keep it alive. When it goes, nothing more is delivered: see [`finish`](Self::finish).
#[derive(Debug)]
pub struct Host {
    pub(crate) reactor: Arc<Reactor>,
    endpoints: Arc<Endpoints>,
    /// In place of what sockets want.
    pub(crate) only: Option<Binding>,
    /// What new sockets begin with.
    pub(crate) config: Mutex<AssociationConfig>,
    /// UDP port of peers, unless a socket has another.
    pub(crate) remote_udp_port: u16,
}

impl Host {
    /// A host on another runtime, which `settle` runs until no task can go on, and whose only endpoint is
    /// bound to `only`.
    pub fn on(
        runtime: Arc<dyn Runtime>,
        settle: Box<dyn Fn() + Send + Sync>,
        only: Binding,
    ) -> Self {
        // Somebody else decides which endpoints there are.
        let endpoints = Endpoints::kept_open();
        Self::new(Reactor::on(runtime, settle), endpoints, Some(only), 0)
    }

    /// A host on the sockets of the operating system, with a thread that runs it.
    ///
    /// # Errors
    /// [`Error::System`]: the thread or its descriptors cannot be created.
    pub fn start() -> Result<Arc<Self>, Error> {
        let reactor = Reactor::start()?;
        Ok(Arc::new(Self::new(reactor, Endpoints::default(), None, SCTP_UDP_PORT)))
    }

    fn new(
        reactor: Reactor,
        endpoints: Endpoints,
        only: Option<Binding>,
        remote_udp_port: u16,
    ) -> Self {
        let (reactor, endpoints) = (Arc::new(reactor), Arc::new(endpoints));
        Self { reactor, endpoints, only, config: Mutex::default(), remote_udp_port }
    }

    /// Changes the options that new sockets begin with.
    pub fn configure(&self, change: impl FnOnce(&mut AssociationConfig)) {
        change(&mut lock(&self.config));
    }

    /// The endpoint with this binding, which is opened if there is none.
    pub(crate) fn endpoint(&self, binding: &Binding) -> Result<Arc<Lease>, Error> {
        let binding = self.only.as_ref().unwrap_or(binding);
        Endpoints::shared(&self.endpoints, &self.reactor, binding)
    }

    /// Opens an endpoint that no socket shares unless it is opened on it.
    ///
    /// # Errors
    /// [`Error::AddressInUse`]: the UDP port is taken. [`Error::AddressNotAvailable`]: the host does not have an
    /// address. [`Error::System`]: the operating system refuses it, as it does raw sockets without privileges.
    pub fn own_endpoint(&self, binding: &Binding) -> Result<Arc<Lease>, Error> {
        Endpoints::own(&self.endpoints, &self.reactor, binding)
    }

    /// Whether an endpoint is on this host.
    #[must_use]
    pub fn has(&self, lease: &Lease) -> bool {
        lease.is_on(&self.reactor)
    }

    /// Waits until an endpoint has no associations, at most for `limit`. Returns whether it has none.
    #[must_use]
    pub fn wait_idle(&self, lease: &Lease, limit: Option<Duration>) -> bool {
        let endpoint = lease.endpoint();
        self.reactor.within(limit, async move { endpoint.wait_idle().await })
    }

    /// Waits until all associations have ended, and closes the endpoints that sockets share. Gives up when within
    /// `limit` none has ended or delivered anything. Returns whether all have ended.
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
            // A slow link takes as long as it needs.
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

/// Associations, and bytes that their buffers hold.
fn held(endpoints: &[Endpoint]) -> (usize, usize) {
    let statistics = endpoints.iter().map(Endpoint::statistics);
    statistics.fold((0, 0), |all, one| (all.0 + one.associations, all.1 + one.memory_used))
}
