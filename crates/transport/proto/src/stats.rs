//! Counters and gauges that a driver may read at any time.

mod association;
mod path;
#[cfg(feature = "serde")]
pub(crate) mod seconds;
mod table;
mod timeout_runs;

use std::time::Duration;

pub use association::Counters;
pub(crate) use association::{AssociationCounters, ReceiverCounters, SenderCounters};
pub(crate) use path::PathCounters;
pub use path::{PathStatistics, PathTotals};
pub use table::{Counter, CounterKind, Number, Unit};

use crate::event::AssociationState;
use crate::features::Features;
use crate::per_path::PathId;

/// A snapshot of an association.
///
/// With the feature `serde` all its numbers are in one object, by their [`Counter::json_name`]s.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Statistics {
    /// State of the association.
    pub state: AssociationState,
    /// The primary path.
    pub primary: PathId,
    /// The path that new data takes.
    pub active: PathId,
    /// Bytes that wait to be sent for the first time.
    pub send_queue_bytes: usize,
    /// Bytes sent and not acknowledged.
    pub outstanding_bytes: usize,
    /// Chunks sent and not acknowledged.
    pub outstanding_chunks: usize,
    /// Data stored for retransmission.
    pub retransmission_queue: RetransmissionQueue,
    /// How long full buffers held new data back.
    pub blocking: Blocking,
    /// How long messages waited to share a packet.
    pub bundling: HeldBack,
    /// Whether both sides agreed on NR-SACKs.
    pub nr_sack: bool,
    /// Extensions to RFC 9260 that both sides support and want.
    pub features: Features,
    /// The peer's receive window as this side sees it, in bytes.
    pub peer_rwnd: u32,
    /// Receive buffer in use, in bytes.
    pub receive_buffer_used: usize,
    /// Totals.
    pub counters: Counters,
    /// One entry a path, in the order of their identifiers.
    pub paths: Vec<PathStatistics>,
}

impl Statistics {
    /// A path, if it is still there.
    pub fn path(&self, id: PathId) -> Option<&PathStatistics> {
        self.paths.iter().find(|path| path.id == id)
    }

    /// All numbers that an association has, without those of its paths.
    pub fn counters() -> impl Iterator<Item = &'static Counter<Self>> + Clone {
        association::BUFFERS.iter().chain(association::TOTALS)
    }

    /// The value of a number by its name, as in [`Counter::name`] or [`Counter::json_name`].
    pub fn number(&self, name: &str) -> Option<Number> {
        let row = Self::counters().find(|row| row.name == name || row.json_name() == name)?;
        (row.get)(self)
    }

    /// Packets that were not needed because chunks shared one, over the paths that there are. Each
    /// saves the common header of SCTP and those below it, 40 bytes with IPv4 over UDP.
    pub fn packets_saved(&self) -> u64 {
        let saved =
            |path: &PathStatistics| path.data_chunks_sent.saturating_sub(path.data_packets_sent);
        self.paths.iter().map(saved).sum()
    }
}

/// The retransmission queue: user data that was sent and is kept for a retransmission.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct RetransmissionQueue {
    /// Bytes in it.
    pub bytes: usize,
    /// Most bytes that were ever in it.
    pub peak_bytes: usize,
    /// Its mean in bytes, over the time with something in it, until it changed last.
    pub mean_bytes: f64,
    /// The share of that which the peer had acknowledged by gap ack blocks, 0 to 1: the memory that
    /// NR-SACKs free. Weighted by bytes and time, so it measures memory; `utilization` is weighted by
    /// time only.
    pub acknowledged_share: f64,
    /// The time with something in it, until it changed last.
    pub time: Duration,
    /// RtxQ_Util (nat 3.4.2): the mean over that time of the share of the queue that is necessary,
    /// 0 to 1. Data that the peer has acknowledged by gap ack blocks counts as not necessary, which
    /// is true for a receiver that does not renege; `None` while the queue was never used.
    pub utilization: Option<f64>,
    /// The part of `time` in loss recovery (nat 3.4.3): from an acknowledgement with gap ack blocks
    /// to one without that moves the cumulative TSN. If the network reorders, as several concurrent
    /// paths do, this also counts time without loss recovery.
    pub recovery_time: Duration,
    /// RtxQ_Util_L (nat 3.4.3): `utilization` over `recovery_time`; `None` without any.
    pub recovery_utilization: Option<f64>,
}

/// How long full buffers held new data back that a congestion window had room for, until something
/// last happened to the association.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Blocking {
    /// The send buffer is full of sent data, and the user has more (nat 3.2.2, nrsack 3).
    pub send_buffer: Blocked,
    /// The peer's receive window has no room for the next chunk (nat 4.2.2).
    pub receive_window: Blocked,
}

/// How long a buffer held new data back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Blocked {
    /// How often.
    pub times: u64,
    /// For how long in sum.
    pub time: Duration,
    /// The part of it in loss recovery, as [`recovery_time`](RetransmissionQueue::recovery_time)
    /// defines it: p of nrsack 5.2.
    pub in_recovery: Duration,
    /// The sum of those periods during which T3-rtx expired, or that began before everything
    /// outstanding at an expiry was acknowledged (nat figure 4.16).
    pub with_timeouts: Duration,
}

/// How long messages that do not fill a packet were held back to share one
/// ([`Bundling`](crate::config::Bundling)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeldBack {
    /// How often.
    pub times: u64,
    /// Total time, each period counted from when the first of them could have been sent.
    pub time: Duration,
}

#[cfg(feature = "serde")]
impl serde::Serialize for Statistics {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeMap as _;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("state", &self.state)?;
        map.serialize_entry("primary", &self.primary)?;
        map.serialize_entry("active", &self.active)?;
        map.serialize_entry("nr_sack", &self.nr_sack)?;
        map.serialize_entry("features", &self.features)?;
        for row in Self::counters() {
            map.serialize_entry(&row.json_name(), &(row.get)(self))?;
        }
        map.serialize_entry("paths", &self.paths)?;
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A name is also the name of a metric in Prometheus and in the lab.
    #[test]
    fn names_are_words_and_differ() {
        let associations = Statistics::counters().map(|row| (row.name, row.help()));
        let paths = PathStatistics::counters().map(|row| (row.name, row.help()));
        for rows in [associations.collect::<Vec<_>>(), paths.collect()] {
            let mut names: Vec<_> = rows.iter().map(|(name, _)| *name).collect();
            names.sort_unstable();
            let all = names.len();
            names.dedup();
            assert_eq!(names.len(), all);
            for (name, help) in rows {
                let is_word = |byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_');
                assert!(name.bytes().all(is_word) && !name.ends_with("_total"), "{name}");
                assert!(help.ends_with('.') && !help.contains('\n'), "{name}: {help}");
            }
        }
    }
}
