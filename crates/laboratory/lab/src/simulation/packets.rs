//! The packets of one run as a table.

use std::net::IpAddr;

use anabranch_wire::kind;

use super::Trace;
use crate::export::{Column, Values, provenance};
use crate::provenance::Provenance;
use crate::scenario::Scenario;

/// An SCTP packet of the first transfer, at the sender's interfaces.
#[derive(Clone, Debug, PartialEq)]
pub struct TracedPacket {
    /// Time in seconds.
    pub time: f64,
    /// Whether the sender sent it; it receives the others.
    pub is_sent: bool,
    /// Source address.
    pub from: IpAddr,
    /// Destination address.
    pub to: IpAddr,
    /// Index of the path.
    pub path: usize,
    /// Bytes of SCTP, with the common header.
    pub bytes: usize,
    /// The types of its chunks, in their order.
    pub chunks: Vec<u8>,
    /// The first TSN of its data, or its cumulative acknowledgement, counted from the first TSN of the transfer.
    pub tsn: Option<u32>,
    /// Whether its first data had been sent before.
    pub again: bool,
}

impl Trace {
    /// One row a packet: `time_s`, `way` (`sent` or `received`), `path`, `from`, `to`, `bytes`, `chunks` (names with
    /// commas between), `tsn`, `again` (0 or 1), `seed`, and what made the run.
    pub fn packet_columns(&self, scenario: &Scenario, made_by: &Provenance) -> Vec<Column> {
        let all = &self.packets;
        let numbers = |of: &dyn Fn(&TracedPacket) -> Option<f64>| {
            Values::Numbers(all.iter().map(of).collect())
        };
        let texts =
            |of: &dyn Fn(&TracedPacket) -> String| Values::Texts(all.iter().map(of).collect());
        let counts =
            |of: &dyn Fn(&TracedPacket) -> u64| Values::Counts(all.iter().map(of).collect());
        let way = |packet: &TracedPacket| match packet.is_sent {
            true => "sent".to_owned(),
            false => "received".to_owned(),
        };
        let path = |packet: &TracedPacket| self.paths.get(packet.path).cloned().unwrap_or_default();
        let names = |packet: &TracedPacket| {
            let name = |chunk: &u8| kind::Name(*chunk).to_string();
            packet.chunks.iter().map(name).collect::<Vec<_>>().join(", ")
        };
        let columns = [
            ("time_s", numbers(&|packet| Some(packet.time))),
            ("way", texts(&way)),
            ("path", texts(&path)),
            ("from", texts(&|packet| packet.from.to_string())),
            ("to", texts(&|packet| packet.to.to_string())),
            ("bytes", counts(&|packet| packet.bytes as u64)),
            ("chunks", texts(&names)),
            ("tsn", numbers(&|packet| packet.tsn.map(f64::from))),
            ("again", counts(&|packet| u64::from(packet.again))),
            ("seed", counts(&|_| self.seed)),
        ];
        let columns =
            columns.into_iter().map(|(name, values)| Column { name: name.to_owned(), values });
        columns.chain(provenance(scenario, made_by, all.len())).collect()
    }
}
