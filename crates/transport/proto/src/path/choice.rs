//! The primary path and the path that carries data, as stored in the table of paths.
//! `policy/failover.rs` changes them.

use crate::per_path::PathId;

/// Phase of an association, which depends on the paths that have failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// I: the primary path is active and carries all new data.
    Primary,
    /// II: the primary path has failed, and another one carries the data.
    Alternate,
    /// Every path has failed, at least one of them only potentially (RFC 7829 section 3.2, 4).
    PotentiallyFailed,
    /// III: every path has failed.
    Dormant,
}

/// State of the failover state machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Failover {
    pub(crate) phase: Phase,
    /// The primary path, D_i in the figures.
    pub(crate) primary: PathId,
    /// The path for new data, D_j in the figures of phase II.
    pub(crate) in_use: PathId,
}
