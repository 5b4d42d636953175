//! Dead paths and peers, with the default options: how long data stalls, and which side notices.

use std::time::Duration;

use anabranch_harness::{Pair, PathMtu, Verdict};
use anabranch_impair::{LinkConfig, Probability};
use anabranch_proto::{
    AssociationConfig, CloseReason, EndpointConfig, IcmpKind, IcmpMessage, Instant, PathState,
    RtoFloor,
};
use anabranch_wire::kind;

const MILLIS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

fn pair(paths: u8) -> Pair {
    let mut pair = Pair::connected(paths, AssociationConfig::default());
    pair.net.trace.forget();
    pair
}

/// Sends from a node as much as 1.6 MB/s for a time; the longest time without new data at the other
/// one, and when that ended.
fn flow(pair: &mut Pair, from: usize, time: Duration) -> (Duration, Instant) {
    let end = pair.net.now() + time;
    let (mut last, mut had) = (pair.net.now(), pair.received_len(1 - from));
    let (mut longest, mut ended) = (Duration::ZERO, last);
    while pair.net.now() < end && pair.closed == [None, None] {
        pair.send(from, 0, vec![7; 16_000]);
        pair.run(10 * MILLIS);
        let now = pair.net.now();
        if pair.received_len(1 - from) > had {
            had = pair.received_len(1 - from);
            if now.saturating_since(last) > longest {
                (longest, ended) = (now.saturating_since(last), now);
            }
            last = now;
        } else if pair.net.now() >= end && now.saturating_since(last) > longest {
            (longest, ended) = (now.saturating_since(last), now);
        }
    }
    pair.net.trace.forget();
    (longest, ended)
}

fn set_all(pair: &mut Pair, up: bool) {
    for path in 0..pair.addresses[0].len() {
        pair.set_up(path, up);
    }
}

#[test]
// test: rfc7829 3.2 "The RECOMMENDED value of PFMR is 0"
// test: rfc7829 6 "The following protocol parameter is RECOMMENDED"
fn a_silent_cut_of_the_primary_path_costs_less_than_half_a_second() {
    for node in 0..2 {
        let mut pair = pair(2);
        assert!(flow(&mut pair, node, SECOND).0 <= 100 * MILLIS);
        pair.set_up(0, false);
        let (longest, _) = flow(&mut pair, node, 5 * SECOND);
        assert!(longest < 450 * MILLIS, "{longest:?}");
        assert_eq!(pair.statistics(node).active.number(), 1);
    }
    // One direction only, either data or acknowledgements.
    for direction in 0..2 {
        let mut pair = pair(2);
        flow(&mut pair, 0, SECOND);
        let ends = [pair.addresses[0][0], pair.addresses[1][0]];
        pair.net.set_up(ends[direction], ends[1 - direction], false);
        let (longest, _) = flow(&mut pair, 0, 20 * SECOND);
        assert!(longest < 700 * MILLIS, "direction {direction}: {longest:?}");
    }
}

#[test]
fn acknowledgements_that_a_peer_delays_are_no_losses() {
    let timeouts = |floor, rtt: u32| {
        let mut config = AssociationConfig::default();
        config.timers.rto_floor = floor;
        let mut pair = Pair::new(1, config.clone());
        pair.net.set_links(anabranch_impair::LinkConfig::new().delay(MILLIS * rtt / 2));
        pair.connect(config);
        assert!(pair.run_until(5 * SECOND, |pair| pair.both_up()));
        // A packet among others is acknowledged immediately, a single one is not.
        for round in 0..50 {
            pair.send(0, 0, vec![7; 40_000]);
            pair.run(SECOND * 2);
            pair.send(0, 0, vec![7; 100]);
            pair.run(MILLIS * (1000 + 7 * round));
        }
        pair.statistics(0).counters.timeouts
    };
    for rtt in [0, 1, 20, 50, 100, 150, 200, 300, 500] {
        assert_eq!(timeouts(RtoFloor::AboveSrtt, rtt), 0, "{rtt} ms");
    }
    // A floor of the RTO itself would have to be higher.
    assert!(timeouts(RtoFloor::Rto, 200) > 0);
}

#[test]
fn outages_of_all_links_are_survived_and_end_soon() {
    for (paths, seconds, refused) in
        [(1, 60, false), (2, 5, false), (2, 20, true), (2, 60, false), (2, 60, true)]
    {
        let mut pair = pair(paths);
        flow(&mut pair, 0, SECOND);
        set_all(&mut pair, false);
        if refused {
            // The host has no route, or its interface is down.
            pair.net.send_errors = Probability::ONE;
        }
        pair.send(0, 0, vec![7; 16_000]);
        pair.run(SECOND * seconds);
        assert_eq!(pair.closed, [None, None], "{paths} paths, {seconds} s");
        pair.net.send_errors = Probability::ZERO;
        set_all(&mut pair, true);
        let back = pair.net.now();
        let (_, ended) = flow(&mut pair, 0, 5 * SECOND);
        let took = ended.saturating_since(back);
        assert!(took < 2200 * MILLIS, "{paths} paths, {seconds} s: after {took:?}");
        pair.run(5 * SECOND);
        let sent = pair.statistics(0).counters.messages_sent as usize * 16_000;
        assert_eq!(pair.received_len(1), sent, "{paths} paths, {seconds} s");
    }
}

#[test]
// test: rfc9260 8.1 "SHOULD consider the peer endpoint unreachable"
fn several_paths_do_not_die_before_one() {
    let given_up_after = |paths, refused: bool, sends: bool| {
        let mut pair = pair(paths);
        flow(&mut pair, usize::from(!sends), SECOND);
        set_all(&mut pair, false);
        if refused {
            pair.net.unreachable = Probability::ONE;
        }
        let begun = pair.net.now();
        if sends {
            pair.send(0, 0, vec![7; 50_000]);
        }
        assert!(pair.run_until(2000 * SECOND, |pair| pair.closed[0].is_some()));
        assert_eq!(pair.closed[0], Some(CloseReason::Unreachable));
        pair.net.now().saturating_since(begun)
    };
    let alone = given_up_after(1, false, true);
    // 0.3 s, doubled up to 60 s.
    assert!((240..320).contains(&alone.as_secs()), "{alone:?}");
    for (paths, refused, sends) in
        [(1, true, true), (2, false, true), (2, true, true), (4, false, true), (2, false, false)]
    {
        let after = given_up_after(paths, refused, sends);
        let expected = 240..2 * alone.as_secs();
        assert!(expected.contains(&after.as_secs()), "{paths}: {after:?}, {alone:?}");
    }
}

#[test]
// test: rfc9260 8.1 "the counter SHOULD also be reset"
fn a_receiver_notices_a_server_that_was_restarted() {
    for paths in [1, 2] {
        let mut pair = pair(paths);
        flow(&mut pair, 1, SECOND);
        pair.net.reboot(1, EndpointConfig::default(), [9; 32]);
        let begun = pair.net.now();
        assert!(pair.run_until(60 * SECOND, |pair| pair.closed[0].is_some()));
        let took = pair.net.now().saturating_since(begun);
        assert!(matches!(pair.closed[0], Some(CloseReason::PeerAbort { .. })));
        assert!(took < SECOND, "{took:?}");
    }
}

/// Node 1 has ended, and its host reports so for every packet to it.
fn kill(pair: &mut Pair) {
    for path in 0..pair.addresses[0].len() {
        let (client, server) = (pair.addresses[0][path], pair.addresses[1][path]);
        pair.net.set_up(server, client, false);
    }
    pair.net.unreachable = Probability::ONE;
    pair.net.unreachable_kind = IcmpKind::PortUnreachable;
}

#[test]
// test: rfc6951 5.5 "processed, the following mapping SHOULD apply"
fn a_port_that_refuses_for_seconds_is_a_peer_that_is_gone() {
    for (paths, sends) in [(1, false), (2, false), (1, true), (2, true)] {
        let mut pair = pair(paths);
        flow(&mut pair, usize::from(!sends), SECOND);
        kill(&mut pair);
        let begun = pair.net.now();
        if sends {
            pair.send(0, 0, vec![7; 100_000]);
        }
        assert!(pair.run_until(60 * SECOND, |pair| pair.closed[0].is_some()));
        assert_eq!(pair.closed[0], Some(CloseReason::PortUnreachable));
        let took = pair.net.now().saturating_since(begun);
        let expected = if sends { 8..12 } else { 2..5 };
        assert!(expected.contains(&took.as_secs()), "{paths} paths: {took:?}");
    }
}

#[test]
fn a_shutdown_does_not_wait_long_for_a_peer_that_is_gone() {
    for (paths, finished) in [(1, false), (2, false), (1, true), (2, true)] {
        let mut pair = pair(paths);
        flow(&mut pair, 0, SECOND);
        pair.run(SECOND);
        let expected = if finished {
            // Its SHUTDOWN COMPLETE is lost.
            pair.net.script(|sight| match sight.has(kind::SHUTDOWN_COMPLETE) {
                true => Verdict::Drop,
                false => Verdict::Pass,
            });
            pair.shutdown(1);
            assert!(pair.run_until(10 * SECOND, |pair| pair.closed[1].is_some()));
            assert_eq!(pair.closed, [None, Some(CloseReason::Shutdown)]);
            kill(&mut pair);
            CloseReason::Shutdown
        } else {
            kill(&mut pair);
            pair.shutdown(0);
            CloseReason::PortUnreachable
        };
        let begun = pair.net.now();
        assert!(pair.run_until(600 * SECOND, |pair| pair.closed[0].is_some()));
        assert_eq!(pair.closed[0], Some(expected));
        let took = pair.net.now().saturating_since(begun);
        assert!((1..8).contains(&took.as_secs()), "{paths} paths, {finished}: {took:?}");
    }
}

/// Two hosts, with `own` and two addresses; all addresses reach each other.
fn mesh(own: usize) -> Pair {
    let mut addresses = Pair::new(2, AssociationConfig::default()).addresses;
    addresses[1].truncate(own);
    let mut pair = Pair::with(addresses, Default::default(), AssociationConfig::default());
    pair.connect(AssociationConfig::default());
    pair.run(20 * SECOND);
    assert!(pair.both_up());
    pair.net.trace.forget();
    pair
}

#[test]
fn a_host_that_seldom_says_that_a_port_refuses_is_understood() {
    let mut pair = mesh(2);
    flow(&mut pair, 1, SECOND);
    for client in pair.addresses[0].clone() {
        for server in pair.addresses[1].clone() {
            pair.net.set_up(server, client, false);
        }
    }
    pair.net.unreachable = Probability::ONE;
    pair.net.unreachable_kind = IcmpKind::PortUnreachable;
    // As Linux does. Two paths lead from each of the client's addresses.
    pair.net.unreachable_every = SECOND;
    let begun = pair.net.now();
    assert!(pair.run_until(60 * SECOND, |pair| pair.closed[0].is_some()));
    assert_eq!(pair.closed[0], Some(CloseReason::PortUnreachable));
    let took = pair.net.now().saturating_since(begun);
    assert!(took < 6 * SECOND, "{took:?}");
}

#[test]
fn a_firewall_on_one_uplink_is_no_word_about_the_other_one() {
    let mut pair = mesh(1);
    flow(&mut pair, 1, SECOND);
    pair.run(SECOND);
    let (client, server) = (pair.addresses[0].clone(), pair.addresses[1][0]);
    // The other uplink is slow: its answers come after the firewall has been believed.
    for (from, to) in [(client[1], server), (server, client[1])] {
        pair.net.set_link(from, to, LinkConfig::new().delay(1500 * MILLIS));
    }
    for (from, to) in [(client[0], server), (server, client[0])] {
        pair.net.set_up(from, to, false);
    }
    for _ in 0..40 {
        let quoted = pair.association(0).expect("it lives").start_of_packet();
        let kind = IcmpKind::PortUnreachable;
        let message = IcmpMessage { local: client[0], remote: server, kind, quoted: &quoted };
        let now = pair.net.now();
        pair.net.node_mut(0).endpoint.handle_icmp(now, &message);
        pair.run(250 * MILLIS);
        assert_eq!(pair.closed, [None, None]);
    }
    pair.send(1, 0, vec![7; 10_000]);
    let had = pair.received_len(0);
    pair.run(20 * SECOND);
    assert_eq!(pair.received_len(0), had + 10_000);
}

#[test]
fn a_port_that_refuses_for_a_moment_or_on_one_path_is_no_end() {
    let mut pair = pair(2);
    flow(&mut pair, 1, SECOND);
    kill(&mut pair);
    pair.run(1500 * MILLIS);
    pair.net.unreachable = Probability::ZERO;
    set_all(&mut pair, true);
    flow(&mut pair, 1, 20 * SECOND);
    // Each of these was refused, but the peer was heard in between.
    for _ in 0..20 {
        kill(&mut pair);
        pair.run(1500 * MILLIS);
        pair.net.unreachable = Probability::ZERO;
        set_all(&mut pair, true);
        flow(&mut pair, 1, SECOND);
    }
    assert_eq!(pair.closed, [None, None]);
    let states = pair.path_states(0);
    assert!(states.iter().all(|state| *state == PathState::Active), "{states:?}");
}

#[test]
fn a_quiet_peer_is_asked_once_and_only_if_data_was_flowing() {
    let mut pair = pair(2);
    // A little now and then is no flow.
    for _ in 0..20 {
        pair.send(1, 0, vec![7; 1000]);
        pair.run(900 * MILLIS);
    }
    assert_eq!(pair.count(0, kind::HEARTBEAT), 0);
    pair.net.trace.forget();
    pair.send(1, 0, vec![7; 200_000]);
    pair.run(20 * SECOND);
    let beats = pair.count(0, kind::HEARTBEAT);
    assert!(
        (2..=4).contains(&beats),
        "one on each path, perhaps one more of the regular ones: {beats}"
    );
}

#[test]
fn nothing_waits_for_a_timer_when_a_path_answers() {
    for paths in [1, 2] {
        let mut pair = pair(paths);
        flow(&mut pair, 0, SECOND);
        set_all(&mut pair, false);
        pair.send(0, 0, vec![7; 1000]);
        pair.run(100 * SECOND);
        let rto = pair.statistics(0).paths[0].rto;
        assert!(rto >= 30 * SECOND, "{rto:?}");
        set_all(&mut pair, true);
        let before = pair.received_len(1);
        let answers = |pair: &Pair| -> u64 {
            pair.statistics(0).paths.iter().map(|path| path.heartbeats_acked).sum()
        };
        let had = answers(&pair);
        assert!(pair.run_until(3 * SECOND, |pair| answers(pair) > had));
        let answered = pair.net.now();
        assert!(pair.run_until(60 * SECOND, |pair| pair.received_len(1) > before));
        // Unacknowledged data from before the cut is retransmitted immediately, and new data is sent when
        // that is acknowledged.
        let took = pair.net.now().saturating_since(answered);
        assert!(took <= 31 * MILLIS, "{paths} paths: {took:?}");
    }
}

#[test]
// test: rfc8899 4.3 "A DPLPMTUD method MUST NOT rely solely on"
fn a_black_hole_below_the_base_size_costs_seconds() {
    for (paths, mtu) in [(1, 600), (2, 600), (1, 1280), (2, 1280)] {
        let mut pair = pair(paths);
        flow(&mut pair, 0, SECOND);
        for path in 0..usize::from(paths) {
            let (a, b) = (pair.addresses[0][path], pair.addresses[1][path]);
            pair.net.set_mtu(a, b, Some(PathMtu { mtu, icmp: false }));
        }
        let (longest, _) = flow(&mut pair, 0, 20 * SECOND);
        assert!(longest < 2500 * MILLIS, "{paths} paths, {mtu}: {longest:?}");
        assert_eq!(pair.closed, [None, None]);
    }
}
