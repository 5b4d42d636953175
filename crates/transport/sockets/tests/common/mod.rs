//! Both ends of associations in one process, over UDP on loopback.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anabranch_sockets::{
    AssocChange, AssocId, Event, EventKind, Family, Host, Notification, Receiving, Socket, Style,
    Taken,
};

/// After this time a blocked test fails instead of hanging.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn host() -> Arc<Host> {
    Host::start().unwrap()
}

/// A socket on its own UDP port.
pub(crate) fn socket(host: &Arc<Host>, style: Style) -> Arc<Socket> {
    let socket = Socket::new(host, style, Family::Ipv4).unwrap();
    socket.change_options(|options| {
        options.udp_port = Some(0);
        options.receive_timeout = Some(PATIENCE);
        options.send_timeout = Some(PATIENCE);
    });
    socket
}

/// A socket that listens on loopback.
pub(crate) fn server(host: &Arc<Host>, style: Style) -> Arc<Socket> {
    let server = socket(host, style);
    server.bind(&[SocketAddr::from((Ipv4Addr::LOCALHOST, 0))]).unwrap();
    server.listen(5).unwrap();
    server
}

/// A socket whose peers are on the UDP port of this server.
pub(crate) fn client(host: &Arc<Host>, style: Style, server: &Socket) -> Arc<Socket> {
    let client = socket(host, style);
    client.set_remote_udp_port(AssocId::FUTURE, server.udp_port()).unwrap();
    client
}

/// A server, its client, and the accepted socket.
pub(crate) fn pair(host: &Arc<Host>) -> (Arc<Socket>, Arc<Socket>, Arc<Socket>) {
    let server = server(host, Style::OneToOne);
    let client = client(host, Style::OneToOne, &server);
    client.connect(vec![server.name()]).unwrap();
    let (accepted, _) = server.accept(false).unwrap();
    (server, client, accepted)
}

pub(crate) fn subscribe(socket: &Socket, kinds: &[EventKind]) {
    kinds.iter().for_each(|kind| socket.subscribe(AssocId::ALL, *kind, true).unwrap());
}

/// The next message, whole.
pub(crate) fn message(socket: &Socket) -> (Vec<u8>, anabranch_sockets::ReceiveInfo) {
    match socket.receive(usize::MAX, Receiving::default()).unwrap().taken {
        Taken::Message { data, info, .. } => (data.concat(), info),
        taken => panic!("a message is expected, not {taken:?}"),
    }
}

/// The next notification.
pub(crate) fn notification(socket: &Socket) -> Notification {
    match socket.receive(usize::MAX, Receiving::default()).unwrap().taken {
        Taken::Notification { notification, .. } => notification,
        taken => panic!("a notification is expected, not {taken:?}"),
    }
}

/// The next notification, which must be SCTP_ASSOC_CHANGE.
pub(crate) fn change(socket: &Socket) -> (AssocId, AssocChange) {
    match notification(socket) {
        Notification { id, event: Event::AssocChange(change) } => (id, change),
        other => panic!("a change of an association is expected, not {other:?}"),
    }
}
