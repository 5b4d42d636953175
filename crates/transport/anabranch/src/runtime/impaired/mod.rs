//! A runtime that impairs the packets of its sockets, as an impairment file specifies.

mod socket;
#[cfg(all(test, feature = "runtime-tokio"))]
mod tests;

use std::future::{Future, poll_fn};
use std::io;
use std::net::{IpAddr, UdpSocket};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError, Weak};
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
    sockets: Mutex<Vec<Weak<Mutex<Links>>>>,
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
        let sockets = self.sockets.lock().unwrap_or_else(PoisonError::into_inner);
        let mut reports = Vec::new();
        for links in sockets.iter().filter_map(Weak::upgrade) {
            let links = links.lock().unwrap_or_else(PoisonError::into_inner);
            reports.extend(links.reports());
        }
        reports
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
        let sockets = self.sockets.lock().unwrap_or_else(PoisonError::into_inner);
        sockets
            .iter()
            .filter_map(Weak::upgrade)
            .any(|links| links.lock().unwrap_or_else(PoisonError::into_inner).underway())
    }

    /// Wraps a socket with links.
    fn impair(
        &self,
        socket: Box<dyn PacketSocket>,
        encapsulation: Encapsulation,
    ) -> Box<dyn PacketSocket> {
        let links = Links::new(self.file.clone(), self.seed, encapsulation);
        let links = Arc::new(Mutex::new(links));
        let mut sockets = self.sockets.lock().unwrap_or_else(PoisonError::into_inner);
        sockets.retain(|links| links.strong_count() > 0);
        sockets.push(Arc::downgrade(&links));
        let runtime = self.inner.clone();
        Box::new(ImpairedSocket::new(socket, links, runtime, self.origin))
    }
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
