//! Processes the endpoints' events and checks invariants for any input.

use std::time::Duration;

use anabranch_proto::{Event, Notification};
use anabranch_testnet::pump::Batch;
use anabranch_wire::{Chunk, Packet};

use super::operation::Side;
use super::world::{Flying, World, other};

/// Maximum number of bytes that one input may make an endpoint send before it must wait for another
/// one. The largest window is a send buffer, in packets of the smallest size.
const MAX_BURST_BYTES: usize = 4 << 20;
/// Maximum number of packets in the network; further ones are lost.
const MAX_IN_FLIGHT: usize = 512;
/// Virtual time within which a network without faults must finish everything: longer than eight
/// retransmissions at the largest RTO plus a handshake.
const PATIENCE: Duration = Duration::from_secs(1200);

impl World {
    /// Collects the output of the endpoints.
    pub(super) fn drain(&mut self) {
        for side in [Side::Client, Side::Server] {
            self.drain_packets(side);
            self.drain_events(side);
        }
    }

    pub(super) fn drain_packets(&mut self, side: Side) {
        let now = self.now;
        let mut total = 0;
        while let Some(batch) = Batch::take(&mut self.end(side).endpoint, now, 10) {
            total += batch.bytes.len();
            assert!(total < MAX_BURST_BYTES, "{total} bytes at once");
            for bytes in batch.packets() {
                self.inspect(other(side), &bytes);
                let packet = Flying {
                    to: other(side),
                    from_address: batch.transmit.local,
                    to_address: batch.transmit.remote,
                    bytes: bytes.to_vec(),
                };
                if self.flying.len() < MAX_IN_FLIGHT {
                    self.flying.push_back(packet);
                }
            }
        }
    }

    /// Checks that a sent packet is complete, has a correct checksum and contains valid chunks.
    pub(super) fn inspect(&mut self, to: Side, bytes: &[u8]) {
        let packet = Packet::parse(bytes).expect("a header");
        if self.trace {
            println!("{:?} to {to:?}: {packet}", self.now);
        }
        assert!(packet.checksum_ok());
        assert!(packet.chunks().next().is_some(), "an empty packet");
        let header = packet.header();
        let (mut lone, mut count) = (false, 0);
        for chunk in packet.chunks() {
            let raw = chunk.expect("a chunk that does not fit its packet");
            count += 1;
            let seen = &mut self.ends[to.index()].seen;
            match raw.decode().expect("a malformed chunk") {
                Chunk::Init(_) => {
                    lone = true;
                    assert_eq!(header.verification_tag, 0);
                }
                Chunk::InitAck(ack) => {
                    lone = true;
                    let cookie = ack.parameters.find(anabranch_wire::parameter_kind::STATE_COOKIE);
                    let cookie = cookie.expect("an INIT ACK without a cookie");
                    self.ends[other(to).index()].seen.cookie = cookie.value.to_vec();
                }
                Chunk::ShutdownComplete(_) => lone = true,
                Chunk::Data(data) => {
                    assert!(!data.payload.is_empty(), "DATA without data");
                    seen.tsn = data.tsn.0;
                    seen.tag = header.verification_tag;
                }
                Chunk::IData(data) => {
                    assert!(!data.payload.is_empty(), "I-DATA without data");
                    seen.tsn = data.tsn.0;
                    seen.tag = header.verification_tag;
                }
                Chunk::CookieEcho(_) | Chunk::CookieAck | Chunk::Sack(_) | Chunk::NrSack(_) => {
                    seen.tag = header.verification_tag;
                }
                _ => {}
            }
        }
        assert!(!lone || count == 1, "a chunk that has to be alone is not");
    }

    pub(super) fn drain_events(&mut self, side: Side) {
        let end = &mut self.ends[side.index()];
        let mut events = 0;
        while let Some((id, event)) = end.endpoint.poll_event() {
            events += 1;
            assert!(events < 10_000, "events without end");
            assert!(!end.closed.contains(&id), "{event:?} after the last event");
            if self.trace {
                println!("{:?} {side:?} {id} {event:?}", self.now);
            }
            match event {
                Event::Notification(Notification::Up { incoming: true, .. }) => {
                    assert!(!end.associations.contains(&id));
                    end.associations.push(id);
                }
                Event::Notification(Notification::Closed(_)) => end.closed.push(id),
                Event::Notification(Notification::Restarted { .. }) => {
                    end.received.retain(|(of, _), _| *of != id);
                }
                _ => {}
            }
        }
    }

    /// Checks the invariants after an operation.
    pub(super) fn check(&self) {
        for end in &self.ends {
            // Ended associations that wait to be removed do not count.
            let open = end.endpoint.associations().filter(|id| !end.closed.contains(id)).count();
            assert!(open <= 8, "{open} associations");
            // Their number is limited too.
            assert!(end.endpoint.associations().count() <= 8 + 8 / 4 + 1);
            for id in end.endpoint.associations() {
                let Some(association) = end.endpoint.association(id) else { continue };
                let stats = association.statistics();
                assert!(stats.paths.len() <= 16);
                let flight: usize = stats.paths.iter().map(|path| path.flight).sum();
                assert!(flight >= stats.outstanding_bytes);
                // Allow one message more than the limit, and the bookkeeping.
                let buffered = stats.send_queue_bytes + stats.outstanding_bytes;
                assert!(
                    buffered <= end.config.sending.send_buffer + (64 << 10) + 1,
                    "{buffered} buffered"
                );
                // The chunk that fills a gap or probes a window may exceed the buffer by a packet.
                let excess = 4096.max(2 * usize::from(end.config.mtu.max));
                let used = stats.receive_buffer_used;
                assert!(
                    used <= 2 * end.config.receiving.receive_buffer + excess,
                    "{used} received"
                );
                if stats.outstanding_chunks > 0 && !association.is_closed() {
                    let deadline = end.endpoint.next_deadline();
                    assert!(deadline.is_some(), "data outstanding and no timer runs: {stats:?}");
                }
                for path in &stats.paths {
                    assert!(path.cwnd >= 256 && path.rto <= Duration::from_secs(60));
                }
            }
        }
    }

    /// Lets the network work from now on: every message sent arrives, or its association ends.
    pub(crate) fn finish(&mut self) {
        let end = self.now + PATIENCE;
        let mut turns = 0u32;
        while self.now < end {
            turns += 1;
            while let Some(packet) = self.flying.pop_front() {
                self.deliver(packet);
            }
            for side in [Side::Client, Side::Server] {
                self.receive(side, usize::MAX, false);
            }
            self.drain();
            if !self.flying.is_empty() {
                assert!(turns < 1_000_000, "packets without end");
                self.now += Duration::from_millis(1);
                self.advance(Duration::ZERO);
                continue;
            }
            self.check();
            if self.is_idle() {
                return;
            }
            let Some(deadline) = self.next_deadline() else { break };
            self.advance(deadline.saturating_since(self.now));
        }
        assert!(
            self.hostile || self.is_idle(),
            "stuck: {:#?}",
            self.ends
                .iter()
                .flat_map(|end| end.endpoint.associations().filter_map(|id| {
                    end.endpoint.association(id).map(anabranch_proto::Association::statistics)
                }))
                .collect::<Vec<_>>()
        );
    }

    /// Whether nothing waits to be sent or acknowledged.
    pub(super) fn is_idle(&self) -> bool {
        self.ends.iter().all(|end| {
            end.endpoint.associations().all(|id| {
                end.endpoint.association(id).is_none_or(|association| {
                    let stats = association.statistics();
                    association.is_closed()
                        || (association.is_established()
                            && stats.send_queue_bytes == 0
                            && stats.outstanding_chunks == 0)
                })
            })
        })
    }
}
