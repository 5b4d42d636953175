//! Foreign SCTP engines behind one trait, and a network in virtual time to run them on.
//!
//! The engines come from crates.io as published. They are used in two places: interoperability
//! tests let them talk to anabranch and to each other, and the benchmark compares them with
//! anabranch. Nothing here is part of the product.
//!
//! [`Engine`] is the interface between a driver and a protocol engine without I/O. [`Pair`]
//! connects two of them by a network with a delay and a loss rate, in virtual time: the same seed
//! gives the same run. [`transfer`] has the two measured runs, over a number of bytes and over a
//! time, and [`cases`] the requirements for any two engines together.
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

/// One millisecond in the nanoseconds that every time in this crate is given in.
pub const MILLISECOND: u64 = 1_000_000;

/// One second in nanoseconds.
pub const SECOND: u64 = 1_000 * MILLISECOND;
