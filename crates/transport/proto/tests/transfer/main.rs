//! Moving data between two endpoints.

mod acknowledgements;
mod bundling;
mod messages;
mod recovery;
mod sending;
mod timely;
mod windows;

use std::time::Duration;

use anabranch_proto::AssociationConfig;
use anabranch_wire::{Chunk, Packet};

const LONG: Duration = Duration::from_secs(2000);

fn config() -> AssociationConfig {
    let mut config = AssociationConfig::rfc9260();
    config.timers.heartbeat_interval = None;
    config.mtu.discovery = false;
    config
}

/// TSNs of the DATA chunks of a packet.
fn tsns(packet: &[u8]) -> Vec<u32> {
    let packet = Packet::parse(packet).unwrap();
    let data = packet.chunks().map_while(Result::ok).filter_map(|raw| match raw.decode() {
        Ok(Chunk::Data(data)) => Some(data.tsn.0),
        _ => None,
    });
    data.collect()
}

/// Cumulative TSN and duplicates of the SACK in a packet.
fn sack(packet: &[u8]) -> Option<(u32, Vec<u32>)> {
    let packet = Packet::parse(packet).unwrap();
    packet.chunks().map_while(Result::ok).find_map(|raw| match raw.decode() {
        Ok(Chunk::Sack(sack)) => {
            let duplicates = sack.duplicate_tsns.iter().map(|tsn| tsn.0).collect();
            Some((sack.cumulative_tsn_ack.0, duplicates))
        }
        _ => None,
    })
}

fn numbered(length: usize) -> Vec<u8> {
    (0..length).map(|i| (i * 31 + i / 251) as u8).collect()
}
