//! The primary path and the path that carries data, as stored in the table of paths.
//! `policy/failover.rs` changes them.

use crate::per_path::PathId;

/// Phase of an association with respect to failed paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// I: the primary path is active and has all new data.
    Primary,
    /// II: the primary path has failed, and another one has the data.
    Alternate,
    /// Every path has failed, at least one of them only potentially (RFC 7829 section 3.2, 4).
    PotentiallyFailed,
    /// III: every path has failed.
    Dormant,
}

/// State of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Failover {
    pub(crate) phase: Phase,
    /// D_i of the figures.
    pub(crate) primary: PathId,
    /// The path for new data; D_j of the figures in phase II.
    pub(crate) in_use: PathId,
}
