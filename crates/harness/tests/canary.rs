//! The swarm must find the bug that the feature `canary` plants in the protocol engine: data at
//! a wrap of the TSNs is acknowledged and thrown away.
#![cfg(feature = "canary")]

use std::panic;

use anabranch_harness::swarm::{Options, run};

#[test]
fn the_swarm_finds_the_planted_bug() {
    let found = (0..100).find_map(|seed| {
        let result = panic::catch_unwind(|| run(Options::draw(seed), false));
        result.err().map(|panic| (seed, panic))
    });
    let (seed, panic) = found.expect("100 seeds without a finding");
    let message = panic.downcast_ref::<String>().expect("a message");
    println!("seed {seed}: {message}");
    // What was lost left a hole in a message or in a stream, or never arrived.
    let symptoms = ["lost", "without", "beginning", "not everything", "order", "holds its peer"];
    assert!(symptoms.iter().any(|symptom| message.contains(symptom)), "{message}");
}
