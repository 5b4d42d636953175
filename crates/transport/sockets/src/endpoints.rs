//! The endpoints of sockets. Sockets with the same binding share one. When the last of them is closed and
//! all data is delivered, the endpoint closes and frees its UDP ports.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use anabranch::{Encapsulation, Endpoint};

use crate::error::Error;
use crate::hooks::{Hooks, NoHooks};
use crate::lock::lock;
use crate::reactor::Reactor;

/// How long a call waits for closed sockets to release a UDP port. Their associations need one round
/// trip to end. If it takes longer, the peers are probably gone.
const PATIENCE: Duration = Duration::from_secs(1);

/// What an endpoint is bound to. Sockets with the same binding share an endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Binding {
    /// Local addresses, sorted; empty means all addresses of the host.
    pub addresses: Vec<Local>,
    /// UDP port; 0 picks a free one, `None` means IP protocol 132.
    pub udp_port: Option<u16>,
    /// The only interface to use (SO_BINDTODEVICE); `None` allows all.
    pub interface: Option<String>,
    /// The type of service or traffic class of all packets (IP_TOS, IPV6_TCLASS).
    pub traffic_class: u8,
}

/// A local address. A link-local one may have an interface.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Local {
    /// The IP address.
    pub ip: IpAddr,
    /// Name of the interface.
    pub link: Option<String>,
}

impl Binding {
    fn open(&self, reactor: &Reactor, hooks: &dyn Hooks) -> Result<Endpoint, Error> {
        let mut builder = Endpoint::builder()
            .config(hooks.config())
            .runtime(reactor.runtime())
            .traffic_class(self.traffic_class);
        for local in &self.addresses {
            builder = match (local.ip, &local.link) {
                (IpAddr::V6(ip), Some(link)) => builder.link_local_address(ip, link.clone()),
                (ip, _) => builder.local_addresses([ip]),
            };
        }
        if let Some(interface) = &self.interface {
            builder = builder.interface(interface.clone());
        }
        builder = match self.udp_port {
            Some(port) => builder.udp_port(port),
            None => builder.encapsulation(Encapsulation::Ip),
        };
        Ok(hooks.bind(builder)?)
    }
}

impl Local {
    /// The local address of a socket address, with the interface of its scope. Ignores the port.
    ///
    /// # Errors
    /// [`Error::AddressNotAvailable`]: no interface has the number of its scope.
    pub fn of(address: SocketAddr) -> Result<Self, Error> {
        Ok(Self { ip: address.ip(), link: link(address)? })
    }
}

/// A reference to an endpoint, which stays open until the last reference is dropped.
#[derive(Debug)]
pub struct Lease {
    reactor: Arc<Reactor>,
    endpoints: Arc<Endpoints>,
    number: u64,
    shared: bool,
    endpoint: Endpoint,
}

impl Lease {
    /// Whether sockets with the same binding share it.
    pub(crate) fn is_shared(&self) -> bool {
        self.shared
    }

    /// The endpoint itself. Holding it does not keep the endpoint open.
    #[must_use]
    pub fn endpoint(&self) -> Endpoint {
        self.endpoint.clone()
    }

    pub(crate) fn is_on(&self, reactor: &Arc<Reactor>) -> bool {
        Arc::ptr_eq(&self.reactor, reactor)
    }

    /// Its UDP port; 0 for IP protocol 132.
    #[must_use]
    pub fn udp_port(&self) -> u16 {
        self.endpoint.udp_port()
    }

    /// The number of associations that have not ended.
    #[must_use]
    pub fn associations(&self) -> usize {
        self.endpoint.statistics().associations
    }

    /// Drops a reference. If it was the last one, and all data is delivered, the endpoint's ports are free
    /// when this returns. Blocks on a task, so tasks must not call it.
    pub fn let_go(self: Arc<Self>) {
        let (reactor, endpoints, number) =
            (self.reactor.clone(), self.endpoints.clone(), self.number);
        drop(self);
        if endpoints.kept_open {
            return;
        }
        let idle = lock(&endpoints.list)
            .find(number)
            .is_some_and(|entry| entry.is_left() && entry.endpoint.statistics().associations == 0);
        if idle {
            reactor.within(None, async move { endpoints.release(number).await });
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if !self.endpoints.kept_open {
            let (endpoints, number) = (self.endpoints.clone(), self.number);
            // The task keeps the reactor alive until the endpoint has delivered everything.
            let reactor = self.reactor.clone();
            self.reactor.spawn(async move {
                endpoints.release(number).await;
                drop(reactor);
            });
        }
    }
}

/// All endpoints that are open.
#[derive(Debug)]
pub(crate) struct Endpoints {
    list: Mutex<List>,
    /// Endpoints stay open without sockets.
    kept_open: bool,
    hooks: Arc<dyn Hooks>,
}

#[derive(Debug, Default)]
struct List {
    entries: Vec<Entry>,
    /// The number of the latest entry.
    latest: u64,
}

#[derive(Debug)]
struct Entry {
    number: u64,
    /// `None` for an explicit endpoint, which sockets share only if they are opened on it.
    binding: Option<Binding>,
    endpoint: Endpoint,
    lease: Weak<Lease>,
    /// No new socket can use it.
    closing: bool,
}

impl Entry {
    fn is_left(&self) -> bool {
        self.lease.strong_count() == 0
    }

    /// Whether sockets with this binding share it. If it was opened on port 0, the port that it got matches, too.
    fn is_bound_to(&self, wanted: &Binding) -> bool {
        let Some(own) = &self.binding else { return false };
        let taken = Binding { udp_port: Some(self.endpoint.udp_port()), ..own.clone() };
        own == wanted || (own.udp_port == Some(0) && taken == *wanted)
    }
}

impl List {
    fn find(&mut self, number: u64) -> Option<&mut Entry> {
        self.entries.iter_mut().find(|entry| entry.number == number)
    }
}

impl Endpoints {
    /// Endpoints that stay open without sockets.
    pub(crate) fn kept_open() -> Self {
        Self { list: Mutex::default(), kept_open: true, hooks: Arc::new(NoHooks) }
    }

    /// Endpoints that close without sockets.
    pub(crate) fn with(hooks: Arc<dyn Hooks>) -> Self {
        Self { list: Mutex::default(), kept_open: false, hooks }
    }

    /// Returns the endpoint with this binding. Opens one if there is none.
    pub(crate) fn shared(
        this: &Arc<Self>,
        reactor: &Arc<Reactor>,
        binding: &Binding,
    ) -> Result<Arc<Lease>, Error> {
        this.open(reactor, binding, |list| {
            let usable = |entry: &&mut Entry| !entry.closing && entry.is_bound_to(binding);
            if let Some(entry) = list.entries.iter_mut().find(usable) {
                return Ok(this.lease(reactor, entry));
            }
            let endpoint = binding.open(reactor, &*this.hooks)?;
            Ok(this.add(reactor, list, Some(binding.clone()), endpoint))
        })
    }

    /// Opens an endpoint that other bindings do not share.
    pub(crate) fn own(
        this: &Arc<Self>,
        reactor: &Arc<Reactor>,
        binding: &Binding,
    ) -> Result<Arc<Lease>, Error> {
        this.open(reactor, binding, |list| {
            let endpoint = binding.open(reactor, &*this.hooks)?;
            Ok(this.add(reactor, list, None, endpoint))
        })
    }

    /// Opens an endpoint with sealed paths, which other bindings do not share.
    #[cfg(feature = "seal")]
    pub(crate) fn sealed(
        this: &Arc<Self>,
        reactor: &Arc<Reactor>,
        seal: anabranch::seal::Seal,
    ) -> Result<Arc<Lease>, anabranch::BindError> {
        let builder = Endpoint::builder().config(this.hooks.config()).runtime(reactor.runtime());
        let endpoint = this.hooks.bind(builder.seal(seal))?;
        Ok(this.add(reactor, &mut lock(&this.list), None, endpoint))
    }

    /// Adds an endpoint to the list.
    fn add(
        self: &Arc<Self>,
        reactor: &Arc<Reactor>,
        list: &mut List,
        binding: Option<Binding>,
        endpoint: Endpoint,
    ) -> Arc<Lease> {
        list.latest += 1;
        let (number, closing, lease) = (list.latest, false, Weak::new());
        let mut entry = Entry { number, binding, endpoint, lease, closing };
        let lease = self.lease(reactor, &mut entry);
        list.entries.push(entry);
        lease
    }

    /// The lease of an endpoint, or a new one if the last was dropped. An endpoint without a lease is still
    /// delivering data of closed sockets.
    fn lease(self: &Arc<Self>, reactor: &Arc<Reactor>, entry: &mut Entry) -> Arc<Lease> {
        if let Some(lease) = entry.lease.upgrade() {
            return lease;
        }
        let (reactor, endpoints, number) = (reactor.clone(), self.clone(), entry.number);
        let (shared, endpoint) = (entry.binding.is_some(), entry.endpoint.clone());
        let lease = Arc::new(Lease { reactor, endpoints, number, shared, endpoint });
        entry.lease = Arc::downgrade(&lease);
        lease
    }

    /// Opens an endpoint with `try_open`. If unused endpoints still hold its UDP port, waits for them to close
    /// and tries again.
    fn open(
        &self,
        reactor: &Reactor,
        binding: &Binding,
        try_open: impl Fn(&mut List) -> Result<Arc<Lease>, Error>,
    ) -> Result<Arc<Lease>, Error> {
        let leaving: Vec<Endpoint> = {
            // Endpoints that close meanwhile stay in the list until this lock is released.
            let mut list = lock(&self.list);
            match try_open(&mut list) {
                Err(Error::AddressInUse) => {}
                result => return result,
            }
            let is_meant = |entry: &&Entry| {
                entry.is_left() && Some(entry.endpoint.udp_port()) == binding.udp_port
            };
            list.entries.iter().filter(is_meant).map(|entry| entry.endpoint.clone()).collect()
        };
        if leaving.is_empty() {
            return Err(Error::AddressInUse);
        }
        reactor.within(Some(PATIENCE), async move {
            for endpoint in leaving {
                endpoint.closed().await;
            }
        });
        try_open(&mut lock(&self.list))
    }

    /// Closes an endpoint once all data is delivered, unless it is in use again by then.
    async fn release(&self, number: u64) {
        loop {
            let endpoint = match lock(&self.list).find(number) {
                Some(entry) => entry.endpoint.clone(),
                None => return,
            };
            endpoint.wait_idle().await;
            let closes = match lock(&self.list).find(number) {
                Some(entry) if entry.is_left() || entry.closing => {
                    entry.closing |= entry.endpoint.statistics().associations == 0;
                    entry.closing
                }
                _ => return,
            };
            if closes {
                // Returns when the last packets have been sent and the ports are free.
                endpoint.close().await;
                lock(&self.list).entries.retain(|entry| entry.number != number);
                return;
            }
        }
    }

    /// Shared endpoints, and those without a lease.
    pub(crate) fn to_finish(&self) -> Vec<Endpoint> {
        let list = lock(&self.list);
        let mine = list.entries.iter().filter(|entry| entry.binding.is_some() || entry.is_left());
        mine.map(|entry| entry.endpoint.clone()).collect()
    }

    /// Removes the endpoints of [`to_finish`](Self::to_finish), so no socket uses them again. Returns them.
    pub(crate) fn finish(&self) -> Vec<Endpoint> {
        let mut list = lock(&self.list);
        let mut finished = Vec::new();
        list.entries.retain(|entry| {
            let ends = entry.binding.is_some() || entry.is_left();
            finished.extend(ends.then(|| entry.endpoint.clone()));
            !ends
        });
        finished
    }
}

/// The name of the interface that the scope of a link-local address identifies, if there is a scope.
fn link(address: SocketAddr) -> Result<Option<String>, Error> {
    let scope = match address {
        SocketAddr::V6(v6) if v6.ip().is_unicast_link_local() => v6.scope_id(),
        _ => 0,
    };
    if scope == 0 {
        return Ok(None);
    }
    let name = nix::net::if_::if_indextoname(scope).map_err(|_| Error::AddressNotAvailable)?;
    Ok(Some(name.to_string_lossy().into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn binding() -> Binding {
        let addresses = vec![Local { ip: [127, 0, 0, 1].into(), link: None }];
        Binding { addresses, udp_port: Some(0), ..Binding::default() }
    }

    fn reactor() -> (Arc<Reactor>, Arc<Endpoints>) {
        (Arc::new(Reactor::start().unwrap()), Arc::new(Endpoints::with(Arc::new(NoHooks))))
    }

    #[test]
    fn an_endpoint_is_closed_with_its_last_use() {
        let (reactor, endpoints) = reactor();
        let shared = |binding: &Binding| Endpoints::shared(&endpoints, &reactor, binding).unwrap();
        let count = || lock(&endpoints.list).entries.len();
        let first = shared(&binding());
        let second = shared(&binding());
        assert_eq!(first.udp_port(), second.udp_port());
        let private = Endpoints::own(&endpoints, &reactor, &binding()).unwrap();
        assert_ne!(private.udp_port(), first.udp_port());
        let by_number = Binding { udp_port: Some(first.udp_port()), ..binding() };
        assert!(Arc::ptr_eq(&shared(&by_number), &first));
        assert_eq!(count(), 2);
        let port = first.udp_port();
        first.let_go();
        assert_eq!(count(), 2);
        second.let_go();
        assert_eq!(count(), 1);
        // The port is free, for another binding as well.
        let all = Binding { udp_port: Some(port), ..Binding::default() };
        let third = shared(&all);
        assert_eq!(third.udp_port(), port);
        private.let_go();
        third.let_go();
        assert_eq!(count(), 0);
    }

    #[test]
    fn a_use_that_a_task_drops_closes_the_endpoint_as_well() {
        let (reactor, endpoints) = reactor();
        let lease = Endpoints::shared(&endpoints, &reactor, &binding()).unwrap();
        let endpoint = lease.endpoint.clone();
        reactor.spawn(async move { drop(lease) });
        assert!(reactor.within(None, async move { endpoint.closed().await }));
    }
}
