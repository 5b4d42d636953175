//! Algorithms that distinguish losses from late segments, one in each file. They have no side effects; the sender calls
//! them.
//!
//! Six of them are also in the SCTP engine's `recovery/`. They are deliberately not shared: this crate is the baseline
//! for the engine, and a mistake in shared code would be in both and stay hidden. The data also differs: TCP counts
//! bytes of one path, SCTP chunks of packets on several paths.

pub(crate) mod early_retransmit;
pub(crate) mod forward_rto;
pub(crate) mod ncr;
pub(crate) mod rack;
pub(crate) mod reordering;
pub(crate) mod rto_restart;
pub(crate) mod tail_probe;
pub(crate) mod undo;
