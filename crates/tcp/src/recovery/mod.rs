//! Algorithms that distinguish losses from late segments, one in each file. They have no side effects: the
//! sender asks them.

pub(crate) mod early_retransmit;
pub(crate) mod forward_rto;
pub(crate) mod ncr;
pub(crate) mod rack;
pub(crate) mod reordering;
pub(crate) mod rto_restart;
pub(crate) mod tail_probe;
pub(crate) mod undo;
