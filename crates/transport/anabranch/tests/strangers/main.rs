//! Floods of packets that any host can send, in virtual time: which associations are set up, which
//! packets are lost, and how often the driver's task runs.

mod peer;
mod world;

use std::time::Duration;

use anabranch_wire::{Header, PacketWriter, kind};
use peer::Peer;
use world::{Flood, World};

const PORT: u16 = 5000;

/// A packet of a flood, by its number.
pub(crate) type Packet = fn(u64) -> Vec<u8>;

/// A number that depends on another one.
fn scatter(number: u64) -> u32 {
    ((number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32
}

fn packet(number: u64, tag: u32, kind: u8, value: &[u8]) -> Vec<u8> {
    let source_port = 1024 + (number % 60_000) as u16;
    let header = Header { source_port, destination_port: PORT, verification_tag: tag };
    let mut bytes = Vec::new();
    let mut writer = PacketWriter::new(&mut bytes, header, 1400);
    writer.raw(kind, 0, value).unwrap();
    writer.finish();
    bytes
}

fn init(number: u64) -> Vec<u8> {
    let rest = [0, 1, 0, 0, 0, 10, 0, 10, 0, 0, 0, 1];
    packet(number, 0, kind::INIT, &[&(scatter(number) | 1).to_be_bytes()[..], &rest].concat())
}

fn abort(number: u64) -> Vec<u8> {
    packet(number, scatter(number) | 1, kind::ABORT, &[])
}

fn data(number: u64) -> Vec<u8> {
    packet(number, scatter(number) | 1, kind::DATA, &[0; 16])
}

/// A server, and a flood from now on for this time.
fn flooded(packet: Packet, rate: u64, time: Duration) -> World {
    let mut world = World::new();
    world.run(Duration::from_millis(10));
    let from = world.now();
    world.flood = Some(Flood { from, until: from + time, rate, packet });
    world
}

#[test]
fn what_a_processor_can_answer_is_answered() {
    for rate in [1_000, 6_000, 20_000, 60_000] {
        let mut world = flooded(init, rate, Duration::from_secs(1));
        world.run(Duration::from_millis(1010));
        assert_eq!((world.flooded, world.refused), (rate, 0));
        let answers = world.machine.lock().sent.len() as u64;
        assert_eq!(answers, rate, "INITs answered of {rate} in a second");
    }
}

#[test]
fn newcomers_connect_at_once_during_a_flood() {
    let floods: [(&str, Packet, u64); 4] = [
        ("INIT", init, 20_000),
        ("INIT", init, 60_000),
        ("ABORT", abort, 1_000_000),
        ("DATA", data, 1_000_000),
    ];
    for (name, packet, rate) in floods {
        let mut world = flooded(packet, rate, Duration::from_secs(1));
        world.run(Duration::from_millis(100));
        let mut peer = Peer::new();
        for number in 1..=50 {
            peer.connect(&mut world);
            peer.run(&mut world, Duration::from_millis(10));
            // One INIT and one COOKIE ECHO are all that it took.
            assert_eq!(peer.connected, number, "{name} at {rate}/s");
            assert_eq!(peer.lost, 0, "{name} at {rate}/s");
        }
    }
}

#[test]
fn an_association_set_up_after_a_flood_works_at_once() {
    let mut world = flooded(abort, 50_000, Duration::from_secs(3));
    world.run(Duration::from_secs(3));
    let mut peer = Peer::new();
    for second in 0..15 {
        peer.connect(&mut world);
        peer.run(&mut world, Duration::from_millis(5));
        let association = *peer.associations.last().unwrap();
        assert_eq!(peer.connected, second + 1);
        for message in 0..10 {
            peer.send(&world, association);
            peer.run(&mut world, Duration::from_millis(50));
            assert_eq!(peer.repeated(association), 0, "message {message} in second {second}");
        }
        peer.run(&mut world, Duration::from_millis(495));
    }
}

#[test]
fn nothing_is_done_after_a_flood() {
    let mut world = flooded(abort, 100_000, Duration::from_millis(20));
    world.run(Duration::from_secs(2));
    let mut peer = Peer::new();
    peer.connect(&mut world);
    peer.run(&mut world, Duration::from_secs(1));
    assert_eq!(peer.connected, 1);
    let turns = world.turns;
    peer.run(&mut world, Duration::from_secs(10));
    // Heartbeats come every thirty seconds.
    assert!(world.turns - turns < 20, "{} turns", world.turns - turns);
}

#[test]
fn any_number_of_associations_is_kept_apart_from_a_flood() {
    for number in [100, 200, 1000] {
        let mut world = World::new();
        let mut peer = Peer::new();
        for _ in 0..number {
            peer.connect(&mut world);
            peer.run(&mut world, Duration::from_micros(200));
        }
        peer.run(&mut world, Duration::from_secs(1));
        assert_eq!(peer.connected, number);
        let from = world.now();
        let until = from + Duration::from_secs(1);
        world.flood = Some(Flood { from, until, rate: 1_000_000, packet: data });
        for round in 0..3 {
            for association in peer.associations.clone() {
                peer.send(&world, association);
                peer.run(&mut world, Duration::from_micros(100));
            }
            peer.run(&mut world, Duration::from_millis(1));
            let associations = &peer.associations;
            let repeated: u64 = associations.iter().map(|id| peer.repeated(*id)).sum();
            assert_eq!((peer.lost, repeated), (0, 0), "{number} associations, round {round}");
        }
        // There was a flood.
        assert!(world.refused > 10_000, "{}", world.refused);
        peer.run(&mut world, Duration::from_secs(1));
        assert!(peer.associations.iter().all(|id| peer.is_acknowledged(*id)));
    }
}
