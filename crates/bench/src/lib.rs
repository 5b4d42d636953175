//! Benchmarks that compare anabranch with its peers.
//!
//! The library has their common parts: `cargo bench -p anabranch-bench --bench compare` runs the
//! comparison, and `-- --list` after it names the figures.
#![forbid(unsafe_code)]

pub mod folder;
pub mod quic;
pub mod suite;
pub mod trust;
pub mod web;
pub mod words;

/// Errors are sentences for the user.
pub type Result<V> = std::result::Result<V, Box<dyn std::error::Error + Send + Sync>>;
