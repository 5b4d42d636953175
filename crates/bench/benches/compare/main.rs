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
mod options;
mod report;

use std::fs::File;
use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    let options = match options::parse(std::env::args_os().skip(1)) {
        Ok(options) => options,
        Err(message) => {
            eprintln!("compare: {message}");
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
                eprintln!("compare: cannot write {}: {error}", path.display());
                return ExitCode::FAILURE;
            }
        }
    }
    let mut outcomes = Vec::new();
    let mut failed = false;
    for figure in figures::ALL.iter().filter(|f| options.wants(f.key)) {
        match figure.run(&options) {
            Ok(outcome) => {
                report::print(figure, &outcome);
                outcomes.push((figure, outcome));
            }
            // The others are still worth having.
            Err(message) => {
                eprintln!("compare: {}: {message}", figure.key);
                failed = true;
            }
        }
    }
    if let Some((path, mut file)) = json
        && let Err(error) = file.write_all(report::json(&outcomes).as_bytes())
    {
        eprintln!("compare: cannot write {}: {error}", path.display());
        failed = true;
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
