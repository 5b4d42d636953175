//! Packets that try to make the target send more than it received, or send to others.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use anabranch_harness::hostile::{Draft, Target};
use anabranch_impair::Rng;
use anabranch_proto::{AssociationConfig, AssociationId, OutgoingMessage, PathState, Ppid};
use anabranch_wire::{DataFlags, kind};

use crate::{Attack, Memory, attack, figure, quiet};

const WHOLE: u8 = DataFlags::BEGIN | DataFlags::END;

/// The largest UDP packet over IPv4 on Ethernet.
const PACKET: usize = 1472;

fn victims() -> Vec<IpAddr> {
    (1..=100).map(|host| Ipv4Addr::new(10, 8, 0, host).into()).collect()
}

pub(crate) fn all() -> Vec<Attack> {
    vec![
        address_list(),
        bulk_with_address_list(),
        silence_with_address_list(),
        guessed_confirmations(),
        bundled("1,000 packets of 360 empty HEARTBEATs", |packet| {
            (0..360).fold(packet, |packet, _| packet.with(kind::HEARTBEAT, 0, []))
        }),
        bundled("1,000 packets of 120 HEARTBEATs", |packet| {
            (0..120)
                .fold(packet, |packet, _| packet.with(kind::HEARTBEAT, 0, [0, 1, 0, 8, 1, 2, 3, 4]))
        }),
        bundled("1,000 packets of 360 unknown chunks that want a report", |packet| {
            (0..360).fold(packet, |packet, _| packet.with(0xfe, 0, []))
        }),
        bundled("1,000 packets of 70 DATA chunks on streams that do not exist", |packet| {
            let data = |number: u8| {
                // TSNs with gaps: whether a chunk is refused or accepted makes no difference.
                let mut value = vec![0, 0, 0, number + 2, 0xff, 0xff, 0, 0, 0, 0, 0, 0];
                value.push(1);
                value
            };
            (0..70).fold(packet, |packet, number| packet.with(kind::DATA, WHOLE, data(number)))
        }),
        bundled(
            "1,000 packets of 300 COOKIE ACKs, SHUTDOWN ACKs and ERRORs out of place",
            |packet| {
                (0..100).fold(packet, |packet, _| {
                    let packet = packet.with(kind::COOKIE_ACK, 0, []);
                    packet.with(kind::SHUTDOWN_ACK, 0, []).with(kind::ERROR, 0, [])
                })
            },
        ),
        heartbeats_from_elsewhere(),
        reports_of_marks(),
    ]
}

/// RFC 5062: a list of unrelated addresses, which receive only one heartbeat after another.
fn address_list() -> Attack {
    let (mut target, _) = Target::connected(AssociationConfig::default(), &victims());
    let (mut packets, mut bytes) = (0, 0);
    target.pass(Duration::from_secs(600), |_, sent| {
        if sent.to != Target::THERE {
            packets += 1;
            bytes += sent.bytes.len();
        }
    });
    attack(
        "an INIT that lists 100 strangers, and ten silent minutes",
        [
            figure("packets to strangers", 600, packets),
            figure("bytes to strangers", 600 * 64, bytes),
        ],
    )
}

/// The attacker requests much data and acknowledges all of it.
fn bulk_with_address_list() -> Attack {
    let mut config = AssociationConfig::default();
    config.sending.send_buffer = 1 << 24;
    config.sending.send_buffer_start = None;
    let (mut target, id) = Target::connected(config, &victims());
    let now = target.now;
    for _ in 0..100 {
        let message = OutgoingMessage::new(0, Ppid(0), vec![7; 100_000]);
        target.association(id).send(now, message).expect("room");
    }
    let (mut chunks, mut strangers, mut data) = (0, 0, 0);
    while target.association(id).pending_bytes() > 0 {
        target.pass(Duration::from_millis(10), |_, sent| {
            if sent.to == Target::THERE {
                let draft = Draft::read(&sent.bytes).expect("a packet");
                chunks += draft.chunks.iter().filter(|chunk| chunk.kind == kind::DATA).count();
            } else {
                strangers += 1;
                data += usize::from(sent.has(kind::DATA));
            }
        });
        let sack = target.sack(u32::try_from(chunks).expect("few"), 1 << 20);
        target.take(Target::THERE, &sack);
    }
    attack(
        "10 MB for a peer that listed 100 strangers and acknowledges all",
        [
            figure("packets with data to strangers", 0, data),
            figure("other packets to strangers", 100, strangers),
        ],
    )
}

/// The attacker requests much data and stops answering, so that every path fails.
fn silence_with_address_list() -> Attack {
    let (mut target, id) = Target::connected(AssociationConfig::default(), &victims());
    let now = target.now;
    for _ in 0..10 {
        let message = OutgoingMessage::new(0, Ppid(0), vec![7; 100_000]);
        target.association(id).send(now, message).expect("room");
    }
    let (mut packets, mut data) = (0, 0);
    while target.endpoint.association(id).is_some_and(|a| !a.is_closed()) {
        target.pass(Duration::from_secs(1), |_, sent| {
            if sent.to != Target::THERE {
                packets += 1;
                data += usize::from(sent.has(kind::DATA));
            }
        });
    }
    attack(
        "1 MB for a peer that listed 100 strangers and falls silent",
        [
            figure("packets with data to strangers", 0, data),
            figure("other packets to strangers", 600, packets - data),
        ],
    )
}

/// HEARTBEAT ACKs for addresses that the attacker does not have.
fn guessed_confirmations() -> Attack {
    let (mut target, id) = Target::connected(AssociationConfig::default(), &victims());
    let mut template = None;
    target.pass(Duration::from_secs(3), |_, sent| {
        if sent.to == Target::THERE && sent.has(kind::HEARTBEAT) {
            template = Draft::read(&sent.bytes).map(|draft| draft.chunks[0].value.clone());
        }
    });
    let mut rng = Rng::new(9);
    let template =
        template.unwrap_or_else(|| vec![0, 1, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    let mut memory = Memory::now();
    for number in 0..10_000_u64 {
        let mut value = template.clone();
        value[4..].fill_with(|| rng.next_u64() as u8);
        // The number of a path is not secret.
        value[4] = (number % 16) as u8;
        let packet = target.draft().with(kind::HEARTBEAT_ACK, 0, value);
        target.take(victims()[number as usize % 15], &packet.bytes());
        target.drain();
    }
    // Measure before reading the statistics, which contain a list of paths.
    let held = memory.most();
    let paths = target.association(id).statistics().paths;
    let confirmed = paths[1..].iter().filter(|path| path.state == PathState::Active).count();
    attack(
        "10,000 HEARTBEAT ACKs with guessed nonces for listed strangers",
        [figure("strangers confirmed", 0, confirmed), figure("bytes held", 4096, held)],
    )
}

/// A packet full of chunks that each require a response.
fn bundled(name: &'static str, fill: impl Fn(Draft) -> Draft) -> Attack {
    let (target, id) = Target::connected(quiet(), &[]);
    let packet = fill(target.draft()).bytes();
    repeated(name, target, id, &packet)
}

/// The same packet 1,000 times.
fn repeated(name: &'static str, mut target: Target, id: AssociationId, packet: &[u8]) -> Attack {
    assert!(packet.len() <= PACKET, "{name}: {}", packet.len());
    let mut memory = Memory::now();
    let mut most = 0;
    for _ in 0..1000 {
        target.take(Target::THERE, packet);
        most = most.max(target.sent().iter().map(|sent| sent.bytes.len()).sum());
    }
    assert!(target.association(id).is_established());
    attack(
        name,
        [
            figure("packets sent", 1000, target.work.packets_out),
            figure("bytes for one of them", PACKET as u64, most),
            figure("bytes held", 8192, memory.most()),
        ],
    )
}

/// Reports of a mark of data that is outstanding all the time. They lower the window once, and each packet has one answer.
fn reports_of_marks() -> Attack {
    let (mut target, id) = Target::connected_with_ecn(quiet());
    let now = target.now;
    let message = OutgoingMessage::new(0, Ppid(0), vec![7]);
    target.association(id).send(now, message).expect("room");
    target.drain();
    let tsn = target.tsn.to_be_bytes();
    let echoes = |packet: Draft| (0..180).fold(packet, |all, _| all.with(kind::ECNE, 0, tsn));
    let packet = echoes(target.draft()).bytes();
    target.work.packets_out = 0;
    repeated("1,000 packets of 180 reports of a mark", target, id, &packet)
}

/// The correct tag, from addresses that do not belong to the peer.
fn heartbeats_from_elsewhere() -> Attack {
    let (mut target, id) = Target::connected(quiet(), &[]);
    let packet = target.draft().with(kind::HEARTBEAT, 0, vec![7; 1000]).bytes();
    let mut memory = Memory::now();
    for number in 0..10_000_u32 {
        target.take(Ipv4Addr::from(0x0b00_0000 + number).into(), &packet);
        target.drain();
    }
    assert_eq!(target.association(id).paths().count(), 1);
    attack(
        "10,000 HEARTBEATs of 1,000 bytes with the right tag from strange addresses",
        [
            figure("packets sent", 10_000, target.work.packets_out),
            figure("bytes sent", 160_000, target.work.bytes_out),
            figure("bytes held", 1024, memory.most()),
        ],
    )
}
