//! What is lost, and when.
//!
//! An acknowledgement is digested once ([`ack`]); loss detection ([`loss`]) reads the digest.
//! Turning verdicts into retransmissions, windows and counters is the association's part
//! (`association/acknowledged.rs`).

pub(crate) mod ack;
pub(crate) mod loss;

pub use loss::LossDetection;
