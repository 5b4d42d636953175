//! Ending associations.

use std::time::Duration;

use anabranch_harness::{Pair, Verdict, craft};
use anabranch_proto::{
    AssociationConfig, CloseReason, Event, Notification, OutgoingMessage, Ppid, Reliability,
    SendErrorReason,
};
use anabranch_wire::{Chunk, Data, DataFlags, Heartbeat, Init, Parameters, Ssn, Tsn, kind};

const LONG: Duration = Duration::from_secs(2000);

fn config() -> AssociationConfig {
    let mut config = AssociationConfig::rfc9260();
    config.timers.heartbeat_interval = None;
    config.mtu.discovery = false;
    config
}

fn graceful(pair: &mut Pair) {
    assert!(pair.run_until(LONG, |pair| pair.closed.iter().all(Option::is_some)));
    assert_eq!(pair.closed, [Some(CloseReason::Shutdown), Some(CloseReason::Shutdown)]);
}

#[test]
fn what_was_sent_is_delivered_first() {
    for node in 0..2 {
        let mut pair = Pair::connected(1, config());
        for sender in 0..2 {
            assert!(pair.send(sender, 0, vec![sender as u8; 300_000]));
        }
        pair.shutdown(node);
        graceful(&mut pair);
        for receiver in 0..2 {
            assert_eq!(pair.received_bytes(receiver), vec![1 - receiver as u8; 300_000]);
        }
    }
}

#[test]
// test: rfc9260 9.2 "SHOULD reject any new data request from its"
fn nothing_more_is_taken() {
    let mut pair = Pair::connected(1, config());
    pair.reads = [true, false];
    assert!(pair.send(0, 0, vec![1; 50_000]));
    pair.shutdown(0);
    for _ in 0..100 {
        pair.run(Duration::from_millis(5));
        let now = pair.net.now();
        let refused = pair.association_mut(0).send(now, OutgoingMessage::new(0, Ppid(0), "x"));
        assert_eq!(refused.unwrap_err().reason, SendErrorReason::Closed);
    }
    // The peer knows, and may not send either.
    assert!(
        pair.events[1]
            .iter()
            .any(|event| matches!(event, Event::Notification(Notification::PeerShutdown)))
    );
    let now = pair.net.now();
    let refused = pair.association_mut(1).send(now, OutgoingMessage::new(0, Ppid(0), "x"));
    assert_eq!(refused.unwrap_err().reason, SendErrorReason::Closed);
    // Received data can be read after the end.
    pair.reads = [true; 2];
    graceful(&mut pair);
    assert_eq!(pair.received_bytes(1).len(), 50_000);
    assert_eq!(pair.statistics(1).receive_buffer_used, 0);
}

#[test]
fn each_packet_of_the_shutdown_may_be_lost() {
    for lost in [kind::SHUTDOWN, kind::SHUTDOWN_ACK, kind::SHUTDOWN_COMPLETE] {
        let mut pair = Pair::connected(1, config());
        let mut gone = false;
        pair.net.script(move |sight| {
            let drop = sight.has(lost) && !std::mem::replace(&mut gone, true);
            if drop { Verdict::Drop } else { Verdict::Pass }
        });
        let begun = pair.net.now();
        pair.shutdown(0);
        graceful(&mut pair);
        let took = pair.net.now().saturating_since(begun);
        assert!(took < Duration::from_millis(1200), "T2 is one RTO: {took:?}");
    }
}

/// With an ABORT for its HEARTBEAT, the peer's user would see an error after a graceful end.
#[test]
fn a_peer_whose_shutdown_complete_was_lost_gets_no_abort() {
    let mut pair = Pair::connected(1, config());
    let header = pair.header(1);
    let heartbeat = craft::packet(header, |packet| {
        packet.chunk(&Chunk::Heartbeat(Heartbeat { info: &[0; 8] }))
    });
    let shutdown_ack = craft::packet(header, |packet| packet.chunk(&Chunk::ShutdownAck));
    pair.shutdown(0);
    graceful(&mut pair);
    pair.net.settle();
    assert!(pair.answers(0, heartbeat).is_empty());
    let answers = pair.answers(0, shutdown_ack);
    assert_eq!(craft::kinds(&answers[0]), [kind::SHUTDOWN_COMPLETE]);
}

#[test]
// test: rfc9260 9.2 "the SHUTDOWN chunk sender MUST"
// test: rfc9260 9.2 "the endpoint SHOULD respond immediately with a"
fn both_sides_may_begin() {
    for offset in [0, 5, 10, 15, 25] {
        let mut pair = Pair::connected(1, config());
        pair.shutdown(0);
        pair.run(Duration::from_millis(offset));
        if pair.closed[1].is_none() {
            pair.shutdown(1);
        }
        graceful(&mut pair);
    }
}

#[test]
// test: rfc9260 9.2 "respond to each received packet containing one or more"
fn data_that_comes_after_the_shutdown_is_answered_with_another() {
    let mut pair = Pair::connected(1, config());
    // The server's data crosses the client's SHUTDOWN, out of order.
    pair.shutdown(0);
    pair.net.settle();
    let header = pair.header(1);
    let tsn = {
        let sent = pair.sent(0);
        let (_, shutdown) = sent.iter().find(|(_, b)| craft::has(b, kind::SHUTDOWN)).unwrap();
        u32::from_be_bytes(shutdown[16..20].try_into().unwrap())
    };
    let data = |offset: u32| {
        craft::packet(header, |packet| {
            packet.data(&Data {
                flags: DataFlags(DataFlags::BEGIN | DataFlags::END | DataFlags::UNORDERED),
                tsn: Tsn(tsn.wrapping_add(offset)),
                stream: 0,
                ssn: Ssn(0),
                ppid: Ppid(0),
                payload: b"late",
            })
        })
    };
    let kinds = |answers: Vec<bytes::Bytes>| -> Vec<u8> {
        answers.iter().flat_map(|packet| craft::kinds(packet)).collect()
    };
    // test: rfc9260 9.2 "then a SACK chunk MUST also be sent"
    let answer = kinds(pair.answers(0, data(2)));
    assert!(answer.contains(&kind::SHUTDOWN) && answer.contains(&kind::SACK), "{answer:?}");
    let answer = kinds(pair.answers(0, data(1)));
    assert!(answer.contains(&kind::SHUTDOWN), "{answer:?}");
    assert_eq!(pair.received_bytes(0), b"latelate");
}

#[test]
// test: rfc9260 9.2 "SHOULD be set to the RECOMMENDED value of"
fn a_shutdown_does_not_take_for_ever() {
    let mut config = config();
    config.timers.rto_max = Duration::from_secs(2);
    let mut pair = Pair::connected(1, config);
    // The peer never answers the SHUTDOWN, but is alive, so it does not count as unreachable.
    pair.net.script(|sight| match sight.node == 0 && sight.has(kind::SHUTDOWN) {
        true => Verdict::Drop,
        false => Verdict::Pass,
    });
    let begun = pair.net.now();
    pair.shutdown(0);
    let header = pair.header(1);
    while pair.closed[0].is_none() {
        let heartbeat =
            craft::packet(header, |w| w.raw(kind::HEARTBEAT, 0, &[0, 1, 0, 8, 1, 2, 3, 4]));
        pair.inject(0, heartbeat);
        pair.run(Duration::from_millis(500));
        assert!(pair.net.now().saturating_since(begun) < Duration::from_secs(11));
    }
    assert_eq!(pair.closed[0], Some(CloseReason::ShutdownTimeout));
    assert!(pair.net.now().saturating_since(begun) >= Duration::from_secs(10));
    pair.run(Duration::from_secs(1));
    assert!(matches!(pair.closed[1], Some(CloseReason::PeerAbort { .. })));
}

#[test]
// test: rfc9260 9.2 "An endpoint SHOULD limit the number of retransmissions"
fn a_shutdown_that_nobody_answers_is_given_up() {
    let mut config = config();
    config.paths.association_max_retrans = 3;
    config.timers.rto_max = Duration::from_secs(60);
    let mut pair = Pair::connected(1, config);
    pair.net.script(|_| Verdict::Drop);
    pair.shutdown(0);
    assert!(pair.run_until(LONG, |pair| pair.closed[0].is_some()));
    assert_eq!(pair.closed[0], Some(CloseReason::Unreachable));
    assert_eq!(pair.count(0, kind::SHUTDOWN), 4);
}

#[test]
fn a_shutdown_before_the_association_is_up_ends_it() {
    // In COOKIE-WAIT there is no peer to notify.
    let mut pair = Pair::new(1, config());
    pair.connect(config());
    pair.shutdown(0);
    pair.run(Duration::from_secs(5));
    assert_eq!(pair.closed[0], Some(CloseReason::LocalAbort));
    // In COOKIE-ECHOED the peer learns of it.
    let mut pair = Pair::new(1, config());
    pair.net.script(|sight| match sight.has(kind::COOKIE_ACK) {
        true => Verdict::Drop,
        false => Verdict::Pass,
    });
    pair.connect(config());
    assert!(pair.run_until(LONG, |pair| pair.id[1].is_some()));
    pair.shutdown(0);
    pair.run(Duration::from_secs(5));
    assert_eq!(pair.closed[0], Some(CloseReason::LocalAbort));
    assert!(matches!(pair.closed[1], Some(CloseReason::PeerAbort { .. })));
}

#[test]
fn abort_and_shutdown_race() {
    for offset in 0..40 {
        let mut pair = Pair::connected(1, config());
        assert!(pair.send(1, 0, vec![1; 20_000]));
        pair.shutdown(0);
        pair.run(Duration::from_millis(offset * 3));
        let before = pair.closed[1].clone();
        pair.abort(1);
        assert!(pair.run_until(LONG, |pair| pair.closed.iter().all(Option::is_some)));
        match before {
            Some(reason) => assert_eq!(pair.closed[1], Some(reason), "the end stays as it was"),
            None => assert_eq!(pair.closed[1], Some(CloseReason::LocalAbort)),
        }
    }
}

#[test]
// test: rfc9260 9.2 "INIT chunk and retransmit the SHUTDOWN ACK chunk"
fn an_init_while_waiting_for_shutdown_complete_is_answered_with_shutdown_ack() {
    let mut pair = Pair::connected(1, config());
    pair.net.script(|sight| match sight.has(kind::SHUTDOWN_COMPLETE) {
        true => Verdict::Drop,
        false => Verdict::Pass,
    });
    pair.shutdown(0);
    assert!(pair.run_until(LONG, |pair| pair.closed[0].is_some()));
    pair.net.settle();
    let mut header = pair.header(0);
    header.verification_tag = 0;
    let init = craft::packet(header, |packet| {
        packet.chunk(&Chunk::Init(Init {
            initiate_tag: 5,
            a_rwnd: 5000,
            outbound_streams: 1,
            inbound_streams: 1,
            initial_tsn: Tsn(9),
            parameters: Parameters::new(&[]),
        }))
    });
    let answers = pair.answers(1, init);
    assert_eq!(craft::kinds(&answers[0]), [kind::SHUTDOWN_ACK]);
}

/// Every path is used in turn, not always the one next to the path of new data.
#[test]
// test: rfc9260 9.2 "MUST be followed to determine the proper"
fn a_shutdown_ack_that_is_not_answered_tries_one_path_after_the_other() {
    let mut pair = Pair::connected(3, config());
    pair.run(Duration::from_secs(1));
    pair.net.script(|sight| match sight.has(kind::SHUTDOWN_ACK) {
        true => Verdict::Drop,
        false => Verdict::Pass,
    });
    pair.forget();
    pair.shutdown(0);
    pair.run(Duration::from_secs(20));
    let kept = pair.net.trace.kept().iter();
    let acks = kept.filter(|(_, packet)| craft::has(&packet.bytes, kind::SHUTDOWN_ACK));
    let mut to: Vec<_> = acks.map(|(_, packet)| packet.to).collect();
    to.sort();
    to.dedup();
    assert_eq!(to, pair.addresses[0]);
}

#[test]
fn autoclose_counts_from_the_last_user_data() {
    let mut config = config();
    config.timers.autoclose = Some(Duration::from_secs(5));
    let mut pair = Pair::new(1, config.clone());
    pair.connect(config);
    assert!(pair.run_until(LONG, |pair| pair.both_up()));
    for _ in 0..5 {
        pair.run(Duration::from_secs(4));
        assert!(pair.both_up());
        assert!(pair.send(0, 0, &b"still here"[..]));
    }
    pair.run(Duration::from_millis(5200));
    assert_eq!(pair.closed, [Some(CloseReason::Shutdown), Some(CloseReason::Shutdown)]);
}

/// All sent data is acknowledged while an expired message is still queued. No other event would continue
/// the shutdown.
#[test]
fn a_message_that_expires_last_does_not_hold_the_end_up() {
    for node in 0..2 {
        for lifetime in (1..250).map(Duration::from_millis) {
            let mut config = config();
            config.set("initial_cwnd", "1 mtus").unwrap();
            let mut pair = Pair::connected(1, config);
            // It fills the congestion window.
            let full = pair.statistics(0).paths[0].cwnd - Data::HEADER_LEN;
            assert!(pair.send(0, 0, vec![1; full]));
            let mut late = OutgoingMessage::new(0, Ppid(0), vec![2; 10]);
            late.reliability = Reliability::Lifetime(lifetime);
            let now = pair.net.now();
            pair.association_mut(0).send(now, late).unwrap();
            pair.shutdown(node);
            graceful(&mut pair);
            assert!(pair.received_len(1) >= full);
        }
    }
}
