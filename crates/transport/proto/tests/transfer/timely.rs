//! Recovery of thin flows, and of data that was only late: early retransmit, RTO restart, tail probes,
//! RACK, undo, and thresholds that adapt to reordering.

use std::time::Duration;

use anabranch_harness::{Pair, Verdict};
use anabranch_proto::config::{IdleCwnd, InitialCwnd, RecoveryConfig, Reordering, Undo};
use anabranch_proto::{AssociationConfig, BurstControl, LossDetection, Statistics};
use anabranch_wire::kind;

use super::{LONG, config};

const RTT: Duration = Duration::from_millis(20);

/// An established association with a measured round trip, so RTO is RTO.Min.
fn pair(change: impl FnOnce(&mut RecoveryConfig)) -> Pair {
    let mut config = config();
    config.congestion.initial_cwnd = InitialCwnd::Mtus(64);
    config.congestion.burst = BurstControl::Unlimited;
    config.congestion.idle_cwnd = IdleCwnd::Keep;
    config.timers.rto_min = Duration::from_millis(400);
    change(&mut config.recovery);
    with(config)
}

fn with(config: AssociationConfig) -> Pair {
    let mut pair = Pair::connected(1, config);
    for _ in 0..8 {
        exchange(&mut pair, 2);
    }
    pair
}

/// Sends this many packets in one burst and waits until all are acknowledged. Returns the time until
/// the last one arrived.
fn exchange(pair: &mut Pair, packets: usize) -> Duration {
    let (begun, before) = (pair.net.now(), pair.received_len(1));
    for _ in 0..packets {
        assert!(pair.send(0, 0, vec![1; 1100]));
    }
    assert!(pair.run_until(LONG, |pair| pair.received_len(1) == before + packets * 1100));
    let took = pair.net.now().saturating_since(begun);
    assert!(pair.run_until(LONG, |pair| pair.statistics(0).outstanding_chunks == 0));
    pair.run(4 * RTT);
    took
}

/// From now on the packets with data at these places, counted from 0, meet this.
fn meets(pair: &mut Pair, verdict: impl Fn(usize) -> Verdict + 'static) {
    let mut seen = 0;
    pair.net.script(move |sight| {
        if sight.node != 0 || !sight.has(kind::DATA) {
            return Verdict::Pass;
        }
        seen += 1;
        verdict(seen - 1)
    });
}

fn loses(pair: &mut Pair, lost: &'static [usize]) {
    meets(pair, |place| if lost.contains(&place) { Verdict::Drop } else { Verdict::Pass });
}

fn since(pair: &Pair, before: &Statistics) -> [u64; 4] {
    let (now, before) = (pair.statistics(0).counters, before.counters);
    [
        now.fast_retransmitted_chunks - before.fast_retransmitted_chunks,
        now.probe_retransmitted_chunks - before.probe_retransmitted_chunks,
        now.timeouts - before.timeouts,
        now.spurious_retransmissions - before.spurious_retransmissions,
    ]
}

#[test]
fn few_packets_need_few_reports() {
    for (er, packets, took) in [
        (false, 2, Duration::from_millis(410)),
        (true, 2, RTT + Pair::DELAY),
        (false, 3, Duration::from_millis(410)),
        (true, 3, RTT + Pair::DELAY),
        (false, 4, RTT + Pair::DELAY),
        (true, 4, RTT + Pair::DELAY),
    ] {
        let mut pair = pair(|recovery| recovery.early_retransmit = er);
        let before = pair.statistics(0);
        loses(&mut pair, &[0]);
        assert_eq!(exchange(&mut pair, packets), took, "{er} {packets}");
        let early = pair.statistics(0).counters.early_retransmitted_chunks;
        assert_eq!(early, u64::from(er && packets < 4));
        let timeouts = u64::from(took > 2 * RTT);
        assert_eq!(since(&pair, &before), [1 - timeouts, 0, timeouts, 0]);
    }
}

#[test]
fn the_last_packet_has_no_later_ones_and_many_outstanding_are_enough() {
    let mut pair = pair(|recovery| recovery.early_retransmit = true);
    loses(&mut pair, &[2]);
    assert_eq!(exchange(&mut pair, 3), Duration::from_millis(430), "no acknowledgement reports it");
    // The first of three later ones is no proof while more may follow.
    let before = pair.statistics(0);
    meets(&mut pair, |place| match place {
        0 => Verdict::BehindNext(RTT),
        _ => Verdict::Pass,
    });
    exchange(&mut pair, 8);
    assert_eq!(since(&pair, &before), [0; 4]);
}

#[test]
fn early_retransmit_ends_where_it_was_needless() {
    let mut pair = pair(|recovery| recovery.early_retransmit = true);
    let before = pair.statistics(0);
    for expected in [1, 1] {
        meets(&mut pair, |place| match place {
            0 => Verdict::BehindNext(RTT),
            _ => Verdict::Pass,
        });
        exchange(&mut pair, 2);
        let [fast, _, timeouts, spurious] = since(&pair, &before);
        assert_eq!((fast, timeouts, spurious), (expected, 0, 1), "the second time it waits");
    }
}

#[test]
fn the_timer_counts_from_when_a_packet_left() {
    for (restart, millis) in [(false, 415), (true, 400)] {
        let mut pair = pair(|recovery| recovery.rto_restart = restart);
        // 15 ms after a packet that arrives one leaves that does not.
        assert!(pair.send(0, 0, vec![1; 1100]));
        assert!(pair.send(0, 0, vec![1; 1100]));
        pair.run(Duration::from_millis(5));
        loses(&mut pair, &[0]);
        let before = pair.received_len(1);
        let begun = pair.net.now();
        assert!(pair.send(0, 0, vec![1; 1100]));
        assert!(pair.run_until(LONG, |pair| pair.received_len(1) == before + 3 * 1100));
        let took = pair.net.now().saturating_since(begun);
        assert_eq!(took, Duration::from_millis(millis) + Pair::DELAY, "{restart}");
        assert_eq!(pair.statistics(0).counters.timeouts, 1);
    }
}

#[test]
fn a_lost_tail_is_probed_for_and_lowers_the_window_once() {
    for lost in [&[7][..], &[6, 7], &[3, 4, 5, 6, 7]] {
        let mut pair = pair(|recovery| {
            recovery.loss_detection = LossDetection::TimeThreshold;
            recovery.tail_probe = true;
        });
        let before = pair.statistics(0);
        let lost: &'static [usize] = Box::leak(lost.into());
        loses(&mut pair, lost);
        // The first acknowledgement, two round trips, and at most another one for the others.
        let took = exchange(&mut pair, 8);
        assert!(took <= 4 * RTT + Pair::DELAY + Duration::from_millis(5), "{lost:?}: {took:?}");
        let [fast, probes, timeouts, spurious] = since(&pair, &before);
        assert_eq!((fast, probes), (lost.len() as u64 - 1, 1));
        assert_eq!((timeouts, spurious), (0, 0));
        let now = pair.statistics(0);
        assert_eq!(now.counters.fast_recoveries - before.counters.fast_recoveries, 1);
        assert!(now.paths[0].cwnd < before.paths[0].cwnd);
        assert_eq!(now.paths[0].rto, before.paths[0].rto);
    }
}

#[test]
fn a_probe_is_new_data_if_there_is_any_and_the_window_is_full() {
    let mut config = config();
    config.congestion.initial_cwnd = InitialCwnd::Mtus(2);
    config.congestion.burst = BurstControl::Unlimited;
    config.recovery.loss_detection = LossDetection::TimeThreshold;
    config.recovery.tail_probe = true;
    let mut pair = with(config);
    let window = pair.statistics(0).paths[0].cwnd / 1120 + 1;
    let before = pair.statistics(0);
    // The whole window is lost; packets beyond it reveal that.
    meets(&mut pair, move |place| if place < window { Verdict::Drop } else { Verdict::Pass });
    exchange(&mut pair, window + 4);
    let [fast, again, timeouts, spurious] = since(&pair, &before);
    assert_eq!((fast, again, timeouts, spurious), (window as u64, 0, 0, 0));
    assert_eq!(pair.statistics(0).counters.tail_probes - before.counters.tail_probes, 1);
}

#[test]
fn a_needless_probe_leaves_the_window_alone() {
    let mut pair = pair(|recovery| {
        recovery.loss_detection = LossDetection::TimeThreshold;
        recovery.tail_probe = true;
    });
    let before = pair.statistics(0);
    // The last two are late by more than the probe waits.
    meets(&mut pair, |place| match place {
        6 | 7 => Verdict::Delay(Duration::from_millis(52)),
        _ => Verdict::Pass,
    });
    exchange(&mut pair, 8);
    let [fast, probes, timeouts, spurious] = since(&pair, &before);
    assert_eq!((fast, probes, timeouts, spurious), (0, 1, 0, 1));
    assert!(pair.statistics(0).paths[0].cwnd >= before.paths[0].cwnd);
}

#[test]
fn time_proves_a_loss_with_fewer_than_three_later_packets() {
    let mut pair = pair(|recovery| recovery.loss_detection = LossDetection::TimeThreshold);
    let before = pair.statistics(0);
    loses(&mut pair, &[0]);
    // A quarter of a round trip later than three reports would.
    let took = exchange(&mut pair, 2);
    assert_eq!(took, RTT + RTT / 4 + Pair::DELAY);
    assert_eq!(since(&pair, &before), [1, 0, 0, 0]);
}

#[test]
fn time_waits_for_what_was_only_overtaken() {
    let mut pair = pair(|recovery| recovery.loss_detection = LossDetection::TimeThreshold);
    let late = |pair: &mut Pair| {
        meets(pair, |place| match place {
            0 => Verdict::Delay(Duration::from_millis(4)),
            _ => Verdict::Pass,
        });
    };
    let before = pair.statistics(0);
    late(&mut pair);
    exchange(&mut pair, 2);
    assert_eq!(since(&pair, &before), [0; 4]);
    // After reordering was seen, three later packets no longer prove a loss.
    late(&mut pair);
    exchange(&mut pair, 12);
    assert_eq!(since(&pair, &before), [0; 4]);
    // A loss is still found, in time.
    loses(&mut pair, &[0]);
    assert_eq!(exchange(&mut pair, 12), RTT + RTT / 4 + Pair::DELAY);
    assert_eq!(since(&pair, &before), [1, 0, 0, 0]);
}

/// The first packet comes after the twelfth.
fn overtaken(pair: &mut Pair) {
    meets(pair, |place| match place {
        0 => Verdict::Delay(Duration::from_millis(2)),
        _ => Verdict::Pass,
    });
}

#[test]
fn a_needless_recovery_is_undone_and_not_repeated() {
    for (undo, timestamps) in
        [(Undo::Off, false), (Undo::Duplicates, false), (Undo::Timestamps, true)]
    {
        let mut pair = pair(|recovery| {
            recovery.undo = undo;
            recovery.timestamps = timestamps;
            recovery.reordering = Reordering::Adaptive;
        });
        let before = pair.statistics(0);
        overtaken(&mut pair);
        exchange(&mut pair, 12);
        let now = pair.statistics(0);
        assert_eq!(since(&pair, &before)[0], 1, "{undo}: three came before it");
        let undone = undo != Undo::Off;
        assert_eq!(now.counters.undone_recoveries, u64::from(undone), "{undo}");
        assert_eq!(now.paths[0].cwnd >= before.paths[0].cwnd, undone, "{undo}");
        // It is known by now how late packets come.
        overtaken(&mut pair);
        exchange(&mut pair, 12);
        assert_eq!(since(&pair, &before)[0], 1, "{undo}");
    }
}

#[test]
fn a_real_loss_is_not_undone() {
    let mut pair = pair(|recovery| {
        recovery.undo = Undo::Both;
        recovery.timestamps = true;
    });
    let before = pair.statistics(0);
    // One is lost, another one late.
    meets(&mut pair, |place| match place {
        0 => Verdict::Drop,
        1 => Verdict::Delay(Duration::from_millis(2)),
        _ => Verdict::Pass,
    });
    exchange(&mut pair, 12);
    let now = pair.statistics(0);
    assert_eq!(now.counters.undone_recoveries, 0);
    assert!(now.paths[0].cwnd < before.paths[0].cwnd);
}

#[test]
fn ncr_waits_for_most_of_a_window_and_careful_sends_half_meanwhile() {
    let sent = |how| {
        let mut pair = pair(|recovery| recovery.reordering = how);
        let before = pair.statistics(0);
        // Almost half of a window comes before the first packet.
        meets(&mut pair, |place| match place {
            0 => Verdict::Delay(Duration::from_millis(15)),
            _ => Verdict::Delay(Duration::from_millis(place.min(62) as u64 / 2)),
        });
        for _ in 0..200 {
            assert!(pair.send(0, 0, vec![1; 1100]));
        }
        // The reports have come, and the first packet has not.
        pair.run(Duration::from_millis(10 + 14 + 10));
        let sent = pair.statistics(0).paths[0].data_chunks_sent - before.paths[0].data_chunks_sent;
        assert!(pair.run_until(LONG, |pair| pair.statistics(0).outstanding_chunks == 0));
        (since(&pair, &before)[0], sent)
    };
    let [fixed, careful, aggressive] =
        [Reordering::Fixed, Reordering::NcrCareful, Reordering::NcrAggressive].map(sent);
    let all = format!("{fixed:?} {careful:?} {aggressive:?}");
    assert!(fixed.0 > 0 && careful.0 == 0 && aggressive.0 == 0, "{all}");
    assert!(careful.1 + 10 < aggressive.1, "{all}");
}

#[test]
fn a_spurious_timeout_is_undone() {
    let mut pair = pair(|recovery| recovery.undo = Undo::Duplicates);
    let before = pair.statistics(0);
    // All packets are delayed for longer than the RTO.
    meets(&mut pair, |place| match place {
        0..12 => Verdict::Delay(Duration::from_millis(450)),
        _ => Verdict::Pass,
    });
    exchange(&mut pair, 12);
    let now = pair.statistics(0);
    assert_eq!(now.counters.timeouts - before.counters.timeouts, 1);
    assert_eq!(now.counters.undone_recoveries, 1);
    assert!(now.paths[0].cwnd >= before.paths[0].cwnd);
}

#[test]
fn a_spurious_timeout_shows_no_reordering() {
    let mut pair = pair(|recovery| {
        recovery.loss_detection = LossDetection::TimeThreshold;
        recovery.undo = Undo::Duplicates;
    });
    let before = pair.statistics(0);
    meets(&mut pair, |place| match place {
        0..12 => Verdict::Delay(Duration::from_millis(450)),
        _ => Verdict::Pass,
    });
    exchange(&mut pair, 12);
    let [_, _, timeouts, spurious] = since(&pair, &before);
    assert!(timeouts == 1 && spurious > 0, "{timeouts} {spurious}");
    // All came in order, so three later packets still prove a loss without waiting.
    loses(&mut pair, &[0]);
    assert_eq!(exchange(&mut pair, 12), RTT + Pair::DELAY);
}

#[test]
fn a_dead_path_is_probed_once_and_then_by_the_timer_alone() {
    let mut pair = pair(|recovery| {
        recovery.loss_detection = LossDetection::TimeThreshold;
        recovery.tail_probe = true;
    });
    let before = pair.statistics(0);
    pair.set_up(0, false);
    assert!(pair.send(0, 0, vec![1; 1100]));
    pair.run(Duration::from_secs(4));
    let [_, probes, timeouts, _] = since(&pair, &before);
    assert_eq!((probes, timeouts), (1, 3), "0.4, 1.2 and 2.8 s");
    // Once something is acknowledged the next tail is probed for again.
    pair.set_up(0, true);
    assert!(pair.run_until(LONG, |pair| pair.statistics(0).outstanding_chunks == 0));
    pair.run(Duration::from_secs(1));
    let before = pair.statistics(0);
    loses(&mut pair, &[3]);
    exchange(&mut pair, 4);
    assert_eq!(since(&pair, &before), [0, 1, 0, 0]);
}

/// With data in flight and more queued, the link stalls for longer than the RTO. Then it continues in order,
/// with one packet per millisecond, or `loses` its packets. Returns the retransmitted chunks, the spurious
/// timeouts, and whether cwnd is as large as before.
fn standstill(change: impl FnOnce(&mut RecoveryConfig), loses: bool) -> (u64, u64, bool) {
    const MILLISECOND: Duration = Duration::from_millis(1);
    let mut pair = pair(change);
    let before = pair.statistics(0);
    let (stops, goes) = (pair.net.now() + 30 * MILLISECOND, pair.net.now() + 700 * MILLISECOND);
    let mut free = goes;
    pair.net.script(move |sight| {
        if sight.node != 0 || !sight.has(kind::DATA) || sight.now < stops {
            return Verdict::Pass;
        }
        if loses {
            return if sight.now < stops + 30 * MILLISECOND {
                Verdict::Drop
            } else {
                Verdict::Pass
            };
        }
        let leaves = free.max(sight.now);
        free = leaves + MILLISECOND;
        Verdict::Delay(leaves.saturating_since(sight.now))
    });
    let packets = 600;
    let goal = pair.received_len(1) + packets * 1100;
    for _ in 0..packets {
        assert!(pair.send(0, 0, vec![1; 1100]));
    }
    assert!(pair.run_until(LONG, |pair| pair.received_len(1) == goal));
    assert!(pair.run_until(LONG, |pair| pair.statistics(0).outstanding_chunks == 0));
    let now = pair.statistics(0);
    let again = now.paths[0].retransmitted_chunks - before.paths[0].retransmitted_chunks;
    (again, now.counters.spurious_timeouts, now.paths[0].cwnd >= before.paths[0].cwnd)
}

#[test]
fn new_data_after_a_timeout_shows_that_it_was_none() {
    // see: RFC 5682 section 3.1, step 2b
    let forward = |recovery: &mut RecoveryConfig| recovery.f_rto = true;
    assert_eq!(standstill(forward, false), (1, 1, true));
    // The timing inferred from the retransmission's arrival is discarded, too.
    let by_time = |recovery: &mut RecoveryConfig| {
        recovery.f_rto = true;
        recovery.loss_detection = LossDetection::TimeThreshold;
    };
    assert_eq!(standstill(by_time, false), (1, 1, true));
    let (again, found, _) = standstill(|_| {}, false);
    assert!(again > 10 && found == 0, "{again} {found}");
    let (again, ..) = standstill(|recovery| recovery.undo = Undo::Duplicates, false);
    assert!(again > 1, "{again}: duplicates are reported a round trip later");
}

#[test]
fn a_timeout_after_a_loss_stays_one() {
    let (again, found, _) = standstill(|recovery| recovery.f_rto = true, true);
    assert!(again >= 30 && found == 0, "{again} {found}");
}

#[test]
fn without_new_data_a_timeout_is_not_in_question() {
    let mut pair = pair(|recovery| recovery.f_rto = true);
    let before = pair.statistics(0);
    loses(&mut pair, &[0, 1, 2, 3]);
    exchange(&mut pair, 4);
    assert_eq!(since(&pair, &before)[2], 1, "one timeout repairs all");
}
