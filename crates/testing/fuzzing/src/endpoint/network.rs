//! The network's effects on packets, and packets of third parties.

use std::net::IpAddr;

use anabranch_proto::{IcmpKind, IcmpMessage, Received};
use anabranch_wire::{Header, Packet};
use bytes::Bytes;

use super::operation::{Icmp, Side, Tag};
use super::world::{CLIENT_PORT, Flying, SERVER_PORT, World, address, other};

impl World {
    pub(super) fn pick(&mut self, packet: u8) -> Option<Flying> {
        let index = usize::from(packet) % self.flying.len().max(1);
        self.flying.remove(index)
    }

    pub(super) fn mutate(&mut self, packet: u8, mend: bool, change: impl FnOnce(&mut Vec<u8>)) {
        let Some(mut packet) = self.pick(packet) else { return };
        change(&mut packet.bytes);
        if mend && packet.bytes.len() >= anabranch_wire::HEADER_LEN {
            packet.bytes[8..12].fill(0);
            let checksum = anabranch_wire::crc32c(&packet.bytes);
            packet.bytes[8..12].copy_from_slice(&checksum.to_le_bytes());
            self.hostile = true;
        }
        self.flying.push_front(packet);
    }

    pub(super) fn header(&self, to: Side, tag: Tag) -> Header {
        let (source_port, destination_port) = match to {
            Side::Client => (SERVER_PORT, CLIENT_PORT),
            Side::Server => (CLIENT_PORT, SERVER_PORT),
        };
        let verification_tag = match tag {
            Tag::Zero => 0,
            Tag::Right => self.ends[to.index()].seen.tag,
            Tag::Reflected => self.ends[other(to).index()].seen.tag,
            Tag::Other(tag) => tag,
        };
        Header { source_port, destination_port, verification_tag }
    }

    /// Delivers a packet of a third party. It must be answered with at most one packet, unless it
    /// carries a tag that only the peer knows.
    pub(super) fn inject(&mut self, to: Side, from_address: IpAddr, bytes: Vec<u8>) {
        let packet = Packet::parse(&bytes).expect("forged with a header");
        let tag = packet.header().verification_tag;
        let known = self.ends.iter().any(|end| end.seen.tag == tag);
        let has_cookie = (packet.chunks().map_while(Result::ok))
            .any(|chunk| chunk.kind == anabranch_wire::kind::COOKIE_ECHO);
        self.hostile |= known || has_cookie;
        self.drain();
        let before = self.flying.len();
        let length = bytes.len();
        let to_address = address(to, false);
        self.deliver(Flying { to, from_address, to_address, bytes });
        self.drain();
        let answers: Vec<_> = self.flying.iter().skip(before).collect();
        if !known && !has_cookie {
            assert!(answers.len() <= 1, "{} answers to a stranger", answers.len());
            // Room for the cookie and the contents of an INIT ACK.
            let size: usize = answers.iter().map(|packet| packet.bytes.len()).sum();
            assert!(size <= 1024 + 2 * length, "{size} bytes for {length} of a stranger");
        }
    }

    pub(super) fn icmp(&mut self, to: Side, kind: Icmp, tag: Tag, second: bool) {
        // The quoted packet was sent by this side, with the tag that the other side expects.
        let header = self.header(other(to), tag);
        let mut quoted = Vec::new();
        quoted.extend_from_slice(&header.source_port.to_be_bytes());
        quoted.extend_from_slice(&header.destination_port.to_be_bytes());
        quoted.extend_from_slice(&header.verification_tag.to_be_bytes());
        self.hostile |= header.verification_tag == self.ends[other(to).index()].seen.tag;
        let now = self.now;
        let message = IcmpMessage {
            local: address(to, second),
            remote: address(other(to), second),
            kind: match kind {
                Icmp::TooBig(mtu) => IcmpKind::PacketTooBig { mtu },
                Icmp::Protocol => IcmpKind::ProtocolUnreachable,
                Icmp::Port => IcmpKind::PortUnreachable,
                Icmp::Other => IcmpKind::OtherUnreachable,
            },
            quoted: &quoted,
        };
        self.end(to).endpoint.handle_icmp(now, &message);
    }

    pub(super) fn remember(&mut self, packet: Flying) {
        if self.history.len() == 64 {
            self.history.pop_front();
        }
        self.history.push_back(packet);
    }

    pub(super) fn deliver(&mut self, packet: Flying) {
        let received = Received {
            local: packet.to_address,
            remote: packet.from_address,
            remote_udp_port: self.udp_port(),
            ecn: None,
            segment_size: packet.bytes.len(),
        };
        let now = self.now;
        let bytes = Bytes::from(packet.bytes.clone());
        self.end(packet.to).endpoint.handle_batch(now, &received, bytes);
        self.remember(packet);
        self.drain();
    }
}
