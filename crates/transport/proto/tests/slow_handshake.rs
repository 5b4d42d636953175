//! Handshakes that take longer than RTO.Initial, and the first data after them.

use std::time::Duration;

use anabranch_harness::{Pair, Verdict};
use anabranch_impair::LinkConfig;
use anabranch_proto::{AssociationConfig, Statistics};
use anabranch_wire::kind;

const SECOND: Duration = Duration::from_secs(1);

fn config(slow: Option<Duration>) -> AssociationConfig {
    let mut config = AssociationConfig::rfc9260();
    config.timers.rto_slow_handshake = slow;
    config.timers.heartbeat_interval = None;
    config.mtu.discovery = false;
    config
}

/// Both ends of an association over a round trip of 1.2 s have sent a message each.
fn far(slow: Option<Duration>) -> [Statistics; 2] {
    let mut pair = Pair::new(1, config(slow));
    pair.net.set_links(LinkConfig::new().delay(Duration::from_millis(600)));
    pair.connect(config(slow));
    assert!(pair.run_until(20 * SECOND, |pair| pair.both_up()));
    for node in 0..2 {
        assert!(pair.send(node, 0, vec![1; 1000]));
    }
    pair.run(20 * SECOND);
    assert_eq!([0, 1].map(|node| pair.received_len(node)), [1000; 2]);
    [0, 1].map(|node| pair.statistics(node))
}

#[test]
fn what_follows_a_slow_handshake_is_not_sent_twice() {
    let timeouts = |slow| far(slow).map(|end| end.counters.timeouts);
    // RFC 9260 to the letter: RTO.Initial, which is less than the round trip.
    assert_eq!(timeouts(None), [1, 1]);
    assert_eq!(timeouts(Some(3 * SECOND)), [0, 0]);
    // From then on, measurements count.
    for end in far(Some(3 * SECOND)) {
        let path = &end.paths[0];
        assert_eq!(path.srtt, Some(Duration::from_millis(1200)));
        assert!(path.rto > path.srtt.unwrap(), "{:?}", path.rto);
    }
}

#[test]
fn the_second_step_of_a_slow_handshake_is_not_repeated() {
    let repeated = |slow| far(slow)[0].counters.handshake_retransmissions;
    assert_eq!(repeated(None), 2);
    assert_eq!(repeated(Some(3 * SECOND)), 1);
}

/// RTO of the server and of the client after a handshake over 20 ms in which the first chunk of this kind is lost.
fn after_the_loss_of(lost: u8, slow: Duration) -> [Duration; 2] {
    let mut pair = Pair::new(1, config(Some(slow)));
    let mut gone = false;
    pair.net.script(move |sight| {
        let drop = sight.has(lost) && !std::mem::replace(&mut gone, true);
        if drop { Verdict::Drop } else { Verdict::Pass }
    });
    pair.connect(config(Some(slow)));
    assert!(pair.run_until(20 * SECOND, |pair| pair.both_up()));
    [1, 0].map(|node| pair.statistics(node).paths[0].rto)
}

#[test]
fn a_loss_in_the_handshake_of_a_short_path_costs_until_the_first_measurement() {
    // The COOKIE ECHO has measured the path since: RTO.Min. The server has a new cookie, which is young.
    assert_eq!(after_the_loss_of(kind::INIT, 3 * SECOND), [SECOND, SECOND]);
    // It is unknown which of the two the answer is for.
    assert_eq!(after_the_loss_of(kind::COOKIE_ECHO, 3 * SECOND), [3 * SECOND, 3 * SECOND]);
}

#[test]
fn the_rto_of_a_slow_handshake_keeps_within_its_bounds() {
    for (slow, rto) in [(SECOND / 2, SECOND), (120 * SECOND, 60 * SECOND)] {
        assert_eq!(after_the_loss_of(kind::COOKIE_ECHO, slow), [rto; 2], "{slow:?}");
    }
}
