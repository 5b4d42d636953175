//! The runtime that tokio provides.

use std::future::Future;
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, SystemTime};

use anabranch_proto::{Ecn, Instant};
use quinn_udp::{EcnCodepoint, RecvMeta, UdpSocketState};
use tokio::io::Interest;

use super::{
    Batch, Datagrams, NetworkError, Runtime, Timer, TransmitError, UdpSocket, error_queue,
    fragmentation,
};

/// Socket buffers asked for; the system grants what its limits allow.
const SOCKET_BUFFER: usize = 4 << 20;

/// ENOBUFS: Linux tells of full queues only those who ask for transport errors.
#[cfg(any(target_os = "linux", target_os = "android"))]
const NO_BUFFERS: i32 = 105;
#[cfg(windows)]
const NO_BUFFERS: i32 = 10_055;
#[cfg(not(any(target_os = "linux", target_os = "android", windows)))]
const NO_BUFFERS: i32 = 55;

/// tokio's sockets, timers and tasks.
#[derive(Clone, Debug)]
pub struct TokioRuntime {
    handle: tokio::runtime::Handle,
    origin: tokio::time::Instant,
}

impl TokioRuntime {
    /// The runtime in whose context this is called; `None` outside of one.
    pub fn current() -> Option<Self> {
        let handle = tokio::runtime::Handle::try_current().ok()?;
        Some(Self { handle, origin: tokio::time::Instant::now() })
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
        // Any deadline will do: the timer is set before it is asked.
        let sleep = Box::pin(tokio::time::sleep(Duration::ZERO));
        Box::new(Sleep { sleep, origin: self.origin })
    }

    fn spawn(&self, task: Pin<Box<dyn Future<Output = ()> + Send>>) {
        self.handle.spawn(task);
    }

    fn bind_udp(&self, address: SocketAddr) -> io::Result<Box<dyn UdpSocket>> {
        let _context = self.handle.enter();
        Ok(Box::new(Socket::bind(address)?))
    }

    fn local_addresses(&self) -> io::Result<Vec<IpAddr>> {
        let interfaces = if_addrs::get_if_addrs()?;
        // A link-local address means nothing without its interface.
        let usable = interfaces.into_iter().filter(|i| i.is_oper_up() || i.is_loopback());
        Ok(usable.filter(|i| !i.is_link_local()).map(|i| i.ip()).collect())
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
        // A deadline beyond what the clock can tell never comes.
        let at = self.origin.checked_add(after).unwrap_or_else(|| {
            tokio::time::Instant::now() + Duration::from_secs(365 * 24 * 60 * 60)
        });
        self.sleep.as_mut().reset(at);
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.sleep.as_mut().poll(cx)
    }
}

#[derive(Debug)]
struct Socket {
    io: tokio::net::UdpSocket,
    state: UdpSocketState,
    address: SocketAddr,
}

impl Socket {
    fn bind(address: SocketAddr) -> io::Result<Self> {
        let kind = socket2::Type::DGRAM;
        let socket = socket2::Socket::new(socket2::Domain::for_address(address), kind, None)?;
        if address.is_ipv6() {
            socket.set_only_v6(true)?;
        }
        socket.bind(&address.into())?;
        let state = UdpSocketState::new((&socket).into())?;
        // Best effort: small buffers cost throughput only, and without an error queue path MTU
        // discovery does without ICMP.
        let _ = state.set_send_buffer_size((&socket).into(), SOCKET_BUFFER);
        let _ = state.set_recv_buffer_size((&socket).into(), SOCKET_BUFFER);
        #[cfg(any(target_os = "linux", target_os = "android"))]
        let _ = state.enable_transport_errors((&socket).into());
        let io = tokio::net::UdpSocket::from_std(socket.into())?;
        let address = io.local_addr()?;
        Ok(Self { io, state, address })
    }
}

impl UdpSocket for Socket {
    fn local_address(&self) -> SocketAddr {
        self.address
    }

    fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.io.poll_send_ready(cx)
    }

    fn try_send(&self, datagrams: &Datagrams<'_>) -> Result<(), TransmitError> {
        let transmit = quinn_udp::Transmit {
            destination: datagrams.destination,
            ecn: datagrams.ecn.map(|ecn| match ecn {
                Ecn::Ect0 => EcnCodepoint::Ect0,
                Ecn::Ect1 => EcnCodepoint::Ect1,
                Ecn::Ce => EcnCodepoint::Ce,
            }),
            contents: datagrams.contents,
            segment_size: Some(datagrams.segment_size),
            src_ip: datagrams.source,
        };
        let send = || {
            let send = || self.state.try_send((&self.io).into(), &transmit);
            if datagrams.may_fragment {
                return fragmentation::allowed(&self.io, self.address.is_ipv4(), send);
            }
            send()
        };
        self.io.try_io(Interest::WRITABLE, send).map_err(|error| {
            // quinn-udp gives up segmentation when a device refuses it.
            let segmented = datagrams.contents.len() > datagrams.segment_size
                && (error.kind() == io::ErrorKind::InvalidInput || self.max_segments() == 1);
            match error.kind() {
                io::ErrorKind::WouldBlock => TransmitError::WouldBlock,
                io::ErrorKind::OutOfMemory => TransmitError::Dropped,
                _ if error.raw_os_error() == Some(NO_BUFFERS) => TransmitError::Dropped,
                _ if quinn_udp::is_msg_size_err(&error) => TransmitError::TooBig,
                _ if segmented => TransmitError::Segmentation,
                _ => TransmitError::Failed(error),
            }
        })
    }

    fn poll_receive(
        &self,
        cx: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
        batches: &mut [Batch],
    ) -> Poll<io::Result<usize>> {
        let mut metas = [RecvMeta::default(); quinn_udp::BATCH_SIZE];
        let most = buffers.len().min(batches.len()).min(metas.len());
        loop {
            ready!(self.io.poll_recv_ready(cx))?;
            let receive = || {
                let (buffers, metas) = (&mut buffers[..most], &mut metas[..most]);
                self.state.recv((&self.io).into(), buffers, metas)
            };
            match self.io.try_io(Interest::READABLE, receive) {
                Ok(count) => {
                    for (batch, meta) in batches.iter_mut().zip(&metas[..count]) {
                        *batch = from_meta(meta);
                    }
                    return Poll::Ready(Ok(count));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    fn max_segments(&self) -> usize {
        self.state.max_gso_segments()
    }

    fn next_error(&self) -> Option<NetworkError> {
        error_queue::next(&self.io)
    }
}

fn from_meta(meta: &RecvMeta) -> Batch {
    Batch {
        source: meta.addr,
        destination: meta.dst_ip,
        ecn: meta.ecn.map(|ecn| match ecn {
            EcnCodepoint::Ect0 => Ecn::Ect0,
            EcnCodepoint::Ect1 => Ecn::Ect1,
            EcnCodepoint::Ce => Ecn::Ce,
        }),
        segment_size: meta.stride,
        len: meta.len,
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    fn datagrams(destination: SocketAddr, contents: &[u8], segment_size: usize) -> Datagrams<'_> {
        let (source, ecn, may_fragment) = (None, Some(Ecn::Ect0), false);
        Datagrams { source, destination, ecn, segment_size, may_fragment, contents }
    }

    async fn receive(socket: &dyn UdpSocket) -> (Batch, Vec<u8>) {
        let mut buffer = vec![0; 65_535];
        let mut batches = [Batch::default()];
        let count = poll_fn(|cx| {
            socket.poll_receive(cx, &mut [IoSliceMut::new(&mut buffer)], &mut batches)
        });
        assert_eq!(count.await.unwrap(), 1);
        buffer.truncate(batches[0].len);
        (batches[0], buffer)
    }

    #[tokio::test]
    async fn datagrams_arrive_with_their_addresses_and_ecn() {
        let runtime = TokioRuntime::current().unwrap();
        for ip in ["127.0.0.1", "::1"] {
            let address = SocketAddr::new(ip.parse().unwrap(), 0);
            let (from, to) =
                (runtime.bind_udp(address).unwrap(), runtime.bind_udp(address).unwrap());
            let mut sent = Vec::new();
            for (may_fragment, byte) in [(false, 1), (true, 2)] {
                poll_fn(|cx| from.poll_writable(cx)).await.unwrap();
                let contents = [byte; 1000];
                let datagrams = datagrams(to.local_address(), &contents, 1000);
                from.try_send(&Datagrams { may_fragment, ..datagrams }).unwrap();
                sent.extend(contents);
            }
            let mut received = Vec::new();
            while received.len() < sent.len() {
                let (batch, bytes) = receive(&*to).await;
                assert_eq!((batch.source, batch.segment_size), (from.local_address(), 1000));
                assert_eq!(batch.ecn, Some(Ecn::Ect0));
                assert_eq!(batch.destination, Some(address.ip()));
                received.extend(bytes);
            }
            assert_eq!(received, sent);
        }
    }

    #[tokio::test]
    #[cfg(target_os = "linux")]
    async fn icmp_is_reported_with_what_was_sent() {
        let runtime = TokioRuntime::current().unwrap();
        for ip in ["127.0.0.1", "::1"] {
            let address = SocketAddr::new(ip.parse().unwrap(), 0);
            let socket = runtime.bind_udp(address).unwrap();
            // A port that was free a moment ago.
            let closed = std::net::UdpSocket::bind(address).unwrap().local_addr().unwrap();
            poll_fn(|cx| socket.poll_writable(cx)).await.unwrap();
            socket.try_send(&datagrams(closed, b"anybody there?", 14)).unwrap();
            let error = socket.next_error().unwrap();
            assert_eq!((error.destination, error.source), (closed, Some(address.ip())));
            let unreachable = anabranch_proto::IcmpKind::PortUnreachable;
            assert_eq!(error.kind, super::super::NetworkErrorKind::Icmp(unreachable));
            assert_eq!(error.quoted, &b"anybody there?"[..]);
            assert!(socket.next_error().is_none());
        }
    }

    #[tokio::test]
    #[cfg(target_os = "linux")]
    async fn datagrams_larger_than_the_interface_are_refused_with_its_mtu() {
        let runtime = TokioRuntime::current().unwrap();
        let socket = runtime.bind_udp(([127, 0, 0, 1], 0).into()).unwrap();
        poll_fn(|cx| socket.poll_writable(cx)).await.unwrap();
        // No UDP datagram is as long as this.
        let contents = [0; 65_508];
        let sent = socket.try_send(&datagrams(socket.local_address(), &contents, contents.len()));
        assert!(matches!(sent, Err(TransmitError::TooBig)));
    }

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
