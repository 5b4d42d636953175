//! Buffers that grow with what the paths carry and the user takes.

use std::time::Duration;

use anabranch_harness::Pair;
use anabranch_impair::{LinkConfig, QueueLimit};
use anabranch_proto::{AssociationConfig, EndpointConfig, MultipathMode};
use bytes::Bytes;

/// Bytes of a message.
const MESSAGE: usize = 60_000;

/// The size with which the buffers begin, and the largest one.
const FIRST: usize = 1 << 20;
const MOST: usize = 16 << 20;

/// What a receiver may hold beyond its buffer, for the next TSN.
const RESERVE: usize = 72 << 10;

/// A path: bits per second, and the round-trip time in milliseconds.
type PathSpec = (u64, u64);

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// The default options, without growth.
fn fixed() -> AssociationConfig {
    let mut config = AssociationConfig::default();
    (config.receiving.receive_buffer, config.sending.send_buffer) = (FIRST, FIRST);
    config
}

/// A pair with these paths, whose queues hold what a path carries in a round trip.
fn pair(config: AssociationConfig, memory_limit: usize, paths: &[PathSpec]) -> Pair {
    let addresses = [0, 1].map(|node| anabranch_harness::addresses(node, paths.len() as u8));
    let mut endpoint = EndpointConfig::default();
    endpoint.memory_limit = memory_limit;
    let mut pair = Pair::with(addresses, [endpoint.clone(), endpoint], config.clone());
    // The checks cost time for each chunk in flight.
    pair.net.check = false;
    for (path, (rate, round_trip)) in paths.iter().enumerate() {
        let link = LinkConfig::new()
            .delay(Duration::from_millis(round_trip / 2))
            .rate(*rate)
            .queue(QueueLimit::Bytes((rate / 8 * round_trip / 1000) as usize));
        let (a, b) = (pair.addresses[0][path], pair.addresses[1][path]);
        pair.net.set_link(a, b, link.clone());
        pair.net.set_link(b, a, link);
    }
    pair.connect(config);
    assert!(pair.run_until(seconds(10), |pair| pair.both_up()));
    pair
}

/// Gives node 0 as much to send as it accepts.
fn fill(pair: &mut Pair, message: &Bytes) {
    while pair.association(0).is_some_and(|association| association.send_buffer_free() > 0)
        && pair.send(0, 0, message.clone())
    {}
}

/// The rate in Mb/s at which data arrives in `time`, with a user who always has more to send.
fn rate(pair: &mut Pair, time: Duration) -> f64 {
    pair.received[1].clear();
    let (mut arrived, message) = (0, Bytes::from(vec![7; MESSAGE]));
    pair.run_until(time, |pair| {
        fill(pair, &message);
        arrived += pair.received_len(1);
        pair.received[1].clear();
        false
    });
    pair.forget();
    arrived as f64 * 8e-6 / time.as_secs_f64()
}

/// The sizes of the sender's send buffer and the receiver's receive buffer.
fn buffers(pair: &Pair) -> [usize; 2] {
    let association = |node| pair.association(node).unwrap();
    [association(0).send_buffer(), association(1).receive_buffer()]
}

#[test]
fn a_long_path_is_filled() {
    let path = [(100_000_000, 300)];
    let mut growing = pair(AssociationConfig::default(), 1 << 30, &path);
    assert_eq!(buffers(&growing), [FIRST; 2]);
    rate(&mut growing, seconds(4));
    let grown = rate(&mut growing, seconds(4));
    let sizes = buffers(&growing);
    let mut small = pair(fixed(), 1 << 30, &path);
    rate(&mut small, seconds(4));
    let limited = rate(&mut small, seconds(4));
    assert!(grown >= 90.0, "{grown} {sizes:?}");
    assert!(limited < 30.0, "{limited}");
    assert!(sizes.iter().all(|size| *size <= MOST) && buffers(&small) == [FIRST; 2]);
}

#[test]
fn a_gigabit_over_100_ms_is_filled() {
    let mut pair = pair(AssociationConfig::default(), 1 << 30, &[(1_000_000_000, 100)]);
    rate(&mut pair, seconds(2));
    let grown = rate(&mut pair, seconds(1));
    assert!(grown >= 800.0, "{grown} {:?}", buffers(&pair));
}

/// Two paths of 40 Mb/s and 20 ms, and 10 Mb/s and 80 ms: everything sent after a packet on the slow path is kept until
/// that has arrived.
#[test]
fn two_paths_add_up() {
    let sum = |most: usize| {
        let mut config = AssociationConfig::default().with_multipath(MultipathMode::CmtPf);
        let small = Some(256 << 10);
        (config.receiving.receive_buffer_start, config.receiving.receive_buffer) = (small, most);
        (config.sending.send_buffer_start, config.sending.send_buffer) = (small, most);
        let mut pair = pair(config, 1 << 30, &[(40_000_000, 20), (10_000_000, 80)]);
        rate(&mut pair, seconds(5));
        rate(&mut pair, seconds(15))
    };
    let (grown, limited) = (sum(MOST), sum(256 << 10));
    assert!(grown >= 45.0, "{grown}");
    assert!(limited < 40.0, "{limited}");
}

/// A user who sends little does not use the congestion window, and fills no buffer.
#[test]
fn little_traffic_does_not_make_buffers_grow() {
    let mut pair = pair(AssociationConfig::default(), 1 << 30, &[(100_000_000, 300)]);
    let message = Bytes::from(vec![7; MESSAGE / 3]);
    for _ in 0..200 {
        assert!(pair.send(0, 0, message.clone()));
        pair.run(Duration::from_millis(50));
    }
    assert!(pair.received[1].len() > 190);
    assert_eq!(buffers(&pair), [FIRST; 2]);
}

/// What the user takes in a round trip decides, not what the peer can send.
#[test]
fn a_slow_reader_has_no_larger_buffer() {
    let mut pair = pair(AssociationConfig::default(), 1 << 30, &[(100_000_000, 100)]);
    pair.reads[1] = false;
    let message = Bytes::from(vec![7; MESSAGE]);
    for _ in 0..200 {
        pair.run_until(Duration::from_millis(20), |pair| {
            fill(pair, &message);
            false
        });
        let mut reader = pair.association_mut(1);
        if let Some(message) = reader.receive() {
            reader.release(message.charge());
        }
    }
    let statistics = pair.statistics(1);
    assert!(
        statistics.counters.message_bytes_received > 5_000_000
            && statistics.paths[0].srtt.is_some()
    );
    assert_eq!(buffers(&pair)[1], FIRST);
    assert!(statistics.receive_buffer_used > FIRST / 2);
}

/// A window that was announced stays the peer's: a reader who was fast and stops gets everything that was allowed.
#[test]
fn the_right_edge_never_moves_back() {
    let mut pair = pair(AssociationConfig::default(), 1 << 30, &[(100_000_000, 300)]);
    let message = Bytes::from(vec![7; MESSAGE]);
    rate(&mut pair, seconds(5));
    pair.reads[1] = false;
    // What was taken before still counts at the end of that round trip.
    rate(&mut pair, seconds(1));
    let grown = buffers(&pair)[1];
    assert!(grown > 2 * FIRST, "{grown}");
    let before = pair.statistics(1).counters.dropped_chunks;
    for _ in 0..60 {
        pair.run_until(seconds(1), |pair| {
            fill(pair, &message);
            false
        });
        pair.forget();
    }
    let statistics = pair.statistics(1);
    assert!(statistics.receive_buffer_used > grown / 4 * 3, "{}", statistics.receive_buffer_used);
    assert!(statistics.receive_buffer_used <= grown + RESERVE);
    // What was announced has room. Chunks that probe the closed window do not.
    let dropped = statistics.counters.dropped_chunks - before;
    assert!(dropped < 20, "{dropped}");
    assert_eq!(buffers(&pair)[1], grown);
    pair.reads[1] = true;
    rate(&mut pair, seconds(4));
    assert!(rate(&mut pair, seconds(2)) > 90.0, "it goes on");
    assert!(buffers(&pair)[1] >= grown);
}

#[test]
fn growth_stops_at_the_memory_limit() {
    let mut pair = pair(AssociationConfig::default(), 6 << 20, &[(100_000_000, 300)]);
    rate(&mut pair, seconds(6));
    let sizes = buffers(&pair);
    assert!(sizes.iter().all(|size| (FIRST + 1..=3 << 20).contains(size)), "{sizes:?}");
    assert!((0..2).all(|node| pair.net.node(node).endpoint.memory_used() <= 6 << 20));
}

#[test]
fn the_profiles_of_the_rfcs_do_not_grow() {
    for config in
        [AssociationConfig::rfc9260(), AssociationConfig::rfc4960(), AssociationConfig::rfc2960()]
    {
        let mut pair = pair(config, 1 << 30, &[(100_000_000, 100)]);
        rate(&mut pair, seconds(2));
        assert_eq!(buffers(&pair), [FIRST; 2]);
    }
}
