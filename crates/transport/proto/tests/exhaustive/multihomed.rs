//! The same with two paths: handshakes that change paths, and shutdowns while paths die.

use std::time::Duration;

use anabranch_harness::Pair;
use anabranch_proto::config::Routes;
use anabranch_proto::{CloseReason, InitiationOrder};

use super::{
    Dead, agreed, all_fates, all_fates_of, collide, config, connect_with, ends, graceful, kill,
    shut_down_and_abort, shut_down_both, shut_down_with_data, up, works,
};

/// Directions of two paths that can be dead: none, one direction, or one path.
const DEAD: [&Dead; 7] =
    [&[], &[(0, 0)], &[(0, 1)], &[(1, 0)], &[(1, 1)], &[(0, 0), (1, 0)], &[(0, 1), (1, 1)]];

#[test]
fn handshake_in_either_order() {
    for initiation in InitiationOrder::ALL {
        all_fates(|begin| {
            let mut pair = Pair::new(2, config());
            begin(&mut pair);
            let mut config = config();
            config.paths.initiation = *initiation;
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
                config.paths.initiation = *initiation;
                connect_with(&mut pair, 0, config);
                works(&mut pair);
                agreed(&pair);
            });
        }
    }
}

#[test]
fn collision() {
    collide(2);
}

#[test]
fn restart_with_dead_paths() {
    for dead in DEAD {
        all_fates_of(4, |begin| {
            let mut pair = up(2);
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
    DEAD.into_iter().for_each(|dead| shut_down_with_data(4, 2, dead));
}

#[test]
fn shutdown_from_both_sides_with_dead_paths() {
    DEAD.into_iter().for_each(|dead| shut_down_both(4, 2, dead));
}

#[test]
fn shutdown_meets_abort_over_two_paths() {
    for dead in DEAD {
        // Over a path that is dead in one direction an end may wait in vain.
        shut_down_and_abort(3, 2, dead, |reason| {
            matches!(
                reason,
                CloseReason::Shutdown
                    | CloseReason::PeerAbort { .. }
                    | CloseReason::Unreachable
                    | CloseReason::ShutdownTimeout
            )
        });
    }
}

/// The primary path dies in the middle of the shutdown, whenever that is.
#[test]
fn the_path_dies_in_the_middle_of_the_shutdown() {
    for dead in &DEAD[1..] {
        for millis in (0..80).step_by(5) {
            for from in 0..2 {
                let mut pair = up(2);
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
