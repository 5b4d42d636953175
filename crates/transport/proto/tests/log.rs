//! The log of an endpoint, and what it does not report.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use anabranch_harness::{Pair, Verdict};
use anabranch_proto::{
    Association, AssociationConfig, AssociationId, Decision, Event, Instant, Log, LoggedPacket,
};
use anabranch_wire::kind;

/// Counts chunks that were lost.
#[derive(Clone, Debug, Default)]
struct Losses(Arc<Mutex<usize>>);

impl Losses {
    fn count(&self) -> usize {
        *self.0.lock().unwrap()
    }
}

impl Log for Losses {
    fn packet(&mut self, _: Instant, _: AssociationId, _: &LoggedPacket<'_>) {}

    fn changed(&mut self, _: Instant, _: AssociationId, _: &Association, decisions: &[Decision]) {
        let lost = decisions.iter().filter(|decision| matches!(decision, Decision::Lost { .. }));
        *self.0.lock().unwrap() += lost.count();
    }

    fn event(&mut self, _: Instant, _: AssociationId, _: &Association, _: &Event) {}

    fn removed(&mut self, _: Instant, _: AssociationId, _: &Association) {}
}

/// Sends ten packets; the second is lost.
fn lose_one(pair: &mut Pair) {
    let mut seen = 0;
    pair.net.script(move |sight| {
        seen += usize::from(sight.node == 0 && sight.has(kind::DATA));
        if seen == 2 { Verdict::Drop } else { Verdict::Pass }
    });
    let all = pair.received_len(1) + 14_000;
    assert!(pair.send(0, 0, vec![1; 14_000]));
    let came = |pair: &mut Pair| pair.received_len(1) == all;
    assert!(pair.run_until(Duration::from_secs(60), came));
    pair.net.end_script();
    pair.run(Duration::from_secs(1));
}

#[test]
fn what_happens_while_there_is_no_log_is_not_kept_for_the_next() {
    let mut pair = Pair::connected(1, AssociationConfig::default());
    let losses = Losses::default();
    pair.net.node_mut(0).endpoint.set_log(Box::new(losses.clone()));
    lose_one(&mut pair);
    let first = losses.count();
    assert!(first > 0);
    assert!(pair.net.node_mut(0).endpoint.take_log().is_some());
    lose_one(&mut pair);
    assert_eq!(losses.count(), first);
    pair.net.node_mut(0).endpoint.set_log(Box::new(losses.clone()));
    assert!(pair.send(0, 0, vec![1; 100]));
    pair.run(Duration::from_secs(1));
    assert_eq!(losses.count(), first, "what was lost without a log");
}
