//! Random runs of the protocol engine; a seed determines everything.
//!
//! Runs use a [`Network`](anabranch_testnet::Network) in virtual time: the same seed gives the same
//! bytes at the same times.
//!
//! [`Options::draw`] derives the options from a seed, [`Options::seal`] adds encryption below the endpoints, and [`run`]
//! executes the run. The first phase
//! checks the invariants while the network misbehaves. In the second phase the network is healthy:
//! all remaining data must be delivered, the association shut down, and every timer end. An
//! [`Oracle`](oracle::Oracle) that sees both ends checks the results. [`attempt`] turns an error
//! into a [`Failure`], and [`shrink`] finds the fewest [`Fault`]s that still cause it.
#![forbid(unsafe_code)]

mod attempt;
mod fault;
mod options;
pub mod oracle;
mod report;
mod run;
mod sealed;
mod shrink;

pub use anabranch_proto::marks;
pub use attempt::{Failure, attempt};
pub use fault::{Fault, Item, Only, UnknownFault};
pub use options::{Admits, Kind, LinkSpec, Options, Reader, Sealing, Traffic, Whim};
pub use report::Report;
pub use run::run;
pub use shrink::{Shrunk, shrink};
