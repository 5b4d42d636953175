//! Sockets that systemd has opened for a server (socket activation): they are taken in place of own ones.
//!
//! What was passed must be what `--listen` names, so that a unit and its options cannot contradict each
//! other unnoticed.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Context;
use std::time::SystemTime;

use anabranch::runtime::{
    AddressWatch, Binding, Encapsulation, Instant, LocalAddress, PacketSocket, Runtime, Timer,
};
use tokio::sync::watch;

use crate::address::Address;
use crate::failure::Failure;

/// UDP sockets for these addresses; none if nobody passed any sockets.
pub(crate) fn udp_sockets(
    addresses: &[Address],
    port: Option<u16>,
) -> Result<Vec<UdpSocket>, Failure> {
    let sockets = passed("UDP", |list, index| list.take_udp_socket(index))?;
    let bound: Result<Vec<_>, _> = sockets.iter().map(UdpSocket::local_addr).collect();
    check(&bound.map_err(Failure::failed)?, addresses, "UDP", port)?;
    Ok(sockets)
}

/// Listeners for these addresses and this port (0: any); none if nobody passed any sockets.
pub(crate) fn tcp_listeners(addresses: &[Address], port: u16) -> Result<Vec<TcpListener>, Failure> {
    let listeners = passed("TCP", |list, index| list.take_tcp_listener(index))?;
    let bound: Result<Vec<_>, _> = listeners.iter().map(TcpListener::local_addr).collect();
    check(&bound.map_err(Failure::failed)?, addresses, "TCP", (port != 0).then_some(port))?;
    Ok(listeners)
}

/// All descriptors that were passed. The variables that tell of them mean nothing afterwards.
fn passed<T>(
    kind: &str,
    take: impl Fn(&mut listenfd::ListenFd, usize) -> std::io::Result<Option<T>>,
) -> Result<Vec<T>, Failure> {
    let mut list = listenfd::ListenFd::from_env();
    let mut sockets = Vec::with_capacity(list.len());
    for index in 0..list.len() {
        let taken = take(&mut list, index);
        let socket = taken.ok().flatten().ok_or_else(|| {
            Failure::failed(format!("the socket {} that was passed is no {kind} socket", index + 1))
        })?;
        sockets.push(socket);
    }
    Ok(sockets)
}

fn check(
    bound: &[SocketAddr],
    addresses: &[Address],
    kind: &str,
    port: Option<u16>,
) -> Result<(), Failure> {
    if bound.is_empty() {
        return Ok(());
    }
    let ips: Vec<IpAddr> = addresses.iter().map(|address| address.ip).collect();
    if let Some(ip) = ips.iter().find(|ip| bound.iter().all(|address| address.ip() != **ip)) {
        return Err(Failure::failed(format!(
            "no {kind} socket for {ip} was passed, as --listen has it"
        )));
    }
    let wrong = |a: &&SocketAddr| !ips.contains(&a.ip()) || port.is_some_and(|p| p != a.port());
    match bound.iter().find(wrong) {
        Some(address) => Err(Failure::failed(format!(
            "the {kind} socket {address} that was passed is not what the options say"
        ))),
        None => Ok(()),
    }
}

/// Another runtime, whose tasks begin when the server listens: what waits in a socket that was
/// passed would be told that nobody does.
#[derive(Debug)]
pub(crate) struct Gate {
    inner: Arc<dyn Runtime>,
    listening: watch::Sender<bool>,
}

impl Gate {
    pub(crate) fn before(inner: Arc<dyn Runtime>) -> Arc<Self> {
        Arc::new(Self { inner, listening: watch::Sender::new(false) })
    }

    /// Lets all tasks begin.
    pub(crate) fn open(&self) {
        self.listening.send_replace(true);
    }
}

impl Runtime for Gate {
    fn now(&self) -> Instant {
        self.inner.now()
    }

    fn wall_clock(&self) -> SystemTime {
        self.inner.wall_clock()
    }

    fn timer(self: Arc<Self>) -> Box<dyn Timer> {
        Arc::clone(&self.inner).timer()
    }

    fn takes_turns(&self) -> bool {
        self.inner.takes_turns()
    }

    fn make_way(&self, cx: &mut Context<'_>) {
        self.inner.make_way(cx);
    }

    fn spawn(&self, task: Pin<Box<dyn Future<Output = ()> + Send>>) {
        let mut listening = self.listening.subscribe();
        self.inner.spawn(Box::pin(async move {
            // An error says that the runtime is gone, and with it its tasks.
            let _ = listening.wait_for(|listening| *listening).await;
            task.await;
        }));
    }

    fn bind(&self, binding: &Binding) -> io::Result<Box<dyn PacketSocket>> {
        self.inner.bind(binding)
    }

    fn adopt(
        &self,
        encapsulation: Encapsulation,
        socket: UdpSocket,
    ) -> io::Result<Box<dyn PacketSocket>> {
        self.inner.adopt(encapsulation, socket)
    }

    fn local_addresses(&self) -> io::Result<Vec<LocalAddress>> {
        self.inner.local_addresses()
    }

    fn watch_addresses(&self) -> Option<Box<dyn AddressWatch>> {
        self.inner.watch_addresses()
    }

    fn kernel_has_sctp(&self) -> bool {
        self.inner.kernel_has_sctp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_passed_is_what_the_options_say() {
        let named = |ips: &[&str]| -> Vec<Address> {
            ips.iter().map(|ip| Address { ip: ip.parse().unwrap(), zone: None }).collect()
        };
        let bound = ["127.0.0.1:7", "127.0.0.2:7"].map(|text| text.parse().unwrap());
        let both = named(&["127.0.0.2", "127.0.0.1"]);
        assert_eq!(check(&[], &both, "UDP", Some(9)), Ok(()));
        assert_eq!(check(&bound, &both, "UDP", None), Ok(()));
        assert_eq!(check(&bound, &both, "UDP", Some(7)), Ok(()));
        for (addresses, port, sentence) in [
            (&["127.0.0.1"][..], None, "the UDP socket 127.0.0.2:7 that was passed is not what"),
            (&["127.0.0.1", "::1"], None, "no UDP socket for ::1 was passed"),
            (&["127.0.0.1", "127.0.0.2"], Some(8), "127.0.0.1:7 that was passed is not"),
        ] {
            let failure = check(&bound, &named(addresses), "UDP", port).unwrap_err();
            assert!(failure.told().0.unwrap().contains(sentence), "{failure:?}");
        }
    }
}
