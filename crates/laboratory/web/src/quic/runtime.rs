//! The runtime below quinn: a virtual socket, timers and tasks in virtual time.

use std::future::Future;
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use anabranch::runtime::{Instant, Timer};
use bytes::Bytes;
use quinn::udp::{RecvMeta, Transmit};
use quinn::{AsyncTimer, AsyncUdpSocket, Runtime, UdpPoller};

use crate::executor::World;
use crate::network::Host;
use crate::timers::VirtualTimer;

/// Points in time in quinn's type; only differences matter.
#[expect(
    clippy::disallowed_types,
    reason = "quinn accepts no other type; virtual time is added to one"
)]
type SystemInstant = std::time::Instant;

/// The port of both hosts.
pub(super) const PORT: u16 = 443;

/// Virtual time as quinn sees it.
#[derive(Clone, Debug)]
pub(super) struct VirtualQuic {
    world: World,
    origin: SystemInstant,
}

impl VirtualQuic {
    pub(super) fn new(world: World) -> Self {
        Self { world, origin: SystemInstant::now() }
    }

    fn virtual_instant(&self, at: SystemInstant) -> Instant {
        let since = at.saturating_duration_since(self.origin).as_nanos();
        Instant::from_nanos(u64::try_from(since).unwrap_or(u64::MAX))
    }
}

impl Runtime for VirtualQuic {
    fn new_timer(&self, at: SystemInstant) -> Pin<Box<dyn AsyncTimer>> {
        let mut timer = VirtualTimer::new(self.world.clone());
        timer.reset(self.virtual_instant(at));
        Box::pin(QuicTimer { runtime: self.clone(), timer })
    }

    fn spawn(&self, task: Pin<Box<dyn Future<Output = ()> + Send>>) {
        self.world.spawn(task);
    }

    fn wrap_udp_socket(&self, _: std::net::UdpSocket) -> io::Result<Arc<dyn AsyncUdpSocket>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn now(&self) -> SystemInstant {
        self.origin + self.world.now()
    }
}

/// A timer of quinn.
#[derive(Debug)]
struct QuicTimer {
    runtime: VirtualQuic,
    timer: VirtualTimer,
}

impl AsyncTimer for QuicTimer {
    fn reset(mut self: Pin<&mut Self>, at: SystemInstant) {
        let at = self.runtime.virtual_instant(at);
        self.timer.reset(at);
    }

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.timer.poll(cx)
    }
}

/// The UDP socket of a host.
#[derive(Debug)]
pub(super) struct VirtualSocket {
    world: World,
    host: Host,
}

impl VirtualSocket {
    /// Opens it.
    ///
    /// # Errors
    /// The host already has an open one.
    pub(super) fn open(world: World, host: Host) -> io::Result<Self> {
        if !world.state().network.udp.open(host) {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        Ok(Self { world, host })
    }
}

/// The address of a host's socket.
pub(super) fn address(host: Host) -> SocketAddr {
    SocketAddr::new(host.address(), PORT)
}

impl AsyncUdpSocket for VirtualSocket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Box::pin(AlwaysWritable)
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        let mut state = self.world.state();
        let now = state.now;
        if transmit.destination == address(self.host.other()) {
            let size = transmit.segment_size.unwrap_or(transmit.contents.len()).max(1);
            for datagram in transmit.contents.chunks(size) {
                state.network.send_udp(now, self.host, Bytes::copy_from_slice(datagram));
            }
        }
        Ok(())
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
        metas: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        let mut places = buffers.iter_mut().zip(metas);
        let most = places.len();
        let mut state = self.world.state();
        let received = state.network.udp.poll_receive(cx, self.host, most, |datagram| {
            let Some((buffer, meta)) = places.next() else { return };
            let len = datagram.len().min(buffer.len());
            buffer[..len].copy_from_slice(&datagram[..len]);
            *meta = RecvMeta {
                addr: address(self.host.other()),
                len,
                stride: len,
                ecn: None,
                dst_ip: Some(self.host.address()),
            };
        });
        received.map(Ok)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(address(self.host))
    }

    fn may_fragment(&self) -> bool {
        false
    }
}

impl Drop for VirtualSocket {
    fn drop(&mut self) {
        let closed = self.world.state().network.udp.close(self.host);
        drop(closed);
    }
}

/// A socket whose link accepts everything.
#[derive(Debug)]
struct AlwaysWritable;

impl UdpPoller for AlwaysWritable {
    fn poll_writable(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Virtual time as certificates and tokens see it: it begins with the epoch.
#[derive(Clone, Debug)]
pub(super) struct WallClock(pub(super) World);

impl quinn::TimeSource for WallClock {
    #[expect(clippy::disallowed_types, reason = "the epoch: no clock is read")]
    fn now(&self) -> std::time::SystemTime {
        std::time::SystemTime::UNIX_EPOCH + self.0.now()
    }
}

impl quinn::rustls::time_provider::TimeProvider for WallClock {
    fn current_time(&self) -> Option<quinn::rustls::pki_types::UnixTime> {
        let now = Duration::from_secs(self.0.now().as_secs());
        Some(quinn::rustls::pki_types::UnixTime::since_unix_epoch(now))
    }
}
