//! Compares our simulator with ns-2.35 on the same scenario, in user CPU time.
//!
//! `cargo bench -p anabranch-bench --bench sim -- [--runs N] [--seeds N] [--quick] [--json FILE]`
//!
//! Both run as separate processes, alternately. The user times that the system measures are
//! compared: `sim_vs_ns2_80MB` is one transfer of 80 MB at 3 %/3 % loss, `sim_vs_ns2_grid` the
//! whole grid of caro 2.5 with 4 MB per transfer. A ratio of 2 means that ns-2 took twice as long.
//! `scripts/setup` installs ns-2; without it nothing is measured.
#![forbid(unsafe_code)]

mod ns2;
mod scenario;

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use lexopt::{Arg, Parser};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;

use crate::scenario::{GRID, Point};

/// Sizes of the two kinds of transfer.
const LONG: u64 = 80 << 20;
const SHORT: u64 = 4 << 20;

/// Number of rounds of the long transfer.
const RUNS: u64 = 9;
/// Seeds for each point of the grid (caro 2.3).
const SEEDS: u64 = 60;

struct Options {
    runs: u64,
    seeds: u64,
    json: Option<PathBuf>,
}

/// The action that the arguments request.
enum Request {
    Compare(Options),
    /// The measured part, run as a process: a transfer of this size at each point with these seeds.
    Simulate {
        bytes: u64,
        points: Vec<Point>,
        seeds: std::ops::Range<u64>,
    },
    Nothing,
}

fn main() -> ExitCode {
    let outcome = match parse() {
        Ok(Request::Nothing) => Ok(()),
        Ok(Request::Simulate { bytes, points, seeds }) => points.iter().try_for_each(|point| {
            seeds.clone().try_for_each(|seed| scenario::transfer(bytes, point, seed).map(|_| ()))
        }),
        Ok(Request::Compare(options)) => compare(&options),
        Err(message) => {
            eprintln!("sim: {message}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("sim: {message}");
            ExitCode::FAILURE
        }
    }
}

fn parse() -> Result<Request, String> {
    let mut options = Options { runs: RUNS, seeds: SEEDS, json: None };
    let mut simulate = None;
    let mut any = false;
    let mut parser = Parser::from_env();
    let text = |error: lexopt::Error| error.to_string();
    while let Some(argument) = parser.next().map_err(text)? {
        any = true;
        match argument {
            // Cargo adds it.
            Arg::Long("bench") => {}
            Arg::Long("quick") => (options.runs, options.seeds) = (1, 1),
            Arg::Long("runs") => options.runs = number(&mut parser, "--runs")?,
            Arg::Long("seeds") => options.seeds = number(&mut parser, "--seeds")?,
            Arg::Long("json") => options.json = Some(parser.value().map_err(text)?.into()),
            Arg::Long("simulate") => {
                let value = parser.value().map_err(text)?;
                simulate = Some(value.into_string().map_err(|_| "--simulate takes a word")?);
            }
            other => return Err(other.unexpected().to_string()),
        }
    }
    Ok(match simulate.as_deref() {
        Some("long") => {
            Request::Simulate { bytes: LONG, points: vec![scenario::LONG_POINT], seeds: 1..2 }
        }
        Some("grid") => Request::Simulate {
            bytes: SHORT,
            points: scenario::grid().collect(),
            seeds: 1..options.seeds + 1,
        },
        Some(other) => return Err(format!("there is nothing named '{other}' to simulate")),
        // `cargo test --all-targets` runs this program without arguments: do not measure then.
        None if !any => Request::Nothing,
        None => Request::Compare(options),
    })
}

fn number(parser: &mut Parser, option: &str) -> Result<u64, String> {
    let value = parser.value().map_err(|error| error.to_string())?;
    let number = value.to_str().and_then(|value| value.parse().ok());
    number
        .filter(|number| (1..=1000).contains(number))
        .ok_or_else(|| format!("{option} takes a number from 1 to 1000"))
}

fn compare(options: &Options) -> Result<(), String> {
    let mut json = match &options.json {
        Some(path) => Some(
            File::create(path)
                .map_err(|error| format!("cannot write {}: {error}", path.display()))?,
        ),
        None => None,
    };
    let Some(script) = ns2::Script::find()? else {
        println!("sim: there is no ns-2 here: scripts/setup installs it; nothing was measured");
        return match std::env::var_os("ANABRANCH_REQUIRE_ALL") {
            Some(value) if value == "1" => Err("ns-2 is required".to_owned()),
            _ => Ok(()),
        };
    };
    let mut times = Vec::new();
    for _ in 0..options.runs {
        let theirs = user_time(&mut script.transfer(LONG, &scenario::LONG_POINT, 1))?;
        let ours = user_time(&mut this_program("long", 1)?)?;
        times.push((theirs, ours));
    }
    let long = report("sim_vs_ns2_80MB", "80 MB at 3 %/3 %, one run", &times, 3.0);

    let mut theirs = 0.0;
    for point in scenario::grid() {
        for seed in 1..=options.seeds {
            theirs += user_time(&mut script.transfer(SHORT, &point, seed))?;
        }
    }
    let ours = user_time(&mut this_program("grid", options.seeds)?)?;
    let title = format!("{} points of caro 2.5, {} seeds each", GRID, options.seeds);
    let grid = report("sim_vs_ns2_grid", &title, &[(theirs, ours)], 20.0);
    if let Some(file) = &mut json {
        let value = serde_json::json!({ "sim_vs_ns2_80MB": long, "sim_vs_ns2_grid": grid });
        file.write_all(format!("{value:#}\n").as_bytes())
            .map_err(|error| format!("cannot write the results: {error}"))?;
    }
    Ok(())
}

/// This program, started again to execute one part.
fn this_program(part: &str, seeds: u64) -> Result<Command, String> {
    let own = std::env::current_exe().map_err(|error| format!("where am I? {error}"))?;
    let mut command = Command::new(own);
    command.args(["--simulate", part, "--seeds", &seeds.to_string()]);
    Ok(command)
}

/// User CPU seconds of a program.
fn user_time(command: &mut Command) -> Result<f64, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let before = children()?;
    let status = command.status().map_err(|error| format!("{name}: {error}"))?;
    if !status.success() {
        return Err(format!("{name} failed: {status}"));
    }
    Ok(children()? - before)
}

fn children() -> Result<f64, String> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).map_err(|error| error.to_string())?;
    Ok(usage.user_time().num_microseconds() as f64 / 1e6)
}

/// Prints the times (theirs, ours) and the median of their ratios, and returns the median.
fn report(key: &str, title: &str, times: &[(f64, f64)], target: f64) -> f64 {
    let median = |mut values: Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let ratio = median(times.iter().map(|(theirs, ours)| theirs / ours.max(1e-6)).collect());
    let theirs = median(times.iter().map(|(theirs, _)| *theirs).collect());
    let ours = median(times.iter().map(|(_, ours)| *ours).collect());
    let verdict = if ratio >= target { "met" } else { "NOT met" };
    println!("{key}: {title} [user CPU s]");
    println!("  ns-2.35   {theirs:>9.3}");
    println!("  anabranch {ours:>9.3}");
    println!("  = {ratio:.2}, asked for: at least {target}: {verdict}");
    ratio
}
