//! Packets between endpoints, and a script's actions on them.

use std::net::IpAddr;
use std::time::Duration;

use anabranch_impair::pattern::Facts;
use anabranch_impair::{Packet as Carried, Rng};
use anabranch_proto::{Ecn, Instant, Received};
use anabranch_wire::Packet;
use bytes::Bytes;

/// An SCTP packet with its addresses.
#[derive(Clone, Debug)]
pub struct Datagram {
    /// Source address.
    pub from: IpAddr,
    /// Destination address.
    pub to: IpAddr,
    /// UDP source port; 0 for IP protocol 132.
    pub udp_port: u16,
    /// ECN codepoint.
    pub ecn: Option<Ecn>,
    /// Whether routers must not fragment it.
    pub dont_fragment: bool,
    /// The SCTP packet.
    pub bytes: Bytes,
}

impl Datagram {
    /// The packet as it arrives.
    pub fn received(&self) -> Received {
        Received {
            local: self.to,
            remote: self.from,
            remote_udp_port: self.udp_port,
            ecn: self.ecn,
            segment_size: self.bytes.len(),
        }
    }
}

impl Carried for Datagram {
    const HAS_FACTS: bool = true;

    fn facts(&self) -> Option<Facts> {
        Some(Facts::of_sctp(&self.bytes).between(self.from, self.to))
    }

    fn flip(&mut self, bit: i64) -> bool {
        self.bytes.flip(bit)
    }

    fn size(&self) -> usize {
        self.bytes.len()
    }

    fn corrupt(&mut self, rng: &mut Rng) -> bool {
        let mut bytes = self.bytes.to_vec();
        let done = bytes.corrupt(rng);
        self.bytes = bytes.into();
        done
    }

    fn mark(&mut self) -> bool {
        Ecn::mark(&mut self.ecn)
    }

    fn duplicate(&self) -> Option<Self> {
        Some(self.clone())
    }
}

/// A packet about to enter the network, as a script sees it.
#[derive(Clone, Copy, Debug)]
pub struct Sight<'a> {
    /// Time.
    pub now: Instant,
    /// The sending node.
    pub node: usize,
    /// Number of packets that entered the network before it.
    pub number: u64,
    /// Source address.
    pub from: IpAddr,
    /// Destination address.
    pub to: IpAddr,
    /// ECN codepoint.
    pub ecn: Option<Ecn>,
    /// The packet.
    pub packet: Packet<'a>,
}

impl Sight<'_> {
    /// Whether the packet contains a chunk of this type.
    pub fn has(&self, kind: u8) -> bool {
        self.packet.chunks().map_while(Result::ok).any(|chunk| chunk.kind == kind)
    }
}

/// The action of a script on a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It continues unchanged.
    Pass,
    /// It is lost.
    Drop,
    /// It arrives twice.
    Duplicate,
    /// It arrives right after the next packet in its direction, or after this time if there is
    /// none.
    BehindNext(Duration),
    /// It enters the network after this delay.
    Delay(Duration),
    /// It goes on with this ECN codepoint.
    Recode(Option<Ecn>),
    /// This packet replaces it.
    Replace(Bytes),
    /// These packets replace it, in this order.
    Instead(Vec<Bytes>),
}
