//! `connect` of programs.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use anabranch_channel::tcp;
use rustix::net::{Shutdown, shutdown};

use super::Tcp;
use super::memory::Known;
use super::names::{Key, Pair};
use super::race::Peer;
use crate::lock::lock;

/// Errors of `connect` that programs have not asked for: most do not ask.
const MOST_FAILURES: usize = 4096;

/// Why connections of programs failed, by SO_COOKIE of their sockets.
#[derive(Debug, Default)]
pub(super) struct Failures(VecDeque<(u64, i32)>);

impl Failures {
    fn add(&mut self, cookie: u64, errno: i32) {
        if self.0.len() == MOST_FAILURES {
            self.0.pop_front();
        }
        self.0.push_back((cookie, errno));
    }

    /// Takes the error of a socket; 0 if there is none.
    pub(super) fn take(&mut self, cookie: [i32; 2]) -> i32 {
        let cookie = tcp::whole(cookie);
        let found = self.0.iter().position(|(known, _)| *known == cookie);
        found.and_then(|at| self.0.remove(at)).map_or(0, |(_, errno)| errno)
    }
}

impl Tcp {
    /// Whether a program's socket shall be connected to the gate. Otherwise the kernel connects it to the peer.
    pub(super) fn decide(&self, remote: SocketAddr) -> bool {
        let unusable = remote.port() == 0 || remote.ip().is_unspecified();
        if unusable || remote.ip().is_multicast() || !self.may_carry(remote.ip()) {
            return false;
        }
        self.settings.required || lock(&self.memory).of(remote) != Known::TcpOnly
    }

    /// A program's socket, which has this address, connects to the gate. Connects to the peer, and then lets it in.
    pub(super) fn begin(
        self: &Arc<Self>,
        own: SocketAddr,
        remote: SocketAddr,
        program: OwnedFd,
        cookie: [i32; 2],
    ) {
        let (tcp, opened) = (self.clone(), self.opened());
        let key = Key::Made(own);
        lock(&self.names).set(key, [own, remote]);
        self.host.spawn(async move {
            let connected = tokio::select! {
                result = tcp.connect(remote) => result,
                () = tcp.over() => Err(libc::ECONNABORTED),
            };
            match connected {
                Ok(peer) => {
                    lock(&tcp.names).set(key, names(&peer, own, remote));
                    if let Ok(stream) = tcp.gate.admit(own).await {
                        // From now on, the kernel closes the program's socket when the program does.
                        drop(program);
                        tcp.relay(stream, peer).await;
                    }
                }
                Err(errno) => {
                    // First the error, so that a program that is woken finds it.
                    lock(&tcp.failures).add(tcp::whole(cookie), errno);
                    let _ = shutdown(&program, Shutdown::Both);
                }
            }
            lock(&tcp.names).remove(key);
            drop(opened);
        });
    }
}

/// The names that a program sees: the peer has the one that the program has used.
fn names(peer: &Peer, own: SocketAddr, remote: SocketAddr) -> Pair {
    let own = match peer {
        Peer::Sctp(carrier) => carrier.names().map_or(own, |[own, _]| own),
        Peer::Tcp(stream) => stream.local_addr().unwrap_or(own),
    };
    [own, remote]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_taken_once_and_bounded() {
        let mut failures = Failures::default();
        for cookie in 0..2 * MOST_FAILURES as u64 {
            failures.add(cookie, 111);
        }
        let latest = tcp::halves(2 * MOST_FAILURES as u64 - 1);
        assert_eq!((failures.take(latest), failures.take(latest)), (111, 0));
        assert_eq!(failures.take(tcp::halves(0)), 0);
        assert!(failures.0.len() < MOST_FAILURES);
    }
}
