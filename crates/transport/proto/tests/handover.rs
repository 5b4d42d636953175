//! Changes from one network to another while both work: make before break.

use std::time::Duration;

use anabranch_harness::handover::{NEW, config, hand_over, pair, transfer};
use anabranch_proto::{Handover, MultipathMode, NewPathWindow};

/// The time of a longest packet at the rate.
const PACKET: Duration = Duration::from_micros(600);

/// The speed key `handover_gap`.
#[test]
fn the_longest_gap_is_at_most_two_round_trips_and_only_what_is_in_flight_is_sent_twice() {
    for from in [0, 1] {
        let moved = hand_over(&config(Handover::MakeFirst), from);
        println!("handover_gap from {from}: {:?}, {} twice", moved.gap, moved.twice);
        assert!(moved.gap <= 2 * NEW, "{from}: {:?}", moved.gap);
        assert_eq!(moved.twice, moved.in_flight, "{from}");
        assert_eq!(moved.pair.closed, [None, None]);
    }
}

/// Without make before break nothing leaves until the peer has agreed.
#[test]
fn make_before_break_has_a_shorter_gap_than_both_at_once() {
    for from in [0, 1] {
        let gap = |handover| hand_over(&config(handover), from).gap;
        let (first, at_once) = (gap(Handover::MakeFirst), gap(Handover::AtOnce));
        println!("from {from}: {first:?}, at once {at_once:?}");
        assert!(first < at_once, "{from}: {first:?} {at_once:?}");
    }
}

#[test]
fn a_new_path_may_start_with_half_of_the_old_window() {
    let bytes = |window| {
        let config =
            config(Handover::MakeFirst).with(|config| config.addresses.new_path_window = window);
        hand_over(&config, 0).bytes
    };
    let (initial, half) = (bytes(NewPathWindow::Initial), bytes(NewPathWindow::HalfOfOld));
    assert!(half > initial + 20_000, "{half} {initial}");
}

/// The new path joins the old one when it is verified, and stays alone when the old one goes.
#[test]
fn concurrent_multipath_transfer_goes_on_during_a_handover() {
    for mode in [MultipathMode::Cmt, MultipathMode::CmtPf] {
        for from in [0, 1] {
            let config = config(Handover::MakeFirst).with(|config| config.multipath.mode = mode);
            let moved = hand_over(&config, from);
            assert!(moved.gap <= 2 * NEW + PACKET, "{mode} {from}: {:?}", moved.gap);
            let mut pair = pair(&config);
            let new = pair.addresses[0][1];
            transfer(&mut pair, from, Duration::from_secs(2));
            let now = pair.net.now();
            pair.association_mut(0).add_address(now, new).unwrap();
            pair.forget();
            transfer(&mut pair, from, Duration::from_secs(1));
            let paths = pair.statistics(from).paths;
            assert!(
                paths.iter().all(|path| path.bytes_sent > 40_000),
                "{mode} {from}: {:?}",
                paths.iter().map(|p| (p.id, p.state, p.bytes_sent, p.cwnd)).collect::<Vec<_>>()
            );
        }
    }
}
