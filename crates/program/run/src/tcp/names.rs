//! The true addresses of connections that programs have with the engine.

use std::collections::HashMap;
use std::net::SocketAddr;

use anabranch_channel::tcp::Gate;

/// A connection's own address and its peer's.
pub(super) type Pair = [SocketAddr; 2];

/// The addresses, by the kernel's.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// Of connections that programs have made, by the kernel's address of the program's socket.
    made: HashMap<SocketAddr, Pair>,
    /// Of connections that programs accept, by the address of the engine's socket.
    accepted: HashMap<SocketAddr, Pair>,
}

/// Which socket has a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    /// That of a program which connects, with this address.
    Made(SocketAddr),
    /// That of the engine which connects to a program, with this address.
    Accepted(SocketAddr),
}

impl Names {
    pub(super) fn set(&mut self, key: Key, names: Pair) {
        match key {
            Key::Made(own) => self.made.insert(own, names),
            Key::Accepted(peer) => self.accepted.insert(peer, names),
        };
    }

    pub(super) fn remove(&mut self, key: Key) {
        match key {
            Key::Made(own) => self.made.remove(&own),
            Key::Accepted(peer) => self.accepted.remove(&peer),
        };
    }

    /// The true addresses of a socket to which the kernel gives these.
    pub(super) fn find(&self, own: SocketAddr, peer: SocketAddr, gate: &Gate) -> Option<Pair> {
        let is_gate = |only_ipv6| gate.address(only_ipv6, only_ipv6) == Some(peer);
        let found = match is_gate(false) || is_gate(true) {
            true => self.made.get(&own),
            false => self.accepted.get(&peer),
        };
        found.copied()
    }
}
