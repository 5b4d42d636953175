//! Any bytes as what a peer says of byte streams.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| anabranch_fuzzing::bytes(bytes));
