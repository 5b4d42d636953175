//! Classes of streams: what is bound to one path does not hold up what takes another.

use std::time::Duration;

use anabranch_harness::{Pair, craft};
use anabranch_impair::{LinkConfig, Loss, Probability};
use anabranch_proto::config::{ClassPaths, DataPath};
use anabranch_proto::{
    AssociationConfig, CloseReason, MultipathMode, PathState, RetransmissionPolicy, SchedulerKind,
};
use anabranch_wire::kind;

const FILM: u16 = 5;
const MINUTE: Duration = Duration::from_secs(60);

/// Streams from `FILM` on are bound to the second path.
fn bound() -> AssociationConfig {
    let mut config = AssociationConfig::default();
    config.paths.class_from = Some(u32::from(FILM));
    config.paths.class_paths = ClassPaths::Others;
    config.paths.class_bound = true;
    config
}

fn preferring() -> AssociationConfig {
    let mut config = bound();
    config.paths.class_bound = false;
    config
}

fn link(millis: u64) -> LinkConfig {
    LinkConfig::new().delay(Duration::from_millis(millis))
}

/// A slow line, on which packets wait.
fn slow(millis: u64) -> LinkConfig {
    link(millis).rate(2_000_000)
}

fn set_path(pair: &mut Pair, path: usize, there: LinkConfig, back: LinkConfig) {
    let (a, b) = (pair.addresses[0][path], pair.addresses[1][path]);
    pair.net.set_link(a, b, there);
    pair.net.set_link(b, a, back);
}

/// A pair over a fast path of 10 ms, and a slow one of 50 ms.
fn pair(config: &AssociationConfig) -> Pair {
    let mut pair = Pair::new(2, config.clone());
    set_path(&mut pair, 0, link(10), link(10));
    set_path(&mut pair, 1, slow(50), link(50));
    pair.connect(config.clone());
    pair.run(Duration::from_secs(10));
    assert!(pair.both_up());
    pair.forget();
    pair
}

/// Packets with DATA that node 0 sent on each path.
fn packets(pair: &Pair) -> [usize; 2] {
    [0, 1].map(|path| {
        let from = pair.addresses[0][path];
        let kept = pair.net.trace.kept().iter();
        kept.filter(|(_, p)| p.from == from && craft::has(&p.bytes, kind::DATA)).count()
    })
}

/// Puts as much of the film into the send buffer as it takes.
fn fill(pair: &mut Pair, bytes: usize) -> usize {
    (0..10_000).take_while(|_| pair.send(0, FILM, vec![1; bytes])).count()
}

/// Sends a control message every 20 ms beside a film, and returns how long the slowest one took, in milliseconds.
fn slowest_beside_film(pair: &mut Pair, film: usize) -> u64 {
    let mut slowest = 0;
    for number in 0..50 {
        fill(pair, film);
        assert!(pair.send(0, 0, vec![number; 200]), "the film leaves no room in the send buffer");
        let (sent, mut took) = (pair.net.now(), None);
        while took.is_none() {
            fill(pair, film);
            pair.run_until(Duration::from_millis(20), |pair| {
                let arrived = pair.received[1].iter().any(|message| {
                    message.stream == 0 && message.payload.clone().into_bytes()[0] == number
                });
                if arrived && took.is_none() {
                    took = Some(pair.net.now().saturating_since(sent).as_millis() as u64);
                }
                arrived
            });
            assert!(pair.net.now().saturating_since(sent) < MINUTE, "message {number} is lost");
        }
        slowest = slowest.max(took.unwrap_or_default());
        pair.run(Duration::from_millis(20));
    }
    slowest
}

#[test]
fn a_full_path_does_not_hold_up_the_other_class() {
    for kind in SchedulerKind::ALL.iter().copied() {
        let mut config = bound();
        config.sending.scheduler = kind;
        let mut pair = pair(&config);
        let slowest = slowest_beside_film(&mut pair, 1200);
        let counters = pair.statistics(0).counters;
        assert!(slowest < 15, "{kind:?}: {slowest} ms, {counters:?}");
        let [first, second] = packets(&pair);
        assert_eq!(first, 50, "{kind:?}: the film keeps to its path");
        assert!(second > 100, "{kind:?}: {second} packets");
    }
}

#[test]
fn without_classes_a_control_message_waits_for_the_film() {
    let mut config = AssociationConfig::default();
    config.multipath.mode = MultipathMode::CmtPf;
    config.sending.send_buffer = 200_000;
    let mut pair = pair(&config);
    for _ in 0..150 {
        assert!(pair.send(0, FILM, vec![1; 1200]));
    }
    assert!(pair.send(0, 0, vec![9; 200]));
    let sent = pair.net.now();
    pair.run_until(MINUTE, |pair| pair.received[1].iter().any(|message| message.stream == 0));
    let took = pair.net.now().saturating_since(sent).as_millis();
    assert!(took > 30, "{took} ms");
}

/// The bytes that arrived on a stream. A long message may arrive in pieces.
fn arrived(pair: &Pair, stream: u16) -> Vec<u8> {
    let of_stream = pair.received[1].iter().filter(|message| message.stream == stream);
    of_stream.flat_map(|message| message.payload.clone().into_bytes()).collect()
}

/// Runs until these messages have arrived on each of four streams, once and in order.
fn finish(pair: &mut Pair, messages: &[Vec<u8>]) {
    let sent = messages.concat();
    let all = pair.run_until(10 * MINUTE, |pair| pair.received_len(1) >= 4 * sent.len());
    assert!(all, "{} of {} bytes arrived", pair.received_len(1), 4 * sent.len());
    pair.run(Duration::from_secs(2));
    for stream in [0, 1, FILM, FILM + 1] {
        assert!(arrived(pair, stream) == sent, "stream {stream}");
    }
}

/// Sends `count` messages on each of four streams, in turn, at intervals of 5 ms.
fn send_on_four(pair: &mut Pair, count: usize, bytes: usize, mut at: impl FnMut(usize, &mut Pair)) {
    let messages: Vec<_> = (0..count).map(|number| vec![number as u8; bytes]).collect();
    for (number, data) in messages.iter().enumerate() {
        at(number, pair);
        for stream in [0, FILM, 1, FILM + 1] {
            let mut waited = 0;
            while !pair.send(0, stream, data.clone()) {
                pair.run(Duration::from_millis(20));
                waited += 20;
                assert!(waited < 600_000, "stream {stream} waits forever");
            }
        }
        pair.run(Duration::from_millis(5));
    }
    finish(pair, &messages);
}

#[test]
fn a_class_that_prefers_its_path_takes_the_other_one_if_its_own_is_full() {
    let mut pair = pair(&preferring());
    let count = fill(&mut pair, 1200);
    pair.run_until(MINUTE, |pair| pair.received[1].len() == count);
    let [first, second] = packets(&pair);
    assert!(first > 50 && second > 10, "{first} and {second} packets");
}

#[test]
fn a_class_may_take_the_path_with_the_lowest_latency() {
    let mut config = bound();
    config.paths.class_paths = ClassPaths::LowestLatency;
    let mut pair = pair(&config);
    set_path(&mut pair, 0, link(90), link(90));
    set_path(&mut pair, 1, link(20), link(20));
    pair.run(MINUTE / 2);
    pair.forget();
    for _ in 0..20 {
        assert!(pair.send(0, FILM, vec![1; 100]) && pair.send(0, 0, vec![1; 100]));
        pair.run(Duration::from_millis(50));
    }
    assert_eq!(packets(&pair), [20, 20]);
    assert!(pair.send(0, FILM, vec![1; 100]));
    let begun = pair.net.now();
    let count = pair.received[1].len();
    pair.run_until(MINUTE, |pair| pair.received[1].len() > count);
    assert!(pair.net.now().saturating_since(begun) < Duration::from_millis(25));
}

#[test]
fn retransmissions_keep_to_the_path_of_their_class() {
    for policy in RetransmissionPolicy::ALL.iter().copied() {
        let mut config = bound();
        config.paths.retransmission = policy;
        // Without the state of RFC 7829 a path that has timed out works.
        config.paths.potentially_failed_max_retrans = None;
        let mut pair = pair(&config);
        let lossy = slow(50).loss(Loss::Uniform(Probability::percent(5)));
        set_path(&mut pair, 1, lossy, link(50));
        let count = fill(&mut pair, 1200).min(400);
        assert!(count > 100);
        pair.run_until(MINUTE, |pair| pair.received[1].len() >= count);
        let counters = pair.statistics(0).counters;
        let after_timeouts = counters.timeout_retransmitted_chunks;
        assert!(packets(&pair)[0] as u64 <= after_timeouts, "{policy:?}: {counters:?}");
        assert!(counters.fast_retransmitted_chunks > 5, "{policy:?}: {counters:?}");
    }
}

#[test]
fn what_is_bound_waits_for_its_path_and_leaves_it_when_it_has_failed() {
    let mut pair = pair(&bound());
    pair.set_up(1, false);
    assert!(pair.send(0, FILM, vec![1; 100]));
    // T3-rtx expires: the path is potentially failed, and what was in flight takes the other one.
    pair.run_until(MINUTE, |pair| pair.path_states(0)[1] == PathState::PotentiallyFailed);
    pair.run(Duration::from_millis(100));
    pair.forget();
    assert!(pair.send(0, FILM, vec![2; 100]) && pair.send(0, 0, vec![3; 100]));
    pair.run(Duration::from_millis(500));
    assert_eq!(packets(&pair), [1, 0], "the message of the other class only");
    let failed = pair.run_until(10 * MINUTE, |pair| pair.path_states(0)[1] == PathState::Inactive);
    assert!(failed);
    pair.run(Duration::from_millis(100));
    assert_eq!(packets(&pair), [2, 0]);
    pair.set_up(1, true);
    pair.run_until(10 * MINUTE, |pair| pair.path_states(0)[1] == PathState::Active);
    pair.forget();
    assert!(pair.send(0, FILM, vec![4; 100]));
    pair.run(Duration::from_secs(1));
    assert_eq!(packets(&pair), [0, 1], "the class returns to its path");
}

#[test]
fn a_message_sent_in_part_does_not_hold_up_the_other_class_for_long() {
    let mut pair = pair(&bound());
    assert!(pair.send(0, FILM, vec![1; 60_000]));
    pair.run(Duration::from_millis(20));
    pair.set_up(1, false);
    assert!(pair.send(0, 0, vec![2; 100]));
    let begun = pair.net.now();
    let arrives = |pair: &mut Pair| pair.received[1].iter().any(|message| message.stream == 0);
    assert!(pair.run_until(MINUTE, arrives));
    let took = pair.net.now().saturating_since(begun);
    assert!(took < Duration::from_secs(3), "{took:?}");
    assert!(pair.run_until(MINUTE, |pair| pair.received[1].len() == 2));
}

#[test]
fn with_one_path_classes_mean_nothing() {
    let mut pair = Pair::connected(1, bound());
    send_on_four(&mut pair, 20, 700, |_, _| ());
}

#[test]
fn an_association_with_a_bound_class_ends() {
    let mut pair = pair(&bound());
    let count = fill(&mut pair, 1200);
    pair.set_up(1, false);
    pair.shutdown(0);
    pair.run_until(10 * MINUTE, |pair| pair.closed.iter().all(Option::is_some));
    assert_eq!(pair.closed, [Some(CloseReason::Shutdown), Some(CloseReason::Shutdown)]);
    assert_eq!(pair.received[1].len(), count);
}

#[test]
fn nothing_is_lost_doubled_or_out_of_order_with_random_faults() {
    type Change = fn(&mut AssociationConfig);
    let variants: [(&str, Change); 6] = [
        ("bound", |_| ()),
        ("preferring", |config| config.paths.class_bound = false),
        ("primary", |config| {
            config.paths.class_paths = ClassPaths::Primary;
            config.paths.data_path = DataPath::LowestLatency;
        }),
        ("copies", |config| config.paths.copies_up_to = Some(2000)),
        ("cmt", |config| config.multipath.mode = MultipathMode::Cmt),
        ("cmt-pf", |config| config.multipath.mode = MultipathMode::CmtPf),
    ];
    for (seed, (name, change)) in variants.into_iter().enumerate() {
        for interleaving in [false, true] {
            println!("{name}, interleaving {interleaving}");
            let mut config = bound();
            config.sending.interleaving = interleaving;
            config.sending.scheduler = SchedulerKind::ALL[seed % SchedulerKind::ALL.len()];
            config.sending.send_buffer = 40_000;
            config.receiving.receive_buffer = 30_000;
            change(&mut config);
            let mut pair = pair(&config);
            for path in [0, 1] {
                let loss = Loss::Uniform(Probability::percent(4));
                let there = link(20 + 30 * path as u64).loss(loss).jitter(Duration::from_millis(9));
                set_path(&mut pair, path, there.clone(), there);
            }
            send_on_four(&mut pair, 150, 2500, |number, pair| match number % 50 {
                10 => pair.set_up(0, false),
                20 => pair.set_up(0, true),
                30 => pair.set_up(1, false),
                40 => pair.set_up(1, true),
                _ => (),
            });
        }
    }
}
