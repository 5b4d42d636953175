//! A runtime that impairs the packets of its sockets, as an impairment file specifies.

mod socket;
#[cfg(all(test, feature = "runtime-tokio"))]
mod tests;

use std::collections::BTreeSet;
use std::future::{Future, poll_fn};
use std::io;
use std::net::{IpAddr, UdpSocket};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::Context;
use std::time::{Duration, SystemTime};

use anabranch_impair::LinkStats;
use anabranch_impair::file::{Direction, ImpairmentFile};
use anabranch_proto::{Encapsulation, Instant};

use self::socket::{ImpairedSocket, Links};
use super::{AddressWatch, Binding, LocalAddress, PacketSocket, Runtime, Timer};

/// Wraps a runtime. Packets pass through the links that an [`ImpairmentFile`] describes, which delay,
/// reorder or drop them. Works with both encapsulations; a packet's size includes its IP header.
///
/// The times of outages count from the creation of this runtime. Delays are as precise as the inner
/// runtime's timers; with tokio, packets arrive up to a millisecond late.
#[derive(Debug)]
pub struct ImpairedRuntime {
    inner: Arc<dyn Runtime>,
    file: Arc<ImpairmentFile>,
    /// The seed of all links, if the file has none.
    seed: u64,
    origin: Instant,
    sockets: Mutex<Sockets>,
}

/// The links of each open socket.
#[derive(Debug, Default)]
struct Sockets {
    links: Vec<Weak<Mutex<Links>>>,
    /// Names of entries whose links are down.
    down: BTreeSet<String>,
}

impl Sockets {
    fn open(&self) -> impl Iterator<Item = Arc<Mutex<Links>>> {
        self.links.iter().filter_map(Weak::upgrade)
    }
}

/// Interval between checks whether all links are empty.
const LOOK: Duration = Duration::from_millis(5);

/// Statistics of one link: one direction of one path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkReport {
    /// Name of the entry in the file.
    pub name: Option<String>,
    /// Local address.
    pub local: IpAddr,
    /// Remote address.
    pub remote: IpAddr,
    /// Direction, as seen by this side.
    pub direction: Direction,
    /// Its counters.
    pub statistics: LinkStats,
}

impl ImpairedRuntime {
    /// Impairs the packets of `inner`. `seed` is used for the links if the file has no seed.
    pub fn new(inner: Arc<dyn Runtime>, file: ImpairmentFile, seed: u64) -> Self {
        let origin = inner.now();
        Self { inner, file: Arc::new(file), seed, origin, sockets: Mutex::default() }
    }

    /// Statistics of the links of all open sockets so far.
    pub fn links(&self) -> Vec<LinkReport> {
        let mut reports = Vec::new();
        for links in self.sockets().open() {
            reports.extend(lock(&links).reports());
        }
        reports
    }

    /// Takes the links of all entries with this name down, silently, or up again. Packets in a link that goes down are
    /// lost. Cuts that the file schedules apply in addition. Returns false if no entry has this name.
    pub fn set_up(&self, name: &str, up: bool) -> bool {
        let mut sockets = self.sockets();
        match up {
            true => sockets.down.remove(name),
            false => sockets.down.insert(name.to_owned()),
        };
        let elapsed = self.inner.now().saturating_since(self.origin);
        let now = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
        sockets.open().for_each(|links| lock(&links).set_up(now, name, up));
        self.file.paths.iter().any(|entry| entry.name.as_deref() == Some(name))
    }

    fn sockets(&self) -> MutexGuard<'_, Sockets> {
        lock(&self.sockets)
    }

    /// Waits until all links are empty, at most for `limit`. A process that exits earlier loses the packets
    /// that are still in its links, such as the last packet of a shutdown.
    pub async fn drained(&self, limit: Duration) {
        let end = self.inner.now() + limit;
        let mut timer = self.inner.clone().timer();
        while self.is_underway() && self.inner.now() < end {
            timer.reset((self.inner.now() + LOOK).min(end));
            poll_fn(|cx| timer.poll(cx)).await;
        }
    }

    fn is_underway(&self) -> bool {
        self.sockets().open().any(|links| lock(&links).underway())
    }

    /// Wraps a socket with links.
    fn impair(
        &self,
        socket: Box<dyn PacketSocket>,
        encapsulation: Encapsulation,
    ) -> Box<dyn PacketSocket> {
        let mut sockets = self.sockets();
        let down = sockets.down.clone();
        let links = Links::new(self.file.clone(), self.seed, encapsulation, down);
        let links = Arc::new(Mutex::new(links));
        sockets.links.retain(|links| links.strong_count() > 0);
        sockets.links.push(Arc::downgrade(&links));
        let runtime = self.inner.clone();
        Box::new(ImpairedSocket::new(socket, links, runtime, self.origin))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Runtime for ImpairedRuntime {
    fn now(&self) -> Instant {
        self.inner.now()
    }

    fn wall_clock(&self) -> SystemTime {
        self.inner.wall_clock()
    }

    fn timer(self: Arc<Self>) -> Box<dyn Timer> {
        self.inner.clone().timer()
    }

    fn takes_turns(&self) -> bool {
        self.inner.takes_turns()
    }

    fn make_way(&self, cx: &mut Context<'_>) {
        self.inner.make_way(cx);
    }

    fn spawn(&self, task: Pin<Box<dyn Future<Output = ()> + Send>>) {
        self.inner.spawn(task);
    }

    fn bind(&self, binding: &Binding) -> io::Result<Box<dyn PacketSocket>> {
        Ok(self.impair(self.inner.bind(binding)?, binding.encapsulation))
    }

    fn adopt(
        &self,
        encapsulation: Encapsulation,
        socket: UdpSocket,
    ) -> io::Result<Box<dyn PacketSocket>> {
        Ok(self.impair(self.inner.adopt(encapsulation, socket)?, encapsulation))
    }

    fn local_addresses(&self) -> io::Result<Vec<LocalAddress>> {
        self.inner.local_addresses()
    }

    fn watch_addresses(&self) -> Option<Box<dyn AddressWatch>> {
        self.inner.watch_addresses()
    }

    fn kernel_has_sctp(&self) -> bool {
        self.inner.kernel_has_sctp()
    }
}
