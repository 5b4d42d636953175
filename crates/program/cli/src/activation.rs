//! Sockets that systemd has opened for a server (socket activation). The server uses them instead of
//! opening its own.
//!
//! The passed sockets must match `--listen`, so that a contradiction between a unit and its options is
//! detected.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Context;
use std::time::SystemTime;

use anabranch::runtime::{
    AddressWatch, Binding, Encapsulation, Instant, LocalAddress, PacketSocket, Runtime, Timer,
};
use tokio::sync::watch;

use crate::address::Address;
use crate::failure::Failure;

/// Returns UDP sockets for these addresses; empty if no sockets were passed.
pub(crate) fn udp_sockets(
    addresses: &[Address],
    port: Option<u16>,
) -> Result<Vec<UdpSocket>, Failure> {
    let sockets = passed("UDP", |socket| match socket {
        Passed::Udp(socket) => Ok(socket),
        tcp @ Passed::Tcp(_) => Err(tcp),
    })?;
    let bound: Result<Vec<_>, _> = sockets.iter().map(UdpSocket::local_addr).collect();
    check(&bound.map_err(Failure::failed)?, addresses, "UDP", port)?;
    Ok(sockets)
}

/// Returns listeners for these addresses and this port (0: any); empty if no sockets were passed.
pub(crate) fn tcp_listeners(addresses: &[Address], port: u16) -> Result<Vec<TcpListener>, Failure> {
    let listeners = passed("TCP", |socket| match socket {
        Passed::Tcp(listener) => Ok(listener),
        udp @ Passed::Udp(_) => Err(udp),
    })?;
    let bound: Result<Vec<_>, _> = listeners.iter().map(TcpListener::local_addr).collect();
    check(&bound.map_err(Failure::failed)?, addresses, "TCP", (port != 0).then_some(port))?;
    Ok(listeners)
}

/// A socket that was passed.
enum Passed {
    Udp(UdpSocket),
    Tcp(TcpListener),
}

/// Sockets that were passed to this process and are not claimed yet.
struct List {
    /// `None` until the environment has been read.
    sockets: Option<Vec<Passed>>,
    /// Sockets of both kinds are expected, and each kind is claimed by its own listener.
    both_kinds: bool,
}

static LIST: Mutex<List> = Mutex::new(List { sockets: None, both_kinds: false });

/// Allows a mixture of UDP and TCP sockets, because each kind has a listener that claims it.
pub(crate) fn expect_both_kinds() {
    LIST.lock().unwrap_or_else(PoisonError::into_inner).both_kinds = true;
}

/// Claims all sockets of a kind that were passed.
fn passed<T>(kind: &str, of_kind: impl Fn(Passed) -> Result<T, Passed>) -> Result<Vec<T>, Failure> {
    let mut list = LIST.lock().unwrap_or_else(PoisonError::into_inner);
    let both_kinds = list.both_kinds;
    let sockets = match list.sockets.take() {
        Some(sockets) => sockets,
        None => all_passed(if both_kinds { "UDP or TCP" } else { kind })?,
    };
    let (mut taken, mut left) = (Vec::with_capacity(sockets.len()), Vec::new());
    for (index, socket) in sockets.into_iter().enumerate() {
        match of_kind(socket) {
            Ok(socket) => taken.push(socket),
            Err(other) if both_kinds => left.push(other),
            Err(_) => return Err(wrong_kind(index, kind)),
        }
    }
    list.sockets = Some(left);
    Ok(taken)
}

/// Takes all descriptors that were passed. The environment variables that announce them are ignored
/// afterwards.
fn all_passed(kind: &str) -> Result<Vec<Passed>, Failure> {
    let variable = |name| std::env::var(name).ok();
    if variable("LISTEN_PID").is_none_or(|process| process == std::process::id().to_string()) {
        check_count(variable("LISTEN_FDS").as_deref())?;
    }
    let mut list = listenfd::ListenFd::from_env();
    let count = list.len();
    let take = |index| {
        if let Ok(Some(socket)) = list.take_udp_socket(index) {
            return Ok(Passed::Udp(socket));
        }
        let listener = list.take_tcp_listener(index).ok().flatten();
        check_listens(index, listener.ok_or_else(|| wrong_kind(index, kind))?)
    };
    (0..count).map(take).collect()
}

/// Maximum number of sockets that may be passed.
const MOST_SOCKETS: usize = 1024;

/// Rejects implausible numbers of sockets.
fn check_count(told: Option<&str>) -> Result<(), Failure> {
    let Some(count) = told.and_then(|text| text.trim().parse::<u128>().ok()) else { return Ok(()) };
    if count > MOST_SOCKETS as u128 {
        return Err(Failure::failed(format!(
            "LISTEN_FDS says that {count} sockets were passed; {MOST_SOCKETS} can be taken"
        )));
    }
    Ok(())
}

/// Rejects a TCP socket that is bound or connected but does not listen.
fn check_listens(index: usize, listener: TcpListener) -> Result<Passed, Failure> {
    let listens = nix::sys::socket::getsockopt(&listener, nix::sys::socket::sockopt::AcceptConn);
    if listens == Ok(false) {
        return Err(Failure::failed(format!(
            "the TCP socket {} that was passed does not listen: a unit needs ListenStream with Accept=no",
            index + 1
        )));
    }
    Ok(Passed::Tcp(listener))
}

fn wrong_kind(index: usize, kind: &str) -> Failure {
    Failure::failed(format!("the socket {} that was passed is not a {kind} socket", index + 1))
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

/// Wraps a runtime and delays its tasks until the server listens. Otherwise clients whose packets
/// already wait in a passed socket would be refused.
#[derive(Debug)]
pub(crate) struct Gate {
    inner: Arc<dyn Runtime>,
    listening: watch::Sender<bool>,
}

impl Gate {
    pub(crate) fn before(inner: Arc<dyn Runtime>) -> Arc<Self> {
        Arc::new(Self { inner, listening: watch::Sender::new(false) })
    }

    /// Starts all tasks.
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
            // An error means that the runtime has ended, and its tasks, too.
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
    fn numbers_that_nobody_passes_are_refused() {
        for told in [None, Some("0"), Some("3"), Some("1024"), Some("x"), Some("-1")] {
            assert_eq!(check_count(told), Ok(()), "{told:?}");
        }
        for told in ["1025", "2147483647", "18446744073709551616"] {
            assert!(check_count(Some(told)).unwrap_err().told().0.unwrap().contains(told));
        }
    }

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
