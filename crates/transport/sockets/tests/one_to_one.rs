//! Sockets of one-to-one style (RFC 6458 section 4).
#![cfg(all(feature = "driver", target_os = "linux"))]

mod common;

use std::net::{Shutdown, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anabranch_proto::{AssociationState, Ppid};
use anabranch_sockets::{
    AssocChange, AssocId, AutoClose, DelayedSack, Error, Event, EventKind, Family, InitMsg, Local,
    MaxBurst, PathParameters, Receiving, RtoInfo, SendFlags, SendInfo, Setting, Socket, Style,
    Taken,
};
use common::{change, client, host, message, notification, pair, server, socket, subscribe};

const ONLY: AssocId = AssocId::FUTURE;

#[test]
fn messages_arrive_with_what_was_said_about_them() {
    let (_server, client, accepted) = pair(&host());
    let mut sending = client.message("an order", &[]);
    let info = SendInfo { stream: 3, ppid: Ppid(46), context: 9, ..SendInfo::default() };
    sending.info(info).unwrap();
    assert_eq!(sending.send(false), Ok(8));
    accepted.change_own(ONLY, |own| own.context = 77).unwrap();
    let (data, info) = message(&accepted);
    assert_eq!(data, b"an order");
    assert_eq!((info.stream, info.ssn, info.ppid, info.context), (3, 0, Ppid(46), 77));
    assert!(!info.unordered);
    // And back, unordered.
    let mut sending = accepted.message("at once", &[]);
    sending.info(SendInfo { flags: SendFlags::UNORDERED, ..SendInfo::default() }).unwrap();
    sending.send(false).unwrap();
    let (data, info) = message(&client);
    assert!(data == b"at once" && info.unordered);
}

#[test]
fn a_message_is_taken_in_parts_and_peeked_at() {
    let (_server, client, accepted) = pair(&host());
    client.message("0123456789", &[]).send(false).unwrap();
    let peek = Receiving { peek: true, ..Receiving::default() };
    for (how, room, part, end) in [
        (peek, 100, "0123456789", true),
        (Receiving::default(), 4, "0123", false),
        (peek, 2, "45", false),
        (Receiving::default(), 6, "456789", true),
    ] {
        let received = accepted.receive(room, how).unwrap();
        let Taken::Message { data, .. } = received.taken else { panic!("a message") };
        assert_eq!((data.concat().as_slice(), received.end), (part.as_bytes(), end));
    }
}

#[test]
fn the_end_comes_after_the_data() {
    let (_server, client, accepted) = pair(&host());
    client.message("the last words", &[]).send(false).unwrap();
    client.shut_down(Shutdown::Write).unwrap();
    assert_eq!(client.message("more", &[]).send(false), Err(Error::Finished));
    assert_eq!(message(&accepted).0, b"the last words");
    let end = accepted.receive(100, Receiving::default()).unwrap();
    assert!(matches!(end.taken, Taken::End));
}

#[test]
fn an_abort_is_an_error_and_a_notification_with_its_reason() {
    let (_server, client, accepted) = pair(&host());
    subscribe(&accepted, &[EventKind::AssocChange]);
    let mut sending = client.message("enough", &[]);
    sending.info(SendInfo { flags: SendFlags::ABORT, ..SendInfo::default() }).unwrap();
    sending.send(false).unwrap();
    let (_, change) = change(&accepted);
    let AssocChange::Lost { code: 12, causes } = change else { panic!("{change:?}") };
    assert!(causes.ends_with(b"enough"), "{causes:?}");
    assert_eq!(accepted.receive(100, Receiving::default()).err(), Some(Error::Reset));
    // It is reported once.
    let end = accepted.receive(100, Receiving::default()).unwrap();
    assert!(matches!(end.taken, Taken::End));
}

#[test]
fn calls_in_the_wrong_state_say_so() {
    let host = host();
    let lonely = socket(&host, Style::OneToOne);
    assert_eq!(lonely.message("x", &[]).send(false), Err(Error::NotConnected));
    assert_eq!(lonely.receive(1, Receiving::default()).err(), Some(Error::NotConnected));
    assert_eq!(lonely.status(ONLY).err(), Some(Error::NotConnected));
    assert_eq!(lonely.peer_name(), Err(Error::NotConnected));
    assert_eq!(lonely.accept(false).err(), Some(Error::Invalid));
    assert_eq!(lonely.connect(Vec::new()), Err(Error::Invalid));
    assert_eq!(lonely.peel_off(AssocId(3)).err(), Some(Error::NotSupported));
    let v6: SocketAddr = "[::1]:7".parse().unwrap();
    assert_eq!(lonely.bind(&[v6]), Err(Error::WrongFamily));
    let far: SocketAddr = "192.0.2.1:0".parse().unwrap();
    assert_eq!(lonely.bind(&[far]), Err(Error::AddressNotAvailable));
    assert_eq!(lonely.close(), Ok(()));
    assert_eq!(lonely.close(), Err(Error::Closed));
    assert_eq!(lonely.receive(1, Receiving::default()).err(), Some(Error::Closed));

    let (server, client, accepted) = pair(&host);
    assert_eq!(client.connect(vec![server.name()]), Err(Error::AlreadyConnected));
    assert_eq!(client.listen(1), Err(Error::AlreadyConnected));
    assert_eq!(client.message("", &[]).send(false), Err(Error::Invalid));
    let dont_wait = Receiving { dont_wait: true, ..Receiving::default() };
    assert_eq!(accepted.receive(1, dont_wait).err(), Some(Error::WouldBlock));
    server.set_nonblocking(true).unwrap();
    assert_eq!(server.accept(false).err(), Some(Error::WouldBlock));
    let second = Socket::new(&host, Style::OneToOne, Family::Ipv4).unwrap();
    second.change_options(|options| options.udp_port = Some(server.udp_port()));
    second.bind(&[server.name()]).unwrap();
    assert_eq!(second.listen(1), Err(Error::AddressInUse));
}

#[test]
fn a_peer_that_does_not_listen_refuses() {
    let host = host();
    let server = server(&host, Style::OneToOne);
    let client = client(&host, Style::OneToOne, &server);
    let mut closed = server.name();
    closed.set_port(server.name().port() ^ 1);
    subscribe(&client, &[EventKind::AssocChange]);
    assert_eq!(client.connect(vec![closed]), Err(Error::Refused));
    let (_, change) = change(&client);
    assert!(matches!(change, AssocChange::CannotStart(Error::Refused)), "{change:?}");
    // The socket can connect elsewhere.
    client.connect(vec![server.name()]).unwrap();
}

#[test]
fn names_and_states_are_those_of_both_ends() {
    let (server, client, accepted) = pair(&host());
    assert_eq!(client.peer_name(), Ok(server.name()));
    assert_eq!(accepted.name(), server.name());
    assert_eq!(client.peer_addresses(ONLY), Ok(vec![server.name()]));
    assert!(accepted.peer_addresses(ONLY).unwrap().contains(&accepted.peer_name().unwrap()));
    let status = client.status(ONLY).unwrap();
    assert_eq!(status.state, AssociationState::Established);
    assert_eq!(status.primary.address, server.name());
    assert!(status.fragmentation_point > 500 && status.primary.cwnd > 0);
    assert_eq!(client.path_info(ONLY, server.name()).unwrap().address, server.name());
    assert!(client.totals(ONLY).unwrap().packets_sent > 0);
    assert_eq!(client.remote_udp_port(ONLY, None), Ok(server.udp_port()));
}

#[test]
fn options_are_checked_and_come_back() {
    let (_server, client, _accepted) = pair(&host());
    let time = Duration::from_millis;
    let rto = RtoInfo { initial: Some(time(300)), max: Some(time(900)), min: Some(time(200)) };
    client.set_option(ONLY, &rto).unwrap();
    assert_eq!(client.option(ONLY), Ok(rto));
    let wrong = RtoInfo { min: Some(time(1000)), ..RtoInfo::default() };
    assert_eq!(client.set_option(ONLY, &wrong), Err(Error::Invalid));
    assert_eq!(client.option(ONLY), Ok(rto), "nothing was changed");
    let sack = DelayedSack { delay: Some(time(501)), ..DelayedSack::default() };
    assert_eq!(client.set_option(ONLY, &sack), Err(Error::Invalid));
    client.set_option(ONLY, &MaxBurst(Some(7))).unwrap();
    assert_eq!(client.option(ONLY), Ok(MaxBurst(Some(7))));
    // Values negotiated in the handshake can no longer change.
    let init = InitMsg { outbound_streams: Some(5), ..InitMsg::default() };
    assert_eq!(client.set_option(ONLY, &init), Err(Error::NotSupported));
    assert_eq!(client.set_option(ONLY, &AutoClose(None)), Err(Error::NotSupported));
    assert_eq!(client.set_mapped(true), Err(Error::Invalid));
    assert_eq!(client.set_named(ONLY, "no_such", "1"), Err(Error::NoSuchOption));
    assert_eq!(client.set_named(ONLY, "rto_min", "soon"), Err(Error::Invalid));
}

/// As in a kernel: netperfmeter sets SCTP_INITMSG after `listen`.
#[test]
fn options_of_the_handshake_change_on_a_listening_socket() {
    let host = host();
    let (server, first, accepted) = pair(&host);
    let init = |streams| InitMsg { outbound_streams: Some(streams), ..InitMsg::default() };
    server.set_option(ONLY, &init(3)).unwrap();
    assert_eq!(server.option::<InitMsg>(ONLY).unwrap().outbound_streams, Some(3));
    assert_eq!(server.set_option(ONLY, &init(0)), Err(Error::Invalid));
    let second = client(&host, Style::OneToOne, &server);
    second.connect(vec![server.name()]).unwrap();
    let (of_second, _) = server.accept(false).unwrap();
    assert_eq!(second.status(ONLY).unwrap().inbound_streams, 3);
    assert_eq!(of_second.status(ONLY).unwrap().outbound_streams, 3);
    // The one from before keeps what it has.
    assert_ne!(accepted.status(ONLY).unwrap().outbound_streams, 3);
    first.message("still here", &[]).send(false).unwrap();
    assert_eq!(message(&accepted).0, b"still here");
}

/// Two paths for programs that bind one address.
#[test]
fn all_associations_get_the_addresses_of_the_option() {
    let host = host();
    let addresses =
        |text: [&str; 2]| text.map(|ip| Local { ip: ip.parse().unwrap(), link: None }).to_vec();
    let server = socket(&host, Style::OneToOne);
    server.change_options(|options| options.addresses = addresses(["127.0.0.1", "127.0.0.2"]));
    let at = |ip: &str| SocketAddr::new(ip.parse().unwrap(), 0);
    assert_eq!(server.bind(&[at("127.0.0.3")]), Err(Error::AddressNotAvailable));
    server.bind(&[at("127.0.0.2")]).unwrap();
    server.listen(5).unwrap();
    let ips = |addresses: Vec<SocketAddr>| addresses.iter().map(SocketAddr::ip).collect::<Vec<_>>();
    let both = [at("127.0.0.1").ip(), at("127.0.0.2").ip()];
    assert_eq!(ips(server.local_addresses(ONLY).unwrap()), both);
    let client = client(&host, Style::OneToOne, &server);
    client.change_options(|options| options.addresses = addresses(["127.0.0.3", "127.0.0.4"]));
    client.connect(vec![server.name()]).unwrap();
    let mut known = ips(client.peer_addresses(ONLY).unwrap());
    known.sort_unstable();
    assert_eq!(known, both);
    let lonely = Socket::new(&host, Style::OneToOne, Family::Ipv4).unwrap();
    lonely.change_options(|options| options.addresses = addresses(["::1", "::2"]));
    assert_eq!(lonely.connect(vec![server.name()]), Err(Error::AddressNotAvailable));
}

#[test]
fn options_of_paths_need_an_address_of_the_peer() {
    let (server, client, _accepted) = pair(&host());
    let peer = server.name().ip();
    let parameters = PathParameters { sack_delay: Setting::Off, ..PathParameters::default() };
    client.set_path_parameters(ONLY, Some(peer), &parameters).unwrap();
    let delay = client.option::<DelayedSack>(ONLY).unwrap().delay;
    assert_eq!(delay, Some(Duration::ZERO));
    let other = "192.0.2.1".parse().unwrap();
    let refused = client.set_path_parameters(ONLY, Some(other), &parameters);
    assert_eq!(refused, Err(Error::NotSupported));
    assert_eq!(client.request_heartbeat(ONLY, peer), Ok(()));
    assert_eq!(client.request_heartbeat(ONLY, other), Err(Error::Invalid));
    assert_eq!(client.set_primary(ONLY, peer), Ok(()));
    assert_eq!(client.set_primary(ONLY, other), Err(Error::Invalid));
}

#[test]
fn a_closed_socket_takes_what_its_peer_has_sent() {
    let host = host();
    let (server, client, accepted) = pair(&host);
    client.change_options(|options| options.send_timeout = Some(Duration::from_millis(500)));
    // Until neither side has room.
    while client.message(vec![0; 50_000], &[]).send(false).is_ok() {}
    drop((server, accepted));
    drop(client);
    assert!(host.finish(Some(Duration::from_secs(60))));
}

#[test]
fn a_socket_that_is_dropped_is_closed() {
    let host = host();
    let (server, client, accepted) = pair(&host);
    subscribe(&accepted, &[EventKind::Shutdown]);
    client.message("goodbye", &[]).send(false).unwrap();
    drop(client);
    assert_eq!(message(&accepted).0, b"goodbye");
    assert!(matches!(notification(&accepted).event, Event::Shutdown));
    // A listening socket is closed, too, without waiting.
    drop((server, accepted));
    assert!(host.finish(Some(Duration::from_secs(60))));
    assert_eq!(Arc::strong_count(&host), 1);
}

#[test]
fn notifications_can_be_taken_as_bytes() {
    let (_server, client, accepted) = pair(&host());
    subscribe(&accepted, &[EventKind::Shutdown]);
    client.shut_down(Shutdown::Write).unwrap();
    let mut parts = Vec::new();
    loop {
        let received = accepted.receive_bytes(5, Receiving::default(), |_| 12).unwrap();
        let Taken::Notification { notification, part } = received.taken else { panic!("part") };
        assert!(matches!(notification.event, Event::Shutdown));
        parts.push(part);
        if received.end {
            break;
        }
        assert_eq!(accepted.next_length(|_| 12), 12 - parts.last().unwrap().end);
    }
    assert_eq!(parts, [0..5, 5..10, 10..12]);
}
