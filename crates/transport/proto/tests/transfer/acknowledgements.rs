//! When SACKs are sent, what they report, and SACKs that lie.

use std::time::Duration;

use anabranch_harness::{Pair, Verdict, craft};
use anabranch_proto::{Counters, Instant, OutgoingMessage, Ppid};
use anabranch_wire::{Chunk, Packet, Tsn, kind};
use bytes::Bytes;

use super::{config, sack, tsns};

#[test]
// test: rfc9260 6.2 "The duplicate TSN number(s) SHOULD be reported"
fn duplicates_are_reported_and_not_delivered() {
    let mut pair = Pair::connected(1, config());
    pair.forget();
    pair.net.script(|sight| match sight.has(kind::DATA) {
        true => Verdict::Duplicate,
        false => Verdict::Pass,
    });
    assert!(pair.send(0, 0, &b"once"[..]));
    pair.run(Duration::from_secs(1));
    assert_eq!(pair.received_bytes(1), b"once");
    let duplicates: Vec<u32> =
        pair.sent(1).iter().filter_map(|(_, bytes)| sack(bytes)).flat_map(|s| s.1).collect();
    assert_eq!(duplicates.len(), 1);
    assert_eq!(pair.statistics(1).counters.duplicate_chunks, 1);
}

#[test]
// test: rfc9260 6.2 "acknowledgement SHOULD be generated for at least every"
// test: rfc9260 6.2 "SHOULD be generated within 200 ms"
fn acknowledgements_are_delayed() {
    let mut pair = Pair::connected(1, config());
    // The very first data is acknowledged immediately.
    assert!(pair.send(0, 0, &b"first"[..]));
    pair.run(Duration::from_secs(1));
    pair.forget();
    assert!(pair.send(0, 0, &b"alone"[..]));
    let begun = pair.net.now();
    pair.run(Duration::from_secs(1));
    let acks = |pair: &Pair| -> Vec<Duration> {
        let sent = pair.sent(1);
        let acks = sent.iter().filter(|(_, bytes)| sack(bytes).is_some());
        acks.map(|(at, _)| at.saturating_since(begun)).collect()
    };
    assert_eq!(acks(&pair), [Pair::DELAY + Duration::from_millis(200)]);
    // test: rfc9260 6.2 "SHOULD NOT delay the sending of the corresponding"
    pair.forget();
    let begun = pair.net.now();
    let now = begun;
    let mut urgent = OutgoingMessage::new(0, Ppid(0), "now");
    urgent.sack_immediately = true;
    pair.association_mut(0).send(now, urgent).unwrap();
    pair.run(Duration::from_secs(1));
    let sent = pair.sent(1);
    assert_eq!(sent[0].0.saturating_since(begun), Pair::DELAY);
}

#[test]
// test: rfc9260 6.1 "sender SHOULD create a SACK chunk and bundle it"
fn acknowledgements_travel_with_data() {
    let mut pair = Pair::connected(1, config());
    assert!(pair.send(0, 0, &b"ping"[..]));
    pair.run(Duration::from_millis(500));
    pair.forget();
    assert!(pair.send(0, 0, &b"ping"[..]));
    pair.run(Duration::from_millis(15));
    assert!(pair.send(1, 0, &b"pong"[..]));
    pair.run(Duration::from_millis(1));
    assert_eq!(craft::kinds(&pair.sent(1)[0].1), [kind::SACK, kind::DATA]);
    pair.run(Duration::from_secs(1));
    assert_eq!(pair.sent(1).len(), 1);
}

#[test]
fn sacks_that_lie_are_survived() {
    let mut pair = Pair::connected(1, config());
    assert!(pair.send(0, 0, vec![1; 3000]));
    pair.net.settle();
    let header = pair.header(1);
    let last = *pair.sent(0).iter().flat_map(|(_, b)| tsns(b)).collect::<Vec<_>>().last().unwrap();
    let base = last.wrapping_sub(10);
    let lie = |gaps: &[(u16, u16)], cumulative: u32| {
        let gaps: Vec<_> = gaps
            .iter()
            .map(|(start, end)| anabranch_wire::GapBlock { start: *start, end: *end })
            .collect();
        craft::packet(header, |packet| packet.sack(Tsn(cumulative), 1_000_000, &gaps, &[]))
    };
    // Blocks upside down, empty, and SACKs from the past: no news.
    for packet in [lie(&[(5, 2)], base), lie(&[(0, 1)], base), lie(&[], base.wrapping_sub(1 << 20))]
    {
        pair.inject(0, packet);
        assert_eq!(pair.closed[0], None);
    }
    pair.run(Duration::from_secs(5));
    assert_eq!(pair.received_len(1), 3000);
    // Data that was never sent cannot have arrived.
    pair.inject(0, lie(&[], last.wrapping_add(1000)));
    assert!(pair.closed[0].is_some());
}

/// Chunks other than DATA in packets, and the gap ack blocks in SACKs among them.
fn control(packets: &[(Instant, Bytes)]) -> (u64, u64) {
    let (mut chunks, mut blocks) = (0, 0);
    for (_, bytes) in packets {
        let packet = Packet::parse(bytes).unwrap();
        for raw in packet.chunks().map(Result::unwrap) {
            chunks += u64::from(raw.kind != kind::DATA);
            if let Ok(Chunk::Sack(sack)) = raw.decode() {
                blocks += sack.gap_blocks.len() as u64;
            }
        }
    }
    (chunks, blocks)
}

#[test]
fn control_chunks_and_gaps_are_counted_as_they_are_on_the_wire() {
    let mut config = config();
    config.timers.heartbeat_interval = Some(Duration::from_secs(10));
    let mut pair = Pair::connected(2, config);
    pair.forget();
    let before = [0, 1].map(|node| pair.statistics(node).counters);
    let mut lost = false;
    pair.net.script(move |sight| {
        match sight.has(kind::DATA) && !std::mem::replace(&mut lost, true) {
            true => Verdict::Drop,
            false => Verdict::Pass,
        }
    });
    for _ in 0..4 {
        assert!(pair.send(0, 0, vec![1; 1000]));
    }
    // Heartbeats and their answers, too.
    pair.run(Duration::from_secs(100));
    assert_eq!(pair.received_len(1), 4000);
    let (sent, answered) = (control(&pair.sent(0)), control(&pair.sent(1)));
    let after = [0, 1].map(|node| pair.statistics(node).counters);
    assert!(sent.0 >= 4 && answered.0 >= 8 && answered.1 >= 1, "{sent:?} {answered:?}");
    let grown = |node: usize, of: fn(&Counters) -> u64| of(&after[node]) - of(&before[node]);
    for (node, sent, received) in [(0, sent, answered), (1, answered, sent)] {
        assert_eq!(grown(node, |counters| counters.control_chunks_sent), sent.0);
        assert_eq!(grown(node, |counters| counters.control_chunks_received), received.0);
        assert_eq!(grown(node, |counters| counters.gap_blocks_received), received.1);
    }
    assert_eq!(grown(1, |counters| counters.out_of_sequence_chunks), 3);
    assert_eq!(grown(0, |counters| counters.out_of_sequence_chunks), 0);
}
