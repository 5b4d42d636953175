//! Sends from an address over its own interface, where the routes would choose another one.
//!
//! A socket that is bound to an interface uses only routes of that interface. Such a socket is opened when a path first
//! needs it. It only sends; the endpoint's other sockets receive as before. Only associations with the option `roam` use
//! this, and only when the host's interfaces both have a route ([`Runtime::strays`]).

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use anabranch_proto::{Instant, Transmit};

use super::{Socket, SocketSet};
use crate::runtime::Runtime;

/// How long an answer about routes counts: they may change at any time, and asking takes some microseconds.
const VALID: Duration = Duration::from_secs(1);

/// Maximum number of pairs of addresses of which the answer is kept.
const MOST_PAIRS: usize = 4096;

/// What is known about routes.
#[derive(Debug, Default)]
pub(super) struct Outlets {
    /// For each local address and destination, until when this counts, and whether packets would leave by another
    /// interface.
    pairs: BTreeMap<(IpAddr, SocketAddr), (Instant, bool)>,
}

impl Outlets {
    pub(super) fn clear(&mut self) {
        self.pairs.clear();
    }
}

impl SocketSet {
    /// Finds out over which socket a transmit is to be sent, and opens it if necessary.
    pub(crate) fn find_outlet(&mut self, runtime: &dyn Runtime, now: Instant, transmit: &Transmit) {
        if !transmit.roams || self.interface.is_some() || !self.has_several_links(transmit.local) {
            return;
        }
        let remote = SocketAddr::new(transmit.remote, transmit.remote_udp_port);
        let pair = (transmit.local, remote);
        if self.outlets.pairs.get(&pair).is_some_and(|(until, _)| now < *until) {
            return;
        }
        let Some(local) = self.addresses.iter().find(|address| address.ip == transmit.local) else {
            return;
        };
        let strays = runtime.strays(local, remote);
        let name = local.interface.clone();
        let usable = strays && self.open_outlet(transmit.local, &name, remote);
        if self.outlets.pairs.len() >= MOST_PAIRS {
            self.outlets.clear();
        }
        self.outlets.pairs.insert(pair, (now + VALID, usable));
    }

    /// The outlet for a transmit, if it needs one.
    pub(super) fn outlet_of(&self, transmit: &Transmit) -> Option<usize> {
        if !transmit.roams || self.outlets.pairs.is_empty() {
            return None;
        }
        let remote = SocketAddr::new(transmit.remote, transmit.remote_udp_port);
        let (_, strays) = self.outlets.pairs.get(&(transmit.local, remote))?;
        if !strays {
            return None;
        }
        let local = self.addresses.iter().find(|address| address.ip == transmit.local)?;
        self.outlet_on(transmit.local, &local.interface)
    }

    /// The system refused to send this over an outlet: the next packets take the usual route.
    pub(super) fn avoid_outlet(&mut self, transmit: &Transmit) {
        let remote = SocketAddr::new(transmit.remote, transmit.remote_udp_port);
        if let Some((_, strays)) = self.outlets.pairs.get_mut(&(transmit.local, remote)) {
            *strays = false;
        }
    }

    /// Closes the outlets of interfaces that went or changed, and asks for the routes again.
    pub(super) fn refresh_outlets(&mut self) {
        self.outlets.clear();
        let addresses = &self.addresses;
        self.sockets.retain(|socket| {
            socket.outlet.as_ref().is_none_or(|(name, index)| {
                addresses.iter().any(|a| a.interface == *name && a.index == *index)
            })
        });
    }

    /// Whether addresses of this family are on more than one interface, so that the routes matter.
    fn has_several_links(&self, local: IpAddr) -> bool {
        let same = |ip: IpAddr| ip.is_ipv4() == local.is_ipv4() && !ip.is_loopback();
        let mut indices = self.addresses.iter().filter(|a| same(a.ip) && a.index != 0);
        let first = indices.next().map(|address| address.index);
        indices.any(|address| Some(address.index) != first)
    }

    fn outlet_on(&self, local: IpAddr, interface: &str) -> Option<usize> {
        self.sockets.iter().position(|socket| {
            socket.outlet.as_ref().is_some_and(|(name, _)| name == interface)
                && socket.serves(local)
        })
    }

    /// Whether there is an outlet for this address on its interface, which is opened if necessary.
    fn open_outlet(&mut self, local: IpAddr, interface: &str, remote: SocketAddr) -> bool {
        if self.outlet_on(local, interface).is_some() {
            return true;
        }
        let Some(main) = self.index_of(local).and_then(|index| self.sockets.get(index)) else {
            return false;
        };
        let index = self.addresses.iter().find(|a| a.ip == local).map_or(0, |a| a.index);
        match main.io.outlet(interface, remote) {
            Ok(io) => {
                tracing::debug!(name: "connectivity:outlet", %local, interface);
                let outlet = Some((interface.to_owned(), index));
                self.sockets.push(Socket { outlet, ..Socket::new(io, None, None) });
                true
            }
            Err(error) => {
                tracing::debug!(%local, interface, %error, "packets take the usual route");
                false
            }
        }
    }
}

#[cfg(all(test, feature = "runtime-tokio", target_os = "linux"))]
mod tests;
