//! Concurrent multipath transfer: all paths carry new data at the same time.
//!
//! Its parts have their own files: `path_choice` chooses the path for new data, and `rtx` the path for a
//! retransmission; `recovery/split_fast_retransmit.rs` evaluates an acknowledgement for each path;
//! `congestion/coupling.rs` couples the windows of the paths.

use super::{PathChoice, SlowPaths};
use crate::congestion::Coupling;
use crate::named::named;
use crate::options::{section, words};

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

section! {
    /// Concurrent multipath transfer, the sender's options and the receiver's. Either side may use it
    /// without the other one.
    #[derive(Copy)]
    pub struct MultipathConfig {
        /// Whether all active paths carry new data; setting it by name also sets related options. Off.
        mode as "multipath": MultipathMode = MultipathMode::Off, Kind::Word(MultipathMode::NAMES);
        /// Which of the paths that have room carries the next packet of new data.
        path_choice: PathChoice = PathChoice::RoundRobin, Kind::Word(PathChoice::NAMES);
        /// How the congestion windows of the paths depend on each other. With CUBIC, `lia` only.
        coupling: Coupling = Coupling::Uncoupled, Kind::Word(Coupling::NAMES);
        /// The share of a slow path: the same as others, or only data that arrives in time, so a second
        /// path never costs anything.
        slow_paths: SlowPaths = SlowPaths::AsOthers, Kind::Word(SlowPaths::NAMES);
        /// No path may hold more of the send buffer, or of the peer's window, than its equal share, so
        /// that one slow path cannot take everything. Means nothing with `slow_paths` in time. On.
        buffer_split: bool = true, Kind::Switch;
        /// The receiver delays acknowledgements although TSNs are missing, as they are when paths
        /// differ, and reports with each how many packets it covers; the sender then counts that
        /// many missing reports where that is certain. On.
        delayed_acks: bool = true, Kind::Switch;
        /// cwnd of a path that was potentially failed and answers again, in PMDCS: 1 is PF1, 2 is PF2
        /// (nat 4.3). 2.
        recovered_cwnd_mtus: u32 = 2, Kind::count(1, 10);
    }
}

words!(Coupling, MultipathMode, PathChoice);

impl MultipathConfig {
    /// Whether new data takes several paths.
    pub fn is_on(&self) -> bool {
        self.mode != MultipathMode::Off
    }
}
