//! The sockets of an endpoint: sends without blocking, and collects the network's error reports.

mod bind;
mod changes;
mod outlets;

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::task::Context;

use anabranch_proto::{Encapsulation, Instant, Transmit};

pub(crate) use bind::{OpenedSocket, Wanted, WantedAddress};

use self::outlets::Outlets;
use crate::runtime::{
    Binding, Datagrams, LocalAddress, NetworkError, NetworkErrorKind, PacketSocket, TagMark,
    TransmitError,
};
use crate::statistics::EndpointStatistics;

/// Maximum bytes queued for a blocked socket; further packets are lost, as in a full queue of a network
/// device.
const MOST_WAITING: usize = 1 << 20;

/// Maximum number of answers per second to packets without an association, over IP protocol 132.
const MOST_ANSWERS: u32 = 100;

/// Maximum number of error reports collected from a socket at a time.
const MOST_REPORTS: usize = 64;

/// Maximum bytes of one send call: the maximum of a UDP length field minus headers.
const MOST_BYTES: usize = 65_535 - 40 - 8;

/// The sockets and the packets queued for them.
#[derive(Debug)]
pub(crate) struct SocketSet {
    sockets: Vec<Socket>,
    /// The requested addresses that exist now.
    addresses: Vec<LocalAddress>,
    /// The interface for all packets.
    interface: Option<String>,
    encapsulation: Encapsulation,
    udp_port: u16,
    /// Separate queues are used for packets whose tag does not have this mark, if the sockets support
    /// that.
    mark: Option<TagMark>,
    /// Problems to report to the engine, in order.
    problems: Vec<Problem>,
    answers: Answers,
    outlets: Outlets,
    pub(crate) statistics: EndpointStatistics,
}

#[derive(Debug)]
struct Socket {
    io: Box<dyn PacketSocket>,
    bound: IpAddr,
    /// The interface that has the address, if one was named.
    link: Option<String>,
    /// The parameters that it was opened with, if this library opened it.
    binding: Option<Binding>,
    waiting: VecDeque<Waiting>,
    waiting_bytes: usize,
    /// Number of consecutive times that the socket was reported writable but blocked.
    false_alarms: u32,
    /// Name and number of the interface over which it only sends.
    outlet: Option<(String, u32)>,
    /// The interface that it is bound to was removed, and the socket could not be reopened.
    stale: bool,
}

/// Limits answers to packets without an association.
#[derive(Debug, Default)]
struct Answers {
    second: u64,
    given: u32,
}

impl Answers {
    /// Whether another answer is allowed in this second.
    fn take(&mut self, now: Instant) -> bool {
        let second = now.as_nanos() / 1_000_000_000;
        if second != self.second {
            *self = Self { second, given: 0 };
        }
        self.given = self.given.saturating_add(1);
        self.given <= MOST_ANSWERS
    }
}

/// A transmit that is queued because its socket was blocked.
#[derive(Debug)]
struct Waiting {
    transmit: Transmit,
    bytes: Vec<u8>,
}

/// The start of an SCTP packet, with which the engine finds the association: the common header and, for
/// an INIT, its initiate tag.
pub(crate) type Start = [u8; 20];

fn start(packet: &[u8]) -> Start {
    let mut start = Start::default();
    start.iter_mut().zip(packet).for_each(|(to, from)| *to = *from);
    start
}

/// A problem with a sent packet, to report to the engine.
#[derive(Debug)]
pub(crate) enum Problem {
    /// A datagram could not be sent.
    SendFailed {
        /// Source address.
        local: IpAddr,
        /// Destination address.
        remote: IpAddr,
        /// The start of the datagram's first packet.
        quoted: Start,
    },
    /// A datagram was larger than the interface's MTU.
    TooBig {
        /// Source address.
        local: IpAddr,
        /// Destination address.
        remote: IpAddr,
        /// Largest IP packet that the interface can send.
        mtu: u16,
        /// The start of the datagram's first packet.
        quoted: Start,
    },
    /// The network reported an error.
    Network {
        /// Source address.
        local: IpAddr,
        /// The error.
        error: NetworkError,
    },
}

impl SocketSet {
    /// The endpoint's local addresses.
    pub(crate) fn addresses(&self) -> &[LocalAddress] {
        &self.addresses
    }

    /// Addresses to announce to any peer. Link-local ones that were not requested are excluded, because
    /// they are only useful to a peer on their link.
    pub(crate) fn general_addresses(&self) -> Vec<IpAddr> {
        let is_general = |ip: &IpAddr| {
            let link_local = matches!(ip, IpAddr::V6(v6) if v6.is_unicast_link_local());
            !link_local
                || self.interface.is_some()
                || self.sockets.iter().any(|socket| socket.bound == *ip)
        };
        self.addresses.iter().map(|address| address.ip).filter(is_general).collect()
    }

    /// The destination of a packet; a link-local address is on the link of the local address.
    // req: rfc6951 5.3 "the destination port MUST be the remote UDP"
    fn destination(&self, transmit: &Transmit) -> SocketAddr {
        let port = transmit.remote_udp_port;
        match transmit.remote {
            IpAddr::V6(remote) if remote.is_unicast_link_local() => {
                let local = self.addresses.iter().find(|address| address.ip == transmit.local);
                let scope = local.map_or(0, |local| local.index);
                SocketAddrV6::new(remote, port, 0, scope).into()
            }
            remote => SocketAddr::new(remote, port),
        }
    }

    /// Whether a packet without an association may be answered from this address: not if another stack
    /// receives the same packets. Asking the system takes time, so during a flood most packets are not
    /// answered.
    pub(crate) fn may_answer(&mut self, now: Instant, local: IpAddr) -> bool {
        if self.encapsulation == Encapsulation::Udp {
            return true;
        }
        let allowed = self.answers.take(now);
        let socket = self.index_of(local).and_then(|index| self.sockets.get(index));
        allowed && socket.is_some_and(|socket| !socket.io.has_neighbours())
    }

    /// The socket that sends from this address.
    fn index_of(&self, local: IpAddr) -> Option<usize> {
        self.sockets.iter().position(|socket| socket.outlet.is_none() && socket.serves(local))
    }

    /// The encapsulation of packets.
    pub(crate) fn encapsulation(&self) -> Encapsulation {
        self.encapsulation
    }

    /// The UDP port of all sockets; 0 for IP protocol 132.
    pub(crate) fn udp_port(&self) -> u16 {
        self.udp_port
    }

    /// Closes all sockets and drops the packets queued for them.
    pub(crate) fn close(&mut self) {
        self.sockets.clear();
    }

    /// Number of sockets.
    pub(crate) fn len(&self) -> usize {
        self.sockets.len()
    }

    /// The maximum number of datagrams in one transmit.
    pub(crate) fn max_segments(&self) -> usize {
        self.sockets.iter().map(|socket| socket.io.max_segments()).max().unwrap_or(1).max(1)
    }

    /// The socket with this index and the address it is bound to.
    pub(crate) fn get(&self, index: usize) -> Option<(&dyn PacketSocket, IpAddr)> {
        self.sockets.get(index).map(|socket| (&*socket.io, socket.bound))
    }

    /// Makes all sockets use separate queues for packets without this mark, if they support that.
    pub(crate) fn keep_apart(&mut self, mark: TagMark) {
        self.mark = Some(mark);
        for socket in self.sockets.iter().filter(|socket| socket.outlet.is_none()) {
            let apart = socket.io.keep_apart(&mark);
            tracing::debug!(name: "transport:strangers", local = %socket.bound, apart);
        }
    }

    /// Number of packets sent and received.
    pub(crate) fn packets(&self) -> u64 {
        self.statistics.datagrams_received + self.statistics.datagrams_sent
    }

    /// Whether the sockets queue packets without an association separately.
    pub(crate) fn are_apart(&self) -> bool {
        self.mark.is_some()
    }

    /// The problems to report to the engine.
    pub(crate) fn take_problems(&mut self) -> Vec<Problem> {
        std::mem::take(&mut self.problems)
    }

    /// Collects errors that the network has reported, and registers `cx` for later ones. Returns whether
    /// there may be more now.
    pub(crate) fn poll_errors(&mut self, cx: &mut Context<'_>) -> bool {
        let mut more = false;
        for index in 0..self.sockets.len() {
            let reported =
                |socket: &Socket, cx: &mut Context<'_>| socket.io.poll_error(cx).is_ready();
            if self.sockets.get(index).is_some_and(|socket| reported(socket, cx)) {
                self.collect_errors(index);
                more |= self.sockets.get(index).is_some_and(|socket| reported(socket, cx));
            }
        }
        more
    }

    /// Collects the errors that the network reported to a socket. Returns whether there were any.
    pub(crate) fn collect_errors(&mut self, index: usize) -> bool {
        let Some(socket) = self.sockets.get(index) else {
            return false;
        };
        let before = self.problems.len();
        for _ in 0..MOST_REPORTS {
            let Some(error) = socket.io.next_error() else {
                break;
            };
            let (bound, source) = (socket.bound, error.source);
            let local = if bound.is_unspecified() { source.unwrap_or(bound) } else { bound };
            self.problems.push(match error.kind {
                NetworkErrorKind::LocalMtu(mtu) => {
                    // The system does not quote packets that were never sent, but the caller knows them.
                    let (remote, quoted) = (error.destination.ip(), Start::default());
                    Problem::TooBig { local, remote, mtu, quoted }
                }
                _ => Problem::Network { local, error },
            });
        }
        self.problems.len() > before
    }

    /// Sends a transmit, or queues it until its socket is writable.
    pub(crate) fn send(&mut self, transmit: &Transmit, bytes: &[u8]) {
        let outlet = self.outlet_of(transmit);
        let Some(index) = outlet.or_else(|| self.index_of(transmit.local)) else {
            let (local, remote) = (transmit.local, transmit.remote);
            self.problems.push(Problem::SendFailed { local, remote, quoted: start(bytes) });
            return;
        };
        let sent = match self.sockets.get(index) {
            // A packet that uses the separate buffer need not wait for the socket's own.
            Some(socket) if socket.waiting.is_empty() || transmit.unverified => {
                self.try_send(index, transmit, bytes)
            }
            _ => 0,
        };
        if sent < bytes.len() {
            self.keep(index, transmit, &bytes[sent..]);
        }
    }

    /// Sends until the socket blocks. Returns the number of bytes that need no further attempt.
    fn try_send(&mut self, index: usize, transmit: &Transmit, bytes: &[u8]) -> usize {
        let segment_size = transmit.segment_size.max(1);
        let mut done = 0;
        let mut one_by_one = false;
        let mut retried = false;
        let destination = self.destination(transmit);
        while done < bytes.len() {
            let Some(socket) = self.sockets.get(index) else {
                return bytes.len();
            };
            let most = if one_by_one { 1 } else { socket.io.max_segments().max(1) };
            let segments = most.min(MOST_BYTES / segment_size).max(1);
            let end = bytes.len().min(done + segments * segment_size);
            let contents = &bytes[done..end];
            let datagrams = Datagrams {
                // The system has chosen a source for an outlet.
                source: (socket.bound.is_unspecified() || socket.outlet.is_some())
                    .then_some(transmit.local),
                destination,
                ecn: transmit.ecn,
                segment_size,
                may_fragment: !transmit.dont_fragment,
                contents,
            };
            let count = contents.len().div_ceil(segment_size) as u64;
            let sent = match transmit.unverified {
                true => socket.io.try_send_apart(&datagrams),
                false => socket.io.try_send(&datagrams),
            };
            match sent {
                Ok(taken) => {
                    self.statistics.datagrams_sent += taken.div_ceil(segment_size) as u64;
                    self.statistics.send_calls += 1;
                    // Skip at least one datagram, so that the loop ends.
                    done = end.min(done + taken.max(segment_size));
                    retried = false;
                    continue;
                }
                Err(TransmitError::WouldBlock) => return done,
                Err(TransmitError::Segmentation) => {
                    one_by_one = true;
                    continue;
                }
                Err(TransmitError::Dropped) => {
                    self.statistics.datagrams_dropped += count;
                    (done, retried) = (end, false);
                }
                Err(error) => {
                    // The error may be that of a datagram sent earlier.
                    if self.collect_errors(index) && !retried && !self.local_mtu_reported() {
                        retried = true;
                        continue;
                    }
                    if matches!(error, TransmitError::Failed(_))
                        && let Some(main) = self.instead_of_outlet(index, transmit)
                    {
                        return done + self.try_send(main, transmit, &bytes[done..]);
                    }
                    let first = &contents[..segment_size.min(contents.len())];
                    self.note_failure(transmit, first, error);
                    self.statistics.send_errors += count;
                    (done, retried) = (end, false);
                }
            }
        }
        done
    }

    /// The socket to use from now on if this one is an outlet, which failed.
    fn instead_of_outlet(&mut self, index: usize, transmit: &Transmit) -> Option<usize> {
        self.sockets.get(index)?.outlet.as_ref()?;
        self.avoid_outlet(transmit);
        self.index_of(transmit.local)
    }

    /// Whether the latest report says that a datagram did not fit this host's interface.
    fn local_mtu_reported(&self) -> bool {
        matches!(self.problems.last(), Some(Problem::TooBig { .. }))
    }

    /// Records that sending failed; `packet` is the first one that could not be sent.
    fn note_failure(&mut self, transmit: &Transmit, packet: &[u8], error: TransmitError) {
        let (local, remote) = (transmit.local, transmit.remote);
        match error {
            TransmitError::TooBig => {
                if let Some(Problem::TooBig { quoted, .. }) = self.problems.last_mut() {
                    if *quoted == Start::default() {
                        *quoted = start(packet);
                    }
                    return;
                }
                // The MTU is unknown, so assume one byte less.
                let headers = self.encapsulation.overhead(remote);
                let mtu = u16::try_from(packet.len() + headers - 1).unwrap_or(u16::MAX);
                let quoted = start(packet);
                self.problems.push(Problem::TooBig { local, remote, mtu, quoted });
            }
            TransmitError::Failed(error) => {
                tracing::debug!(name: "transport:send_failed", %local, %remote, %error);
                let quoted = start(packet);
                self.problems.push(Problem::SendFailed { local, remote, quoted });
            }
            TransmitError::WouldBlock | TransmitError::Segmentation | TransmitError::Dropped => {}
        }
    }

    fn keep(&mut self, index: usize, transmit: &Transmit, bytes: &[u8]) {
        let Some(socket) = self.sockets.get_mut(index) else {
            return;
        };
        if socket.waiting_bytes + bytes.len() > MOST_WAITING {
            let lost = bytes.len().div_ceil(transmit.segment_size.max(1));
            self.statistics.datagrams_dropped += lost as u64;
            return;
        }
        socket.waiting_bytes += bytes.len();
        let bytes = bytes.to_vec();
        socket.waiting.push_back(Waiting { transmit: *transmit, bytes });
    }

    /// Sends queued packets of sockets that are writable again. Returns whether a socket must be tried
    /// again soon, because it was reported writable but blocked.
    pub(crate) fn flush(&mut self, cx: &mut Context<'_>) -> bool {
        let mut soon = false;
        for index in 0..self.sockets.len() {
            while let Some(socket) = self.sockets.get_mut(index) {
                if socket.waiting.is_empty() {
                    break;
                }
                if socket.io.poll_writable(cx).is_pending() {
                    socket.false_alarms = 0;
                    break;
                }
                // After an asynchronous error some systems report a socket as writable forever.
                if socket.false_alarms >= 3 {
                    socket.false_alarms = 0;
                    soon = true;
                    break;
                }
                let Some(mut waiting) = socket.waiting.pop_front() else {
                    break;
                };
                socket.waiting_bytes -= waiting.bytes.len();
                let done = self.try_send(index, &waiting.transmit, &waiting.bytes);
                let Some(socket) = self.sockets.get_mut(index) else {
                    break;
                };
                socket.false_alarms = if done == 0 { socket.false_alarms + 1 } else { 0 };
                if done < waiting.bytes.len() {
                    waiting.bytes.drain(..done);
                    socket.waiting_bytes += waiting.bytes.len();
                    socket.waiting.push_front(waiting);
                }
            }
        }
        soon
    }
}

#[cfg(test)]
mod tests;
