//! Any bytes as a scenario file of the laboratory.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| anabranch_fuzzing::scenario(bytes));
