//! A NAT gives the peer another UDP port in the middle of an association (RFC 6951 section 5.4).

use std::time::Duration;

use anabranch_harness::Pair;
use anabranch_impair::LinkConfig;
use anabranch_proto::{AssociationConfig, PathState};
use bytes::Bytes;

const NEW_PORT: u16 = 20_000;
const DELAY: Duration = Duration::from_millis(25);
const ROUND_TRIP: Duration = Duration::from_millis(50);

/// Two hosts 25 ms from each other, with one path or two.
fn pair(paths: u8) -> Pair {
    let mut config = AssociationConfig::default();
    config.sending.send_buffer = 20_000_000;
    config.sending.send_buffer_start = None;
    let mut pair = Pair::new(paths, config.clone());
    for near in pair.addresses[0].clone() {
        for far in pair.addresses[1].clone() {
            pair.net.set_link(near, far, LinkConfig::new().delay(DELAY).rate(20_000_000));
            pair.net.set_link(far, near, LinkConfig::new().delay(DELAY).rate(20_000_000));
        }
    }
    pair.connect(config);
    assert!(pair.run_until(Duration::from_secs(5), |pair| pair.both_up()));
    pair.run(Duration::from_secs(3));
    pair
}

/// Gives a node messages of 1,000 bytes to send.
fn send(pair: &mut Pair, node: usize, messages: usize) {
    for _ in 0..messages {
        assert!(pair.send(node, 0, Bytes::from_static(&[7; 1000])));
    }
}

/// How long no new data arrives at a node from now on, until all `bytes` of it have come.
fn longest_pause(pair: &mut Pair, node: usize, bytes: usize) -> Duration {
    let (mut longest, mut last, mut have) = (Duration::ZERO, pair.net.now(), 0);
    while have < bytes {
        pair.run(Duration::from_millis(1));
        let now = pair.net.now();
        if pair.received_len(node) > have {
            have = pair.received_len(node);
            last = now;
        }
        longest = longest.max(now.saturating_since(last));
        assert!(longest < Duration::from_secs(60), "{have} of {bytes} bytes have come");
    }
    longest
}

#[test]
// test: rfc6951 5.4 "UDP source port MUST be stored as the"
fn a_sender_behind_a_nat_goes_on_after_two_round_trips() {
    for paths in [1, 2] {
        let mut pair = pair(paths);
        send(&mut pair, 0, 1000);
        pair.run(Duration::from_millis(300));
        pair.net.node_mut(0).udp_port = NEW_PORT;
        let pause = longest_pause(&mut pair, 1, 1_000_000);
        // Packets from the new port are accepted immediately; acknowledgements reach it one challenge later.
        assert!(pause <= 2 * ROUND_TRIP, "{paths} paths: {pause:?}");
        let moved = pair.statistics(1).paths.iter().any(|path| path.remote_udp_port == NEW_PORT);
        assert!(moved, "{paths} paths");
        assert_eq!(pair.statistics(0).counters.timeouts, 0, "{paths} paths");
    }
}

#[test]
// test: rfc6951 5.4 "UDP source port MUST be stored as the"
fn a_receiver_behind_a_nat_gets_data_one_round_trip_after_it_is_heard() {
    let mut pair = pair(1);
    let peer = pair.addresses[1][0];
    send(&mut pair, 1, 5000);
    pair.run(Duration::from_millis(300));
    pair.net.node_mut(0).udp_port = NEW_PORT;
    // Data in flight has arrived, and nothing more arrives.
    pair.run(Duration::from_millis(700));
    let (have, now) = (pair.received_len(0), pair.net.now());
    pair.association_mut(0).request_heartbeat(now, peer).expect("a path");
    assert!(pair.run_until(Duration::from_secs(5), |pair| pair.received_len(0) > have));
    let waited = pair.net.now().saturating_since(now);
    // The heartbeat, the challenge, its answer, data.
    assert!(waited <= 2 * ROUND_TRIP + Duration::from_millis(5), "{waited:?}");
    // The heartbeat itself was answered at the new port.
    assert_eq!(pair.statistics(0).paths[0].error_count, 0);
    assert!(pair.run_until(Duration::from_secs(60), |pair| pair.received_len(0) == 5_000_000));
}

#[test]
fn a_quiet_association_follows_with_its_heartbeats() {
    let mut pair = pair(2);
    pair.net.node_mut(0).udp_port = NEW_PORT;
    pair.run(Duration::from_secs(70));
    let paths = pair.statistics(1).paths;
    let used = paths.iter().filter(|path| path.state == PathState::Active);
    assert!(used.clone().count() >= 2);
    assert!(used.clone().all(|path| path.remote_udp_port == NEW_PORT), "{paths:?}");
    assert!(pair.send(1, 0, "still there"));
    assert!(pair.run_until(ROUND_TRIP, |pair| pair.received_len(0) == 11));
}

#[test]
fn mappings_that_change_again_and_again_are_followed() {
    let mut pair = pair(1);
    for port in 0..10 {
        send(&mut pair, 0, 1000);
        pair.run(Duration::from_millis(200));
        pair.net.node_mut(0).udp_port = NEW_PORT + port;
        pair.run(Duration::from_millis(1300));
    }
    assert!(pair.run_until(Duration::from_secs(60), |pair| pair.received_len(1) == 10_000_000));
    assert_eq!(pair.statistics(0).state.name(), "ESTABLISHED");
}
