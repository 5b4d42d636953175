//! What waits to be sent: schedulers, lifetimes, back-pressure, fairness.

use std::time::Duration;

use anabranch_harness::{Pair, Verdict};
use anabranch_impair::LinkConfig;
use anabranch_proto::config::{InitialCwnd, MtuConfig};
use anabranch_proto::{
    BurstControl, Encapsulation, EndpointConfig, Event, Notification, OutgoingMessage, Ppid,
    Reliability, SchedulerKind, SendErrorReason,
};
use anabranch_wire::Packet;

use super::{LONG, config};

#[test]
fn schedulers_decide_which_stream_goes_first() {
    let order = |scheduler, priorities: &[(u16, u16)]| -> String {
        let mut config = config();
        config.sending.scheduler = scheduler;
        let mut pair = Pair::connected(1, config);
        for (stream, priority) in priorities {
            pair.association_mut(0).set_stream_priority(*stream, *priority);
        }
        // Send a long message first, so that the others queue behind it.
        assert!(pair.send(0, 9, vec![0; 50_000]));
        for (stream, name) in [(1, "a"), (1, "b"), (2, "c"), (3, "d"), (2, "e")] {
            assert!(pair.send(0, stream, name.as_bytes().to_vec()));
        }
        assert!(pair.run_until(LONG, |pair| pair.received_len(1) == 50_005));
        String::from_utf8(pair.received_bytes(1).split_off(50_000)).unwrap()
    };
    assert_eq!(order(SchedulerKind::Fifo, &[]), "abcde");
    assert_eq!(order(SchedulerKind::RoundRobin, &[]), "acdbe");
    assert_eq!(order(SchedulerKind::Priority, &[(1, 5), (2, 3), (3, 1)]), "dceab");
}

#[test]
fn lifetimes_end_before_the_first_transmission_only() {
    let mut config = config();
    config.sending.send_buffer = 1 << 20;
    let mut pair = Pair::connected(1, config);
    pair.net.set_links(LinkConfig::new().delay(Pair::DELAY).rate(1_000_000));
    let send = |pair: &mut Pair, stream, length, lifetime: Option<Duration>| {
        let now = pair.net.now();
        let mut message = OutgoingMessage::new(stream, Ppid(0), vec![1; length]);
        message.reliability = lifetime.map_or(Reliability::Usual, Reliability::Lifetime);
        message.context = u64::from(stream);
        pair.association_mut(0).send(now, message).unwrap();
    };
    let brief = Some(Duration::from_millis(100));
    // The first one begins immediately and takes 800 ms; the second one expires before it can begin.
    send(&mut pair, 1, 100_000, brief);
    send(&mut pair, 2, 100, brief);
    send(&mut pair, 3, 100, None);
    assert!(pair.run_until(LONG, |pair| pair.received_len(1) == 100_100));
    pair.run(Duration::from_secs(5));
    assert_eq!(pair.received_len(1), 100_100);
    let failed: Vec<_> = (pair.events[0].iter())
        .filter_map(|event| match event {
            Event::Notification(Notification::SendFailed { message, sent }) => {
                Some((message.context, *sent))
            }
            _ => None,
        })
        .collect();
    assert_eq!(failed, [(2, false)]);
    assert_eq!(pair.association(0).unwrap().send_buffer_free(), 1 << 20);
}

#[test]
fn back_pressure_and_its_end() {
    let mut config = config();
    config.sending.send_buffer = 10_000;
    config.sending.stream_send_buffer = 5_000;
    let mut pair = Pair::connected(1, config);
    pair.net.script(|_| Verdict::Drop);
    assert!(pair.send(0, 1, vec![1; 4000]) && pair.send(0, 1, vec![1; 4000]));
    let now = pair.net.now();
    let refused = |pair: &mut Pair, stream, length: usize| {
        let message = OutgoingMessage::new(stream, Ppid(7), vec![9; length]);
        let error = pair.association_mut(0).send(now, message).unwrap_err();
        assert!(error.message.data == vec![9; length] && error.message.ppid == Ppid(7));
        error.reason
    };
    assert!(pair.send(0, 2, vec![1; 4000]));
    assert_eq!(refused(&mut pair, 3, 100), SendErrorReason::Blocked);
    assert_eq!(refused(&mut pair, 2000, 100), SendErrorReason::NoSuchStream(1024));
    assert_eq!(refused(&mut pair, 1, 0), SendErrorReason::Empty);
    pair.take();
    assert!(!pair.events[0].iter().any(|event| matches!(event, Event::Writable)));
    pair.net.end_script();
    pair.run(Duration::from_secs(5));
    assert!(pair.events[0].iter().any(|event| matches!(event, Event::Writable)));
    assert_eq!(pair.received_len(1), 12_000);
    assert_eq!(pair.association(0).unwrap().send_buffer_free(), 10_000);
}

#[test]
fn associations_share_an_endpoint_fairly() {
    let mut endpoint = EndpointConfig::default();
    endpoint.quantum = 5_000;
    let addresses = [0, 1].map(|node| anabranch_harness::addresses(node, 1));
    let mut config = config();
    config.congestion.burst = BurstControl::Unlimited;
    config.congestion.initial_cwnd = InitialCwnd::Mtus(200);
    let mut pair = Pair::with(addresses, [endpoint.clone(), endpoint], config.clone());
    let mut ids = Vec::new();
    for _ in 0..4 {
        pair.connect(config.clone());
        assert!(pair.run_until(LONG, |pair| pair.both_up()));
        ids.push(pair.id[0].unwrap());
    }
    pair.run(Duration::from_secs(2));
    pair.forget();
    let now = pair.net.now();
    for (id, length) in ids.iter().zip([100_000, 100_000, 100_000, 500]) {
        let mut association = pair.net.node_mut(0).endpoint.association_mut(now, *id).unwrap();
        let message = OutgoingMessage::new(0, Ppid(0), vec![1; length]);
        association.send(now, message).unwrap();
    }
    pair.net.max_segments = 4;
    pair.net.settle();
    let ports: Vec<u16> = (pair.sent(0).iter())
        .map(|(_, bytes)| Packet::parse(bytes).unwrap().header().source_port)
        .collect();
    // The short one waits for one quantum of each of the others, not for all that they have.
    let short = pair.net.node(0).endpoint.association(ids[3]).unwrap().local_port();
    let place = ports.iter().position(|port| *port == short).unwrap();
    assert!(place <= 3 * 8, "place {place} of {}", ports.len());
    let first = &ports[..60];
    for id in &ids[..3] {
        let port = pair.net.node(0).endpoint.association(*id).unwrap().local_port();
        let share = first.iter().filter(|other| **other == port).count();
        assert!((12..=28).contains(&share), "{share} of 60");
    }
}

/// UDP carries 65,535 bytes with its header. Where one call took less than the engine gives at once, every second call
/// would send a single packet.
#[test]
fn what_is_given_at_once_fits_one_call_with_the_seal_around_each_packet() {
    for (mtu, shim) in
        [1280, 1452, 1476, 1500, 4000, 9000].into_iter().flat_map(|mtu| [(mtu, 0), (mtu, 28)])
    {
        let mut endpoint = EndpointConfig::default();
        endpoint.encapsulation = Encapsulation::Udp;
        endpoint.shim = shim;
        let addresses = [0, 1].map(|node| anabranch_harness::addresses(node, 1));
        let mut config = config();
        config.congestion.burst = BurstControl::Unlimited;
        config.congestion.initial_cwnd = InitialCwnd::Mtus(200);
        config.mtu = MtuConfig::fixed(mtu);
        let mut pair = Pair::with(addresses, [endpoint.clone(), endpoint], config.clone());
        pair.connect(config);
        assert!(pair.run_until(LONG, |pair| pair.both_up()));
        let (now, id) = (pair.net.now(), pair.id[0].unwrap());
        let endpoint = &mut pair.net.node_mut(0).endpoint;
        let message = OutgoingMessage::new(0, Ppid(0), vec![1; 200_000]);
        endpoint.association_mut(now, id).unwrap().send(now, message).unwrap();
        let mut bytes = Vec::new();
        let transmit = endpoint.poll_transmit(now, 64, &mut bytes).unwrap();
        let packets = transmit.len.div_ceil(transmit.segment_size);
        let sealed = transmit.len + packets * usize::from(shim);
        assert!(sealed <= 65_535 - 8 - 20, "MTU {mtu}: {packets} packets, {sealed} bytes");
        // And no call for little.
        assert!(sealed > 54_000, "MTU {mtu}: {packets} packets, {sealed} bytes");
    }
}
