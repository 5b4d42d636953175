//! Tests that the work for an acknowledgement is proportional to the number of chunks that it
//! acknowledges, regardless of the window: they count examined chunks.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use anabranch_wire::{GapBlock, GapBlocks, Header, NrSack, PacketWriter, Ppid, Tsn, TsnList};

use super::{Budget, Carrier, Sender};
use crate::config::{AssociationConfig, BurstControl, InitialCwnd};
use crate::encapsulation::Encapsulation;
use crate::message::OutgoingMessage;
use crate::path::{Path, Paths};
use crate::per_path::PathId;
use crate::recovery::{Reordering, Undo};
use crate::time::Instant;

const ROUND_TRIP: Duration = Duration::from_millis(100);
const PAYLOAD: usize = 1000;

/// A sender with a number of packets in flight, and the time of the next event.
struct World {
    sender: Sender,
    paths: Paths,
    now: Instant,
}

impl World {
    fn new(mut config: AssociationConfig, packets: u32) -> Self {
        config.congestion.initial_cwnd = InitialCwnd::Mtus(60_001);
        // Options do not allow a window this large; it does not affect the counts.
        config.congestion.burst = BurstControl::Unlimited;
        config.sending.send_buffer = 1 << 30;
        config.sending.send_buffer_start = None;
        let now = Instant::ZERO + Duration::from_secs(1);
        let setup = config.of_path(Encapsulation::Udp);
        let address = |host| IpAddr::V4(Ipv4Addr::new(10, 0, 0, host));
        let paths = Paths::new(vec![Path::new(now, address(1), address(2), 9899, &setup)]);
        let mut sender = Sender::new(Arc::new(config.clone()), Tsn(1));
        sender.agree_on_streams(1);
        sender.open_window(1 << 30);
        sender.add_lanes(now, &paths, &setup);
        let mut world = Self { sender, paths, now };
        for _ in 0..packets {
            let message = OutgoingMessage::new(0, Ppid(0), vec![0; PAYLOAD]);
            assert!(world.sender.push(now, message).is_ok());
            world.send();
        }
        assert_eq!(world.sender.outstanding.len(), packets as usize);
        world.now += ROUND_TRIP;
        world
    }

    /// Sends a packet.
    fn send(&mut self) {
        let path = PathId::FIRST;
        let carrier = Carrier { path, number: self.sender.packet_number(path) };
        let header = Header { source_port: 1, destination_port: 2, verification_tag: 3 };
        let (mut buffer, mut budget) = (Vec::new(), Budget::default());
        let mut packet = PacketWriter::new(&mut buffer, header, 1400);
        let (now, paths) = (self.now, &mut self.paths);
        if self.sender.has_losses() {
            self.sender.write_retransmissions(now, carrier, &mut budget, &mut packet, paths);
        } else {
            self.sender.write_new_data(now, carrier, &mut budget, &mut packet, paths);
        }
        self.sender.count_packets(path, 1);
        self.sender.end_batch(now, path, &budget, &self.paths);
    }

    /// Handles the arrival of an acknowledgement.
    fn acknowledge(&mut self, cumulative: u32, gaps: &[(u16, u16)], duplicates: &[u32]) {
        self.now += Duration::from_micros(10);
        let gaps: Vec<GapBlock> =
            gaps.iter().map(|&(start, end)| GapBlock { start, end }).collect();
        let duplicates: Vec<Tsn> = duplicates.iter().copied().map(Tsn).collect();
        let (mut a, mut b) = (Vec::new(), Vec::new());
        let sack = NrSack {
            cumulative_tsn_ack: Tsn(cumulative),
            a_rwnd: 1 << 30,
            gap_blocks: GapBlocks::encode(&gaps, &mut a),
            nr_gap_blocks: GapBlocks::default(),
            duplicate_tsns: TsnList::encode(&duplicates, &mut b),
        };
        self.sender.acknowledge(self.now, &sack, true, 0, &mut self.paths).unwrap();
        self.sender.recover(self.now, &mut self.paths);
    }

    /// Counts the chunks examined during `what`.
    fn count(&mut self, what: impl FnOnce(&mut Self)) -> u64 {
        let before = self.sender.outstanding.looked_at.get();
        what(self);
        self.sender.outstanding.looked_at.get() - before
    }
}

/// All options that detect losses, if they are compatible.
fn everything() -> AssociationConfig {
    let mut config = AssociationConfig::default();
    config.recovery.early_retransmit = true;
    config.recovery.rto_restart = true;
    config.recovery.reordering = Reordering::Adaptive;
    config.recovery.undo = Undo::Duplicates;
    config
}

/// Compares the number of examined chunks at windows of 100 and of 60,000 packets.
fn compare(what: impl Fn(&mut World)) {
    for config in [AssociationConfig::default(), AssociationConfig::rfc9260(), everything()] {
        let steps = |packets| World::new(config.clone(), packets).count(&what);
        let (small, large) = (steps(100), steps(60_000));
        assert!(small > 0 && large <= small + small / 10, "{small} and {large} steps: {config:?}");
    }
}

#[test]
fn in_order() {
    compare(|world| (1..=40).for_each(|n| world.acknowledge(2 * n, &[], &[])));
}

#[test]
fn behind_a_hole() {
    compare(|world| (1..=40).for_each(|n| world.acknowledge(1, &[(2, 2 * n)], &[])));
}

#[test]
fn behind_many_holes() {
    compare(|world| {
        let mut gaps = Vec::new();
        for n in 1..20 {
            gaps.push((4 * n, 4 * n + 1));
            world.acknowledge(1, &gaps, &[]);
        }
    });
}

#[test]
fn with_retransmissions_and_duplicates() {
    compare(|world| {
        for n in 2..=30 {
            world.acknowledge(1, &[(2, n)], &[]);
        }
        world.send();
        // It was only late; a round trip later all chunks that have not arrived would be lost by
        // time.
        world.acknowledge(40, &[], &[]);
        world.acknowledge(41, &[], &[2]);
        world.acknowledge(42, &[], &[2, 2, 30, 41]);
    });
}

#[test]
fn late_ones() {
    compare(|world| {
        for n in 1..40_u16 {
            world.acknowledge(u32::from(2 * n), &[(2, 2)], &[]);
        }
        world.now += ROUND_TRIP;
        world.sender.on_evidence_deadline(world.now, PathId::FIRST, &mut world.paths);
    });
}
