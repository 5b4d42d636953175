//! The beginning and end of associations and endpoints.

mod common;

use std::time::Duration;

use anabranch::{
    AssociationConfig, AssociationError, AssociationState, BindError, CloseReason, ConnectError,
    Endpoint, ListenError, Notification, OutgoingMessage, Ppid, SendErrorReason,
};
use common::{PORT, Pair, V4, endpoint, loopback, remotes, soon, towards};

#[tokio::test]
async fn close_delivers_everything() {
    soon(async {
        let pair = Pair::new(&[V4]).await;
        for count in 0..500 {
            pair.near.send(OutgoingMessage::new(0, Ppid(count), vec![1; 1000])).await.unwrap();
        }
        let far = pair.far.clone();
        let reader = tokio::spawn(async move {
            for count in 0..500 {
                assert_eq!(far.recv().await.unwrap().unwrap().ppid, Ppid(count));
            }
            assert!(far.recv().await.unwrap().is_none());
            assert!(far.accept_stream().await.unwrap().is_none());
        });
        pair.near.close().await.unwrap();
        reader.await.unwrap();
        pair.far.closed().await.unwrap();
        let error = pair.near.send(OutgoingMessage::new(0, Ppid(0), "late")).await.unwrap_err();
        let closed = AssociationError::Closed(CloseReason::Shutdown);
        assert_eq!(error.reason, SendErrorReason::Association(closed));
        let last = pair.near.statistics();
        assert!(pair.near.is_closed() && last.state == AssociationState::Closed);
        assert_eq!((last.counters.messages_sent, last.paths.len()), (500, 1));
        assert_eq!(pair.near.config(), AssociationConfig::default());
    })
    .await;
}

#[tokio::test]
async fn who_the_peer_was_is_known_after_the_end() {
    soon(async {
        let Pair { near, far, .. } = Pair::new(&[V4]).await;
        let before = (far.ports(), far.peer_addresses(), far.local_addresses());
        assert_eq!(before.0.0, PORT);
        assert_eq!(before.1.len(), 1);
        assert_eq!(before.1[0].port(), near.ports().0);
        assert_eq!(before.2, near.peer_addresses());
        assert!(near.id() != far.id() && near.clone().id() == near.id());
        near.close().await.unwrap();
        far.closed().await.unwrap();
        assert_eq!((far.ports(), far.peer_addresses(), far.local_addresses()), before);
    })
    .await;
}

#[tokio::test]
async fn dropping_the_last_handle_shuts_down_gracefully() {
    soon(async {
        let Pair { near, far, client, .. } = Pair::new(&[V4]).await;
        for _ in 0..100 {
            near.send(OutgoingMessage::new(0, Ppid(0), vec![1; 1000])).await.unwrap();
        }
        drop(near);
        let mut received = 0;
        while far.recv().await.unwrap().is_some() {
            received += 1;
        }
        assert_eq!(received, 100);
        far.closed().await.unwrap();
        client.wait_idle().await;
    })
    .await;
}

#[tokio::test]
async fn without_linger_dropping_aborts() {
    soon(async {
        let server = endpoint(&[V4]);
        let client = endpoint(&[V4]);
        let listener = server.listen(PORT, AssociationConfig::default()).unwrap();
        let mut options = towards(&server, AssociationConfig::default());
        options.linger = Duration::ZERO;
        let near = client.connect(remotes(&server), options).await.unwrap();
        let far = listener.accept().await.unwrap();
        drop(near);
        let error = far.recv().await.unwrap_err();
        assert!(matches!(error, AssociationError::Closed(CloseReason::PeerAbort { .. })));
    })
    .await;
}

#[tokio::test]
async fn abort_wakes_everyone() {
    soon(async {
        let pair = Pair::new(&[V4]).await;
        let mut events = pair.far.events();
        let (mut send, mut stream) = pair.far.stream(3).unwrap();
        let blocked = async {
            loop {
                if let Err(error) = send.send(Ppid(0), vec![0; 100_000]).await {
                    break error.reason;
                }
            }
        };
        let aborted = async {
            tokio::task::yield_now().await;
            pair.near.abort(b"enough");
        };
        let last_event = async {
            loop {
                if let Some(Notification::Closed(reason)) = events.next().await {
                    assert!(events.next().await.is_none());
                    break reason;
                }
            }
        };
        let (message, bytes, accepted, closed, reason, event, ()) = tokio::join!(
            pair.far.recv(),
            stream.recv(),
            pair.far.accept_stream(),
            pair.far.closed(),
            blocked,
            last_event,
            aborted,
        );
        let is_abort = |error: &AssociationError| {
            matches!(error, AssociationError::Closed(CloseReason::PeerAbort { causes, .. })
                if causes.windows(6).any(|window| window == b"enough"))
        };
        assert!(is_abort(&message.unwrap_err()));
        assert!(matches!(bytes.unwrap_err(), anabranch::RecvError::Association(e) if is_abort(&e)));
        assert!(is_abort(&accepted.unwrap_err()));
        assert!(is_abort(&closed.unwrap_err().error));
        assert!(matches!(reason, SendErrorReason::Association(e) if is_abort(&e)));
        assert!(matches!(event, CloseReason::PeerAbort { .. }));
        let error = pair.near.closed().await.unwrap_err();
        assert_eq!(error.error, AssociationError::Closed(CloseReason::LocalAbort));
        drop((send.finish().await.unwrap_err(), stream));
    })
    .await;
}

#[tokio::test]
async fn a_busy_port_is_named() {
    let first = endpoint(&[V4]);
    let port = first.udp_port();
    let error = Endpoint::builder().local_addresses([V4]).udp_port(port).bind().unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("cannot bind UDP port {port} on 127.0.0.1: address in use: choose another")
    );
    // Neither one address twice, nor an address of another host.
    let twice = Endpoint::builder().local_addresses([V4, V4]).bind().unwrap_err();
    assert!(matches!(twice, BindError::DuplicateAddress(address) if address == V4));
    let foreign = Endpoint::builder().local_addresses([[192, 0, 2, 1].into()]).bind().unwrap_err();
    assert!(foreign.to_string().ends_with("no interface of this host has this address"));
}

#[tokio::test]
async fn all_addresses_share_one_port() {
    let all = [loopback(1), loopback(2), loopback(3)];
    let endpoint = endpoint(&all);
    assert_eq!(endpoint.local_addresses(), all);
    for address in all {
        let error = Endpoint::builder()
            .local_addresses([address])
            .udp_port(endpoint.udp_port())
            .bind()
            .unwrap_err();
        assert!(matches!(error, BindError::Socket { .. }));
    }
}

#[test]
fn outside_of_a_runtime_binding_fails() {
    assert!(matches!(Endpoint::builder().bind().unwrap_err(), BindError::NoRuntime));
}

#[tokio::test]
async fn checksums_cannot_be_left_out() {
    soon(async {
        let mut config = anabranch::EndpointConfig::default();
        config.checksum = false;
        let careless = Endpoint::builder().local_addresses([V4]).config(config).bind().unwrap();
        // A server that checks them takes its packets.
        let server = common::endpoint(&[V4]);
        let _listener = server.listen(PORT, AssociationConfig::default()).unwrap();
        let options = towards(&server, AssociationConfig::default());
        let association = careless.connect(remotes(&server), options).await.unwrap();
        association.close().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn nobody_there_is_a_timeout() {
    soon(async {
        // Bound by another socket: no answer at all.
        let silent = std::net::UdpSocket::bind((V4, 0)).unwrap();
        let client = endpoint(&[V4]);
        let mut config = AssociationConfig::default();
        config.timers.rto_initial = Duration::from_millis(10);
        config.timers.rto_min = Duration::from_millis(10);
        config.paths.max_init_retransmits = 2;
        let mut options = anabranch::ConnectOptions::from(config);
        options.remote_udp_port = silent.local_addr().unwrap().port();
        let error = client.connect((V4, PORT), options).await.unwrap_err();
        let ConnectError::Failed { reason, .. } = &error else { panic!("{error:?}") };
        assert_eq!(*reason, CloseReason::ConnectTimeout);
        assert!(error.to_string().contains("127.0.0.1:5000"), "{error}");
        client.wait_idle().await;
    })
    .await;
}

#[tokio::test]
async fn nobody_listening_is_an_abort() {
    soon(async {
        let (server, client) = (endpoint(&[V4]), endpoint(&[V4]));
        let options = towards(&server, AssociationConfig::default());
        let error = client.connect(remotes(&server), options).await.unwrap_err();
        assert!(error.to_string().contains("check that a server listens"), "{error}");
        let ports = [([127, 0, 0, 1], 1).into(), ([127, 0, 0, 2], 2).into()];
        let error = client.connect(ports, AssociationConfig::default()).await.unwrap_err();
        assert_eq!(error, ConnectError::PortsDiffer(1, 2));
        let mut options = towards(&server, AssociationConfig::default());
        options.remote_udp_port = 0;
        let error = client.connect(remotes(&server), options).await.unwrap_err();
        assert!(matches!(error, ConnectError::Config(_)), "{error:?}");
        assert!(error.to_string().contains("remote_udp_port must not be 0"), "{error}");
    })
    .await;
}

#[tokio::test]
async fn a_port_has_one_listener() {
    let server = endpoint(&[V4]);
    let listener = server.listen(PORT, AssociationConfig::default()).unwrap();
    let error = server.listen(PORT, AssociationConfig::default()).unwrap_err();
    assert_eq!(error, ListenError::InUse(PORT));
    drop(listener);
    server.listen(PORT, AssociationConfig::default()).unwrap();
}

#[tokio::test]
async fn closing_the_endpoint_ends_all() {
    soon(async {
        let pair = Pair::new(&[V4]).await;
        let (near, far) = pair.another().await;
        near.send(OutgoingMessage::new(0, Ppid(1), "last words")).await.unwrap();
        let (accepted, ()) = tokio::join!(pair.listener.accept(), async {
            pair.client.close().await;
            pair.server.close().await;
        });
        assert!(accepted.is_none());
        assert_eq!(far.recv().await.unwrap().unwrap().ppid, Ppid(1));
        assert!(far.recv().await.unwrap().is_none());
        near.closed().await.unwrap();
        let options = towards(&pair.server, AssociationConfig::default());
        let error = pair.client.connect(remotes(&pair.server), options).await.unwrap_err();
        assert_eq!(error, ConnectError::EndpointClosed);
        let error = pair.server.listen(1, AssociationConfig::default()).unwrap_err();
        assert_eq!(error, ListenError::EndpointClosed);
        // The port is free for the next one.
        let port = pair.client.udp_port();
        Endpoint::builder().local_addresses([V4]).udp_port(port).bind().unwrap();
    })
    .await;
}

#[test]
fn associations_end_with_their_runtime() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let pair = runtime.block_on(soon(Pair::new(&[V4])));
    drop(runtime);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(soon(async {
        assert_eq!(pair.near.recv().await.unwrap_err(), AssociationError::EndpointClosed);
        let error = pair.far.send(OutgoingMessage::new(0, Ppid(0), "x")).await.unwrap_err();
        assert_eq!(error.reason, SendErrorReason::Association(AssociationError::EndpointClosed));
        pair.server.close().await;
    }));
}

/// The ports of one shard run out, too.
#[tokio::test]
async fn associations_without_a_port_left_are_refused() {
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let endpoint = Endpoint::builder().local_addresses([loopback(1)]).shards(64).bind().unwrap();
    let mut options = anabranch::ConnectOptions::default();
    options.remote_udp_port = silent.local_addr().unwrap().port();
    let mut pending = Vec::new();
    let refused = loop {
        let connect = endpoint.connect((loopback(1), 5000), options.clone());
        let mut connect = Box::pin(connect);
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        match connect.as_mut().poll(&mut cx) {
            std::task::Poll::Ready(result) => break result.unwrap_err(),
            std::task::Poll::Pending => pending.push(connect),
        }
        assert!(pending.len() <= 1 << 16);
    };
    assert!(pending.len() > 1000, "{refused}");
}
