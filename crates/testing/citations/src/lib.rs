//! Checks of source text that several crates need in their tests.
#![forbid(unsafe_code)]

pub mod circles;
