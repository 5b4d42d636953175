//! The path MTU falls while messages of many sizes are under way.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;

use anabranch_harness::pump::{self, Batch};
use anabranch_proto::{
    AssociationConfig, AssociationId, ConnectRequest, Endpoint, EndpointConfig, Instant,
    OutgoingMessage, Ppid, Received,
};
use anabranch_wire::Packet;
use bytes::Bytes;

/// What UDP and IPv4 add to an SCTP packet.
const HEADERS: usize = 28;

fn address(end: usize) -> IpAddr {
    IpAddr::from([10, 0, 0, end as u8 + 1])
}

/// Two endpoints and a network without delay that silently drops packets that are too large and
/// must not be fragmented.
struct Pair {
    ends: [Endpoint; 2],
    now: Instant,
    mtu: usize,
}

impl Pair {
    fn new() -> (Self, AssociationId) {
        let now = Instant::ZERO;
        let config = Arc::new(AssociationConfig::default());
        let mut ends = [1, 2].map(|seed| Endpoint::new(EndpointConfig::default(), [seed; 32]));
        for (index, end) in ends.iter_mut().enumerate() {
            end.set_local_addresses(now, &[address(index)]);
        }
        ends[1].listen(80, Arc::clone(&config)).unwrap();
        let mut request = ConnectRequest::new(vec![address(1)], 80);
        request.remote_udp_port = 1000;
        request.config = config;
        let client = ends[0].connect(now, request).unwrap();
        (Self { ends, now, mtu: 1500 }, client)
    }

    /// Delivers packets until none are left, and then lets the next timer expire. Returns the bytes of
    /// messages that arrived at the second end.
    fn step(&mut self) -> usize {
        let mut wire = VecDeque::new();
        let mut arrived = 0;
        loop {
            for end in 0..2 {
                while let Some(batch) = Batch::take(&mut self.ends[end], self.now, 16) {
                    wire.extend(self.carried(&batch).map(|packet| (1 - end, packet)));
                }
            }
            while let Some((id, _)) = self.ends[1].poll_event() {
                let Some(mut association) = self.ends[1].association_mut(self.now, id) else {
                    continue;
                };
                while let Some(message) = association.receive() {
                    arrived += message.payload.len();
                    association.release(message.charge());
                }
            }
            while self.ends[0].poll_event().is_some() {}
            let Some((to, packet)) = wire.pop_front() else { break };
            let received = Received {
                local: address(to),
                remote: address(1 - to),
                remote_udp_port: 1000,
                ecn: None,
                segment_size: packet.len(),
            };
            self.ends[to].handle_batch(self.now, &received, packet);
        }
        self.now = pump::next_deadline(&self.ends).unwrap().max(self.now);
        for end in &mut self.ends {
            pump::expire(end, self.now);
        }
        arrived
    }

    /// The packets of a batch that are not lost. Every piece of the batch must be a whole packet.
    fn carried(&self, batch: &Batch) -> impl Iterator<Item = Bytes> {
        let largest = if batch.transmit.dont_fragment { self.mtu - HEADERS } else { usize::MAX };
        batch.packets().filter(move |packet| {
            let parsed = Packet::parse(packet).unwrap();
            assert!(parsed.checksum_ok());
            assert!(parsed.chunks().all(|chunk| chunk.is_ok()), "{:?}", parsed.chunks());
            packet.len() <= largest
        })
    }
}

#[test]
fn what_was_cut_for_the_old_mtu_arrives() {
    let (mut pair, client) = Pair::new();
    let mut sent = 0;
    let mut arrived = 0;
    // Until the search has found the whole 1,500 bytes.
    for _ in 0..50 {
        arrived += pair.step();
    }
    let statistics = pair.ends[0].association(client).unwrap().statistics();
    assert_eq!(statistics.paths[0].mtu, 1500);

    pair.mtu = 1280;
    let now = pair.now;
    let mut association = pair.ends[0].association_mut(now, client).unwrap();
    for length in (0..200).map(|n| 1 + n * 997 % 5000) {
        let message = OutgoingMessage::new(0, Ppid(0), vec![7; length]);
        association.send(now, message).unwrap();
        sent += length;
    }
    drop(association);
    for _ in 0..2000 {
        arrived += pair.step();
        if arrived == sent {
            break;
        }
    }
    assert_eq!(arrived, sent);
    let statistics = pair.ends[0].association(client).unwrap().statistics();
    assert!(statistics.paths[0].mtu <= 1280);
}
