//! Sockets of one-to-many style (RFC 6458 section 3).
#![cfg(all(feature = "driver", target_os = "linux"))]

mod common;

use std::future::Future as _;
use std::net::{Ipv4Addr, Shutdown, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use anabranch::Association;
use anabranch_proto::Ppid;
use anabranch_sockets::{
    AssocChange, AssocId, AutoClose, Error, Event, EventKind, Hooks, Host, InitMsg, MaxBurst,
    PartialDeliveryPoint, ReceiveBuffer, Receiving, SendFlags, SendInfo, Socket, Style, Taken,
};
use common::{change, client, host, message, notification, server, socket, subscribe};

/// A message to an association.
fn to(id: AssocId) -> SendInfo {
    SendInfo { id, ..SendInfo::default() }
}

#[test]
fn a_message_sets_the_association_up() {
    let host = host();
    let server = server(&host, Style::OneToMany);
    let client = client(&host, Style::OneToMany, &server);
    subscribe(&client, &[EventKind::AssocChange]);
    let mut sending = client.message("hello", &[server.name()]);
    let init = InitMsg { outbound_streams: Some(2), ..InitMsg::default() };
    sending.init(&init).unwrap();
    sending.info(SendInfo { stream: 1, ..SendInfo::default() }).unwrap();
    sending.send(false).unwrap();
    let (id, change) = change(&client);
    assert!(matches!(change, AssocChange::Up { outbound_streams: 2, .. }), "{change:?}");
    assert_eq!(client.ids(), [id]);
    assert_eq!(client.id_of(server.name()), Ok(id));
    // The server replies by the association id on its side.
    let (data, info) = message(&server);
    assert_eq!((data.as_slice(), info.stream), (&b"hello"[..], 1));
    let mut answer = server.message("hello yourself", &[]);
    answer.info(SendInfo { ppid: Ppid(5), ..to(info.id) }).unwrap();
    answer.send(false).unwrap();
    let (data, info) = message(&client);
    assert_eq!((data.as_slice(), info.ppid, info.id), (&b"hello yourself"[..], Ppid(5), id));
}

/// Takes all events that there are.
#[derive(Debug)]
struct Reader;

impl Hooks for Reader {
    fn established(&self, association: &Association, _accepted: bool) {
        let mut events = association.events();
        let mut context = Context::from_waker(Waker::noop());
        while pin!(events.next()).poll(&mut context).is_ready() {}
    }
}

#[test]
fn who_watches_associations_takes_no_event_from_their_sockets() {
    let host = Host::start_with(Arc::new(Reader)).unwrap();
    let server = server(&host, Style::OneToMany);
    let client = client(&host, Style::OneToMany, &server);
    subscribe(&server, &[EventKind::AssocChange]);
    subscribe(&client, &[EventKind::AssocChange]);
    client.message("hello", &[server.name()]).send(false).unwrap();
    for socket in [&client, &server] {
        assert!(matches!(change(socket), (_, AssocChange::Up { .. })));
    }
}

#[test]
fn an_association_ends_gracefully_with_notifications() {
    let host = host();
    let server = server(&host, Style::OneToMany);
    let client = client(&host, Style::OneToMany, &server);
    subscribe(&client, &[EventKind::AssocChange, EventKind::Shutdown]);
    let id = client.connect(vec![server.name()]).unwrap();
    assert!(matches!(change(&client), (up, AssocChange::Up { .. }) if up == id));
    // Nothing is left to be sent.
    subscribe(&client, &[EventKind::SenderDry]);
    assert!(matches!(notification(&client).event, Event::SenderDry));
    client.message("all", &[server.name()]).send(false).unwrap();
    assert!(matches!(notification(&client).event, Event::SenderDry));
    let (_, info) = message(&server);
    let mut end = server.message("", &[]);
    end.info(SendInfo { flags: SendFlags::EOF, ..to(info.id) }).unwrap();
    end.send(false).unwrap();
    assert!(matches!(notification(&client).event, Event::Shutdown));
    let (ended, change) = change(&client);
    assert!(ended == id && matches!(change, AssocChange::ShutdownComplete), "{change:?}");
    assert_eq!(client.ids(), []);
    assert_eq!(client.status(id).err(), Some(Error::Invalid));
}

#[test]
fn a_peeled_off_association_is_a_socket_of_its_own() {
    let host = host();
    let server = server(&host, Style::OneToMany);
    let clients = [(); 2].map(|()| client(&host, Style::OneToOne, &server));
    for client in &clients {
        client.connect(vec![server.name()]).unwrap();
        client.message("first", &[]).send(false).unwrap();
    }
    let (_, one) = message(&server);
    let peeled = server.peel_off(one.id).unwrap();
    assert_eq!(server.peel_off(one.id).err(), Some(Error::Invalid));
    assert_eq!(peeled.style(), Style::OneToOne);
    assert_eq!(server.ids().len(), 1);
    let port = peeled.peer_name().unwrap().port();
    let [peer, other] = &clients;
    let (peer, other) = if peer.name().port() == port { (peer, other) } else { (other, peer) };
    peer.message("to the new one", &[]).send(false).unwrap();
    assert_eq!(message(&peeled).0, b"to the new one");
    other.message("to the old one", &[]).send(false).unwrap();
    assert_eq!(message(&server).0, b"first");
    assert_eq!(message(&server).0, b"to the old one");
}

#[test]
fn a_message_can_go_to_all() {
    let host = host();
    let server = server(&host, Style::OneToMany);
    let clients = [(); 3].map(|()| client(&host, Style::OneToOne, &server));
    for client in &clients {
        client.connect(vec![server.name()]).unwrap();
        client.message("here", &[]).send(false).unwrap();
        message(&server);
    }
    let mut sending = server.message("news", &[]);
    sending.info(SendInfo { flags: SendFlags::SEND_ALL, ..SendInfo::default() }).unwrap();
    sending.send(false).unwrap();
    clients.iter().for_each(|client| assert_eq!(message(client).0, b"news"));
}

#[test]
fn a_message_that_cannot_be_sent_comes_back() {
    let host = host();
    let server = server(&host, Style::OneToMany);
    let client = client(&host, Style::OneToMany, &server);
    subscribe(&client, &[EventKind::AssocChange, EventKind::SendFailedEvent]);
    let mut closed = server.name();
    closed.set_port(server.name().port() ^ 1);
    let mut sending = client.message("come back", &[closed]);
    sending.info(SendInfo { stream: 4, context: 99, ..SendInfo::default() }).unwrap();
    sending.send(false).unwrap();
    let (_, change) = change(&client);
    assert!(matches!(change, AssocChange::CannotStart(Error::Refused)), "{change:?}");
    let event = notification(&client).event;
    assert_eq!(&event.data()[..], b"come back");
    let Event::SendFailedEvent(failed) = event else { panic!("{event:?}") };
    assert!(!failed.sent);
    assert_eq!((failed.message.stream, failed.message.context), (4, 99));
}

#[test]
fn each_association_has_options_of_its_own() {
    let host = host();
    let servers = [(); 2].map(|()| server(&host, Style::OneToMany));
    let client = socket(&host, Style::OneToMany);
    let [one, other] = servers.each_ref().map(|server| {
        client.set_remote_udp_port(AssocId::FUTURE, server.udp_port()).unwrap();
        client.connect(vec![server.name()]).unwrap()
    });
    assert_ne!(one, other);
    client.set_option(one, &MaxBurst(Some(9))).unwrap();
    assert_eq!(client.option(one), Ok(MaxBurst(Some(9))));
    assert_ne!(client.option(other), Ok(MaxBurst(Some(9))));
    client.set_option(AssocId::CURRENT, &MaxBurst(Some(3))).unwrap();
    assert_eq!(client.option(other), Ok(MaxBurst(Some(3))));
    assert_ne!(client.option(AssocId::FUTURE), Ok(MaxBurst(Some(3))));
    client.set_option(AssocId::ALL, &AutoClose(Some(Duration::from_secs(600)))).unwrap();
    client.change_own(other, |own| own.default_send.stream = 6).unwrap();
    for (server, stream) in servers.iter().zip([0, 6]) {
        client.message("by default", &[server.name()]).send(false).unwrap();
        assert_eq!(message(server).1.stream, stream);
    }
    assert_eq!(client.set_option(AssocId(4321), &MaxBurst(None)), Err(Error::Invalid));
    assert_eq!(client.set_remote_udp_port(one, 1), Err(Error::NotSupported));
    assert_eq!(client.set_remote_udp_port(AssocId::ALL, 1), Err(Error::Invalid));
}

#[test]
fn calls_that_need_one_association_are_refused() {
    let host = host();
    let lonely = socket(&host, Style::OneToMany);
    assert_eq!(lonely.accept(false).err(), Some(Error::NotSupported));
    assert_eq!(lonely.shut_down(Shutdown::Write), Err(Error::NotSupported));
    assert_eq!(lonely.peer_name(), Err(Error::NotSupported));
    assert_eq!(lonely.message("x", &[]).send(false), Err(Error::NotConnected));
    assert_eq!(lonely.receive(1, Receiving::default()).err(), Some(Error::NotConnected));
    assert_eq!(lonely.peer_addresses(AssocId(9)).err(), Some(Error::Invalid));
    assert_eq!(lonely.peel_off(AssocId(9)).err(), Some(Error::Invalid));
}

/// A thread stops listening while another one begins again. The first once waited for the second one's listener to end.
#[test]
fn threads_may_disagree_on_listening() {
    let host = host();
    let socket = socket(&host, Style::OneToMany);
    let stops = socket.clone();
    let thread = std::thread::spawn(move || {
        for _ in 0..500 {
            stops.listen(0).unwrap();
            std::thread::yield_now();
        }
    });
    while !thread.is_finished() {
        // The port may still be in use.
        let _ = socket.listen(1);
    }
    thread.join().unwrap();
    socket.close().unwrap();
}

/// Sends so much that the server, which has little room, gets it in parts.
fn send_long(client: &Arc<Socket>, server: &Socket) {
    client.message(vec![7; 60_000], &[server.name()]).send(false).unwrap();
}

/// Sends a message, and waits until it was acknowledged.
fn deliver(client: &Arc<Socket>, server: &Socket, text: &'static str) {
    client.message(text, &[server.name()]).send(false).unwrap();
    assert!(matches!(notification(client).event, Event::SenderDry));
}

#[test]
fn at_level_0_others_wait_for_the_end_of_a_message() {
    let host = host();
    let server = socket(&host, Style::OneToMany);
    server.set_fragment_interleave(0).unwrap();
    server.set_option(AssocId::FUTURE, &ReceiveBuffer(20_000)).unwrap();
    server.set_option(AssocId::FUTURE, &PartialDeliveryPoint(2_000)).unwrap();
    server.bind(&[SocketAddr::from((Ipv4Addr::LOCALHOST, 0))]).unwrap();
    server.listen(5).unwrap();
    let [long, short] = [(); 2].map(|()| client(&host, Style::OneToMany, &server));
    short.subscribe(AssocId::ALL, EventKind::SenderDry, true).unwrap();
    let take = || {
        let received = server.receive(usize::MAX, Receiving::default()).unwrap();
        let Taken::Message { data, info, .. } = received.taken else { panic!("{received:?}") };
        (data.concat(), info.id, received.end)
    };

    send_long(&long, &server);
    let (first, id, mut end) = take();
    let mut bytes = first.len();
    assert!(!end);
    deliver(&short, &server, "b");
    while !end {
        let (data, from, is_end) = take();
        assert_eq!(from, id, "{bytes} bytes have come");
        (bytes, end) = (bytes + data.len(), is_end);
    }
    assert_eq!(bytes, 60_000);
    assert_eq!(take().0, b"b");

    // The rest does not come.
    send_long(&long, &server);
    assert!(!take().2);
    deliver(&short, &server, "c");
    let mut abort = long.message("", &[server.name()]);
    abort.info(SendInfo { flags: SendFlags::ABORT, ..SendInfo::default() }).unwrap();
    abort.send(false).unwrap();
    let last = loop {
        let (data, from, end) = take();
        if from != id {
            break (data, end);
        }
        assert!(!end);
    };
    assert_eq!(last, (b"c".to_vec(), true));
}
