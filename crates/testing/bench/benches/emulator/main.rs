//! Measures the cost, speed and precision of the emulator, and compares `analyze` with tshark.
//!
//! `cargo bench -p anabranch-bench --bench emulator -- [--only KEY,...] [--runs N] [--quick]
//! [--json FILE] [--program FILE] [--list]`
//!
//! Builds the program unless one is given, and runs it between ends that are instances of this benchmark: datagrams or
//! the kernel's TCP between two hosts of a network. It needs namespaces, as `anabranch emulate` does, and for some
//! figures veth devices with ethtool, or tshark. Figures that cannot run here are listed and skipped.
#![forbid(unsafe_code)]

mod capture;
mod ends;
mod figures;
mod machine;
mod network;
mod veth;

use std::process::ExitCode;

use anabranch_bench::suite::Suite;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1).peekable();
    if arguments.next_if(|first| first == ends::MARK).is_some() {
        return match ends::run(&arguments.collect::<Vec<_>>()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("emulator: this end failed: {error}");
                ExitCode::FAILURE
            }
        };
    }
    let suite = Suite {
        name: "emulator",
        figures: figures::ALL,
        groups: &[],
        runs: 3,
        takes_program: true,
    };
    suite.main(arguments)
}
