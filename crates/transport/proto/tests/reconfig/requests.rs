//! Requests that cross, that are not answered, or that are not possible.

use super::*;

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

/// What this side wants for itself waits for an acknowledgement when the peer's request arrives, and the rest of it would
/// need a request of the peer.
#[test]
fn own_resets_that_wait_are_done_before_those_that_the_peer_wants() {
    let mut pair = pair();
    assert!(pair.send(0, 1, "a") && pair.send(1, 1, "b"));
    pair.run(Duration::from_secs(1));
    assert!(pair.send(1, 1, "c"));
    assert_eq!(reset(&mut pair, 1, StreamDirection::Both, &[1]), Ok(()));
    assert_eq!(reset(&mut pair, 0, StreamDirection::Incoming, &[]), Ok(()));
    pair.run(Duration::from_secs(5));
    let own = [(true, vec![1], Performed), (true, vec![], Performed), (false, vec![1], Performed)];
    assert_eq!(resets(&pair, 1), own);
    assert!(pair.send(1, 1, "d"));
    pair.run(Duration::from_secs(1));
    assert_eq!(ssns(&pair, 0, 1), [0, 1, 0]);
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
