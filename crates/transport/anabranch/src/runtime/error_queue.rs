//! The socket error queue: ICMP messages and local MTU errors, each with the datagram that caused
//! it.
//!
//! Only Linux has this queue. Elsewhere nothing is reported, and path MTU discovery works without
//! it.

#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) use linux::next;

#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(super) fn next<S>(_socket: &S) -> Option<crate::runtime::NetworkError> {
    None
}

#[cfg(any(target_os = "linux", target_os = "android"))]
mod linux {
    use std::io::IoSliceMut;
    use std::net::{IpAddr, SocketAddr, SocketAddrV4, SocketAddrV6};
    use std::os::fd::AsRawFd;

    use anabranch_proto::IcmpKind;
    use bytes::Bytes;
    use nix::libc;
    use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg};

    use crate::runtime::{NetworkError, NetworkErrorKind};

    /// Origins of `sock_extended_err` (linux/errqueue.h).
    const LOCAL: u8 = 1;
    const ICMP: u8 = 2;
    const ICMP6: u8 = 3;

    /// Takes the oldest entry of the socket's error queue.
    pub(in crate::runtime) fn next<S: AsRawFd>(socket: &S) -> Option<NetworkError> {
        let mut quoted = [0; 576];
        let mut iov = [IoSliceMut::new(&mut quoted)];
        let mut control = nix::cmsg_space!([u8; 256]);
        let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
        let message =
            recvmsg::<SockaddrStorage>(socket.as_raw_fd(), &mut iov, Some(&mut control), flags)
                .ok()?;
        let destination = message.address.as_ref().and_then(to_std);
        let (mut kind, mut source) = (NetworkErrorKind::Other, None);
        for cmsg in message.cmsgs().ok()? {
            match cmsg {
                ControlMessageOwned::Ipv4RecvErr(error, _)
                | ControlMessageOwned::Ipv6RecvErr(error, _) => kind = classify(&error),
                // This is the destination of the ICMP message, which is an address of this host.
                ControlMessageOwned::Ipv4PacketInfo(info) => {
                    source = Some(IpAddr::from(info.ipi_addr.s_addr.to_ne_bytes()));
                }
                ControlMessageOwned::Ipv6PacketInfo(info) => {
                    source = Some(IpAddr::from(info.ipi6_addr.s6_addr));
                }
                _ => {}
            }
        }
        let len = message.bytes;
        Some(NetworkError {
            destination: destination.unwrap_or_else(|| SocketAddr::from(([0, 0, 0, 0], 0))),
            source: source.filter(|ip| !ip.is_unspecified()),
            kind,
            quoted: Bytes::copy_from_slice(quoted.get(..len).unwrap_or_default()),
        })
    }

    fn to_std(address: &SockaddrStorage) -> Option<SocketAddr> {
        match (address.as_sockaddr_in(), address.as_sockaddr_in6()) {
            (Some(v4), _) => Some(SocketAddr::V4(SocketAddrV4::from(*v4))),
            (_, Some(v6)) => Some(SocketAddr::V6(SocketAddrV6::from(*v6))),
            _ => None,
        }
    }

    /// The meaning of the kernel's error for the engine.
    fn classify(error: &libc::sock_extended_err) -> NetworkErrorKind {
        let mtu = || u16::try_from(error.ee_info).unwrap_or(u16::MAX);
        match (error.ee_origin, error.ee_type, error.ee_code) {
            (LOCAL, ..) if error.ee_errno == libc::EMSGSIZE.unsigned_abs() => {
                NetworkErrorKind::LocalMtu(mtu())
            }
            (ICMP, 3, 4) | (ICMP6, 2, 0) => {
                NetworkErrorKind::Icmp(IcmpKind::PacketTooBig { mtu: mtu() })
            }
            (ICMP, 3, 2) | (ICMP6, 4, 1) => NetworkErrorKind::Icmp(IcmpKind::ProtocolUnreachable),
            (ICMP, 3, 3) | (ICMP6, 1, 4) => NetworkErrorKind::Icmp(IcmpKind::PortUnreachable),
            (ICMP, 3, _) | (ICMP6, 1, _) => NetworkErrorKind::Icmp(IcmpKind::OtherUnreachable),
            _ => NetworkErrorKind::Other,
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn kernel_errors_are_told_apart() {
            let error = |ee_origin, ee_type, ee_code| libc::sock_extended_err {
                ee_errno: libc::EMSGSIZE.unsigned_abs(),
                ee_origin,
                ee_type,
                ee_code,
                ee_pad: 0,
                ee_info: 1280,
                ee_data: 0,
            };
            let icmp = |origin, kind, code| match classify(&error(origin, kind, code)) {
                NetworkErrorKind::Icmp(icmp) => icmp,
                other => panic!("{other:?}"),
            };
            assert_eq!(classify(&error(LOCAL, 0, 0)), NetworkErrorKind::LocalMtu(1280));
            assert_eq!(icmp(ICMP, 3, 4), IcmpKind::PacketTooBig { mtu: 1280 });
            assert_eq!(icmp(ICMP6, 2, 0), IcmpKind::PacketTooBig { mtu: 1280 });
            assert_eq!(icmp(ICMP, 3, 2), IcmpKind::ProtocolUnreachable);
            assert_eq!(icmp(ICMP6, 1, 4), IcmpKind::PortUnreachable);
            assert_eq!(icmp(ICMP, 3, 1), IcmpKind::OtherUnreachable);
            assert_eq!(classify(&error(ICMP, 11, 0)), NetworkErrorKind::Other);
        }
    }
}
