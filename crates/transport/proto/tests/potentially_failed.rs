//! Potentially failed paths (RFC 7829) between two endpoints.

use std::time::Duration;

use anabranch_harness::{Pair, Verdict, craft};
use anabranch_proto::{
    AssociationConfig, CloseReason, Event, HeartbeatRetry, Notification, PathState,
};
use anabranch_wire::kind;

use PathState::{Active, Inactive, PotentiallyFailed};

const LONG: Duration = Duration::from_secs(2000);

/// PMR 5, and this PFMR.
fn config(pfmr: Option<u32>) -> AssociationConfig {
    let mut config = AssociationConfig::rfc9260();
    config.paths.potentially_failed_max_retrans = pfmr;
    config.mtu.discovery = false;
    config
}

/// The path events of node 0, in order.
fn told(pair: &Pair) -> Vec<String> {
    let text = |event: &Event| match event {
        Event::Notification(Notification::PathChanged { path, state, .. }) => {
            Some(format!("{} {state}", path))
        }
        Event::Notification(Notification::FailedOver { from, to, permanent, .. }) => {
            let how = if *permanent { "for good" } else { "for now" };
            Some(format!("{} to {} {how}", from, to))
        }
        Event::Notification(Notification::Dormant) => Some("dormant".to_owned()),
        Event::Notification(Notification::Recovered { path, .. }) => {
            Some(format!("{} recovered", path))
        }
        _ => None,
    };
    pair.events[0].iter().filter_map(text).collect()
}

/// Seconds at which node 0 sent packets with this kind of chunk on a path.
fn times(pair: &Pair, path: usize, wanted: u8) -> Vec<f64> {
    let from = pair.addresses[0][path];
    let kept = pair.net.trace.kept().iter();
    kept.filter(|(_, packet)| packet.from == from && craft::has(&packet.bytes, wanted))
        .map(|(at, _)| at.saturating_since(anabranch_proto::Instant::ZERO).as_secs_f64())
        .collect()
}

#[test]
// test: rfc7829 3.2 "the endpoint MUST mark the destination address as in the PF state"
// test: rfc7829 3.2 "SHOULD NOT send data to destination addresses in PF state when"
// test: rfc7829 3.2 "SHOULD choose a destination address in active state, if one exists, and use"
// test: rfc7829 3.2 "SHOULD choose an alternate destination transport address in active state"
fn data_leaves_a_path_when_its_errors_exceed_pfmr() {
    // After 1, 1 + 2, 1 + 2 + 4 s of timeouts.
    for (pfmr, after) in [(0, 1), (1, 3), (2, 7)] {
        let mut pair = Pair::connected(2, config(Some(pfmr)));
        let mut sent = pair.trickle(Duration::from_secs(5));
        pair.set_up(0, false);
        pair.events[0].clear();
        let begun = pair.net.now();
        // Data is not acknowledged, so the path's errors keep counting.
        let limit = Duration::from_secs(after + 2);
        assert!(pair.send(0, 0, vec![7; 1000]));
        sent += 1000;
        let left = pair.run_until(limit, |pair| {
            pair.send(0, 0, vec![7; 1000]);
            pair.statistics(0).active.number() == 1
        });
        assert!(left, "PFMR {pfmr}: {:?}", pair.statistics(0).paths[0]);
        let took = pair.net.now().saturating_since(begun).as_secs_f64();
        assert!((after as f64 - 0.2..after as f64 + 0.2).contains(&took), "PFMR {pfmr}: {took} s");
        assert_eq!(pair.path_states(0), [PotentiallyFailed, Active]);
        assert_eq!(told(&pair), ["0 potentially-failed", "0 to 1 for now"]);
        assert_eq!(pair.statistics(0).paths[0].error_count, pfmr + 1);
        pair.forget();
        sent += pair.trickle(Duration::from_secs(2));
        assert_eq!(times(&pair, 0, kind::DATA), [], "PFMR {pfmr}");
        assert!(!times(&pair, 1, kind::DATA).is_empty());
        assert!(pair.received_len(1) >= sent, "PFMR {pfmr}");
    }
}

#[test]
fn a_threshold_of_pmr_or_none_is_without_the_state() {
    for pfmr in [None, Some(5), Some(6)] {
        let mut pair = Pair::connected(2, config(pfmr));
        pair.set_up(0, false);
        pair.events[0].clear();
        pair.trickle(Duration::from_secs(100));
        assert_eq!(told(&pair), ["0 inactive", "0 to 1 for now"], "{pfmr:?}");
    }
}

#[test]
// test: rfc7829 3.2 "MUST be ignored for destination addresses in PF state"
// test: rfc7829 3.2 "HEARTBEAT chunks SHOULD be sent to destination addresses in PF state"
// test: rfc7829 3.2 "notify the Upper Layer Protocol (ULP) about this state transition"
// test: rfc7829 3.2 "MUST NOT clear the error counter of the destination address as a result"
fn heartbeats_go_out_at_once_and_with_every_rto_until_the_path_has_failed() {
    for retry in [HeartbeatRetry::Interval, HeartbeatRetry::AtOnce] {
        let mut config = config(Some(0));
        config.paths.heartbeat_retry = retry;
        let mut pair = Pair::connected(2, config);
        pair.set_up(0, false);
        pair.forget();
        pair.events[0].clear();
        assert!(pair.send(0, 0, vec![1; 1000]));
        assert!(pair.run_until(LONG, |pair| pair.path_states(0)[0] == PotentiallyFailed));
        let since = times(&pair, 0, kind::DATA)[0] + 1.0;
        assert!(pair.run_until(LONG, |pair| pair.path_states(0)[0] == Inactive));
        let sent: Vec<u64> =
            times(&pair, 0, kind::HEARTBEAT).iter().map(|at| (at - since).round() as u64).collect();
        assert_eq!(sent[..5], [0, 2, 6, 14, 30], "{retry:?}: 2, 4, 8, 16 s");
        let took = pair.net.now().saturating_since(anabranch_proto::Instant::ZERO).as_secs_f64();
        assert_eq!((took - since).round() as u64, 62);
        assert_eq!(pair.statistics(0).paths[0].error_count, 6);
        assert_eq!(told(&pair), ["0 potentially-failed", "0 to 1 for now", "0 inactive"]);
        assert_eq!(pair.received_len(1), 1000);
    }
}

#[test]
// test: rfc7829 3.2 "SHOULD clear the error counter of the destination address and transition"
// test: rfc7829 3.2 "it MUST do this following the prescriptions of Section 7.2"
// test: rfc7829 3.2 "as well as provide the means to notify the ULP of state transitions"
fn a_heartbeat_ack_makes_the_path_active_and_data_returns_in_slow_start() {
    let mut pair = Pair::connected(2, config(Some(0)));
    let mut sent = pair.trickle(Duration::from_secs(5));
    pair.set_up(0, false);
    pair.events[0].clear();
    sent += pair.trickle(Duration::from_secs(2));
    pair.set_up(0, true);
    // The second heartbeat is sent 2 s after the timeout.
    assert!(pair.run_until(Duration::from_secs(2), |pair| pair.path_states(0)[0] == Active));
    let path = pair.statistics(0).paths[0];
    assert_eq!((path.error_count, path.rto.as_secs()), (0, 1), "the answer ends the back-off");
    assert!(path.cwnd < 1500, "one packet after the timeout: {}", path.cwnd);
    assert!(path.cwnd < path.ssthresh);
    let story = ["0 potentially-failed", "0 to 1 for now", "0 active", "0 recovered"];
    assert_eq!(told(&pair), story);
    sent += pair.trickle(Duration::from_secs(1));
    assert_eq!(pair.statistics(0).active.number(), 0);
    pair.run(Duration::from_secs(5));
    assert_eq!(pair.received_len(1), sent);
}

#[test]
// test: rfc7829 3.2 "the sender MUST choose one destination address in PF state"
// test: rfc7829 3.2 "SHOULD transmit or retransmit data to this destination"
// test: rfc7829 3.2 "MUST NOT change the state and the error counter of any destination addresses"
// test: rfc7829 4.1 "the sender MUST choose one destination and transmit data"
// test: rfc7829 4.1 "MUST NOT clear the error counter of the destination address as a result"
// test: rfc7829 4 "SHOULD operate as described in Section 4.1 during dormant state"
fn with_every_path_in_doubt_data_goes_on_over_the_best_one() {
    let mut config = config(Some(0));
    config.paths.association_max_retrans = 1000;
    let mut pair = Pair::connected(3, config);
    for path in 0..3 {
        pair.set_up(path, false);
    }
    pair.forget();
    pair.events[0].clear();
    assert!(pair.send(0, 0, vec![1; 1000]));
    assert!(pair.run_until(LONG, |pair| pair.path_states(0) == [PotentiallyFailed; 3]));
    let begun = pair.net.now();
    while pair.path_states(0) == [PotentiallyFailed; 3] {
        let statistics = pair.statistics(0);
        let flight = statistics.path(statistics.active).unwrap().flight;
        assert!(flight > 0, "data waits for path {}", statistics.active);
        assert!(!told(&pair).contains(&"dormant".to_owned()));
        pair.run(Duration::from_millis(500));
    }
    let took = pair.net.now().saturating_since(begun);
    assert!(took > Duration::from_secs(30), "{took:?}");
    assert!(pair.run_until(LONG, |pair| pair.path_states(0) == [Inactive; 3]));
    // The last of them makes the association dormant; it continues to send.
    let timeouts = pair.statistics(0).counters.timeouts;
    pair.run(Duration::from_secs(200));
    assert!(pair.statistics(0).counters.timeouts > timeouts);
    // test: rfc7829 4.1 "MUST NOT change the state of the chosen destination address"
    assert_eq!(pair.path_states(0), [Inactive; 3]);
    let story = told(&pair);
    assert_eq!(story.iter().filter(|line| *line == "dormant").count(), 1, "{story:?}");
    let last_failure = story.iter().rposition(|line| line.ends_with("inactive")).unwrap();
    assert_eq!(story[last_failure + 1..], ["dormant"]);
    pair.set_up(2, true);
    assert!(pair.run_until(LONG, |pair| pair.received_len(1) == 1000));
    assert!(pair.run_until(LONG, |pair| pair.path_states(0)[2] == Active));
    assert_eq!(told(&pair).last().unwrap(), "2 recovered");
}

#[test]
// test: rfc7829 3.2 "MUST transition a destination address in PF state back to active state"
fn data_that_took_one_path_alone_makes_it_active() {
    let mut pair = Pair::connected(1, config(Some(0)));
    let mut first = true;
    pair.net.script(move |sight| {
        let lost = sight.has(kind::HEARTBEAT) || (sight.has(kind::DATA) && first);
        first &= !sight.has(kind::DATA);
        if lost { Verdict::Drop } else { Verdict::Pass }
    });
    pair.events[0].clear();
    assert!(pair.send(0, 0, vec![1; 1000]));
    assert!(pair.run_until(LONG, |pair| pair.path_states(0) == [PotentiallyFailed]));
    assert_eq!(pair.received_len(1), 0);
    pair.run(Duration::from_secs(1));
    assert_eq!(pair.received_len(1), 1000);
    assert_eq!(pair.path_states(0), [Active]);
    // The lost heartbeat no longer counts either.
    pair.run(Duration::from_secs(10));
    assert_eq!(told(&pair), ["0 potentially-failed", "0 active"], "nothing to fail over to");
    assert_eq!(pair.statistics(0).paths[0].error_count, 0);
}

#[test]
// test: rfc7829 3.2 "SHOULD NOT move a destination address in PF state back to active"
fn data_that_took_two_paths_proves_neither() {
    for credit in [false, true] {
        let mut config = config(Some(0));
        config.recovery.credit_retransmissions = credit;
        let mut pair = Pair::connected(2, config);
        let mut data = 0;
        pair.net.script(move |sight| {
            data += u32::from(sight.has(kind::DATA));
            let lost = sight.has(kind::HEARTBEAT) || (sight.has(kind::DATA) && data <= 2);
            if lost { Verdict::Drop } else { Verdict::Pass }
        });
        assert!(pair.send(0, 0, vec![1; 1000]));
        // On path 0, on path 1, and on path 0 again.
        assert!(pair.run_until(LONG, |pair| pair.received_len(1) == 1000));
        pair.run(Duration::from_millis(500));
        assert_eq!(pair.path_states(0), [PotentiallyFailed; 2], "credit {credit}");
        assert_eq!(pair.association(0).map(|a| a.pending_bytes()), Some(0));
        assert!(pair.send(0, 0, vec![1; 1000]));
        pair.run(Duration::from_millis(500));
        let expected = [Active, PotentiallyFailed];
        assert_eq!(pair.path_states(0), expected, "credit {credit}: new data took one path");
    }
}

#[test]
// test: rfc7829 3.2 "if the Path Heartbeat function is disabled for the destination address"
// test: rfc7829 3.2 "MUST honor whether or not the Path Heartbeat function"
fn without_heartbeats_only_data_brings_a_path_back() {
    let mut config = config(Some(0));
    config.timers.heartbeat_interval = None;
    let mut pair = Pair::connected(2, config);
    pair.set_up(0, false);
    pair.forget();
    let mut sent = pair.trickle(Duration::from_secs(3));
    pair.set_up(0, true);
    sent += pair.trickle(Duration::from_secs(100));
    assert_eq!(pair.path_states(0), [PotentiallyFailed, Active]);
    assert_eq!(times(&pair, 0, kind::HEARTBEAT), []);
    pair.set_up(1, false);
    sent += pair.trickle(Duration::from_secs(10));
    assert_eq!(pair.path_states(0), [Active, PotentiallyFailed]);
    pair.run(Duration::from_secs(5));
    assert_eq!(pair.received_len(1), sent);
}

#[test]
fn heartbeats_and_data_on_one_path_count_one_error_in_an_rto() {
    let ends = [None, Some(0)].map(|pfmr| {
        let mut pair = Pair::connected(1, config(pfmr));
        pair.set_up(0, false);
        assert!(pair.send(0, 0, vec![1; 1000]));
        let begun = pair.net.now();
        while pair.closed[0].is_none() {
            let statistics = pair.statistics(0);
            let path = &statistics.paths[0];
            assert!(path.error_count <= 6 || path.state == Inactive);
            if path.state != Inactive {
                assert_eq!(u64::from(path.error_count), path.timeouts);
            }
            pair.run(Duration::from_millis(500));
        }
        assert_eq!(pair.closed[0], Some(CloseReason::Unreachable));
        pair.net.now().saturating_since(begun).as_secs()
    });
    assert!(ends[0] <= ends[1], "the association is given up no sooner than without: {ends:?}");
}

#[test]
fn heartbeats_that_get_through_do_not_hide_that_data_does_not() {
    let mut pair = Pair::connected(2, config(Some(0)));
    pair.net.script(|sight| if sight.has(kind::DATA) { Verdict::Drop } else { Verdict::Pass });
    assert!(pair.send(0, 0, vec![1; 1000]));
    assert!(pair.run_until(LONG, |pair| pair.closed[0].is_some()));
    assert_eq!(pair.closed[0], Some(CloseReason::Unreachable));
    assert!(told(&pair).iter().filter(|line| *line == "0 active").count() >= 3);
}

#[test]
fn an_idle_path_is_found_out_by_its_heartbeats() {
    let mut pair = Pair::connected(2, config(Some(0)));
    pair.set_up(1, false);
    pair.events[0].clear();
    let mut sent = pair.trickle(Duration::from_secs(40));
    assert_eq!(told(&pair), ["1 potentially-failed"]);
    sent += pair.trickle(Duration::from_secs(65));
    assert_eq!(told(&pair), ["1 potentially-failed", "1 inactive"]);
    assert_eq!(pair.statistics(0).counters.timeouts, 0);
    pair.run(Duration::from_secs(5));
    assert_eq!(pair.received_len(1), sent);
}

#[test]
// test: rfc7829 5 "MUST autonomously select and set a new primary path"
// test: rfc7829 5 "MUST be the path that, at the given time, would be chosen for data transfer"
// test: rfc7829 5 "MUST support the setting of PSMR = PFMR"
// test: rfc7829 5 "It MUST be possible to disable the Primary Path Switchover operation"
fn the_primary_path_switches_over_when_its_errors_exceed_psmr() {
    for (psmr, good_after) in [(Some(0), Some(1)), (Some(2), Some(3)), (None, None)] {
        let mut config = config(Some(0));
        config.paths.change_primary_threshold = psmr;
        let mut pair = Pair::connected(2, config);
        pair.set_up(0, false);
        pair.events[0].clear();
        let mut sent = 0;
        for errors in 1..=4 {
            while pair.statistics(0).paths[0].error_count < errors {
                sent += pair.trickle(Duration::from_millis(100));
            }
            assert_eq!(pair.path_states(0), [PotentiallyFailed, Active]);
            let switched = good_after.is_some_and(|after| errors >= after);
            assert_eq!(
                pair.statistics(0).primary.number(),
                u16::from(switched),
                "{psmr:?}, {errors}"
            );
        }
        pair.set_up(0, true);
        sent += pair.trickle(Duration::from_secs(40));
        assert_eq!(pair.path_states(0), [Active; 2]);
        let stays = u16::from(psmr.is_some());
        assert_eq!(pair.statistics(0).active.number(), stays, "{psmr:?}: no forced switchback");
        pair.run(Duration::from_secs(5));
        assert_eq!(pair.received_len(1), sent);
    }
}

#[test]
// test: rfc7829 3.2 "SHOULD send the data to an alternate destination address in active state"
fn the_user_s_choice_of_a_doubtful_path_waits_for_its_answer() {
    let mut pair = Pair::connected(2, config(Some(0)));
    pair.set_up(1, false);
    pair.trickle(Duration::from_secs(40));
    assert_eq!(pair.path_states(0), [Active, PotentiallyFailed]);
    let other = pair.addresses[1][1];
    pair.association_mut(0).set_primary(other).unwrap();
    let statistics = pair.statistics(0);
    assert_eq!((statistics.primary.number(), statistics.active.number()), (1, 0));
    pair.set_up(1, true);
    assert!(
        pair.run_until(Duration::from_secs(20), |pair| pair.statistics(0).active.number() == 1)
    );
}

#[test]
fn the_threshold_can_change_while_the_association_is_up() {
    let mut pair = Pair::connected(2, config(None));
    let now = pair.net.now();
    pair.association_mut(0).reconfigure(now, &config(Some(0))).unwrap();
    pair.set_up(0, false);
    pair.trickle(Duration::from_secs(3));
    assert_eq!(pair.path_states(0), [PotentiallyFailed, Active]);
    // The path keeps its state until it answers or fails, and heartbeats begin if enabled.
    let mut without = config(None);
    without.timers.heartbeat_interval = None;
    let now = pair.net.now();
    pair.association_mut(0).reconfigure(now, &without).unwrap();
    pair.set_up(0, true);
    pair.run(Duration::from_secs(100));
    assert_eq!(pair.path_states(0), [PotentiallyFailed, Active]);
    let now = pair.net.now();
    pair.association_mut(0).reconfigure(now, &config(None)).unwrap();
    pair.run(Duration::from_secs(1));
    assert_eq!(pair.path_states(0), [Active; 2]);
}
