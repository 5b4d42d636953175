//! The `anabranch` program.
//!
//! Exit codes: 0 success, 1 failure, 2 wrong usage, 130 interrupted. Every error is one sentence on
//! standard error.
#![forbid(unsafe_code)]

#[cfg(unix)]
mod activation;
mod address;
mod built;
mod client;
mod clock;
mod commands;
mod config_file;
#[cfg(unix)]
mod control;
mod counters;
mod demo;
mod emulate;
mod endpoint;
#[cfg(target_os = "linux")]
mod engine;
mod failure;
mod files;
mod impairment;
mod interrupt;
mod line;
#[cfg(unix)]
mod metrics;
#[cfg(test)]
mod names;
mod numbers;
mod options;
mod output;
mod outputs;
mod parts;
mod perf;
mod policies;
mod progress;
#[cfg(target_os = "linux")]
mod readiness;
mod report;
#[cfg(unix)]
mod scrape;
mod sealed;
mod service;
mod sockets;
#[cfg(target_os = "linux")]
mod tcp;
mod transport;
mod user_signal;
mod zone;

use std::ffi::OsString;
use std::io::IsTerminal as _;
use std::process::ExitCode;

use clap::{ArgAction, ArgMatches, CommandFactory as _, FromArgMatches as _, Parser, ValueEnum};
use serde::Serialize;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::commands::{Command, Threads};
use crate::failure::Failure;

/// For each packet, buffers of up to 64 KiB are allocated and freed. The allocators of some systems
/// return them to the kernel each time, which then has to clear them again.
#[cfg(unix)]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Minimum number of threads that may block on disks; two for each core if that is more.
const BLOCKING_THREADS: usize = 64;

/// SCTP in user space: files over many paths and streams
#[derive(Debug, Parser)]
#[command(
    name = "anabranch",
    version,
    long_version = built::LONG,
    propagate_version = true,
    arg_required_else_help = true
)]
struct Program {
    #[command(subcommand)]
    command: Command,
    /// Log more to standard error (twice: much more); the environment variable ANABRANCH_LOG
    /// holds filters such as 'anabranch_proto=trace'
    #[arg(short, long, global = true, action = ArgAction::Count)]
    verbose: u8,
    /// Format of the log: text, or JSON with one record a line
    #[arg(long, global = true, value_name = "FORMAT", value_enum, default_value_t)]
    log_format: LogFormat,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum LogFormat {
    #[default]
    Text,
    Json,
}

fn main() -> ExitCode {
    // A picture of a stranger: nothing else may happen in this process.
    if let Some(code) = anabranch_pictures::helper() {
        return ExitCode::from(code);
    }
    // The arguments belong to the command of `gateway near`.
    #[cfg(target_os = "linux")]
    if let Some(inside) = anabranch_gateway::inside() {
        if let Some(error) = &inside.error {
            failure::complain(error);
        }
        output::drain();
        return ExitCode::from(inside.code);
    }
    let code = command();
    output::drain();
    code
}

/// Runs the command line.
fn command() -> ExitCode {
    let (arguments, all) = line::arguments(std::env::args_os());
    let command = line::shape(Program::command(), all);
    let wants_json = asks_for_json(&arguments);
    // Do this first, because errors in the rest of the command line are reported with it.
    output::name_documents(&recognised(&command, &arguments));
    let arguments = match config_file::expand(&command, arguments) {
        Ok(arguments) => arguments,
        Err(failure) => return end(failure, wants_json),
    };
    let wants_json = asks_for_json(&arguments);
    let parsed = command.clone().try_get_matches_from(arguments).and_then(|matches| {
        let program = Program::from_arg_matches(&matches)?;
        Ok((matches, program))
    });
    let failure = match parsed {
        Ok((matches, program)) => {
            match files::check(&command, &matches).and_then(|()| run(program)) {
                Ok(()) => return ExitCode::SUCCESS,
                Err(failure) => failure,
            }
        }
        Err(error) => match failure::from_clap(&error) {
            Ok(code) => return code,
            Err(failure) => failure,
        },
    };
    end(failure, wants_json)
}

fn asks_for_json(arguments: &[OsString]) -> bool {
    arguments.iter().take_while(|given| *given != "--").any(|given| given == "--json")
}

fn end(failure: Failure, wants_json: bool) -> ExitCode {
    if wants_json {
        tell_in_json(&failure);
    }
    failure.report()
}

/// The command that the arguments name, if it can be recognised.
fn recognised(program: &clap::Command, arguments: &[OsString]) -> String {
    let matches = program.clone().ignore_errors(true).try_get_matches_from(arguments);
    let name = matches.map_or(String::new(), |matches| name_of(&matches));
    if name.is_empty() { "anabranch".to_owned() } else { name }
}

/// The last document of a failed command with --json. Not printed if the command's own documents
/// have reported the failure.
#[derive(Serialize)]
struct ErrorDocument<'a> {
    event: &'static str,
    error: &'a str,
    exit_code: u8,
}

fn tell_in_json(failure: &Failure) {
    // A command that the user stopped reports no error, and has printed its own last document.
    if let (Some(error), exit_code @ (1 | 2)) = failure.told() {
        // If standard output is closed, standard error may still be open.
        let _ = output::print_json(&ErrorDocument { event: "error", error, exit_code });
    }
}

/// The subcommands joined to one word: `perf-client`.
fn name_of(matches: &ArgMatches) -> String {
    let mut names = Vec::new();
    let mut next = matches.subcommand();
    while let Some((name, matches)) = next {
        names.push(name);
        next = matches.subcommand();
    }
    names.join("-")
}

fn run(program: Program) -> Result<(), Failure> {
    start_log(program.verbose, program.log_format)?;
    #[cfg(target_os = "linux")]
    if let Some(code) = match &program.command {
        Command::Emulate(command) => command.isolate()?,
        Command::Lab(command) => command.isolate()?,
        _ => None,
    } {
        // The program inside the namespaces has reported how it ended.
        return if code == 0 { Ok(()) } else { Err(Failure::Exit(code)) };
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut builder = match program.command.threads() {
        Threads::Own => tokio::runtime::Builder::new_current_thread(),
        Threads::Shards(_) | Threads::Cores => tokio::runtime::Builder::new_multi_thread(),
    };
    if let (Threads::Shards(shards), None) =
        (program.command.threads(), std::env::var_os("TOKIO_WORKER_THREADS"))
    {
        builder.worker_threads(shards.max(1));
    }
    let runtime = builder
        .enable_all()
        .max_blocking_threads(BLOCKING_THREADS.max(2 * cores))
        .build()
        .map_err(|error| Failure::failed(format!("no runtime can be started: {error}")))?;
    let result = runtime.block_on(async {
        let result = program.command.run().await;
        impairment::drained().await;
        result
    });
    #[cfg(unix)]
    control::remove_sockets();
    // A blocked disk must not keep the program from ending.
    runtime.shutdown_background();
    output::finish(result)
}

fn start_log(verbose: u8, format: LogFormat) -> Result<(), Failure> {
    let filter = log_filter(verbose, std::env::var("ANABRANCH_LOG").ok().as_deref())?;
    let (no, force) = (std::env::var_os("NO_COLOR"), std::env::var_os("FORCE_COLOR"));
    let colors = line::colors(no, force).unwrap_or_else(|| std::io::stderr().is_terminal());
    let json = format == LogFormat::Json;
    let log = tracing_subscriber::fmt::layer().with_writer(move || output::Errors { json });
    let registry = tracing_subscriber::registry().with(filter);
    match format {
        LogFormat::Text => registry.with(log.with_ansi(colors)).init(),
        LogFormat::Json => registry.with(log.json()).init(),
    }
    Ok(())
}

/// The log filter: from the environment, or else from the number of `-v`.
fn log_filter(verbose: u8, environment: Option<&str>) -> Result<Targets, Failure> {
    let level = match verbose {
        0 => LevelFilter::WARN,
        1 => LevelFilter::INFO,
        2 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    };
    match environment {
        Some(filter) if !filter.trim().is_empty() => filter.parse().map_err(|error| {
            Failure::usage(format!(
                "ANABRANCH_LOG has no filters such as 'anabranch=debug': {error}"
            ))
        }),
        _ => Ok(Targets::new().with_default(level)),
    }
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        line::shape(Program::command(), false).debug_assert();
        line::shape(Program::command(), true).debug_assert();
    }

    #[test]
    fn the_environment_filters_logs_by_target() {
        let logs = |verbose, environment, target: &str, level| {
            log_filter(verbose, environment).unwrap().would_enable(target, &level)
        };
        assert!(
            logs(0, None, "anabranch", Level::WARN) && !logs(0, None, "anabranch", Level::INFO)
        );
        assert!(logs(3, None, "anything", Level::TRACE));
        let both = Some("anabranch=debug,anabranch_proto::path=trace");
        assert!(logs(0, both, "anabranch::sockets", Level::DEBUG));
        assert!(!logs(3, both, "anabranch::sockets", Level::TRACE));
        assert!(logs(0, both, "anabranch_proto::path", Level::TRACE));
        assert!(!logs(3, both, "hyper", Level::ERROR));
        assert!(logs(0, Some("info"), "hyper", Level::INFO));
        assert!(logs(1, Some(""), "hyper", Level::INFO));
        assert!(log_filter(0, Some("anabranch=loud")).is_err());
    }
}
