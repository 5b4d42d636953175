//! Experiments described in files.
//!
//! A scenario file ([`scenario`]) describes a network, an association, its traffic and scheduled
//! events, axes along which these are varied, a figure, and claims about its results. The runner
//! ([`runner`]) executes every point with as many seeds as necessary on all cores; results do not
//! depend on the number of cores. `docs/lab.md` shows how to write a scenario.
#![forbid(unsafe_code)]

pub mod advise;
pub mod advise_latency;
pub mod advise_timely;
pub mod bootstrap;
pub mod check;
pub mod elsewhere;
pub mod export;
pub mod formula;
pub mod gain;
pub mod metrics;
pub mod observed;
pub mod provenance;
pub mod reference;
pub mod report;
pub mod runner;
pub mod scenario;
pub mod setup;
pub mod simulation;
pub mod stats;
pub mod summary;
pub mod timeout_model;
pub mod tree;
/// Quantities with units, as written in scenario files: `90 ms`, `10 Mb/s`, `4 MiB`, `3 %`.
pub use anabranch_units as units;
