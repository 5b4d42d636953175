//! Measures `anabranch run`: unmodified programs next to the program's own `perf`, the C library and the kernel's TCP.
//!
//! `cargo bench -p anabranch-bench --bench unmodified -- [--only KEY,...] [--runs N] [--quick] [--json FILE]
//! [--program FILE] [--list]`
//!
//! Builds the program and both libraries, unless a program is given that has them in its directory. Each measurement
//! has a network of its own with nothing but loopback, whose packets have 1,500 bytes. It needs unshare, ip, ethtool,
//! iperf3 and a C compiler, some figures redis and python3. Figures whose tools are missing are listed and skipped.
#![forbid(unsafe_code)]

mod built;
mod figures;
mod host;
mod tcp;

use std::process::ExitCode;

use anabranch_bench::suite::Suite;

fn main() -> ExitCode {
    let suite = Suite {
        name: "unmodified",
        figures: figures::ALL,
        groups: &[],
        runs: 3,
        takes_program: true,
    };
    suite.main(std::env::args_os().skip(1))
}
