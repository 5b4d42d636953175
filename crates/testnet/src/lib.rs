//! Endpoints of the protocol engine on a network in virtual time, for tests and simulations.
//!
//! [`Network`] carries the packets of any number of endpoints over links that lose, delay,
//! duplicate, reorder and damage them, or do to single packets what a script says. Nothing here
//! reads a clock: the same seed gives the same bytes at the same times, and [`Trace::hash`]
//! proves it. [`craft`] makes packets by hand.
//!
//! Whoever needs another network than that, or none, drives engines with [`pump`]: what they send,
//! cut into packets, how it arrives at the other end, and when something is due.
#![forbid(unsafe_code)]

pub mod craft;
mod datagram;
mod network;
pub mod pump;
mod trace;

pub use datagram::{Datagram, Sight, Verdict};
pub use network::{Network, Node, PathMtu};
pub use trace::Trace;
