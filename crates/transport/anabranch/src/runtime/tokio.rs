//! The runtime on tokio.

use std::future::Future;
use std::io;
#[cfg(target_os = "linux")]
use std::net::SocketAddr;
use std::net::UdpSocket;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use anabranch_proto::{Encapsulation, Instant};

#[cfg(unix)]
use super::raw;
use super::{
    AddressWatch, Binding, LocalAddress, PacketSocket, Runtime, Timer, interfaces, neighbours, udp,
};

/// tokio's sockets, timers and tasks.
#[derive(Clone, Debug)]
pub struct TokioRuntime {
    handle: tokio::runtime::Handle,
    origin: tokio::time::Instant,
    turns: bool,
}

impl TokioRuntime {
    /// The runtime in whose context this is called; `None` outside of a runtime.
    pub fn current() -> Option<Self> {
        let handle = tokio::runtime::Handle::try_current().ok()?;
        let turns = handle.runtime_flavor() == tokio::runtime::RuntimeFlavor::CurrentThread;
        Some(Self { handle, origin: tokio::time::Instant::now(), turns })
    }

    /// The same runtime for programs whose tasks run elsewhere than those of endpoints, for instance in the event loop of
    /// another language. By default, if all tasks run on one thread, the task that a datagram wakes runs before the socket
    /// is asked for a second one; here that would only be a call more.
    pub fn without_turns(self) -> Self {
        Self { turns: false, ..self }
    }
}

impl Runtime for TokioRuntime {
    fn now(&self) -> Instant {
        Instant::ZERO + self.origin.elapsed()
    }

    fn wall_clock(&self) -> SystemTime {
        SystemTime::now()
    }

    fn timer(self: Arc<Self>) -> Box<dyn Timer> {
        let _context = self.handle.enter();
        // The deadline does not matter: the timer is set before it is polled.
        let sleep = Box::pin(tokio::time::sleep(Duration::ZERO));
        Box::new(Sleep { sleep, origin: self.origin })
    }

    fn takes_turns(&self) -> bool {
        self.turns
    }

    fn make_way(&self, cx: &mut Context<'_>) {
        // tokio wakes tasks that yield only after it has run other tasks and polled for arrivals.
        let _ = std::pin::pin!(tokio::task::yield_now()).poll(cx);
    }

    fn spawn(&self, task: Pin<Box<dyn Future<Output = ()> + Send>>) {
        self.handle.spawn(task);
    }

    fn bind(&self, binding: &Binding) -> io::Result<Box<dyn PacketSocket>> {
        let _context = self.handle.enter();
        match binding.encapsulation {
            Encapsulation::Udp => Ok(Box::new(udp::bind(binding, self.turns)?)),
            #[cfg(unix)]
            Encapsulation::Ip => Ok(Box::new(raw::bind(binding)?)),
            #[cfg(not(unix))]
            Encapsulation::Ip => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    #[cfg(target_os = "linux")]
    fn strays(&self, local: &LocalAddress, remote: SocketAddr) -> bool {
        super::routes::stray(local, remote).unwrap_or_else(|error| {
            tracing::debug!(%error, local = %local.ip, %remote, "the routes are not known");
            false
        })
    }

    fn kernel_has_sctp(&self) -> bool {
        neighbours::kernel_has_sctp()
    }

    fn adopt(
        &self,
        encapsulation: Encapsulation,
        socket: UdpSocket,
    ) -> io::Result<Box<dyn PacketSocket>> {
        let _context = self.handle.enter();
        match encapsulation {
            Encapsulation::Udp => Ok(Box::new(udp::adopt(socket.into(), self.turns)?)),
            #[cfg(unix)]
            Encapsulation::Ip => Ok(Box::new(raw::adopt(socket.into())?)),
            #[cfg(not(unix))]
            Encapsulation::Ip => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    fn local_addresses(&self) -> io::Result<Vec<LocalAddress>> {
        interfaces::addresses()
    }

    fn watch_addresses(&self) -> Option<Box<dyn AddressWatch>> {
        let _context = self.handle.enter();
        interfaces::watch()
    }
}

#[derive(Debug)]
struct Sleep {
    sleep: Pin<Box<tokio::time::Sleep>>,
    origin: tokio::time::Instant,
}

impl Timer for Sleep {
    fn reset(&mut self, deadline: Instant) {
        let after = deadline.saturating_since(Instant::ZERO);
        // A deadline beyond the range of the clock never expires.
        let at = self.origin.checked_add(after).unwrap_or_else(|| {
            tokio::time::Instant::now() + Duration::from_secs(365 * 24 * 60 * 60)
        });
        self.sleep.as_mut().reset(at);
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.sleep.as_mut().poll(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    #[tokio::test]
    async fn the_clock_and_its_timer_agree() {
        let runtime = Arc::new(TokioRuntime::current().unwrap());
        let mut timer = runtime.clone().timer();
        let deadline = runtime.now() + Duration::from_millis(5);
        timer.reset(deadline + Duration::from_secs(1000));
        timer.reset(deadline);
        poll_fn(|cx| timer.poll(cx)).await;
        assert!(runtime.now() >= deadline);
        timer.reset(Instant::FAR_FUTURE);
        assert!(poll_fn(|cx| Poll::Ready(timer.poll(cx))).await.is_pending());
    }
}
