//! The `anabranch` program.
//!
//! Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted. Whatever goes wrong is one
//! sentence on standard error.
#![forbid(unsafe_code)]

mod address;
mod client;
mod commands;
#[cfg(unix)]
mod control;
#[cfg(target_os = "linux")]
mod emulate;
mod endpoint;
mod failure;
mod impairment;
mod instruments;
mod interrupt;
mod options;
mod output;
mod parts;
mod perf;
mod policies;
mod progress;
mod report;
mod service;
mod transport;
mod zone;

use std::process::ExitCode;

use clap::{ArgAction, Parser};
use tracing_subscriber::EnvFilter;

use crate::commands::Command;
use crate::failure::Failure;

/// Threads that may wait for disks at the same time, or two for each core.
const BLOCKING_THREADS: usize = 64;

/// SCTP in user space: files over many paths and streams
#[derive(Debug, Parser)]
#[command(name = "anabranch", version, propagate_version = true, arg_required_else_help = true)]
struct Program {
    #[command(subcommand)]
    command: Command,
    /// Log more to standard error (twice: much more); the environment variable ANABRANCH_LOG
    /// holds filters such as 'anabranch_proto=trace'
    #[arg(short, long, global = true, action = ArgAction::Count)]
    verbose: u8,
}

fn main() -> ExitCode {
    let program = match Program::try_parse() {
        Ok(program) => program,
        Err(error) => return failure::from_clap(&error),
    };
    match run(program) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

fn run(program: Program) -> Result<(), Failure> {
    start_log(program.verbose)?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .max_blocking_threads(BLOCKING_THREADS.max(2 * cores))
        .build()
        .map_err(|error| Failure::failed(format!("no runtime can be started: {error}")))?;
    let result = runtime.block_on(program.command.run());
    #[cfg(unix)]
    control::remove_sockets();
    // A blocked disk must not keep the program from ending.
    runtime.shutdown_background();
    result
}

fn start_log(verbose: u8) -> Result<(), Failure> {
    let level = match verbose {
        0 => "warn",
        1 => "info",
        2 => "debug",
        _ => "trace",
    };
    let filter = match std::env::var("ANABRANCH_LOG") {
        Ok(filter) => EnvFilter::try_new(filter)
            .map_err(|error| Failure::usage(format!("ANABRANCH_LOG: {error}")))?,
        Err(_) => EnvFilter::new(level),
    };
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Program::command().debug_assert();
    }
}
