//! What the emulator costs, how fast and how exact it is, and `analyze` beside tshark.
//!
//! `cargo bench -p anabranch-bench --bench emulator -- [--only KEY,...] [--runs N] [--quick]
//! [--json FILE] [--program FILE] [--list]`
//!
//! Builds the program, unless one is given, and runs it between ends that are this program again: datagrams or
//! the kernel's TCP between two hosts of a network. It needs namespaces, as `anabranch emulate` does, and
//! for some figures veth devices with ethtool, or tshark; what cannot be run here is named and left out.
#![forbid(unsafe_code)]

mod capture;
mod ends;
mod figures;
mod machine;
mod network;
mod options;
mod report;
mod veth;

use std::fs::File;
use std::io::Write;
use std::process::ExitCode;

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
    let options = match options::parse(arguments) {
        Ok(options) => options,
        Err(message) => {
            eprintln!("emulator: {message}");
            return ExitCode::from(2);
        }
    };
    if options.list {
        for figure in figures::ALL {
            println!("{:<20} {}", figure.key, figure.title);
        }
        return ExitCode::SUCCESS;
    }
    // Opened first: a wrong path is told at once and not after minutes.
    let mut json = None;
    if let Some(path) = &options.json {
        match File::create(path) {
            Ok(file) => json = Some((path, file)),
            Err(error) => {
                eprintln!("emulator: cannot write {}: {error}", path.display());
                return ExitCode::FAILURE;
            }
        }
    }
    let mut outcomes = Vec::new();
    let mut failed = false;
    for figure in figures::ALL.iter().filter(|figure| options.wants(figure.key)) {
        match figure.run(&options) {
            Ok(samples) => {
                report::print(figure, &samples);
                outcomes.push((figure, samples));
            }
            Err(figures::Trouble::Missing(what)) => {
                eprintln!("emulator: {} is left out: {what}", figure.key);
            }
            Err(figures::Trouble::Failed(message)) => {
                eprintln!("emulator: {}: {message}", figure.key);
                failed = true;
            }
        }
    }
    if let Some((path, mut file)) = json
        && let Err(error) = file.write_all(report::json(&outcomes).as_bytes())
    {
        eprintln!("emulator: cannot write {}: {error}", path.display());
        failed = true;
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
