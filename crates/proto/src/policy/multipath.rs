//! Concurrent multipath transfer: all paths carry new data at once.
//!
//! What that asks of each part of the sender is in a file of its own: which path carries new data in
//! `path_choice`, and a retransmission in `rtx`; what an acknowledgement tells of one path in
//! `recovery/split.rs`; how the windows of the paths depend on each other in `congestion/coupling.rs`.

use super::PathChoice;
use super::named::named;
use crate::congestion::Coupling;

/// Whether new data takes several paths at once, and how failing ones are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum MultipathMode {
    /// One path carries new data.
    #[default]
    Off,
    /// CMT: all active paths do (nat 1.2.3).
    Cmt,
    /// CMT-PF: the same, and a path that timed out carries nothing until a heartbeat is answered
    /// (nat 4.3).
    CmtPf,
}

named!(MultipathMode { Off = "off", Cmt = "cmt", CmtPf = "cmt-pf", });

/// Options of concurrent multipath transfer, the sender's and the receiver's. Either side may use it
/// without the other one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Multipath {
    /// Which of the paths that have room carries the next packet of new data.
    pub path_choice: PathChoice,
    /// How the congestion windows of the paths depend on each other.
    pub coupling: Coupling,
    /// No path may hold more of the send buffer, or of the peer's window, than its equal share, so
    /// that one slow path cannot take everything. On.
    pub buffer_split: bool,
    /// The receiver delays acknowledgements although TSNs are missing, as they are when paths
    /// differ, and tells with each how many packets it covers; the sender counts as many missing
    /// reports where that is certain. On.
    pub delayed_acks: bool,
    /// cwnd of a path that was potentially failed and answers again, in PMDCS: 1 is PF1, 2 is PF2
    /// (nat 4.3). 1 to 10. 2.
    pub recovered_cwnd_mtus: u32,
}

impl Default for Multipath {
    fn default() -> Self {
        Self {
            path_choice: PathChoice::default(),
            coupling: Coupling::default(),
            buffer_split: true,
            delayed_acks: true,
            recovered_cwnd_mtus: 2,
        }
    }
}
