//! The ring of outstanding chunks against a simple model.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| anabranch_proto::check_ring(bytes));
