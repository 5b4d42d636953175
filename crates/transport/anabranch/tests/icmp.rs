//! ICMP reports about packets, real and forged.
#![cfg(target_os = "linux")]

mod common;

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use anabranch::{CloseReason, ConnectError, ConnectOptions, Notification, PathState};
use common::namespace::{in_namespace, ip};
use common::{PORT, V4, V6, endpoint, loopback, remotes, towards};
use etherparse::{Icmpv4Header, Icmpv4Type, IpNumber, Ipv4Header, UdpHeader, icmpv4};

/// A UDP port of this address that is not in use.
fn closed_port(address: IpAddr) -> u16 {
    std::net::UdpSocket::bind((address, 0)).unwrap().local_addr().unwrap().port()
}

async fn refused(local: IpAddr, remotes: Vec<SocketAddr>, udp_port: u16) -> ConnectError {
    let mut options = ConnectOptions::default();
    options.remote_udp_port = udp_port;
    let client = endpoint(&[local]);
    let connecting = client.connect(remotes, options);
    // Much less time than all retransmissions of INIT would take.
    tokio::time::timeout(Duration::from_secs(10), connecting).await.unwrap().unwrap_err()
}

#[tokio::test]
async fn a_closed_udp_port_refuses_at_once() {
    for address in [V4, V6] {
        let port = closed_port(address);
        let error = refused(address, vec![(address, PORT).into()], port).await;
        assert!(
            matches!(error, ConnectError::Failed { reason: CloseReason::PortUnreachable, .. }),
            "{error}"
        );
        assert!(error.to_string().contains("nothing listens on the peer's UDP port"), "{error}");
    }
}

#[tokio::test]
async fn the_next_address_is_tried_when_one_refuses() {
    let server = endpoint(&[loopback(2)]);
    let listener = server.listen(PORT, anabranch::AssociationConfig::default()).unwrap();
    let client = endpoint(&[V4]);
    // This port is not in use on the first address.
    let both = vec![SocketAddr::new(loopback(3), PORT), SocketAddr::new(loopback(2), PORT)];
    let connecting = client.connect(both, towards(&server, Default::default()));
    let (near, far) = tokio::join!(connecting, listener.accept());
    assert!(far.is_some());
    near.unwrap().close().await.unwrap();
    // The attempt ends when no address is left.
    let port = closed_port(V4);
    let both = vec![SocketAddr::new(loopback(3), PORT), SocketAddr::new(loopback(2), PORT)];
    let error = refused(V4, both, port).await;
    assert!(error.to_string().contains("nothing listens"), "{error}");
}

fn raw_socket(protocol: socket2::Protocol) -> socket2::Socket {
    socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::RAW, Some(protocol)).unwrap()
}

/// The first verification tag other than 0 in the packets that this socket received.
fn overheard_tag(mut socket: &socket2::Socket) -> u32 {
    let mut packet = [0; 2000];
    loop {
        let len = std::io::Read::read(&mut socket, &mut packet).unwrap();
        assert!(len > 36);
        let tag = u32::from_be_bytes(packet[32..36].try_into().unwrap());
        if tag != 0 {
            return tag;
        }
    }
}

/// An ICMP error about a UDP datagram from `from` to `to`, as a router would send it.
fn forge(from: SocketAddr, to: SocketAddr, sctp: &[u8]) {
    let (IpAddr::V4(source), IpAddr::V4(destination)) = (from.ip(), to.ip()) else {
        panic!("IPv4 only");
    };
    let length = (UdpHeader::LEN + sctp.len()) as u16;
    let (source, destination) = (source.octets(), destination.octets());
    let ip = Ipv4Header::new(length, 64, IpNumber::UDP, source, destination).unwrap();
    let udp = UdpHeader::with_ipv4_checksum(from.port(), to.port(), &ip, sctp).unwrap();
    let quoted = [&ip.to_bytes()[..], &udp.to_bytes(), sctp].concat();
    let kind = Icmpv4Type::DestinationUnreachable(icmpv4::DestUnreachableHeader::Port);
    let header = Icmpv4Header::with_checksum(kind, &quoted);
    let icmp = [&header.to_bytes()[..], &quoted].concat();
    let socket = raw_socket(socket2::Protocol::ICMPV4);
    socket.send_to(&icmp, &SocketAddr::new(from.ip(), 0).into()).unwrap();
}

#[test]
fn forged_icmp_is_ignored() {
    in_namespace(async {
        let (server, client) = (endpoint(&[loopback(1)]), endpoint(&[loopback(2)]));
        let listener = server.listen(PORT, anabranch::AssociationConfig::default()).unwrap();
        let mut options = towards(&server, Default::default());
        // One error more is one too many.
        options.config.paths.path_max_retrans = 0;
        options.local_port = Some(1234);
        let eavesdropper = raw_socket(socket2::Protocol::UDP);
        eavesdropper.bind(&SocketAddr::new(loopback(1), 0).into()).unwrap();
        let connecting = client.connect(remotes(&server), options);
        let (near, far) = tokio::join!(connecting, listener.accept());
        let (near, far) = (near.unwrap(), far.unwrap());
        let right_tag = overheard_tag(&eavesdropper);
        let from = SocketAddr::new(loopback(2), client.udp_port());
        let to = SocketAddr::new(loopback(1), server.udp_port());
        let mut packet = vec![0; 28];
        packet[..2].copy_from_slice(&1234_u16.to_be_bytes());
        packet[2..4].copy_from_slice(&PORT.to_be_bytes());
        for tag in [0, 1, !right_tag] {
            packet[4..8].copy_from_slice(&u32::to_be_bytes(tag));
            forge(from, to, &packet);
        }
        near.send(anabranch::OutgoingMessage::new(0, anabranch::Ppid(0), "still here"))
            .await
            .unwrap();
        assert!(far.recv().await.unwrap().is_some());
        let paths = near.statistics().paths;
        assert_eq!((paths[0].state, paths[0].error_count), (PathState::Active, 0));
        // With the right tag it counts.
        let mut events = near.events();
        packet[4..8].copy_from_slice(&u32::to_be_bytes(right_tag));
        forge(from, to, &packet);
        loop {
            if let Some(Notification::PathChanged { state, .. }) = events.next().await {
                assert_eq!(state, PathState::Inactive);
                break;
            }
        }
        near.close().await.unwrap();
    });
}

#[test]
fn an_unreachable_network_is_no_end() {
    in_namespace(async {
        ip("address add 10.9.0.1/24 dev lo");
        let (server, client) = (endpoint(&[loopback(1)]), endpoint(&["10.9.0.1".parse().unwrap()]));
        // There is no route, so nothing can be sent; the attempt continues until its time is over
        // or a route appears.
        let mut options = towards(&server, Default::default());
        options.config.paths.max_init_retransmits = 1;
        options.config.timers.rto_initial = Duration::from_millis(10);
        options.config.timers.rto_min = Duration::from_millis(10);
        let remote: SocketAddr = "10.8.0.1:5000".parse().unwrap();
        let error = client.connect(remote, options).await.unwrap_err();
        assert!(
            matches!(error, ConnectError::Failed { reason: CloseReason::ConnectTimeout, .. }),
            "{error}"
        );
    });
}
