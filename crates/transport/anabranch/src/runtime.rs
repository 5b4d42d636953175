//! The interface between the library and its runtime: time, timers, tasks and sockets.
//!
//! [`TokioRuntime`] implements it for users (feature `runtime-tokio`, on by default). A simulator,
//! or a wrapper that impairs packets on purpose, implements these traits instead.

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
    /// The time since an origin of the runtime's choice; never runs backwards.
    fn now(&self) -> Instant;

    /// The wall clock, for captures.
    fn wall_clock(&self) -> SystemTime;

    /// A timer that is not running.
    fn timer(self: Arc<Self>) -> Box<dyn Timer>;

    /// Whether all tasks alternate on one thread. Then a task that has just been woken runs next, and no
    /// other thread is woken for it.
    fn takes_turns(&self) -> bool {
        false
    }

    /// Wakes the task that is polled with `cx` again, after all other ready tasks have run and new
    /// arrivals were processed.
    fn make_way(&self, cx: &mut Context<'_>) {
        cx.waker().wake_by_ref();
    }

    /// Runs a task until it is done.
    fn spawn(&self, task: Pin<Box<dyn Future<Output = ()> + Send>>);

    /// Opens a socket. A wildcard address of one family does not receive packets of the other
    /// family.
    ///
    /// # Errors
    /// Errors of the operating system.
    fn bind(&self, binding: &Binding) -> io::Result<Box<dyn PacketSocket>>;

    /// Turns an open socket into a packet socket. It is bound, or receives packets for all
    /// addresses.
    ///
    /// # Errors
    /// Errors of the operating system, or the runtime does not use sockets of the system.
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
    /// Errors of the operating system.
    fn local_addresses(&self) -> io::Result<Vec<LocalAddress>>;

    /// Notifies when [`local_addresses`](Self::local_addresses) may have changed; `None` if they
    /// never do.
    fn watch_addresses(&self) -> Option<Box<dyn AddressWatch>> {
        None
    }

    /// Whether this host's kernel supports SCTP and answers packets itself, in addition to a raw
    /// socket.
    fn kernel_has_sctp(&self) -> bool {
        false
    }
}

/// A timer that can be set repeatedly.
pub trait Timer: Debug + Send {
    /// Lets the timer expire at `deadline` and at no earlier deadline.
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

/// Notices that addresses or links of this host change.
pub trait AddressWatch: Debug + Send {
    /// Ready when something may have changed since the last time.
    fn poll_changed(&mut self, cx: &mut Context<'_>) -> Poll<()>;
}

/// Parameters for binding a socket.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Binding {
    /// The encapsulation of packets.
    pub encapsulation: Encapsulation,
    /// Local address and UDP port; port 0 means any free one, and is ignored for IP protocol 132. A
    /// link-local IPv6 address has its interface's index as its scope.
    pub address: SocketAddr,
    /// The interface of all packets, whatever the routes are.
    pub interface: Option<String>,
    /// The type of service (IPv4) or traffic class (IPv6) of all packets, with zeros in the ECN bits.
    pub traffic_class: u8,
    /// Which of several sockets on this address and UDP port it is; `None` if it is the only one.
    pub shard: Option<Shard>,
}

/// One of several sockets of an endpoint on the same address and UDP port.
///
/// The system should give each packet to the socket whose number is the upper half of p *
/// 0x9e3779b1 modulo 2^32, modulo `count`, where p is the packet's first four bytes in network byte
/// order, its SCTP ports. A socket hands over packets of another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Its number, from 0.
    pub index: usize,
    /// How many there are.
    pub count: usize,
    /// Others are bound already.
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

/// Receive buffer for packets in separate queues: about 2,700 small ones on Linux. That is enough for a
/// burst of a thousand, and small enough that in a flood a packet does not wait until its sender has
/// retransmitted it.
#[cfg(all(feature = "runtime-tokio", target_os = "linux"))]
const APART_BUFFER: usize = 1 << 20;

/// An unconnected socket for SCTP packets, in UDP datagrams or as IP protocol 132, that never
/// blocks and lets IP fragment only the datagrams marked for it.
///
/// With IP protocol 132, datagrams are packets and ports are 0.
pub trait PacketSocket: Debug + Send {
    /// The address it is bound to; the port is 0 for IP protocol 132.
    fn local_address(&self) -> SocketAddr;

    /// Ready when a send may succeed again that would have blocked.
    fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Sends one datagram, or several of equal size. Returns the bytes that were accepted: all, or
    /// the first few datagrams.
    ///
    /// # Errors
    /// No error is fatal to the socket, and nothing was sent then; [`next_error`](Self::next_error)
    /// may have details.
    fn try_send(&self, datagrams: &Datagrams<'_>) -> Result<usize, TransmitError>;

    /// The same for a destination that has not answered yet. If possible, a socket sends this from
    /// another buffer of the system, since it stays there while the system resolves the
    /// destination, and drops datagrams without room there.
    ///
    /// # Errors
    /// As those of [`try_send`](Self::try_send).
    fn try_send_apart(&self, datagrams: &Datagrams<'_>) -> Result<usize, TransmitError> {
        self.try_send(datagrams)
    }

    /// Receives up to one batch of datagrams for every buffer.
    ///
    /// # Errors
    /// Errors of datagrams sent before; [`next_error`](Self::next_error) may have details.
    fn poll_receive(
        &self,
        cx: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
        batches: &mut [Batch],
    ) -> Poll<io::Result<usize>>;

    /// From now on, puts packets that `mark` does not recognise into separate queues of the system. Then
    /// a flood of them does not displace recognised ones. Returns whether the socket supports this.
    ///
    /// Among [shards](Shard) each is called once, in their order, when all are bound.
    fn keep_apart(&self, _mark: &TagMark) -> bool {
        false
    }

    /// Receives packets from a separate queue, as [`poll_receive`](Self::poll_receive) does.
    ///
    /// # Errors
    /// As those of [`poll_receive`](Self::poll_receive).
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
    /// association here may be for that stack.
    fn has_neighbours(&self) -> bool {
        false
    }

    /// Ready when [`next_error`](Self::next_error) has an error again, after it had none.
    fn poll_error(&self, _cx: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }

    /// Forgets what was learned from failures while the socket's address was missing.
    fn refresh(&self) {}

    /// The oldest unread error that the network reported for sent packets.
    fn next_error(&self) -> Option<NetworkError> {
        None
    }
}

/// Packets that any host can send; each kind has its own queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Apart {
    /// Packets that begin with INIT.
    Inits,
    /// Other packets without a marked verification tag.
    Rest,
}

impl Apart {
    /// Both, in the order in which they are polled.
    pub const ALL: [Self; 2] = [Self::Inits, Self::Rest];
}

/// Why datagrams were not sent.
#[derive(Debug)]
pub enum TransmitError {
    /// There is no room now.
    WouldBlock,
    /// Larger than the interface's MTU.
    TooBig,
    /// Several datagrams in one call are refused, though a single one may pass.
    Segmentation,
    /// A queue of this host was full and the datagrams are lost: congestion, not a fault.
    Dropped,
    /// The destination cannot be reached, or something else is wrong with it.
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

/// The contents of a receive buffer: datagrams of one sender that arrived together.
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
    /// Bytes in the buffer.
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
    /// The datagram did not fit this host's own interface with this MTU.
    LocalMtu(u16),
    /// Another error, which is ignored.
    Other,
}
