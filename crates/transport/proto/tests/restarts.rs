//! A peer that lost its state is a new peer: nothing that was known of the old one counts, whatever
//! addresses and streams the new one has.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use anabranch_harness::{Pair, PathMtu};
use anabranch_proto::{
    AssociationConfig, ConnectRequest, EndpointConfig, Event, MultipathMode, Notification,
    OutgoingMessage, PathChoice, PathState, Ppid,
};
use anabranch_wire::kind;

fn request(pair: &Pair, config: &AssociationConfig) -> ConnectRequest {
    let mut request = ConnectRequest::new(pair.addresses[1].clone(), Pair::PORT);
    request.config = Arc::new(config.clone());
    request.local_port = Some(5555);
    request
}

/// Node 0 loses its state and comes again with these addresses and options.
fn restart(pair: &mut Pair, addresses: &[IpAddr], config: &AssociationConfig) {
    pair.net.set_addresses(0, addresses);
    pair.net.reboot(0, EndpointConfig::default(), [9; 32]);
    for path in 0..pair.addresses[0].len() {
        pair.set_up(path, true);
    }
    pair.events = [Vec::new(), Vec::new()];
    pair.connect_with(request(pair, config));
}

fn restarted(pair: &mut Pair) -> bool {
    pair.events[1]
        .iter()
        .any(|event| matches!(event, Event::Notification(Notification::Restarted { .. })))
        && pair.both_up()
}

#[test]
fn a_peer_with_fewer_addresses_has_no_path_that_is_gone() {
    for choice in [PathChoice::WindowInTurn, PathChoice::RoundRobin, PathChoice::LowestRtt] {
        for kept in [0, 1, 2] {
            let mut config = AssociationConfig::default().with_multipath(MultipathMode::CmtPf);
            config.multipath.path_choice = choice;
            let mut pair = Pair::new(3, config.clone());
            pair.connect_with(request(&pair, &config));
            assert!(pair.run_until(Duration::from_secs(1), |pair| pair.both_up()));
            pair.run(Duration::from_secs(20));
            for _ in 0..20 {
                pair.send(1, 0, vec![1; 100_000]);
                pair.run(Duration::from_millis(15));
            }
            // The rotation reaches the last path, because the others are silent.
            for path in 0..2 {
                pair.set_up(path, false);
                pair.run(Duration::from_secs(1));
                for _ in 0..20 {
                    pair.send(1, 0, vec![1; 100_000]);
                    pair.run(Duration::from_millis(500));
                }
            }
            let one = vec![pair.addresses[0][kept]];
            restart(&mut pair, &one, &config);
            assert!(pair.run_until(Duration::from_secs(20), restarted), "{choice:?}, {kept}");
            pair.received[0].clear();
            assert!(pair.send(1, 0, vec![1; 100_000]));
            pair.run(Duration::from_secs(10));
            assert_eq!(pair.statistics(1).paths.len(), 1);
            assert_eq!(pair.received_len(0), 100_000, "{choice:?}, {kept}");
        }
    }
}

/// A host with both versions of IP lists an address that the other one, which has only one version, never could reach.
#[test]
fn a_peer_restarts_with_an_address_that_cannot_be_reached() {
    let config = AssociationConfig::default();
    let mut pair = Pair::new(1, config.clone());
    let mut both = pair.addresses[0].clone();
    both.push("2001:db8::7".parse().unwrap());
    pair.net.set_addresses(0, &both);
    pair.net.reboot(0, EndpointConfig::default(), [8; 32]);
    pair.net.trace.keep_text();
    pair.connect_with(request(&pair, &config));
    assert!(pair.run_until(Duration::from_secs(1), |pair| pair.both_up()));
    assert!(
        pair.net.trace.text().iter().any(|line| line.contains("2001:db8::7")),
        "the INIT lists it"
    );
    restart(&mut pair, &both, &config);
    assert!(pair.run_until(Duration::from_secs(5), restarted));
}

#[test]
fn paths_keep_their_names_when_a_restart_takes_one_away() {
    let config = AssociationConfig::default();
    let mut pair = Pair::new(3, config.clone());
    pair.connect_with(request(&pair, &config));
    assert!(pair.run_until(Duration::from_secs(1), |pair| pair.both_up()));
    pair.run(Duration::from_secs(20));
    let before = pair.statistics(1);
    let ends = [pair.addresses[0][0], pair.addresses[0][2]];
    restart(&mut pair, &ends, &config);
    assert!(pair.run_until(Duration::from_secs(20), restarted));
    pair.run(Duration::from_secs(20));
    let after = pair.statistics(1);
    assert_eq!(after.paths.iter().map(|path| path.id.number()).collect::<Vec<_>>(), [0, 2]);
    for path in &after.paths {
        let same = before.path(path.id).expect("it was there before");
        assert_eq!((same.local, same.remote), (path.local, path.remote));
        assert!(same.packets_sent < path.packets_sent, "they are counted on");
    }
    // What happens to the third path is reported for the third path.
    let third = before.paths[2];
    pair.association_mut(1).set_primary(third.remote).expect("it is verified");
    assert_eq!(pair.statistics(1).primary, third.id);
    pair.events[1].clear();
    assert!(pair.send(1, 0, vec![1; 10_000]));
    pair.set_up(2, false);
    assert!(pair.send(1, 0, vec![1; 10_000]));
    pair.run(Duration::from_secs(300));
    let failed = |event: &Event| match event {
        Event::Notification(Notification::PathChanged {
            path,
            remote,
            state: PathState::Inactive,
            ..
        }) => Some((*path, *remote)),
        _ => None,
    };
    let failed: Vec<_> = pair.events[1].iter().filter_map(failed).collect();
    assert_eq!(failed, [(third.id, third.remote)]);
    let after = pair.statistics(1);
    assert!(after.path(third.id).is_some_and(|path| path.timeouts > third.timeouts));
    assert_eq!(after.active.number(), 0);
}

#[test]
fn a_peer_with_fewer_streams_gets_nothing_on_others() {
    let mut config = AssociationConfig::default();
    config.timers.heartbeat_interval = None;
    let mut pair = Pair::new(1, config.clone());
    pair.connect_with(request(&pair, &config));
    assert!(pair.run_until(Duration::from_secs(1), |pair| pair.both_up()));
    pair.run(Duration::from_secs(10));
    pair.set_up(0, false);
    let now = pair.net.now();
    for stream in 0..100 {
        let message = OutgoingMessage::new(stream, Ppid(0), vec![1; 1000]);
        pair.association_mut(1).send(now, message).unwrap();
    }
    pair.run(Duration::from_millis(50));
    let mut few = config.clone();
    few.receiving.inbound_streams = 2;
    let all = pair.addresses[0].clone();
    restart(&mut pair, &all, &few);
    pair.run(Duration::from_secs(100));
    assert_eq!(pair.association(1).unwrap().outbound_streams(), 2);
    let count = |which: fn(&Event) -> bool| pair.events[1].iter().filter(|e| which(e)).count();
    assert_eq!(
        count(|event| matches!(event, Event::Notification(Notification::PeerError { .. }))),
        0
    );
    assert_eq!(
        count(|event| matches!(event, Event::Notification(Notification::SendFailed { .. }))),
        100
    );
    assert_eq!(pair.received[0].len(), 0);
}

#[test]
// test: rfc9260 6.5 "Every DATA chunk MUST carry a valid stream"
fn messages_given_before_the_streams_were_agreed_come_back() {
    let config = AssociationConfig::default();
    let mut server = config.clone();
    server.receiving.inbound_streams = 2;
    let mut pair = Pair::new(1, server);
    pair.connect(config);
    let now = pair.net.now();
    for stream in [0, 9, 1, 2] {
        let data = format!("on {stream}");
        pair.association_mut(0).send(now, OutgoingMessage::new(stream, Ppid(0), data)).unwrap();
    }
    assert!(pair.run_until(Duration::from_secs(1), |pair| pair.both_up()));
    pair.run(Duration::from_secs(1));
    assert_eq!(pair.received_bytes(1), b"on 0on 1");
    let back: Vec<u16> = (pair.events[0].iter())
        .filter_map(|event| match event {
            Event::Notification(Notification::SendFailed { message, sent: false }) => {
                Some(message.stream)
            }
            _ => None,
        })
        .collect();
    assert_eq!(back, [9, 2]);
}

/// DATA packets of the first flight to a peer that restarted: after T3 expired or before, with a
/// window that was closed or open.
fn first_flight(wait: Duration, reads: bool, config: &AssociationConfig) -> usize {
    let mut small = config.clone();
    small.receiving.receive_buffer = 20_000;
    let mut pair = Pair::new(1, config.clone());
    let mut first = request(&pair, config);
    first.config = Arc::new(if reads { config.clone() } else { small });
    pair.connect_with(first);
    assert!(pair.run_until(Duration::from_secs(1), |pair| pair.both_up()));
    pair.run(Duration::from_secs(10));
    pair.reads[0] = reads;
    if !reads {
        assert!(pair.send(1, 0, vec![1; 100_000]));
        pair.run(Duration::from_secs(10));
        assert!(pair.statistics(1).counters.zero_window_probes > 0);
    }
    pair.set_up(0, false);
    pair.send(1, 0, vec![1; 5000]);
    pair.run(wait);
    let all = pair.addresses[0].clone();
    restart(&mut pair, &all, config);
    assert!(pair.run_until(Duration::from_secs(60), restarted));
    pair.run(Duration::from_secs(2));
    pair.forget();
    assert!(pair.send(1, 0, vec![2; 20_000]));
    pair.run(Duration::from_millis(5));
    pair.count(1, kind::DATA)
}

#[test]
// test: rfc9260 5.2.4 "to this peer MUST be reset to their"
fn the_first_flight_after_a_restart_is_that_of_a_new_association() {
    for profile in ["default", "rfc9260", "rfc4960", "rfc2960"] {
        let mut config = AssociationConfig::profile(profile).unwrap();
        config.timers.heartbeat_interval = None;
        config.recovery.one_packet_after_timeout = true;
        let short = first_flight(Duration::from_millis(10), true, &config);
        assert!(short >= 2, "{profile}: {short}");
        let timed_out = first_flight(Duration::from_millis(3500), true, &config);
        assert_eq!(timed_out, short, "{profile}: after T3 expired");
        let closed = first_flight(Duration::from_millis(3500), false, &config);
        assert_eq!(closed, short, "{profile}: after the window was closed");
    }
}

#[test]
fn what_goes_out_again_without_a_timeout_is_not_counted_as_one() {
    let mut pair = Pair::connected(1, AssociationConfig::default());
    assert!(pair.send(0, 0, vec![1; 400_000]));
    pair.run(Duration::from_millis(5));
    let (a, b) = (pair.addresses[0][0], pair.addresses[1][0]);
    pair.net.set_mtu(a, b, Some(PathMtu { mtu: 1300, icmp: true }));
    pair.run(Duration::from_secs(5));
    assert_eq!(pair.received_len(1), 400_000);
    let counters = pair.statistics(0).counters;
    assert_eq!((counters.timeouts, counters.timeout_retransmitted_chunks), (0, 0));
    assert!(counters.useless_retransmitted_chunks > 0);
}
