//! Packets that one shard has received for another.

use std::collections::VecDeque;
use std::net::IpAddr;

use anabranch_proto::Received;
use bytes::Bytes;

use crate::runtime::NetworkError;

/// Maximum number of packets that wait for their shard; more are lost, as in the queue of a socket.
const MOST_HANDED: usize = 1024;

/// Something that belongs to another shard.
#[derive(Debug)]
pub(crate) enum Handed {
    /// A batch of packets.
    Packets(Received, Bytes),
    /// A batch of packets without an association.
    Strangers(Received, Bytes),
    /// A network error for a packet sent from this address.
    Report(IpAddr, NetworkError),
}

/// Packets and reports that other shards have received for this one.
#[derive(Debug, Default)]
pub(crate) struct HandedQueue {
    packets: VecDeque<Handed>,
    strangers: VecDeque<Handed>,
}

impl HandedQueue {
    /// Queues `what`. Returns whether there was room.
    pub(crate) fn push(&mut self, what: Handed) -> bool {
        let is_stranger = matches!(what, Handed::Strangers(..));
        let queue = if is_stranger { &mut self.strangers } else { &mut self.packets };
        let has_room = queue.len() < MOST_HANDED;
        if has_room {
            queue.push_back(what);
        }
        has_room
    }

    /// Takes everything except packets without an association.
    pub(crate) fn take_packets(&mut self) -> VecDeque<Handed> {
        std::mem::take(&mut self.packets)
    }

    /// Takes the next packets without an association, at most `most`.
    pub(crate) fn take_strangers(&mut self, most: usize) -> Vec<Handed> {
        let count = self.strangers.len().min(most);
        self.strangers.drain(..count).collect()
    }
}
