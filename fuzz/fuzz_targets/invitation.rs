//! Any bytes as keys and invitations.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| anabranch_fuzzing::invitation(bytes));
