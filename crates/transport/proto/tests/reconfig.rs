//! Stream reconfiguration (RFC 6525): streams that are reset and added while the association is up.

use std::time::Duration;

use anabranch_harness::{Pair, Verdict, craft};
use anabranch_impair::LinkConfig;
use anabranch_proto::ReconfigurationResult::{Denied, Failed, Performed};
use anabranch_proto::byte_mode::{self, Ledger, Mark};
use anabranch_proto::{
    AssociationConfig, CloseReason, Event, Notification, OutgoingMessage, Ppid,
    ReconfigurationError, ReconfigurationResult, Reliability, StreamDirection,
};
use anabranch_wire::{Chunk, List, Parameter, Parameters, ReConfig, Tsn, kind};

const LONG: Duration = Duration::from_secs(100);

fn config() -> AssociationConfig {
    AssociationConfig::rfc9260().with(|config| {
        config.sending.stream_reconfiguration = true;
        config.sending.outbound_streams = 10;
        config.receiving.inbound_streams = 20;
        config.receiving.accept_association_resets = true;
    })
}

fn pair() -> Pair {
    Pair::connected(1, config())
}

/// A pair whose network loses this share of the packets, in percent.
fn lossy(percent: u64, seed: u64) -> Pair {
    let mut pair = pair();
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    pair.net.script(move |_| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        if (state >> 33) % 100 < percent { Verdict::Drop } else { Verdict::Pass }
    });
    pair
}

fn reset(
    pair: &mut Pair,
    node: usize,
    direction: StreamDirection,
    streams: &[u16],
) -> Result<(), ReconfigurationError> {
    let now = pair.net.now();
    pair.association_mut(node).reset_streams(now, direction, streams)
}

fn add(
    pair: &mut Pair,
    node: usize,
    outgoing: u16,
    incoming: u16,
) -> Result<(), ReconfigurationError> {
    let now = pair.net.now();
    pair.association_mut(node).add_streams(now, outgoing, incoming)
}

/// Resets that a node heard of.
fn resets(pair: &Pair, node: usize) -> Vec<(bool, Vec<u16>, ReconfigurationResult)> {
    let events = pair.events[node].iter();
    let resets = events.filter_map(|event| match event {
        Event::Notification(Notification::StreamsReset { outgoing, streams, result }) => {
            Some((*outgoing, streams.to_vec(), *result))
        }
        _ => None,
    });
    resets.collect()
}

/// Numbers of streams, outgoing and incoming, that a node heard of.
fn added(pair: &Pair, node: usize) -> Vec<(u16, u16, ReconfigurationResult)> {
    let events = pair.events[node].iter();
    let added = events.filter_map(|event| match event {
        Event::Notification(Notification::StreamsAdded {
            outbound_streams,
            inbound_streams,
            result,
        }) => Some((*outbound_streams, *inbound_streams, *result)),
        _ => None,
    });
    added.collect()
}

/// New TSNs that a node heard of: its own and the peer's.
fn tsn_resets(pair: &Pair, node: usize) -> Vec<(u32, u32, ReconfigurationResult)> {
    let events = pair.events[node].iter();
    let resets = events.filter_map(|event| match event {
        Event::Notification(Notification::AssociationReset { local_tsn, remote_tsn, result }) => {
            Some((*local_tsn, *remote_tsn, *result))
        }
        _ => None,
    });
    resets.collect()
}

/// SSNs of the messages that a node received on a stream.
fn ssns(pair: &Pair, node: usize, stream: u16) -> Vec<u32> {
    let of_stream = pair.received[node].iter().filter(|message| message.stream == stream);
    of_stream.map(|message| message.sequence).collect()
}

fn text(pair: &Pair, node: usize) -> String {
    String::from_utf8(pair.received_bytes(node)).unwrap()
}

/// Passes requests to a node as if its peer had sent them, and returns the answers with a RE-CONFIG.
fn request(pair: &mut Pair, to: usize, parameters: &[Parameter<'_>]) -> Vec<String> {
    let mut value = Vec::new();
    parameters.iter().for_each(|parameter| parameter.encode(&mut value));
    let chunk = Chunk::ReConfig(ReConfig { parameters: Parameters::new(&value) });
    let packet = craft::packet(pair.header(1 - to), |packet| packet.chunk(&chunk));
    let answers = pair.answers(to, packet);
    let mut shown = Vec::new();
    for answer in &answers {
        let packet = anabranch_wire::Packet::parse(answer).unwrap();
        for chunk in packet.chunks().map_while(Result::ok) {
            if matches!(chunk.kind, kind::RE_CONFIG | kind::ERROR | kind::ABORT) {
                shown.push(chunk.decode().unwrap().to_string());
            }
        }
    }
    shown
}

/// The number of the next request to a node, and the last TSN of the peer.
fn numbers(pair: &Pair, to: usize) -> (u32, Tsn) {
    let last = pair.association(to).unwrap().cumulative_tsn();
    (last.wrapping_add(1), Tsn(last))
}

#[test]
// test: rfc6525 5.2.7 "streams MUST now be reset and all queued data should now be"
fn an_outgoing_stream_begins_with_0_again() {
    let mut pair = pair();
    for text in ["a", "b", "c"] {
        assert!(pair.send(0, 3, text) && pair.send(0, 4, text));
    }
    assert_eq!(reset(&mut pair, 0, StreamDirection::Outgoing, &[3]), Ok(()));
    assert!(pair.send(0, 3, "d") && pair.send(0, 4, "d"));
    pair.run(Duration::from_secs(1));
    assert_eq!(ssns(&pair, 1, 3), [0, 1, 2, 0]);
    assert_eq!(ssns(&pair, 1, 4), [0, 1, 2, 3]);
    assert_eq!(resets(&pair, 0), [(true, vec![3], Performed)]);
    assert_eq!(resets(&pair, 1), [(false, vec![3], Performed)]);
    let counters = pair.statistics(0).counters;
    assert_eq!((counters.reconfigurations_sent, counters.reconfigurations_received), (1, 1));
    assert_eq!(counters.reconfiguration_timeouts, 0);
}

#[test]
fn all_streams_of_both_directions_in_three_packets() {
    let mut pair = pair();
    assert!(pair.send(0, 3, "a") && pair.send(1, 4, "b"));
    pair.run(Duration::from_secs(1));
    pair.forget();
    assert_eq!(reset(&mut pair, 0, StreamDirection::Both, &[]), Ok(()));
    pair.run(Duration::from_secs(1));
    assert_eq!((pair.count(0, kind::RE_CONFIG), pair.count(1, kind::RE_CONFIG)), (2, 1));
    assert!(pair.send(0, 3, "c") && pair.send(1, 4, "d"));
    pair.run(Duration::from_secs(1));
    assert_eq!((ssns(&pair, 1, 3), ssns(&pair, 0, 4)), (vec![0, 0], vec![0, 0]));
    for node in [0, 1] {
        let mut heard = resets(&pair, node);
        heard.sort_by_key(|(outgoing, ..)| *outgoing);
        assert_eq!(heard, [(false, vec![], Performed), (true, vec![], Performed)]);
    }
}

#[test]
fn incoming_streams_are_reset_by_the_peer() {
    let mut pair = pair();
    assert!(pair.send(1, 4, "a") && pair.send(1, 5, "b"));
    pair.run(Duration::from_secs(1));
    assert_eq!(reset(&mut pair, 0, StreamDirection::Incoming, &[4, 4]), Ok(()));
    pair.run(Duration::from_secs(1));
    assert!(pair.send(1, 4, "c") && pair.send(1, 5, "d"));
    pair.run(Duration::from_secs(1));
    assert_eq!((ssns(&pair, 0, 4), ssns(&pair, 0, 5)), (vec![0, 0], vec![0, 1]));
    assert_eq!(resets(&pair, 0), [(false, vec![4], Performed)]);
    assert_eq!(resets(&pair, 1), [(true, vec![4], Performed)]);
}

/// What the peer has in its queue is sent before it resets.
#[test]
fn the_peer_answers_that_its_reset_is_in_progress() {
    let mut pair = pair();
    pair.net.set_links(LinkConfig::new().delay(Pair::DELAY).rate(200_000));
    assert!(pair.send(1, 4, vec![7; 100_000]));
    assert_eq!(reset(&mut pair, 0, StreamDirection::Incoming, &[4]), Ok(()));
    pair.run(Duration::from_millis(500));
    assert_eq!(resets(&pair, 0), []);
    assert!(pair.send(1, 4, "later"));
    assert!(pair.run_until(LONG, |pair| !resets(pair, 0).is_empty()));
    assert!(pair.run_until(LONG, |pair| pair.received_len(0) == 100_005));
    assert_eq!(ssns(&pair, 0, 4), [0, 0]);
    assert_eq!(pair.association(0).unwrap().statistics().counters.timeouts, 0);
}

#[test]
// test: rfc6525 5.1.1 "exponential backoff, doubling the value at every expiration"
fn any_loss_of_data_and_of_requests() {
    for seed in 1..40 {
        let mut pair = lossy(30, seed);
        let mut sent: Vec<u32> = Vec::new();
        for round in 0..4 {
            for _ in 0..5 {
                assert!(pair.send(0, 1, "x") && pair.send(1, 1, "y"));
            }
            sent.extend(0..5);
            assert_eq!(reset(&mut pair, 0, StreamDirection::Both, &[1]), Ok(()), "seed {seed}");
            let done = pair.run_until(Duration::from_secs(900), |pair| {
                let all = [0, 1].map(|node| resets(pair, node).len() >= 2 * (round + 1));
                all == [true, true] || pair.closed.iter().any(Option::is_some)
            });
            assert!(
                done,
                "seed {seed}, round {round}: {:?} {:?}",
                resets(&pair, 0),
                resets(&pair, 1)
            );
            if pair.closed.iter().any(Option::is_some) {
                break;
            }
        }
        if pair.closed.iter().any(Option::is_some) {
            // So much loss may look like the end of the peer.
            assert!(
                pair.closed.iter().flatten().all(|why| matches!(why, CloseReason::Unreachable)),
                "{:?}",
                pair.closed
            );
            continue;
        }
        assert_eq!(ssns(&pair, 1, 1), sent, "seed {seed}");
        assert_eq!(ssns(&pair, 0, 1), sent, "seed {seed}");
    }
}

#[test]
// test: rfc6525 5.1.2 "The sender MUST stop assigning new SSNs to new user data"
fn messages_wait_for_the_answer_and_keep_their_order() {
    let mut pair = pair();
    assert!(pair.send(0, 1, "a"));
    assert_eq!(reset(&mut pair, 0, StreamDirection::Outgoing, &[1]), Ok(()));
    pair.net.script(move |sight| {
        if sight.node == 1 && sight.has(kind::RE_CONFIG) { Verdict::Drop } else { Verdict::Pass }
    });
    for text in ["b", "c", "d"] {
        assert!(pair.send(0, 1, text));
    }
    assert!(pair.send(0, 2, "other"));
    pair.run(Duration::from_millis(500));
    assert_eq!(text(&pair, 1), "aother");
    assert_eq!(pair.association(0).unwrap().pending_bytes(), 3);
    pair.net.script(|_| Verdict::Pass);
    assert!(pair.run_until(LONG, |pair| text(pair, 1) == "aotherbcd"));
    assert_eq!(ssns(&pair, 1, 1), [0, 0, 1, 2]);
    assert_eq!(resets(&pair, 1).len(), 1, "done once");
}

#[test]
// test: rfc6525 5.2.2 "the endpoint MUST enter"
fn a_reset_waits_for_lost_data_and_its_answer_comes_by_itself() {
    let mut pair = pair();
    assert!(pair.send(0, 1, "a"));
    pair.run(Duration::from_secs(1));
    let mut lost = 0;
    pair.net.script(move |sight| {
        let data = sight.node == 0 && sight.has(kind::DATA);
        lost += usize::from(data);
        if data && lost == 1 { Verdict::Drop } else { Verdict::Pass }
    });
    assert!(pair.send(0, 2, "lost"));
    // Nothing of stream 1 is outstanding, but the peer has not got all TSNs.
    assert_eq!(reset(&mut pair, 0, StreamDirection::Outgoing, &[1]), Ok(()));
    assert!(pair.send(0, 1, "b"));
    pair.run(Duration::from_secs(10));
    assert_eq!(ssns(&pair, 1, 1), [0, 0]);
    assert_eq!(resets(&pair, 0), [(true, vec![1], Performed)]);
    assert!(pair.both_up());
}

#[test]
fn the_peer_may_refuse() {
    let refuses = config().with(|config| {
        config.receiving.accept_stream_resets = false;
        config.receiving.accept_association_resets = false;
        config.receiving.accept_added_streams = false;
    });
    let mut pair = Pair::connected(1, refuses);
    assert!(pair.send(0, 1, "a") && pair.send(1, 1, "z"));
    assert_eq!(reset(&mut pair, 0, StreamDirection::Outgoing, &[1]), Ok(()));
    assert!(pair.send(0, 1, "b"));
    pair.run(Duration::from_secs(1));
    assert_eq!(reset(&mut pair, 0, StreamDirection::Incoming, &[1]), Ok(()));
    pair.run(Duration::from_secs(1));
    let expected = [(true, vec![1], Denied), (false, vec![1], Denied)];
    assert_eq!(resets(&pair, 0), expected);
    assert_eq!(ssns(&pair, 1, 1), [0, 1], "as if nothing had been asked");
    assert_eq!(add(&mut pair, 0, 1, 1), Ok(()));
    pair.run(Duration::from_secs(1));
    assert_eq!(added(&pair, 0), [(10, 10, Denied), (10, 10, Denied)]);
    let now = pair.net.now();
    assert_eq!(pair.association_mut(0).reset_association(now), Ok(()));
    assert!(pair.send(0, 1, "c"));
    pair.run(Duration::from_secs(1));
    assert_eq!(tsn_resets(&pair, 0).len(), 1);
    assert_eq!(tsn_resets(&pair, 0)[0].2, Denied);
    assert_eq!(text(&pair, 1), "abc");
    assert!(
        resets(&pair, 1).is_empty()
            && tsn_resets(&pair, 1).is_empty()
            && added(&pair, 1).is_empty()
    );
}

#[test]
// test: rfc6525 5.1.1 "sender MUST NOT send any re-configuration request to the peer"
fn nothing_is_asked_of_a_peer_that_does_not_support_it() {
    let mut pair = Pair::connected(1, AssociationConfig::rfc9260());
    let none = Err(ReconfigurationError::NotNegotiated);
    assert_eq!(reset(&mut pair, 0, StreamDirection::Outgoing, &[]), none);
    assert_eq!(reset(&mut pair, 0, StreamDirection::Incoming, &[60_000]), none);
    assert_eq!(add(&mut pair, 0, 1, 0), none);
    let now = pair.net.now();
    assert_eq!(pair.association_mut(0).reset_association(now), none);
    pair.shutdown(0);
    pair.run(Duration::from_millis(1));
    assert_eq!(pair.count(0, kind::RE_CONFIG), 0);
}

#[test]
fn requests_that_make_no_sense() {
    let mut pair = pair();
    let missing = Err(ReconfigurationError::NoSuchStream(10));
    assert_eq!(reset(&mut pair, 0, StreamDirection::Outgoing, &[3, 10]), missing);
    assert_eq!(reset(&mut pair, 0, StreamDirection::Both, &[10]), missing);
    assert_eq!(reset(&mut pair, 0, StreamDirection::Outgoing, &[3]), Ok(()));
    let outstanding = Err(ReconfigurationError::Outstanding);
    assert_eq!(reset(&mut pair, 0, StreamDirection::Outgoing, &[2, 3]), outstanding);
    assert_eq!(reset(&mut pair, 0, StreamDirection::Outgoing, &[]), outstanding);
    assert_eq!(reset(&mut pair, 0, StreamDirection::Outgoing, &[2]), Ok(()), "others");
    let now = pair.net.now();
    assert_eq!(pair.association_mut(0).reset_association(now), outstanding);
    let many = Err(ReconfigurationError::TooManyStreams);
    assert_eq!(add(&mut pair, 0, 65_526, 0), many);
    assert_eq!(add(&mut pair, 0, 0, 11), many, "20 are allowed");
    assert_eq!(add(&mut pair, 0, 5, 5), Ok(()));
    assert_eq!(add(&mut pair, 0, 0, 6), many);
    pair.run(Duration::from_secs(1));
    assert_eq!(resets(&pair, 0), [(true, vec![3], Performed), (true, vec![2], Performed)]);
    pair.shutdown(0);
    let closed = Err(ReconfigurationError::Closed);
    assert_eq!(reset(&mut pair, 0, StreamDirection::Outgoing, &[2]), closed);
}

#[test]
// test: rfc6525 5.2.7 "If the request was to add outgoing streams, the endpoint MUST"
// test: rfc6525 5.2.5 "the receiver MUST add the requested number of inbound streams to the"
fn more_streams_in_both_directions() {
    let mut pair = pair();
    assert!(!pair.send(0, 10, "a"));
    assert_eq!(add(&mut pair, 0, 3, 4), Ok(()));
    assert!(!pair.send(0, 10, "a"), "not before the answer");
    pair.run(Duration::from_secs(1));
    let ends = [0, 1].map(|node| pair.association(node).unwrap());
    assert_eq!(
        ends.map(|end| (end.outbound_streams(), end.inbound_streams())),
        [(13, 14), (14, 13)]
    );
    assert!(pair.send(0, 12, "b") && pair.send(1, 13, "c"));
    pair.run(Duration::from_secs(1));
    assert_eq!((text(&pair, 1), text(&pair, 0)), ("b".into(), "c".into()));
    assert_eq!(added(&pair, 0), [(13, 10, Performed), (13, 14, Performed)]);
    assert_eq!(added(&pair, 1), [(10, 13, Performed), (14, 13, Performed)]);
    // The limit of the listener.
    assert_eq!(add(&mut pair, 0, 8, 0), Ok(()));
    pair.run(Duration::from_secs(1));
    assert_eq!(added(&pair, 0).last(), Some(&(13, 14, Denied)));
}

#[test]
// test: rfc6525 5.2.7 "new data MUST be"
// test: rfc6525 5.2.4 "The next expected and outgoing SSNs MUST be reset to 0 for all"
fn all_tsns_are_reset() {
    for seed in 0..20 {
        let mut pair = lossy(if seed == 0 { 0 } else { 20 }, seed);
        for _ in 0..10 {
            assert!(pair.send(0, 1, "x") && pair.send(1, 2, "y"));
        }
        let now = pair.net.now();
        assert_eq!(pair.association_mut(0).reset_association(now), Ok(()));
        assert!(pair.send(0, 1, "z"));
        let done = pair.run_until(Duration::from_secs(900), |pair| !tsn_resets(pair, 0).is_empty());
        assert!(done, "seed {seed}");
        assert_eq!(tsn_resets(&pair, 0)[0].2, Performed);
        let (local, remote, _) = tsn_resets(&pair, 1)[0];
        assert_eq!(tsn_resets(&pair, 0), [(remote, local, Performed)], "both agree");
        let now = pair.net.now();
        let early = pair.association_mut(0).reset_association(now);
        assert_eq!(early, Err(ReconfigurationError::Outstanding));
        assert!(pair.send(1, 2, "z"));
        let done = pair.run_until(Duration::from_secs(900), |pair| {
            text(pair, 1).ends_with('z') && text(pair, 0).ends_with('z')
        });
        assert!(done, "seed {seed}");
        let expected: Vec<u32> = (0..10).chain([0]).collect();
        assert_eq!((ssns(&pair, 1, 1), ssns(&pair, 0, 2)), (expected.clone(), expected));
        assert!(pair.both_up());
        pair.run(Duration::from_secs(100));
        assert_eq!(pair.statistics(0).outstanding_chunks, 0);
    }
}

/// The answer is lost, and what the peer sends after it has numbers that were used before.
#[test]
fn data_from_after_a_reset_comes_before_the_answer() {
    let mut pair = pair();
    for text in ["a", "b", "c"] {
        assert!(pair.send(1, 2, text));
    }
    pair.run(Duration::from_secs(1));
    let mut answers = 0;
    pair.net.script(move |sight| {
        let answer = sight.node == 1 && sight.has(kind::RE_CONFIG);
        answers += usize::from(answer);
        if answer && answers < 4 { Verdict::Drop } else { Verdict::Pass }
    });
    let now = pair.net.now();
    assert_eq!(pair.association_mut(0).reset_association(now), Ok(()));
    pair.run(Duration::from_millis(50));
    assert_eq!(tsn_resets(&pair, 1).len(), 1);
    for text in ["d", "e", "f", "g"] {
        assert!(pair.send(1, 2, text));
        pair.run(Duration::from_millis(10));
    }
    assert!(pair.run_until(LONG, |pair| text(pair, 0) == "abcdefg"), "{}", text(&pair, 0));
    assert_eq!(ssns(&pair, 0, 2), [0, 1, 2, 0, 1, 2, 3]);
    pair.run(Duration::from_secs(100));
    assert!(pair.both_up());
    assert_eq!(pair.statistics(1).outstanding_chunks, 0);
}

/// Nothing shows that the data is from after the reset: the messages are unordered, or the first ones of their stream. The
/// first one of them is lost, and all answers before the fourth.
#[test]
fn data_that_may_be_from_before_a_reset_waits_for_the_answer() {
    for (interleaving, unordered, length) in [false, true].into_iter().flat_map(|interleaving| {
        [(false, 1), (true, 1), (false, 3000), (true, 3000)]
            .map(|(unordered, length)| (interleaving, unordered, length))
    }) {
        let mut pair = Pair::connected(
            1,
            config().with(|config| {
                config.sending.interleaving = interleaving;
                config.acknowledging.nr_sack = true;
            }),
        );
        assert!(pair.send(1, 2, "a"));
        pair.run(Duration::from_secs(1));
        let (mut answers, mut packets) = (0, 0);
        pair.net.script(move |sight| {
            let answer = sight.node == 1 && sight.has(kind::RE_CONFIG);
            let data = sight.node == 1 && (sight.has(kind::DATA) || sight.has(kind::I_DATA));
            answers += usize::from(answer);
            packets += usize::from(data);
            if answer && answers < 4 || data && packets == 1 {
                Verdict::Drop
            } else {
                Verdict::Pass
            }
        });
        let now = pair.net.now();
        assert_eq!(pair.association_mut(0).reset_association(now), Ok(()));
        pair.run(Duration::from_millis(50));
        for letter in ["b", "c", "d", "e"] {
            let now = pair.net.now();
            let mut message = OutgoingMessage::new(3, Ppid(0), letter.repeat(length));
            message.unordered = unordered;
            assert!(pair.association_mut(1).send(now, message).is_ok());
            pair.run(Duration::from_millis(10));
        }
        pair.run(LONG);
        let mut text = text(&pair, 0).into_bytes();
        if unordered {
            text.sort_unstable();
        }
        let case = (interleaving, unordered, length);
        let expected = ["b", "c", "d", "e"].map(|letter| letter.repeat(length)).concat();
        assert_eq!(String::from_utf8(text).unwrap(), format!("a{expected}"), "{case:?}");
        assert_eq!(tsn_resets(&pair, 0)[0].2, Performed, "{case:?}");
        assert!(pair.both_up(), "{case:?}");
        assert_eq!(pair.statistics(1).outstanding_chunks, 0, "{case:?}");
    }
}

#[test]
fn both_reset_all_tsns_at_the_same_time() {
    let mut pair = pair();
    let now = pair.net.now();
    assert_eq!(pair.association_mut(0).reset_association(now), Ok(()));
    assert_eq!(pair.association_mut(1).reset_association(now), Ok(()));
    pair.run(Duration::from_secs(1));
    for node in [0, 1] {
        assert_eq!(tsn_resets(&pair, node).iter().map(|it| it.2).collect::<Vec<_>>(), [Failed]);
    }
    assert!(pair.send(0, 1, "a") && pair.send(1, 1, "b"));
    pair.run(Duration::from_secs(1));
    assert_eq!((text(&pair, 1), text(&pair, 0)), ("a".into(), "b".into()));
}

#[test]
// test: rfc6525 5.2.3 "In such a case, the local endpoint MUST do the following"
fn requests_that_cross() {
    // Both want the same.
    let mut pair = pair();
    assert!(pair.send(0, 1, "a") && pair.send(0, 2, "a"));
    pair.run(Duration::from_secs(1));
    assert_eq!(reset(&mut pair, 0, StreamDirection::Outgoing, &[1]), Ok(()));
    assert_eq!(reset(&mut pair, 1, StreamDirection::Incoming, &[1]), Ok(()));
    pair.run(Duration::from_secs(1));
    assert_eq!(resets(&pair, 0), [(true, vec![1], Performed)]);
    assert!(resets(&pair, 1).iter().all(|it| *it == (false, vec![1], Performed)));
    // The peer wants more.
    assert!(pair.send(0, 1, "b") && pair.send(0, 2, "b"));
    pair.run(Duration::from_secs(1));
    assert_eq!(reset(&mut pair, 0, StreamDirection::Outgoing, &[1]), Ok(()));
    assert_eq!(reset(&mut pair, 1, StreamDirection::Incoming, &[1, 2]), Ok(()));
    pair.run(Duration::from_secs(3));
    assert!(pair.send(0, 1, "c") && pair.send(0, 2, "c"));
    pair.run(Duration::from_secs(1));
    assert_eq!(ssns(&pair, 1, 1), [0, 0, 0]);
    assert_eq!(ssns(&pair, 1, 2), [0, 1, 0]);
    assert_eq!(resets(&pair, 0).last(), Some(&(true, vec![1, 2], Performed)));
    // Both reset what they send.
    assert_eq!(reset(&mut pair, 0, StreamDirection::Outgoing, &[]), Ok(()));
    assert_eq!(reset(&mut pair, 1, StreamDirection::Outgoing, &[]), Ok(()));
    pair.run(Duration::from_secs(1));
    assert_eq!(resets(&pair, 0).iter().filter(|it| it.1.is_empty()).count(), 2);
    assert_eq!(resets(&pair, 1).iter().filter(|it| it.1.is_empty()).count(), 2);
}

/// Bytes and marks are counted, not sequence numbers, and a reset loses none of them. So both accounts of a byte stream
/// still agree after it.
/// Either side must send a request of its own to do what the other one wants.
#[test]
fn both_want_requests_of_the_other_side_at_the_same_time() {
    for (resets_first, resets_second) in [(true, true), (true, false), (false, false)] {
        let mut pair = pair();
        assert!(pair.send(0, 1, "a") && pair.send(1, 1, "b"));
        pair.run(Duration::from_secs(1));
        for (node, is_reset) in [(0, resets_first), (1, resets_second)] {
            let asked = match is_reset {
                true => reset(&mut pair, node, StreamDirection::Incoming, &[1]),
                false => add(&mut pair, node, 0, 2),
            };
            assert_eq!(asked, Ok(()));
        }
        pair.run(Duration::from_secs(5));
        for (node, is_reset) in [(0, resets_first), (1, resets_second)] {
            let case = (resets_first, resets_second, node);
            let of_node =
                resets(&pair, node).iter().filter(|it| !it.0 && it.2 == Performed).count();
            let more = added(&pair, node).iter().filter(|it| it.2 == Performed).count();
            assert!(if is_reset { of_node == 1 } else { more > 0 }, "{case:?}");
        }
        assert!(pair.both_up());
    }
}

/// The answer to a reset of the TSNs is lost, or comes late; meanwhile the peer resets a stream.
#[test]
fn a_reset_of_a_stream_waits_for_data_that_waits_for_an_answer() {
    let mut pair = pair();
    let mut asked = 0;
    pair.net.script(move |sight| {
        let drops = sight.node == 0 && sight.has(kind::RE_CONFIG) && asked == 0;
        asked += usize::from(drops);
        if drops { Verdict::Drop } else { Verdict::Pass }
    });
    let now = pair.net.now();
    assert_eq!(pair.association_mut(0).reset_association(now), Ok(()));
    assert!(pair.send(1, 2, "a") && pair.send(1, 2, "b"));
    pair.run(Duration::from_millis(50));
    assert_eq!(reset(&mut pair, 1, StreamDirection::Outgoing, &[2]), Ok(()));
    assert!(pair.send(1, 2, "c"));
    pair.run(LONG);
    assert_eq!(text(&pair, 0), "abc");
    assert_eq!(ssns(&pair, 0, 2), [0, 1, 0]);
    assert!(pair.both_up());
}

#[test]
fn a_byte_stream_goes_on_after_a_reset() {
    let mut pair = lossy(10, 5);
    let (mut writer, mut reader) = (Ledger::new(1 << 20), Ledger::new(1 << 20));
    let data: Vec<u8> = (0..60_000_u32).map(|i| (i % 251) as u8).collect();
    for (round, half) in data.chunks(30_000).enumerate() {
        let now = pair.net.now();
        pair.association_mut(0).send(now, byte_mode::bytes(3, half.to_vec())).unwrap();
        writer.on_written(3, half.len());
        assert_eq!(reset(&mut pair, 0, StreamDirection::Outgoing, &[3]), Ok(()));
        let all = pair.received_len(1) + 30_000;
        assert!(pair.run_until(LONG, |pair| pair.received_len(1) == all));
        assert!(pair.run_until(LONG, |pair| resets(pair, 0).len() == round + 1));
    }
    let now = pair.net.now();
    pair.association_mut(0).send(now, Mark::End.message(3)).unwrap();
    writer.on_ended(3);
    assert!(pair.run_until(LONG, |pair| pair.received_len(1) == 60_001));
    let received = pair.received_bytes(1);
    assert_eq!(received[..60_000], data);
    for message in &pair.received[1] {
        match Mark::of(message) {
            Some(mark) => assert_eq!(mark, Mark::End),
            None => reader.on_bytes(3, message.payload.len()),
        }
    }
    assert_eq!(ssns(&pair, 1, 3).last(), Some(&0), "it was reset");
    assert!(writer.credit(3).is_ok());
}

#[test]
fn a_message_that_is_given_up_does_not_stop_a_reset() {
    let partial = config().with(|config| config.sending.partial_reliability = true);
    let mut pair = Pair::connected(1, partial);
    let mut lost = 0;
    pair.net.script(move |sight| {
        let data = sight.node == 0 && sight.has(kind::DATA);
        lost += usize::from(data);
        if data && lost == 1 { Verdict::Drop } else { Verdict::Pass }
    });
    let now = pair.net.now();
    let message = OutgoingMessage::new(1, Ppid(0), "a");
    let message = message.with_reliability(Reliability::Retransmissions(0));
    pair.association_mut(0).send(now, message).unwrap();
    assert!(pair.send(0, 1, "b"));
    assert_eq!(reset(&mut pair, 0, StreamDirection::Outgoing, &[1]), Ok(()));
    assert!(pair.send(0, 1, "c"));
    assert!(pair.run_until(LONG, |pair| text(pair, 1).ends_with('c')));
    assert_eq!(text(&pair, 1), "bc");
    assert_eq!(ssns(&pair, 1, 1), [1, 0]);
}

/// Messages with a lifetime expire while they wait for the answer.
#[test]
fn messages_that_wait_may_expire() {
    let mut pair = pair();
    pair.net.script(move |sight| {
        if sight.node == 1 && sight.has(kind::RE_CONFIG) { Verdict::Drop } else { Verdict::Pass }
    });
    assert_eq!(reset(&mut pair, 0, StreamDirection::Outgoing, &[1]), Ok(()));
    let now = pair.net.now();
    let message = OutgoingMessage::new(1, Ppid(0), "old");
    let message = message.with_lifetime(Duration::from_millis(100));
    pair.association_mut(0).send(now, message).unwrap();
    pair.run(Duration::from_secs(1));
    let failed = |event: &&Event| {
        matches!(event, Event::Notification(Notification::SendFailed { sent: false, .. }))
    };
    assert_eq!(pair.events[0].iter().filter(failed).count(), 1);
    assert_eq!(pair.association(0).unwrap().pending_bytes(), 0);
}

#[test]
fn a_shutdown_waits_for_the_answer_only_if_messages_do() {
    for waits in [false, true] {
        let mut pair = pair();
        let mut dropped = 0;
        pair.net.script(move |sight| {
            let answer = sight.node == 1 && sight.has(kind::RE_CONFIG);
            dropped += usize::from(answer);
            if answer && dropped < 3 { Verdict::Drop } else { Verdict::Pass }
        });
        assert!(pair.send(0, 1, "a"));
        pair.run(Duration::from_secs(1));
        assert_eq!(reset(&mut pair, 0, StreamDirection::Both, &[1]), Ok(()));
        if waits {
            assert!(pair.send(0, 1, "b"));
        }
        pair.run(Duration::from_millis(100));
        assert_eq!(add(&mut pair, 0, 1, 1), Ok(()));
        pair.shutdown(0);
        assert!(pair.run_until(LONG, |pair| pair.closed.iter().all(Option::is_some)));
        assert!(pair.closed.iter().flatten().all(|why| matches!(why, CloseReason::Shutdown)));
        assert_eq!(text(&pair, 1), if waits { "ab" } else { "a" });
        let outcome = if waits { Performed } else { Failed };
        assert!(resets(&pair, 0).contains(&(true, vec![1], outcome)), "{:?}", resets(&pair, 0));
        assert!(resets(&pair, 0).contains(&(false, vec![1], Failed)));
        assert_eq!(added(&pair, 0).iter().filter(|it| it.2 == Failed).count(), 2);
    }
}

/// A pair whose node 0 shuts down while its request for new TSNs has no answer, because data of node 1 was lost.
fn shutdown_amid_a_reset_of_tsns() -> Pair {
    let mut pair = Pair::connected(1, config().with(|config| config.sending.interleaving = true));
    assert!(pair.send(1, 2, "a"));
    pair.run(Duration::from_secs(1));
    let mut dropped = false;
    pair.net.script(move |sight| {
        let drops = !dropped && sight.node == 1 && sight.has(kind::I_DATA);
        dropped |= drops;
        if drops { Verdict::Drop } else { Verdict::Pass }
    });
    assert!(pair.send(1, 2, "b"));
    pair.run(Duration::from_millis(10));
    let now = pair.net.now();
    assert_eq!(pair.association_mut(0).reset_association(now), Ok(()));
    pair.run(Duration::from_millis(10));
    assert!(pair.send(1, 2, "c"));
    pair.shutdown(0);
    pair
}

#[test]
fn the_peer_may_reset_its_tsns_after_a_shutdown() {
    let mut pair = shutdown_amid_a_reset_of_tsns();
    assert!(pair.run_until(LONG, |pair| pair.closed.iter().all(Option::is_some)));
    assert!(pair.closed.iter().flatten().all(|why| matches!(why, CloseReason::Shutdown)));
    assert_eq!(text(&pair, 0), "abc");
    assert_eq!(tsn_resets(&pair, 0)[0].2, Performed);
    assert_eq!(tsn_resets(&pair, 1)[0].2, Performed);
}

#[test]
fn a_shutdown_does_not_wait_for_ever_for_new_tsns() {
    let mut pair = shutdown_amid_a_reset_of_tsns();
    pair.net.script(|sight| match sight.node == 1 && sight.has(kind::RE_CONFIG) {
        true => Verdict::Drop,
        false => Verdict::Pass,
    });
    assert!(pair.run_until(LONG * 10, |pair| pair.closed[0].is_some()));
    assert_eq!(tsn_resets(&pair, 0)[0].2, Failed);
}

/// The peer answers heartbeats and acknowledges data.
#[test]
fn a_peer_that_ignores_requests_is_asked_only_so_often() {
    let mut pair = pair();
    pair.net.script(|sight| match sight.node == 0 && sight.has(kind::RE_CONFIG) {
        true => Verdict::Drop,
        false => Verdict::Pass,
    });
    let now = pair.net.now();
    assert_eq!(pair.association_mut(0).reset_association(now), Ok(()));
    assert_eq!(add(&mut pair, 0, 1, 0), Ok(()));
    assert!(pair.send(0, 1, "a"));
    assert!(pair.run_until(LONG * 100, |pair| !added(pair, 0).is_empty()));
    assert_eq!((tsn_resets(&pair, 0)[0].2, added(&pair, 0)[0].2), (Failed, Failed));
    assert!(pair.both_up());
}

#[test]
// test: rfc6525 5.1.1 "the sender MUST retransmit"
fn a_peer_that_never_answers_is_given_up() {
    let mut pair = pair();
    pair.set_up(0, false);
    assert_eq!(reset(&mut pair, 0, StreamDirection::Outgoing, &[1]), Ok(()));
    assert!(pair.send(0, 1, "a"));
    assert!(pair.run_until(Duration::from_secs(1000), |pair| pair.closed[0].is_some()));
    assert!(matches!(pair.closed[0], Some(CloseReason::Unreachable)));
    assert_eq!(resets(&pair, 0), [(true, vec![1], Failed)]);
    assert!(pair.statistics(0).counters.reconfiguration_timeouts > 3);
}

#[test]
fn a_path_that_fails_is_left() {
    let mut pair = Pair::connected(2, config());
    pair.set_up(0, false);
    assert_eq!(reset(&mut pair, 0, StreamDirection::Outgoing, &[1]), Ok(()));
    let begun = pair.net.now();
    assert!(pair.run_until(LONG, |pair| !resets(pair, 0).is_empty()));
    let took = pair.net.now().saturating_since(begun);
    assert!(took < Duration::from_secs(2), "{took:?}");
    assert_eq!(resets(&pair, 0), [(true, vec![1], Performed)]);
    assert_eq!(pair.statistics(0).counters.reconfiguration_timeouts, 1);
}

#[test]
fn an_abort_ends_requests() {
    let mut pair = pair();
    assert_eq!(reset(&mut pair, 0, StreamDirection::Both, &[]), Ok(()));
    assert_eq!(add(&mut pair, 0, 1, 1), Ok(()));
    assert!(pair.send(0, 1, "a"));
    pair.abort(0);
    pair.run(Duration::from_secs(1));
    assert_eq!(resets(&pair, 0), [(true, vec![], Failed), (false, vec![], Failed)]);
    assert_eq!(added(&pair, 0).len(), 2);
    let back =
        |event: &&Event| matches!(event, Event::Notification(Notification::SendFailed { .. }));
    assert_eq!(pair.events[0].iter().filter(back).count(), 1);
}

#[test]
fn more_streams_than_a_packet_has_room_for() {
    let many = AssociationConfig::rfc9260().with(|config| {
        config.sending.stream_reconfiguration = true;
        config.sending.outbound_streams = 65_535;
    });
    let mut pair = Pair::connected(1, many);
    for stream in 0..2000 {
        assert!(pair.send(0, 2 * stream, "x"));
    }
    pair.run(Duration::from_secs(10));
    pair.received[1].clear();
    let streams: Vec<u16> = (0..2000).map(|stream| 2 * stream).collect();
    assert_eq!(reset(&mut pair, 0, StreamDirection::Both, &streams), Ok(()));
    for stream in 0..2000 {
        assert!(pair.send(0, 2 * stream, "y"));
    }
    assert!(pair.run_until(LONG, |pair| pair.received[1].len() == 2000));
    assert!(pair.received[1].iter().all(|message| message.sequence == 0));
    let all: Vec<u16> =
        resets(&pair, 0).into_iter().filter(|it| it.0).flat_map(|it| it.1).collect();
    assert_eq!(all, streams);
    assert_eq!(pair.count(0, kind::ERROR) + pair.count(1, kind::ERROR), 0);
}

#[test]
fn requests_of_a_peer_that_make_no_sense() {
    let mut pair = pair();
    let (number, last) = numbers(&pair, 1);
    let mut storage = Vec::new();
    let outgoing = |request, streams| Parameter::OutgoingResetRequest {
        request,
        response: 0,
        last_tsn: last,
        streams,
    };
    let there = List::encode(&[1_u16, 1, 2], &mut storage);
    let mut storage = Vec::new();
    let missing = List::encode(&[1_u16, 10], &mut storage);
    // A number that is not the next one.
    let shown = request(&mut pair, 1, &[outgoing(number.wrapping_add(1), there)]);
    assert_eq!(shown, [format!("RE-CONFIG [response {} result 5]", number.wrapping_add(1))]);
    // A stream that does not exist.
    let shown = request(&mut pair, 1, &[outgoing(number, missing)]);
    assert_eq!(shown, [format!("RE-CONFIG [response {number} result 3]")]);
    // The same request again is answered as before, whatever is in it.
    let shown = request(&mut pair, 1, &[outgoing(number, there)]);
    assert_eq!(shown, [format!("RE-CONFIG [response {number} result 3]")]);
    let number = number.wrapping_add(1);
    let shown = request(&mut pair, 1, &[outgoing(number, there)]);
    assert_eq!(shown, [format!("RE-CONFIG [response {number} result 1]")]);
    assert_eq!(resets(&pair, 1), [(false, vec![1, 2], Performed)]);
    // 65,000 streams.
    let number = number.wrapping_add(1);
    let more = Parameter::AddOutgoingStreams { request: number, count: 65_000 };
    let shown = request(&mut pair, 1, &[more]);
    assert_eq!(shown, [format!("RE-CONFIG [response {number} result 2]")]);
    let number = number.wrapping_add(1);
    let more = Parameter::AddIncomingStreams { request: number, count: 65_535 };
    let shown = request(&mut pair, 1, &[more]);
    assert_eq!(shown, [format!("RE-CONFIG [response {number} result 2]")]);
    // A TSN that cannot have been sent.
    let number = number.wrapping_add(1);
    let ahead = Parameter::OutgoingResetRequest {
        request: number,
        response: 0,
        last_tsn: Tsn(last.0.wrapping_add(1 << 30)),
        streams: there,
    };
    let shown = request(&mut pair, 1, &[ahead]);
    assert_eq!(shown, [format!("RE-CONFIG [response {number} result 2]")]);
    // Three parameters, an answer that nobody waits for, and none.
    let answer = Parameter::ReconfigResponse { response: 3, result: 1, next_tsns: None };
    assert_eq!(request(&mut pair, 1, &[answer]), [""; 0]);
    for bad in [&[answer, answer, answer][..], &[Parameter::EcnCapable], &[]] {
        let shown = request(&mut pair, 1, bad);
        assert!(shown.len() == 1 && shown[0].starts_with("ERROR"), "{shown:?}");
    }
    assert!(pair.both_up());
}

/// A peer that sends new requests although the first one is in progress, and lists as many streams as it can.
#[test]
fn a_flood_of_requests_takes_little_memory() {
    let many = AssociationConfig::rfc9260().with(|config| {
        config.sending.stream_reconfiguration = true;
        config.sending.outbound_streams = 65_535;
    });
    let mut pair = Pair::connected(1, many);
    pair.reads[1] = false;
    let (mut number, last) = numbers(&pair, 1);
    let streams: Vec<u16> = (0..32_000).collect();
    let mut storage = Vec::new();
    let all = List::encode(&streams, &mut storage);
    let mut storage = Vec::new();
    let some = List::encode(&streams[..8192], &mut storage);
    let before = pair.net.node(1).endpoint.memory_used();
    for last_tsn in [last, Tsn(last.0.wrapping_add(1000))] {
        for streams in [all, some] {
            for _ in 0..1000 {
                let what = Parameter::OutgoingResetRequest {
                    request: number,
                    response: 0,
                    last_tsn,
                    streams,
                };
                let shown = request(&mut pair, 1, &[what]);
                assert_eq!(shown.len(), 1, "{shown:?}");
                number = number.wrapping_add(u32::from(!shown[0].ends_with("result 6]")));
            }
        }
    }
    let more = pair.net.node(1).endpoint.memory_used() - before;
    assert!(more < 100_000, "{more}");
    assert!(pair.both_up());
}
