//! Any bytes as what the gateway reads from clients of SOCKS5 and from its other half.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| anabranch_gateway::check_socks5(bytes));
