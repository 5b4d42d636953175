//! Runs a C program that makes random calls with random arguments: a few of them, with fixed seeds.

mod common;

use std::process::Command;

use common::{Installed, succeed};

#[test]
fn no_call_crashes_hangs_or_keeps_descriptors() {
    let library = Installed::new();
    let program = library.compile("tests/c/fuzz.c", &[]);
    for seed in 1..=8 {
        for (calls, threads) in [("6000", "1"), ("2000", "3")] {
            succeed(Command::new(&program).args([&seed.to_string(), calls, threads]));
        }
    }
}
