//! Interfaces that vanish and return, chosen links, and sockets opened by other processes.
#![cfg(target_os = "linux")]

mod common;

use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;

use anabranch::{
    Association, AssociationConfig, BindError, ConnectError, ConnectOptions, Encapsulation,
    Endpoint, Notification, OutgoingMessage, PathState, Ppid,
};
use common::PORT;
use common::namespace::{Network, in_namespace, in_two_namespaces, ip};

fn addresses(list: &[&str]) -> Vec<IpAddr> {
    list.iter().map(|address| address.parse().unwrap()).collect()
}

/// A server that answers every message with itself until its only client is done.
async fn echo(endpoint: Endpoint, ready: tokio::sync::oneshot::Sender<u16>) {
    let listener = endpoint.listen(PORT, AssociationConfig::default()).unwrap();
    ready.send(endpoint.udp_port()).unwrap();
    let association = listener.accept().await.unwrap();
    while let Some(message) = association.recv().await.unwrap() {
        let data = message.payload.into_bytes();
        association.send(OutgoingMessage::new(0, Ppid(0), data)).await.unwrap();
    }
    let _ = association.closed().await;
}

async fn round_trip(association: &Association, text: &'static str) {
    association.send(OutgoingMessage::new(0, Ppid(0), text)).await.unwrap();
    let answer = association.recv().await.unwrap().unwrap();
    assert_eq!(answer.payload.into_bytes(), text);
}

/// Waits until the path from this address has this state.
async fn until(association: &Association, local: &str, wanted: PathState) {
    let mut events = association.events();
    let is_so = || {
        let paths = association.statistics().paths;
        paths.iter().any(|path| path.local.to_string() == local && path.state == wanted)
    };
    while !is_so() {
        let event = events.next().await.unwrap();
        assert!(!matches!(event, Notification::Closed(_)), "{event:?}");
    }
}

fn vanish_and_return(encapsulation: Encapsulation) {
    in_two_namespaces(
        &[0, 1],
        move |ready| async move {
            let endpoint = Endpoint::builder()
                .encapsulation(encapsulation)
                .local_addresses(addresses(&["10.77.0.2", "10.77.1.2"]))
                .bind();
            echo(endpoint.unwrap(), ready).await;
        },
        async move |network: Network, udp_port| {
            let client = Endpoint::builder()
                .encapsulation(encapsulation)
                .local_addresses(addresses(&["10.77.0.1", "10.77.1.1"]))
                .bind()
                .unwrap();
            let mut options = ConnectOptions::default();
            options.remote_udp_port = udp_port;
            let remote: SocketAddr = "10.77.0.2:5000".parse().unwrap();
            let association = client.connect(remote, options).await.unwrap();
            until(&association, "10.77.1.1", PathState::Active).await;
            round_trip(&association, "over the first path").await;
            // With it both interfaces are gone, and their addresses and routes.
            ip("link delete c0");
            until(&association, "10.77.0.1", PathState::Inactive).await;
            round_trip(&association, "over the second path").await;
            network.link(0);
            network.addresses(0);
            until(&association, "10.77.0.1", PathState::Active).await;
            ip("link delete c1");
            round_trip(&association, "over the first path again").await;
            association.close().await.unwrap();
        },
    );
}

#[test]
fn an_interface_vanishes_and_comes_back_over_udp() {
    vanish_and_return(Encapsulation::Udp);
}

#[test]
fn an_interface_vanishes_and_comes_back_over_ip() {
    vanish_and_return(Encapsulation::Ip);
}

#[test]
fn the_only_interface_vanishes_and_comes_back() {
    // Tied to the interface itself, so the socket must be reopened.
    in_two_namespaces(
        &[0],
        async |ready| {
            let endpoint = Endpoint::builder().interface("s0").bind().unwrap();
            echo(endpoint, ready).await;
        },
        async |network: Network, udp_port| {
            let client = Endpoint::builder().interface("c0").bind().unwrap();
            let mut options = ConnectOptions::default();
            options.remote_udp_port = udp_port;
            let remote: SocketAddr = "10.77.0.2:5000".parse().unwrap();
            let association = client.connect(remote, options).await.unwrap();
            round_trip(&association, "before").await;
            ip("link delete c0");
            association.send(OutgoingMessage::new(0, Ppid(0), "meanwhile")).await.unwrap();
            network.link(0);
            network.addresses(0);
            let answer = association.recv().await.unwrap().unwrap();
            assert_eq!(answer.payload.into_bytes(), "meanwhile");
            association.close().await.unwrap();
        },
    );
}

#[test]
fn link_local_addresses_within_their_link() {
    for encapsulation in [Encapsulation::Udp, Encapsulation::Ip] {
        in_two_namespaces(
            &[0, 1],
            move |ready| async move {
                let builder = Endpoint::builder().encapsulation(encapsulation);
                echo(builder.interface("s1").bind().unwrap(), ready).await;
            },
            async move |_: Network, udp_port| {
                let builder = || Endpoint::builder().encapsulation(encapsulation);
                // Both links have the same addresses.
                let ambiguous = builder().local_addresses(addresses(&["fe80::1"])).bind();
                assert!(
                    matches!(ambiguous, Err(BindError::AmbiguousLinkLocal(_))),
                    "{ambiguous:?}"
                );
                let client = builder().interface("c1").bind().unwrap();
                let mut options = ConnectOptions::default();
                options.remote_udp_port = udp_port;
                let remote: SocketAddr = "[fe80::2]:5000".parse().unwrap();
                let association = client.connect(remote, options).await.unwrap();
                round_trip(&association, "within the link").await;
                let paths = association.statistics().paths;
                assert_eq!(paths[0].local, "fe80::1".parse::<IpAddr>().unwrap());
                association.close().await.unwrap();
            },
        );
    }
}

#[test]
fn link_local_addresses_with_their_interface() {
    in_two_namespaces(
        &[0, 1],
        async |ready| {
            let here = std::net::Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 2);
            echo(Endpoint::builder().link_local_address(here, "s1").bind().unwrap(), ready).await;
        },
        async |_: Network, udp_port| {
            let here = std::net::Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
            let client = Endpoint::builder().link_local_address(here, "c1").bind().unwrap();
            let mut options = ConnectOptions::default();
            options.remote_udp_port = udp_port;
            // The scope gives the link; on another link this endpoint has no address.
            let index = nix::net::if_::if_nametoindex;
            let [there, elsewhere] = ["c1", "c0"].map(|link| -> SocketAddr {
                format!("[fe80::2%{}]:{PORT}", index(link).unwrap()).parse().unwrap()
            });
            let refused = client.connect(elsewhere, options.clone()).await.unwrap_err();
            assert!(matches!(refused, ConnectError::Unreachable(_)), "{refused}");
            let association = client.connect(there, options).await.unwrap();
            round_trip(&association, "to a scope").await;
            association.close().await.unwrap();
        },
    );
}

#[test]
fn sockets_opened_by_somebody_else() {
    in_namespace(async {
        let raw = || {
            let protocol = Some(socket2::Protocol::from(132));
            let socket =
                socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::RAW, protocol).unwrap();
            std::net::UdpSocket::from(OwnedFd::from(socket))
        };
        let udp = || std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        for (encapsulation, sockets) in
            [(Encapsulation::Ip, [raw(), raw()]), (Encapsulation::Udp, [udp(), udp()])]
        {
            let [server, client] = sockets.map(|socket| {
                Endpoint::builder().encapsulation(encapsulation).socket(socket).bind().unwrap()
            });
            assert!(server.local_addresses().contains(&addresses(&["127.0.0.1"])[0]));
            let (ready, told) = tokio::sync::oneshot::channel();
            let mut options = ConnectOptions::default();
            options.remote_udp_port = server.udp_port();
            let talk = async {
                told.await.unwrap();
                let remote: SocketAddr = "127.0.0.1:5000".parse().unwrap();
                let association = client.connect(remote, options).await.unwrap();
                round_trip(&association, "without privileges").await;
                association.close().await.unwrap();
            };
            tokio::join!(echo(server, ready), talk);
        }
        // A socket of one kind cannot be used as the other.
        for (encapsulation, socket) in [(Encapsulation::Ip, udp()), (Encapsulation::Udp, raw())] {
            let bound = Endpoint::builder().encapsulation(encapsulation).socket(socket).bind();
            let error = bound.unwrap_err();
            assert!(
                error.to_string().contains("the socket given cannot be used: not a"),
                "{error}"
            );
        }
    });
}
