//! Resets of all TSNs.

use super::*;

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

/// One packet has both answers of the peer: that it works on the reset, and that it is done. New data overtakes it.
#[test]
fn data_overtakes_both_answers_in_one_packet() {
    for unordered in [false, true] {
        let mut pair = pair();
        assert!(pair.send(1, 2, "a"));
        pair.run(Duration::from_secs(1));
        assert!(pair.send(1, 2, "b"));
        pair.run(Pair::DELAY * 2);
        pair.net.script(|sight| match sight.node == 1 && sight.has(kind::RE_CONFIG) {
            true => Verdict::Drop,
            false => Verdict::Pass,
        });
        let now = pair.net.now();
        assert_eq!(pair.association_mut(0).reset_association(now), Ok(()));
        // Only when "b" is acknowledged.
        assert!(pair.run_until(LONG, |pair| !tsn_resets(pair, 1).is_empty()));
        pair.net.settle();
        let answers: Vec<_> = pair.sent(1).into_iter().filter_map(|(_, it)| answer(&it)).collect();
        let header = pair.header(1);
        let both = craft::packet(header, |packet| {
            packet.raw(kind::RE_CONFIG, 0, answers.first().unwrap())?;
            packet.raw(kind::RE_CONFIG, 0, answers.last().unwrap())
        });
        for letter in ["c", "d", "e"] {
            let now = pair.net.now();
            let mut message = OutgoingMessage::new(3, Ppid(0), letter);
            message.unordered = unordered;
            assert!(pair.association_mut(1).send(now, message).is_ok());
        }
        pair.run(Pair::DELAY * 2);
        assert_eq!(text(&pair, 0), "ab", "it may be older");
        pair.inject(0, both);
        pair.net.script(|_| Verdict::Pass);
        assert!(pair.send(1, 3, "f"));
        pair.run(LONG);
        assert_eq!(text(&pair, 0), "abcdef", "unordered: {unordered}");
        assert!(pair.both_up());
        assert_eq!(pair.statistics(1).outstanding_chunks, 0, "unordered: {unordered}");
    }
}

/// Parts of messages overtake the peer's word that it works on the reset, and are taken for older.
#[test]
fn parts_of_messages_overtake_both_answers() {
    for (interleaving, unordered) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut pair = Pair::connected(
            1,
            config().with(|config| {
                config.sending.interleaving = interleaving;
                config.receiving.partial_delivery_point = 1;
            }),
        );
        assert!(pair.send(1, 2, "a"));
        pair.run(Duration::from_secs(1));
        assert!(pair.send(1, 2, "b"));
        pair.run(Pair::DELAY * 2);
        let mut packets = 0;
        pair.net.script(move |sight| {
            let data = sight.node == 1 && (sight.has(kind::DATA) || sight.has(kind::I_DATA));
            packets += usize::from(data);
            let answer = sight.node == 1 && sight.has(kind::RE_CONFIG);
            if answer || data && packets == 2 { Verdict::Drop } else { Verdict::Pass }
        });
        let now = pair.net.now();
        assert_eq!(pair.association_mut(0).reset_association(now), Ok(()));
        assert!(pair.run_until(LONG, |pair| !tsn_resets(pair, 1).is_empty()));
        pair.net.settle();
        let answers: Vec<_> = pair.sent(1).into_iter().filter_map(|(_, it)| answer(&it)).collect();
        let (header, now) = (pair.header(1), pair.net.now());
        let mut message = OutgoingMessage::new(3, Ppid(0), "c".repeat(3500));
        message.unordered = unordered;
        assert!(pair.association_mut(1).send(now, message).is_ok());
        pair.run(Pair::DELAY * 2);
        for value in [answers.first().unwrap(), answers.last().unwrap()] {
            pair.inject(0, craft::packet(header, |packet| packet.raw(kind::RE_CONFIG, 0, value)));
            pair.run(Pair::DELAY);
        }
        pair.net.script(|_| Verdict::Pass);
        pair.run(LONG);
        assert!(pair.send(1, 3, "d"));
        pair.run(LONG);
        let whole = format!("ab{}d", "c".repeat(3500));
        assert!(text(&pair, 0) == whole, "interleaving: {interleaving}, unordered: {unordered}");
        assert!(pair.both_up());
    }
}

/// The value of the first RE-CONFIG of a packet.
fn answer(packet: &[u8]) -> Option<Vec<u8>> {
    let packet = Packet::parse(packet).unwrap();
    let mut chunks = packet.chunks().map_while(Result::ok);
    chunks.find(|chunk| chunk.kind == kind::RE_CONFIG).map(|chunk| chunk.value.to_vec())
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
