//! All fates of the first packets: delivered, lost, duplicated, or delayed past the next one in the
//! same direction. Whatever happens to them, both ends must agree once the faults stop.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use anabranch_harness::odometer::Odometer;
use anabranch_harness::{Pair, Verdict};
use anabranch_proto::{
    AssociationConfig, AssociationState, CloseReason, ConnectRequest, Event, Notification,
    PathState,
};

mod multihomed;
mod readdressing;

/// Number of packets with enumerated fates.
const PACKETS: u32 = 6;
/// The client's SCTP port.
const CLIENT: u16 = 4000;
/// Time in which every timer that matters has run out.
const LONG: Duration = Duration::from_secs(600);

fn config() -> AssociationConfig {
    let mut config = AssociationConfig::rfc9260();
    // Heartbeats and probes of the MTU are not enumerated here.
    config.timers.heartbeat_interval = None;
    config.mtu = anabranch_proto::MtuConfig::fixed(1200);
    config
}

/// Runs `scenario` once for every combination of fates of the packets that are sent after it
/// calls the function that it is given.
fn all_fates(scenario: impl Fn(&dyn Fn(&mut Pair))) {
    all_fates_of(PACKETS, scenario);
}

/// The same for this number of packets.
fn all_fates_of(count: u32, scenario: impl Fn(&dyn Fn(&mut Pair))) {
    let odometer = Rc::new(RefCell::new(Odometer::default()));
    let mut runs = 0;
    while odometer.borrow_mut().next() {
        runs += 1;
        let begin = |pair: &mut Pair| {
            let odometer = Rc::clone(&odometer);
            let mut packets = 0;
            pair.net.script(move |_| {
                packets += 1;
                if packets > count {
                    return Verdict::Pass;
                }
                match odometer.borrow_mut().choose(4) {
                    0 => Verdict::Pass,
                    1 => Verdict::Drop,
                    2 => Verdict::Duplicate,
                    _ => Verdict::BehindNext(Duration::from_secs(2)),
                }
            });
        };
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            scenario(&begin);
        }));
        if let Err(panic) = result {
            println!("with fates {:?}", odometer.borrow().choices());
            std::panic::resume_unwind(panic);
        }
    }
    println!("{runs} runs");
    assert!(runs >= 4_usize.pow(2), "packets had a fate");
}

fn connect(pair: &mut Pair, from: usize) {
    connect_with(pair, from, config());
}

fn connect_with(pair: &mut Pair, from: usize, config: AssociationConfig) {
    let now = pair.net.now();
    let to = if from == 0 { Pair::PORT } else { CLIENT };
    let mut request = ConnectRequest::new(pair.addresses[1 - from].clone(), to);
    request.local_port = Some(if from == 0 { CLIENT } else { Pair::PORT });
    request.config = Arc::new(config);
    let id = pair.net.node_mut(from).endpoint.connect(now, request);
    pair.id[from] = Some(id.expect("a valid request"));
    pair.closed[from] = None;
}

/// An established association with all of its `paths` verified.
fn up(paths: u8) -> Pair {
    let mut pair = Pair::new(paths, config());
    connect(&mut pair, 0);
    assert!(pair.run_until(LONG, |pair| pair.both_up()));
    pair.run(Duration::from_secs(10));
    for node in 0..2 {
        let known = pair.statistics(node).paths;
        assert_eq!(known.len(), usize::from(paths));
        assert!(known.iter().all(|path| path.state == PathState::Active), "all are verified");
    }
    pair
}

/// Directions that are dead, each given by its sender and its path.
type Dead = [(usize, usize)];

fn kill(pair: &mut Pair, dead: &Dead) {
    for &(from, path) in dead {
        let (near, far) = (pair.addresses[from][path], pair.addresses[1 - from][path]);
        pair.net.set_up(near, far, false);
    }
}

/// Neither end has more than one association, and both have all paths.
fn agreed(pair: &Pair) {
    for node in 0..2 {
        assert_eq!(pair.net.node(node).endpoint.associations().count(), 1);
        assert_eq!(pair.statistics(node).paths.len(), pair.addresses[node].len());
    }
}

/// Checks that both ends are established and data passes in both directions.
fn works(pair: &mut Pair) {
    assert!(pair.run_until(LONG, |pair| pair.both_up()), "not up");
    for node in 0..2 {
        pair.received[1 - node].clear();
        assert!(pair.send(node, 1, vec![node as u8; 3000]));
    }
    let done = pair.run_until(LONG, |pair| {
        (0..2).all(|node| pair.received_bytes(1 - node).ends_with(&[node as u8; 3000]))
    });
    assert!(done, "no data passes: {:?}", pair.statistics(0));
    let [a, b] = [0, 1].map(|node| pair.statistics(node));
    let established = AssociationState::Established;
    assert_eq!((a.state, b.state), (established, established));
}

/// Both ends close, and no timer is left.
fn ends(pair: &mut Pair) {
    let done = pair.run_until(LONG, |pair| pair.closed.iter().all(Option::is_some));
    assert!(done, "not closed: {:?}", pair.closed);
    for node in 0..2 {
        let ids: Vec<_> = pair.net.node(node).endpoint.associations().collect();
        ids.into_iter().for_each(|id| pair.net.node_mut(node).endpoint.remove(id));
    }
    pair.run(LONG);
    assert_eq!(pair.net.next(), None, "something goes on for ever");
}

fn graceful(pair: &Pair) {
    assert_eq!(pair.closed, [Some(CloseReason::Shutdown), Some(CloseReason::Shutdown)]);
}

/// Both ends connect to each other at the same time.
fn collide(paths: u8) {
    all_fates(|begin| {
        let mut pair = Pair::new(paths, config());
        let listening = pair.net.node_mut(0).endpoint.listen(CLIENT, Arc::new(config()));
        listening.expect("a free port");
        begin(&mut pair);
        connect(&mut pair, 0);
        connect(&mut pair, 1);
        works(&mut pair);
        agreed(&pair);
        for node in 0..2 {
            assert!(
                !pair.events[node].iter().any(|event| matches!(
                    event,
                    Event::Notification(Notification::Restarted { .. })
                ))
            );
        }
        pair.shutdown(1);
        ends(&mut pair);
        graceful(&pair);
    });
}

/// One end closes while data is on its way in both directions.
fn shut_down_with_data(packets: u32, paths: u8, dead: &Dead) {
    all_fates_of(packets, |begin| {
        let mut pair = up(paths);
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

/// Both ends close at the same time.
fn shut_down_both(packets: u32, paths: u8, dead: &Dead) {
    all_fates_of(packets, |begin| {
        let mut pair = up(paths);
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

/// One end closes and the other aborts; `known` says how the first one may have ended.
fn shut_down_and_abort(packets: u32, paths: u8, dead: &Dead, known: impl Fn(&CloseReason) -> bool) {
    all_fates_of(packets, |begin| {
        let mut pair = up(paths);
        begin(&mut pair);
        kill(&mut pair, dead);
        pair.shutdown(0);
        pair.run(Duration::from_millis(15));
        pair.abort(1);
        ends(&mut pair);
        let first = pair.closed[0].as_ref();
        assert!(first.is_some_and(&known), "{first:?}");
    });
}

#[test]
fn handshake() {
    all_fates(|begin| {
        let mut pair = Pair::new(1, config());
        begin(&mut pair);
        connect(&mut pair, 0);
        works(&mut pair);
        pair.shutdown(0);
        ends(&mut pair);
        graceful(&pair);
    });
}

#[test]
fn handshake_with_data_bundled() {
    all_fates(|begin| {
        let mut pair = Pair::new(1, config());
        begin(&mut pair);
        connect(&mut pair, 0);
        assert!(pair.send(0, 0, &b"early"[..]));
        assert!(pair.run_until(LONG, |pair| !pair.received[1].is_empty()));
        assert_eq!(pair.received_bytes(1), b"early");
        works(&mut pair);
        assert_eq!(pair.received[1].len() + pair.received[0].len(), 2, "nothing comes twice");
    });
}

#[test]
fn collision() {
    collide(1);
}

#[test]
fn restart_with_data_pending_on_both_sides() {
    all_fates(|begin| {
        let mut pair = up(1);
        begin(&mut pair);
        assert!(pair.send(0, 0, vec![8; 2000]) && pair.send(1, 0, vec![9; 2000]));
        let config = anabranch_proto::EndpointConfig::default();
        pair.net.reboot(0, config, [77; 32]);
        connect(&mut pair, 0);
        // The server's association either restarts, or the peer, which no longer knows it, answers
        // its packets with ABORT; then another one replaces it.
        let news = pair.run_until(LONG, |pair| {
            pair.events[1]
                .iter()
                .any(|event| matches!(event, Event::Notification(Notification::Restarted { .. })))
                || pair.closed[1].is_some()
        });
        assert!(news, "the server never noticed");
        if !pair.run_until(LONG, |pair| pair.both_up()) {
            // The ABORT may have ended the client's attempt instead.
            assert!(pair.closed[0].is_some(), "the client is neither up nor closed");
            connect(&mut pair, 0);
        }
        works(&mut pair);
        pair.shutdown(0);
        ends(&mut pair);
        graceful(&pair);
    });
}

#[test]
fn shutdown_of_an_idle_association() {
    all_fates(|begin| {
        let mut pair = up(1);
        begin(&mut pair);
        pair.shutdown(0);
        ends(&mut pair);
        graceful(&pair);
    });
}

#[test]
fn shutdown_with_data_pending_on_both_sides() {
    shut_down_with_data(PACKETS, 1, &[]);
}

#[test]
fn shutdown_from_both_sides() {
    shut_down_both(PACKETS, 1, &[]);
}

#[test]
fn shutdown_meets_abort() {
    shut_down_and_abort(PACKETS, 1, &[], |reason| {
        matches!(reason, CloseReason::Shutdown | CloseReason::PeerAbort { .. })
    });
}
