//! Counters and gauges that can be read at any time.

mod association;
mod path;
#[cfg(feature = "serde")]
pub(crate) mod seconds;
mod table;
mod timeout_runs;

use std::time::Duration;

pub use association::Counters;
pub(crate) use association::{
    AddressCounters, AssociationCounters, AuthenticationCounters, ReceiverCounters,
    ReconfigurationCounters, SenderCounters,
};
pub(crate) use path::PathCounters;
pub use path::{PathStatistics, PathTotals};
pub use table::{Counter, CounterKind, Number, Unit};

use crate::event::AssociationState;
use crate::features::Features;
use crate::per_path::PathId;
use crate::reliability::GivenUpMessages;

/// A snapshot of the statistics of an association.
///
/// With the feature `serde`, it is serialised as one object with all numbers, by their
/// [`Counter::json_name`]s.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Statistics {
    /// State of the association.
    pub state: AssociationState,
    /// The primary path.
    pub primary: PathId,
    /// The path that carries new data.
    pub active: PathId,
    /// Bytes waiting for their first transmission.
    pub send_queue_bytes: usize,
    /// User bytes sent and not acknowledged.
    pub outstanding_bytes: usize,
    /// Chunks sent and not acknowledged.
    pub outstanding_chunks: usize,
    /// Data stored for retransmission.
    pub retransmission_queue: RetransmissionQueue,
    /// How long full buffers held back new data.
    pub blocking: Blocking,
    /// How long messages waited to share a packet.
    pub bundling: HeldBack,
    /// Messages that this side gave up, by any policy.
    pub given_up: GivenUpMessages,
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
    /// The paths, in the order of their identifiers.
    pub paths: Vec<PathStatistics>,
}

impl Statistics {
    /// The statistics of a path, if it still exists.
    pub fn path(&self, id: PathId) -> Option<&PathStatistics> {
        self.paths.iter().find(|path| path.id == id)
    }

    /// All numbers of an association, without those of its paths.
    pub fn counters() -> impl Iterator<Item = &'static Counter<Self>> + Clone {
        association::BUFFERS.iter().chain(association::TOTALS)
    }

    /// The value of a number by its name, as in [`Counter::name`] or [`Counter::json_name`]; `None`
    /// if there is no such number or it is unknown.
    pub fn number(&self, name: &str) -> Option<Number> {
        let row = Self::counters().find(|row| row.name == name || row.json_name() == name)?;
        (row.get)(self)
    }

    /// The number of packets that were not needed because chunks shared a packet, over the paths that
    /// currently exist. Each saves the common header of SCTP and the headers below it, 40 bytes with
    /// IPv4 over UDP.
    pub fn packets_saved(&self) -> u64 {
        let saved =
            |path: &PathStatistics| path.data_chunks_sent.saturating_sub(path.data_packets_sent);
        self.paths.iter().map(saved).sum()
    }
}

/// The retransmission queue: user data that was sent and is kept for a possible retransmission.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct RetransmissionQueue {
    /// Bytes in it.
    pub bytes: usize,
    /// The maximum number of bytes that were ever in it.
    pub peak_bytes: usize,
    /// The mean number of bytes, over the time during which it was not empty, until its last change.
    pub mean_bytes: f64,
    /// The mean share that the peer had acknowledged by gap ack blocks, from 0 to 1: the memory that
    /// NR-SACKs free. Weighted by bytes and time, so it measures memory; `utilization` is weighted
    /// only by time.
    pub acknowledged_share: f64,
    /// The time during which it was not empty, until its last change.
    pub time: Duration,
    /// RtxQ_Util (nat 3.4.2): the mean over that time of the share of the queue that is necessary,
    /// from 0 to 1. Data that the peer has acknowledged by gap ack blocks counts as not necessary,
    /// which is true for a receiver that does not renege. `None` if the queue was never used.
    pub utilization: Option<f64>,
    /// The part of `time` in loss recovery (nat 3.4.3): from an acknowledgement with gap ack blocks
    /// to one without them that advances the cumulative TSN. If the network reorders, as several
    /// concurrent paths do, this also includes time without loss recovery.
    pub recovery_time: Duration,
    /// RtxQ_Util_L (nat 3.4.3): `utilization` during `recovery_time`; `None` if that is zero.
    pub recovery_utilization: Option<f64>,
}

/// How long full buffers held back new data although a congestion window had room, until the last
/// event of the association.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Blocking {
    /// The send buffer is full of sent data, and the user has more to send (nat 3.2.2, nrsack 3).
    pub send_buffer: Blocked,
    /// The peer's receive window has no room for the next chunk (nat 4.2.2).
    pub receive_window: Blocked,
}

/// How long a buffer held back new data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Blocked {
    /// The number of periods.
    pub times: u64,
    /// Their total length.
    pub time: Duration,
    /// The part of `time` in loss recovery, as defined for
    /// [`recovery_time`](RetransmissionQueue::recovery_time): p of nrsack 5.2.
    pub in_recovery: Duration,
    /// The total length of the periods during which T3-rtx expired, or that began before everything
    /// outstanding at an expiry was acknowledged (nat figure 4.16).
    pub with_timeouts: Duration,
}

/// How long messages that do not fill a packet were held back to share one
/// ([`Bundling`](crate::config::Bundling)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeldBack {
    /// The number of periods.
    pub times: u64,
    /// Their total length, each counted from when the first of the messages could have been sent.
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

    /// The names are also used for metrics in Prometheus and in the lab.
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
