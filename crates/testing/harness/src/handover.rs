//! A change from one network to another while both work, under load: make before break.
//!
//! The tests of the engine and the benchmark of the speed key `handover_gap` run it.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use anabranch_impair::{LinkConfig, QueueLimit};
use anabranch_proto::{AssociationConfig, ConnectRequest, Handover, Instant, MtuConfig};
use anabranch_wire::{Chunk, Packet};
use bytes::Bytes;

use crate::{Pair, addresses, craft};

const MESSAGE: usize = 1000;
const RATE: u64 = 20_000_000;
/// What 200,000 bytes take in the queue.
const QUEUED: Duration = Duration::from_millis(80);
/// Round-trip time of the old network.
const OLD: Duration = Duration::from_millis(20);
/// Round-trip time of the new network.
pub const NEW: Duration = Duration::from_millis(60);
/// Options with which addresses can change.
pub fn config(handover: Handover) -> AssociationConfig {
    AssociationConfig::default().with(|config| {
        config.authentication.authentication = true;
        config.addresses.address_reconfiguration = true;
        config.addresses.handover = handover;
        config.mtu = MtuConfig::fixed(1500);
        // What is in flight is bounded, so that no queue overflows.
        config.receiving.receive_buffer = 200_000;
    })
}

/// A client with two networks of 20 Mb/s, of which the association begins with the first one, and a server.
pub fn pair(config: &AssociationConfig) -> Pair {
    let own = [addresses(0, 2), addresses(1, 1)];
    let mut pair = Pair::with(own.clone(), Default::default(), config.clone());
    // The checks cost time for each chunk in flight.
    pair.net.check = false;
    for (local, round_trip) in own[0].iter().zip([OLD, NEW]) {
        let link = LinkConfig::new().delay(round_trip / 2).rate(RATE);
        let link = link.queue(QueueLimit::Bytes(1 << 20));
        pair.net.set_link(*local, own[1][0], link.clone());
        pair.net.set_link(own[1][0], *local, link);
    }
    let now = pair.net.now();
    pair.net.node_mut(0).endpoint.set_local_addresses(now, &own[0][..1]);
    let mut request = ConnectRequest::new(own[1].clone(), Pair::PORT);
    request.config = std::sync::Arc::new(config.clone());
    pair.connect_with(request);
    assert!(pair.run_until(Duration::from_secs(1), |pair| pair.both_up()));
    pair
}

/// Runs for a time with a user of node `from` who always has more to send. Returns when messages arrived.
pub fn transfer(pair: &mut Pair, from: usize, time: Duration) -> Vec<Instant> {
    let message = Bytes::from(vec![7; MESSAGE]);
    let (mut times, mut seen) = (Vec::new(), pair.received[1 - from].len());
    pair.run_until(time, |pair| {
        let room =
            |pair: &Pair| pair.association(from).is_some_and(|own| own.send_buffer_free() > 0);
        while room(pair) && pair.send(from, 0, message.clone()) {}
        let now = pair.received[1 - from].len();
        if now > seen {
            times.push(pair.net.now());
            seen = now;
        }
        false
    });
    times
}

/// The TSNs in the packets that a node has sent, with the times.
fn tsns(pair: &Pair, node: usize) -> Vec<(Instant, u32)> {
    let of = |(at, bytes): (Instant, Bytes)| {
        let packet = Packet::parse(&bytes).unwrap();
        let chunks = packet.chunks().map(|chunk| chunk.unwrap().decode().unwrap());
        let data = chunks.filter_map(|chunk| match chunk {
            Chunk::Data(data) => Some((at, data.tsn.0)),
            _ => None,
        });
        data.collect::<Vec<_>>()
    };
    pair.sent(node).into_iter().flat_map(of).collect()
}

/// The result of a handover under load.
#[derive(Debug)]
pub struct Moved {
    /// The longest time without a delivery.
    pub gap: Duration,
    /// TSNs that were sent twice.
    pub twice: usize,
    /// Those among them that were in flight when the old address was last used.
    pub in_flight: usize,
    /// User bytes that arrived in the second after the change was asked for.
    pub bytes: usize,
    /// Both ends afterwards.
    pub pair: Pair,
}

/// Adds the new address and removes the old one while node `from` sends.
pub fn hand_over(config: &AssociationConfig, from: usize) -> Moved {
    let mut pair = pair(config);
    transfer(&mut pair, from, Duration::from_secs(2));
    pair.forget();
    let [old, new] = [pair.addresses[0][0], pair.addresses[0][1]];
    let before = pair.received_len(1 - from);
    let asked = pair.net.now();
    let mut association = pair.association_mut(0);
    association.add_address(asked, new).unwrap();
    association.remove_address(asked, old).unwrap();
    drop(association);
    let mut times = vec![asked];
    times.extend(transfer(&mut pair, from, Duration::from_secs(1)));
    let gap = times.windows(2).map(|pair| pair[1].saturating_since(pair[0])).max().unwrap();
    let last = last_data_at(&pair, from, old);
    let sent = tsns(&pair, from);
    let mut seen = BTreeMap::new();
    let (mut twice, mut in_flight) = (0, 0);
    for (at, tsn) in sent {
        let Some(first) = seen.insert(tsn, at) else { continue };
        twice += 1;
        in_flight += usize::from(first <= last && first + OLD + QUEUED >= last);
    }
    let bytes = pair.received_len(1 - from) - before;
    for node in [0, 1] {
        let paths = pair.statistics(node).paths;
        let own: Vec<IpAddr> =
            paths.iter().map(|path| if node == 0 { path.local } else { path.remote }).collect();
        assert_eq!(own, [new]);
    }
    Moved { gap, twice, in_flight, bytes, pair }
}

/// When a node last sent data from or to this address.
fn last_data_at(pair: &Pair, node: usize, client: IpAddr) -> Instant {
    let own = &pair.addresses[node];
    let kept = pair.net.trace.kept().iter().filter(|(_, packet)| {
        own.contains(&packet.from)
            && (packet.from == client || packet.to == client)
            && craft::has(&packet.bytes, anabranch_wire::kind::DATA)
    });
    kept.map(|(at, _)| *at).max().expect("data was sent there")
}
