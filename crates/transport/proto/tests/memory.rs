//! The memory limit for the buffers of all associations of an endpoint.

use std::time::Duration;

use anabranch_harness::Pair;
use anabranch_proto::{
    AssociationConfig, AssociationId, EndpointConfig, Event, OutgoingMessage, Ppid, SendErrorReason,
};

const LONG: Duration = Duration::from_secs(600);
const LIMIT: usize = 200_000;

/// Memory that a batch of packets may add, and the reserves of two associations.
const SLACK: usize = 65_536;

fn config() -> AssociationConfig {
    let mut config = AssociationConfig::default();
    config.timers.heartbeat_interval = None;
    config
}

/// A pair; this node has the limit.
fn limited(node: usize) -> Pair {
    let mut configs = [EndpointConfig::default(), EndpointConfig::default()];
    configs[node].memory_limit = LIMIT;
    Pair::with([0, 1].map(|node| anabranch_harness::addresses(node, 1)), configs, config())
}

/// Sets up another association; returns the ids at both ends.
fn connect(pair: &mut Pair) -> [Option<AssociationId>; 2] {
    pair.id[1] = None;
    pair.connect(config());
    assert!(pair.run_until(LONG, |pair| pair.both_up()));
    pair.id
}

fn used(pair: &Pair, node: usize) -> usize {
    pair.net.node(node).endpoint.memory_used()
}

fn body(association: u8, message: u8) -> Vec<u8> {
    (0..10_000_u32).map(|i| association ^ message ^ (i % 241) as u8).collect()
}

#[test]
fn windows_close_for_all_and_nothing_received_is_lost() {
    let mut pair = limited(1);
    let ids = [connect(&mut pair), connect(&mut pair)];
    pair.reads[1] = false;
    for (name, id) in (0..).zip(ids) {
        pair.id = id;
        assert!((0..40).all(|message| pair.send(0, 0, body(name, message))));
    }
    pair.run(Duration::from_secs(30));
    let most = used(&pair, 1);
    assert!((LIMIT / 2..=LIMIT + SLACK).contains(&most), "{most}");
    for id in ids {
        pair.id = id;
        assert!(pair.both_up(), "closed windows are no reason to give up");
        assert!(pair.statistics(0).outstanding_bytes + pair.statistics(0).send_queue_bytes > 0);
    }
    // One end reads; the memory that it releases serves both.
    pair.reads[1] = true;
    for (name, id) in (0..).zip(ids) {
        pair.id = id;
        pair.received[1].clear();
        let all = pair.run_until(LONG, |pair| pair.received_len(1) >= 400_000);
        assert!(all, "association {name}: {} bytes", pair.received_len(1));
        let expected: Vec<u8> = (0..40).flat_map(|message| body(name, message)).collect();
        assert!(pair.received_bytes(1) == expected);
    }
    pair.run(Duration::from_secs(1));
    assert_eq!(used(&pair, 1), 0);
}

/// One association uses all available memory; the next one begins with its floor, and continues with the
/// floor for as long as that lasts.
#[test]
fn whoever_comes_has_a_floor() {
    let mut pair = limited(1);
    let first = connect(&mut pair);
    pair.reads[1] = false;
    for _ in 0..30 {
        pair.send(0, 0, body(1, 1));
        pair.run(Duration::from_secs(1));
    }
    let most = used(&pair, 1);
    assert!((LIMIT / 8 * 7 - 15_000..=LIMIT / 8 * 7 + 4096).contains(&most), "{most}");
    let second = connect(&mut pair);
    pair.reads[1] = true;
    assert!((0..40).all(|message| pair.send(0, 0, body(2, message))));
    // Do not read the full ones.
    let mut held = Vec::new();
    assert!(pair.run_until(LONG, |pair| {
        held.push(used(pair, 1));
        pair.received_len(1) >= 400_000
    }));
    assert!(held.iter().all(|held| *held <= LIMIT), "{held:?}");
    assert_eq!(pair.id, second);
    pair.id = first;
    assert!(pair.both_up());
}

#[test]
fn sends_are_refused_until_there_is_memory() {
    let mut pair = limited(0);
    let ids = [connect(&mut pair), connect(&mut pair)];
    pair.reads[1] = false;
    let mut sent = [0; 2];
    for (index, id) in ids.into_iter().enumerate() {
        pair.id = id;
        while pair.send(0, 0, body(0, 0)) {
            sent[index] += 1;
        }
    }
    // The second one has its floor, a sixteenth of the limit, and that is one message.
    assert!(used(&pair, 0) <= LIMIT && sent[0] > 10 && sent[1] == 1, "{sent:?}");
    assert!(pair.association(0).unwrap().send_buffer_free() < 10_000);
    let now = pair.net.now();
    let message = OutgoingMessage::new(0, Ppid(0), vec![0; LIMIT + 1]);
    let refused = pair.association_mut(0).send(now, message).unwrap_err();
    assert_eq!(refused.reason, SendErrorReason::TooLong, "it would never fit");
    // The association that has not sent anything is notified when the other one releases memory.
    pair.events[0].clear();
    let writable = |event: &Event| matches!(event, Event::Writable);
    let told = pair.run_until(LONG, |pair| pair.events[0].iter().any(writable));
    assert!(told);
    pair.run(Duration::from_secs(1));
    assert!(pair.send(0, 0, body(0, 0)));
    // All memory of an association that ends is released.
    for id in ids {
        pair.id = id;
        pair.abort(0);
        pair.run(Duration::from_secs(1));
        pair.net.node_mut(0).endpoint.remove(id[0].unwrap());
    }
    assert_eq!(used(&pair, 0), 0);
}
