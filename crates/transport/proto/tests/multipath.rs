//! Concurrent multipath transfer between two endpoints.

use std::net::IpAddr;
use std::time::Duration;

use anabranch_harness::{Pair, PathMtu, Verdict, addresses, craft};
use anabranch_impair::{LinkConfig, Loss, Probability, QueueLimit};
use anabranch_proto::{
    AssociationConfig, Coupling, EndpointConfig, MultipathConfig, MultipathMode, PathChoice,
    PathState, RetransmissionPolicy, Statistics,
};
use anabranch_wire::{Chunk, Packet, kind};

const LONG: Duration = Duration::from_secs(2000);

/// CMT, or CMT-PF, with RFC 9260's own values and one change.
fn config(mode: MultipathMode, change: impl FnOnce(&mut MultipathConfig)) -> AssociationConfig {
    let mut config = AssociationConfig::rfc9260().with_multipath(mode);
    config.mtu.discovery = false;
    change(&mut config.multipath);
    config
}

fn cmt() -> AssociationConfig {
    config(MultipathMode::Cmt, |_| {})
}

/// Sets this delay and, in bits per second, this rate of a path, in both directions.
fn set_path(pair: &mut Pair, path: usize, millis: u64, rate: Option<u64>) {
    let (a, b) = (pair.addresses[0][path], pair.addresses[1][path]);
    let mut link = LinkConfig::new().delay(Duration::from_millis(millis));
    if let Some(rate) = rate {
        link = link.rate(rate).queue(QueueLimit::Bytes(100_000));
    }
    pair.net.set_link(a, b, link.clone());
    pair.net.set_link(b, a, link);
}

/// Moves `count` messages of 1,000 bytes from node 0 to node 1, and returns the seconds that it took.
/// They arrive complete, once and in order.
fn transfer(pair: &mut Pair, count: usize) -> f64 {
    let begun = pair.net.now();
    let (mut next, before) = (0, pair.received[1].len());
    let done = pair.run_until(LONG, |pair| {
        while next < count && pair.send(0, 0, next.to_be_bytes().repeat(125)) {
            next += 1;
        }
        pair.received[1].len() == before + count
    });
    assert!(done, "{} of {count} messages", pair.received[1].len() - before);
    for (number, message) in pair.received[1][before..].iter().enumerate() {
        assert_eq!(message.payload.clone().into_bytes(), number.to_be_bytes().repeat(125));
    }
    pair.net.now().saturating_since(begun).as_secs_f64()
}

/// DATA packets of node 0 on each of two paths.
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
fn all_paths_carry_new_data() {
    let mut took = Vec::new();
    for mode in [MultipathMode::Off, MultipathMode::Cmt, MultipathMode::CmtPf] {
        let mut pair = Pair::connected(2, config(mode, |_| {}));
        set_path(&mut pair, 0, 10, Some(4_000_000));
        set_path(&mut pair, 1, 10, Some(4_000_000));
        took.push(transfer(&mut pair, 6000));
        let [first, second] = packets(&pair);
        if mode == MultipathMode::Off {
            assert_eq!(second, 0);
        } else {
            assert!(first.abs_diff(second) < 600, "{mode}: {first} and {second} packets");
        }
    }
    assert!(took[0] > 1.8 * took[1] && took[0] > 1.8 * took[2], "{took:?} s");
}

#[test]
fn paths_of_different_delay_do_not_look_like_loss() {
    for delayed_acks in [false, true] {
        let mut pair =
            Pair::connected(2, config(MultipathMode::Cmt, |m| m.delayed_acks = delayed_acks));
        set_path(&mut pair, 0, 5, None);
        set_path(&mut pair, 1, 80, None);
        transfer(&mut pair, 2000);
        let [first, second] = packets(&pair);
        assert!(first > 50 && second > 50, "{first} and {second} packets");
        let statistics = pair.statistics(0);
        assert_eq!(retransmissions(&statistics), 0, "{:?}", statistics.counters);
        assert_eq!(statistics.counters.fast_recoveries, 0);
        // TSNs are missing most of the time. Without the option each packet gets its own SACK.
        let sacks = pair.count(1, kind::SACK);
        let expected = if delayed_acks { 0..1400 } else { 1800..2500 };
        assert!(expected.contains(&sacks), "{sacks} SACKs");
    }
}

#[test]
fn delayed_acks_say_how_many_packets_they_cover() {
    let mut pair = Pair::connected(2, cmt());
    set_path(&mut pair, 1, 60, None);
    transfer(&mut pair, 200);
    let mut counts = [0; 4];
    for (_, bytes) in pair.sent(1) {
        for chunk in Packet::parse(&bytes).unwrap().chunks().map(Result::unwrap) {
            if chunk.kind == kind::SACK {
                assert_eq!(chunk.flags & 0x3f, 0);
                counts[usize::from(chunk.flags >> 6)] += 1;
            }
        }
    }
    assert!(counts[2] > 50, "{counts:?}");
    let mut plain = Pair::connected(2, config(MultipathMode::Cmt, |m| m.delayed_acks = false));
    transfer(&mut plain, 200);
    let flags = |(_, bytes): (_, bytes::Bytes)| {
        let packet = Packet::parse(&bytes).unwrap();
        packet.chunks().map(Result::unwrap).filter(|c| c.kind == kind::SACK).map(|c| c.flags).max()
    };
    assert_eq!(plain.sent(1).into_iter().filter_map(flags).max(), Some(0));
}

/// The TSN of the `nth` DATA packet of a path is lost once.
fn lose_once(pair: &mut Pair, path: usize, nth: usize) {
    let from = pair.addresses[0][path];
    let mut seen = 0;
    pair.net.script(move |sight| {
        if sight.from != from || !sight.has(kind::DATA) {
            return Verdict::Pass;
        }
        seen += 1;
        if seen == nth { Verdict::Drop } else { Verdict::Pass }
    });
}

#[test]
fn a_loss_lowers_the_window_of_its_path_only() {
    let mut pair = Pair::connected(2, cmt());
    lose_once(&mut pair, 1, 40);
    transfer(&mut pair, 1000);
    let statistics = pair.statistics(0);
    let counters = &statistics.counters;
    assert_eq!((counters.fast_recoveries, counters.timeouts), (1, 0), "{counters:?}");
    assert_eq!(retransmissions(&statistics), 1);
    // Before the loss both are in slow start, where the threshold is as high as it can be.
    assert_eq!(statistics.paths[0].ssthresh, usize::MAX);
    assert!(statistics.paths[1].ssthresh < 1 << 20);
    // RTX-SSTHRESH: the other path's threshold is the larger one.
    assert_eq!(statistics.paths[0].retransmitted_chunks, 1);
}

#[test]
fn a_loss_is_found_although_acks_are_delayed() {
    // Three packets follow the lost one on its path and none on the other. A SACK that covers two packets
    // and reports that makes three missing reports; counting SACKs makes only two.
    let mut config = cmt();
    config.acknowledging.sack_frequency = 2;
    let mut pair = Pair::connected(2, config);
    transfer(&mut pair, 200);
    pair.forget();
    let other = pair.addresses[0][1];
    let mut lost = false;
    pair.net.script(move |sight| {
        let first = !lost && sight.has(kind::DATA) && sight.from != other;
        lost |= first;
        if first { Verdict::Drop } else { Verdict::Pass }
    });
    transfer(&mut pair, 60);
    let counters = pair.statistics(0).counters;
    assert_eq!((counters.fast_recoveries, counters.timeouts), (1, 0), "{counters:?}");
}

#[test]
fn retransmissions_take_the_path_that_the_policy_prefers() {
    use RetransmissionPolicy::{AllRtxSame, RtxAsap, RtxCwnd, RtxLossRate, RtxSsthresh};
    // Path 1 loses; path 2 has the smallest window, because it is the slowest.
    for (policy, expected) in
        [(AllRtxSame, 1), (RtxAsap, 0), (RtxCwnd, 0), (RtxSsthresh, 0), (RtxLossRate, 0)]
    {
        let mut config = cmt();
        config.paths.retransmission = policy;
        let mut pair = Pair::connected(2, config);
        lose_once(&mut pair, 1, 60);
        transfer(&mut pair, 1000);
        let statistics = pair.statistics(0);
        assert_eq!(retransmissions(&statistics), 1, "{policy}");
        assert_eq!(statistics.paths[expected].retransmitted_chunks, 1, "{policy}");
    }
}

#[test]
fn what_waits_for_a_full_path_goes_as_soon_as_another_one_has_room() {
    let mut config = cmt();
    config.paths.retransmission = RetransmissionPolicy::RtxAsap;
    let mut pair = Pair::connected(2, config);
    set_path(&mut pair, 1, 200, None);
    let lossy = LinkConfig::new().loss(Loss::Uniform(Probability::percent(10)));
    let (a, b) = (pair.addresses[0][0], pair.addresses[1][0]);
    pair.net.set_link(a, b, lossy.delay(Pair::DELAY));
    transfer(&mut pair, 2000);
    let statistics = pair.statistics(0);
    assert!(statistics.paths.iter().all(|path| path.retransmitted_chunks > 0));
}

#[test]
fn a_slow_path_takes_no_more_than_its_share_of_the_buffers() {
    const WINDOW: usize = 64_000;
    for split in [false, true] {
        let mut config = config(MultipathMode::Cmt, |m| m.buffer_split = split);
        config.receiving.receive_buffer = WINDOW;
        let mut pair = Pair::connected(2, config);
        set_path(&mut pair, 0, 50, None);
        set_path(&mut pair, 1, 50, Some(500_000));
        let mut largest = 0;
        let mut next = 0usize;
        let done = pair.run_until(LONG, |pair| {
            while next < 2000 && pair.send(0, 0, vec![1; 1000]) {
                next += 1;
            }
            largest =
                pair.statistics(0).paths.iter().map(|path| path.flight).fold(largest, usize::max);
            pair.received[1].len() == 2000
        });
        assert!(done);
        let share = WINDOW / 2 + 2000;
        assert_eq!(largest <= share, split, "{largest} bytes in flight on one path");
    }
}

#[test]
fn the_next_packet_takes_the_path_that_the_choice_prefers() {
    for (choice, expected) in [(PathChoice::RoundRobin, [20, 20]), (PathChoice::LowestRtt, [0, 40])]
    {
        let mut config = config(MultipathMode::Cmt, |m| m.path_choice = choice);
        // A delayed acknowledgement would count for the path.
        config.acknowledging.sack_frequency = 1;
        let mut pair = Pair::connected(2, config);
        set_path(&mut pair, 0, 40, None);
        set_path(&mut pair, 1, 5, None);
        // Both are measured.
        for path in [0, 1] {
            let (now, remote) = (pair.net.now(), pair.addresses[1][path]);
            for _ in 0..4 {
                pair.association_mut(0).request_heartbeat(now, remote).unwrap();
                pair.run(Duration::from_secs(1));
            }
        }
        pair.forget();
        for _ in 0..40 {
            assert!(pair.send(0, 0, vec![1; 100]));
            pair.run(Duration::from_millis(500));
        }
        assert_eq!(packets(&pair), expected, "{choice}");
    }
}

/// Sends all the time until path 1 has been cut for `cut`; returns the DATA packets sent on it
/// meanwhile.
fn cut_second_path(pair: &mut Pair, cut: Duration) -> usize {
    for path in [0, 1] {
        set_path(pair, path, 5, Some(2_000_000));
    }
    let send = |pair: &mut Pair, time: Duration| {
        let end = pair.net.now() + time;
        while pair.net.now() < end {
            while pair.send(0, 0, vec![1; 1000]) {}
            pair.run(Duration::from_millis(20));
        }
    };
    send(pair, Duration::from_secs(2));
    pair.set_up(1, false);
    // The data in flight, and the first timeout.
    send(pair, Duration::from_millis(1200));
    pair.forget();
    send(pair, cut);
    let meanwhile = packets(pair)[1];
    pair.set_up(1, true);
    meanwhile
}

#[test]
fn only_cmt_sends_new_data_into_a_path_that_may_have_failed() {
    for (mode, sends) in [(MultipathMode::Cmt, true), (MultipathMode::CmtPf, false)] {
        let mut config = config(mode, |m| m.buffer_split = false);
        config.receiving.receive_buffer = 1 << 20;
        config.paths.path_max_retrans = 5;
        let mut pair = Pair::connected(2, config);
        let meanwhile = cut_second_path(&mut pair, Duration::from_secs(10));
        assert_eq!(meanwhile > 0, sends, "{mode}: {meanwhile} packets");
        let states = pair.path_states(0);
        let expected = if sends { PathState::Active } else { PathState::PotentiallyFailed };
        assert_eq!(states, [PathState::Active, expected], "{mode}");
        let sent = pair.statistics(0).counters.messages_sent as usize;
        let all = pair.run_until(LONG, |pair| pair.received[1].len() == sent);
        assert!(all, "{mode}: {} of {sent}", pair.received[1].len());
    }
}

#[test]
fn a_path_that_answers_again_begins_with_the_window_of_pf1_or_pf2() {
    for packets in [1, 2, 4] {
        let mut config = config(MultipathMode::CmtPf, |m| m.recovered_cwnd_mtus = packets);
        config.receiving.receive_buffer = 1 << 20;
        let mut pair = Pair::connected(2, config);
        cut_second_path(&mut pair, Duration::from_secs(4));
        let back = pair.run_until(LONG, |pair| pair.path_states(0)[1] == PathState::Active);
        assert!(back);
        let path = &pair.statistics(0).paths[1];
        let pmdcs = usize::from(path.mtu) - 28 - 12;
        assert_eq!(path.cwnd / pmdcs, packets as usize, "{} bytes", path.cwnd);
    }
}

#[test]
fn with_all_paths_potentially_failed_data_goes_on() {
    let mut pair = Pair::connected(2, config(MultipathMode::CmtPf, |_| {}));
    transfer(&mut pair, 100);
    pair.set_up(0, false);
    pair.set_up(1, false);
    for _ in 0..100 {
        assert!(pair.send(0, 0, vec![1; 1000]));
    }
    pair.run(Duration::from_secs(5));
    assert_eq!(pair.path_states(0), [PathState::PotentiallyFailed; 2]);
    pair.set_up(1, true);
    let all = pair.run_until(LONG, |pair| pair.received[1].len() == 200);
    assert!(all, "{} of 200 messages", pair.received[1].len());
}

#[test]
fn either_side_may_do_without() {
    for (ours, theirs) in [(true, false), (false, true)] {
        let of = |multipath| if multipath { cmt() } else { config(MultipathMode::Off, |_| {}) };
        let mut pair = Pair::new(2, of(theirs));
        pair.connect(of(ours));
        assert!(pair.run_until(LONG, |pair| pair.both_up()));
        pair.run(Duration::from_secs(10));
        pair.forget();
        set_path(&mut pair, 1, 60, None);
        transfer(&mut pair, 500);
        assert_eq!(packets(&pair)[1] > 0, ours);
        assert_eq!(retransmissions(&pair.statistics(0)), 0);
    }
}

#[test]
fn losses_on_all_paths_are_repaired_with_every_combination() {
    let modes = [MultipathMode::Cmt, MultipathMode::CmtPf];
    let policies = RetransmissionPolicy::ALL;
    for (number, (mode, policy)) in modes
        .iter()
        .flat_map(|mode| policies.iter().map(move |policy| (*mode, *policy)))
        .enumerate()
    {
        let mut config = config(mode, |m| {
            m.coupling = Coupling::ALL[number % Coupling::ALL.len()];
            m.path_choice = PathChoice::ALL[number % 2];
            m.delayed_acks = number % 3 > 0;
        });
        config.paths.retransmission = policy;
        config.acknowledging.nr_sack = number % 2 == 1;
        config.recovery.multiple_fast_retransmit = number % 4 > 1;
        config.receiving.receive_buffer = 40_000;
        let mut pair = Pair::connected(3, config);
        for (path, percent) in [(0, 1), (1, 5), (2, 10)] {
            let loss = Loss::Uniform(Probability::percent(percent));
            let link = LinkConfig::new().delay(Pair::DELAY * (path as u32 + 1)).loss(loss);
            let (a, b) = (pair.addresses[0][path], pair.addresses[1][path]);
            pair.net.set_link(a, b, link.clone());
            pair.net.set_link(b, a, link);
        }
        transfer(&mut pair, 600);
    }
}

#[test]
fn a_sack_of_one_packet_is_no_more_than_one_report() {
    // A peer that claims to have got more packets than it acknowledges is not believed.
    let mut pair = Pair::connected(2, cmt());
    for _ in 0..8 {
        assert!(pair.send(0, 0, vec![1; 1000]));
    }
    pair.net.settle();
    let sent: Vec<u32> = (pair.sent(0).iter())
        .flat_map(|(_, bytes)| {
            let packet = Packet::parse(bytes).unwrap();
            let chunks = packet.chunks().map(|c| c.unwrap().decode().unwrap());
            chunks
                .filter_map(|c| if let Chunk::Data(d) = c { Some(d.tsn.0) } else { None })
                .collect::<Vec<_>>()
        })
        .collect();
    let first = *sent.iter().min().unwrap();
    let header = pair.header(1);
    let gap = anabranch_wire::GapBlock { start: 3, end: 3 };
    let forged = craft::packet(header, |packet| {
        let at = packet.len();
        let cumulative = anabranch_wire::Tsn(first.wrapping_sub(1));
        packet.sack(cumulative, 100_000, &[gap], &[])?;
        packet.set_flags(at, 0xc0);
        Ok(())
    });
    pair.inject(0, forged);
    assert_eq!(pair.statistics(0).counters.fast_retransmitted_chunks, 0);
    let all = pair.run_until(LONG, |pair| pair.received[1].len() == 8);
    assert!(all);
}

#[test]
fn of_all_pairs_of_addresses_those_carry_data_that_share_none() {
    // Unless routes restrict it, two addresses at either end make four paths.
    let anywhere = EndpointConfig::default;
    let mut pair = Pair::with([addresses(0, 2), addresses(1, 2)], [anywhere(), anywhere()], cmt());
    pair.connect(cmt());
    assert!(pair.run_until(LONG, |pair| pair.both_up()));
    pair.run(Duration::from_secs(10));
    pair.forget();
    assert_eq!(pair.statistics(0).paths.len(), 4);
    transfer(&mut pair, 400);
    let carried: Vec<bool> =
        pair.statistics(0).paths.iter().map(|path| path.data_bytes_sent > 100_000).collect();
    assert_eq!(carried.iter().filter(|carried| **carried).count(), 2, "{carried:?}");
    let [first, second] = packets(&pair);
    assert!(first.abs_diff(second) < 100, "{first} and {second} packets");
}

#[test]
fn flapping_paths_lose_nothing() {
    for mode in [MultipathMode::Cmt, MultipathMode::CmtPf] {
        for (first, second) in [(20, 33), (150, 90), (700, 1100), (2500, 1700), (9000, 4000)] {
            let mut pair = Pair::connected(2, config(mode, |_| {}));
            let times = [first, second].map(Duration::from_millis);
            let mut up = [true, true];
            let mut next = times.map(|time| pair.net.now() + time);
            let mut sent = 0;
            for _ in 0..40 {
                for _ in 0..20 {
                    sent += usize::from(pair.send(0, 0, vec![1; 1000]));
                }
                // Never cut both for long: the association would end.
                let turn = usize::from(next[1] < next[0]);
                pair.run(next[turn].saturating_since(pair.net.now()));
                up[turn] = !up[turn];
                next[turn] = pair.net.now() + times[turn];
                pair.set_up(turn, up[turn]);
            }
            for path in [0, 1] {
                pair.set_up(path, true);
            }
            let all = pair.run_until(LONG, |pair| pair.received[1].len() == sent);
            let came = pair.received[1].len();
            assert!(all && sent > 100, "{mode}, {first} and {second} ms: {came} of {sent}");
        }
    }
}

#[test]
fn paths_may_differ_in_family_delay_and_mtu() {
    let v6 = |node: u16| IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, node + 1]);
    let ends = [0u8, 1].map(|node| vec![addresses(node, 1)[0], v6(u16::from(node))]);
    let mut config = cmt();
    config.mtu.discovery = true;
    config.sending.fill_packets = true;
    let anywhere = EndpointConfig::default;
    let mut pair = Pair::with(ends, [anywhere(), anywhere()], config.clone());
    pair.connect(config);
    assert!(pair.run_until(LONG, |pair| pair.both_up()));
    pair.run(Duration::from_secs(10));
    let (a, b) = (pair.addresses[0][1], pair.addresses[1][1]);
    for (from, to) in [(a, b), (b, a)] {
        pair.net.set_mtu(from, to, Some(PathMtu { mtu: 1300, icmp: true }));
    }
    set_path(&mut pair, 1, 70, None);
    pair.forget();
    // Messages fill packets here, and long waits deliver them in parts.
    let data: Vec<u8> = (0..1_500_000u32).map(|at| (at / 7) as u8).collect();
    let mut next = 0;
    let done = pair.run_until(LONG, |pair| {
        while next < data.len() && pair.send(0, 0, data[next..next + 1000].to_vec()) {
            next += 1000;
        }
        pair.received_len(1) == data.len()
    });
    assert!(done, "{} bytes", pair.received_len(1));
    assert!(pair.received_bytes(1) == data);
    let [first, second] = packets(&pair);
    assert!(first > 20 && second > 20, "{first} and {second} packets");
    let mtus: Vec<u16> = pair.statistics(0).paths.iter().map(|path| path.mtu).collect();
    assert!(mtus[0] > 1300 && mtus[1] <= 1300, "{mtus:?}");
}
