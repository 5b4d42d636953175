//! Random runs from a range of seeds.

use std::panic;
use std::process::ExitCode;
use std::time::Instant;

use anabranch_harness::swarm::{Options, Report, run};
use anabranch_proto::marks;

const USAGE: &str = "usage: swarm [--seeds N] [--start S] [--seed X] [--trace] [--keep-going]

  --seeds N     how many seeds (1000)
  --start S     the first one (0)
  --seed X      only this one, with its options
  --trace       print every packet and event
  --keep-going  do not stop at the first failure";

fn main() -> ExitCode {
    let (mut seeds, mut start, mut one, mut trace, mut keep_going) = (1000, 0, None, false, false);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut number = |into: &mut u64| match arguments.next().map(|text| text.parse()) {
            Some(Ok(value)) => {
                *into = value;
                true
            }
            _ => false,
        };
        let known = match argument.as_str() {
            "--seeds" => number(&mut seeds),
            "--start" => number(&mut start),
            "--seed" => number(one.insert(0)),
            "--trace" => {
                trace = true;
                true
            }
            "--keep-going" => {
                keep_going = true;
                true
            }
            _ => false,
        };
        if !known {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    }
    let range = one.map_or(start..start.saturating_add(seeds), |one| one..one + 1);
    println!("seeds {range:?}");
    let clock = Instant::now();
    let mut total = Report::default();
    let mut failed = Vec::new();
    for seed in range {
        let options = Options::draw(seed);
        if one.is_some() {
            println!("{options:#?}");
        }
        let result = panic::catch_unwind(|| run(options, trace));
        match result {
            Ok(report) => total.add(&report),
            Err(_) => {
                println!("seed {seed} failed; replay it with --seed {seed} --trace");
                failed.push(seed);
                if !keep_going {
                    break;
                }
            }
        }
    }
    print!("{total}");
    for (branch, count) in marks::reached() {
        println!("{branch:<60} {count:>9}");
    }
    println!("{} s, {} failed: {failed:?}", clock.elapsed().as_secs(), failed.len());
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
