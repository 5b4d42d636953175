//! Streams that are reset and added.

use super::*;

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

/// Bytes and marks are counted, not sequence numbers, and a reset loses none of them. So both accounts of a byte stream
/// still agree after it.
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
