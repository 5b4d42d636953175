//! Free ports for servers that cannot choose one, or that open it late.
//!
//! A port that the system chose for port 0 and that is closed again may be given to the next socket that asks for port
//! 0: another test takes it before the server has it. These ports are below the range that the system chooses from
//! (32,768 and above on Linux, 49,152 and above elsewhere), and no two calls return the same one.
#![forbid(unsafe_code)]

use std::hash::{BuildHasher, RandomState};
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

const FIRST: u16 = 10_000;
const COUNT: u16 = 22_000;

/// The number of the next candidate. Each process begins at another place.
static NEXT: LazyLock<AtomicU64> =
    LazyLock::new(|| AtomicU64::new(RandomState::new().hash_one(()) % u64::from(COUNT)));

/// A UDP port that is free on all IPv4 addresses.
///
/// # Panics
///
/// If all are in use.
pub fn free_udp_port() -> u16 {
    free(is_free_for_udp)
}

/// A TCP port that is free on all IPv4 addresses.
///
/// # Panics
///
/// If all are in use.
pub fn free_tcp_port() -> u16 {
    free(is_free_for_tcp)
}

fn is_free_for_udp(port: u16) -> bool {
    UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port)).is_ok()
}

fn is_free_for_tcp(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).is_ok()
}

fn free(is_free: impl Fn(u16) -> bool) -> u16 {
    let mut candidates = (0..COUNT).map(|_| {
        let number = NEXT.fetch_add(1, Ordering::Relaxed) % u64::from(COUNT);
        FIRST + u16::try_from(number).unwrap_or(0)
    });
    candidates.find(|port| is_free(*port)).expect("a free port")
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn ports_differ_and_can_be_bound() {
        let ports: HashSet<_> = (0..100).map(|_| free_udp_port()).collect();
        assert_eq!(ports.len(), 100);
        let sockets: Vec<_> =
            ports.iter().map(|port| UdpSocket::bind(("127.0.0.1", *port))).collect();
        assert!(sockets.iter().all(Result::is_ok), "{sockets:?}");
    }

    #[test]
    fn a_port_in_use_is_not_free() {
        let (udp, tcp) = (free_udp_port(), free_tcp_port());
        let _udp = UdpSocket::bind(("127.0.0.1", udp)).expect("a free port");
        let _tcp = TcpListener::bind(("127.0.0.1", tcp)).expect("a free port");
        assert!(!is_free_for_udp(udp) && !is_free_for_tcp(tcp));
    }
}
