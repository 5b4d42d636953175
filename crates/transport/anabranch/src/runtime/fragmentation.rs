//! Sending the rare datagram that IP may fragment.
//!
//! Normally nothing is fragmented, so path MTU discovery sees the limits of the path. But a chunk that
//! was made for a larger path MTU must be retransmitted unchanged, and thus in IP fragments. This is
//! implemented only on Linux; elsewhere such a datagram is sent like any other.

#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) use linux::allowed;

#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(super) fn allowed<S, T>(_socket: &S, _is_ipv4: bool, send: impl FnOnce() -> T) -> T {
    send()
}

#[cfg(any(target_os = "linux", target_os = "android"))]
mod linux {
    use std::os::fd::AsFd;

    use nix::sys::socket::{setsockopt, sockopt::Ipv6DontFrag};
    use rustix::net::sockopt::{
        Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery, set_ip_mtu_discover, set_ipv6_mtu_discover,
    };

    /// Calls `send` with a socket that may fragment datagrams.
    ///
    /// If the socket options cannot be set, the send may fail as for any other large datagram.
    pub(in crate::runtime) fn allowed<S: AsFd, T>(
        socket: &S,
        is_ipv4: bool,
        send: impl FnOnce() -> T,
    ) -> T {
        set(socket, is_ipv4, true);
        let result = send();
        set(socket, is_ipv4, false);
        result
    }

    // Probing mode: DF is set, and the system does not apply a path MTU to the socket.
    // req: rfc8899 3 "the PL is REQUIRED to provide a way"
    // req: rfc8899 3 "a probe packet MUST be sent with the"
    // req: rfc8899 4.5 "implementing this specification MUST suspend network layer processing"
    fn set<S: AsFd>(socket: &S, is_ipv4: bool, allowed: bool) {
        if is_ipv4 {
            let v4 = if allowed { Ipv4PathMtuDiscovery::DONT } else { Ipv4PathMtuDiscovery::PROBE };
            let _ = set_ip_mtu_discover(socket, v4);
        } else {
            let v6 = if allowed { Ipv6PathMtuDiscovery::DONT } else { Ipv6PathMtuDiscovery::PROBE };
            let _ = set_ipv6_mtu_discover(socket, v6);
            let _ = setsockopt(socket, Ipv6DontFrag, &!allowed);
        }
    }

    #[cfg(test)]
    mod tests {
        use std::net::UdpSocket;

        use nix::sys::socket::getsockopt;
        use rustix::net::sockopt::{ip_mtu_discover, ipv6_mtu_discover};

        use super::*;

        #[test]
        // test: rfc8899 3 "the PL is REQUIRED to provide a way"
        // test: rfc8899 3 "a probe packet MUST be sent with the"
        // test: rfc8899 4.5 "implementing this specification MUST suspend network layer processing"
        fn fragmentation_is_allowed_for_one_send_only() {
            let v4 = UdpSocket::bind("127.0.0.1:0").unwrap();
            let during = allowed(&v4, true, || ip_mtu_discover(&v4).unwrap());
            assert_eq!(during, Ipv4PathMtuDiscovery::DONT);
            assert_eq!(ip_mtu_discover(&v4).unwrap(), Ipv4PathMtuDiscovery::PROBE);
            let v6 = UdpSocket::bind("[::1]:0").unwrap();
            let options =
                || (ipv6_mtu_discover(&v6).unwrap(), getsockopt(&v6, Ipv6DontFrag).unwrap());
            assert_eq!(allowed(&v6, false, options), (Ipv6PathMtuDiscovery::DONT, false));
            assert_eq!(options(), (Ipv6PathMtuDiscovery::PROBE, true));
        }
    }
}
