//! Benchmarks that run anabranch beside its peers.
//!
//! The library is what they share: `cargo bench -p anabranch-bench --bench compare` runs the
//! comparison, and `-- --list` after it names the figures.
#![forbid(unsafe_code)]

pub mod suite;
pub mod trust;
