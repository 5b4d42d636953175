//! Random runs of the protocol engine: everything is drawn from a seed.
//!
//! [`Network`] carries the packets of any number of endpoints over links that lose, delay,
//! duplicate, reorder and damage them, or do to single packets what a script says. Nothing here
//! reads a clock: the same seed gives the same bytes at the same times, and [`Trace::hash`]
//! proves it.
//!
//! [`Options::draw`] says what a seed stands for, and [`run`] runs it. The first phase looks for
//! what must never happen while the network does its worst. In the second one the network is
//! healthy, and all that is left must be delivered, the association be shut down, and every timer
//! end. An [`Oracle`](oracle::Oracle) that sees both ends judges. [`attempt`] turns what goes wrong
//! into a [`Failure`], and [`shrink`] finds the fewest [`Fault`]s that still bring it about.
#![forbid(unsafe_code)]

mod attempt;
pub mod craft;
mod datagram;
mod fault;
mod network;
mod options;
pub mod oracle;
mod report;
mod run;
mod shrink;
mod trace;

pub use anabranch_proto::marks;
pub use attempt::{Failure, attempt};
pub use datagram::{Datagram, Sight, Verdict};
pub use fault::{Fault, Item, Only, UnknownFault};
pub use network::{Network, Node, PathMtu};
pub use options::{Kind, LinkSpec, Options, Reader, Traffic, Whim};
pub use report::Report;
pub use run::run;
pub use shrink::{Shrunk, shrink};
pub use trace::Trace;
