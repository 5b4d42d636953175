//! Benchmarks that compare anabranch with its peers.
//!
//! The library contains the common parts. `cargo bench -p anabranch-bench --bench compare` runs the
//! comparison; `-- --list` after it lists the figures.
#![forbid(unsafe_code)]

pub mod children;
pub mod folder;
pub mod quic;
pub mod suite;
pub mod trust;
pub mod web;
pub mod words;

/// Errors are messages for the user.
pub type Result<V> = std::result::Result<V, Box<dyn std::error::Error + Send + Sync>>;
