//! Options that change while an association is up (RFC 6458 section 8.1).

use std::time::Duration;

use anabranch_harness::Pair;
use anabranch_proto::config::Bundling;
use anabranch_proto::{AssociationConfig, BurstControl, CloseReason, PathState};
use anabranch_wire::kind;

fn config() -> AssociationConfig {
    let mut config = AssociationConfig::rfc9260();
    config.mtu.discovery = false;
    config
}

/// Changes options of the first node's association.
fn change(pair: &mut Pair, change: impl FnOnce(&mut AssociationConfig)) {
    let mut config = pair.association(0).unwrap().config().clone();
    change(&mut config);
    let now = pair.net.now();
    pair.association_mut(0).reconfigure(now, &config).unwrap();
}

#[test]
fn an_rto_is_brought_within_its_new_bounds() {
    let mut pair = Pair::connected(1, config());
    let rto = |pair: &Pair| pair.statistics(0).paths[0].rto;
    assert_eq!(rto(&pair), Duration::from_secs(1));
    change(&mut pair, |config| {
        config.timers.rto_initial = Duration::from_millis(300);
        config.timers.rto_min = Duration::from_millis(200);
        config.timers.rto_max = Duration::from_millis(400);
    });
    assert_eq!(rto(&pair), Duration::from_millis(400));
    assert!(pair.send(0, 0, vec![1; 100]));
    pair.run(Duration::from_secs(1));
    // 20 ms are measured.
    assert_eq!(rto(&pair), Duration::from_millis(200));
    change(&mut pair, |config| {
        (config.timers.rto_initial, config.timers.rto_max) =
            (Duration::from_secs(3), Duration::from_secs(9));
        config.timers.rto_min = Duration::from_secs(2);
    });
    assert_eq!(rto(&pair), Duration::from_secs(2));
}

#[test]
fn what_is_out_of_range_changes_nothing() {
    let mut pair = Pair::connected(1, config());
    let mut wrong = config();
    wrong.paths.association_max_retrans = 3;
    wrong.timers.rto_min = Duration::from_secs(100);
    let now = pair.net.now();
    assert!(pair.association_mut(0).reconfigure(now, &wrong).is_err());
    assert_eq!(pair.association(0).unwrap().config().paths.association_max_retrans, 10);
}

#[test]
fn what_cannot_change_stays() {
    let mut pair = Pair::connected(1, config());
    change(&mut pair, |config| {
        config.receiving.receive_buffer = 5000;
        config.sending.outbound_streams = 3;
        config.sending.bundling = Bundling::Minshall;
    });
    let now = pair.association(0).unwrap().config();
    assert_eq!((now.receiving.receive_buffer, now.sending.outbound_streams), {
        let before = config();
        (before.receiving.receive_buffer, before.sending.outbound_streams)
    });
    assert_eq!(now.sending.bundling, Bundling::Minshall);
}

#[test]
fn retransmission_limits_count_from_now_on() {
    let mut pair = Pair::connected(2, config());
    pair.net.script(|_| anabranch_harness::Verdict::Drop);
    change(&mut pair, |config| {
        (config.paths.path_max_retrans, config.paths.association_max_retrans) = (0, 2);
    });
    assert!(pair.send(0, 0, vec![1; 100]));
    pair.run(Duration::from_millis(1500));
    assert_eq!(pair.statistics(0).paths[0].state, PathState::Inactive);
    assert!(pair.run_until(Duration::from_secs(20), |pair| pair.closed[0].is_some()));
    assert!(matches!(pair.closed[0], Some(CloseReason::Unreachable)), "{:?}", pair.closed[0]);
}

#[test]
fn heartbeats_follow_another_interval_at_once() {
    let mut pair = Pair::connected(1, config());
    change(&mut pair, |config| config.timers.heartbeat_interval = Some(Duration::from_secs(1)));
    pair.forget();
    pair.run(Duration::from_secs(20));
    // Each after the interval and an RTO of one second, more or less a half.
    let count = pair.count(0, kind::HEARTBEAT);
    assert!((8..=14).contains(&count), "{count}");
    change(&mut pair, |config| config.timers.heartbeat_interval = None);
    pair.forget();
    pair.run(Duration::from_secs(200));
    assert_eq!(pair.count(0, kind::HEARTBEAT), 0);
}

#[test]
fn acknowledgements_follow_another_delay_and_frequency() {
    let mut pair = Pair::connected(1, config());
    let sacks = |pair: &mut Pair| {
        pair.forget();
        for _ in 0..6 {
            assert!(pair.send(1, 0, vec![1; 100]));
            pair.run(Duration::from_millis(30));
        }
        pair.run(Duration::from_secs(1));
        pair.count(0, kind::SACK)
    };
    sacks(&mut pair);
    assert_eq!(sacks(&mut pair), 3);
    change(&mut pair, |config| config.acknowledging.sack_frequency = 1);
    assert_eq!(sacks(&mut pair), 6);
    change(&mut pair, |config| {
        (config.acknowledging.sack_frequency, config.acknowledging.sack_delay) =
            (100, Duration::from_millis(70));
    });
    assert_eq!(sacks(&mut pair), 2);
}

#[test]
fn autoclose_ends_an_association_that_was_up_before() {
    let mut pair = Pair::connected(1, config());
    change(&mut pair, |config| config.timers.autoclose = Some(Duration::from_secs(5)));
    assert!(pair.run_until(Duration::from_secs(20), |pair| pair.closed[0].is_some()));
    assert!(matches!(pair.closed[0], Some(CloseReason::Shutdown)), "{:?}", pair.closed[0]);
}

#[test]
fn bursts_are_bounded_from_now_on() {
    let mut limited = config();
    limited.congestion.burst = BurstControl::MaxBurst(1);
    let mut pair = Pair::connected(1, limited);
    let at_once = |pair: &mut Pair| {
        pair.run(Duration::from_secs(2));
        pair.forget();
        assert!(pair.send(0, 0, vec![1; 4000]));
        pair.net.settle();
        pair.count(0, kind::DATA)
    };
    assert_eq!(at_once(&mut pair), 1);
    change(&mut pair, |config| config.congestion.burst = BurstControl::Unlimited);
    // Packets of 1,200 bytes.
    assert_eq!(at_once(&mut pair), 4);
}
