//! Floods of packets that anybody can send, while an association works.
//!
//! `cargo test --release -p anabranch --test flood -- --ignored --nocapture` measures what is
//! left of its goodput; on a busy machine the figures for a second of CPU time say more.
#![cfg(target_os = "linux")]

mod common;

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anabranch::{Association, AssociationConfig, OutgoingMessage, Ppid};
use anabranch_wire::{Header, PacketWriter, kind};
use common::{PORT, Pair, V4, V6, pattern, soon};

/// Different packets of a flood.
const PACKETS: u32 = 1024;

/// What a flood consists of.
#[derive(Clone, Copy, Debug)]
enum Flood {
    /// INIT from many ports.
    Init,
    /// COOKIE ECHO with cookies that nobody has made.
    Cookie,
    /// DATA with verification tags of nobody.
    Tag,
    /// Random bytes.
    Random,
}

const FLOODS: [Flood; 4] = [Flood::Init, Flood::Cookie, Flood::Tag, Flood::Random];

fn packet(flood: Flood, number: u32, peer_port: u16) -> Vec<u8> {
    let random = pattern(1000, u64::from(number) + 1);
    let tag = u32::from_be_bytes([random[0], random[1], random[2], random[3]]) | 1;
    let (source_port, verification_tag) = match flood {
        Flood::Init => (1024 + number as u16, 0),
        Flood::Cookie => (1024 + number as u16, tag),
        Flood::Tag => (peer_port, tag),
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
        _ => (kind::DATA, 3, random),
    };
    writer.raw(kind, flags, &value).unwrap();
    writer.finish();
    bytes
}

/// Somebody who sends as fast as possible.
struct Flooder {
    sent: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Flooder {
    /// Floods the server of a pair; returns when a good part is under way.
    fn start(flood: Flood, pair: &Pair) -> Self {
        let to = (pair.server.local_addresses()[0], pair.server.udp_port());
        let peer_port = pair.near.ports().unwrap().0;
        let packets: Vec<_> = (0..PACKETS).map(|n| packet(flood, n, peer_port)).collect();
        let socket = UdpSocket::bind((to.0, 0)).unwrap();
        let (sent, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (counter, stopped) = (sent.clone(), stop.clone());
        let thread = std::thread::spawn(move || {
            for packet in packets.iter().cycle() {
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
                let _ = socket.send_to(packet, to);
                counter.fetch_add(1, Ordering::Relaxed);
            }
        });
        let flooder = Self { sent, stop, thread: Some(thread) };
        while flooder.sent.load(Ordering::Relaxed) < 20_000 {
            std::thread::yield_now();
        }
        flooder
    }
}

impl Drop for Flooder {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}

async fn transfer(from: &Association, to: &Association, messages: u32) {
    let data = pattern(16_384, 7);
    let send = async {
        for number in 0..messages {
            let message = OutgoingMessage::new(0, Ppid(number), data.clone());
            from.send(message).await.unwrap();
        }
    };
    let receive = async {
        for number in 0..messages {
            let message = to.recv().await.unwrap().unwrap();
            assert!(message.ppid == Ppid(number) && message.payload == *data);
        }
    };
    tokio::join!(send, receive);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_arrives_during_floods() {
    soon(async {
        for address in [V4, V6] {
            let pair = Pair::new(&[address]).await;
            for flood in FLOODS {
                let flooder = tokio::task::block_in_place(|| Flooder::start(flood, &pair));
                transfer(&pair.near, &pair.far, 100).await;
                transfer(&pair.far, &pair.near, 100).await;
                drop(flooder);
            }
            let statistics = pair.server.statistics();
            assert_eq!(statistics.associations, 1, "{statistics:?}");
        }
    })
    .await;
}

/// CPU time of this thread, in seconds.
fn cpu() -> f64 {
    let clock = nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID;
    let now = nix::time::clock_gettime(clock).unwrap();
    now.tv_sec() as f64 + now.tv_nsec() as f64 / 1e9
}

/// MB/s and MB for each second of CPU time from `from` to `to`, for two seconds.
async fn goodput(from: &Association, to: &Association) -> (f64, f64) {
    let data = bytes::Bytes::from(pattern(16_384, 7));
    let sending = from.clone();
    let sender = tokio::spawn(async move {
        while sending.send(OutgoingMessage::new(0, Ppid(0), data.clone())).await.is_ok() {}
    });
    let (begun, before, mut bytes) = (Instant::now(), cpu(), 0);
    while begun.elapsed() < Duration::from_secs(2) {
        bytes += to.recv().await.unwrap().unwrap().payload.len();
    }
    let megabytes = bytes as f64 / 1e6;
    sender.abort();
    (megabytes / begun.elapsed().as_secs_f64(), megabytes / (cpu() - before))
}

#[test]
#[ignore = "a measurement"]
fn goodput_during_floods() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        println!("flood   towards   packets/s | MB/s alone flooded share | per CPU s: the same");
        for flood in FLOODS {
            for receiving in [true, false] {
                let default = AssociationConfig::default;
                let pair = Pair::with(&[V4], default(), default()).await;
                let (from, to) =
                    if receiving { (&pair.near, &pair.far) } else { (&pair.far, &pair.near) };
                let alone = goodput(from, to).await;
                let flooder = Flooder::start(flood, &pair);
                let before = flooder.sent.load(Ordering::Relaxed);
                let flooded = goodput(from, to).await;
                let rate = (flooder.sent.load(Ordering::Relaxed) - before) / 2;
                drop(flooder);
                let name = format!("{flood:?}");
                let whom = if receiving { "receiver" } else { "sender" };
                print!("{name:<8}{whom:<9}{rate:>10}");
                for (alone, flooded) in [(alone.0, flooded.0), (alone.1, flooded.1)] {
                    print!(" |{alone:>9.1}{flooded:>9.1}{:>7.2}", flooded / alone);
                }
                println!();
            }
        }
    });
}
