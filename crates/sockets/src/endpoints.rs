//! The endpoints that sockets stand on: shared by sockets with the same binding, and closed with the
//! last socket as soon as nothing is left to deliver, so that their UDP ports are free again.

use std::net::{IpAddr, SocketAddr};
use std::ops::Deref;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use anabranch::Endpoint;

use crate::error::Error;
use crate::host::{Host, lock};

/// How long a call that wants a UDP port waits for closed sockets to release it. Their associations
/// need a round trip to end, or their peers are gone; the latter are not worth more time.
const PATIENCE: Duration = Duration::from_secs(1);

/// What an endpoint is bound to. Sockets with the same binding share an endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Binding {
    /// Local addresses, sorted; none means all of the host.
    pub addresses: Vec<Local>,
    /// UDP port; 0 means a free one, `None` IP protocol 132.
    pub udp_port: Option<u16>,
    /// The only interface to be used, if there is one (SO_BINDTODEVICE).
    pub interface: Option<String>,
    /// The type of service or traffic class of all packets (IP_TOS, IPV6_TCLASS).
    pub traffic_class: u8,
}

/// A local address; for a link-local one also its interface, if that was named.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Local {
    /// The IP address.
    pub ip: IpAddr,
    /// Name of the interface.
    pub link: Option<String>,
}

impl Local {
    /// The local address of a socket address, whose port has no meaning, with the interface of its scope.
    ///
    /// # Errors
    /// [`Error::AddressNotAvailable`]: no interface has the number of its scope.
    pub fn of(address: SocketAddr) -> Result<Self, Error> {
        Ok(Self { ip: address.ip(), link: link(address)? })
    }
}

/// A use of an endpoint, which stays open until the last one is dropped.
#[derive(Debug)]
pub struct Lease {
    host: Arc<Host>,
    number: u64,
    shared: bool,
    endpoint: Endpoint,
}

impl Lease {
    /// Whether sockets with the same binding use it, too.
    pub(crate) fn is_shared(&self) -> bool {
        self.shared
    }

    /// The endpoint itself, which may be closed while this is held.
    pub fn endpoint(&self) -> Endpoint {
        self.endpoint.clone()
    }

    /// The host that it is on.
    pub fn host(&self) -> &Arc<Host> {
        &self.host
    }
}

impl Deref for Lease {
    type Target = Endpoint;

    fn deref(&self) -> &Endpoint {
        &self.endpoint
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if !self.host.keeps_endpoints() {
            let (host, number) = (self.host.clone(), self.number);
            self.host.spawn(async move { host.endpoints().release(number).await });
        }
    }
}

/// All endpoints that are open.
#[derive(Debug, Default)]
pub struct Endpoints(Mutex<List>);

#[derive(Debug, Default)]
struct List {
    entries: Vec<Entry>,
    /// The number of the latest entry.
    latest: u64,
}

#[derive(Debug)]
struct Entry {
    number: u64,
    /// `None`: its owner chose what it is bound to, and shares it with nobody.
    binding: Option<Binding>,
    endpoint: Endpoint,
    lease: Weak<Lease>,
    /// Nobody can use it any more.
    closing: bool,
}

impl Entry {
    fn is_left(&self) -> bool {
        self.lease.strong_count() == 0
    }

    /// A new lease, after the last one was dropped.
    fn lease_again(&mut self, host: &Arc<Host>) -> Arc<Lease> {
        let (host, number, endpoint) = (host.clone(), self.number, self.endpoint.clone());
        let lease = Arc::new(Lease { host, number, shared: self.binding.is_some(), endpoint });
        self.lease = Arc::downgrade(&lease);
        lease
    }

    /// Whether sockets with this binding share it. A free port that it has taken has a number now.
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

    fn add(
        &mut self,
        host: &Arc<Host>,
        binding: Option<Binding>,
        endpoint: Endpoint,
    ) -> Arc<Lease> {
        self.latest += 1;
        let number = self.latest;
        let (host, shared) = (host.clone(), binding.is_some());
        let lease = Arc::new(Lease { host, number, shared, endpoint: endpoint.clone() });
        let (closing, weak) = (false, Arc::downgrade(&lease));
        self.entries.push(Entry { number, binding, endpoint, lease: weak, closing });
        lease
    }
}

impl Endpoints {
    /// The endpoint with this binding, which is opened if there is none.
    pub(crate) fn shared(host: &Arc<Host>, binding: &Binding) -> Result<Arc<Lease>, Error> {
        Self::open(host, binding, |list| {
            let usable = |entry: &&mut Entry| !entry.closing && entry.is_bound_to(binding);
            if let Some(entry) = list.entries.iter_mut().find(usable) {
                // Without a lease, what closed sockets sent is still being delivered.
                return Ok(entry.lease.upgrade().unwrap_or_else(|| entry.lease_again(host)));
            }
            let endpoint = host.bind(binding)?;
            Ok(list.add(host, Some(binding.clone()), endpoint))
        })
    }

    /// Opens an endpoint that is shared with nobody.
    pub fn own(host: &Arc<Host>, binding: &Binding) -> Result<Arc<Lease>, Error> {
        Self::open(host, binding, |list| {
            let endpoint = host.bind(binding)?;
            Ok(list.add(host, None, endpoint))
        })
    }

    /// Opens an endpoint with `try_open`. If others have its UDP port, and nobody uses them any more, it
    /// waits for them and tries again.
    fn open(
        host: &Arc<Host>,
        binding: &Binding,
        try_open: impl Fn(&mut List) -> Result<Arc<Lease>, Error>,
    ) -> Result<Arc<Lease>, Error> {
        let leaving: Vec<Endpoint> = {
            // What closes meanwhile stays in the list until this is done with it.
            let mut list = lock(&host.endpoints().0);
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
        host.within(Some(PATIENCE), async move {
            for endpoint in leaving {
                endpoint.closed().await;
            }
        });
        try_open(&mut lock(&host.endpoints().0))
    }

    /// Closes an endpoint once it has nothing left to deliver, unless it is in use again by then.
    async fn release(&self, number: u64) {
        loop {
            let endpoint = match lock(&self.0).find(number) {
                Some(entry) => entry.endpoint.clone(),
                None => return,
            };
            endpoint.wait_idle().await;
            let closes = match lock(&self.0).find(number) {
                Some(entry) if entry.is_left() || entry.closing => {
                    entry.closing |= entry.endpoint.statistics().associations == 0;
                    entry.closing
                }
                _ => return,
            };
            if closes {
                // Returns when the last packets have been sent and the ports are free.
                endpoint.close().await;
                lock(&self.0).entries.retain(|entry| entry.number != number);
                return;
            }
        }
    }

    /// Ends a use. If it was the last one, and nothing is left to deliver, the endpoint's ports are free
    /// when this returns.
    ///
    /// Not to be called by a task: it waits for one.
    pub fn let_go(lease: Arc<Lease>) {
        let (host, number) = (lease.host.clone(), lease.number);
        drop(lease);
        if host.keeps_endpoints() {
            return;
        }
        let idle = lock(&host.endpoints().0)
            .find(number)
            .is_some_and(|entry| entry.is_left() && entry.endpoint.statistics().associations == 0);
        if idle {
            let own = host.clone();
            host.within(None, async move { own.endpoints().release(number).await });
        }
    }

    /// Those that sockets share, and those that nobody uses any more.
    pub(crate) fn to_finish(&self) -> Vec<Endpoint> {
        let list = lock(&self.0);
        let mine = list.entries.iter().filter(|entry| entry.binding.is_some() || entry.is_left());
        mine.map(|entry| entry.endpoint.clone()).collect()
    }

    /// Nobody can use those that [`to_finish`](Self::to_finish) gives any more. Returns them.
    pub(crate) fn finish(&self) -> Vec<Endpoint> {
        let mut list = lock(&self.0);
        let mut finished = Vec::new();
        list.entries.retain(|entry| {
            let ends = entry.binding.is_some() || entry.is_left();
            finished.extend(ends.then(|| entry.endpoint.clone()));
            !ends
        });
        finished
    }
}

/// The name of the interface that the scope of a link-local address identifies, if it has one.
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

    fn count(host: &Host) -> usize {
        lock(&host.endpoints().0).entries.len()
    }

    #[test]
    fn an_endpoint_is_closed_with_its_last_use() {
        let host = Host::start().unwrap();
        let first = Endpoints::shared(&host, &binding()).unwrap();
        let second = Endpoints::shared(&host, &binding()).unwrap();
        assert_eq!(first.udp_port(), second.udp_port());
        let private = Endpoints::own(&host, &binding()).unwrap();
        assert_ne!(private.udp_port(), first.udp_port());
        let by_number = Binding { udp_port: Some(first.udp_port()), ..binding() };
        assert!(Arc::ptr_eq(&Endpoints::shared(&host, &by_number).unwrap(), &first));
        assert_eq!(count(&host), 2);
        let port = first.udp_port();
        Endpoints::let_go(first);
        assert_eq!(count(&host), 2);
        Endpoints::let_go(second);
        assert_eq!(count(&host), 1);
        // The port is free, for another binding as well.
        let all = Binding { udp_port: Some(port), ..Binding::default() };
        let third = Endpoints::shared(&host, &all).unwrap();
        assert_eq!(third.udp_port(), port);
        Endpoints::let_go(private);
        Endpoints::let_go(third);
        assert_eq!(count(&host), 0);
    }

    #[test]
    fn a_use_that_a_task_drops_closes_the_endpoint_as_well() {
        let host = Host::start().unwrap();
        let lease = Endpoints::shared(&host, &binding()).unwrap();
        let endpoint = lease.endpoint.clone();
        host.spawn(async move { drop(lease) });
        assert!(host.within(None, async move { endpoint.closed().await }));
    }
}
