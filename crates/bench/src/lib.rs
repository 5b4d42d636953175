//! Benchmarks that run anabranch beside its peers.
//!
//! The library is what they share: `cargo bench -p anabranch-bench --bench compare` runs the
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
