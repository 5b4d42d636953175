//! Endpoints of the protocol engine on a network in virtual time, for tests and simulations.
//!
//! [`Network`] carries the packets of any number of endpoints over links that lose, delay,
//! duplicate, reorder and damage them, or applies a script to single packets. Nothing here reads a
//! clock: the same seed gives the same bytes at the same times, and [`Trace::hash`] verifies that.
//! [`craft`] creates packets by hand.
//!
//! To use another network or none, drive engines with [`pump`]: it cuts their output into packets,
//! turns packets into arrivals, and returns the next deadline.
#![forbid(unsafe_code)]

pub mod craft;
mod datagram;
mod layer;
mod network;
pub mod pump;
mod trace;

pub use datagram::{Datagram, Sight, Verdict};
pub use layer::Layer;
pub use network::{Network, Node, PathMtu};
pub use trace::Trace;
