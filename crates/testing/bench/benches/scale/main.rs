//! Measures the Python package: the laboratory on many workers next to the program, and SCTP on asyncio next to TCP.
//!
//! `cargo bench -p anabranch-bench --bench scale -- [--only KEY,...] [--runs N] [--quick] [--json FILE] [--program FILE]
//! [--list]`
//!
//! `scripts/python --release` builds the package into an environment in the target directory, whose Python this uses;
//! `ANABRANCH_PYTHON` names another one. The rows need polars, Ray its package; figures whose packages are missing are
//! listed and skipped.
#![forbid(unsafe_code)]

mod figures;
mod python;

use std::process::ExitCode;

use anabranch_bench::suite::Suite;

fn main() -> ExitCode {
    let suite =
        Suite { name: "scale", figures: figures::ALL, groups: &[], runs: 3, takes_program: true };
    suite.main(std::env::args_os().skip(1))
}
