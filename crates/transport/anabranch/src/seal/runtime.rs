//! A runtime that shows an endpoint its sealed paths as addresses.

use std::future::Future;
use std::io;
use std::net::UdpSocket;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::SystemTime;

use super::core::Core;
use super::socket::SealedSocket;
use super::{OnAdmitted, Seal, SetupError};
use crate::runtime::{
    AddressWatch, Binding, Encapsulation, Instant, LocalAddress, PacketSocket, Runtime, Timer,
};

/// Wraps a runtime. Its only socket has the virtual addresses, and its addresses are those of the uplinks.
#[derive(Debug)]
pub(crate) struct SealedRuntime {
    inner: Arc<dyn Runtime>,
    core: Arc<Mutex<Core>>,
    on_admitted: Option<OnAdmitted>,
}

impl SealedRuntime {
    /// Opens the real sockets of each shard. The seeds have 256 random bits, and are never used again.
    pub(crate) fn open(
        inner: &Arc<dyn Runtime>,
        seal: &Seal,
        seeds: &[[u8; 32]],
        traffic_class: u8,
    ) -> Result<Vec<Self>, SetupError> {
        let cores = Core::open_shards(inner, seal, seeds, traffic_class)?;
        let cores: Arc<[_]> = cores.into_iter().map(|core| Arc::new(Mutex::new(core))).collect();
        if !seal.handle.attach(&cores) {
            return Err(SetupError::Used);
        }
        let sealed = |core: &Arc<Mutex<Core>>| Self {
            inner: inner.clone(),
            core: core.clone(),
            on_admitted: seal.on_admitted.clone(),
        };
        Ok(cores.iter().map(sealed).collect())
    }
}

fn lock(core: &Mutex<Core>) -> MutexGuard<'_, Core> {
    core.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Runtime for SealedRuntime {
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
        // All virtual addresses are IPv6.
        if binding.address.is_ipv4() || binding.encapsulation != Encapsulation::Udp {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let (core, runtime) = (self.core.clone(), self.inner.clone());
        Ok(Box::new(SealedSocket::new(core, runtime, self.on_admitted.clone())))
    }

    fn adopt(&self, _: Encapsulation, _: UdpSocket) -> io::Result<Box<dyn PacketSocket>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn local_addresses(&self) -> io::Result<Vec<LocalAddress>> {
        Ok(lock(&self.core).local_addresses())
    }

    fn watch_addresses(&self) -> Option<Box<dyn AddressWatch>> {
        if lock(&self.core).listens {
            return None;
        }
        let (core, runtime) = (self.core.clone(), self.inner.clone());
        Some(Box::new(UplinkWatch { inner: runtime.watch_addresses(), core, runtime }))
    }
}

/// Follows the uplinks of a client.
#[derive(Debug)]
struct UplinkWatch {
    inner: Option<Box<dyn AddressWatch>>,
    core: Arc<Mutex<Core>>,
    runtime: Arc<dyn Runtime>,
}

impl AddressWatch for UplinkWatch {
    fn poll_changed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let told = self.inner.as_mut().is_some_and(|watch| watch.poll_changed(cx).is_ready());
        let mut core = lock(&self.core);
        if std::mem::take(&mut core.recheck) || told {
            // If this fails, the sockets stay as they are until the next change.
            if let Err(error) = core.follow_uplinks(&*self.runtime) {
                tracing::debug!(%error, "cannot tell which uplinks there are");
            }
        }
        core.watcher = Some(cx.waker().clone());
        if std::mem::take(&mut core.changed) { Poll::Ready(()) } else { Poll::Pending }
    }
}
