//! Messages that are given up (RFC 7496), and messages whose rest does not come (RFC 6458 section 6.1.7).
#![cfg(all(feature = "driver", target_os = "linux"))]

mod common;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anabranch::Reliability;
use anabranch_sockets::{
    AssocId, CutShort, Error, Event, EventKind, GivenUp, PartialDeliveryPoint, PrSupported,
    ReceiveBuffer, Receiving, SendBuffer, SendFlags, SendInfo, Socket, Style, Taken,
};
use common::{client, host, message, notification, socket, subscribe};

const ONLY: AssocId = AssocId::FUTURE;

/// A server whose receive buffer is small, its client, whose send buffer is small, and the accepted socket. Both sides
/// may offer partial reliability.
fn small(offers: [bool; 2]) -> [Arc<Socket>; 3] {
    let host = host();
    let server = socket(&host, Style::OneToOne);
    server.set_option(ONLY, &ReceiveBuffer(5_000)).unwrap();
    server.set_option(ONLY, &PartialDeliveryPoint(2_000)).unwrap();
    server.set_option(ONLY, &PrSupported(offers[0])).unwrap();
    server.bind(&[SocketAddr::from((Ipv4Addr::LOCALHOST, 0))]).unwrap();
    server.listen(1).unwrap();
    let client = client(&host, Style::OneToOne, &server);
    client.set_option(ONLY, &SendBuffer(20_000)).unwrap();
    client.set_option(ONLY, &PrSupported(offers[1])).unwrap();
    client.connect(vec![server.name()]).unwrap();
    let (accepted, _) = server.accept(false).unwrap();
    [server, client, accepted]
}

/// Sends a thousand times this letter, without waiting.
fn send(
    socket: &Arc<Socket>,
    stream: u16,
    letter: &str,
    reliability: Reliability,
) -> Result<usize, Error> {
    let mut sending = socket.message(letter.repeat(1000), &[]);
    sending.info(SendInfo { stream, ..SendInfo::default() })?;
    sending.reliability(reliability);
    sending.send(true)
}

/// Sends messages until neither side has room.
fn fill(client: &Arc<Socket>, letter: &str, reliability: Reliability) -> usize {
    let (mut sent, mut idle) = (0, 0);
    while idle < 3 {
        match send(client, 0, letter, reliability) {
            Ok(_) => (sent, idle) = (sent + 1, 0),
            Err(error) => {
                assert_eq!(error, Error::WouldBlock);
                std::thread::sleep(Duration::from_millis(50));
                idle += 1;
            }
        }
    }
    sent
}

#[test]
fn both_sides_must_offer_it() {
    for offers in [[true, true], [true, false], [false, true]] {
        let [server, client, accepted] = small(offers);
        let agreed = offers == [true, true];
        assert_eq!(client.partial_reliability(ONLY), Ok(agreed));
        assert_eq!(accepted.partial_reliability(ONLY), Ok(agreed));
        assert_eq!(server.partial_reliability(ONLY), Ok(offers[0]), "for future associations");
        assert_eq!(client.set_option(ONLY, &PrSupported(!offers[1])), Err(Error::NotSupported));
    }
}

#[test]
fn a_more_important_message_takes_the_place_of_those_that_wait() {
    let [_server, client, accepted] = small([true, true]);
    let sent = fill(&client, "l", Reliability::Priority(5));
    subscribe(&client, &[EventKind::SendFailedEvent]);
    let important = Reliability::Priority(1);
    assert_eq!(send(&client, 0, "l", Reliability::Priority(5)), Err(Error::WouldBlock), "equal");
    assert_eq!(send(&client, 0, "f", Reliability::Full), Err(Error::WouldBlock));
    // First that of the one that waits outside of the send buffer, because it is on the same stream.
    let mut more = 0;
    while send(&client, 0, "h", important).is_ok() {
        more += 1;
    }
    // The important ones are the last of their stream: when all of them are here, no more is given up. A message may
    // arrive in two parts, because the receive buffer is small.
    let mut letters = Vec::new();
    while letters.iter().filter(|letter| **letter == b'h').count() < more * 1000 {
        letters.extend(message(&accepted).0);
    }
    let count = |policy, stream| client.given_up(ONLY, policy, stream);
    let failed = (sent + more - letters.len() / 1000) as u64;
    assert!(failed >= 2, "{failed} failed");
    let expected = Ok(GivenUp { unsent: failed, sent: 0 });
    assert_eq!(count(SendFlags::POLICY_PRIORITY, Some(0)), expected);
    assert_eq!(count(SendFlags::POLICY_ALL, None), expected);
    assert_eq!(count(SendFlags::POLICY_PRIORITY, Some(1)), Ok(GivenUp::default()));
    assert_eq!(count(SendFlags::POLICY_LIFETIME, None), Ok(GivenUp::default()));
    assert_eq!(count(SendFlags::POLICY_ALL, Some(65_535)), Err(Error::Invalid));
    assert_eq!(count(SendFlags::UNORDERED, None), Err(Error::Invalid));
    let is_failure = |event| matches!(event, Event::SendFailedEvent(failed) if !failed.sent);
    for _ in 0..failed {
        assert!(is_failure(notification(&client).event));
    }
    assert!(letters.ends_with(&vec![b'h'; more * 1000]), "the order of the stream");
}

#[test]
fn a_message_of_another_stream_overtakes_the_one_that_waits() {
    let [_server, client, accepted] = small([true, true]);
    fill(&client, "l", Reliability::Priority(5));
    send(&client, 0, "h", Reliability::Priority(1)).unwrap();
    // What waits then outside of the send buffer is reliable, and the buffer is full of what is less important.
    fill(&client, "f", Reliability::Full);
    let before = client.given_up(ONLY, SendFlags::POLICY_PRIORITY, Some(0)).unwrap();
    let mut sending = client.message("i", &[]);
    sending.info(SendInfo { stream: 1, ..SendInfo::default() }).unwrap();
    sending.reliability(Reliability::Priority(4));
    assert_eq!(sending.send(false), Ok(1));
    let given_up = client.given_up(ONLY, SendFlags::POLICY_PRIORITY, Some(0)).unwrap();
    assert!(given_up.unsent > before.unsent, "{given_up:?}");
    while message(&accepted).0[0] != b'i' {}
}

#[test]
fn the_parts_of_a_message_come_before_the_report_that_the_rest_does_not() {
    let [_server, client, accepted] = small([true, true]);
    subscribe(&accepted, &[EventKind::PartialDelivery]);
    subscribe(&client, &[EventKind::SendFailedEvent]);
    let mut sending = client.message(vec![7; 60_000], &[]);
    sending.reliability(Reliability::Lifetime(Duration::from_millis(100)));
    sending.send(false).unwrap();
    // The server reads nothing, so that the rest cannot leave.
    let event = notification(&client).event;
    assert!(matches!(event, Event::SendFailedEvent(failed) if failed.sent));
    let given_up = client.given_up(ONLY, SendFlags::POLICY_LIFETIME, Some(0));
    assert_eq!(given_up, Ok(GivenUp { unsent: 0, sent: 1 }));
    client.message("next", &[]).send(false).unwrap();
    let mut bytes = 0;
    let cut_short = loop {
        let received = accepted.receive(usize::MAX, Receiving::default()).unwrap();
        match received.taken {
            Taken::Message { data, .. } => {
                assert!(!received.end && data.concat().iter().all(|byte| *byte == 7));
                bytes += data.concat().len();
            }
            Taken::Notification { notification, .. } => break notification.event,
            Taken::End => panic!("the end"),
        }
    };
    assert!((1..60_000).contains(&bytes), "{bytes}");
    let expected = CutShort { stream: 0, ssn: 0, unordered: false };
    assert!(matches!(cut_short, Event::PartialDelivery(cut) if cut == expected), "{cut_short:?}");
    let (data, info) = message(&accepted);
    assert_eq!((data.as_slice(), info.ssn), (&b"next"[..], 1));
}

#[test]
fn the_end_cuts_a_message_short_too() {
    let [_server, client, accepted] = small([false, false]);
    subscribe(&accepted, &[EventKind::PartialDelivery, EventKind::AssocChange]);
    client.message(vec![7; 60_000], &[]).send(false).unwrap();
    let first = accepted.receive(usize::MAX, Receiving::default()).unwrap();
    assert!(matches!(first.taken, Taken::Message { .. }) && !first.end);
    let mut abort = client.message("enough", &[]);
    abort.info(SendInfo { flags: SendFlags::ABORT, ..SendInfo::default() }).unwrap();
    abort.send(false).unwrap();
    let cut_short = loop {
        match accepted.receive(usize::MAX, Receiving::default()).unwrap().taken {
            Taken::Message { .. } => {}
            Taken::Notification { notification, .. } => break notification.event,
            Taken::End => panic!("the end"),
        }
    };
    assert!(matches!(cut_short, Event::PartialDelivery(_)), "{cut_short:?}");
    assert!(matches!(notification(&accepted).event, Event::AssocChange(_)));
}

#[test]
fn a_policy_among_the_flags_has_the_default_value() {
    let [_server, client, _accepted] = small([true, true]);
    let flags = SendFlags::POLICY_RETRANSMISSIONS;
    let with = |default| {
        client.change_own(ONLY, |own| own.default_reliability = default).unwrap();
        let mut sending = client.message("x", &[]);
        sending.info(SendInfo { flags, ..SendInfo::default() }).and_then(|()| sending.send(false))
    };
    assert_eq!(with(Reliability::Retransmissions(3)), Ok(1));
    assert_eq!(with(Reliability::Lifetime(Duration::from_secs(65))), Ok(1));
    assert_eq!(with(Reliability::Lifetime(Duration::from_secs(66))), Err(Error::Invalid));
    // SCTP_PRINFO comes first, whatever the default is.
    let mut sending = client.message("x", &[]);
    sending.reliability(Reliability::Full);
    sending.info(SendInfo { flags, ..SendInfo::default() }).unwrap();
    assert_eq!(sending.send(false), Ok(1));
}
