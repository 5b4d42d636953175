//! SCTP as IP protocol 132, each test in its own network namespace.
#![cfg(target_os = "linux")]

mod common;

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use anabranch::{
    Association, AssociationConfig, CloseReason, ConnectError, ConnectOptions, Encapsulation,
    Endpoint, Ppid,
};
use common::namespace::in_namespace;

const PORT: u16 = 5000;

fn bind(addresses: &[&str]) -> Endpoint {
    let addresses = addresses.iter().map(|address| address.parse().unwrap());
    Endpoint::builder().encapsulation(Encapsulation::Ip).local_addresses(addresses).bind().unwrap()
}

async fn connect(
    server: &Endpoint,
    client: &Endpoint,
    remotes: &[&str],
) -> (Association, Association) {
    let listener = server.listen(PORT, AssociationConfig::default()).unwrap();
    let remotes = remotes.iter().map(|ip| SocketAddr::new(ip.parse().unwrap(), PORT));
    let remotes: Vec<_> = remotes.collect();
    let connecting = client.connect(remotes, ConnectOptions::default());
    let (near, far) = tokio::join!(connecting, listener.accept());
    (near.unwrap(), far.unwrap())
}

/// Sends messages both ways and closes.
async fn exchange(near: &Association, far: &Association) {
    for size in [1, 1000, 100_000] {
        for (from, to) in [(near, far), (far, near)] {
            let data: Vec<u8> = (0..size).map(|i| i as u8).collect();
            let message = anabranch::OutgoingMessage::new(1, Ppid(7), data.clone());
            from.send(message).await.unwrap();
            let message = to.recv().await.unwrap().unwrap();
            assert_eq!((message.stream, message.ppid), (1, Ppid(7)));
            assert_eq!(message.payload.into_bytes(), data);
        }
    }
    let (closed, end) = tokio::join!(near.close(), far.recv());
    closed.unwrap();
    assert!(end.unwrap().is_none());
}

#[test]
fn associations_over_ipv4_and_ipv6() {
    in_namespace(async {
        for (server, client) in [("127.0.0.1", "127.0.0.2"), ("::1", "::1")] {
            let (server_end, client_end) = (bind(&[server]), bind(&[client]));
            assert_eq!((server_end.udp_port(), client_end.udp_port()), (0, 0));
            let (near, far) = connect(&server_end, &client_end, &[server]).await;
            exchange(&near, &far).await;
            assert_eq!(far.statistics().paths[0].remote_udp_port, 0);
        }
    });
}

#[test]
fn endpoints_that_share_their_addresses_leave_each_other_alone() {
    in_namespace(async {
        // Each gets all packets of all the others.
        let (server, client) = (bind(&["127.0.0.1"]), bind(&["127.0.0.1"]));
        let _third = bind(&[]);
        let (near, far) = connect(&server, &client, &["127.0.0.1"]).await;
        exchange(&near, &far).await;
    });
}

#[test]
fn all_addresses_of_the_host() {
    in_namespace(async {
        let (server, client) = (bind(&[]), bind(&[]));
        for remote in ["127.0.0.1", "::1"] {
            let (near, far) = connect(&server, &client, &[remote]).await;
            exchange(&near, &far).await;
        }
    });
}

#[test]
fn two_paths_of_both_families() {
    in_namespace(async {
        let (server, client) = (bind(&["127.0.0.1", "::1"]), bind(&["127.0.0.2", "::1"]));
        let (near, far) = connect(&server, &client, &["127.0.0.1", "::1"]).await;
        exchange(&near, &far).await;
        assert_eq!(near.statistics().paths.len(), 2);
    });
}

#[test]
fn a_port_without_a_listener_refuses() {
    in_namespace(async {
        let (_server, client) = (bind(&["127.0.0.1"]), bind(&["127.0.0.2"]));
        let remote: (IpAddr, u16) = ("127.0.0.1".parse().unwrap(), 99);
        let refused = client.connect(remote, ConnectOptions::default()).await;
        let error = refused.unwrap_err();
        assert!(
            matches!(&error, ConnectError::Failed { reason: CloseReason::PeerAbort { .. }, .. }),
            "{error}"
        );
        assert!(error.to_string().contains("over IP protocol 132"), "{error}");
    });
}

#[test]
fn a_host_without_sctp_says_so() {
    in_namespace(async {
        // No socket has this address, so the kernel answers: protocol unreachable.
        let client = bind(&["127.0.0.2"]);
        let remote: (IpAddr, u16) = ("127.0.0.1".parse().unwrap(), 99);
        let connecting = client.connect(remote, ConnectOptions::default());
        let refused = tokio::time::timeout(Duration::from_secs(5), connecting).await.unwrap();
        let error = refused.unwrap_err();
        assert!(
            matches!(&error, ConnectError::Failed { reason: CloseReason::NoSctp, .. }),
            "{error}"
        );
    });
}
