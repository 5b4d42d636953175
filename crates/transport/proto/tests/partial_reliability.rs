//! Partial reliability (RFC 3758, RFC 7496): messages that are given up, and peers that skip them.

use std::time::Duration;

use anabranch_harness::{Pair, Verdict, craft};
use anabranch_impair::LinkConfig;
use anabranch_proto::config::{BurstControl, InitialCwnd};
use anabranch_proto::{
    AssociationConfig, Event, GivenUpBy, GivenUpMessages, Notification, OutgoingMessage, Ppid,
    Reliability, SendErrorReason,
};
use anabranch_wire::{Chunk, Data, DataFlags, ForwardTsn, List, SkippedStream, Ssn, Tsn, kind};

const LONG: Duration = Duration::from_secs(60);

/// Both sides agree on partial reliability.
fn config() -> AssociationConfig {
    AssociationConfig::rfc9260().with(|config| config.sending.partial_reliability = true)
}

fn pair() -> Pair {
    Pair::connected(1, config())
}

fn send(pair: &mut Pair, stream: u16, data: &str, reliability: Reliability) {
    send_long(pair, stream, data.as_bytes().to_vec(), reliability);
}

fn send_long(pair: &mut Pair, stream: u16, data: Vec<u8>, reliability: Reliability) {
    let now = pair.net.now();
    let message = OutgoingMessage::new(stream, Ppid(0), data).with_reliability(reliability);
    pair.association_mut(0).send(now, message).unwrap();
}

/// Loses the packets of the client with a chunk of this type for which `which` returns true, counted from 0.
fn lose(pair: &mut Pair, chunk: u8, mut which: impl FnMut(usize) -> bool + 'static) {
    let mut packets = 0;
    pair.net.script(move |sight| {
        if sight.node != 0 || !sight.has(chunk) {
            return Verdict::Pass;
        }
        packets += 1;
        if which(packets - 1) { Verdict::Drop } else { Verdict::Pass }
    });
}

/// Messages that came back, and whether a part of them was sent.
fn failed(pair: &Pair) -> Vec<(String, bool)> {
    let events = pair.events[0].iter();
    let failed = events.filter_map(|event| match event {
        Event::Notification(Notification::SendFailed { message, sent }) => {
            Some((String::from_utf8_lossy(&message.data).into_owned(), *sent))
        }
        _ => None,
    });
    failed.collect()
}

fn received(pair: &Pair) -> String {
    String::from_utf8(pair.received_bytes(1)).unwrap()
}

#[test]
// test: rfc3758 3.5 "the data sender MUST send the data receiver a FORWARD TSN chunk"
// test: rfc3758 3.5 "If the chunk has a valid stream and sequence number"
fn a_lost_message_that_may_not_be_retransmitted_holds_up_nothing() {
    let mut pair = pair();
    lose(&mut pair, kind::DATA, |packet| packet == 0);
    send(&mut pair, 1, "a", Reliability::Retransmissions(0));
    pair.run(Duration::from_millis(1));
    for text in ["b", "c", "d", "e"] {
        send(&mut pair, 1, text, Reliability::Full);
        pair.run(Duration::from_millis(1));
    }
    let begun = pair.net.now();
    assert!(pair.run_until(LONG, |pair| received(pair) == "bcde"));
    let took = pair.net.now().saturating_since(begun);
    assert!(took < Duration::from_millis(100), "without a timeout: {took:?}");
    assert_eq!(failed(&pair), [("a".to_owned(), true)]);
    assert_eq!(pair.count(0, kind::FORWARD_TSN), 1);
    let statistics = pair.statistics(0);
    assert_eq!(statistics.paths[0].retransmitted_chunks, 0);
    let given_up = pair.association(0).unwrap().given_up(GivenUpBy::Retransmissions, Some(1));
    assert_eq!(given_up, GivenUpMessages { unsent: 0, sent: 1 });
    pair.run(Duration::from_secs(5));
    assert_eq!(pair.statistics(0).outstanding_chunks, 0);
    assert_eq!(pair.count(0, kind::FORWARD_TSN), 1);
}

#[test]
fn without_the_feature_everything_that_was_sent_arrives() {
    let mut pair = Pair::connected(1, AssociationConfig::rfc9260());
    lose(&mut pair, kind::DATA, |packet| packet == 0);
    send(&mut pair, 1, "a", Reliability::Retransmissions(0));
    send(&mut pair, 1, "b", Reliability::Lifetime(Duration::from_millis(1)));
    assert!(pair.run_until(LONG, |pair| received(pair) == "ab"));
    assert_eq!((failed(&pair).len(), pair.count(0, kind::FORWARD_TSN)), (0, 0));
}

#[test]
fn a_message_is_retransmitted_as_often_as_it_says() {
    for lost in 1..4 {
        let mut pair = pair();
        lose(&mut pair, kind::DATA, move |packet| packet < lost);
        send(&mut pair, 0, "a", Reliability::Retransmissions(2));
        pair.run(Duration::from_secs(30));
        let arrives = lost <= 2;
        assert_eq!(received(&pair), if arrives { "a" } else { "" }, "{lost} lost");
        assert_eq!(failed(&pair).len(), usize::from(!arrives));
        assert_eq!(pair.count(0, kind::FORWARD_TSN), usize::from(!arrives));
        assert_eq!(pair.statistics(0).paths[0].retransmitted_chunks, lost.min(2) as u64);
        assert_eq!(pair.statistics(0).outstanding_chunks, 0);
    }
}

#[test]
fn a_lifetime_ends_where_the_message_would_be_sent_again() {
    let mut pair = pair();
    lose(&mut pair, kind::DATA, |packet| packet == 0);
    send(&mut pair, 0, "late", Reliability::Lifetime(Duration::from_millis(500)));
    pair.run(Duration::from_millis(900));
    assert!(failed(&pair).is_empty(), "it may have arrived");
    assert!(pair.run_until(LONG, |pair| !failed(pair).is_empty()));
    pair.run(Duration::from_millis(300));
    assert_eq!(pair.statistics(0).outstanding_chunks, 0);
    // A message that is lost, but whose time has not come, is sent again.
    lose(&mut pair, kind::DATA, |packet| packet == 0);
    send(&mut pair, 0, "in time", Reliability::Lifetime(Duration::from_secs(5)));
    assert!(pair.run_until(LONG, |pair| received(pair) == "in time"));
}

/// While its retransmission waits for the window, a message can become too old.
#[test]
fn a_lost_message_that_waits_is_given_up_when_its_time_comes() {
    let mut pair = pair();
    pair.net.set_links(LinkConfig::new().delay(Pair::DELAY).rate(100_000));
    lose(&mut pair, kind::DATA, |packet| packet < 4);
    for _ in 0..4 {
        send_long(&mut pair, 0, vec![7; 1400], Reliability::Lifetime(Duration::from_millis(1150)));
    }
    pair.run(Duration::from_secs(10));
    // T3-rtx expires after a second, and the first one is sent again at once. The others follow one window later.
    assert!(received(&pair).len() < 4 * 1400);
    assert!(!failed(&pair).is_empty());
    assert_eq!(pair.statistics(0).outstanding_chunks, 0);
}

#[test]
// test: rfc3758 3.5 "all other TSN's within that fragmented message MUST be abandoned"
fn a_message_of_which_a_part_was_sent_is_given_up_as_a_whole() {
    for unordered in [false, true] {
        let mut pair = pair();
        pair.net.set_links(LinkConfig::new().delay(Pair::DELAY).rate(200_000));
        let now = pair.net.now();
        let lifetime = Duration::from_millis(200);
        let mut long = OutgoingMessage::new(3, Ppid(0), vec![7; 100_000]).with_lifetime(lifetime);
        long.unordered = unordered;
        pair.association_mut(0).send(now, long).unwrap();
        send(&mut pair, 3, "next", Reliability::Full);
        assert!(pair.run_until(LONG, |pair| received(pair) == "next"), "unordered: {unordered}");
        let took = pair.net.now().saturating_since(now);
        assert!(took < Duration::from_millis(900), "the rest was not sent: {took:?}");
        let failed = failed(&pair);
        assert_eq!((failed.len(), failed[0].1), (1, true));
        pair.run(Duration::from_secs(5));
        assert_eq!(pair.statistics(0).outstanding_chunks, 0);
        assert_eq!(pair.statistics(0).send_queue_bytes, 0);
        assert_eq!(pair.statistics(1).receive_buffer_used, 0);
    }
}

#[test]
fn a_part_that_was_delivered_is_cut_short() {
    let mut config = config();
    config.receiving.partial_delivery_point = 3000;
    config.sending.send_buffer = 1 << 20;
    let mut pair = Pair::connected(1, config);
    pair.net.set_links(LinkConfig::new().delay(Pair::DELAY).rate(200_000));
    let now = pair.net.now();
    let lifetime = Duration::from_millis(300);
    let long = OutgoingMessage::new(3, Ppid(0), vec![7; 100_000]).with_lifetime(lifetime);
    pair.association_mut(0).send(now, long).unwrap();
    send(&mut pair, 3, "next", Reliability::Full);
    assert!(pair.run_until(LONG, |pair| received(pair).ends_with("next")));
    let parts: Vec<_> = pair.received[1].iter().map(|part| (part.begin, part.end)).collect();
    assert_eq!(parts.first(), Some(&(true, false)));
    assert!(
        parts.len() > 2 && parts[1..parts.len() - 1].iter().all(|part| *part == (false, false))
    );
    assert_eq!(parts.last(), Some(&(true, true)));
    let aborted = |event: &&Event| {
        let Event::Notification(of) = event else { return false };
        matches!(
            of,
            Notification::PartialDeliveryAborted { stream: 3, sequence: 0, unordered: false }
        )
    };
    assert_eq!(pair.events[1].iter().filter(aborted).count(), 1);
    assert_eq!(pair.statistics(1).receive_buffer_used, 0);
}

#[test]
// test: rfc3758 3.5 "MUST assure that at least one T3-rtx timer is running"
// test: rfc3758 3.5 "Any time the T3-rtx timer expires, on any destination"
fn a_lost_forward_tsn_is_sent_again() {
    let mut pair = pair();
    let mut lost = 0;
    pair.net.script(move |sight| {
        let drop = sight.node == 0
            && (sight.has(kind::DATA) && lost == 0 || sight.has(kind::FORWARD_TSN) && lost < 3);
        lost += usize::from(drop);
        if drop { Verdict::Drop } else { Verdict::Pass }
    });
    send(&mut pair, 0, "a", Reliability::Retransmissions(0));
    pair.run(Duration::from_secs(20));
    assert_eq!(pair.count(0, kind::FORWARD_TSN), 3);
    assert_eq!(pair.statistics(0).outstanding_chunks, 0);
    assert_eq!(pair.statistics(0).counters.forward_tsns_sent, 3);
    send(&mut pair, 0, "b", Reliability::Full);
    assert!(pair.run_until(LONG, |pair| received(pair) == "b"));
}

#[test]
fn a_shutdown_waits_until_the_peer_has_skipped() {
    let mut pair = pair();
    lose(&mut pair, kind::DATA, |packet| packet == 0);
    send(&mut pair, 0, "a", Reliability::Retransmissions(0));
    pair.shutdown(0);
    assert!(pair.run_until(LONG, |pair| pair.closed.iter().all(Option::is_some)));
    let graceful =
        |reason: &Option<_>| matches!(reason, Some(anabranch_proto::CloseReason::Shutdown));
    assert!(pair.closed.iter().all(graceful), "{:?}", pair.closed);
    assert_eq!(failed(&pair).len(), 1, "and once");
    assert!(pair.count(0, kind::FORWARD_TSN) > 0);
}

#[test]
// test: rfc3758 3.5 "SHOULD lower the Advanced.Peer.Ack.Point to the last TSN that will fit"
fn more_streams_than_a_packet_has_room_for() {
    let mut config = config();
    config.congestion.initial_cwnd = InitialCwnd::Mtus(100);
    config.congestion.burst = BurstControl::Unlimited;
    config.sending.outbound_streams = 2000;
    config.receiving.inbound_streams = 2000;
    let (mut pair, _) = target(config);
    lose(&mut pair, kind::DATA, |packet| packet < 17);
    for stream in 0..1200 {
        send(&mut pair, stream, "x", Reliability::Retransmissions(0));
    }
    pair.run(Duration::from_secs(5));
    assert_eq!(pair.statistics(0).outstanding_chunks, 0);
    assert!(pair.count(0, kind::FORWARD_TSN) >= 2);
    pair.forget();
    pair.received[1].clear();
    for stream in 0..1200 {
        send(&mut pair, stream, "y", Reliability::Full);
    }
    assert!(pair.run_until(LONG, |pair| pair.received[1].len() == 1200), "each stream goes on");
}

/// Each gap would take a round trip of its own if the sender stopped at messages that the peer has.
#[test]
fn frequent_gaps_do_not_pile_up() {
    let mut config = config();
    config.congestion.initial_cwnd = InitialCwnd::Mtus(200);
    config.congestion.burst = BurstControl::Unlimited;
    let (mut pair, _) = target(config);
    pair.net.set_links(LinkConfig::new().delay(Duration::from_millis(50)));
    lose(&mut pair, kind::DATA, |packet| packet % 10 == 3);
    let begun = pair.net.now();
    for number in 0..100 {
        send_long(&mut pair, 0, vec![number as u8; 1000], Reliability::Retransmissions(0));
    }
    assert!(pair.run_until(LONG, |pair| pair.statistics(0).outstanding_chunks == 0));
    let took = pair.net.now().saturating_since(begun);
    assert_eq!((failed(&pair).len(), pair.received[1].len()), (10, 90));
    assert!(took < Duration::from_millis(500), "ten gaps took {took:?}");
}

#[test]
fn nothing_is_skipped_behind_a_message_that_must_arrive() {
    for interleaving in [false, true] {
        let mut pair =
            Pair::connected(1, config().with(|config| config.sending.interleaving = interleaving));
        lose(&mut pair, if interleaving { kind::I_DATA } else { kind::DATA }, |number| number < 3);
        send(&mut pair, 0, "a", Reliability::Full);
        send(&mut pair, 1, "b", Reliability::Retransmissions(0));
        pair.run(Duration::from_millis(2500));
        assert_eq!(failed(&pair), [("b".to_owned(), true)]);
        let skips =
            |pair: &Pair| pair.count(0, kind::FORWARD_TSN) + pair.count(0, kind::I_FORWARD_TSN);
        assert_eq!((received(&pair).as_str(), skips(&pair)), ("", 0));
        pair.run(LONG);
        assert_eq!((received(&pair).as_str(), skips(&pair)), ("a", 1));
    }
}

#[test]
fn a_full_buffer_makes_room_for_what_is_more_important() {
    let mut config = config();
    config.sending.send_buffer = 10_000;
    let mut pair = Pair::connected(1, config);
    pair.net.set_links(LinkConfig::new().delay(Pair::DELAY).rate(100_000));
    let now = pair.net.now();
    let message = |text: &str, value| {
        let data = text.repeat(1000);
        OutgoingMessage::new(0, Ppid(0), data).with_reliability(Reliability::Priority(value))
    };
    let mut accepted = 0;
    while pair.association_mut(0).send(now, message("l", 5)).is_ok() {
        accepted += 1;
    }
    assert!(accepted > 5);
    pair.association_mut(0).send(now, message("h", 1)).unwrap();
    let refused = pair.association_mut(0).send(now, message("m", 5)).unwrap_err();
    assert_eq!(refused.reason, SendErrorReason::Blocked, "equals do not displace each other");
    pair.run(Duration::from_secs(10));
    let text = received(&pair);
    assert_eq!(text.matches('h').count(), 1000);
    let failed = failed(&pair);
    assert_eq!(text.matches('l').count() + failed.len() * 1000, accepted * 1000);
    assert!(!failed.is_empty() && failed.iter().all(|(_, sent)| !sent));
    let given_up = pair.association(0).unwrap().given_up(GivenUpBy::Priority, None);
    assert_eq!(pair.statistics(0).given_up, given_up, "no other policy gave anything up");
    assert_eq!(given_up.unsent as usize, failed.len());
}

#[test]
fn a_byte_stream_loses_nothing() {
    let mut config = config();
    config.sending.reliability = Reliability::Retransmissions(0);
    let mut pair = Pair::connected(1, config);
    lose(&mut pair, kind::DATA, |packet| packet == 0);
    let now = pair.net.now();
    let bytes = OutgoingMessage::new(0, Ppid(0), "bytes").with_divisible();
    let refused = bytes.clone().with_lifetime(Duration::from_secs(1));
    let refused = pair.association_mut(0).send(now, refused).unwrap_err();
    assert_eq!(refused.reason, SendErrorReason::ByteStream);
    pair.association_mut(0).send(now, bytes).unwrap();
    assert!(pair.run_until(LONG, |pair| received(pair) == "bytes"));
    // The option counts for other messages.
    lose(&mut pair, kind::DATA, |packet| packet == 0);
    pair.association_mut(0).send(now, OutgoingMessage::new(0, Ppid(0), "x")).unwrap();
    pair.run(Duration::from_secs(5));
    assert_eq!((received(&pair).as_str(), failed(&pair).len()), ("bytes", 1));
}

/// Without the loss of a packet, short lifetimes must not keep the window from growing, nor a loss from shrinking it.
#[test]
// test: rfc3758 3.5 "the appropriate congestion adjustment MUST be made"
fn lifetimes_shorter_than_a_round_trip_leave_congestion_control_alone() {
    let mut pair = pair();
    pair.net.set_links(LinkConfig::new().delay(Duration::from_millis(50)));
    let brief = Reliability::Lifetime(Duration::from_millis(20));
    let initial = pair.statistics(0).paths[0].cwnd;
    for _ in 0..8 {
        for _ in 0..4 {
            send_long(&mut pair, 0, vec![1; 1300], brief);
        }
        pair.run(Duration::from_millis(200));
    }
    let grown = pair.statistics(0).paths[0].cwnd;
    assert!(grown > initial && failed(&pair).is_empty());
    assert_eq!(received(&pair).len(), 8 * 5200);
    lose(&mut pair, kind::DATA, |packet| packet == 0);
    for _ in 0..4 {
        send_long(&mut pair, 0, vec![1; 1300], brief);
    }
    pair.run(Duration::from_millis(500));
    assert!(!failed(&pair).is_empty());
    assert!(pair.statistics(0).paths[0].cwnd < grown);
    assert_eq!(pair.statistics(0).paths[0].retransmitted_chunks, 0);
}

/// An association, and the first TSN of the client.
fn target(config: AssociationConfig) -> (Pair, u32) {
    let mut pair = Pair::new(1, config.clone());
    pair.connect(config);
    assert!(pair.run_until(LONG, |pair| pair.both_up()));
    let (_, init) =
        pair.sent(0).into_iter().find(|(_, packet)| craft::has(packet, kind::INIT)).unwrap();
    let packet = anabranch_wire::Packet::parse(&init).unwrap();
    let tsn = match packet.chunks().next().unwrap().unwrap().decode().unwrap() {
        Chunk::Init(init) => init.initial_tsn.0,
        other => panic!("{other:?}"),
    };
    (pair, tsn)
}

/// A packet from the client with these DATA chunks, given as TSN, flags, SSN and text.
fn data(pair: &Pair, chunks: &[(u32, u8, u16, &str)]) -> bytes::Bytes {
    craft::packet(pair.header(0), |packet| {
        for (tsn, flags, ssn, text) in chunks {
            let (flags, payload) = (DataFlags(*flags), text.as_bytes());
            let (tsn, ssn) = (Tsn(*tsn), Ssn(*ssn));
            packet.data(&Data { flags, tsn, stream: 1, ssn, ppid: Ppid(0), payload })?;
        }
        Ok(())
    })
}

fn forward(pair: &Pair, tsn: u32, streams: &[(u16, u16)]) -> bytes::Bytes {
    let streams: Vec<_> = streams
        .iter()
        .map(|(stream, ssn)| SkippedStream { stream: *stream, ssn: Ssn(*ssn) })
        .collect();
    let mut storage = Vec::new();
    let streams = List::encode(&streams, &mut storage);
    let chunk = Chunk::ForwardTsn(ForwardTsn { new_cumulative_tsn: Tsn(tsn), streams });
    craft::packet(pair.header(0), |packet| packet.chunk(&chunk))
}

const WHOLE: u8 = DataFlags::BEGIN | DataFlags::END;

#[test]
// test: rfc3758 3.6 "immediately make available for delivery stream sequence numbers"
// test: rfc3758 3.6 "MUST further advance its cumulative TSN point locally if possible"
// test: rfc3758 3.6 "the data receiver MUST treat this FORWARD TSN as out-of-date"
fn what_waited_for_skipped_messages_is_delivered() {
    let (mut pair, tsn) = target(config());
    let ahead = data(&pair, &[(tsn + 1, WHOLE, 1, "b"), (tsn + 3, WHOLE, 3, "d")]);
    pair.inject(1, ahead);
    pair.take();
    assert_eq!(received(&pair), "");
    let skip = forward(&pair, tsn + 2, &[(1, 2)]);
    let answers = pair.answers(1, skip.clone());
    pair.take();
    assert_eq!(received(&pair), "bd");
    let sack = |answers: &[bytes::Bytes]| {
        let packet = anabranch_wire::Packet::parse(&answers[0]).unwrap();
        match packet.chunks().next().unwrap().unwrap().decode().unwrap() {
            Chunk::Sack(sack) => sack.cumulative_tsn_ack.0,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(sack(&answers), tsn + 3);
    // An old one is answered, and changes nothing.
    assert_eq!(sack(&pair.answers(1, skip)), tsn + 3);
    let next = data(&pair, &[(tsn + 4, WHOLE, 4, "e")]);
    pair.inject(1, next);
    pair.take();
    assert_eq!(received(&pair), "bde");
}

/// The Linux kernel drops fragments before they get a TSN, and begins the next message with the next one.
#[test]
fn a_message_may_begin_before_the_one_before_has_ended() {
    let (mut pair, tsn) = target(config());
    let parts = data(&pair, &[(tsn, DataFlags::BEGIN, 0, "a"), (tsn + 1, WHOLE, 1, "b")]);
    pair.inject(1, parts);
    pair.take();
    assert_eq!(received(&pair), "b");
    assert_eq!(pair.statistics(1).receive_buffer_used, 0);
    // The end of a message whose beginning was skipped is dropped.
    let skip = forward(&pair, tsn + 2, &[(1, 2)]);
    pair.inject(1, skip);
    let rest = data(&pair, &[(tsn + 3, DataFlags::END, 2, "c"), (tsn + 4, WHOLE, 3, "d")]);
    pair.inject(1, rest);
    pair.take();
    assert_eq!(received(&pair), "bd");
    assert_eq!(pair.statistics(1).receive_buffer_used, 0);
    assert_eq!(pair.closed[1], None);
}

#[test]
fn a_forward_tsn_beyond_every_window_ends_the_association() {
    for ahead in [70_000_u32, 1 << 30] {
        let (mut pair, tsn) = target(config());
        let skip = forward(&pair, tsn.wrapping_add(ahead), &[]);
        pair.inject(1, skip);
        pair.take();
        assert!(pair.closed[1].is_some(), "{ahead}");
    }
}

/// A FORWARD TSN may name streams that do not exist, and SSNs of any kind.
#[test]
fn strange_streams_are_ignored() {
    let (mut pair, tsn) = target(config());
    let skip = forward(&pair, tsn, &[(65_535, 7), (2, 60_000), (1, 0), (1, 0), (3, 40_000)]);
    pair.inject(1, skip);
    let next = data(&pair, &[(tsn + 1, WHOLE, 1, "b")]);
    pair.inject(1, next);
    pair.take();
    assert_eq!(received(&pair), "b");
    assert_eq!(pair.closed[1], None);
}

#[test]
fn a_peer_that_did_not_agree_gets_an_error() {
    let (mut pair, tsn) = target(AssociationConfig::rfc9260());
    let skip = forward(&pair, tsn, &[]);
    let answers = pair.answers(1, skip);
    assert_eq!(craft::kinds(&answers[0]), [kind::ERROR]);
}
