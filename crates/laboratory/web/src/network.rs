//! Two hosts and the paths between them.

use std::net::{IpAddr, Ipv4Addr};
use std::task::Waker;

use anabranch_impair::pattern::Facts;
use anabranch_impair::{ConfigError, Link, LinkConfig, LinkStats, Packet, Rng};
use bytes::Bytes;

use crate::sockets::Sockets;
use crate::tcp::Connections;

/// Bytes of an IPv4 header.
const IP_HEADER: usize = 20;

/// Bytes of a UDP header.
const UDP_HEADER: usize = 8;

/// An end of all paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Host {
    Client,
    Server,
}

impl Host {
    pub(crate) const BOTH: [Self; 2] = [Self::Client, Self::Server];

    pub(crate) fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }

    /// Its address on the first path, which is the only one of TCP and QUIC.
    pub(crate) fn address(self) -> IpAddr {
        self.address_on(0)
    }

    /// Its address on a path. Each path has a network of its own (RFC 5737, RFC 2544).
    pub(crate) fn address_on(self, path: u8) -> IpAddr {
        let last = match self {
            Self::Client => 1,
            Self::Server => 2,
        };
        match path {
            0 => Ipv4Addr::new(192, 0, 2, last).into(),
            path => Ipv4Addr::new(198, 18, path, last).into(),
        }
    }
}

/// The contents of a packet.
#[derive(Clone, Debug)]
pub(crate) enum Payload {
    /// An SCTP packet, as IP protocol 132.
    Sctp(Bytes),
    /// A segment for a TCP connection's end with this number.
    Tcp { end: usize, segment: Bytes },
    /// A QUIC datagram, and whether its checksum is still valid.
    Udp { datagram: Bytes, is_whole: bool },
}

/// A packet in flight.
#[derive(Clone, Debug)]
pub(crate) struct Frame(Payload);

impl Frame {
    fn bytes(&self) -> &Bytes {
        match &self.0 {
            Payload::Sctp(bytes)
            | Payload::Tcp { segment: bytes, .. }
            | Payload::Udp { datagram: bytes, .. } => bytes,
        }
    }

    /// Corrupts the bytes that a receiver sees. Encrypted bytes differ from run to run, so a
    /// datagram is not changed itself and only gets a wrong UDP checksum.
    fn spoil(&mut self, change: impl FnOnce(&mut Bytes) -> bool) -> bool {
        match &mut self.0 {
            Payload::Sctp(bytes) | Payload::Tcp { segment: bytes, .. } => change(bytes),
            Payload::Udp { datagram, is_whole } => {
                let is_changed = change(&mut datagram.clone());
                *is_whole &= !is_changed;
                is_changed
            }
        }
    }

    /// Its identity for the hash, which is the same in each run.
    fn identity(&self) -> Bytes {
        match &self.0 {
            Payload::Sctp(bytes) | Payload::Tcp { segment: bytes, .. } => bytes.clone(),
            Payload::Udp { datagram, .. } => {
                Bytes::copy_from_slice(&(datagram.len() as u64).to_be_bytes())
            }
        }
    }
}

impl Packet for Frame {
    const HAS_FACTS: bool = true;

    fn facts(&self) -> Option<Facts> {
        match &self.0 {
            Payload::Sctp(bytes) => Some(Facts::of_sctp(bytes)),
            Payload::Tcp { .. } | Payload::Udp { .. } => None,
        }
    }

    fn flip(&mut self, bit: i64) -> bool {
        self.spoil(|bytes| bytes.flip(bit))
    }

    fn size(&self) -> usize {
        let is_udp = matches!(self.0, Payload::Udp { .. });
        self.bytes().len() + IP_HEADER + if is_udp { UDP_HEADER } else { 0 }
    }

    fn corrupt(&mut self, rng: &mut Rng) -> bool {
        self.spoil(|bytes| bytes.corrupt(rng))
    }

    fn duplicate(&self) -> Option<Self> {
        Some(self.clone())
    }
}

/// The paths with the sockets at their ends.
#[derive(Debug)]
pub(crate) struct Network {
    wires: Wires,
    /// On each path.
    pub(crate) sctp: Vec<Sockets>,
    /// On the first path.
    pub(crate) udp: Sockets,
    pub(crate) tcp: Connections,
}

/// A path: the links from the client and from the server.
pub(crate) type PathConfig = [LinkConfig; 2];

/// The links of all paths.
#[derive(Debug)]
pub(crate) struct Wires {
    /// On each path, the links from the client and from the server.
    paths: Vec<[Link<Frame>; 2]>,
    /// Bytes that the client received, if they are counted.
    meter: Option<Meter>,
    /// A hash of all offered packets with their times; for encrypted packets, only of their length.
    trace: u64,
    /// Packets sent with INIT and COOKIE ECHO, and with INIT ACK and COOKIE ACK.
    handshakes: [[u64; 2]; 2],
}

/// Counts the bytes of IP packets that reached the client, by path and time.
#[derive(Debug)]
struct Meter {
    /// Length of an interval in nanoseconds.
    interval: u64,
    /// For each path, the bytes in each interval until the last one with a packet.
    carried: Vec<Vec<u64>>,
}

impl Meter {
    fn count(&mut self, now: u64, path: usize, bytes: usize) {
        let Some(carried) = self.carried.get_mut(path) else { return };
        let at = usize::try_from(now / self.interval).unwrap_or(usize::MAX);
        if at >= carried.len() {
            carried.resize(at.saturating_add(1), 0);
        }
        carried[at] += bytes as u64;
    }
}

/// FNV-1a, which is the same on every machine.
const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

impl Wires {
    /// Sends a packet from a host over the first path.
    pub(crate) fn send(&mut self, now: u64, from: Host, payload: Payload) {
        self.send_over(now, from, 0, payload);
    }

    /// Sends a packet from a host over a path.
    fn send_over(&mut self, now: u64, from: Host, path: u8, payload: Payload) {
        let frame = Frame(payload);
        let link = (path << 1) | from as u8;
        let head = now.to_be_bytes().into_iter().chain([link]);
        for byte in head.chain(frame.identity()) {
            self.trace = (self.trace ^ u64::from(byte)).wrapping_mul(FNV_PRIME);
        }
        if let Payload::Sctp(packet) = &frame.0 {
            // The first chunk of a handshake packet (RFC 9260 section 3.2).
            let kind = match packet.get(12) {
                Some(1 | 2) => Some(0),
                Some(10 | 11) => Some(1),
                _ => None,
            };
            if let Some(kind) = kind {
                self.handshakes[from as usize][kind] += 1;
            }
        }
        if let Some(links) = self.paths.get_mut(usize::from(path)) {
            // The sender does not notice losses on the link.
            let _ = links[from as usize].send(now, frame);
        }
    }
}

impl Network {
    /// Paths whose directions are the links from the client and from the server. At most 127.
    pub(crate) fn new(paths: &[PathConfig], seed: u64) -> Result<Self, ConfigError> {
        // Streams 3 to 7 are those of the endpoints.
        let streams = |path: u64| if path == 0 { [1, 2] } else { [6 + 2 * path, 7 + 2 * path] };
        let links = (0..).zip(paths).map(|(path, [up, down])| {
            let seeds = streams(path).map(|stream| Rng::stream(seed, stream).next_u64());
            Ok([Link::new(up.clone(), seeds[0])?, Link::new(down.clone(), seeds[1])?])
        });
        let paths = links.collect::<Result<Vec<_>, ConfigError>>()?;
        let sctp = paths.iter().map(|_| Sockets::default()).collect();
        let wires = Wires { paths, meter: None, trace: FNV_OFFSET, handshakes: [[0; 2]; 2] };
        Ok(Self { wires, sctp, udp: Sockets::default(), tcp: Connections::new(seed) })
    }

    /// The numbers of the paths.
    pub(crate) fn paths(&self) -> impl Iterator<Item = u8> + use<> {
        0..u8::try_from(self.sctp.len()).unwrap_or(u8::MAX)
    }

    /// From now on, counts what the client receives in intervals of this many nanoseconds.
    pub(crate) fn meter(&mut self, interval: u64) {
        let carried = vec![Vec::new(); self.wires.paths.len()];
        self.wires.meter = Some(Meter { interval: interval.max(1), carried });
    }

    /// For each path, the bytes of IP packets that the client received in each interval, up to the last one with a
    /// packet. Empty if they are not counted.
    pub(crate) fn carried(&self) -> Vec<Vec<u64>> {
        self.wires.meter.as_ref().map_or_else(Vec::new, |meter| meter.carried.clone())
    }

    pub(crate) fn send_sctp(&mut self, now: u64, from: Host, path: u8, packet: Bytes) {
        self.wires.send_over(now, from, path, Payload::Sctp(packet));
    }

    pub(crate) fn send_udp(&mut self, now: u64, from: Host, datagram: Bytes) {
        self.wires.send(now, from, Payload::Udp { datagram, is_whole: true });
    }

    /// Both parts at the same time, for TCP.
    pub(crate) fn tcp_and_wires(&mut self) -> (&mut Connections, &mut Wires) {
        (&mut self.tcp, &mut self.wires)
    }

    pub(crate) fn next_deadline(&self) -> Option<u64> {
        let links = self.wires.paths.iter().flatten().filter_map(Link::next_deadline).min();
        [links, self.tcp.next_deadline()].into_iter().flatten().min()
    }

    /// Delivers the packets that have arrived, and expires TCP's timers.
    pub(crate) fn arrive(&mut self, now: u64, woken: &mut Vec<Waker>) {
        for path in 0..self.wires.paths.len() {
            for from in Host::BOTH {
                while let Some(frame) = self.wires.paths[path][from as usize].poll(now) {
                    if from == Host::Server
                        && let Some(meter) = &mut self.wires.meter
                    {
                        meter.count(now, path, frame.size());
                    }
                    self.deliver(now, path, from, frame.0, woken);
                }
            }
        }
        self.tcp.expire(now, &mut self.wires, woken);
    }

    fn deliver(
        &mut self,
        now: u64,
        path: usize,
        from: Host,
        payload: Payload,
        woken: &mut Vec<Waker>,
    ) {
        match payload {
            Payload::Sctp(packet) => self.sctp[path].deliver(from.other(), packet, woken),
            Payload::Udp { datagram, is_whole: true } => {
                self.udp.deliver(from.other(), datagram, woken);
            }
            Payload::Udp { is_whole: false, .. } => {}
            Payload::Tcp { end, segment } => {
                self.tcp.deliver(now, &mut self.wires, end, segment, woken);
            }
        }
    }

    /// Counters of the link from a host on the first path.
    pub(crate) fn link(&self, from: Host) -> LinkStats {
        self.wires
            .paths
            .first()
            .map_or_else(LinkStats::default, |links| *links[from as usize].stats())
    }

    /// Repeated packets of the SCTP handshake, for each sending host.
    pub(crate) fn handshakes_resent(&self) -> [u64; 2] {
        let resent = |sent: [u64; 2]| sent.iter().map(|sent| sent.saturating_sub(1)).sum();
        self.wires.handshakes.map(resent)
    }

    /// A hash of all packets and their times.
    pub(crate) fn trace(&self) -> u64 {
        self.wires.trace
    }
}
