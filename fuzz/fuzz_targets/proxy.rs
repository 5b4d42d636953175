//! Any bytes as requests to the gateway's HTTP proxy.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| anabranch_gateway::check_proxy(bytes));
