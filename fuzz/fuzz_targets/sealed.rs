//! Any bytes as what a network does to sealed paths.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| anabranch_fuzzing::sealed(bytes));
