//! Benchmarks that run anabranch beside its peers.
//!
//! There is no library here; `cargo bench -p anabranch-bench --bench compare` runs the
//! comparison, and `-- --list` after it names the figures.
#![forbid(unsafe_code)]
