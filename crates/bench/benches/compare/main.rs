//! Runs every figure beside its peer, in turn, and prints what came out.
//!
//! `cargo bench -p anabranch-bench --bench compare -- [--only KEY,...] [--runs N] [--quick]
//! [--json FILE] [--list]`
//!
//! A figure is measured several times, each time all engines one after the other, so that a
//! machine that changes its pace changes it for all of them; the ratio is taken within each turn,
//! and the median and the range of these ratios are printed. CPU seconds are those of the one
//! thread that runs both ends, or of both processes.
#![forbid(unsafe_code)]

mod cpu;
mod ends;
mod figures;
mod measure;
mod report;

use std::process::ExitCode;

use anabranch_bench::suite::Suite;

fn main() -> ExitCode {
    let suite = Suite { name: "compare", figures: figures::ALL, runs: 5, takes_program: false };
    suite.main(std::env::args_os().skip(1))
}
