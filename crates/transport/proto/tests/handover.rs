//! Changes from one network to another while both work: make before break.

use std::net::IpAddr;
use std::time::Duration;

use anabranch_harness::{Pair, addresses, craft};
use anabranch_impair::{LinkConfig, QueueLimit};
use anabranch_proto::{
    AssociationConfig, ConnectRequest, Handover, Instant, MtuConfig, MultipathMode, NewPathWindow,
};
use anabranch_wire::{Chunk, Packet};
use bytes::Bytes;

const MESSAGE: usize = 1000;
const RATE: u64 = 20_000_000;
/// Round-trip times of the old network and of the new one.
const OLD: Duration = Duration::from_millis(20);
const NEW: Duration = Duration::from_millis(60);
/// The time of a longest packet at the rate.
const PACKET: Duration = Duration::from_micros(600);

fn config(handover: Handover) -> AssociationConfig {
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
fn pair(config: &AssociationConfig) -> Pair {
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
fn transfer(pair: &mut Pair, from: usize, time: Duration) -> Vec<Instant> {
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
struct Moved {
    /// The longest time without a delivery.
    gap: Duration,
    /// TSNs that were sent twice, and those among them that were in flight when the old address was last used.
    twice: usize,
    in_flight: usize,
    /// User bytes that arrived in the second after the change was asked for.
    bytes: usize,
    pair: Pair,
}

/// Adds the new address and removes the old one while node `from` sends.
fn hand_over(config: &AssociationConfig, from: usize) -> Moved {
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
    let mut seen = std::collections::BTreeMap::new();
    let (mut twice, mut in_flight) = (0, 0);
    for (at, tsn) in sent {
        let Some(first) = seen.insert(tsn, at) else { continue };
        twice += 1;
        // What 200,000 bytes take in the queue.
        in_flight += usize::from(first <= last && first + OLD + ms(80) >= last);
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

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
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

/// The speed key `handover_gap`.
#[test]
fn the_longest_gap_is_at_most_two_round_trips_and_only_what_is_in_flight_is_sent_twice() {
    for from in [0, 1] {
        let moved = hand_over(&config(Handover::MakeFirst), from);
        println!("handover_gap from {from}: {:?}, {} twice", moved.gap, moved.twice);
        assert!(moved.gap <= 2 * NEW, "{from}: {:?}", moved.gap);
        assert_eq!(moved.twice, moved.in_flight, "{from}");
        assert_eq!(moved.pair.closed, [None, None]);
    }
}

/// Without make before break nothing leaves until the peer has agreed.
#[test]
fn make_before_break_has_a_shorter_gap_than_both_at_once() {
    for from in [0, 1] {
        let gap = |handover| hand_over(&config(handover), from).gap;
        let (first, at_once) = (gap(Handover::MakeFirst), gap(Handover::AtOnce));
        println!("from {from}: {first:?}, at once {at_once:?}");
        assert!(first < at_once, "{from}: {first:?} {at_once:?}");
    }
}

#[test]
fn a_new_path_may_start_with_half_of_the_old_window() {
    let bytes = |window| {
        let config =
            config(Handover::MakeFirst).with(|config| config.addresses.new_path_window = window);
        hand_over(&config, 0).bytes
    };
    let (initial, half) = (bytes(NewPathWindow::Initial), bytes(NewPathWindow::HalfOfOld));
    assert!(half > initial + 20_000, "{half} {initial}");
}

/// The new path joins the old one when it is verified, and stays alone when the old one goes.
#[test]
fn concurrent_multipath_transfer_goes_on_during_a_handover() {
    for mode in [MultipathMode::Cmt, MultipathMode::CmtPf] {
        for from in [0, 1] {
            let config = config(Handover::MakeFirst).with(|config| config.multipath.mode = mode);
            let moved = hand_over(&config, from);
            assert!(moved.gap <= 2 * NEW + PACKET, "{mode} {from}: {:?}", moved.gap);
            let mut pair = pair(&config);
            let new = pair.addresses[0][1];
            transfer(&mut pair, from, Duration::from_secs(2));
            let now = pair.net.now();
            pair.association_mut(0).add_address(now, new).unwrap();
            pair.forget();
            transfer(&mut pair, from, Duration::from_secs(1));
            let paths = pair.statistics(from).paths;
            assert!(
                paths.iter().all(|path| path.bytes_sent > 40_000),
                "{mode} {from}: {:?}",
                paths.iter().map(|p| (p.id, p.state, p.bytes_sent, p.cwnd)).collect::<Vec<_>>()
            );
        }
    }
}
