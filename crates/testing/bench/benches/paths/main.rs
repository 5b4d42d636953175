//! The rate after a pause, a cut and an outage, with and without the options that preserve it.
//!
//! `cargo bench -p anabranch-bench --bench paths -- [--quick]`
//!
//! Everything happens in virtual time, so the figures are the same on every machine. 'without' is the same profile with
//! `idle_cwnd=halve-per-rto` and `hold_ssthresh=off`, the rules of RFC 9260.
#![forbid(unsafe_code)]

mod network;

use std::process::ExitCode;
use std::time::Duration;

use anabranch_bench::is_quick;
use anabranch_proto::congestion::IdleCwnd;
use anabranch_proto::{AssociationConfig, Reliability};
use anabranch_sim::{Action, Direction, Instant, Large, TransferId, Workload};

use crate::network::{Path, Paths, profile, text};

/// 50 Mb/s with 40 ms round-trip time, and 20 Mb/s with 80 ms.
const FIRST: Path = Path(50_000, 20, 300);
const SECOND: Path = Path(20_000, 40, 300);

/// Size of a message in bytes, and of the buffers for it.
const LARGE: usize = 10_000_000;
const BUFFERS: usize = 16_000_000;

/// When something happens to the first path, and how long an outage lasts, in ms.
const EVENT: u64 = 3_000;
const OUTAGE: u64 = 5_000;

fn main() -> ExitCode {
    let quick = match is_quick("paths") {
        Ok(quick) => quick,
        Err(message) => {
            eprintln!("{message}");
            return ExitCode::from(2);
        }
    };
    let profiles: &[&str] =
        if quick { &["default"] } else { &["default", "bulk", "web", "signalling"] };
    match run(profiles) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("paths: {message}");
            ExitCode::FAILURE
        }
    }
}

/// A case: its name, a description of its ratio, and how to compute the ratio.
type Case = (&'static str, &'static str, fn(&AssociationConfig) -> Result<f64, String>);

const CASES: [Case; 4] = [
    ("pause", "seconds for 10 MB after 3 s of quiet / without quiet", after_a_pause),
    ("cut", "rate in the 2nd second after a cut / path that is left", |config| {
        after_a_cut(config, 1_000)
    }),
    ("cut, 3rd", "rate in the 3rd second after a cut / path that is left", |config| {
        after_a_cut(config, 2_000)
    }),
    ("outage", "rate in the 1st second after 5 s without the path / path", after_an_outage),
];

fn run(profiles: &[&str]) -> Result<(), String> {
    for (name, what, _) in CASES {
        println!("{name:<10} {what}");
    }
    println!("\n{:<10} {:<12} {:>10} {:>10}", "case", "profile", "without", "with");
    for (name, _, measure) in CASES {
        for profile_name in profiles {
            let with = profile(profile_name)?;
            let mut without = with.clone();
            without.congestion.idle_cwnd = IdleCwnd::HalvePerRto;
            without.congestion.hold_ssthresh = false;
            let (before, after) = (measure(&without)?, measure(&with)?);
            println!("{name:<10} {profile_name:<12} {before:>10.2} {after:>10.2}");
        }
    }
    Ok(())
}

/// Seconds that 10 MB take after a message of 100 bytes and a pause.
fn large_message(config: &AssociationConfig, pause: Duration) -> Result<f64, String> {
    let mut config = config.clone();
    config.sending.send_buffer = BUFFERS;
    config.receiving.receive_buffer = BUFFERS;
    (config.receiving.receive_buffer_start, config.sending.send_buffer_start) = (None, None);
    let (mut paths, _) = Paths::new(&[FIRST])?;
    let transfer = paths.add(1, &config, |transfer| {
        transfer.message_size = 100;
        transfer.large = Some(Large { every: 2, bytes: LARGE, reliability: Reliability::Usual });
        transfer.workload = Workload::Periodic { interval: pause, messages: 2 };
    })?;
    paths.complete(transfer)?;
    let longest = paths.network.transfer(transfer).delays.max().ok_or("nothing was delivered")?;
    Ok(longest.as_secs_f64())
}

fn after_a_pause(config: &AssociationConfig) -> Result<f64, String> {
    let before = large_message(config, Duration::from_millis(1))?;
    Ok(large_message(config, Duration::from_secs(3))? / before)
}

fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

/// The rate in kb/s during the second that begins at `from` ms.
fn rate(paths: &mut Paths, transfer: TransferId, from: u64) -> u64 {
    paths.network.run_until(at(from));
    let before = paths.network.transfer(transfer).bytes;
    paths.network.run_until(at(from + 1_000));
    (paths.network.transfer(transfer).bytes - before) * 8 / 1_000
}

/// A transfer of this size does not end during the measurement.
const ENDLESS: u64 = 1 << 30;

/// The rate of a path in the fourth second of a transfer that uses it alone.
fn alone(path: Path, config: &AssociationConfig) -> Result<f64, String> {
    let (mut paths, _) = Paths::new(&[path])?;
    let transfer = paths.add(ENDLESS, config, |_| {})?;
    Ok(rate(&mut paths, transfer, EVENT) as f64)
}

fn after_a_cut(config: &AssociationConfig, after: u64) -> Result<f64, String> {
    let (mut paths, links) = Paths::new(&[FIRST, SECOND])?;
    let transfer = paths.add(ENDLESS, config, |_| {})?;
    let cut = Action::Cut { link: links[0], direction: Direction::Both };
    paths.network.schedule(at(EVENT), cut).map_err(text)?;
    Ok(rate(&mut paths, transfer, EVENT + after) as f64 / alone(SECOND, config)?)
}

fn after_an_outage(config: &AssociationConfig) -> Result<f64, String> {
    let (mut paths, links) = Paths::new(&[FIRST])?;
    let transfer = paths.add(ENDLESS, config, |_| {})?;
    let (link, direction) = (links[0], Direction::Both);
    paths.network.schedule(at(EVENT), Action::Cut { link, direction }).map_err(text)?;
    let end = at(EVENT + OUTAGE);
    paths.network.schedule(end, Action::Repair { link, direction }).map_err(text)?;
    paths.network.run_until(end);
    let before = paths.network.transfer(transfer).bytes;
    // It is back when a megabyte has arrived.
    paths.network.run_while(|network| network.transfer(transfer).bytes < before + 1_000_000);
    let back = paths.network.now().as_nanos() / 1_000_000;
    Ok(rate(&mut paths, transfer, back) as f64 / alone(FIRST, config)?)
}
