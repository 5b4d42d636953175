//! A third party that knows addresses and ports, but no verification tag: its packets must not
//! change anything.

use anabranch_proto::{IcmpKind, IcmpMessage};
use anabranch_testnet::{Datagram, craft};
use anabranch_wire::{Header, kind};
use bytes::Bytes;

use super::{PORTS, Run};

/// Chunks that would end, change or confuse an association if they were accepted.
const KINDS: [u8; 16] = [
    kind::DATA,
    kind::INIT_ACK,
    kind::SACK,
    kind::HEARTBEAT,
    kind::HEARTBEAT_ACK,
    kind::ABORT,
    kind::SHUTDOWN,
    kind::SHUTDOWN_ACK,
    kind::ERROR,
    kind::COOKIE_ECHO,
    kind::COOKIE_ACK,
    kind::SHUTDOWN_COMPLETE,
    kind::PAD,
    kind::FORWARD_TSN,
    0x3f,
    0xff,
];

impl Run {
    /// A packet arrives at `node` from an address of its peer, although the peer did not send it.
    pub(super) fn forge(&mut self, node: usize) {
        let now = self.net.now();
        self.report.forged += 1;
        if let Some(sealed) = &self.sealed {
            let forged = sealed.forge(node, &mut self.stranger);
            forged.into_iter().for_each(|datagram| self.net.arrive(datagram));
            return;
        }
        let draw = &mut self.stranger;
        let path = draw.0.below(self.options.addresses[node].len() as u64) as usize;
        let (from, to) =
            (self.options.addresses[1 - node][path], self.options.addresses[node][path]);
        let header = Header {
            source_port: PORTS[1 - node],
            destination_port: PORTS[node],
            verification_tag: draw.0.next_u64() as u32,
        };
        let value: Vec<u8> = (0..draw.between(0, 60)).map(|_| draw.0.next_u64() as u8).collect();
        let kind = draw.of(&KINDS);
        let flags = draw.between(0, 3) as u8;
        let bytes = craft::packet(header, |packet| packet.raw(kind, flags, &value));
        if draw.one_in(4) {
            // A router reports the packet as undeliverable, although it never saw it.
            let ports =
                Header { source_port: PORTS[node], destination_port: PORTS[1 - node], ..header };
            let quoted = craft::packet(ports, |packet| packet.raw(kind, flags, &value));
            let kind = draw.of(&[
                IcmpKind::ProtocolUnreachable,
                IcmpKind::OtherUnreachable,
                IcmpKind::PacketTooBig { mtu: 600 },
            ]);
            let message = IcmpMessage { local: to, remote: from, kind, quoted: &quoted };
            self.net.node_mut(node).endpoint.handle_icmp(now, &message);
        } else {
            let udp_port = self.net.node(node).udp_port;
            let bytes: Bytes = bytes;
            self.net.deliver(Datagram {
                from,
                to,
                udp_port,
                ecn: None,
                dont_fragment: false,
                bytes,
            });
        }
    }
}
