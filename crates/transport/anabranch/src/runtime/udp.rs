//! SCTP in UDP datagrams (RFC 6951): sockets with segmentation and receive offload.

use std::cell::{Cell, RefCell};
use std::io::{self, IoSliceMut};
#[cfg(target_os = "linux")]
use std::net::SocketAddr;
use std::task::{Context, Poll};

use anabranch_proto::Ecn;
#[cfg(target_os = "linux")]
use nix::sys::socket::sockopt;
use quinn_udp::{EcnCodepoint, RecvMeta, UdpSocketState};

use super::bound::{self, Bound};
use super::polled::{Look, Polled};
#[cfg(any(target_os = "linux", target_os = "android"))]
use super::several;
use super::{Batch, Binding, Datagrams, TransmitError, errors, interfaces};
#[cfg(target_os = "linux")]
use super::{Division, Shard, TagMark, steering};

/// Maximum number of batches that one call receives.
const MOST_BATCHES: usize = 8;

/// The port of the discard service (RFC 863), which answers nothing.
#[cfg(target_os = "linux")]
const DISCARD: u16 = 9;

/// A UDP socket that carries SCTP.
pub(super) type Socket = Bound<Descriptor>;

/// A bound UDP descriptor, ready for use.
#[derive(Debug)]
pub(super) struct Descriptor {
    io: Polled,
    /// The system's capabilities as detected by quinn-udp, which permanently stops using segmentation
    /// after some errors.
    state: RefCell<UdpSocketState>,
    queue: Queue,
    /// The type of service or traffic class of all datagrams, which quinn-udp cannot set.
    #[cfg_attr(not(any(target_os = "linux", target_os = "android")), allow(dead_code))]
    class: u8,
}

/// Estimates the length of the system's receive queue.
///
/// If datagrams arrive one by one, like requests, polling for a second one immediately would only delay
/// the answer to the first. The next poll checks for it: if all tasks run on one thread, that is after
/// the answer.
#[derive(Debug, Default)]
struct Queue {
    /// All tasks run on one thread.
    turns: bool,
    /// Datagrams received since the queue was last empty; a batch counts as several.
    taken: Cell<usize>,
    /// Only a single datagram was received before the queue was last empty.
    lone: Cell<bool>,
}

impl Queue {
    /// The number of batches to poll for, at most `most`.
    fn expected(&self, most: usize) -> usize {
        if self.turns && self.lone.get() && self.taken.get() == 0 { most.min(1) } else { most }
    }

    /// Records that `datagrams` datagrams arrived.
    fn took(&self, datagrams: usize) {
        self.taken.set(self.taken.get().saturating_add(datagrams));
    }

    /// Records that the queue is empty.
    fn emptied(&self) {
        if let taken @ 1.. = self.taken.take() {
            self.lone.set(taken == 1);
        }
    }
}

/// Opens a socket for the address of a binding, without binding it.
// The system computes the UDP checksum unless it is disabled.
// req: rfc6951 5.3 "the UDP checksum SHOULD be computed for IPv4"
fn open(binding: &Binding) -> io::Result<socket2::Socket> {
    let address = binding.address;
    let kind = socket2::Type::DGRAM;
    let socket = socket2::Socket::new(socket2::Domain::for_address(address), kind, None)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    interfaces::bind_to(&socket, binding)?;
    interfaces::check_class(binding)?;
    Ok(socket)
}

/// Binds a socket to an address that it shares with other shards.
#[cfg(target_os = "linux")]
fn bind_shard(socket: &socket2::Socket, binding: &Binding, shard: Shard) -> io::Result<()> {
    // The first shard binds exclusively, to detect whether another process has the address.
    if shard.joins {
        socket.set_reuse_port(true)?;
    }
    socket.bind(&binding.address.into())?;
    socket.set_reuse_port(true)?;
    if shard.index + 1 < shard.count {
        return Ok(());
    }
    match (steering::spread(socket, shard.division, shard.count), shard.division) {
        (Err(error), Division::Ports) => {
            tracing::debug!(%error, "shards hand over what is not theirs");
            Ok(())
        }
        (result, _) => result,
    }
}

/// Opens a socket. With `turns`, all tasks run on one thread.
pub(super) fn bind(binding: &Binding, turns: bool) -> io::Result<Socket> {
    let socket = open(binding)?;
    match binding.shard {
        None => socket.bind(&binding.address.into())?,
        #[cfg(target_os = "linux")]
        Some(shard) => bind_shard(&socket, binding, shard)?,
        #[cfg(not(target_os = "linux"))]
        Some(_) => return Err(io::ErrorKind::Unsupported.into()),
    }
    let socket = main(socket, binding.traffic_class, turns)?;
    #[cfg(target_os = "linux")]
    let socket = socket.opened(binding);
    Ok(socket)
}

/// Takes a socket that is bound.
pub(super) fn adopt(socket: socket2::Socket, turns: bool) -> io::Result<Socket> {
    main(socket, 0, turns)
}

fn main(socket: socket2::Socket, class: u8, turns: bool) -> io::Result<Socket> {
    let main = Descriptor::new(socket, class, turns)?;
    let address = main.io.get().local_addr()?;
    Ok(Bound::new(main, address))
}

impl Descriptor {
    fn new(socket: socket2::Socket, class: u8, turns: bool) -> io::Result<Self> {
        if socket.r#type()? != socket2::Type::DGRAM {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a UDP socket"));
        }
        let state = bound::prepare(&socket)?;
        // If there is no error queue, path MTU discovery works without ICMP.
        #[cfg(any(target_os = "linux", target_os = "android"))]
        let _ = state.enable_transport_errors((&socket).into());
        let io = Polled::new(socket.into())?;
        let queue = Queue { turns, ..Queue::default() };
        Ok(Self { io, state: RefCell::new(state), queue, class })
    }
}

impl bound::Descriptor for Descriptor {
    fn io(&self) -> &Polled {
        &self.io
    }

    fn send(&self, datagrams: &Datagrams<'_>) -> io::Result<usize> {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        if self.class != 0 {
            let to = datagrams.destination;
            return several::packets(self.io.get(), to, datagrams, self.class);
        }
        #[cfg(unix)]
        if is_plain(datagrams) {
            return self.io.get().send_to(datagrams.contents, datagrams.destination);
        }
        self.state.borrow().try_send(self.io.get().into(), &transmit(datagrams))?;
        Ok(datagrams.contents.len())
    }

    fn classify(&self, datagrams: &Datagrams<'_>, error: io::Error) -> TransmitError {
        // quinn-udp stops using segmentation when a device refuses it.
        let segmented = datagrams.contents.len() > datagrams.segment_size
            && (error.kind() == io::ErrorKind::InvalidInput || self.max_segments() == 1);
        match errors::classify(error) {
            TransmitError::Failed(_) if segmented => TransmitError::Segmentation,
            error => error,
        }
    }

    fn poll_receive(
        &self,
        cx: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
        batches: &mut [Batch],
    ) -> Poll<io::Result<usize>> {
        let mut metas = [RecvMeta::default(); MOST_BATCHES];
        let most = buffers.len().min(batches.len()).min(metas.len());
        self.io.poll_receive(cx, || {
            let most = self.queue.expected(most);
            let (buffers, metas) = (&mut buffers[..most], &mut metas[..most]);
            let received = self.state.borrow().recv(self.io.get().into(), buffers, metas);
            let count = received.inspect_err(|_| self.queue.emptied())?;
            for (batch, meta) in batches.iter_mut().zip(&metas[..count]) {
                *batch = from_meta(meta);
                self.queue.took(meta.len.div_ceil(meta.stride.max(1)));
            }
            let emptied = count < most;
            if emptied {
                self.queue.emptied();
            }
            Ok(Look { value: count, emptied })
        })
    }

    fn max_segments(&self) -> usize {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        if self.class != 0 {
            return several::MOST_PACKETS;
        }
        self.state.borrow().max_gso_segments()
    }

    fn refresh(&self) {
        if let Ok(state) = bound::state(self.io.get()) {
            #[cfg(any(target_os = "linux", target_os = "android"))]
            let _ = state.enable_transport_errors(self.io.get().into());
            self.state.replace(state);
        }
    }

    // The main socket allows sharing of its address only now, so that another process could not bind it
    // by mistake.
    #[cfg(target_os = "linux")]
    fn open_other(&self, binding: &Binding, address: SocketAddr) -> io::Result<Self> {
        socket2::SockRef::from(self.io.get()).set_reuse_port(true)?;
        let socket = open(binding)?;
        socket.set_reuse_port(true)?;
        socket.bind(&address.into())?;
        let other = Self::new(socket, self.class, self.queue.turns)?;
        // Receive packets without an association one by one, so that each call takes little time.
        let _ = nix::sys::socket::setsockopt(other.io.get(), sockopt::UdpGroSegment, &false);
        Ok(other)
    }

    // Connected to a port from which no peer sends: the system prefers a socket of the interface for what arrives there,
    // but never one that is connected to somebody else.
    #[cfg(target_os = "linux")]
    fn open_outlet(
        &self,
        binding: &Binding,
        address: SocketAddr,
        mut remote: SocketAddr,
    ) -> io::Result<Self> {
        socket2::SockRef::from(self.io.get()).set_reuse_port(true)?;
        let socket = open(binding)?;
        socket.set_reuse_port(true)?;
        socket.bind(&address.into())?;
        remote.set_port(DISCARD);
        socket.connect(&remote.into())?;
        Self::new(socket, self.class, self.queue.turns)
    }

    // The group is complete when the last shard has bound its sockets.
    #[cfg(target_os = "linux")]
    fn divide(&self, _others: &[Self; 2], binding: &Binding, mark: &TagMark) -> io::Result<()> {
        let count = binding.shard.map_or(1, |shard| shard.count);
        if binding.shard.is_some_and(|shard| shard.index + 1 < shard.count) {
            return Ok(());
        }
        steering::divide(self.io.get(), mark, count)
    }
}

/// Whether it is one datagram that needs no control messages, only a destination.
#[cfg(unix)]
fn is_plain(datagrams: &Datagrams<'_>) -> bool {
    datagrams.contents.len() <= datagrams.segment_size
        && datagrams.ecn.is_none()
        && datagrams.source.is_none()
}

/// The transmit for quinn-udp.
// req: rfc6951 5.3 "the UDP packet MUST be the length of"
// req: rfc6951 5.8 "the ECN bits MUST NOT be changed during"
pub(super) fn transmit<'a>(datagrams: &Datagrams<'a>) -> quinn_udp::Transmit<'a> {
    quinn_udp::Transmit {
        destination: datagrams.destination,
        ecn: datagrams.ecn.map(|ecn| match ecn {
            Ecn::Ect0 => EcnCodepoint::Ect0,
            Ecn::Ect1 => EcnCodepoint::Ect1,
            Ecn::Ce => EcnCodepoint::Ce,
        }),
        contents: datagrams.contents,
        segment_size: Some(datagrams.segment_size),
        src_ip: datagrams.source,
    }
}

/// The batch that quinn-udp received.
pub(super) fn from_meta(meta: &RecvMeta) -> Batch {
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

#[cfg(all(test, target_os = "linux"))]
mod apart_tests;

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    #[cfg(not(target_os = "linux"))]
    use std::net::SocketAddr;

    use super::*;
    #[cfg(target_os = "linux")]
    use crate::runtime::NetworkErrorKind;
    use crate::runtime::{PacketSocket, Runtime as _, TokioRuntime};

    fn datagrams(destination: SocketAddr, contents: &[u8], segment_size: usize) -> Datagrams<'_> {
        let (source, ecn, may_fragment) = (None, Some(Ecn::Ect0), false);
        Datagrams { source, destination, ecn, segment_size, may_fragment, contents }
    }

    fn bind(runtime: &TokioRuntime, address: SocketAddr) -> io::Result<Box<dyn PacketSocket>> {
        runtime.bind(&Binding::udp(address))
    }

    async fn receive(socket: &dyn PacketSocket) -> (Batch, Vec<u8>) {
        let mut buffer = vec![0; 65_535];
        let mut batches = [Batch::default()];
        let count = poll_fn(|cx| {
            socket.poll_receive(cx, &mut [IoSliceMut::new(&mut buffer)], &mut batches)
        });
        assert_eq!(count.await.unwrap(), 1);
        buffer.truncate(batches[0].len);
        (batches[0], buffer)
    }

    #[test]
    fn a_second_datagram_is_looked_for_later_where_they_come_one_by_one() {
        let queue = Queue { turns: true, ..Queue::default() };
        assert_eq!(queue.expected(8), 8);
        queue.took(1);
        queue.emptied();
        for _ in 0..3 {
            assert_eq!(queue.expected(8), 1);
            queue.took(1);
            // There may be more, and they are then received together.
            assert_eq!(queue.expected(8), 8);
            queue.emptied();
            // Nothing was received since.
            queue.emptied();
        }
        for datagrams in [[1, 1], [2, 0]] {
            datagrams.into_iter().for_each(|datagrams| queue.took(datagrams));
            queue.emptied();
            assert_eq!(queue.expected(8), 8);
        }
    }

    #[tokio::test]
    async fn without_turns_several_datagrams_are_looked_for_at_once() {
        let runtime = TokioRuntime::current().unwrap();
        assert!(runtime.takes_turns());
        let runtime = runtime.without_turns();
        assert!(!runtime.takes_turns());
        let queue = Queue::default();
        queue.took(1);
        queue.emptied();
        assert_eq!(queue.expected(8), 8);
    }

    #[tokio::test]
    // test: rfc6951 5.3 "the source port MUST be the local UDP"
    // test: rfc6951 5.3 "the UDP packet MUST be the length of"
    // test: rfc6951 5.8 "the ECN bits MUST NOT be changed during"
    async fn datagrams_arrive_with_their_addresses_and_ecn() {
        let runtime = TokioRuntime::current().unwrap();
        for ip in ["127.0.0.1", "::1"] {
            let address = SocketAddr::new(ip.parse().unwrap(), 0);
            let (from, to) = (bind(&runtime, address).unwrap(), bind(&runtime, address).unwrap());
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
            let socket = bind(&runtime, address).unwrap();
            // A port that was free a moment ago.
            let closed = std::net::UdpSocket::bind(address).unwrap().local_addr().unwrap();
            poll_fn(|cx| socket.poll_writable(cx)).await.unwrap();
            socket.try_send(&datagrams(closed, b"anybody there?", 14)).unwrap();
            let error = socket.next_error().unwrap();
            assert_eq!((error.destination, error.source), (closed, Some(address.ip())));
            let unreachable = anabranch_proto::IcmpKind::PortUnreachable;
            assert_eq!(error.kind, NetworkErrorKind::Icmp(unreachable));
            assert_eq!(error.quoted, &b"anybody there?"[..]);
            assert!(socket.next_error().is_none());
        }
    }

    #[tokio::test]
    #[cfg(target_os = "linux")]
    async fn datagrams_larger_than_the_interface_are_refused_with_its_mtu() {
        let runtime = TokioRuntime::current().unwrap();
        let socket = bind(&runtime, ([127, 0, 0, 1], 0).into()).unwrap();
        poll_fn(|cx| socket.poll_writable(cx)).await.unwrap();
        // A UDP datagram cannot be this long.
        let contents = [0; 65_508];
        let sent = socket.try_send(&datagrams(socket.local_address(), &contents, contents.len()));
        assert!(matches!(sent, Err(TransmitError::TooBig)));
    }
}
