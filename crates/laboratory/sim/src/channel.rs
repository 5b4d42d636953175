//! Links: two directions, each an impaired link with its counters.

use anabranch_impair::Link;

use crate::packet::{Packet, Traffic};

/// A link of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub(crate) u32);

impl LinkId {
    /// Its number: links are numbered from 0 in the order in which they were created.
    pub fn index(self) -> usize {
        self.0 as usize
    }

    /// The direction away from the first node of [`Network::connect`](crate::Network::connect).
    pub(crate) fn forward(self) -> usize {
        self.index() * 2
    }
}

/// A direction of a link, or both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From the first node to the second.
    Forward,
    /// From the second node to the first.
    Backward,
    /// Both.
    Both,
}

impl Direction {
    /// The channels of a link that this direction selects.
    pub(crate) fn channels(self, link: LinkId) -> impl Iterator<Item = usize> {
        let forward = link.forward();
        let (first, last) = match self {
            Self::Forward => (0, 0),
            Self::Backward => (1, 1),
            Self::Both => (0, 1),
        };
        (first..=last).map(move |offset| forward + offset)
    }
}

/// Counters of one direction of a link for packets of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrafficCounters {
    /// Packets offered for sending.
    pub offered: u64,
    /// Their bytes, IP headers included.
    pub offered_bytes: u64,
    /// Packets that reached the other end.
    pub delivered: u64,
    /// Their bytes, IP headers included.
    pub delivered_bytes: u64,
}

/// One direction of a link.
#[derive(Debug)]
pub(crate) struct Channel {
    pub(crate) link: Link<Box<Packet>>,
    /// Index of the node where it starts, and of the node where it ends.
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// Its entry in the calendar.
    pub(crate) source: usize,
    counters: [TrafficCounters; 4],
}

impl Channel {
    pub(crate) fn new(link: Link<Box<Packet>>, from: usize, to: usize, source: usize) -> Self {
        Self { link, from, to, source, counters: [TrafficCounters::default(); 4] }
    }

    fn row(&mut self, traffic: Traffic) -> &mut TrafficCounters {
        &mut self.counters[traffic as usize]
    }

    pub(crate) fn offered(&mut self, packet: &Packet) {
        let row = self.row(packet.traffic());
        row.offered += 1;
        row.offered_bytes += u64::from(packet.size);
    }

    pub(crate) fn delivered(&mut self, packet: &Packet) {
        let row = self.row(packet.traffic());
        row.delivered += 1;
        row.delivered_bytes += u64::from(packet.size);
    }

    pub(crate) fn counters(&self, traffic: Traffic) -> TrafficCounters {
        self.counters[traffic as usize]
    }
}
