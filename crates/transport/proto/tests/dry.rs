//! A user that asks for it is notified when all data is acknowledged (RFC 6458 section 6.1.9).

use std::time::Duration;

use anabranch_harness::Pair;
use anabranch_proto::{AssociationConfig, Event, Notification};

fn times(pair: &Pair) -> usize {
    pair.events[0]
        .iter()
        .filter(|event| matches!(event, Event::Notification(Notification::SenderDry)))
        .count()
}

#[test]
fn the_end_of_the_data_is_told_once_and_to_those_who_want_to_know() {
    let mut pair = Pair::connected(1, AssociationConfig::default());
    assert!(pair.send(0, 0, "nobody asks"));
    pair.run(Duration::from_secs(2));
    assert_eq!(times(&pair), 0);
    assert!(pair.association_mut(0).tell_when_dry(true), "what is so is no event");
    pair.run(Duration::from_secs(2));
    assert_eq!(times(&pair), 0);
    for told in 1..4 {
        assert!(pair.send(0, 0, vec![7; 5000]) && pair.send(0, 1, "more"));
        assert_eq!(times(&pair), told - 1);
        assert!(pair.run_until(Duration::from_secs(2), |pair| times(pair) == told));
        assert_eq!(pair.association(0).unwrap().pending_bytes(), 0);
        pair.run(Duration::from_secs(2));
        assert_eq!(times(&pair), told);
    }
    assert!(pair.send(0, 0, "not wanted any more"));
    assert!(!pair.association_mut(0).tell_when_dry(false));
    pair.run(Duration::from_secs(2));
    assert_eq!(times(&pair), 3);
}

#[test]
fn what_comes_back_at_the_end_is_not_the_end_of_the_data() {
    let mut pair = Pair::connected(1, AssociationConfig::default());
    pair.association_mut(0).tell_when_dry(true);
    pair.set_up(0, false);
    assert!(pair.send(0, 0, "lost"));
    pair.abort(0);
    pair.run(Duration::from_secs(1));
    assert_eq!(times(&pair), 0);
    let back =
        |event: &Event| matches!(event, Event::Notification(Notification::SendFailed { .. }));
    assert!(pair.events[0].iter().any(back), "{:?}", pair.events[0]);
}
