//! The engine's performance with two paths relative to one, and the effect of a slow second path on a transfer.
//!
//! `cargo bench -p anabranch-bench --bench multipath -- [engine|slow-path] [--quick]`
//!
//! `engine`: both ends run on this thread; a path is a queue of packets in memory without delay. One end sends
//! 1,400-byte messages as fast as windows allow, up to 64 packets per call, and the other one reads them. Prints DATA
//! packets per second of CPU time of both ends (the median of alternating runs), and the ratio. The target is 0.7.
//!
//! `slow-path`: goodput in a simulated network, the same on every machine. The bound is 0.95.
//!
//! The benchmark `compare` has the ratio as `multipath`, too.
#![forbid(unsafe_code)]

mod engine;
#[path = "../paths/network.rs"]
mod network;
mod slow_path;

use std::process::ExitCode;

use anabranch_proto::MultipathMode;

use crate::engine::Pair;

const RUNS: usize = 7;

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// A part of this benchmark. The argument says whether to be quick.
type Part = fn(bool) -> Result<(), String>;

fn main() -> ExitCode {
    // Without `--bench`, which cargo adds, this is only a test that it works.
    let mut quick = !std::env::args().any(|argument| argument == "--bench");
    let (mut engine, mut slow) = (false, false);
    for argument in std::env::args().skip(1) {
        match argument.as_str() {
            "--bench" => {}
            "--quick" => quick = true,
            "engine" => engine = true,
            "slow-path" => slow = true,
            other => {
                eprintln!(
                    "multipath: '{other}' is unknown; it takes engine, slow-path and --quick"
                );
                return ExitCode::from(2);
            }
        }
    }
    let all = !(engine || slow);
    let parts: [(bool, Part); 2] = [(engine, compare), (slow, slow_path::compare)];
    let mut chosen = parts.iter().filter(|(asked, _)| all || *asked);
    match chosen.try_for_each(|(_, part)| part(quick)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("multipath: {message}");
            ExitCode::FAILURE
        }
    }
}

fn compare(quick: bool) -> Result<(), String> {
    let runs = if quick { 1 } else { RUNS };
    let mut pairs = [
        ("one path", Pair::new(1, MultipathMode::Off)?),
        ("two paths, CMT", Pair::new(2, MultipathMode::Cmt)?),
        ("two paths, CMT-PF", Pair::new(2, MultipathMode::CmtPf)?),
    ];
    let mut rates = [(); 3].map(|()| Vec::with_capacity(runs));
    for _ in 0..runs {
        for ((_, pair), rates) in pairs.iter_mut().zip(&mut rates) {
            rates.push(engine::measure(pair, quick)?);
        }
    }
    let medians = rates.map(median);
    println!("{:<20} {:>14} {:>9} {:>12}", "engine", "packets/CPU s", "of one", "first path");
    for ((name, pair), rate) in pairs.iter().zip(medians) {
        let share = pair.first_share().unwrap_or(0.0);
        println!("{name:<20} {rate:>14.0} {:>9.2} {share:>12.2}", rate / medians[0]);
    }
    Ok(())
}
