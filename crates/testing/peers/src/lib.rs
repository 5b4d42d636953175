//! Foreign SCTP engines behind one trait, and a network in virtual time to connect them.
//!
//! The engines are the published versions from crates.io. They have two uses: interoperability
//! tests connect them to anabranch and to each other, and the benchmark compares them with
//! anabranch. Nothing here is part of the product.
//!
//! [`Engine`] is the interface between a driver and a protocol engine without I/O. [`Pair`]
//! connects two engines through a network with a delay and a loss rate, in virtual time: the same
//! seed gives the same run. [`transfer`] has the two measured runs, for a number of bytes and for a
//! time, and [`cases`] the requirements for any two engines.
#![forbid(unsafe_code)]

pub mod cases;
mod config;
mod engine;
mod engines;
mod fixed_window;
mod pair;
pub mod transfer;

pub use config::{Config, Kind, Role, Tuning};
pub use engine::{Body, Engine, Packets, Received};
pub use pair::{Application, Carriage, Network, PacketCounts, Pair, Stalled};

/// One millisecond in nanoseconds, the unit of all times in this crate.
pub const MILLISECOND: u64 = 1_000_000;

/// One second in nanoseconds.
pub const SECOND: u64 = 1_000 * MILLISECOND;
