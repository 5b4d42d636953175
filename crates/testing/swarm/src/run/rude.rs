//! A peer that violates the protocol: it sets up an association correctly and then sends forbidden
//! packets. They may affect only its own association.

use std::net::{IpAddr, Ipv6Addr};

use anabranch_proto::{AssociationId, Event, Notification, Received};
use anabranch_testnet::{craft, pump};
use anabranch_wire::{
    Abort, Causes, Chunk, CookieEcho, Data, DataFlags, Header, Init, Packet, PacketWriter,
    Parameter, Parameters, Ppid, ShutdownComplete, Ssn, Tsn,
};
use bytes::Bytes;

use super::{PORTS, Run, elsewhere};

/// Its SCTP port and verification tag.
const PORT: u16 = 6666;
const TAG: u32 = 0x0bad_beef;

impl Run {
    /// It connects to node 1, misbehaves, and aborts.
    pub(super) fn rude(&mut self) {
        self.net.settle();
        let to = self.addresses[1][0];
        let from = match (&self.sealed, to) {
            // Another client with the same path number.
            (Some(_), IpAddr::V6(v6)) => Ipv6Addr::from_bits(!v6.to_bits() ^ 0xff).into(),
            _ => elsewhere(to),
        };
        self.take(from, to, 0, |packet| {
            packet.chunk(&Chunk::Init(Init {
                initiate_tag: TAG,
                a_rwnd: 1500,
                outbound_streams: 1,
                inbound_streams: 1,
                initial_tsn: Tsn(1),
                parameters: Parameters::new(&[]),
            }))
        });
        let mut answer = Vec::new();
        let now = self.net.now();
        if pump::poll(&mut self.net.node_mut(1).endpoint, now, 1, &mut answer).is_none() {
            return;
        }
        let Some((tag, cookie)) = cookie(&answer) else { return };
        self.take(from, to, tag, |packet| {
            packet.chunk(&Chunk::CookieEcho(CookieEcho { cookie: &cookie }))
        });
        for _ in 0..self.stranger.between(1, 5) {
            // Stream 0 is allowed; gap ack blocks reach no farther than 65,535 TSNs.
            let (tsn, stream) = self.stranger.of(&[(1, 1), (2, 65_535), (70_000, 0), (0, 0)]);
            let data = Data {
                flags: DataFlags(DataFlags::BEGIN | DataFlags::END),
                tsn: Tsn(tsn),
                stream,
                ssn: Ssn(0),
                ppid: Ppid(0),
                payload: b"rude",
            };
            self.take(from, to, tag, |packet| packet.data(&data));
            self.net.settle();
        }
        // A chunk that must be alone in a packet is not.
        self.take(from, to, tag, |packet| {
            let complete = ShutdownComplete { tag_reflected: false };
            packet.chunk(&Chunk::ShutdownComplete(complete))?;
            packet.chunk(&Chunk::CookieAck)
        });
        self.take(from, to, tag, |packet| {
            packet.chunk(&Chunk::Abort(Abort { tag_reflected: false, causes: Causes::new(&[]) }))
        });
    }

    /// One of its packets arrives at node 1.
    fn take(
        &mut self,
        from: IpAddr,
        to: IpAddr,
        tag: u32,
        write: impl FnOnce(&mut PacketWriter<'_>) -> Result<(), anabranch_wire::NoRoom>,
    ) {
        let header =
            Header { source_port: PORT, destination_port: PORTS[1], verification_tag: tag };
        let bytes: Bytes = craft::packet(header, write);
        let (now, node) = (self.net.now(), self.net.node_mut(1));
        let received = Received {
            local: to,
            remote: from,
            remote_udp_port: node.udp_port,
            ecn: None,
            segment_size: bytes.len(),
        };
        node.endpoint.handle_batch(now, &received, bytes);
    }

    /// Whether an association belongs to that peer. Node 1's user ignores it; it is forgotten when
    /// it has ended.
    pub(super) fn is_rude(&mut self, node: usize, id: AssociationId, event: &Event) -> bool {
        let endpoint = &mut self.net.node_mut(node).endpoint;
        let rude = endpoint.association(id).is_some_and(|known| known.remote_port() == PORT);
        if rude && matches!(event, Event::Notification(Notification::Closed(_))) {
            endpoint.remove(id);
        }
        rude
    }
}

/// Extracts tag and cookie from an INIT ACK.
fn cookie(packet: &[u8]) -> Option<(u32, Vec<u8>)> {
    let packet = Packet::parse(packet).ok()?;
    let Ok(Chunk::InitAck(ack)) = packet.chunks().next()?.ok()?.decode() else { return None };
    let cookie = ack.parameters.iter().flatten().find_map(|raw| match raw.decode() {
        Ok(Parameter::StateCookie(cookie)) => Some(cookie.to_vec()),
        _ => None,
    })?;
    Some((ack.initiate_tag, cookie))
}
