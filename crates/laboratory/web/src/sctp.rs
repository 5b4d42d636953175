//! The runtime below the library: virtual sockets, timers and tasks in virtual time.

use std::future::Future;
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use anabranch::runtime::{
    Batch, Binding, Datagrams, Encapsulation, Instant, LocalAddress, PacketSocket, Runtime, Timer,
    TransmitError,
};
use bytes::Bytes;

use crate::executor::World;
use crate::network::Host;
use crate::timers::VirtualTimer;

/// One of the two hosts, as the library sees it.
#[derive(Debug)]
pub(crate) struct VirtualRuntime {
    world: World,
    host: Host,
}

impl VirtualRuntime {
    pub(crate) fn new(world: World, host: Host) -> Self {
        Self { world, host }
    }
}

impl Runtime for VirtualRuntime {
    fn now(&self) -> Instant {
        self.world.instant()
    }

    #[expect(
        clippy::disallowed_types,
        reason = "virtual time counts from the epoch: no clock is read"
    )]
    fn wall_clock(&self) -> std::time::SystemTime {
        std::time::SystemTime::UNIX_EPOCH + Duration::from_nanos(self.now().as_nanos())
    }

    fn timer(self: Arc<Self>) -> Box<dyn Timer> {
        Box::new(VirtualTimer::new(self.world.clone()))
    }

    fn takes_turns(&self) -> bool {
        true
    }

    fn spawn(&self, task: Pin<Box<dyn Future<Output = ()> + Send>>) {
        self.world.spawn(task);
    }

    fn bind(&self, binding: &Binding) -> io::Result<Box<dyn PacketSocket>> {
        let mut state = self.world.state();
        let mut paths = state.network.paths();
        let on_path = |path: &u8| self.host.address_on(*path) == binding.address.ip();
        let path = paths.find(on_path).filter(|_| binding.encapsulation == Encapsulation::Ip);
        let path = path.ok_or(io::ErrorKind::AddrNotAvailable)?;
        if !state.network.sctp[usize::from(path)].open(self.host) {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        Ok(Box::new(VirtualSocket { world: self.world.clone(), host: self.host, path }))
    }

    fn local_addresses(&self) -> io::Result<Vec<LocalAddress>> {
        let address = |path| LocalAddress {
            ip: self.host.address_on(path),
            interface: format!("virtual{path}"),
            index: u32::from(path) + 1,
        };
        Ok(self.world.state().network.paths().map(address).collect())
    }
}

/// The socket of a host on a path. The paths are separate networks, so that it reaches only the other host's address on
/// the same path.
#[derive(Debug)]
struct VirtualSocket {
    world: World,
    host: Host,
    path: u8,
}

impl PacketSocket for VirtualSocket {
    fn local_address(&self) -> SocketAddr {
        SocketAddr::new(self.host.address_on(self.path), 0)
    }

    fn poll_writable(&self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn try_send(&self, datagrams: &Datagrams<'_>) -> Result<usize, TransmitError> {
        let mut state = self.world.state();
        let now = state.now;
        if datagrams.destination.ip() == self.host.other().address_on(self.path) {
            for packet in datagrams.contents.chunks(datagrams.segment_size.max(1)) {
                let packet = Bytes::copy_from_slice(packet);
                state.network.send_sctp(now, self.host, self.path, packet);
            }
        }
        Ok(datagrams.contents.len())
    }

    fn poll_receive(
        &self,
        cx: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
        batches: &mut [Batch],
    ) -> Poll<io::Result<usize>> {
        let mut places = buffers.iter_mut().zip(batches);
        let most = places.len();
        let mut state = self.world.state();
        let socket = &mut state.network.sctp[usize::from(self.path)];
        let received = socket.poll_receive(cx, self.host, most, |packet| {
            let Some((buffer, batch)) = places.next() else { return };
            let len = packet.len().min(buffer.len());
            buffer[..len].copy_from_slice(&packet[..len]);
            *batch = Batch {
                source: SocketAddr::new(self.host.other().address_on(self.path), 0),
                destination: Some(self.host.address_on(self.path)),
                ecn: None,
                segment_size: len,
                len,
            };
        });
        received.map(Ok)
    }
}

impl Drop for VirtualSocket {
    fn drop(&mut self) {
        let closed = self.world.state().network.sctp[usize::from(self.path)].close(self.host);
        drop(closed);
    }
}
