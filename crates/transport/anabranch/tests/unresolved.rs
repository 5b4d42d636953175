//! Answers to unused addresses wait in the kernel until it gives up resolving them.
#![cfg(target_os = "linux")]

mod common;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use anabranch::runtime::{Binding, Datagrams, Runtime, TagMark, TokioRuntime, TransmitError};
use common::namespace::{in_namespace, ip};

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 9, 0, 1));

/// The n-th of 250 unused addresses on the link.
fn nobody(n: usize) -> SocketAddr {
    SocketAddr::from(([10, 9, 1, 1 + (n % 250) as u8], 9899))
}

fn datagrams(destination: SocketAddr) -> Datagrams<'static> {
    Datagrams {
        source: None,
        destination,
        ecn: None,
        segment_size: 200,
        may_fragment: false,
        contents: &[7; 200],
    }
}

/// Sends enough to fill any buffer. Whether one found no room.
fn fills(send: impl Fn(&Datagrams<'_>) -> Result<usize, TransmitError>) -> bool {
    let blocked = |n| matches!(send(&datagrams(nobody(n))), Err(TransmitError::WouldBlock));
    (0..30_000).any(blocked)
}

#[test]
fn they_leave_the_buffer_of_associations_free() {
    in_namespace(async {
        ip("link add v0 type veth peer name v1");
        ip("link set v0 addrgenmode none up");
        ip("link set v1 addrgenmode none up");
        ip("address add 10.9.0.1/16 dev v0");
        let runtime = TokioRuntime::current().unwrap();
        let socket = runtime.bind(&Binding::udp(SocketAddr::new(HERE, 0))).unwrap();
        assert!(socket.keep_apart(&TagMark::from_seed(&[3; 32])));
        assert!(!fills(|datagrams| socket.try_send_apart(datagrams)), "it is dropped, not kept");
        assert!(socket.try_send(&datagrams(nobody(0))).is_ok(), "there is room for others");
        // A socket with a shared buffer would be full.
        assert!(fills(|datagrams| socket.try_send(datagrams)));
    });
}
