//! Receive windows that are smaller than a packet (RFC 9260 section 6.1, RFC 1122 section 4.2.3.4).

use std::time::Duration;

use anabranch_harness::Pair;
use anabranch_proto::AssociationConfig;
use anabranch_proto::config::MtuConfig;

/// Time for 200,000 bytes, and probes of a closed window.
fn transfer(mtu: u16, window: usize) -> (Duration, u64) {
    let mut client = AssociationConfig::rfc9260();
    client.timers.heartbeat_interval = None;
    client.mtu = MtuConfig::fixed(mtu);
    let mut server = client.clone();
    server.receiving.receive_buffer = window;
    let mut pair = Pair::new(1, server);
    pair.connect(client);
    assert!(pair.run_until(Duration::from_secs(5), |pair| pair.both_up()));
    let begun = pair.net.now();
    assert!(pair.send(0, 0, vec![7; 200_000]));
    let done = pair.run_until(Duration::from_secs(600), |p| p.received_len(1) == 200_000);
    assert!(done, "mtu {mtu}, window {window}: {} bytes", pair.received_len(1));
    let took = pair.net.now().saturating_since(begun);
    (took, pair.statistics(0).counters.zero_window_probes)
}

#[test]
// test: rfc9260 6.1 "avoid silly window syndrome (SWS) as described"
fn a_window_below_a_packet_needs_no_probes() {
    for (mtu, window) in [(1500, 6000), (9000, 9500), (9000, 6000), (9000, 3000), (9000, 1600)] {
        let (took, probes) = transfer(mtu, window);
        assert_eq!(probes, 0, "mtu {mtu}, window {window}: {took:?}");
        // A round trip of 20 ms per window; acknowledgements of a single packet may be delayed by
        // 200 ms.
        let rounds = 200_000 / (window / 2) as u32;
        let limit = Duration::from_millis(220) * (rounds + 1);
        assert!(took < limit, "mtu {mtu}, window {window}: {took:?}");
    }
}

#[test]
// A SHUTDOWN acknowledges data but does not report the window. A peer that still has data must not
// assume that all of the window is free again: each excess packet would cost a timeout.
fn a_window_that_fills_during_the_shutdown_is_told() {
    let mut client = AssociationConfig::rfc9260();
    client.timers.heartbeat_interval = None;
    client.mtu = MtuConfig::fixed(800);
    let server = client.clone();
    client.receiving.receive_buffer = 1500;
    let mut pair = Pair::new(1, server);
    pair.connect(client);
    assert!(pair.run_until(Duration::from_secs(5), |pair| pair.both_up()));
    let begun = pair.net.now();
    assert!(pair.send(1, 0, vec![7; 40_000]));
    pair.reads = [false, true];
    pair.run(Duration::from_millis(15));
    pair.shutdown(0);
    while pair.received_len(0) < 40_000 {
        // The user reads now and then, not between two packets of a flight.
        pair.run(Duration::from_millis(50));
        pair.reads[0] = true;
        pair.take();
        pair.reads[0] = false;
        let took = pair.net.now().saturating_since(begun);
        assert!(took < Duration::from_secs(60), "{} bytes", pair.received_len(0));
    }
    let counters = pair.statistics(1).counters;
    assert_eq!(counters.timeouts, 0, "{counters:?}");
}
