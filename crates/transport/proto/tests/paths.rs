//! Several paths: supervision, failover, return, heartbeats and ICMP.

use std::sync::Arc;
use std::time::Duration;

use anabranch_harness::{Pair, PathMtu, Verdict, craft};
use anabranch_proto::congestion::CongestionControl;
use anabranch_proto::{
    AssociationConfig, BurstControl, CloseReason, ConnectRequest, Event, IcmpKind, IcmpMessage,
    Notification, PathState, ProtocolUnreachable, RetransmissionPolicy,
};
use anabranch_wire::{Header, kind};

const LONG: Duration = Duration::from_secs(2000);

fn config(path_max_retrans: u32) -> AssociationConfig {
    let mut config = AssociationConfig::rfc9260();
    config.paths.path_max_retrans = path_max_retrans;
    config.mtu.discovery = false;
    config
}

#[test]
// test: rfc9260 6.4.1 "send the data to an alternate active destination"
// test: rfc9260 8.2 "inactive, and a notification SHOULD be sent to"
fn failover_and_return() {
    for (pmr, at_least, at_most) in [(0, 0, 3), (5, 60, 70)] {
        let mut pair = Pair::connected(2, config(pmr));
        let mut sent = pair.trickle(Duration::from_secs(5));
        pair.set_up(0, false);
        let begun = pair.net.now();
        let mut took = None;
        while took.is_none() {
            sent += pair.trickle(Duration::from_millis(100));
            if pair.statistics(0).active.number() == 1 {
                took = Some(pair.net.now().saturating_since(begun));
            }
            assert!(pair.net.now().saturating_since(begun) < LONG, "PMR {pmr}: no failover");
        }
        let took = took.unwrap().as_secs();
        // 1 s, or 1 + 2 + 4 + 8 + 16 + 32 s of timeouts.
        assert!((at_least..=at_most).contains(&took), "PMR {pmr}: {took} s");
        assert_eq!(pair.path_states(0), [PathState::Inactive, PathState::Active]);
        sent += pair.trickle(Duration::from_secs(10));
        assert!(pair.events[0].iter().any(|event| {
            matches!(event, Event::Notification(Notification::ActivePathChanged { path, .. }) if path.number() == 1)
        }));
        // test: rfc9260 8.3 "SHOULD report to the upper layer when an inactive"
        pair.set_up(0, true);
        sent += pair.trickle(Duration::from_secs(200));
        assert_eq!(pair.path_states(0), [PathState::Active; 2]);
        assert_eq!(pair.statistics(0).active.number(), 0, "back on the primary path");
        pair.run(Duration::from_secs(100));
        assert_eq!(pair.received_len(1), sent, "PMR {pmr}");
        assert_eq!(pair.closed, [None, None]);
    }
}

#[test]
fn a_failure_in_one_direction_is_a_failure() {
    for direction in 0..2 {
        let mut pair = Pair::connected(2, config(2));
        let ends = [pair.addresses[0][0], pair.addresses[1][0]];
        pair.net.set_up(ends[direction], ends[1 - direction], false);
        let mut sent = pair.trickle(Duration::from_secs(60));
        // When only the return path is dead, data arrives and is acknowledged on the other path after
        // a timeout. So the sender's error counter is cleared repeatedly, as RFC 9260 section 8.2
        // requires. Each timeout of 1 s sends one packet (section 7.2.1), and its retransmission is
        // followed by two more on the other path: 3 of the 600 messages per second, so the last one
        // arrives after 200 s. Once data pauses, heartbeats show that the path is dead, with three
        // errors, each up to HB.interval of 30 s and an RTO after the last one.
        pair.run(Duration::from_secs(300));
        assert_eq!(pair.received_len(1), sent, "direction {direction}");
        let before = pair.statistics(0).counters.timeouts;
        sent += pair.trickle(Duration::from_secs(20));
        pair.run(Duration::from_secs(10));
        assert_eq!(pair.received_len(1), sent, "direction {direction}");
        assert!(pair.statistics(0).counters.timeouts <= before + 1, "direction {direction}");
        assert_eq!(pair.closed, [None, None]);
    }
}

/// Most of a window is lost, and the path is cut as soon as that is known, when half of it has left again.
/// Seconds from then on until all has arrived.
fn repaired_after_a_cut(mut config: AssociationConfig) -> u64 {
    // The whole window is sent in one burst, and half of it at a loss.
    config.congestion.burst = BurstControl::Unlimited;
    config.congestion.congestion_control = CongestionControl::Rfc9260;
    let mut pair = Pair::connected(2, config);
    // They grow the window to more than twenty packets.
    assert!(pair.send(0, 0, vec![1; 100 * 1100]));
    pair.run(Duration::from_secs(1));
    let mut packets = 0;
    pair.net.script(move |sight| {
        packets += u32::from(sight.node == 0 && sight.has(kind::DATA));
        if packets > 0 && packets <= 15 { Verdict::Drop } else { Verdict::Pass }
    });
    for _ in 0..20 {
        assert!(pair.send(0, 0, vec![2; 1100]));
    }
    let lost = |pair: &mut Pair| pair.statistics(0).counters.fast_retransmitted_chunks > 0;
    assert!(pair.run_until(Duration::from_secs(1), lost), "{:?}", pair.statistics(0).paths[0]);
    pair.set_up(0, false);
    let cut = pair.net.now();
    let all = |pair: &mut Pair| pair.received_len(1) == 120 * 1100;
    assert!(pair.run_until(LONG, all), "{} of 120 packets", pair.received_len(1) / 1100);
    pair.net.now().saturating_since(cut).as_secs()
}

#[test]
fn what_waits_for_a_path_leaves_it_with_what_times_out_there() {
    // A second for the timeout. One packet at a time would take 1, 2, 4, 8 ... s more.
    for profile in ["rfc9260", "rfc4960", "rfc2960", "default", "bulk", "signalling", "web"] {
        let mut config = AssociationConfig::profile(profile).unwrap();
        config.mtu.discovery = false;
        let took = repaired_after_a_cut(config.clone());
        println!("{profile}: {took} s");
        assert!(took <= 2, "{profile}: {took} s");
        // Whoever asks for the same path gets it, until it has failed.
        config.paths.retransmission = RetransmissionPolicy::AllRtxSame;
        config.paths.potentially_failed_max_retrans = None;
        config.paths.vigilance = None;
        let took = repaired_after_a_cut(config);
        assert!(took >= 15, "{profile}, all-rtx-same: {took} s");
    }
}

#[test]
// test: rfc9260 8.1 "SHOULD consider the peer endpoint unreachable"
fn a_peer_that_vanishes_is_given_up() {
    let mut config = config(2);
    config.paths.association_max_retrans = 4;
    let mut pair = Pair::connected(2, config);
    pair.net.script(|_| Verdict::Drop);
    assert!(pair.send(0, 0, vec![1; 1000]) && pair.send(0, 1, vec![2; 1000]));
    assert!(pair.run_until(LONG, |pair| pair.closed[0].is_some()));
    assert_eq!(pair.closed[0], Some(CloseReason::Unreachable));
    let failed = pair.events[0]
        .iter()
        .filter(|event| matches!(event, Event::Notification(Notification::SendFailed { .. })));
    assert_eq!(failed.count(), 2, "every message comes back");
}

#[test]
// test: rfc9260 8.1 "MUST be reset each time a DATA chunk sent"
fn the_error_count_starts_anew_with_each_acknowledgement() {
    let mut config = config(10);
    config.paths.association_max_retrans = 3;
    config.timers.heartbeat_interval = None;
    let mut pair = Pair::connected(1, config);
    for round in 0..5 {
        assert!(pair.send(0, 0, vec![round; 100]));
        pair.set_up(0, false);
        assert!(pair.run_until(LONG, |pair| pair.statistics(0).paths[0].error_count >= 2));
        pair.set_up(0, true);
        assert!(pair.run_until(LONG, |pair| pair.received[1].len() > usize::from(round)));
        assert!(pair.run_until(LONG, |pair| pair.statistics(0).outstanding_chunks == 0));
        assert_eq!(pair.statistics(0).paths[0].error_count, 0);
    }
    assert_eq!(pair.closed, [None, None]);
}

#[test]
// test: rfc9260 8.3 "SHOULD monitor the reachability of the idle destination"
// test: rfc9260 8.3 "it is RECOMMENDED that a HEARTBEAT chunk is sent"
fn idle_paths_are_watched() {
    let mut pair = Pair::connected(2, config(5));
    pair.run(Duration::from_secs(50));
    pair.forget();
    pair.run(Duration::from_secs(3100));
    // Both paths of both nodes, once in 30 s and an RTO of 1 s, jittered.
    for node in 0..2 {
        let beats = pair.count(node, kind::HEARTBEAT);
        assert!((190..=210).contains(&beats), "{beats} heartbeats");
        assert_eq!(pair.count(1 - node, kind::HEARTBEAT_ACK), beats);
    }
    // test: rfc9260 8.3 "SHOULD continue sending HEARTBEAT chunks on this destination"
    pair.set_up(1, false);
    pair.run(Duration::from_secs(600));
    assert_eq!(pair.path_states(0), [PathState::Active, PathState::Inactive]);
    assert_eq!(pair.path_states(1), [PathState::Active, PathState::Inactive]);
    pair.set_up(1, true);
    pair.run(Duration::from_secs(200));
    assert_eq!(pair.path_states(0), [PathState::Active; 2]);
    assert_eq!(pair.closed, [None, None], "an idle path that fails is no dead peer");
}

#[test]
// test: rfc9260 8.3 "SHOULD immediately respond with a HEARTBEAT ACK"
fn heartbeats_are_answered_with_what_they_carry() {
    let mut pair = Pair::connected(2, config(5));
    let info: Vec<u8> = [0, 1, 0, 12].into_iter().chain(*b"whatever").collect();
    let beat = craft::packet(pair.header(0), |packet| packet.raw(kind::HEARTBEAT, 0, &info));
    pair.forget();
    pair.inject_on(1, 1, beat);
    let kept = pair.net.trace.kept();
    let (_, answer) = kept.last().expect("an answer");
    assert_eq!(craft::kinds(&answer.bytes), [kind::HEARTBEAT_ACK]);
    assert_eq!(answer.bytes[16..], info);
    assert_eq!((answer.from, answer.to), (pair.addresses[1][1], pair.addresses[0][1]));
}

#[test]
fn heartbeats_on_demand() {
    let mut quiet = config(5);
    quiet.timers.heartbeat_interval = None;
    let mut pair = Pair::connected(2, quiet);
    pair.run(Duration::from_secs(100));
    assert_eq!(pair.count(0, kind::HEARTBEAT), 0);
    let (now, remote) = (pair.net.now(), pair.addresses[1][1]);
    pair.association_mut(0).request_heartbeat(now, remote).unwrap();
    pair.run(Duration::from_secs(1));
    assert_eq!(pair.count(0, kind::HEARTBEAT), 1);
    assert!(pair.statistics(0).paths[1].srtt.is_some());
    let stranger = [10, 9, 9, 9].into();
    assert!(pair.association_mut(0).request_heartbeat(now, stranger).is_err());
}

#[test]
fn a_heartbeat_ack_with_another_nonce_confirms_nothing() {
    let mut pair = Pair::new(2, config(5));
    let second = pair.addresses[0][1];
    pair.net.script(move |sight| match sight.from == second && sight.has(kind::HEARTBEAT_ACK) {
        true => Verdict::Drop,
        false => Verdict::Pass,
    });
    let mut request = ConnectRequest::new(pair.addresses[1].clone(), Pair::PORT);
    request.config = Arc::new(config(5));
    pair.connect_with(request);
    assert!(pair.run_until(LONG, |pair| pair.both_up()));
    pair.run(Duration::from_millis(100));
    let sent = pair.sent(1);
    let second = pair.net.trace.kept().iter().find(|(_, packet)| {
        packet.from == pair.addresses[1][1] && craft::has(&packet.bytes, kind::HEARTBEAT)
    });
    let (_, beat) = second.expect("a heartbeat on the second path").clone();
    assert!(!sent.is_empty());
    for byte in 24..beat.bytes.len() {
        let mut info = beat.bytes[16..].to_vec();
        info[byte - 16] ^= 1;
        let ack = craft::packet(pair.header(0), |p| p.raw(kind::HEARTBEAT_ACK, 0, &info));
        pair.inject_on(1, 1, ack);
        assert_eq!(pair.path_states(1)[1], PathState::Unconfirmed, "byte {byte}");
    }
    let info = &beat.bytes[16..];
    let ack = craft::packet(pair.header(0), |p| p.raw(kind::HEARTBEAT_ACK, 0, info));
    pair.inject_on(1, 1, ack);
    assert_eq!(pair.path_states(1)[1], PathState::Active);
}

#[test]
fn the_user_chooses_the_primary_path() {
    let mut pair = Pair::connected(2, config(5));
    let second = pair.addresses[1][1];
    pair.association_mut(0).set_primary(second).unwrap();
    pair.forget();
    assert!(pair.send(0, 0, vec![1; 20_000]));
    pair.run(Duration::from_secs(1));
    let data = pair.net.trace.kept().iter().filter(|(_, p)| craft::has(&p.bytes, kind::DATA));
    assert!(data.clone().count() > 10 && data.clone().all(|(_, packet)| packet.to == second));
    assert_eq!(pair.statistics(0).primary.number(), 1);
    // test: rfc9260 6.4 "SHOULD transmit reply chunks"
    let sacks = pair.net.trace.kept().iter().filter(|(_, p)| craft::has(&p.bytes, kind::SACK));
    assert!(sacks.clone().count() > 5 && sacks.clone().all(|(_, packet)| packet.from == second));
    assert!(pair.association_mut(0).set_primary([10, 9, 9, 9].into()).is_err());
}

#[test]
// test: rfc9260 6.4 "different from the last destination address to which the"
fn what_times_out_goes_elsewhere() {
    let mut pair = Pair::connected(2, config(5));
    pair.forget();
    pair.set_up(0, false);
    assert!(pair.send(0, 0, vec![1; 500]));
    assert!(pair.run_until(LONG, |pair| !pair.received[1].is_empty()));
    let kept = pair.net.trace.kept().iter();
    let data = kept.filter(|(_, packet)| craft::has(&packet.bytes, kind::DATA));
    let to: Vec<_> = data.map(|(_, packet)| packet.to).collect();
    assert_eq!(to, pair.addresses[1]);
    assert_eq!(pair.path_states(0), [PathState::Active; 2]);
}

#[test]
fn a_driver_that_cannot_send_counts_against_the_path_and_is_never_fatal() {
    let mut pair = Pair::connected(2, config(2));
    let (local, remote) = (pair.addresses[0][0], pair.addresses[1][0]);
    pair.set_up(0, false);
    for _ in 0..10_000 {
        let now = pair.net.now();
        let quoted = pair.association(0).unwrap().start_of_packet();
        pair.net.node_mut(0).endpoint.handle_send_error(now, local, remote, &quoted);
        pair.run(Duration::from_millis(1));
    }
    assert_eq!(pair.path_states(0), [PathState::Inactive, PathState::Active]);
    assert!(pair.send(0, 0, vec![1; 100_000]));
    pair.run(Duration::from_secs(30));
    assert_eq!(pair.received_len(1), 100_000);
    assert_eq!(pair.closed, [None, None]);
}

/// Passes an ICMP message about a packet with this header to node 0.
fn icmp(pair: &mut Pair, kind: IcmpKind, header: Header, chunk: &[u8]) {
    let mut quoted = Vec::new();
    quoted.extend_from_slice(&header.source_port.to_be_bytes());
    quoted.extend_from_slice(&header.destination_port.to_be_bytes());
    quoted.extend_from_slice(&header.verification_tag.to_be_bytes());
    quoted.extend_from_slice(&[0; 4]);
    quoted.extend_from_slice(chunk);
    let (local, remote) = (pair.addresses[0][0], pair.addresses[1][0]);
    let message = IcmpMessage { local, remote, kind, quoted: &quoted };
    let now = pair.net.now();
    pair.net.node_mut(0).endpoint.handle_icmp(now, &message);
    pair.take();
}

#[test]
// test: rfc9260 10 "An implementation MUST validate that the Verification Tag"
fn icmp_with_a_wrong_tag_is_ignored() {
    let mut pair = Pair::connected(1, config(5));
    let right = pair.header(0);
    let too_big = IcmpKind::PacketTooBig { mtu: 600 };
    for tag in [right.verification_tag ^ 1, 0] {
        let header = Header { verification_tag: tag, ..right };
        icmp(&mut pair, IcmpKind::ProtocolUnreachable, header, &[0; 8]);
        icmp(&mut pair, too_big, header, &[0; 8]);
    }
    // An INIT that this side never sent.
    let header = Header { verification_tag: 0, ..right };
    icmp(&mut pair, IcmpKind::ProtocolUnreachable, header, &[kind::INIT, 0, 0, 20, 1, 2, 3, 4]);
    let header = Header { source_port: right.source_port ^ 1, ..right };
    icmp(&mut pair, IcmpKind::ProtocolUnreachable, header, &[0; 8]);
    assert_eq!(pair.closed[0], None);
    assert_eq!(pair.statistics(0).paths[0].mtu, 1200);
    // test: rfc9260 10 "SHOULD ignore any ICMP messages where the"
    icmp(&mut pair, IcmpKind::PortUnreachable, right, &[0; 8]);
    assert_eq!((pair.closed[0].clone(), pair.path_states(0)), (None, vec![PathState::Active]));
    let mut short = [0; 7];
    short[0] = 1;
    let (local, remote) = (pair.addresses[0][0], pair.addresses[1][0]);
    let message = IcmpMessage { local, remote, kind: too_big, quoted: &short };
    let now = pair.net.now();
    pair.net.node_mut(0).endpoint.handle_icmp(now, &message);
}

#[test]
// test: rfc9260 10 "MUST treat this message as an abort with"
fn protocol_unreachable_is_an_abort() {
    let mut pair = Pair::connected(1, config(5));
    let header = pair.header(0);
    icmp(&mut pair, IcmpKind::ProtocolUnreachable, header, &[0; 8]);
    assert_eq!(pair.closed[0], Some(CloseReason::NoSctp));
    // Or when it is repeated.
    let mut patient = config(5);
    patient.paths.protocol_unreachable = ProtocolUnreachable::AbortsWhenRepeated;
    let mut pair = Pair::connected(1, patient);
    let header = pair.header(0);
    pair.net.script(|_| Verdict::Drop);
    for _ in 0..2 {
        icmp(&mut pair, IcmpKind::ProtocolUnreachable, header, &[0; 8]);
        assert_eq!(pair.closed[0], None);
    }
    pair.run(Duration::from_secs(2));
    icmp(&mut pair, IcmpKind::ProtocolUnreachable, header, &[0; 8]);
    assert_eq!(pair.closed[0], Some(CloseReason::NoSctp));
    // For an INIT it counts in COOKIE-WAIT only, and with the right initiate tag.
    let mut pair = Pair::new(1, config(5));
    pair.net.script(|_| Verdict::Drop);
    pair.connect(config(5));
    pair.net.settle();
    let (_, init) = pair.sent(0).remove(0);
    let header = anabranch_wire::Packet::parse(&init).unwrap().header();
    let mut forged = init[12..32].to_vec();
    forged[4] ^= 1;
    icmp(&mut pair, IcmpKind::ProtocolUnreachable, header, &forged);
    assert_eq!(pair.closed[0], None);
    icmp(&mut pair, IcmpKind::ProtocolUnreachable, header, &init[12..20]);
    assert_eq!(pair.closed[0], Some(CloseReason::NoSctp));
}

/// Bulk data while the path MTU falls from 1500 to 1280.
fn mtu_falls(icmp: bool, paths: u8) {
    let mut config = AssociationConfig::default();
    config.paths.path_max_retrans = 5;
    let mut pair = Pair::connected(paths, config);
    assert_eq!(pair.statistics(0).paths[0].mtu, 1500);
    let mut sent = 0;
    let mut fill = |pair: &mut Pair| {
        while sent < 3_000_000 && pair.send(0, 0, vec![5; 20_000]) {
            sent += 20_000;
        }
    };
    fill(&mut pair);
    pair.run(Duration::from_millis(100));
    for (a, b) in [(0, 1), (1, 0)] {
        for path in 0..usize::from(paths) {
            let (from, to) = (pair.addresses[a][path], pair.addresses[b][path]);
            pair.net.set_mtu(from, to, Some(PathMtu { mtu: 1280, icmp }));
        }
    }
    let begun = pair.net.now();
    let done = pair.run_until(Duration::from_secs(60), |pair| {
        fill(pair);
        pair.received_len(1) == 3_000_000
    });
    assert!(done, "{:?}", pair.statistics(0));
    let took = pair.net.now().saturating_since(begun);
    assert!(took < Duration::from_secs(if icmp { 5 } else { 40 }), "{took:?}");
    assert!(pair.net.too_big() > 0, "something had to be too large");
    assert_eq!(pair.closed, [None, None]);
    let mtu = pair.statistics(0).paths[0].mtu;
    assert!((1200..=1280).contains(&mtu), "{mtu}");
    // The search finds the new size.
    pair.run(Duration::from_secs(100));
    assert_eq!(pair.statistics(0).paths[0].mtu, 1280);
}

#[test]
fn the_path_mtu_falls_in_mid_transfer_and_a_router_says_so() {
    mtu_falls(true, 1);
    mtu_falls(true, 2);
}

#[test]
fn the_path_mtu_falls_in_mid_transfer_and_nobody_says_so() {
    mtu_falls(false, 1);
    mtu_falls(false, 2);
}

#[test]
fn a_black_hole_for_large_packets_from_the_start() {
    let config = AssociationConfig::default();
    let mut pair = Pair::new(1, config.clone());
    let (a, b) = (pair.addresses[0][0], pair.addresses[1][0]);
    for (from, to) in [(a, b), (b, a)] {
        pair.net.set_mtu(from, to, Some(PathMtu { mtu: 1300, icmp: false }));
    }
    pair.connect(config);
    assert!(pair.run_until(LONG, |pair| pair.both_up()));
    assert!(pair.send(0, 0, vec![1; 500_000]));
    assert!(pair.run_until(Duration::from_secs(5), |p| p.received_len(1) == 500_000));
    // Nothing but probes was ever too large.
    assert_eq!(pair.statistics(0).counters.timeouts, 0);
    pair.run(Duration::from_secs(100));
    let mtu = pair.statistics(0).paths[0].mtu;
    assert!((1280..=1300).contains(&mtu), "{mtu}");
}
