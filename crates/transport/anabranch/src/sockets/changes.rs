//! Follows changes of addresses and links while an endpoint is open.

use std::io;
use std::net::{IpAddr, SocketAddr};

use super::{Socket, SocketSet};
use crate::runtime::{Binding, LocalAddress, Runtime, TagMark};

/// Changes of an endpoint's addresses.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    /// Addresses that the host no longer has.
    pub(crate) lost: Vec<IpAddr>,
    /// Addresses that the host has again, or for the first time.
    pub(crate) gained: Vec<IpAddr>,
    /// The host has an address that cannot be used yet, for example during duplicate address detection: check
    /// again.
    pub(crate) again: bool,
}

impl SocketSet {
    /// Reads the host's addresses again, and reopens sockets whose interface was replaced.
    ///
    /// # Errors
    /// The host's addresses cannot be read, for example when this process may open no more files.
    pub(crate) fn look_at_addresses(&mut self, runtime: &dyn Runtime) -> io::Result<Changes> {
        let present = runtime.local_addresses()?;
        let now = self.usable(&present);
        let before = std::mem::take(&mut self.addresses);
        let index_in = |list: &[LocalAddress], ip| {
            list.iter().find(|address| address.ip == ip).map_or(0, |address| address.index)
        };
        let mut changes = Changes::default();
        for address in before.iter().filter(|address| address.index != 0) {
            if index_in(&now, address.ip) == 0 {
                changes.lost.push(address.ip);
            }
        }
        for address in now.iter().filter(|address| address.index != 0) {
            if index_in(&before, address.ip) != address.index {
                changes.gained.push(address.ip);
            }
        }
        self.addresses = now;
        self.refresh_outlets();
        for ip in std::mem::take(&mut changes.gained) {
            let index = index_in(&self.addresses, ip);
            let at = self.index_of(ip);
            let socket = at.and_then(|at| self.sockets.get_mut(at));
            let mark = self.mark.as_ref();
            if socket.is_none_or(|socket| socket.come_back(runtime, index, mark)) {
                changes.gained.push(ip);
                continue;
            }
            changes.again = true;
            if index_in(&before, ip) != 0 {
                changes.lost.push(ip);
            }
            // Treat it as if it did not exist.
            let unusable = self.addresses.iter_mut().filter(|address| address.ip == ip);
            unusable.for_each(|address| address.index = 0);
        }
        Ok(changes)
    }
}

impl Socket {
    /// Handles the return of the socket's address, on the interface with this number. Returns whether the socket
    /// can be used.
    fn come_back(&mut self, runtime: &dyn Runtime, index: u32, mark: Option<&TagMark>) -> bool {
        self.io.refresh();
        let Some(binding) = &mut self.binding else {
            return true;
        };
        let tried = std::mem::take(&mut self.stale);
        if !binding.follow(index) && !tried {
            return true;
        }
        match runtime.bind(binding) {
            Ok(io) => {
                // The sockets of several shards cannot be reopened in their order.
                if binding.shard.is_none() {
                    mark.map(|mark| io.keep_apart(mark));
                }
                self.io = io;
            }
            Err(error) if tried => {
                tracing::debug!(local = %self.bound, %error, "a socket cannot be opened again yet");
                self.stale = true;
            }
            Err(error) => {
                tracing::warn!(local = %self.bound, %error, "a socket cannot be opened again, and is tried again");
                self.stale = true;
            }
        }
        !self.stale
    }
}

impl Binding {
    /// Records the number of the interface. Returns whether a socket must be reopened for it.
    fn follow(&mut self, index: u32) -> bool {
        match &mut self.address {
            SocketAddr::V6(v6) if v6.ip().is_unicast_link_local() => {
                let other = v6.scope_id() != index;
                v6.set_scope_id(index);
                other || self.interface.is_some()
            }
            _ => self.interface.is_some(),
        }
    }
}
