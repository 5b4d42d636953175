//! The same with two paths: handshakes that change paths, and shutdowns while paths die.

use std::time::Duration;

use anabranch_harness::Pair;
use anabranch_proto::config::Routes;
use anabranch_proto::{CloseReason, Event, InitiationOrder, PathState};

use super::{LONG, all_fates, all_fates_of, config, connect_with, ends, graceful, works};

/// Directions of two paths that can be dead: none, one direction, or one path.
const DEAD: [&[(usize, usize)]; 7] =
    [&[], &[(0, 0)], &[(0, 1)], &[(1, 0)], &[(1, 1)], &[(0, 0), (1, 0)], &[(0, 1), (1, 1)]];

/// Kills directions, each given by its sender and its path.
fn kill(pair: &mut Pair, dead: &[(usize, usize)]) {
    for &(from, path) in dead {
        let (near, far) = (pair.addresses[from][path], pair.addresses[1 - from][path]);
        pair.net.set_up(near, far, false);
    }
}

fn up() -> Pair {
    let mut pair = Pair::new(2, config());
    connect_with(&mut pair, 0, config());
    assert!(pair.run_until(LONG, |pair| pair.both_up()));
    pair.run(Duration::from_secs(10));
    for node in 0..2 {
        let paths = pair.statistics(node).paths;
        assert!(paths.iter().all(|path| path.state == PathState::Active), "both are verified");
    }
    pair
}

/// Neither end has more than one association, and both have both paths.
fn agreed(pair: &Pair) {
    for node in 0..2 {
        assert_eq!(pair.net.node(node).endpoint.associations().count(), 1);
        assert_eq!(pair.statistics(node).paths.len(), 2);
    }
}

#[test]
fn handshake_in_either_order() {
    for initiation in InitiationOrder::ALL {
        all_fates(|begin| {
            let mut pair = Pair::new(2, config());
            begin(&mut pair);
            let mut config = config();
            config.initiation = *initiation;
            connect_with(&mut pair, 0, config);
            works(&mut pair);
            agreed(&pair);
            pair.shutdown(0);
            ends(&mut pair);
            graceful(&pair);
        });
    }
}

#[test]
fn handshake_with_dead_paths() {
    for initiation in InitiationOrder::ALL {
        for dead in DEAD {
            all_fates_of(4, |begin| {
                let mut pair = Pair::new(2, config());
                kill(&mut pair, dead);
                begin(&mut pair);
                let mut config = config();
                config.initiation = *initiation;
                connect_with(&mut pair, 0, config);
                works(&mut pair);
                agreed(&pair);
            });
        }
    }
}

#[test]
fn collision() {
    all_fates(|begin| {
        let mut pair = Pair::new(2, config());
        let listening = pair.net.node_mut(0).endpoint.listen(super::CLIENT, config().into());
        listening.expect("a free port");
        begin(&mut pair);
        connect_with(&mut pair, 0, config());
        connect_with(&mut pair, 1, config());
        works(&mut pair);
        agreed(&pair);
        for node in 0..2 {
            assert!(!pair.events[node].iter().any(|event| matches!(event, Event::Restarted)));
        }
        pair.shutdown(1);
        ends(&mut pair);
        graceful(&pair);
    });
}

#[test]
fn restart_with_dead_paths() {
    for dead in DEAD {
        all_fates_of(4, |begin| {
            let mut pair = up();
            kill(&mut pair, dead);
            begin(&mut pair);
            let mut endpoint = anabranch_proto::EndpointConfig::default();
            let [near, far] = pair.addresses.clone();
            endpoint.routes = Routes::Pairs(near.into_iter().zip(far).collect());
            pair.net.reboot(0, endpoint, [77; 32]);
            pair.id[0] = None;
            connect_with(&mut pair, 0, config());
            works(&mut pair);
            agreed(&pair);
        });
    }
}

#[test]
fn shutdown_with_data_both_ways_and_dead_paths() {
    for dead in DEAD {
        all_fates_of(4, |begin| {
            let mut pair = up();
            begin(&mut pair);
            kill(&mut pair, dead);
            assert!(pair.send(0, 0, vec![8; 1500]) && pair.send(1, 0, vec![9; 1500]));
            pair.shutdown(0);
            ends(&mut pair);
            graceful(&pair);
            assert_eq!(pair.received_bytes(1), [8; 1500]);
            assert_eq!(pair.received_bytes(0), [9; 1500]);
        });
    }
}

#[test]
fn shutdown_from_both_sides_with_dead_paths() {
    for dead in DEAD {
        all_fates_of(4, |begin| {
            let mut pair = up();
            begin(&mut pair);
            kill(&mut pair, dead);
            assert!(pair.send(1, 0, &b"last words"[..]));
            pair.shutdown(0);
            pair.shutdown(1);
            ends(&mut pair);
            graceful(&pair);
            assert_eq!(pair.received_bytes(0), b"last words");
        });
    }
}

#[test]
fn shutdown_meets_abort_over_two_paths() {
    for dead in DEAD {
        all_fates_of(3, |begin| {
            let mut pair = up();
            begin(&mut pair);
            kill(&mut pair, dead);
            pair.shutdown(0);
            pair.run(Duration::from_millis(15));
            pair.abort(1);
            ends(&mut pair);
            let first = pair.closed[0].as_ref();
            // Over a path that is dead in one direction an end may wait in vain.
            let known = matches!(
                first,
                Some(
                    CloseReason::Shutdown
                        | CloseReason::PeerAbort { .. }
                        | CloseReason::Unreachable
                        | CloseReason::ShutdownTimeout
                )
            );
            assert!(known, "{first:?}");
        });
    }
}

/// The primary path dies in the middle of the shutdown, whenever that is.
#[test]
fn the_path_dies_in_the_middle_of_the_shutdown() {
    for dead in &DEAD[1..] {
        for millis in (0..80).step_by(5) {
            for from in 0..2 {
                let mut pair = up();
                assert!(pair.send(0, 0, vec![8; 5000]) && pair.send(1, 0, vec![9; 5000]));
                pair.shutdown(from);
                pair.run(Duration::from_millis(millis));
                kill(&mut pair, dead);
                ends(&mut pair);
                let closed = &pair.closed;
                assert_eq!(
                    pair.received_len(0) + pair.received_len(1),
                    10_000,
                    "{dead:?} {millis}"
                );
                assert!(closed.iter().all(Option::is_some), "{closed:?}");
            }
        }
    }
}
