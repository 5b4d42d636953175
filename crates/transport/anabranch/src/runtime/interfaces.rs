//! The addresses of this host, and notification when they change.

use std::io;

use super::{AddressWatch, Binding, LocalAddress};

/// The addresses of all interfaces that are up.
pub(super) fn addresses() -> io::Result<Vec<LocalAddress>> {
    let interfaces = if_addrs::get_if_addrs()?;
    let usable = interfaces.into_iter().filter(|i| i.is_oper_up() || i.is_loopback());
    Ok(usable
        .map(|i| LocalAddress { ip: i.ip(), index: i.index.unwrap_or(0), interface: i.name })
        .collect())
}

/// Binds a socket to the requested interface, regardless of the routes.
pub(super) fn bind_to(socket: &socket2::Socket, binding: &Binding) -> io::Result<()> {
    match &binding.interface {
        None => Ok(()),
        #[cfg(any(target_os = "linux", target_os = "android"))]
        Some(name) => socket.bind_device(Some(name.as_bytes())),
        #[cfg(not(any(target_os = "linux", target_os = "android")))]
        Some(_) => {
            let _ = socket;
            Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "this system ties no socket to an interface",
            ))
        }
    }
}

/// Fails if a type of service is requested that this system cannot set.
pub(super) fn check_class(binding: &Binding) -> io::Result<()> {
    if binding.traffic_class == 0 || cfg!(any(target_os = "linux", target_os = "android")) {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::Unsupported, "no type of service can be set on this system"))
}

/// Watches for changes of addresses and links.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) fn watch() -> Option<Box<dyn AddressWatch>> {
    match netlink::Netlink::open() {
        Ok(watch) => Some(Box::new(watch)),
        Err(error) => {
            tracing::debug!(%error, "changes of addresses will not be noticed");
            None
        }
    }
}

/// Without notifications from the system, checks periodically.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(super) fn watch() -> Option<Box<dyn AddressWatch>> {
    Some(Box::new(polling::Polling::new()))
}

/// The kernel reports every change. The content of a report does not matter, because all addresses
/// are read again.
#[cfg(any(target_os = "linux", target_os = "android"))]
mod netlink {
    use std::io;
    use std::net::UdpSocket;
    use std::os::fd::AsRawFd;
    use std::task::{Context, Poll};

    use nix::libc;
    use nix::sys::socket::{
        AddressFamily, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, socket,
    };

    use crate::runtime::AddressWatch;
    use crate::runtime::polled::{Look, Polled};

    /// Multicast groups of rtnetlink: links and addresses of both families.
    const GROUPS: i32 = libc::RTMGRP_LINK | libc::RTMGRP_IPV4_IFADDR | libc::RTMGRP_IPV6_IFADDR;

    #[derive(Debug)]
    pub(super) struct Netlink(Polled);

    impl Netlink {
        pub(super) fn open() -> io::Result<Self> {
            let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
            let protocol = SockProtocol::NetlinkRoute;
            let netlink = socket(AddressFamily::Netlink, SockType::Raw, flags, protocol)?;
            bind(netlink.as_raw_fd(), &NetlinkAddr::new(0, GROUPS.cast_unsigned()))?;
            // The standard library has no type for netlink sockets. For the system, all sockets are
            // descriptors, so a UDP socket will do.
            Ok(Self(Polled::new(UdpSocket::from(netlink))?))
        }
    }

    impl AddressWatch for Netlink {
        fn poll_changed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
            let mut changed = false;
            // Later changes are reported again.
            while self
                .0
                .poll_receive(cx, || {
                    match self.0.get().recv(&mut [0; 256]) {
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(error),
                        // If there were too many messages, some are lost; that means a change, too.
                        Ok(_) | Err(_) => Ok(Look { value: (), emptied: false }),
                    }
                })
                .is_ready()
            {
                changed = true;
            }
            if changed { Poll::Ready(()) } else { Poll::Pending }
        }
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
mod polling {
    use std::pin::Pin;
    use std::task::{Context, Poll};
    use std::time::Duration;

    use crate::runtime::AddressWatch;

    /// Time between two checks.
    const INTERVAL: Duration = Duration::from_secs(5);

    #[derive(Debug)]
    pub(super) struct Polling(Pin<Box<tokio::time::Sleep>>);

    impl Polling {
        pub(super) fn new() -> Self {
            Self(Box::pin(tokio::time::sleep(INTERVAL)))
        }
    }

    impl AddressWatch for Polling {
        fn poll_changed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
            if self.0.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            self.0.as_mut().reset(tokio::time::Instant::now() + INTERVAL);
            Poll::Ready(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_is_listed() {
        let found = addresses().unwrap();
        let loopback = found.iter().find(|address| address.ip.is_loopback()).unwrap();
        assert!(loopback.index > 0 && !loopback.interface.is_empty(), "{loopback:?}");
    }
}
