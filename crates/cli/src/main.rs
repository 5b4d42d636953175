//! The `anabranch` program.
#![forbid(unsafe_code)]

fn main() {}
