//! The checks of the fuzz targets as functions of bytes. libFuzzer calls them from `fuzz/`, and
//! `cargo test` with the inputs in `fuzz/corpus-seed`.
//!
//! Each function must return for every input; a panic is a finding.
#![forbid(unsafe_code)]

mod bytes;
mod decoder;
mod endpoint;
mod invitation;
mod scenario;
mod sealed;

pub use bytes::bytes;
pub use decoder::decoder;
pub use endpoint::endpoint;
pub use invitation::invitation;
pub use scenario::scenario;
pub use sealed::sealed;
