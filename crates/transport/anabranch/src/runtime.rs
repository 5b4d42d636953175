//! The interface between the library and its runtime: time, timers, tasks and sockets.
//!
//! [`TokioRuntime`] implements it for applications (feature `runtime-tokio`, on by default). A simulator,
//! or a wrapper that impairs packets, implements these traits itself.

use std::fmt::Debug;
use std::future::Future;
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::SystemTime;

pub use anabranch_proto::{Ecn, Encapsulation, IcmpKind, Instant, TagMark};
use bytes::Bytes;

#[cfg(feature = "runtime-tokio")]
mod bound;
#[cfg(feature = "runtime-tokio")]
mod error_queue;
#[cfg(feature = "runtime-tokio")]
mod errors;
#[cfg(feature = "runtime-tokio")]
mod fragmentation;
#[cfg(feature = "impair")]
mod impaired;
#[cfg(feature = "runtime-tokio")]
mod interfaces;
#[cfg(feature = "runtime-tokio")]
mod neighbours;
#[cfg(feature = "runtime-tokio")]
mod others;
#[cfg(feature = "runtime-tokio")]
mod polled;
#[cfg(all(feature = "runtime-tokio", unix))]
mod raw;
#[cfg(all(feature = "runtime-tokio", target_os = "linux"))]
mod routes;
#[cfg(all(feature = "runtime-tokio", any(target_os = "linux", target_os = "android")))]
mod several;
#[cfg(all(feature = "runtime-tokio", target_os = "linux"))]
mod steering;
#[cfg(feature = "runtime-tokio")]
mod tokio;
#[cfg(feature = "runtime-tokio")]
mod udp;

#[cfg(feature = "impair")]
pub use self::impaired::{ImpairedRuntime, LinkReport};
#[cfg(feature = "runtime-tokio")]
pub use self::tokio::TokioRuntime;

/// Time, timers, tasks and sockets.
pub trait Runtime: Debug + Send + Sync {
    /// The time since an origin that the runtime chooses; it never runs backwards.
    fn now(&self) -> Instant;

    /// The wall clock, for captures.
    fn wall_clock(&self) -> SystemTime;

    /// Makes a timer that is not running.
    fn timer(self: Arc<Self>) -> Box<dyn Timer>;

    /// Whether all tasks run on one thread. Then a task that has just been woken runs next, and no other
    /// thread is woken for it.
    fn takes_turns(&self) -> bool {
        false
    }

    /// Wakes the task of `cx`, but only after all other ready tasks have run and new arrivals were
    /// processed.
    fn make_way(&self, cx: &mut Context<'_>) {
        cx.waker().wake_by_ref();
    }

    /// Runs a task until it is done.
    fn spawn(&self, task: Pin<Box<dyn Future<Output = ()> + Send>>);

    /// Opens a socket. A wildcard address of one family does not receive packets of the other
    /// family.
    ///
    /// # Errors
    /// The operating system refuses.
    fn bind(&self, binding: &Binding) -> io::Result<Box<dyn PacketSocket>>;

    /// Makes a packet socket of an open socket, which is either bound or receives packets for all
    /// addresses.
    ///
    /// # Errors
    /// The operating system refuses, or the runtime does not use the system's sockets.
    fn adopt(
        &self,
        _encapsulation: Encapsulation,
        _socket: UdpSocket,
    ) -> io::Result<Box<dyn PacketSocket>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// The addresses of this host's interfaces that are up.
    ///
    /// # Errors
    /// The operating system cannot list them.
    fn local_addresses(&self) -> io::Result<Vec<LocalAddress>>;

    /// Notifies when [`local_addresses`](Self::local_addresses) may have changed; `None` if they
    /// never do.
    fn watch_addresses(&self) -> Option<Box<dyn AddressWatch>> {
        None
    }

    /// Whether packets from this address to `remote`, over UDP or IP protocol 132 (port 0), would leave by another
    /// interface than the address's own, although that one has a route which is as good except for its metric.
    fn strays(&self, _local: &LocalAddress, _remote: SocketAddr) -> bool {
        false
    }

    /// Whether this host's kernel supports SCTP and answers packets itself, in addition to a raw
    /// socket.
    fn kernel_has_sctp(&self) -> bool {
        false
    }
}

/// A timer that can be set repeatedly.
pub trait Timer: Debug + Send {
    /// Sets the deadline, which replaces an earlier one.
    fn reset(&mut self, deadline: Instant);

    /// Ready once the deadline has passed.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()>;
}

/// An address of an interface of this host.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LocalAddress {
    /// The address.
    pub ip: IpAddr,
    /// Name of the interface.
    pub interface: String,
    /// Number of the interface: the scope of link-local addresses.
    pub index: u32,
}

/// Watches for changes of this host's addresses and links.
pub trait AddressWatch: Debug + Send {
    /// Ready when something may have changed since the last call.
    fn poll_changed(&mut self, cx: &mut Context<'_>) -> Poll<()>;
}

/// Parameters for binding a socket.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Binding {
    /// The encapsulation of packets.
    pub encapsulation: Encapsulation,
    /// Local address and UDP port. Port 0 means any free one, and is ignored for IP protocol 132. The
    /// scope of a link-local IPv6 address is the index of its interface.
    pub address: SocketAddr,
    /// The interface for all packets, regardless of the routes.
    pub interface: Option<String>,
    /// The type of service (IPv4) or traffic class (IPv6) of all packets, with zeros in the ECN bits.
    pub traffic_class: u8,
    /// Identifies one of several sockets on this address and UDP port; `None` if there is only one.
    pub shard: Option<Shard>,
}

/// How packets are divided among several sockets on the same address and UDP port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Division {
    /// By the SCTP ports, the first four bytes p of a packet in network byte order. The packet is for the socket with
    /// the index h mod `count`, where h is the upper half of p * 0x9e3779b1 mod 2^32. The system should give it to that one;
    /// the others pass it on.
    Ports,
    /// By the lane of a datagram of a sealed path (docs/sealed.md). It is for the socket with the index b mod `count`,
    /// where b is its first byte, or byte 8 if the first four bytes are 0. The system must give it to that one: the others
    /// drop it.
    Lanes,
}

/// One of several sockets of an endpoint on the same address and UDP port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Which packets it receives.
    pub division: Division,
    /// Its index, from 0.
    pub index: usize,
    /// The number of sockets.
    pub count: usize,
    /// Other sockets of the endpoint are bound already.
    pub joins: bool,
}

impl Binding {
    /// A UDP socket on this address.
    pub fn udp(address: SocketAddr) -> Self {
        let encapsulation = Encapsulation::Udp;
        Self { encapsulation, address, interface: None, traffic_class: 0, shard: None }
    }

    /// A raw socket for IP protocol 132 on this address.
    pub fn ip(address: IpAddr) -> Self {
        Self {
            encapsulation: Encapsulation::Ip,
            address: SocketAddr::new(address, 0),
            interface: None,
            traffic_class: 0,
            shard: None,
        }
    }
}

/// Requested sizes of socket buffers; the system grants what its limits allow.
#[cfg(feature = "runtime-tokio")]
const SOCKET_BUFFER: usize = 4 << 20;

/// Receive buffer for packets in separate queues. On Linux it has room for about 2,700 small packets:
/// enough for a burst of a thousand, and small enough that during a flood a packet is processed before its
/// sender retransmits it.
#[cfg(all(feature = "runtime-tokio", target_os = "linux"))]
const APART_BUFFER: usize = 1 << 20;

/// An unconnected socket for SCTP packets, in UDP datagrams or as IP protocol 132. It never blocks, and IP
/// fragments only the datagrams marked for it.
///
/// With IP protocol 132, a datagram is an SCTP packet, and ports are 0.
pub trait PacketSocket: Debug + Send {
    /// The address it is bound to; the port is 0 for IP protocol 132.
    fn local_address(&self) -> SocketAddr;

    /// Ready when a send that would have blocked may succeed.
    fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Sends one datagram, or several of equal size. Returns the number of bytes accepted: all, or those
    /// of the first few datagrams.
    ///
    /// # Errors
    /// Nothing was sent, but the socket remains usable; [`next_error`](Self::next_error) may have details.
    fn try_send(&self, datagrams: &Datagrams<'_>) -> Result<usize, TransmitError>;

    /// The same for a destination that has not answered yet. If possible, the socket sends this from a
    /// separate buffer of the system, because it stays there until the system has resolved the
    /// destination. If that buffer is full, the datagrams are dropped.
    ///
    /// # Errors
    /// As for [`try_send`](Self::try_send).
    fn try_send_apart(&self, datagrams: &Datagrams<'_>) -> Result<usize, TransmitError> {
        self.try_send(datagrams)
    }

    /// Receives up to one batch of datagrams for every buffer.
    ///
    /// # Errors
    /// An error of datagrams sent before; [`next_error`](Self::next_error) may have details.
    fn poll_receive(
        &self,
        cx: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
        batches: &mut [Batch],
    ) -> Poll<io::Result<usize>>;

    /// The next call of [`poll_receive`](Self::poll_receive) asks the system even if the runtime has not learnt of an
    /// arrival: the endpoint [polls again and again](crate::Builder::busy_poll).
    fn look_again(&self) {}

    /// From now on, puts packets that `mark` does not recognise into separate queues of the system, so
    /// that a flood of them does not displace recognised packets. Returns whether the socket supports
    /// this.
    ///
    /// With several [shards](Shard), this is called once for each, in order, when all are bound.
    fn keep_apart(&self, _mark: &TagMark) -> bool {
        false
    }

    /// Receives packets from a separate queue, as [`poll_receive`](Self::poll_receive) does.
    ///
    /// # Errors
    /// As for [`poll_receive`](Self::poll_receive).
    fn poll_receive_apart(
        &self,
        _apart: Apart,
        _cx: &mut Context<'_>,
        _buffers: &mut [IoSliceMut<'_>],
        _batches: &mut [Batch],
    ) -> Poll<io::Result<usize>> {
        Poll::Pending
    }

    /// Maximum number of datagrams in one call of [`try_send`](Self::try_send).
    fn max_segments(&self) -> usize {
        1
    }

    /// Whether another stack of this host receives the same packets. Then packets that do not belong to an
    /// association of this endpoint may be for that stack.
    fn has_neighbours(&self) -> bool {
        false
    }

    /// Ready when [`next_error`](Self::next_error), after returning `None`, has an error again.
    fn poll_error(&self, _cx: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }

    /// Opens another socket on the same address and port, which only sends, and only over this interface. `remote` is
    /// one of the hosts that it sends to.
    ///
    /// # Errors
    /// The system refuses, or the runtime cannot do that.
    fn outlet(&self, _interface: &str, _remote: SocketAddr) -> io::Result<Box<dyn PacketSocket>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Forgets limits detected from send errors while the socket's address was missing.
    fn refresh(&self) {}

    /// The oldest unread error that the network reported for sent packets.
    fn next_error(&self) -> Option<NetworkError> {
        None
    }
}

/// Classes of packets that any host can send; each has its own queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Apart {
    /// Packets that begin with INIT.
    Inits,
    /// Other packets without a marked verification tag.
    Rest,
}

impl Apart {
    /// Both classes, in the order in which they are polled.
    pub const ALL: [Self; 2] = [Self::Inits, Self::Rest];
}

/// Why datagrams were not sent.
#[derive(Debug)]
pub enum TransmitError {
    /// The send buffer is full.
    WouldBlock,
    /// Larger than the interface's MTU.
    TooBig,
    /// The system refuses several datagrams in one call, but may accept a single one.
    Segmentation,
    /// A queue of this host was full and the datagrams are lost: congestion, not a fault.
    Dropped,
    /// The destination is unreachable, or sending failed for another reason.
    Failed(io::Error),
}

/// Datagrams to send in one call.
#[derive(Clone, Copy, Debug)]
pub struct Datagrams<'a> {
    /// Source address; `None` means the socket's own.
    pub source: Option<IpAddr>,
    /// Destination address.
    pub destination: SocketAddr,
    /// ECN codepoint of the IP header.
    pub ecn: Option<Ecn>,
    /// Size of every datagram except the last one.
    pub segment_size: usize,
    /// IP may fragment them.
    pub may_fragment: bool,
    /// The datagrams in sequence.
    pub contents: &'a [u8],
}

/// The content of a receive buffer: datagrams of one sender that arrived together.
#[derive(Clone, Copy, Debug)]
pub struct Batch {
    /// The sender.
    pub source: SocketAddr,
    /// The address they were sent to, if the system reports it.
    pub destination: Option<IpAddr>,
    /// ECN codepoint of their IP headers.
    pub ecn: Option<Ecn>,
    /// Size of every datagram except the last one.
    pub segment_size: usize,
    /// Number of bytes in the buffer.
    pub len: usize,
}

impl Default for Batch {
    fn default() -> Self {
        Self {
            source: SocketAddr::from(([0, 0, 0, 0], 0)),
            destination: None,
            ecn: None,
            segment_size: 0,
            len: 0,
        }
    }
}

/// An error that the network reported for a datagram sent earlier.
#[derive(Clone, Debug)]
pub struct NetworkError {
    /// The datagram's destination.
    pub destination: SocketAddr,
    /// Its source, if known.
    pub source: Option<IpAddr>,
    /// The kind of error.
    pub kind: NetworkErrorKind,
    /// The start of the datagram's payload, as far as it was returned.
    pub quoted: Bytes,
}

/// Kinds of [`NetworkError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetworkErrorKind {
    /// An ICMP message.
    Icmp(IcmpKind),
    /// The datagram is larger than the MTU of this host's interface, which is given.
    LocalMtu(u16),
    /// None at all: the path between source and destination leads to the peer again, after packets on it may have been
    /// lost without a trace. A socket that knows this reports it, so that the path is tried at once.
    PathAnswers,
    /// None at all: the socket has dropped the peer with this destination. Nothing comes from there any more, and nothing that
    /// is sent reaches it, so its associations end.
    PeerGone,
    /// Another error, which is ignored.
    Other,
}
