//! Sockets without descriptors, whose calls wait as tasks do.

mod common;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, mpsc};

use anabranch_sockets::{AssocId, Error, Family, Host, Receiving, Socket, Style, Taken};
use common::{PATIENCE, host};

/// Runs a task on the host's thread and waits for its result.
fn run<T: Send + 'static>(host: &Host, task: impl Future<Output = T> + Send + 'static) -> T {
    let (done, result) = mpsc::channel();
    host.spawn(async move {
        let _ = done.send(task.await);
    });
    result.recv_timeout(PATIENCE).expect("the task ends")
}

fn socket(host: &Arc<Host>) -> Arc<Socket> {
    let socket = Socket::detached(host, Style::OneToOne, Family::Ipv4);
    socket.change_options(|options| options.udp_port = Some(0));
    assert_eq!((socket.number(), socket.is_nonblocking(false)), (-1, true));
    socket
}

async fn next(socket: &Socket) -> Result<Taken, Error> {
    let received = socket.when_ready(|| socket.receive(1000, Receiving::default())).await;
    received.map(|received| received.taken)
}

#[test]
fn tasks_connect_accept_send_and_receive() {
    let host = host();
    let server = socket(&host);
    server.bind(&[SocketAddr::from((Ipv4Addr::LOCALHOST, 0))]).unwrap();
    server.listen(1).unwrap();
    let client = socket(&host);
    client.set_remote_udp_port(AssocId::FUTURE, server.udp_port()).unwrap();
    let id = client.start_connect(vec![server.name()]).unwrap();
    let (accepted, echo) = run(&host, async move {
        let accepted = server.when_ready(|| server.accept(true)).await.unwrap().0;
        client.connected(id).await.unwrap();
        client.message("hello", &[]).send(true).unwrap();
        let taken = next(&accepted).await.unwrap();
        client.let_go();
        assert_eq!(next(&client).await.unwrap_err(), Error::Closed);
        (accepted, taken)
    });
    let Taken::Message { data, .. } = echo else { panic!("a message") };
    assert_eq!(data.concat(), b"hello");
    assert_eq!(accepted.number(), -1);
    let end = run(&host, async move { next(&accepted).await });
    assert!(matches!(end, Ok(Taken::End)));
}

#[test]
fn the_error_of_a_failed_setup_has_one_taker() {
    let host = host();
    let server = socket(&host);
    server.bind(&[SocketAddr::from((Ipv4Addr::LOCALHOST, 0))]).unwrap();
    server.listen(1).unwrap();
    let client = socket(&host);
    client.set_remote_udp_port(AssocId::FUTURE, server.udp_port()).unwrap();
    // Nobody listens on this SCTP port.
    let other = server.name().port() ^ 1;
    let id = client.start_connect(vec![(Ipv4Addr::LOCALHOST, other).into()]).unwrap();
    let waiting = client.clone();
    assert_eq!(run(&host, async move { waiting.connected(id).await }), Err(Error::Refused));
    assert_eq!(client.take_error(), None);
}

#[test]
fn a_task_that_waits_for_an_association_sleeps() {
    let host = host();
    let waiting = socket(&host);
    let calls = run(&host, async move {
        let mut calls = 0;
        let receive = waiting.when_ready(|| {
            calls += 1;
            match waiting.receive(1000, Receiving::default()) {
                Err(Error::NotConnected) => Err(Error::WouldBlock),
                result => result,
            }
        });
        tokio::select! {
            biased;
            _ = receive => {}
            () = tokio::task::yield_now() => {}
        }
        calls
    });
    assert_eq!(calls, 1);
}
