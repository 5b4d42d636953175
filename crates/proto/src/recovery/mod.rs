//! What is lost, and when.
//!
//! An acknowledgement is digested once ([`ack`]); loss detection ([`loss`]) reads the digest.
//! What is acknowledged for good is freed at once ([`nr_ack`]).
//! Turning verdicts into retransmissions, windows and counters is the association's part
//! (`association/acknowledged.rs`).

pub(crate) mod ack;
pub(crate) mod loss;
mod nr_ack;
mod ranges;

pub use loss::LossDetection;
