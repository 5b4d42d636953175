//! Paths chosen for latency: the shortest one for new data, and copies of small messages on a second one.

use std::time::Duration;

use anabranch_harness::{Pair, craft};
use anabranch_impair::{LinkConfig, Loss, Probability};
use anabranch_proto::config::DataPath;
use anabranch_proto::{AssociationConfig, MultipathMode, Statistics};
use anabranch_wire::kind;

const MINUTE: Duration = Duration::from_secs(60);

fn lowest_latency() -> AssociationConfig {
    let mut config = AssociationConfig::default();
    config.paths.data_path = DataPath::LowestLatency;
    config
}

fn copies() -> AssociationConfig {
    let mut config = AssociationConfig::default();
    config.paths.copies_up_to = Some(300);
    config
}

fn link(millis: u64) -> LinkConfig {
    LinkConfig::new().delay(Duration::from_millis(millis))
}

fn lossy(millis: u64, percent: u32) -> LinkConfig {
    link(millis).loss(Loss::Uniform(Probability::percent(percent)))
}

/// Sets the link of a path from node 0 to node 1, and the way back with the same delay and no loss.
fn set_path(pair: &mut Pair, path: usize, millis: u64, there: LinkConfig) {
    let (a, b) = (pair.addresses[0][path], pair.addresses[1][path]);
    pair.net.set_link(a, b, there);
    pair.net.set_link(b, a, link(millis));
}

/// A pair whose two paths have these delays.
fn pair(config: &AssociationConfig, delays: [u64; 2]) -> Pair {
    let mut pair = Pair::new(2, config.clone());
    for (path, millis) in delays.into_iter().enumerate() {
        set_path(&mut pair, path, millis, link(millis));
    }
    pair.connect(config.clone());
    pair.run(Duration::from_secs(10));
    assert!(pair.both_up());
    pair.forget();
    pair
}

/// Sends `count` messages of `bytes` bytes at intervals of 10 ms, waits until all have arrived, in order and once,
/// and returns how many milliseconds each took.
fn send(pair: &mut Pair, count: usize, bytes: usize) -> Vec<u64> {
    let before = pair.received[1].len();
    let (mut sent, mut delays) = (Vec::new(), Vec::new());
    while delays.len() < count {
        if sent.len() < count {
            assert!(pair.send(0, 0, vec![sent.len() as u8; bytes]));
            sent.push(pair.net.now());
        }
        pair.run_until(Duration::from_millis(10), |pair| {
            while delays.len() < pair.received[1].len() - before {
                let took = pair.net.now().saturating_since(sent[delays.len()]);
                delays.push(took.as_millis() as u64);
            }
            false
        });
        let waited = pair.net.now().saturating_since(sent[sent.len() - 1]);
        assert!(waited < MINUTE, "{} of {count} messages arrived", delays.len());
    }
    for (number, message) in pair.received[1][before..].iter().enumerate() {
        assert_eq!(message.payload.clone().into_bytes(), vec![number as u8; bytes]);
    }
    delays
}

/// Packets with DATA that node 0 sent on each path.
fn packets(pair: &Pair) -> [usize; 2] {
    [0, 1].map(|path| {
        let from = pair.addresses[0][path];
        let kept = pair.net.trace.kept().iter();
        kept.filter(|(_, p)| p.from == from && craft::has(&p.bytes, kind::DATA)).count()
    })
}

fn retransmissions(statistics: &Statistics) -> u64 {
    statistics.paths.iter().map(|path| path.retransmitted_chunks).sum()
}

#[test]
fn data_takes_the_path_with_the_lowest_latency() {
    let mut pair = pair(&lowest_latency(), [60, 20]);
    send(&mut pair, 50, 256);
    assert_eq!(packets(&pair), [0, 50]);
    // The other one becomes the shorter one, which only heartbeats can show.
    set_path(&mut pair, 0, 5, link(5));
    pair.run(MINUTE / 4);
    pair.forget();
    send(&mut pair, 50, 256);
    assert_eq!(packets(&pair), [50, 0]);
    assert_eq!(retransmissions(&pair.statistics(0)), 0);
}

#[test]
fn the_primary_path_is_used_without_the_option() {
    let mut pair = pair(&AssociationConfig::default(), [60, 20]);
    send(&mut pair, 50, 256);
    assert_eq!(packets(&pair), [50, 0]);
}

#[test]
fn a_move_to_a_shorter_path_does_not_look_like_loss() {
    let mut config = AssociationConfig::rfc9260();
    config.paths.data_path = DataPath::LowestLatency;
    let mut pair = pair(&config, [30, 80]);
    set_path(&mut pair, 1, 2, link(2));
    // Data is in flight on the long path when its first packets on the short one arrive.
    send(&mut pair, 3000, 1000);
    let [first, second] = packets(&pair);
    assert!(first > 50 && second > 500, "{first} and {second} packets");
    let statistics = pair.statistics(0);
    assert_eq!(retransmissions(&statistics), 0, "{:?}", statistics.counters);
}

#[test]
fn the_first_copy_counts_and_the_second_means_nothing() {
    for profile in [AssociationConfig::default(), AssociationConfig::rfc9260()] {
        let mut config = profile;
        config.paths.copies_up_to = Some(300);
        let mut pair = pair(&config, [60, 20]);
        let before = pair.statistics(0);
        let delays = send(&mut pair, 200, 256);
        assert_eq!(packets(&pair), [200, 200]);
        assert!(delays.iter().all(|millis| (20..22).contains(millis)), "{delays:?}");
        pair.run(Duration::from_secs(2));
        let after = pair.statistics(0);
        assert_eq!(after.counters.copied_chunks, 200);
        assert_eq!(after.counters.fast_recoveries, 0);
        assert_eq!(after.counters.timeouts, 0);
        assert_eq!(retransmissions(&after), 0);
        assert_eq!(pair.statistics(1).counters.duplicate_chunks, 200);
        for (path, (before, after)) in before.paths.iter().zip(&after.paths).enumerate() {
            assert_eq!(after.cwnd, before.cwnd, "path {path} is neither credited nor punished");
            let srtt = after.srtt.map_or(0, |srtt| srtt.as_millis() as u64);
            let trip = [120, 40][path];
            assert!((trip..trip + 3).contains(&srtt), "path {path}: {srtt} ms");
        }
    }
}

#[test]
fn only_small_messages_are_copied() {
    let mut pair = pair(&copies(), [10, 20]);
    send(&mut pair, 20, 301);
    assert_eq!(packets(&pair), [20, 0]);
    send(&mut pair, 20, 300);
    assert_eq!(packets(&pair), [40, 20]);
}

#[test]
fn copies_make_up_for_losses() {
    let late = |config: AssociationConfig| {
        let mut pair = pair(&config, [20, 30]);
        set_path(&mut pair, 0, 20, lossy(20, 3));
        set_path(&mut pair, 1, 30, lossy(30, 3));
        let delays = send(&mut pair, 2000, 256);
        delays.iter().filter(|millis| **millis > 45).count()
    };
    let (without, with) = (late(AssociationConfig::default()), late(copies()));
    assert!(without > 100, "{without} of 2000 late without copies");
    assert!(with * 5 < without, "{with} of 2000 late, {without} without copies");
}

#[test]
fn a_chunk_that_both_paths_lose_does_not_wait_for_the_timer() {
    let mut pair = pair(&copies(), [20, 30]);
    for path in [0, 1] {
        let millis = [20, 30][path];
        set_path(&mut pair, path, millis, lossy(millis, 100));
    }
    assert!(pair.send(0, 0, vec![0; 256]));
    pair.run(Duration::from_millis(10));
    assert_eq!(packets(&pair), [1, 1]);
    for path in [0, 1] {
        let millis = [20, 30][path];
        set_path(&mut pair, path, millis, link(millis));
    }
    let begun = pair.net.now();
    for number in 1..30 {
        assert!(pair.send(0, 0, vec![number; 256]));
        pair.run_until(Duration::from_millis(10), |pair| pair.received[1].len() > 1);
    }
    let took = pair.net.now().saturating_since(begun).as_millis();
    assert!(took < 120, "{took} ms");
    pair.run(Duration::from_secs(2));
    assert_eq!(pair.received[1].len(), 30);
    let counters = pair.statistics(0).counters;
    assert_eq!((counters.timeouts, counters.fast_recoveries), (0, 1), "{counters:?}");
}

/// The most bytes of copies that were sent on path 1 in any of its round trips.
fn most_in_a_trip(pair: &Pair, trip: Duration) -> usize {
    let from = pair.addresses[0][1];
    let sent: Vec<_> = pair.net.trace.kept().iter().filter(|(_, p)| p.from == from).collect();
    let in_trip = |start: usize| {
        let (at, _) = sent[start];
        let all = sent[start..].iter().take_while(|(later, _)| *later < *at + trip);
        all.filter(|(_, p)| craft::has(&p.bytes, kind::DATA)).map(|(_, p)| p.bytes.len()).sum()
    };
    (0..sent.len()).map(in_trip).max().unwrap_or(0)
}

#[test]
fn copies_take_their_share_of_a_window_only() {
    let mut config = copies();
    config.paths.copies_share = 20;
    // What is copied is acknowledged over the short path long before it has left the long one.
    let mut pair = pair(&config, [2, 100]);
    let cwnd = pair.statistics(0).paths[1].cwnd;
    send(&mut pair, 2000, 256);
    let most = most_in_a_trip(&pair, Duration::from_millis(200));
    let share = cwnd / 5;
    assert!(most > share / 2 && most <= share + share / 10, "{most} bytes, {share} are the share");
    assert!(pair.statistics(0).counters.uncopied_chunks > 0);
}

#[test]
fn a_path_that_dies_while_copies_hide_it_is_found_by_heartbeats() {
    let mut pair = pair(&copies(), [20, 30]);
    set_path(&mut pair, 0, 20, lossy(20, 100));
    let delays = send(&mut pair, 300, 256);
    assert!(delays.iter().all(|millis| *millis < 35), "{delays:?}");
    pair.forget();
    send(&mut pair, 50, 256);
    assert_eq!(
        packets(&pair),
        [0, 50],
        "the second path is in use, and the first one is not tried"
    );
}

#[test]
fn copies_begin_and_end_while_data_flows() {
    let config = AssociationConfig::default().with_multipath(MultipathMode::CmtPf);
    let mut pair = pair(&config, [20, 20]);
    let change = |pair: &mut Pair, most| {
        let mut config = pair.association(0).unwrap().config().clone();
        config.paths.copies_up_to = most;
        let now = pair.net.now();
        pair.association_mut(0).reconfigure(now, &config)
    };
    let mut copied = |most| {
        change(&mut pair, most).unwrap();
        let before = pair.statistics(0).counters.copied_chunks;
        send(&mut pair, 100, 256);
        pair.statistics(0).counters.copied_chunks - before
    };
    assert_eq!(copied(None), 0);
    // What is sent again is copied as well.
    assert!(copied(Some(300)) >= 100);
    assert_eq!(copied(None), 0);
}

#[test]
fn copies_do_not_begin_where_one_path_has_numbered_the_packets() {
    let mut pair = pair(&AssociationConfig::default(), [20, 20]);
    let now = pair.net.now();
    let error = pair.association_mut(0).reconfigure(now, &copies()).unwrap_err();
    assert!(error.to_string().contains("copies_up_to"), "{error}");
    assert_eq!(pair.association(0).unwrap().config().paths.copies_up_to, None);
}

#[test]
fn copies_beside_concurrent_multipath_transfer() {
    let mut config = copies().with_multipath(MultipathMode::CmtPf);
    config.paths.copies_up_to = Some(300);
    let mut pair = pair(&config, [20, 30]);
    set_path(&mut pair, 0, 20, lossy(20, 2));
    set_path(&mut pair, 1, 30, lossy(30, 2));
    send(&mut pair, 500, 256);
    let [first, second] = packets(&pair);
    assert!(first > 480 && second > 480, "{first} and {second} packets");
}

/// Two paths of about the same delay, and messages now and then. Acknowledgements are delayed for different times, which
/// is no reason to send anything on the other path as well.
#[test]
fn what_is_late_by_an_acknowledgement_is_not_sent_again() {
    for (delays, gap) in [([20, 20], 10), ([10, 10], 10), ([20, 25], 10), ([20, 20], 30)] {
        let mut pair =
            pair(&AssociationConfig::default().with_multipath(MultipathMode::CmtPf), delays);
        for _ in 0..200 {
            assert!(pair.send(0, 0, [0; 100].as_slice()));
            pair.run(Duration::from_millis(gap));
        }
        let again: u64 =
            pair.statistics(0).paths.iter().map(|path| path.retransmitted_chunks).sum();
        assert!(again <= 6, "{delays:?}, {gap} ms: {again}");
    }
}
