//! Compares sealed paths with plain ones and with QUIC, and the gateway with Shadowsocks.
//!
//! `cargo bench -p anabranch-bench --bench gateway -- [--only KEY,...] [--runs N] [--quick] [--json FILE] [--program FILE] [--list]`
//!
//! Builds the program unless one is given. Everything runs on the loopback interface, and what is compared runs in turns
//! within a round. Shadowsocks is `ss-server` and `ss-local` of shadowsocks-libev (Debian package of this name) with
//! aes-256-gcm; figures whose programs are not installed are listed and skipped. `scripts/setup` does not install it,
//! because the package starts a server.
#![forbid(unsafe_code)]

mod figures;
mod origin;
mod proxied;
mod proxy;
mod sealed;

use std::process::ExitCode;

use anabranch_bench::suite::Suite;

fn main() -> ExitCode {
    let suite =
        Suite { name: "gateway", figures: figures::ALL, groups: &[], runs: 3, takes_program: true };
    suite.main(std::env::args_os().skip(1))
}
