//! Scheduled actions on the nodes.

use std::net::IpAddr;
use std::sync::Arc;

use anabranch_proto::{ConnectRequest, Instant};

use super::{End, PORTS, Run, elsewhere};
use crate::options::Kind;

/// An action; numbers refer to nodes, links and whims of the options.
#[derive(Clone, Copy, Debug)]
pub(super) enum Action {
    Connect(usize),
    Reconnect(usize),
    Reboot(usize),
    Abort(usize),
    Shutdown(usize),
    Mtu(usize),
    Whim(usize),
    /// A node's address with this number becomes unusable or usable.
    Address(usize, usize, bool),
    Forge(usize),
    Rude,
    /// An uplink with this number gets another outer address.
    Move(usize),
    /// This number of strangers begin a handshake with the sealed server.
    Crowd(u32),
}

impl Run {
    /// Performs an action now.
    pub(super) fn act(&mut self, action: Action) {
        let now = self.net.now();
        self.net.trace.note(now, format_args!("{action:?}"));
        match action {
            Action::Connect(node) => self.connect(node, Some(PORTS[node])),
            Action::Reconnect(node) => {
                self.report.reconnects += 1;
                let same_port = self.options.reconnect.is_some_and(|(_, same)| same);
                self.connect(node, same_port.then_some(PORTS[node]));
            }
            Action::Reboot(node) => self.reboot(node),
            Action::Abort(node) => {
                self.aborted = true;
                for id in self.open(node) {
                    self.report.aborts += 1;
                    let endpoint = &mut self.net.node_mut(node).endpoint;
                    if let Some(mut association) = endpoint.association_mut(now, id) {
                        association.abort(now, b"the swarm says so");
                    }
                }
            }
            Action::Shutdown(node) => self.shutdown(node),
            Action::Mtu(index) => {
                let ((a, b), spec) = &self.options.links[index];
                let (a, b, mtu) = (*a, *b, spec.mtu_change.map(|(_, mtu)| mtu));
                if self.healthy.is_none() {
                    self.net.set_mtu(a, b, mtu);
                    self.net.set_mtu(b, a, mtu);
                }
            }
            Action::Whim(index) => self.whim(index),
            Action::Address(node, number, usable) => self.address(node, number, usable),
            Action::Forge(node) => self.forge(node),
            Action::Rude => self.rude(),
            Action::Move(uplink) => {
                self.sealed.iter().for_each(|sealed| sealed.translate_anew(uplink));
            }
            Action::Crowd(count) => {
                let sealed = self.sealed.iter();
                let hellos = sealed.map(|sealed| sealed.crowd(now, count, &mut self.stranger));
                let hellos: Vec<_> = hellos.flatten().collect();
                hellos.into_iter().for_each(|hello| self.net.arrive(hello));
            }
        }
    }

    /// A node loses its state.
    fn reboot(&mut self, node: usize) {
        let now = self.net.now();
        self.report.reboots += 1;
        self.rebooted = true;
        let mut seed = [node as u8 + 10; 32];
        seed[..8].copy_from_slice(&self.options.seed.to_le_bytes());
        let all = &self.options.addresses[node];
        let after: Vec<IpAddr> = match &self.options.addresses_after {
            Some(left) => left.iter().map(|number| all[*number]).collect(),
            None => all.clone(),
        };
        match &self.sealed {
            Some(sealed) => {
                sealed.reboot(now, node, &after);
                self.addresses[node] = sealed.addresses(node);
                self.net.set_addresses(node, &sealed.present(node));
            }
            None => self.net.set_addresses(node, &after),
        }
        if self.options.few_streams {
            self.options.configs[node].receiving.inbound_streams = 1;
        }
        let mut config = Self::endpoint(&self.options, node);
        // Far apart, like random ones: if both handshakes had one tag (RFC 9260 section
        // 5.2.1), late data would be taken for data of the new incarnation.
        config.initial_tsn = config.initial_tsn.map(|tsn| tsn.wrapping_sub(1 << 20));
        self.net.reboot(node, config, seed);
        self.oracle.lost_state();
        let user = &mut self.users[node];
        user.ends.clear();
        user.kept.clear();
        if node == 1 || self.options.kind == Kind::Collision {
            self.listen(node);
        }
        if let Some((_, _, away)) = self.options.reboot
            && self.connects(node)
        {
            self.schedule(now + away, Action::Connect(node));
        }
    }

    /// Makes a node's address unusable, with all packets on its links, or usable again.
    pub(super) fn address(&mut self, node: usize, number: usize, usable: bool) {
        let now = self.net.now();
        let local = self.options.addresses[node][number];
        self.report.vanished += u64::from(!usable);
        for remote in self.options.addresses[1 - node].clone() {
            self.net.set_up(local, remote, usable);
            self.net.set_up(remote, local, usable);
        }
        let seen = match &self.sealed {
            None => true,
            // A server uses all of its virtual addresses, whatever its real ones are.
            Some(sealed) => node == 0 && sealed.set_uplink(now, number, usable),
        };
        if seen {
            let local = self.addresses[node][number];
            self.net.node_mut(node).endpoint.handle_local_address(now, local, usable);
        }
    }

    /// Whether a node starts associations.
    fn connects(&self, node: usize) -> bool {
        node == 0 || self.options.kind == Kind::Collision
    }

    /// Schedules an action.
    pub(super) fn schedule(&mut self, at: Instant, action: Action) {
        let place = self.actions.partition_point(|(other, _)| *other <= at);
        self.actions.insert(place, (at, action));
    }

    fn connect(&mut self, node: usize, port: Option<u16>) {
        let mut remotes = self.addresses[1 - node].clone();
        if let (0, true, Some(last)) = (node, self.options.twice, remotes.pop()) {
            self.connect_to(node, port, vec![last]);
            remotes.truncate(1);
        } else {
            remotes = self.addresses[1 - node].clone();
        }
        if let (0, Some(place)) = (node, self.options.other_host) {
            let other = elsewhere(self.options.addresses[0][0]);
            remotes.insert(place.min(remotes.len()), other);
        }
        self.connect_to(node, port, remotes);
    }

    fn connect_to(&mut self, node: usize, port: Option<u16>, remotes: Vec<IpAddr>) {
        let now = self.net.now();
        let peer = 1 - node;
        let mut request = ConnectRequest::new(remotes, PORTS[peer]);
        request.local_port = port;
        request.remote_udp_port = self.net.node(peer).udp_port;
        request.config = Arc::new(self.options.configs[node].clone());
        if port.is_some() && self.users[node].ends.iter().any(|end| end.closed.is_some()) {
            // A peer that has not noticed the end considers this a restart.
            self.rebooted = true;
            self.oracle.lost_state();
        }
        let has_one = |end: &End| end.up && end.closed.is_none();
        let has_one = port.is_some() && self.users[node].ends.iter().any(has_one);
        match self.net.node_mut(node).endpoint.connect(now, request) {
            Ok(id) => {
                if has_one && !self.options.twice {
                    // The peer has removed the address from the association, but takes packets there until it knows
                    // that this side has agreed. It considers this a restart, too.
                    self.rebooted = true;
                    self.oracle.lost_state();
                }
                let mut end = End::new(id, true);
                // May exceed the number that the peer accepts.
                end.streams = self.options.configs[node].sending.outbound_streams;
                self.users[node].ends.push(end);
            }
            // In a collision the peer's INIT may have arrived first.
            Err(error) => {
                let again = self.rebooted || self.report.reconnects > 0;
                let known = again || self.options.kind == Kind::Collision;
                // With one address fewer, no address may be left of the family of the peer's last
                // one.
                assert!(known || self.options.late_address, "connect failed: {error}");
            }
        }
    }

    /// Shuts down all open associations of a node.
    pub(super) fn shutdown(&mut self, node: usize) {
        let now = self.net.now();
        for id in self.open(node) {
            let endpoint = &mut self.net.node_mut(node).endpoint;
            if let Some(mut association) = endpoint.association_mut(now, id) {
                association.shutdown(now);
            }
            if let Some(end) = self.users[node].end(id) {
                end.shut.get_or_insert(now);
            }
        }
    }
}
