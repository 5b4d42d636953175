//! Endpoints of the protocol engine on a network in virtual time.
//!
//! [`Network`] carries the packets of any number of endpoints over links that lose, delay,
//! duplicate, reorder and damage them, or do to single packets what a script says. Nothing here
//! reads a clock: the same seed gives the same bytes at the same times, and [`Trace::hash`]
//! proves it.
//!
//! Tests of single situations drive a [`Network`] by hand, mostly through [`Pair`]. The
//! [`swarm`] draws everything from a seed and judges by an [`Oracle`](oracle::Oracle) that sees
//! both ends. The [`odometer`] enumerates all fates of a few packets.
#![forbid(unsafe_code)]

pub mod craft;
mod datagram;
mod network;
pub mod odometer;
pub mod oracle;
mod pair;
pub mod swarm;
mod trace;

pub use datagram::{Datagram, Sight, Verdict};
pub use network::{Network, Node, PathMtu};
pub use pair::{Pair, addresses};
pub use trace::Trace;
