//! Two endpoints and a network that does whatever the bytes say.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| anabranch_fuzzing::endpoint(bytes));
