//! Memory of a sender with 1,000 associations at 1, 3 and 8 % loss: SACK against NR-SACK.
//!
//! `cargo bench -p anabranch-bench --bench memory -- [--quick]`
//!
//! One endpoint sends over all associations to another one, greedily, in unordered messages of one chunk; the receiver
//! reads everything. Each direction has 50 ms of delay, this loss rate, and no other limit. A sender gets its next
//! message when the previous one has been sent, so its memory is what it needs for retransmissions. The benchmark
//! prints
//!
//! - user data in the retransmission queues, and the endpoint's charge for it, including the slot of each chunk: means
//!   of 40 samples in 10 s, taken after all associations have been up for 5 s; a sample is the sum over all
//!   associations;
//! - the memory returned to the allocator when the sending endpoint is dropped afterwards.
//!
//! The results do not depend on the machine: each run has the same packets. `--quick` tests that it works, with a
//! hundredth of the associations.
#![forbid(unsafe_code)]

mod network;

use std::alloc::System;
use std::process::ExitCode;
use std::time::Duration;

use anabranch_bench::is_quick;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

use crate::network::Network;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const ASSOCIATIONS: usize = 1000;
/// Loss rates in percent.
const LOSSES: [u64; 3] = [1, 3, 8];
const LOOKS: u32 = 40;
const LOOK: Duration = Duration::from_millis(250);
const SEED: u64 = 1;

/// Sums over all associations.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    /// Mean number of bytes of user data in the retransmission queues.
    kept: f64,
    /// Mean number of bytes that the endpoint charges for its buffers.
    accounted: f64,
    /// Bytes returned to the allocator.
    allocated: f64,
    /// User bytes received per second.
    goodput: f64,
}

/// Number of bytes that the allocator holds.
fn held() -> usize {
    let stats = ALLOCATOR.stats();
    stats.bytes_allocated.wrapping_sub(stats.bytes_deallocated)
}

fn main() -> ExitCode {
    let quick = match is_quick("memory") {
        Ok(quick) => quick,
        Err(message) => {
            eprintln!("{message}");
            return ExitCode::from(2);
        }
    };
    let associations = if quick { ASSOCIATIONS / 100 } else { ASSOCIATIONS };
    for loss in LOSSES {
        match (run(associations, loss, false), run(associations, loss, true)) {
            (Ok(sack), Ok(nr_sack)) => tell(associations, loss, &sack, &nr_sack),
            (Err(message), _) | (_, Err(message)) => {
                eprintln!("memory: {message}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}

fn run(associations: usize, loss: u64, nr_sack: bool) -> Result<Seen, String> {
    let mut network = Network::new(associations, loss, nr_sack, SEED)?;
    let received = network.received();
    let mut seen = Seen::default();
    for _ in 0..LOOKS {
        network.run(LOOK)?;
        seen.kept += network.kept()? as f64 / f64::from(LOOKS);
        seen.accounted += network.accounted() as f64 / f64::from(LOOKS);
    }
    let seconds = LOOK.as_secs_f64() * f64::from(LOOKS);
    seen.goodput = (network.received() - received) as f64 / seconds;
    let before = held();
    network.drop_sender();
    seen.allocated = (before - held()) as f64;
    Ok(seen)
}

fn tell(associations: usize, loss: u64, sack: &Seen, nr_sack: &Seen) {
    println!("| {associations} associations, {loss} % loss | SACK | NR-SACK | NR-SACK / SACK |");
    println!("|---|---|---|---|");
    let rows = [
        ("user data kept for retransmissions", sack.kept, nr_sack.kept),
        ("accounted for it, with slots", sack.accounted, nr_sack.accounted),
        ("of the allocator, with all else of the endpoint", sack.allocated, nr_sack.allocated),
    ];
    let megabytes = |bytes: f64| format!("{:.1} MB", bytes / 1e6);
    for (what, sack, nr_sack) in rows {
        let ratio = nr_sack / sack;
        println!("| {what} | {} | {} | {ratio:.2} |", megabytes(sack), megabytes(nr_sack));
    }
    let rate = |seen: &Seen| format!("{:.0} Mb/s", seen.goodput * 8e-6);
    let ratio = nr_sack.goodput / sack.goodput;
    println!("| goodput | {} | {} | {ratio:.2} |", rate(sack), rate(nr_sack));
    println!();
}
