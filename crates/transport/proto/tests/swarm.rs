//! Random runs. To replay a seed, print its trace, or try many: `anabranch swarm --help`.

use anabranch_harness::swarm::{Options, Report, marks, run};

fn seed(seed: u64) -> Report {
    println!("seed {seed}; replay it with");
    println!("  cargo run -p anabranch-cli -- swarm --seed {seed} --runs 1 --trace");
    run(Options::draw(seed), false)
}

#[test]
fn a_few_hundred_seeds() {
    let mut total = Report::default();
    let mut reconnects = 0;
    for number in 0..300 {
        let report = seed(number);
        reconnects = reconnects.max(report.reconnects);
        total.add(&report);
    }
    // Both nodes reconnect failed associations. They once did so for each other's ends, too, and the
    // number of associations doubled each time.
    assert!((1..100).contains(&reconnects), "one run connected again {reconnects} times");
    println!("{total}");
    // The swarm is worth its time only if the faults and their remedies really occur.
    let occurred = [
        ("losses", total.lost),
        ("cuts", total.cut),
        ("full queues", total.queue),
        ("large packets", total.too_big),
        ("refused packets", total.refused),
        ("duplicates", total.duplicated),
        ("reordering", total.reordered),
        ("damage", total.corrupted),
        ("restarts", total.restarts),
        ("forged packets", total.forged),
        ("vanished addresses", total.vanished),
        ("other wishes of users", total.whims),
        ("aborts", total.aborts),
        ("graceful ends", total.graceful),
        ("ends for want of an answer", total.unreachable),
        ("partial delivery", total.in_parts),
        ("returned messages", total.failed),
        ("timeouts", total.timeouts),
        ("fast recoveries", total.fast_recoveries),
        ("window probes", total.window_probes),
        ("changes of paths", total.path_changes),
    ];
    for (what, count) in occurred {
        assert!(count > 0, "no {what} in 300 runs");
    }
    // 10,000 runs reach all of them.
    let missing: Vec<_> = marks::reached().filter(|(_, count)| *count == 0).collect();
    println!("not reached: {missing:#?}");
    assert!(missing.len() <= 15, "rare branches that 300 runs do not reach: {missing:#?}");
}

fn sealed_seed(seed: u64) -> Report {
    println!("seed {seed}; replay it with");
    println!("  cargo run -p anabranch-cli -- swarm --sealed --seed {seed} --runs 1 --trace");
    let mut options = Options::draw(seed);
    options.seal();
    run(options, false)
}

#[test]
fn a_few_sealed_seeds() {
    let mut total = Report::default();
    (0..100).for_each(|number| total.add(&sealed_seed(number)));
    println!("{total}");
    let occurred = [
        ("handshakes", total.hellos),
        ("keys replaced", total.welcomes.saturating_sub(2 * total.runs)),
        ("cookies", total.cookies),
        ("datagrams to others", total.astray),
        ("moves", total.moves),
        ("losses", total.lost),
        ("large datagrams", total.too_big),
        ("damage", total.corrupted),
        ("forged datagrams", total.forged),
        ("reboots", total.reboots),
        ("vanished uplinks", total.vanished),
        ("byte streams", total.byte_streams),
        ("graceful ends", total.graceful),
    ];
    for (what, count) in occurred {
        assert!(count > 0, "no {what} in 100 runs");
    }
    assert_eq!(seed(0).sealed, 0);
}

#[test]
fn what_sealed_runs_have_found() {
    // A late copy of the INIT of a server ended the association: seven of its addresses cannot be reached.
    for number in [277, 371] {
        sealed_seed(number);
    }
}

#[test]
fn what_random_runs_have_found() {
    // A slow path was allowed to carry data again by time alone, and nothing woke the association then.
    for number in [900_900, 901_881, 902_197, 902_609] {
        seed(number);
    }
    // What careful NCR withheld on a path stayed there when another path's data was acknowledged.
    for number in [120_000_029, 120_001_231] {
        seed(number);
    }
    // Both ends begin at the same time, over addresses of different scope.
    for number in [502_795, 510_929] {
        seed(number);
    }
    // A host that lost its state starts again from some of its addresses, and ends.
    seed(9_002_175);
    // The second cookie of a collision comes after the end.
    seed(46_043_819);
    // Addresses come and go on both sides: requests that cross each other, are refused in part, or are lost with the path
    // that they need; data and copies of the INIT that arrive late.
    for number in [
        903, 967, 3549, 500_672, 500_998, 501_257, 504_181, 506_137, 506_249, 507_128, 509_656,
        515_202, 521_335,
    ] {
        seed(number);
    }
    // The last word is lost, and most of 16 paths lead nowhere.
    seed(9_014_324);
}

/// With an option set in both ends, as `--set` does.
#[test]
fn what_random_runs_with_changing_addresses_have_found() {
    let changing = |seed: u64| {
        let mut options = Options::draw(seed);
        for name in ["authentication", "address_reconfiguration"] {
            options.set(name, "on").unwrap();
        }
        run(options, false)
    };
    // A user connects again to an address that the peer has removed from the association: no bug, but the peer takes it for a
    // restart.
    assert_eq!(changing(704_811).restarts, 1);
    // Chunks waited for a path that was never verified, and held up the one that was in use by then.
    changing(800_107);
    // A probe of the tail took the timer along, and its chunk was given up in place of being sent again.
    changing(906_936);
    // A request that no interface could send was repeated without end.
    changing(1_203_488);
    // An address counted as not added, because it reached the peer no longer when the answer came.
    changing(1_204_113);
    // An address that the peer had refused to remove reached none of the addresses that the peer added later.
    changing(1_516_138);
    // The only address waited for a change when a shutdown began, and nothing was sent from it any more.
    changing(3_104_794);
    // No path was known to lead to the peer, which was gone, and without HEARTBEATs nobody found out.
    changing(3_306_221);
    // A path that was just being added was used too early, and so was never verified.
    changing(3_308_054);
    // The timer of a FORWARD TSN ran on, although the FORWARD TSN was forgotten with a path that it had not taken.
    changing(3_501_930);
    // A timeout lowered a window to less than copies of long ago had taken, and their deadline had passed.
    changing(3_704_000);
    // A late copy of a cookie began an association whose other end was over, and never said so.
    changing(3_715_026);
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    for number in [3, 17, 1234] {
        let (first, second) = (seed(number), seed(number));
        assert_eq!(first, second);
    }
    assert_ne!(seed(3).hash, seed(17).hash);
}

/// F-RTO let new data go before retransmissions, and the share of the send buffer of its path was full.
#[test]
fn what_may_go_first_and_cannot_holds_nothing_up() {
    seed(210_013_362);
    // A late chunk moved to a path on which F-RTO still let new data go first, and there was none.
    seed(1_204_449);
}
