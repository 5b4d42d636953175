//! What tells a loss from what is only late, one algorithm a file. They look at nothing and do nothing: the
//! sender asks them.

pub(crate) mod early_retransmit;
pub(crate) mod forward_rto;
pub(crate) mod ncr;
pub(crate) mod rack;
pub(crate) mod reordering;
pub(crate) mod rto_restart;
pub(crate) mod tail_probe;
pub(crate) mod undo;
