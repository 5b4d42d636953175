//! Packets on the links.

use anabranch_impair::pattern::Facts;
use anabranch_impair::{Packet as Carried, Rng};
use anabranch_proto::{Ecn, IcmpKind};
use bytes::Bytes;

/// Hops after which a packet in a routing loop is dropped (the Internet's usual TTL).
pub(crate) const MAX_HOPS: u8 = 64;

/// The kind of a packet; link counters distinguish them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Traffic {
    /// SCTP packets of endpoints.
    Sctp,
    /// Cross-traffic of generators.
    Cross,
    /// Segments of TCP connections.
    Tcp,
    /// ICMP messages of routers.
    Icmp,
}

/// Number of an address of the network.
pub(crate) type AddressId = u32;

/// One IP packet.
#[derive(Clone, Debug)]
pub(crate) struct Packet {
    /// The SCTP packet, the TCP segment, or the packet quoted by an ICMP message; empty for
    /// cross-traffic of generators.
    pub(crate) bytes: Bytes,
    /// Bytes of the whole IP packet.
    pub(crate) size: u32,
    pub(crate) source: AddressId,
    pub(crate) destination: AddressId,
    pub(crate) kind: Kind,
    pub(crate) hops: u8,
    pub(crate) dont_fragment: bool,
    pub(crate) ecn: Option<Ecn>,
}

/// The memory of packets that have arrived, for others.
#[derive(Debug, Default)]
pub(crate) struct Packets {
    #[expect(clippy::vec_box, reason = "it is the boxes that are kept")]
    free: Vec<Box<Packet>>,
}

impl Packets {
    /// Moves a packet to the heap. Only a pointer to it goes from link to link.
    pub(crate) fn boxed(&mut self, packet: Packet) -> Box<Packet> {
        match self.free.pop() {
            Some(mut place) => {
                *place = packet;
                place
            }
            None => Box::new(packet),
        }
    }

    /// Keeps the memory of a packet that is not needed any more.
    pub(crate) fn give_back(&mut self, packet: Box<Packet>) {
        self.free.push(packet);
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Sctp,
    /// Number of the generator.
    Cross(u32),
    /// Number of the feed. The packet ends with the link.
    Fed(u32),
    /// Index of the connection, and its number at this index.
    Tcp(u32, u32),
    /// Destination of the quoted packet, and the error.
    Icmp(AddressId, IcmpKind),
}

impl Packet {
    /// A number that all packets of a flow share. A flow is a pair of addresses and of ports.
    pub(crate) fn flow(&self) -> u64 {
        let pair = (u64::from(self.source) << 48) ^ (u64::from(self.destination) << 32);
        let number = match self.kind {
            Kind::Sctp => self.bytes.first_chunk().map_or(0, |ports| u32::from_be_bytes(*ports)),
            Kind::Tcp(number, turn) => number ^ turn.rotate_left(16) ^ (1 << 31),
            Kind::Cross(number) => number ^ (1 << 30),
            Kind::Fed(number) => number ^ (1 << 29),
            Kind::Icmp(..) => 0,
        };
        pair ^ u64::from(number)
    }

    pub(crate) fn traffic(&self) -> Traffic {
        match self.kind {
            Kind::Sctp => Traffic::Sctp,
            Kind::Cross(_) | Kind::Fed(_) => Traffic::Cross,
            Kind::Tcp(..) => Traffic::Tcp,
            Kind::Icmp(..) => Traffic::Icmp,
        }
    }
}

impl Carried for Packet {
    const HAS_FACTS: bool = true;

    /// The contents of SCTP packets; for other packets only the protocol, because they have no
    /// headers here.
    fn facts(&self) -> Option<Facts> {
        Some(match self.kind {
            Kind::Sctp => Facts::of_sctp(&self.bytes),
            // Everything after a segment's headers is payload; their length is in words.
            Kind::Tcp(..) => {
                let words = self.bytes.get(12).map_or(5, |byte| u32::from(byte >> 4));
                Facts::of_protocol(6, self.size.saturating_sub(20 + 4 * words))
            }
            Kind::Icmp(..) => Facts::of_protocol(1, self.size),
            Kind::Cross(_) | Kind::Fed(_) => Facts::of_protocol(17, self.size),
        })
    }

    fn flip(&mut self, bit: i64) -> bool {
        self.bytes.flip(bit)
    }

    fn size(&self) -> usize {
        self.size as usize
    }

    /// Damages the SCTP packet or the TCP segment. IP header checksums are not modelled.
    fn corrupt(&mut self, rng: &mut Rng) -> bool {
        self.bytes.corrupt(rng)
    }

    fn mark(&mut self) -> bool {
        Ecn::mark(&mut self.ecn)
    }

    fn duplicate(&self) -> Option<Self> {
        Some(self.clone())
    }

    fn may_be_fragmented(&self) -> bool {
        !self.dont_fragment
    }
}
