//! Helpers for tests on a network in virtual time.
//!
//! Tests of single situations drive a [`Network`] by hand, mostly through [`Pair`]. The [`swarm`]
//! draws everything from a seed and checks runs with an oracle that sees both ends. The
//! [`odometer`] enumerates all fates of a few packets. [`hostile`] has peers and third parties that
//! attack an endpoint. [`handover`] changes from one network to another.
#![forbid(unsafe_code)]

pub mod handover;
pub mod hostile;
pub mod odometer;
mod pair;

pub use anabranch_swarm as swarm;
pub use anabranch_swarm::oracle;
pub use anabranch_testnet::{Datagram, Network, Node, PathMtu, Sight, Trace, Verdict, craft, pump};
pub use pair::{Pair, addresses};
