//! Any bytes as a picture.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| anabranch_pictures::check_conversion(bytes));
