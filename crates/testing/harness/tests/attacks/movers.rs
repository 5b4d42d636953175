//! Attacks on associations whose addresses may change (RFC 5061), those of RFC 5062 among them: by third parties that
//! see and write all packets, and by a peer.

use std::net::IpAddr;
use std::time::Duration;

use anabranch_harness::{Datagram, Pair, addresses, craft};
use anabranch_impair::Rng;
use anabranch_proto::{AssociationConfig, ConnectRequest};
use anabranch_wire::{Auth, Chunk, kind};
use bytes::Bytes;

use crate::{Attack, Memory, attack, figure, quiet};

pub(crate) fn all() -> Vec<Attack> {
    vec![forged(), stolen(), outdated(), bombing(), flapping(), preferring(), wandering()]
}

fn config() -> AssociationConfig {
    quiet().with(|config| {
        config.authentication.authentication = true;
        config.addresses.address_reconfiguration = true;
    })
}

/// A client with two addresses, of which the association uses one, and a server.
fn pair() -> Pair {
    let own = [addresses(0, 2), addresses(1, 1)];
    let mut pair = Pair::with(own.clone(), Default::default(), config());
    let now = pair.net.now();
    pair.net.node_mut(0).endpoint.set_local_addresses(now, &own[0][..1]);
    let mut request = ConnectRequest::new(own[1].clone(), Pair::PORT);
    request.config = std::sync::Arc::new(config());
    pair.connect_with(request);
    pair.run(Duration::from_secs(5));
    assert!(pair.both_up());
    pair.forget();
    pair
}

/// An address of a host that takes no part.
fn other(number: u64) -> IpAddr {
    let [_, _, high, low] = (number as u32).to_be_bytes();
    IpAddr::from([10, 77, high, low])
}

fn paths(pair: &Pair, node: usize) -> u64 {
    pair.statistics(node).paths.len() as u64
}

/// 0 if data passes in both directions, otherwise 1.
fn harmed(pair: &mut Pair) -> u64 {
    pair.received = Default::default();
    let sent = pair.both_up() && pair.send(0, 0, "still here") && pair.send(1, 0, "so am I");
    pair.run(Duration::from_secs(10));
    u64::from(!sent || [0, 1].map(|node| pair.received_len(node)) != [7, 10])
}

/// Passes a packet from any address to the server.
fn deliver(pair: &mut Pair, from: IpAddr, bytes: Bytes) {
    let to = pair.addresses[1][0];
    pair.net.deliver(Datagram { from, to, udp_port: 9899, ecn: None, dont_fragment: false, bytes });
    pair.take();
}

/// Packets of the server to addresses that are not the client's.
fn told(pair: &Pair) -> u64 {
    let own = &pair.addresses[0];
    pair.net
        .trace
        .kept()
        .iter()
        .filter(|(_, packet)| pair.addresses[1].contains(&packet.from) && !own.contains(&packet.to))
        .count() as u64
}

/// The address of every packet is to be added, with the right tag and serial number and a wrong MAC.
fn forged() -> Attack {
    let mut pair = pair();
    let (header, mut rng) = (pair.header(0), Rng::new(5062));
    let mut memory = Memory::now();
    for number in 0..10_000 {
        let mac: Vec<u8> = (0..32).map(|_| rng.next_u64() as u8).collect();
        let packet = craft::packet(header, |packet| {
            packet.chunk(&Chunk::Auth(Auth { shared_key_id: 0, hmac_id: 3, hmac: &mac }))?;
            let add = [0, 5, 0, 8, 10, 0, 0, 1, 0xc0, 1, 0, 16, 0, 0, 0, 0, 0, 5, 0, 8, 0, 0, 0, 0];
            let value = [&(number as u32).to_be_bytes()[..], &add].concat();
            packet.raw(kind::ASCONF, 0, &value)
        });
        deliver(&mut pair, other(number), packet);
    }
    let figures = [
        figure("packets to them", 0, told(&pair)),
        figure("paths added", 0, paths(&pair, 1) - 1),
        figure("bytes held", 65_536, memory.most()),
        figure("associations harmed", 0, harmed(&mut pair)),
    ];
    attack("10,000 forged additions of as many addresses", figures)
}

/// A genuine request that has arrived is sent again from other addresses, to take the association away.
fn stolen() -> Attack {
    let mut pair = pair();
    let (now, new) = (pair.net.now(), pair.addresses[0][1]);
    pair.association_mut(0).add_address(now, new).expect("an address that is not known yet");
    pair.run(Duration::from_secs(2));
    let sent = pair.sent(0).into_iter().map(|(_, bytes)| bytes);
    let requests: Vec<Bytes> = sent.filter(|bytes| craft::has(bytes, kind::ASCONF)).collect();
    let before = paths(&pair, 1);
    pair.forget();
    for number in 0..10_000 {
        deliver(&mut pair, other(number), requests[number as usize % requests.len()].clone());
    }
    let figures = [
        figure("packets to them", 0, told(&pair)),
        figure("paths added", 0, paths(&pair, 1) - before),
        figure("associations harmed", 0, harmed(&mut pair)),
    ];
    attack("10,000 recorded additions from as many other addresses", figures)
}

/// Genuine requests of the past are sent again, in any order, from where they came: additions and removals of an address
/// that the client has by now, and of which data must not move.
fn outdated() -> Attack {
    let mut pair = pair();
    let (own, new) = (pair.addresses[0][0], pair.addresses[0][1]);
    for number in 0..101 {
        let now = pair.net.now();
        let changed = match number % 2 {
            0 => pair.association_mut(0).add_address(now, new),
            _ => pair.association_mut(0).remove_address(now, new),
        };
        changed.expect("an address that is not known yet, or one of two");
        pair.run(Duration::from_secs(2));
    }
    let sent = pair.sent(0).into_iter().map(|(_, bytes)| bytes);
    let requests: Vec<Bytes> = sent.filter(|bytes| craft::has(bytes, kind::ASCONF)).collect();
    assert!(requests.len() > 100, "{} requests", requests.len());
    // The last one would be answered as it was.
    let past = &requests[..requests.len() - 1];
    let before = paths(&pair, 1);
    pair.forget();
    let (mut rng, mut memory) = (Rng::new(5061), Memory::now());
    for _ in 0..10_000 {
        deliver(&mut pair, own, past[rng.next_u64() as usize % past.len()].clone());
    }
    let figures = [
        figure("paths added or removed", 0, paths(&pair, 1).abs_diff(before)),
        figure("packets sent", 0, pair.sent(1).len() as u64),
        figure("bytes held", 65_536, memory.most()),
        figure("associations harmed", 0, harmed(&mut pair)),
    ];
    attack("10,000 recorded requests of earlier changes", figures)
}

/// The peer adds addresses of others, to have the server flood them.
fn bombing() -> Attack {
    let mut pair = pair();
    for number in 0..100 {
        let now = pair.net.now();
        // It may be refused, because there are as many paths as there can be.
        let _ = pair.association_mut(0).add_address(now, other(number));
        pair.run(Duration::from_millis(100));
    }
    pair.run(Duration::from_secs(3600));
    let most = (0..100)
        .map(|number| pair.net.trace.kept().iter().filter(|(_, p)| p.to == other(number)).count())
        .max();
    let figures = [
        figure("paths", 16, paths(&pair, 1)),
        figure("packets to each in an hour", 32, most.unwrap_or_default()),
        figure("associations harmed", 0, harmed(&mut pair)),
    ];
    attack("100 additions of addresses of others by the peer", figures)
}

/// The peer adds and removes an address a thousand times.
fn flapping() -> Attack {
    let mut pair = pair();
    let new = pair.addresses[0][1];
    let mut memory = Memory::now();
    for _ in 0..1_000 {
        let now = pair.net.now();
        let _ = pair.association_mut(0).add_address(now, new);
        pair.run(Duration::from_millis(100));
        let now = pair.net.now();
        let _ = pair.association_mut(0).remove_address(now, new);
        pair.run(Duration::from_millis(100));
        pair.events = Default::default();
        pair.forget();
    }
    let figures = [
        figure("paths", 2, paths(&pair, 1)),
        figure("bytes held", 131_072, memory.most()),
        figure("associations harmed", 0, harmed(&mut pair)),
    ];
    attack("1,000 additions and removals of an address by the peer", figures)
}

/// The peer prefers its two addresses in turn while data flows.
fn preferring() -> Attack {
    let mut pair = pair();
    let own = pair.addresses[0].clone();
    let now = pair.net.now();
    pair.association_mut(0).add_address(now, own[1]).expect("an address that is not known yet");
    pair.run(Duration::from_secs(2));
    for number in 0..1_000 {
        let now = pair.net.now();
        let _ = pair.association_mut(0).prefer_address(now, own[number % 2]);
        assert!(pair.send(1, 0, vec![7; 1_000]));
        pair.run(Duration::from_millis(50));
    }
    pair.run(Duration::from_secs(5));
    let missing = 1_000_000 - pair.received_len(0) as u64;
    let paths = pair.statistics(1).paths;
    let again = paths.iter().map(|path| path.retransmitted_chunks).sum::<u64>();
    let figures = [
        figure("bytes missing", 0, missing),
        figure("chunks sent again", 10, again),
        figure("associations harmed", 0, harmed(&mut pair)),
    ];
    attack("1,000 changes of the preferred address by the peer", figures)
}

/// Both ends change all of their addresses in the same instant, once a second, while data flows both ways.
fn wandering() -> Attack {
    let own = [addresses(0, 3), addresses(1, 3)];
    let mut pair = Pair::with(own.clone(), Default::default(), config());
    for node in [0, 1] {
        let now = pair.net.now();
        pair.net.node_mut(node).endpoint.set_local_addresses(now, &own[node][..1]);
    }
    let mut request = ConnectRequest::new(own[1][..1].to_vec(), Pair::PORT);
    request.config = std::sync::Arc::new(config());
    pair.connect_with(request);
    pair.run(Duration::from_secs(5));
    assert!(pair.both_up());
    let mut memory = Memory::now();
    let mut received = [0; 2];
    for round in 0..1_000 {
        for node in [0, 1] {
            let [old, new] = [round % 3, (round + 1) % 3].map(|at| own[node][at]);
            let now = pair.net.now();
            let mut association = pair.association_mut(node);
            association.add_address(now, new).expect("an address that is not known yet");
            association.remove_address(now, old).expect("one of two");
        }
        for node in [0, 1] {
            assert!(pair.send(node, 0, vec![7; 3_000]));
        }
        pair.run(Duration::from_secs(1));
        for node in [0, 1] {
            received[node] += pair.received_len(node);
        }
        pair.received = Default::default();
        pair.events = Default::default();
        pair.forget();
    }
    let held = memory.most();
    pair.run(Duration::from_secs(10));
    let late = [0, 1].map(|node| pair.received_len(node));
    let missing = 6_000_000 - received.iter().chain(&late).sum::<usize>();
    let figures = [
        figure("paths", 1, paths(&pair, 0).max(paths(&pair, 1))),
        figure("bytes missing", 0, missing),
        figure("bytes held", 131_072, held),
        figure("associations harmed", 0, harmed(&mut pair)),
    ];
    attack("1,000 times all addresses of both ends at once", figures)
}
