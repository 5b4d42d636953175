//! The swarm must find the bug that the feature `canary` plants in the protocol engine: when TSNs
//! wrap, data is acknowledged and discarded. The swarm must also report which faults are necessary
//! to trigger it.
#![cfg(feature = "canary")]

use anabranch_harness::swarm::{Only, Options, attempt, shrink};

#[test]
fn the_swarm_finds_the_planted_bug_and_leaves_out_what_it_does_not_need() {
    let found = (0..100).find_map(|seed| {
        let result = attempt(Options::draw(seed), false);
        result.err().map(|failure| (seed, failure))
    });
    let (seed, failure) = found.expect("100 seeds without a finding");
    println!("seed {seed}, {} faults: {failure}", Options::draw(seed).faults().len());
    // The lost data left a hole in a message or in a stream, or never arrived.
    let symptoms =
        ["lost", "without", "beginning", "not everything", "order", "considers its peer"];
    assert!(symptoms.iter().any(|symptom| failure.message.contains(symptom)), "{failure}");

    let shrunk = shrink(&Options::draw(seed), failure, 300);
    println!(
        "after {} runs: anabranch swarm --seed {seed} --runs 1 --only {} --messages {} --trace",
        shrunk.runs, shrunk.only, shrunk.messages
    );
    println!("{}", shrunk.failure);
    assert_eq!(shrunk.only.to_string(), "tsn-wrap.0", "no other fault is needed");
    let mut options = Options::draw(seed);
    options.keep_only(&shrunk.only);
    options.limit_messages(shrunk.messages);
    assert_eq!(attempt(options.clone(), false).unwrap_err(), shrunk.failure, "it fails again");
    options.keep_only(&Only::default());
    attempt(options, false).expect("without it nothing fails");
}
