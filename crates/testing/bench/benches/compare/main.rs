//! Runs every figure and its peer alternately, and prints the results.
//!
//! `cargo bench -p anabranch-bench --bench compare -- [--only KEY,...] [--runs N] [--quick]
//! [--json FILE] [--list]`
//!
//! A figure is measured several times, each time with all engines in sequence, so that changes of
//! the machine's speed affect all of them. The ratio is computed within each round; the median and
//! the range of these ratios are printed. CPU seconds are those of the one thread that runs both
//! ends, or of both processes.
#![forbid(unsafe_code)]

mod abandon;
mod copies;
mod cpu;
mod ends;
#[path = "../multipath/engine.rs"]
mod engine;
mod figures;
mod handover;
mod hashes;
mod heap;
mod interleave;
mod measure;
mod report;

use std::process::ExitCode;

use anabranch_bench::suite::Suite;

fn main() -> ExitCode {
    if let Err(error) = heap::keep() {
        eprintln!("compare: cannot keep the heap, so figures vary more: {error}");
    }
    let suite = Suite {
        name: "compare",
        figures: figures::ALL,
        groups: figures::GROUPS,
        runs: 5,
        takes_program: false,
    };
    suite.main(std::env::args_os().skip(1))
}
