//! Routes of packets through the routers.

use std::collections::VecDeque;

use crate::channel::Channel;
use crate::network::Node;
use crate::packet::{AddressId, MAX_HOPS};
use crate::spread::Choice;

/// Marks a missing route.
const NONE: u32 = u32::MAX;
/// Entries from this value are indices into the list of choices.
const SEVERAL: u32 = 1 << 31;

/// An address of an interface of a host.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Address {
    pub(crate) ip: std::net::IpAddr,
    pub(crate) node: usize,
    /// The channel that leads from the interface into the network.
    pub(crate) channel: usize,
    /// Whether the host has it at present.
    pub(crate) usable: bool,
}

/// The channel through which each node forwards packets to each address.
#[derive(Debug, Default)]
pub(crate) struct Routes {
    next: Vec<u32>,
    addresses: usize,
    /// Where a router has several next hops.
    choices: Vec<Choice>,
}

impl Routes {
    /// Tables without a route.
    pub(crate) fn empty(nodes: usize, addresses: usize) -> Self {
        Self { next: vec![NONE; nodes * addresses], addresses, choices: Vec::new() }
    }

    /// The routes with the fewest hops to every address; among equal routes the link created first
    /// wins.
    pub(crate) fn by_hops(nodes: &[Node], channels: &[Channel], addresses: &[Address]) -> Self {
        let mut routes = Self::empty(nodes.len(), addresses.len());
        for (id, address) in addresses.iter().enumerate() {
            // The path to the interface ends with the interface's link.
            let last = address.channel ^ 1;
            let mut open = VecDeque::from([channels[last].from]);
            routes.set(channels[last].from, id as u32, last);
            while let Some(node) = open.pop_front() {
                if !nodes[node].is_router() {
                    continue;
                }
                for (index, channel) in channels.iter().enumerate() {
                    let neighbour = channel.from;
                    if channel.to == node
                        && nodes[neighbour].is_router()
                        && routes.get(neighbour, id as u32).is_none()
                    {
                        routes.set(neighbour, id as u32, index);
                        open.push_back(neighbour);
                    }
                }
            }
        }
        routes
    }

    /// Makes room for nodes and addresses added later. Existing routes stay.
    pub(crate) fn fit(&mut self, nodes: usize, addresses: usize) {
        if self.addresses == addresses && self.next.len() == nodes * addresses {
            return;
        }
        let mut next = vec![NONE; nodes * addresses];
        for (node, row) in self.next.chunks(self.addresses.max(1)).enumerate() {
            for (to, channel) in row.iter().enumerate().take(addresses) {
                if let Some(entry) = next.get_mut(node * addresses + to) {
                    *entry = *channel;
                }
            }
        }
        (self.next, self.addresses) = (next, addresses);
    }

    pub(crate) fn set(&mut self, node: usize, to: AddressId, channel: usize) {
        if let Some(entry) = self.next.get_mut(node * self.addresses + to as usize) {
            *entry = channel as u32;
        }
    }

    /// Sets several next channels from `node` to the address.
    pub(crate) fn set_several(&mut self, node: usize, to: AddressId, choice: Choice) {
        if let Some(entry) = self.next.get_mut(node * self.addresses + to as usize) {
            *entry = SEVERAL + self.choices.len() as u32;
            self.choices.push(choice);
        }
    }

    /// The next channel from `node` to the address; the first if there are several.
    pub(crate) fn get(&self, node: usize, to: AddressId) -> Option<usize> {
        match *self.next.get(node * self.addresses + to as usize)? {
            NONE => None,
            next if next >= SEVERAL => {
                self.choices.get((next - SEVERAL) as usize).map(Choice::first)
            }
            next => Some(next as usize),
        }
    }

    /// The next channel of a packet; `flow` computes its flow's number if needed.
    pub(crate) fn next(
        &mut self,
        node: usize,
        to: AddressId,
        flow: impl FnOnce() -> u64,
    ) -> Option<usize> {
        match *self.next.get(node * self.addresses + to as usize)? {
            NONE => None,
            next if next >= SEVERAL => {
                let choice = self.choices.get_mut((next - SEVERAL) as usize)?;
                Some(choice.next(flow()))
            }
            next => Some(next as usize),
        }
    }

    /// Whether packets from one interface reach another.
    pub(crate) fn reach(
        &self,
        nodes: &[Node],
        channels: &[Channel],
        from: &Address,
        to: (AddressId, &Address),
    ) -> bool {
        let mut channel = from.channel;
        for _ in 0..MAX_HOPS {
            let node = channels[channel].to;
            if !nodes[node].is_router() {
                return node == to.1.node && channel ^ 1 == to.1.channel;
            }
            match self.get(node, to.0) {
                Some(next) => channel = next,
                None => return false,
            }
        }
        false
    }
}
