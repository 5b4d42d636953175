//! Every attack with its bound, and the measured result.
//!
//! `cargo test -p anabranch-harness --test attacks -- --nocapture` prints the table in
//! `docs/attacks.md`. Memory is what the allocator holds for the whole process beyond the amount
//! before the attack. Work is counted in packets and engine calls, never in time.

mod amplification;
mod floods;
mod forgers;
mod interleaved;
mod liars;
mod memory;
mod movers;
mod off_path;
mod restarts;
mod sealed;
mod shared_address;
mod work;

use std::alloc::System;
use std::fmt::Write as _;

use anabranch_proto::AssociationConfig;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Number of bytes that the allocator holds.
pub(crate) fn held() -> usize {
    let stats = ALLOCATOR.stats();
    stats.bytes_allocated.wrapping_sub(stats.bytes_deallocated)
}

/// Memory of the process beyond the initial amount, and its maximum.
#[derive(Debug)]
pub(crate) struct Memory {
    first: usize,
    most: usize,
}

impl Memory {
    pub(crate) fn now() -> Self {
        Self { first: held(), most: 0 }
    }

    /// Number of additional bytes compared with the start.
    pub(crate) fn grown(&mut self) -> usize {
        let grown = held().saturating_sub(self.first);
        self.most = self.most.max(grown);
        grown
    }

    /// Maximum number of additional bytes over all calls of [`grown`](Self::grown).
    pub(crate) fn most(&mut self) -> usize {
        self.grown();
        self.most
    }
}

/// A number with its bound.
#[derive(Debug)]
pub(crate) struct Figure {
    what: &'static str,
    bound: u64,
    measured: u64,
}

/// `what` must not exceed `bound`.
pub(crate) fn figure(what: &'static str, bound: u64, measured: impl TryInto<u64>) -> Figure {
    Figure { what, bound, measured: measured.try_into().unwrap_or(u64::MAX) }
}

/// An attack and its result.
#[derive(Debug)]
pub(crate) struct Attack {
    name: &'static str,
    figures: Vec<Figure>,
}

pub(crate) fn attack(name: &'static str, figures: impl Into<Vec<Figure>>) -> Attack {
    Attack { name, figures: figures.into() }
}

/// Associations that send nothing unsolicited, so that packets can be counted.
pub(crate) fn quiet() -> AssociationConfig {
    let mut config = AssociationConfig::default();
    config.timers.heartbeat_interval = None;
    config.mtu.discovery = false;
    config
}

type Group = (&'static str, fn() -> Vec<Attack>);

const GROUPS: [Group; 11] = [
    ("Floods", floods::all),
    ("Strangers off the path", off_path::all),
    ("Forgers without the secret", forgers::all),
    ("Addresses that change", movers::all),
    ("Sealed paths", sealed::all),
    ("Restarts and old cookies", restarts::all),
    ("Shared and listed addresses", shared_address::all),
    ("Amplification", amplification::all),
    ("Memory", memory::all),
    ("Work", work::all),
    ("Peers that lie", liars::all),
];

fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn list(figures: &[Figure], value: impl Fn(&Figure) -> u64) -> String {
    let one = |figure: &Figure| format!("{} {}", grouped(value(figure)), figure.what);
    figures.iter().map(one).collect::<Vec<_>>().join("; ")
}

/// All attacks are in one test, because memory is measured for the whole process.
#[test]
fn every_attack_stays_within_its_bound() {
    let documented = include_str!("../../../../../docs/attacks.md");
    let (mut broken, mut missing) = (String::new(), String::new());
    let mut attacks = 0;
    for (title, all) in GROUPS {
        println!("\n### {title}\n\n| attack | bound | measured |\n|---|---|---|");
        for attack in all() {
            attacks += 1;
            let bound = list(&attack.figures, |figure| figure.bound);
            let measured = list(&attack.figures, |figure| figure.measured);
            println!("| {} | {bound} | {measured} |", attack.name);
            for figure in &attack.figures {
                if figure.measured > figure.bound {
                    let _ = writeln!(broken, "{}: {figure:?}", attack.name);
                }
            }
            // Measurements may change with the engine, but attacks and bounds are promises.
            if !documented.contains(&format!("| {} | {bound} |", attack.name)) {
                let _ = writeln!(missing, "{} | {bound}", attack.name);
            }
        }
    }
    println!("\n{attacks} attacks");
    assert!(broken.is_empty(), "bounds exceeded:\n{broken}");
    assert!(missing.is_empty(), "not in docs/attacks.md:\n{missing}");
}
