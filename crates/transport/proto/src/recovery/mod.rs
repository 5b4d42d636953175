//! Loss detection and recovery.
//!
//! An acknowledgement is evaluated once ([`ack`]); loss detection ([`loss`]) uses the summary.
//! Irrevocably acknowledged data is freed immediately ([`nr_sack`]). The association turns the results
//! into retransmissions, windows and counters (`association/acknowledged.rs`).

pub(crate) mod ack;
mod config;
pub(crate) mod early_retransmit;
pub(crate) mod forward_rto;
pub(crate) mod loss;
pub(crate) mod mfr;
mod nr_sack;
pub(crate) mod rack;
mod ranges;
mod reordering;
pub(crate) mod rto_restart;
mod split_fast_retransmit;
pub(crate) mod tail_probe;
mod undo;

pub use config::RecoveryConfig;
pub use loss::LossDetection;
pub(crate) use reordering::Order;
pub use reordering::Reordering;
pub use undo::Undo;
pub(crate) use undo::{Again, Episode};

use crate::per_path::PathId;
use crate::send::Outstanding;

/// The condition that ends the fast recovery of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecoveryExit {
    /// The Cumulative TSN Ack Point passes this TSN (RFC 9260 section 7.2.4).
    Tsn(u64),
    /// No packet sent before this one is in flight on the path. Chunks missing on other paths do not
    /// prolong the recovery.
    Packet(u64),
}

impl RecoveryExit {
    /// Whether the condition is met on a path.
    pub(crate) fn is_reached(self, path: PathId, out: &Outstanding) -> bool {
        match self {
            Self::Tsn(tsn) => out.base() > tsn,
            Self::Packet(number) => {
                out.oldest_packet(path).is_none_or(|(oldest, _)| oldest >= number)
            }
        }
    }
}
