//! Two hosts and the path between them.

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

/// An end of the path.
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

    pub(crate) fn address(self) -> IpAddr {
        let last = match self {
            Self::Client => 1,
            Self::Server => 2,
        };
        Ipv4Addr::new(192, 0, 2, last).into()
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

/// The path with the sockets at its ends.
#[derive(Debug)]
pub(crate) struct Network {
    wires: Wires,
    pub(crate) sctp: Sockets,
    pub(crate) udp: Sockets,
    pub(crate) tcp: Connections,
}

/// The links from the client and from the server.
#[derive(Debug)]
pub(crate) struct Wires {
    links: [Link<Frame>; 2],
    /// A hash of all offered packets with their times; for encrypted packets, only of their length.
    trace: u64,
    /// Packets sent with INIT and COOKIE ECHO, and with INIT ACK and COOKIE ACK.
    handshakes: [[u64; 2]; 2],
}

/// FNV-1a, which is the same on every machine.
const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

impl Wires {
    /// Sends a packet from a host.
    pub(crate) fn send(&mut self, now: u64, from: Host, payload: Payload) {
        let frame = Frame(payload);
        let head = now.to_be_bytes().into_iter().chain([from as u8]);
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
        // The sender does not notice losses on the link.
        let _ = self.links[from as usize].send(now, frame);
    }
}

impl Network {
    /// A path whose directions are the links from the client and from the server.
    pub(crate) fn new(up: LinkConfig, down: LinkConfig, seed: u64) -> Result<Self, ConfigError> {
        let seeds = [1, 2].map(|stream| Rng::stream(seed, stream).next_u64());
        let links = [Link::new(up, seeds[0])?, Link::new(down, seeds[1])?];
        let wires = Wires { links, trace: FNV_OFFSET, handshakes: [[0; 2]; 2] };
        let (sctp, udp) = (Sockets::default(), Sockets::default());
        Ok(Self { wires, sctp, udp, tcp: Connections::new(seed) })
    }

    pub(crate) fn send_sctp(&mut self, now: u64, from: Host, packet: Bytes) {
        self.wires.send(now, from, Payload::Sctp(packet));
    }

    pub(crate) fn send_udp(&mut self, now: u64, from: Host, datagram: Bytes) {
        self.wires.send(now, from, Payload::Udp { datagram, is_whole: true });
    }

    /// Both parts at the same time, for TCP.
    pub(crate) fn tcp_and_wires(&mut self) -> (&mut Connections, &mut Wires) {
        (&mut self.tcp, &mut self.wires)
    }

    pub(crate) fn next_deadline(&self) -> Option<u64> {
        let links = self.wires.links.iter().filter_map(Link::next_deadline).min();
        [links, self.tcp.next_deadline()].into_iter().flatten().min()
    }

    /// Delivers the packets that have arrived, and expires TCP's timers.
    pub(crate) fn arrive(&mut self, now: u64, woken: &mut Vec<Waker>) {
        for from in Host::BOTH {
            while let Some(Frame(payload)) = self.wires.links[from as usize].poll(now) {
                match payload {
                    Payload::Sctp(packet) => self.sctp.deliver(from.other(), packet, woken),
                    Payload::Udp { datagram, is_whole: true } => {
                        self.udp.deliver(from.other(), datagram, woken);
                    }
                    Payload::Udp { is_whole: false, .. } => {}
                    Payload::Tcp { end, segment } => {
                        self.tcp.deliver(now, &mut self.wires, end, segment, woken);
                    }
                }
            }
        }
        self.tcp.expire(now, &mut self.wires, woken);
    }

    /// Counters of the link from a host.
    pub(crate) fn link(&self, from: Host) -> LinkStats {
        *self.wires.links[from as usize].stats()
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
