//! The policies of multihoming between two endpoints, one by one.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use anabranch_harness::{Pair, Verdict, craft};
use anabranch_impair::{LinkConfig, Loss, Probability};
use anabranch_proto::{
    AssociationConfig, CloseReason, ConnectRequest, DormantBehaviour, Event, InitiationOrder,
    Notification, PathState, RetransmissionPolicy, RetransmissionPrecedence, Revision,
};
use anabranch_wire::{Chunk, Data, Packet, kind};

const LONG: Duration = Duration::from_secs(2000);

fn config() -> AssociationConfig {
    let mut config = AssociationConfig::rfc2960();
    config.paths.retransmission = RetransmissionPolicy::FrSameRtoAlt;
    config.mtu.discovery = false;
    config
}

/// Paths on which node 0 sent packets with this kind of chunk, in order.
fn paths_of(pair: &Pair, wanted: u8) -> Vec<usize> {
    let from = &pair.addresses[0];
    let kept = pair.net.trace.kept().iter().filter(|(_, packet)| craft::has(&packet.bytes, wanted));
    kept.filter_map(|(_, packet)| from.iter().position(|local| *local == packet.from)).collect()
}

fn failovers(pair: &Pair) -> Vec<String> {
    pair.events[0]
        .iter()
        .filter_map(|event| match event {
            Event::Notification(Notification::FailedOver { from, to, permanent, .. }) => {
                let how = if *permanent { "for good" } else { "for now" };
                Some(format!("{} to {} {how}", from, to))
            }
            Event::Notification(Notification::Dormant) => Some("dormant".to_owned()),
            Event::Notification(Notification::Recovered { path, .. }) => {
                Some(format!("{} recovered", path))
            }
            _ => None,
        })
        .collect()
}

#[test]
fn a_heartbeat_follows_a_timeout_with_har_and_never_with_all_rtx_same() {
    for (har, policy, expected) in [
        (false, RetransmissionPolicy::FrSameRtoAlt, 0),
        (true, RetransmissionPolicy::FrSameRtoAlt, 1),
        (true, RetransmissionPolicy::AllRtxAlt, 1),
        (true, RetransmissionPolicy::AllRtxSame, 0),
    ] {
        let mut config = config();
        config.paths.retransmission = policy;
        config.paths.heartbeat_after_rto = har;
        let mut pair = Pair::connected(2, config);
        let first = pair.addresses[0][0];
        pair.net.script(move |sight| match sight.from == first && sight.has(kind::DATA) {
            true => Verdict::Drop,
            false => Verdict::Pass,
        });
        assert!(pair.send(0, 0, vec![1; 500]));
        assert!(pair.run_until(LONG, |pair| pair.statistics(0).counters.timeouts == 1));
        pair.run(Duration::from_millis(500));
        let beats = paths_of(&pair, kind::HEARTBEAT);
        assert_eq!(beats, vec![0; expected], "{har} {policy}");
        let rto = pair.statistics(0).paths[0].rto;
        let expected = if expected == 1 { 1 } else { 2 };
        assert_eq!(rto.as_secs(), expected, "the answer ends the back-off");
    }
}

#[test]
fn timestamps_are_used_if_both_sides_want_them() {
    for (client, server) in [(true, true), (true, false), (false, true), (false, false)] {
        let with = |timestamps| {
            let mut config = config();
            config.recovery.timestamps = timestamps;
            config
        };
        let mut pair = Pair::new(1, with(server));
        pair.connect(with(client));
        assert!(pair.run_until(LONG, |pair| pair.both_up()));
        assert!(pair.send(0, 0, vec![1; 5000]));
        pair.run(Duration::from_secs(1));
        assert_eq!(pair.received_len(1), 5000);
        let stamped = [0, 1].map(|node| pair.count(node, kind::TIMESTAMP));
        if client && server {
            let data = pair.count(0, kind::DATA);
            assert_eq!(stamped, [data, pair.count(1, kind::SACK)]);
        } else {
            assert_eq!(stamped, [0, 0], "{client} {server}");
        }
    }
}

#[test]
fn with_timestamps_a_retransmission_is_measured_and_credits_its_own_path() {
    for timestamps in [false, true] {
        let mut config = config();
        config.recovery.timestamps = timestamps;
        config.recovery.credit_retransmissions = true;
        config.timers.heartbeat_interval = None;
        let mut pair = Pair::connected(2, config);
        // The data arrives after the retransmission that took the other path was sent, and its
        // acknowledgements are lost until then.
        let first = pair.addresses[1][0];
        pair.set_up(0, false);
        assert!(pair.send(0, 0, vec![1; 500]));
        assert!(pair.run_until(LONG, |pair| !pair.received[1].is_empty()));
        pair.run(Duration::from_secs(1));
        let statistics = pair.statistics(0);
        assert_eq!(statistics.paths[0].error_count, 1, "nothing came over {first}");
        assert_eq!(statistics.paths[1].srtt.is_some(), timestamps, "Karn's algorithm");
        assert_eq!(statistics.counters.spurious_retransmissions, 0);
    }
}

#[test]
fn timestamps_find_retransmissions_that_were_not_needed() {
    let mut config = config();
    config.recovery.timestamps = true;
    config.timers.heartbeat_interval = None;
    let mut pair = Pair::connected(2, config);
    // Acknowledgements are late by an RTO: what times out had arrived, and the first answer to
    // come is still that to the first transmission.
    let first = pair.addresses[1][0];
    pair.net.script(move |sight| match sight.from == first && sight.has(kind::SACK) {
        true => Verdict::Delay(Duration::from_millis(990)),
        false => Verdict::Pass,
    });
    assert!(pair.send(0, 0, vec![1; 500]));
    assert!(pair.run_until(LONG, |pair| pair.statistics(0).counters.timeouts == 1));
    pair.run(Duration::from_secs(3));
    let statistics = pair.statistics(0);
    assert_eq!(statistics.counters.spurious_retransmissions, 1);
    assert_eq!(statistics.paths[0].error_count, 0, "the first path had worked");
}

#[test]
fn pmr_0_fails_over_at_the_first_timeout_and_returns_with_the_first_answer() {
    let mut config = config();
    config.paths.path_max_retrans = 0;
    let mut pair = Pair::connected(2, config);
    pair.set_up(0, false);
    for _ in 0..10 {
        assert!(pair.send(0, 0, vec![1; 1000]));
    }
    pair.run(Duration::from_millis(1500));
    assert_eq!(pair.statistics(0).active.number(), 1);
    assert_eq!(failovers(&pair), ["0 to 1 for now"]);
    pair.set_up(0, true);
    // Heartbeats continue with the timeouts: the next one 2 s after the first.
    pair.run(Duration::from_secs(3));
    assert_eq!(pair.statistics(0).active.number(), 0);
    assert_eq!(failovers(&pair), ["0 to 1 for now", "0 recovered"]);
    assert_eq!(pair.received_len(1), 10_000);
    assert!(pair.statistics(0).paths[0].cwnd <= 1460, "back in slow start");
}

/// What leaves first after a failover is a retransmission; it does not hide how long the path was
/// idle.
#[test]
// test: rfc9260 7.2.1 "the cwnd of the transport address SHOULD be"
fn the_window_of_an_alternate_path_decays_until_the_failover() {
    let mut config = config();
    config.paths.path_max_retrans = 0;
    let mut pair = Pair::connected(2, config);
    let remotes = pair.addresses[1].clone();
    pair.association_mut(0).set_primary(remotes[1]).unwrap();
    for _ in 0..20 {
        assert!(pair.send(0, 0, vec![1; 20_000]));
        pair.run(Duration::from_secs(1));
    }
    pair.association_mut(0).set_primary(remotes[0]).unwrap();
    let grown = pair.statistics(0).paths[1].cwnd;
    assert!(grown > 10_000, "{grown} bytes");
    pair.run(Duration::from_secs(60));
    pair.set_up(0, false);
    assert!(pair.send(0, 0, vec![1; 500]));
    assert!(pair.run_until(Duration::from_secs(20), |pair| !failovers(pair).is_empty()));
    pair.run(Duration::from_secs(1));
    let path = &pair.statistics(0).paths[1];
    let floor = 4 * (usize::from(path.mtu) - 28);
    assert!(path.cwnd <= floor, "{grown} bytes before 60 s without data, {} after", path.cwnd);
}

#[test]
// test: rfc7829 4 "MUST NOT be coupled to the value of the PFMR"
fn dormant_paths_are_tried_as_the_policy_says() {
    for behaviour in DormantBehaviour::ALL {
        let mut config = config();
        config.paths.path_max_retrans = 0;
        config.paths.association_max_retrans = 100;
        config.paths.dormant = *behaviour;
        if *behaviour == DormantBehaviour::FewestErrors {
            // Unanswered heartbeats are errors, too.
            config.timers.heartbeat_interval = None;
        }
        let mut pair = Pair::connected(3, config);
        for path in 0..3 {
            pair.set_up(path, false);
        }
        pair.forget();
        assert!(pair.send(0, 0, vec![1; 500]));
        pair.run(Duration::from_secs(200));
        assert_eq!(
            pair.statistics(0).paths.iter().filter(|p| p.state == PathState::Inactive).count(),
            3
        );
        assert_eq!(failovers(&pair).last().map(String::as_str), Some("dormant"), "{behaviour}");
        let data = paths_of(&pair, kind::DATA);
        assert_eq!(data[..3], [0, 1, 2], "each active path is used once");
        let after = &data[3..];
        assert!(after.len() >= 3, "{data:?}");
        let expected: Vec<usize> = match behaviour {
            DormantBehaviour::LastDest => vec![2; after.len()],
            DormantBehaviour::Primary => vec![0; after.len()],
            // The one with the fewest errors is the one that was tried the longest time ago.
            DormantBehaviour::Hop | DormantBehaviour::FewestErrors => {
                (0..after.len()).map(|n| n % 3).collect()
            }
        };
        assert_eq!(after, expected, "{behaviour}");
        pair.set_up(1, true);
        pair.run(Duration::from_secs(200));
        assert_eq!(pair.received_len(1), 500, "{behaviour}");
        assert_eq!(failovers(&pair).last().map(String::as_str), Some("1 recovered"));
    }
}

#[test]
// test: rfc7829 5 "MUST support the setting of PSMR = PMR"
// test: rfc7829 5 "It MUST be possible to disable the Primary Path Switchover operation"
fn the_change_primary_threshold_makes_failover_permanent() {
    for (threshold, permanent_after) in [(Some(0), 1), (Some(2), 3), (None, u32::MAX)] {
        let mut config = config();
        config.paths.path_max_retrans = 0;
        config.paths.change_primary_threshold = threshold;
        let mut pair = Pair::connected(2, config);
        pair.set_up(0, false);
        assert!(pair.send(0, 0, vec![1; 500]));
        assert!(pair.run_until(LONG, |pair| pair.statistics(0).paths[0].error_count == 1));
        let primary = |pair: &Pair| pair.statistics(0).primary.number();
        assert_eq!(primary(&pair), u16::from(permanent_after == 1), "{threshold:?}");
        assert!(pair.run_until(LONG, |pair| pair.statistics(0).paths[0].error_count == 3));
        assert_eq!(primary(&pair), u16::from(permanent_after <= 3), "{threshold:?}");
        pair.set_up(0, true);
        pair.run(Duration::from_secs(200));
        let statistics = pair.statistics(0);
        let expected = u16::from(threshold.is_some());
        assert_eq!((statistics.active.number(), statistics.primary.number()), (expected, expected));
        let last = failovers(&pair).pop().unwrap();
        assert_eq!(last, if threshold.is_some() { "0 to 1 for good" } else { "0 recovered" });
    }
}

#[test]
fn an_informed_choice_needs_a_better_path() {
    for (alternate_loss, expected) in [(0, 1), (60, 0)] {
        let mut config = config();
        config.paths.path_max_retrans = 0;
        config.paths.change_primary_threshold = Some(0);
        config.paths.informed_failover = true;
        // A delayed acknowledgement of an occasional message would look like a long path.
        config.acknowledging.sack_frequency = 1;
        config.paths.association_max_retrans = 1000;
        let mut pair = Pair::connected(2, config);
        let lossy = |percent| {
            let loss = Loss::Uniform(Probability::percent(percent));
            LinkConfig::new().delay(Pair::DELAY).loss(loss)
        };
        for (path, percent) in [(0, 10), (1, alternate_loss)] {
            let (a, b) = (pair.addresses[0][path], pair.addresses[1][path]);
            pair.net.set_link(a, b, lossy(percent));
            pair.net.set_link(b, a, lossy(percent));
        }
        // Heartbeats measure the loss of the idle path, data that of the other one.
        for _ in 0..600 {
            assert!(pair.send(0, 0, vec![1; 500]));
            pair.run(Duration::from_millis(100));
        }
        let loss = pair.statistics(0).paths.iter().map(|p| p.loss.unwrap()).collect::<Vec<_>>();
        assert_eq!(loss[1] < loss[0], expected == 1, "{loss:?}");
        assert_eq!(pair.statistics(0).primary.number(), expected, "{loss:?}");
        let kept = failovers(&pair).iter().any(|line| line.ends_with("for good"));
        assert!(kept || expected == 0);
    }
}

#[test]
fn new_data_waits_for_retransmissions_on_all_paths_or_on_its_own() {
    for precedence in RetransmissionPrecedence::ALL {
        let mut config = config();
        config.paths.retransmission_precedence = *precedence;
        config.recovery.one_packet_after_timeout = false;
        config.congestion.initial_cwnd = anabranch_proto::config::InitialCwnd::Mtus(1);
        config.congestion.idle_cwnd = anabranch_proto::config::IdleCwnd::Keep;
        config.recovery.missing_reports = 255;
        let mut pair = Pair::connected(2, config);
        // Several packets are outstanding when the path fails, and the alternate one carries one
        // at a time.
        for _ in 0..40 {
            assert!(pair.send(0, 0, vec![1; 1100]));
        }
        assert!(pair.run_until(LONG, |pair| pair.statistics(0).outstanding_chunks >= 5));
        pair.set_up(0, false);
        pair.run(Duration::from_millis(500));
        pair.set_up(0, true);
        pair.forget();
        assert!(pair.run_until(LONG, |pair| pair.statistics(0).counters.timeouts == 1));
        pair.run(Duration::from_millis(5));
        let data = paths_of(&pair, kind::DATA);
        let primary = data.iter().filter(|path| **path == 0).count();
        match precedence {
            RetransmissionPrecedence::AllPaths => assert_eq!(primary, 0, "{data:?}"),
            RetransmissionPrecedence::SamePath => assert!(primary >= 1, "{data:?}"),
        }
        assert!(pair.run_until(LONG, |pair| pair.received_len(1) == 44_000));
    }
}

/// A network with a client and servers at these addresses, each on its own host.
fn hosts(servers: &[&[IpAddr]], listening: &[bool]) -> anabranch_harness::Network {
    use anabranch_proto::EndpointConfig;
    let mut net = anabranch_harness::Network::new(LinkConfig::new().delay(Pair::DELAY), 1);
    net.trace.keep_packets();
    net.add_node(EndpointConfig::default(), [9; 32], &[[10, 0, 0, 1].into()]);
    for (number, (addresses, listens)) in servers.iter().zip(listening).enumerate() {
        let node = net.add_node(EndpointConfig::default(), [number as u8; 32], addresses);
        if *listens {
            let server = Arc::new(AssociationConfig::default());
            net.node_mut(node).endpoint.listen(Pair::PORT, server).unwrap();
        }
    }
    net
}

#[test]
fn initiation_takes_the_first_answer_of_hosts_that_may_differ() {
    let a: IpAddr = [10, 0, 0, 2].into();
    let (b, b2): (IpAddr, IpAddr) = ([10, 0, 0, 3].into(), [10, 0, 0, 33].into());
    let c: IpAddr = [10, 0, 0, 4].into();
    for order in InitiationOrder::ALL {
        // A refuses, B answers late under two addresses, C immediately.
        let mut net = hosts(&[&[a], &[b, b2], &[c]], &[false, true, true]);
        let client: IpAddr = [10, 0, 0, 1].into();
        net.set_link(client, b, LinkConfig::new().delay(Duration::from_millis(100)));
        let mut config = AssociationConfig::default();
        config.paths.initiation = *order;
        let mut request = ConnectRequest::new(vec![a, b, c], Pair::PORT);
        request.config = Arc::new(config);
        let now = net.now();
        let id = net.node_mut(0).endpoint.connect(now, request).unwrap();
        net.run(Duration::from_secs(5));
        let association = net.node(0).endpoint.association(id).unwrap();
        assert!(association.is_established(), "{order}");
        let remotes: Vec<IpAddr> = association.paths().map(|(_, _, remote, _)| remote).collect();
        let expected = match order {
            InitiationOrder::Sequential => vec![b, b2],
            InitiationOrder::Parallel => vec![c],
        };
        assert_eq!(remotes, expected, "{order}: the addresses that the peer reports");
        let statistics = association.statistics();
        let primary = statistics.path(statistics.primary).map(|path| path.remote);
        assert_eq!(primary, expected.first().copied(), "{order}");
        let inits = net.trace.kept().iter().filter(|(_, p)| craft::has(&p.bytes, kind::INIT));
        let asked: Vec<IpAddr> = inits.map(|(_, packet)| packet.to).collect();
        let expected: &[IpAddr] = match order {
            InitiationOrder::Sequential => &[a, b],
            InitiationOrder::Parallel => &[a, b, c],
        };
        assert_eq!(asked, expected, "{order}");
        // No other host keeps any state or half of an association.
        for node in 1..net.nodes() {
            let associations = net.node(node).endpoint.associations().count();
            let winner = net.node(node).addresses.contains(&remotes[0]);
            assert_eq!(associations, usize::from(winner), "{order}: host {node}");
        }
    }
}

#[test]
fn all_candidates_refuse_or_stay_silent() {
    let (a, b): (IpAddr, IpAddr) = ([10, 0, 0, 2].into(), [10, 0, 0, 3].into());
    for order in InitiationOrder::ALL {
        for silent in [false, true] {
            let mut net = hosts(&[&[a], &[b]], &[false, false]);
            if silent {
                net.script(|_| Verdict::Drop);
            }
            let mut config = AssociationConfig::default();
            config.paths.initiation = *order;
            let mut request = ConnectRequest::new(vec![a, b], Pair::PORT);
            request.config = Arc::new(config);
            let now = net.now();
            net.node_mut(0).endpoint.connect(now, request).unwrap();
            net.run(LONG);
            let closed = net.node(0).events.iter().find_map(|(_, event)| match event {
                Event::Notification(Notification::Closed(reason)) => Some(reason.clone()),
                _ => None,
            });
            match closed {
                Some(CloseReason::ConnectTimeout) => assert!(silent),
                Some(CloseReason::PeerAbort { .. }) => assert!(!silent),
                other => panic!("{order}, silent {silent}: {other:?}"),
            }
        }
    }
}

#[test]
fn mfr_needs_reports_from_above_what_was_outstanding() {
    // TSN 3 of 8 is lost twice. After its fast retransmission, acknowledgements of chunks that were
    // outstanding then are no evidence about it; those of later chunks are (caro 2.4.3).
    for mfr in [false, true] {
        let mut config = config();
        config.recovery.multiple_fast_retransmit = mfr;
        let mut pair = Pair::connected(1, config);
        let mut seen = std::collections::BTreeMap::new();
        let mut base = None;
        pair.net.script(move |sight| {
            for chunk in sight.packet.chunks().map_while(Result::ok) {
                if let Ok(Chunk::Data(data)) = chunk.decode() {
                    let first = *base.get_or_insert(data.tsn.0);
                    let count = seen.entry(data.tsn.0).or_insert(0);
                    *count += 1;
                    if data.tsn.0 == first + 12 && *count <= 2 {
                        return Verdict::Drop;
                    }
                }
            }
            Verdict::Pass
        });
        for _ in 0..60 {
            assert!(pair.send(0, 0, vec![1; 1100]));
        }
        assert!(pair.run_until(LONG, |pair| pair.received_len(1) == 66_000));
        let counters = pair.statistics(0).counters;
        assert_eq!(counters.timeouts, u64::from(!mfr));
        assert_eq!(counters.fast_retransmitted_chunks, if mfr { 2 } else { 1 });
        let sent = pair.sent(0);
        let tsn = |bytes: &[u8]| {
            let packet = Packet::parse(bytes).unwrap();
            packet.chunks().find_map(|chunk| match chunk.unwrap().decode().unwrap() {
                Chunk::Data(data) => Some(data.tsn.0),
                _ => None,
            })
        };
        let tsns: Vec<u32> = sent.iter().filter_map(|(_, bytes)| tsn(bytes)).collect();
        let lost = tsns[0] + 12;
        let times: Vec<usize> =
            tsns.iter().enumerate().filter(|(_, tsn)| **tsn == lost).map(|(i, _)| i).collect();
        let highest = tsns[..times[1]].iter().max().unwrap();
        if mfr {
            let above = tsns[times[1]..times[2]].iter().filter(|tsn| *tsn > highest).count();
            assert!(above >= 4, "four reports from above {highest}");
        }
    }
}

#[test]
fn a_window_is_counted_in_packets_that_leave_room_for_timestamps() {
    for (timestamps, payload) in [(false, 1444), (true, 1432)] {
        let mut config = config();
        config.recovery.timestamps = timestamps;
        config.mtu = anabranch_proto::MtuConfig::fixed(1500);
        let mut pair = Pair::connected(1, config);
        pair.forget();
        for _ in 0..10 {
            assert!(pair.send(0, 0, vec![1; payload]));
        }
        pair.net.settle();
        assert_eq!(pair.count(0, kind::DATA), 2, "an initial window of two packets");
        assert_eq!(pair.statistics(0).paths[0].cwnd, 2 * (payload + 16));
    }
}

/// Loses the first packet of data; later ones arrive.
fn lose_the_first(pair: &mut Pair) {
    let first = pair.addresses[0][0];
    let mut lost = false;
    pair.net.script(move |sight| {
        let drop = !lost && sight.from == first && sight.has(kind::DATA);
        lost |= drop;
        if drop { Verdict::Drop } else { Verdict::Pass }
    });
}

#[test]
fn a_fast_retransmit_elsewhere_gives_the_rest_of_the_flight_its_own_time() {
    let mut config = config();
    config.paths.retransmission = RetransmissionPolicy::AllRtxAlt;
    let mut pair = Pair::connected(2, config);
    let first = pair.addresses[0][0];
    let mut nth = 0;
    // Of the packets on the primary path the first and the sixth are lost.
    pair.net.script(move |sight| {
        if sight.from != first || !sight.has(kind::DATA) {
            return Verdict::Pass;
        }
        nth += 1;
        if nth == 1 || nth == 6 { Verdict::Drop } else { Verdict::Pass }
    });
    // Four later ones report the first as missing, after 100 to 700 ms. The sixth is sent just
    // before its fast retransmit; its own time is 1 s from then.
    for wait in [100, 200, 200, 200, 1, 0] {
        assert!(pair.send(0, 0, vec![1; 500]));
        pair.run(Duration::from_millis(wait));
    }
    pair.run(Duration::from_millis(100));
    let counters = |pair: &Pair| {
        let counters = pair.statistics(0).counters;
        (counters.fast_retransmitted_chunks, counters.timeouts)
    };
    assert_eq!(counters(&pair), (1, 0));
    pair.run(Duration::from_millis(800));
    assert_eq!(counters(&pair), (1, 0), "1,600 ms after the first was sent");
    pair.run(Duration::from_millis(200));
    assert_eq!(counters(&pair), (1, 1));
}

#[test]
fn in_rfc_2960_every_sack_with_a_gap_is_a_missing_report() {
    for (config, expected) in [(AssociationConfig::rfc2960(), 1), (AssociationConfig::rfc4960(), 0)]
    {
        let reports = config.recovery.missing_reports as usize;
        let mut pair = Pair::connected(1, config);
        lose_the_first(&mut pair);
        assert!(pair.send(0, 0, vec![1; 1400]));
        assert!(pair.send(0, 0, vec![2; 1400]));
        pair.run(Duration::from_millis(100));
        let sacks = pair.sent(1);
        let (_, sack) = sacks.iter().rfind(|(_, packet)| craft::has(packet, kind::SACK)).unwrap();
        for report in 1..reports {
            assert_eq!(pair.statistics(0).counters.fast_retransmitted_chunks, 0, "{report}");
            pair.inject(0, sack.clone());
        }
        assert_eq!(pair.statistics(0).counters.fast_retransmitted_chunks, expected);
    }
}

#[test]
fn the_packet_that_fills_the_gap_waits_for_its_sack_before_rfc_9260() {
    for (config, expected) in [
        (AssociationConfig::rfc2960(), 1),
        (AssociationConfig::rfc4960(), 1),
        (AssociationConfig::rfc9260(), 2),
    ] {
        let revision = config.revision;
        let mut pair = Pair::connected(1, config);
        lose_the_first(&mut pair);
        assert!(pair.send(0, 0, vec![1; 1400]));
        assert!(pair.send(0, 0, vec![2; 1400]));
        assert!(pair.run_until(LONG, |pair| pair.received_len(1) == 2800));
        pair.run(Duration::from_millis(100));
        assert_eq!(pair.count(1, kind::SACK), expected, "{revision:?}");
        pair.run(Duration::from_millis(200));
        assert_eq!(pair.count(1, kind::SACK), 2, "{revision:?}");
    }
}

/// Two full chunks are sent on path 0. The first is lost, the second arrives, and its SACK is lost.
/// Returns the paths on which data was sent until the timeout, and until the SACK after it.
fn timeout_of_a_window(config: AssociationConfig) -> [Vec<usize>; 2] {
    let mut pair = Pair::connected(2, config);
    let (ours, theirs) = (pair.addresses[0][0], pair.addresses[1][0]);
    let mut sent = 0;
    pair.net.script(move |sight| {
        let data = sight.from == ours && sight.has(kind::DATA);
        sent += u32::from(data);
        let sack = sight.from == theirs && sight.has(kind::SACK);
        if (data && sent == 1) || (sack && sent <= 2) { Verdict::Drop } else { Verdict::Pass }
    });
    let chunk = pair.statistics(0).paths[0].cwnd / 2 - Data::HEADER_LEN;
    for _ in 0..5 {
        assert!(pair.send(0, 0, vec![1; chunk]));
    }
    assert!(pair.run_until(LONG, |pair| pair.statistics(0).counters.timeouts == 1));
    let until_timeout = paths_of(&pair, kind::DATA);
    assert!(pair.run_until(LONG, |pair| pair.statistics(0).counters.sacks_received > 0));
    let until_sack = paths_of(&pair, kind::DATA);
    assert!(pair.run_until(LONG, |pair| pair.received[1].len() == 5));
    [until_timeout, until_sack]
}

#[test]
fn after_a_timeout_one_packet_leaves_or_as_many_as_cwnd_allows() {
    let mut config = config();
    assert!(config.recovery.one_packet_after_timeout);
    // Its SACK reports that both chunks arrived, so two new ones follow (see below).
    assert_eq!(timeout_of_a_window(config.clone()), [vec![0, 0, 1], vec![0, 0, 1, 0, 0]]);
    config.recovery.one_packet_after_timeout = false;
    // The second chunk had arrived and is sent again; new data probes the path that timed out.
    let [until_timeout, _] = timeout_of_a_window(config);
    assert_eq!(until_timeout, [0, 0, 1, 1, 0]);
}

#[test]
fn what_arrived_although_held_to_be_lost_fills_the_window_of_its_path_until_rfc_9260() {
    for (revision, new_packets) in
        [(Revision::Rfc2960, 2), (Revision::Rfc4960, 2), (Revision::Rfc9260, 1)]
    {
        let mut config = config();
        config.revision = revision;
        let [_, until_sack] = timeout_of_a_window(config);
        // cwnd was one packet. It grows if the outstanding data filled it.
        assert_eq!(until_sack[..3], [0, 0, 1]);
        assert_eq!(until_sack[3..], vec![0; new_packets], "{revision:?}");
    }
}

/// The first timeout sends everything to the second path, which is dead. When that times out too,
/// what still waits for it leaves with the rest, and is not lost there packet by packet. The
/// policies of the RFCs go by the path that lost a chunk, whatever happens meanwhile.
#[test]
fn what_waits_for_the_best_path_leaves_it_when_it_times_out() {
    for (policy, timeouts) in [
        (RetransmissionPolicy::RtxAsap, 2..=2),
        (RetransmissionPolicy::RtxCwnd, 2..=2),
        (RetransmissionPolicy::RtxSsthresh, 2..=2),
        (RetransmissionPolicy::FrSameRtoAlt, 3..=8),
    ] {
        let mut config = config();
        config.paths.retransmission = policy;
        let mut pair = Pair::connected(2, config);
        for _ in 0..10 {
            assert!(pair.send(0, 0, vec![1; 2000]));
            pair.run(Duration::from_secs(1));
        }
        pair.set_up(0, false);
        pair.set_up(1, false);
        for _ in 0..8 {
            assert!(pair.send(0, 0, vec![2; 1000]));
        }
        assert!(pair.run_until(LONG, |pair| pair.statistics(0).counters.timeouts == 1));
        pair.set_up(0, true);
        assert!(pair.run_until(LONG, |pair| pair.received_len(1) == 28_000), "{policy}");
        let count = pair.statistics(0).counters.timeouts;
        assert!(timeouts.contains(&count), "{policy}: {count}");
    }
}
