//! Local addresses that are lost and come back, and links that do not mix.

use std::time::Duration;

use anabranch_harness::Pair;
use anabranch_proto::{AssociationConfig, PathState};

fn config() -> AssociationConfig {
    let mut config = AssociationConfig::rfc9260();
    config.mtu.discovery = false;
    config
}

fn states(pair: &Pair) -> Vec<PathState> {
    pair.statistics(0).paths.iter().map(|path| path.state).collect()
}

/// Removes the first path's local address from node 0, also on the network, or restores it.
fn set_local(pair: &mut Pair, usable: bool) {
    let (a, b) = (pair.addresses[0][0], pair.addresses[1][0]);
    pair.net.set_up(a, b, usable);
    pair.net.set_up(b, a, usable);
    let now = pair.net.now();
    pair.net.node_mut(0).endpoint.handle_local_address(now, a, usable);
    pair.take();
}

#[test]
fn a_lost_address_is_left_at_once_and_taken_again_when_it_is_back() {
    let mut pair = Pair::connected(2, config());
    let before = &pair.statistics(0).paths[0];
    let fresh = (before.cwnd, before.ssthresh);
    assert!(pair.send(0, 0, vec![1; 20_000]));
    pair.net.settle();
    set_local(&mut pair, false);
    assert_eq!(states(&pair), [PathState::Inactive, PathState::Active]);
    // No six timeouts of Path.Max.Retrans 5.
    pair.run(Duration::from_secs(3));
    assert_eq!(pair.received_len(1), 20_000);
    // The interface may be in another network when it is back.
    // test: rfc9260 7.2.5 "When detected by an SCTP implementation"
    // test: rfc9260 7.2.5.2 "If such a routing change happens"
    let windows = |pair: &Pair| {
        let path = &pair.statistics(0).paths[0];
        (path.cwnd, path.ssthresh)
    };
    assert!(windows(&pair) < fresh, "it timed out");
    set_local(&mut pair, true);
    assert_eq!(windows(&pair), fresh);
    // No wait for the next heartbeat.
    pair.run(Duration::from_secs(1));
    assert_eq!(states(&pair), [PathState::Active; 2]);
    // That it is still there is no news.
    assert!(pair.send(0, 0, vec![1; 200_000]));
    pair.run(Duration::from_secs(10));
    let grown = windows(&pair);
    set_local(&mut pair, true);
    assert!(grown > fresh && windows(&pair) == grown);
    assert_eq!(pair.closed, [None, None]);
}

#[test]
fn the_only_address_is_kept_and_goes_on_when_it_is_back() {
    let mut pair = Pair::connected(1, config());
    set_local(&mut pair, false);
    assert_eq!(states(&pair), [PathState::Active]);
    assert!(pair.send(0, 0, vec![1; 20_000]));
    pair.run(Duration::from_secs(40));
    assert_eq!(pair.received_len(1), 0);
    // The timer is backed off for longer than this.
    set_local(&mut pair, true);
    pair.run(Duration::from_secs(3));
    assert_eq!(pair.received_len(1), 20_000);
    assert_eq!(pair.closed, [None, None]);
}

/// An uplink that is plugged in later: its path has never worked, and only the side that has the uplink learns of it.
#[test]
fn a_path_that_works_for_the_first_time_is_used_by_both_sides_at_once() {
    let mut config = config();
    config.paths.vigilance = AssociationConfig::default().paths.vigilance;
    let mut pair = Pair::new(2, config.clone());
    pair.set_up(1, false);
    pair.connect(config);
    pair.run(Duration::from_secs(300));
    for node in 0..2 {
        assert_eq!(pair.path_states(node), [PathState::Active, PathState::Inactive]);
    }
    pair.set_up(1, true);
    let (now, local) = (pair.net.now(), pair.addresses[0][1]);
    pair.net.node_mut(0).endpoint.handle_local_address(now, local, true);
    pair.run(Duration::from_secs(1));
    // The other side's next heartbeat would be half a minute away, or more.
    for node in 0..2 {
        assert_eq!(pair.path_states(node), [PathState::Active; 2]);
    }
}
