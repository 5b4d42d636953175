//! Small messages that wait to share a packet: Nagle, Minshall, messages that wait for nothing.

use std::time::Duration;

use anabranch_harness::Pair;
use anabranch_proto::config::Bundling;
use anabranch_proto::{OutgoingMessage, Ppid};
use anabranch_wire::kind;

use super::config;

const MILLISECOND: Duration = Duration::from_millis(1);

/// Two ends 10 ms apart, after some data; the first one uses `bundling`.
fn pair(bundling: Bundling) -> Pair {
    let mut config = config();
    config.sending.bundling = bundling;
    config.sending.fill_packets = false;
    let mut pair = Pair::connected(1, config);
    assert!(pair.send(0, 0, vec![0; 100]));
    pair.run(Duration::from_secs(1));
    pair.forget();
    pair
}

/// Number of data packets for messages of these lengths that are sent at the same time: before anything is
/// acknowledged, and in total.
fn packets(bundling: Bundling, messages: &[usize]) -> (u64, u64) {
    let mut pair = pair(bundling);
    let sent = |pair: &Pair| pair.statistics(0).paths[0].data_packets_sent;
    let before = sent(&pair);
    for length in messages {
        assert!(pair.send(0, 0, vec![1; *length]));
        pair.run(Duration::from_micros(1));
    }
    let at_once = sent(&pair) - before;
    pair.run(Duration::from_secs(5));
    assert_eq!(pair.received_len(1), 100 + messages.iter().sum::<usize>());
    (at_once, sent(&pair) - before)
}

#[test]
fn small_messages_wait_for_an_acknowledgement() {
    use Bundling::{Minshall, MinshallPathMtu, Nagle, None};
    let small = [20; 10];
    assert_eq!(packets(None, &small), (10, 10));
    for bundling in [Nagle, Minshall, MinshallPathMtu] {
        assert_eq!(packets(bundling, &small), (1, 2), "{bundling:?}");
    }
}

#[test]
fn what_fills_a_packet_does_not_wait() {
    use Bundling::{Minshall, MinshallPathMtu, Nagle};
    // The first one leaves; of the others 40 fill a packet, headers and padding counted.
    for bundling in [Nagle, Minshall, MinshallPathMtu] {
        let (at_once, all) = packets(bundling, &[17; 60]);
        assert_eq!((at_once, all), (2, 3), "{bundling:?}");
    }
}

#[test]
fn the_end_of_a_large_message_waits_with_nagle_only() {
    use Bundling::{Minshall, MinshallPathMtu, Nagle, None};
    let large = [4000];
    assert_eq!(packets(None, &large), (4, 4));
    assert_eq!(packets(Nagle, &large), (3, 4));
    assert_eq!(packets(Minshall, &large), (4, 4));
    assert_eq!(packets(MinshallPathMtu, &large), (4, 4));
    // One end may be on its way. A second one waits for it, or goes with what follows.
    assert_eq!(packets(Minshall, &[4000, 2000]), (5, 6));
}

#[test]
fn a_packet_that_the_next_message_would_not_fit_into_is_full() {
    // Passed together, so the next one is known when the first one is sent.
    let at_once = |bundling| {
        let mut pair = pair(bundling);
        let before = pair.statistics(0).paths[0].data_packets_sent;
        let now = pair.net.now();
        for length in [800, 800] {
            let message = OutgoingMessage::new(0, Ppid(0), vec![1; length]);
            pair.association_mut(0).send(now, message).unwrap();
        }
        pair.run(Duration::from_micros(1));
        pair.statistics(0).paths[0].data_packets_sent - before
    };
    assert_eq!(at_once(Bundling::None), 2);
    assert_eq!(at_once(Bundling::Minshall), 2, "no longer packet can be had");
    assert_eq!(at_once(Bundling::MinshallPathMtu), 1, "800 bytes are less than the path MTU");
    assert_eq!(at_once(Bundling::Nagle), 1);
}

#[test]
fn an_urgent_message_takes_with_it_what_waits() {
    let mut pair = pair(Bundling::Nagle);
    for _ in 0..3 {
        assert!(pair.send(0, 0, vec![1; 20]));
        pair.run(MILLISECOND);
    }
    assert_eq!(pair.count(0, kind::DATA), 1);
    let now = pair.net.now();
    let message = OutgoingMessage::new(1, Ppid(0), vec![2; 20]).with_now();
    pair.association_mut(0).send(now, message).unwrap();
    pair.run(MILLISECOND);
    assert_eq!(pair.count(0, kind::DATA), 2);
    assert_eq!(pair.statistics(0).send_queue_bytes, 0);
    // It is forgotten with the message.
    assert!(pair.send(0, 0, vec![1; 20]));
    pair.run(MILLISECOND);
    assert_eq!(pair.count(0, kind::DATA), 2);
}

#[test]
fn who_ends_waits_for_nothing() {
    let mut pair = pair(Bundling::Nagle);
    for _ in 0..3 {
        assert!(pair.send(0, 0, vec![1; 20]));
        pair.run(MILLISECOND);
    }
    assert_eq!(pair.count(0, kind::DATA), 1);
    let now = pair.net.now();
    pair.association_mut(0).shutdown(now);
    pair.run(MILLISECOND);
    assert_eq!(pair.count(0, kind::DATA), 2);
    assert_eq!(pair.statistics(0).send_queue_bytes, 0);
}

#[test]
fn the_time_that_messages_wait_is_counted() {
    let mut pair = pair(Bundling::Nagle);
    assert_eq!(pair.statistics(0).bundling.times, 0);
    for _ in 0..3 {
        assert!(pair.send(0, 0, vec![1; 20]));
        pair.run(MILLISECOND);
    }
    pair.run(Duration::from_secs(1));
    let statistics = pair.statistics(0);
    assert_eq!(statistics.bundling.times, 1);
    // The acknowledgement of a lone packet is kept back for 200 ms.
    let waited = statistics.bundling.time;
    assert!(
        waited > Duration::from_millis(195) && waited < Duration::from_millis(225),
        "{waited:?}"
    );
    assert_eq!(statistics.packets_saved(), 1);
}

#[test]
fn bundling_begins_and_ends_while_messages_wait() {
    let mut pair = pair(Bundling::None);
    let bundle = |pair: &mut Pair, bundling| {
        let mut config = pair.association(0).unwrap().config().clone();
        config.sending.bundling = bundling;
        let now = pair.net.now();
        pair.association_mut(0).reconfigure(now, &config).unwrap();
    };
    assert!(pair.send(0, 0, vec![1; 20]));
    pair.run(MILLISECOND);
    bundle(&mut pair, Bundling::Nagle);
    assert!(pair.send(0, 0, vec![1; 20]));
    pair.run(MILLISECOND);
    assert_eq!(pair.count(0, kind::DATA), 1);
    bundle(&mut pair, Bundling::None);
    pair.run(MILLISECOND);
    assert!(pair.send(0, 0, vec![1; 20]));
    pair.run(MILLISECOND);
    assert_eq!(pair.count(0, kind::DATA), 3);
    bundle(&mut pair, Bundling::Minshall);
    for _ in 0..2 {
        assert!(pair.send(0, 0, vec![1; 20]));
        pair.run(MILLISECOND);
    }
    assert_eq!(pair.count(0, kind::DATA), 4, "what left before is not known to be small");
    pair.run(Duration::from_secs(1));
    assert_eq!(pair.received_len(1), 200);
}

#[test]
fn who_asks_for_acknowledgements_waits_for_a_round_trip_only() {
    let waited = |bundling| {
        let mut pair = pair(bundling);
        for _ in 0..3 {
            assert!(pair.send(0, 0, vec![1; 20]));
            pair.run(MILLISECOND);
        }
        pair.run(Duration::from_secs(1));
        assert_eq!(pair.received_len(1), 160);
        assert_eq!(pair.statistics(0).bundling.times, 1);
        pair.statistics(0).bundling.time
    };
    assert!(waited(Bundling::Minshall) > Duration::from_millis(195));
    assert_eq!(waited(Bundling::Prompt), 2 * Pair::DELAY - MILLISECOND);
}

#[test]
fn a_message_with_a_lifetime_does_not_spend_it_waiting() {
    let mut pair = pair(Bundling::Nagle);
    assert!(pair.send(0, 0, vec![1; 20]));
    pair.run(MILLISECOND);
    let now = pair.net.now();
    let message =
        OutgoingMessage::new(1, Ppid(0), vec![2; 20]).with_lifetime(Duration::from_millis(50));
    pair.association_mut(0).send(now, message).unwrap();
    pair.run(Duration::from_secs(1));
    assert_eq!(pair.received_len(1), 140, "acknowledgements are kept back for 200 ms");
}
