//! Floods of packets that any host can send.
#![allow(dead_code)]

use std::net::{IpAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anabranch_wire::{Header, PacketWriter, kind};

use crate::common::{PORT, Pair, pattern};

/// Number of different packets in a flood.
pub(crate) const PACKETS: u32 = 1024;

/// The packets of a flood.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Flood {
    /// INIT from many ports.
    Init,
    /// COOKIE ECHO with invented cookies.
    Cookie,
    /// DATA with invented verification tags.
    Tag,
    /// Random bytes.
    Random,
    /// ABORT with invented verification tags.
    Abort,
}

pub(crate) const FLOODS: [Flood; 5] =
    [Flood::Init, Flood::Cookie, Flood::Tag, Flood::Random, Flood::Abort];

fn packet(flood: Flood, number: u32, peer_port: u16) -> Vec<u8> {
    let random = pattern(1000, u64::from(number) + 1);
    let tag = u32::from_be_bytes([random[0], random[1], random[2], random[3]]) | 1;
    let (source_port, verification_tag) = match flood {
        Flood::Init => (1024 + number as u16, 0),
        Flood::Cookie => (1024 + number as u16, tag),
        Flood::Tag | Flood::Abort => (peer_port, tag),
        Flood::Random => return random,
    };
    let header = Header { source_port, destination_port: PORT, verification_tag };
    let mut bytes = Vec::new();
    let mut writer = PacketWriter::new(&mut bytes, header, 1400);
    let (kind, flags, value) = match flood {
        Flood::Init => {
            // Initiate tag, window, streams, initial TSN.
            let rest = [&[0, 1, 0, 0, 0, 10, 0, 10], &random[4..8]].concat();
            (kind::INIT, 0, [&tag.to_be_bytes()[..], &rest].concat())
        }
        Flood::Cookie => (kind::COOKIE_ECHO, 0, [&[0; 4], &random[..140]].concat()),
        Flood::Abort => (kind::ABORT, 0, Vec::new()),
        _ => (kind::DATA, 3, random),
    };
    writer.raw(kind, flags, &value).unwrap();
    writer.finish();
    bytes
}

/// A sender that floods as fast as possible.
pub(crate) struct Flooder {
    pub(crate) sent: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Flooder {
    /// Floods the server of a pair; returns when the flood has begun.
    pub(crate) fn start(flood: Flood, pair: &Pair) -> Self {
        let to = (pair.server.local_addresses()[0], pair.server.udp_port());
        let flooder = Self::towards(flood, to, pair.near.ports().0, None);
        while flooder.sent.load(Ordering::Relaxed) < 20_000 {
            std::thread::yield_now();
        }
        flooder
    }

    /// Floods an endpoint whose association has a peer with this port; if the rate is limited, with this
    /// many packets per second.
    pub(crate) fn towards(
        flood: Flood,
        to: (IpAddr, u16),
        peer_port: u16,
        rate: Option<u32>,
    ) -> Self {
        let packets = (0..PACKETS).map(|n| packet(flood, n, peer_port)).collect();
        Self::with(packets, to, &[to.0], rate)
    }

    /// Floods an address with these packets in turn, for ever, from these addresses in turn.
    pub(crate) fn with(
        packets: Vec<Vec<u8>>,
        to: (IpAddr, u16),
        from: &[IpAddr],
        rate: Option<u32>,
    ) -> Self {
        let bind = |from: &IpAddr| UdpSocket::bind((*from, 0)).unwrap();
        let sockets: Vec<_> = from.iter().map(bind).collect();
        let (sent, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (counter, stopped) = (sent.clone(), stop.clone());
        let thread = std::thread::spawn(move || {
            let begun = Instant::now();
            let packets = packets.iter().cycle().zip(sockets.iter().cycle());
            for (number, (packet, socket)) in (0_u32..).zip(packets) {
                let due = rate.map(|rate| Duration::from_secs(1) * number / rate);
                while due.is_some_and(|due| begun.elapsed() < due) {
                    std::thread::yield_now();
                }
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
                let _ = socket.send_to(packet, to);
                counter.fetch_add(1, Ordering::Relaxed);
            }
        });
        Self { sent, stop, thread: Some(thread) }
    }
}

impl Drop for Flooder {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}
