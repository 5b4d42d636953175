//! Interleaved messages (RFC 8260): who offers them, and messages of one association that are taken in parts at once.
#![cfg(all(feature = "driver", target_os = "linux"))]

mod common;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use anabranch::config::SchedulerKind;
use anabranch_sockets::{
    AssocId, Error, Event, EventKind, InterleavingSupported, PartialDeliveryPoint, ReceiveBuffer,
    Receiving, SendFlags, SendInfo, Socket, StreamScheduler, Style, Taken,
};
use common::{client, host, socket, subscribe};

const ONLY: AssocId = AssocId::FUTURE;

fn wants_interleaving(socket: &Socket) {
    socket.set_fragment_interleave(2).unwrap();
    socket.set_interleaving(ONLY, true).unwrap();
}

/// A listening socket, a client that is connected to it, and the accepted socket.
fn ends(prepare: impl Fn(&Socket, bool)) -> [Arc<Socket>; 3] {
    let host = host();
    let server = socket(&host, Style::OneToOne);
    prepare(&server, true);
    server.bind(&[SocketAddr::from((Ipv4Addr::LOCALHOST, 0))]).unwrap();
    server.listen(1).unwrap();
    let client = client(&host, Style::OneToOne, &server);
    prepare(&client, false);
    client.connect(vec![server.name()]).unwrap();
    let (accepted, _) = server.accept(false).unwrap();
    [server, client, accepted]
}

/// The same, where long messages are interleaved and taken in parts.
fn ends_in_parts() -> [Arc<Socket>; 3] {
    let ends = ends(|socket, is_server| {
        wants_interleaving(socket);
        socket.set_option(ONLY, &StreamScheduler(SchedulerKind::RoundRobin)).unwrap();
        if is_server {
            socket.set_option(ONLY, &ReceiveBuffer(20_000)).unwrap();
            socket.set_option(ONLY, &PartialDeliveryPoint(2_000)).unwrap();
        }
    });
    subscribe(&ends[2], &[EventKind::PartialDelivery]);
    ends
}

/// Sends on a stream as much of a letter as this, and does not wait.
fn send(client: &Arc<Socket>, stream: u16, letter: &str, length: usize) {
    let mut sending = client.message(letter.repeat(length), &[]);
    sending.info(SendInfo { stream, ..SendInfo::default() }).unwrap();
    sending.send(false).unwrap();
}

#[test]
fn both_sides_must_offer_it() {
    for wants in [[true, true], [true, false], [false, true]] {
        let [server, client, accepted] = ends(|socket, is_server| {
            if wants[usize::from(!is_server)] {
                wants_interleaving(socket);
            }
        });
        let agreed = wants == [true, true];
        assert_eq!(client.interleaving(ONLY), Ok(agreed));
        assert_eq!(accepted.interleaving(ONLY), Ok(agreed));
        assert_eq!(server.interleaving(ONLY), Ok(wants[0]), "for future associations");
        client.set_fragment_interleave(2).unwrap();
        assert_eq!(client.set_interleaving(ONLY, !wants[1]), Err(Error::NotSupported));
    }
}

#[test]
fn it_is_not_offered_to_a_program_that_cannot_handle_it() {
    let [server, client, accepted] = ends(|socket, is_server| {
        for level in 0..2 {
            socket.set_fragment_interleave(level).unwrap();
            assert_eq!(socket.set_interleaving(ONLY, true), Err(Error::NotPermitted));
        }
        assert_eq!(socket.set_fragment_interleave(3), Err(Error::NotSupported));
        assert_eq!(socket.set_fragment_interleave(-1), Err(Error::NotSupported));
        // It may be on by the options of a host.
        socket.set_option(ONLY, &InterleavingSupported(true)).unwrap();
        if is_server {
            socket.set_fragment_interleave(2).unwrap();
        }
    });
    assert_eq!(client.interleaving(ONLY), Ok(false));
    assert_eq!(accepted.interleaving(ONLY), Ok(false));
    // A listening socket learns what it offers.
    for (level, offers) in [(1, false), (2, true)] {
        server.set_fragment_interleave(level).unwrap();
        let host = host();
        let other = common::client(&host, Style::OneToOne, &server);
        wants_interleaving(&other);
        other.connect(vec![server.name()]).unwrap();
        assert_eq!(other.interleaving(ONLY), Ok(offers), "level {level}");
    }
}

#[test]
fn messages_of_several_streams_are_taken_in_parts_at_once() {
    let [_server, client, accepted] = ends_in_parts();
    let letters = ["a", "b", "c"];
    for (stream, letter) in (0..3).zip(letters) {
        send(&client, stream, letter, 60_000);
    }
    let (mut taken, mut begun, mut alternates) = (BTreeMap::<u16, usize>::new(), Vec::new(), false);
    while taken.len() < 3 || taken.values().any(|bytes| *bytes < 60_000) {
        let received = accepted.receive(usize::MAX, Receiving::default()).unwrap();
        let Taken::Message { data, info, .. } = received.taken else {
            panic!("{:?}", received.taken)
        };
        let letter = letters[usize::from(info.stream)].as_bytes()[0];
        let data = data.concat();
        assert!(data.iter().all(|byte| *byte == letter), "a part of another message");
        let bytes = taken.entry(info.stream).or_default();
        *bytes += data.len();
        assert_eq!(received.end, *bytes == 60_000, "MSG_EOR");
        if begun.last() != Some(&info.stream) {
            alternates |= begun.contains(&info.stream);
            begun.push(info.stream);
        }
    }
    assert!(alternates, "{begun:?}");
}

#[test]
fn each_message_that_is_cut_short_is_reported() {
    let [_server, client, accepted] = ends_in_parts();
    for stream in 0..2 {
        send(&client, stream, "x", 60_000);
    }
    let mut seen = Vec::new();
    while seen.len() < 2 {
        let received = accepted.receive(usize::MAX, Receiving::default()).unwrap();
        let Taken::Message { info, .. } = received.taken else { panic!("{:?}", received.taken) };
        if !seen.contains(&info.stream) {
            seen.push(info.stream);
        }
    }
    let mut abort = client.message("enough", &[]);
    abort.info(SendInfo { flags: SendFlags::ABORT, ..SendInfo::default() }).unwrap();
    abort.send(false).unwrap();
    let mut cut_short = Vec::new();
    while cut_short.len() < 2 {
        let received = accepted.receive(usize::MAX, Receiving::default()).unwrap();
        match received.taken {
            Taken::Message { .. } => assert!(!received.end && cut_short.is_empty()),
            Taken::Notification { notification, .. } => match notification.event {
                Event::PartialDelivery(cut) => cut_short.push((cut.stream, cut.ssn)),
                event => panic!("{event:?}"),
            },
            Taken::End => panic!("the end"),
        }
    }
    cut_short.sort_unstable();
    assert_eq!(cut_short, [(0, 0), (1, 0)]);
}

#[test]
fn schedulers_and_the_values_of_streams_change_at_any_time() {
    let [_server, client, _accepted] = ends(|socket, _| {
        assert_eq!(socket.set_stream_value(ONLY, 1, 7), Ok(()), "before there is an association");
        assert_eq!(socket.stream_value(ONLY, 1), Ok(7));
        assert_eq!(socket.stream_value(ONLY, 2), Ok(0));
    });
    assert_eq!(client.stream_value(ONLY, 1), Ok(7));
    for kind in SchedulerKind::ALL {
        client.set_option(ONLY, &StreamScheduler(*kind)).unwrap();
        assert_eq!(client.option(ONLY), Ok(StreamScheduler(*kind)));
    }
    client.set_stream_value(ONLY, 2, 65_535).unwrap();
    assert_eq!(client.stream_value(ONLY, 2), Ok(65_535));
    assert_eq!(client.set_stream_value(ONLY, u16::MAX, 1), Err(Error::Invalid));
    assert_eq!(client.stream_value(ONLY, u16::MAX), Err(Error::Invalid));
}
