//! Any bytes as a packet.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| anabranch_fuzzing::decoder(bytes));
