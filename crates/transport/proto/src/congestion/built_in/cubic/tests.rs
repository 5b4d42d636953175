//! Windows over time, after losses, and coupled with others.

use super::*;
use crate::config::AssociationConfig;
use crate::congestion::{Coupled, Coupling, PathView, Rtt};

const PMDCS: usize = 1000;
const RTT: Duration = Duration::from_millis(100);

fn at(seconds: f64) -> Instant {
    Instant::ZERO + Duration::from_secs_f64(seconds)
}

fn cubic() -> Cubic {
    let config = AssociationConfig::default();
    Cubic::new(&NewPath::new(&config.congestion, config.revision, PMDCS))
}

/// A controller with a window of `packets` that just had a loss.
fn reduced(packets: usize) -> Cubic {
    let mut c = cubic();
    c.window.cwnd = packets * PMDCS;
    c.on_congestion_event(&event(Loss::Reported));
    recovered(c)
}

fn event(cause: Loss) -> CongestionEvent<'static> {
    CongestionEvent::new(at(0.0), cause, 0)
}

/// Ends fast recovery without growth.
fn recovered(mut c: Cubic) -> Cubic {
    c.on_acked(&Acked { flight_before: 0, ..Acked::new(at(0.0), PMDCS) });
    c.curve().unused_since = None;
    c
}

/// A round trip in which each packet of a full window is acknowledged.
fn round_trip(c: &mut Cubic, now: f64) {
    coupled_round_trip(c, now, Coupled::ALONE);
}

fn coupled_round_trip(c: &mut Cubic, now: f64, coupled: Coupled<'_>) {
    for _ in 0..c.window.cwnd / PMDCS {
        let rtt = Rtt { latest: Some(RTT), smoothed: Some(RTT), min: Some(RTT) };
        let flight_before = c.cwnd();
        c.on_acked(&Acked { flight_before, rtt, coupled, ..Acked::new(at(now), PMDCS) });
    }
}

/// The window in packets after each round trip.
fn grown(c: &mut Cubic, round_trips: usize) -> Vec<f64> {
    grown_coupled(c, round_trips, Coupled::ALONE)
}

fn grown_coupled(c: &mut Cubic, round_trips: usize, coupled: Coupled<'_>) -> Vec<f64> {
    let mut all = Vec::new();
    for number in 1..=round_trips {
        coupled_round_trip(c, number as f64 * RTT.as_secs_f64(), coupled);
        all.push(c.packets(c.window.cwnd));
    }
    all
}

/// The mean window in packets over many epochs; each ends after `packets_each` packets.
fn mean_window(packets_each: f64, coupled: Coupled<'_>) -> f64 {
    let (mut c, mut now, mut sent) = (reduced(50), 0.0, 0.0);
    let (mut sum, mut rounds) = (0.0, 0.0);
    for epoch in 0..60 {
        while sent < packets_each {
            now += RTT.as_secs_f64();
            coupled_round_trip(&mut c, now, coupled);
            let window = c.packets(c.window.cwnd);
            sent += window;
            if epoch >= 20 {
                (sum, rounds) = (sum + window, rounds + 1.0);
            }
        }
        sent -= packets_each;
        c.on_congestion_event(&CongestionEvent::new(at(now), Loss::Reported, 0));
        c = recovered(c);
    }
    sum / rounds
}

/// One of two equal paths, which LIA lets grow by a quarter of what one alone would.
fn one_of_two(views: &[PathView]) -> Coupled<'_> {
    let coupled = Coupled::new(Coupling::Lia, views, 0);
    assert!((coupled.packets() - 0.25).abs() < 1e-9);
    coupled
}

const EQUAL: [PathView; 2] = [PathView {
    window: 1000 * PMDCS,
    ssthresh: usize::MAX,
    pmdcs: PMDCS,
    rtt: RTT,
    loss_interval: 0,
}; 2];

#[test]
fn coupled_windows_grow_by_the_parts_that_leave_them_half() {
    // Reno's way, up to the former size: a quarter of 9/17.
    let mut c = reduced(10);
    let windows = grown_coupled(&mut c, 9, one_of_two(&EQUAL));
    assert!((windows[8] - windows[0] - 2.0 * ALPHA).abs() < 0.2, "{windows:?}");
    // The function's way: back after K = (300 / (0.4 / 16))^(1/3), 22.9 s in place of 9.1 s.
    let mut c = reduced(1000);
    let windows = grown_coupled(&mut c, 240, one_of_two(&EQUAL));
    let k = (300.0_f64 / (0.4 / 16.0)).cbrt();
    for (number, window) in windows.iter().enumerate().skip(1) {
        let expected = |since: f64| 0.4 / 16.0 * (since - k).powi(3) + 1000.0;
        let since = number as f64 * 0.1;
        let bounds = expected(since) - 3.0..=expected(since + 0.1) + 3.0;
        assert!(bounds.contains(window), "{since} s: {window} for {bounds:?}");
    }
}

#[test]
fn the_same_losses_leave_a_coupled_path_half_of_the_window() {
    // Both ways of growth: a loss each 500 packets is Reno's, one each 200,000 the function's.
    for packets in [500.0, 200_000.0] {
        let alone = mean_window(packets, Coupled::ALONE);
        let coupled = mean_window(packets, one_of_two(&EQUAL));
        let part = coupled / alone;
        assert!((0.45..=0.57).contains(&part), "{packets}: {coupled} of {alone}");
    }
}

#[test]
fn the_window_follows_the_function() {
    let mut c = reduced(1000);
    assert_eq!((c.cwnd(), c.ssthresh()), (700 * PMDCS, 700 * PMDCS));
    // RFC 9438 section 4.2: K is the cube root of 300 / 0.4 s, and W(t) is C * (t - K)^3 + 1,000.
    let k = (300.0_f64 / 0.4).cbrt();
    let windows = grown(&mut c, 120);
    for (number, window) in windows.iter().enumerate().skip(1) {
        // The epoch begins with the first acknowledgement.
        let since = number as f64 * 0.1;
        let expected = 0.4 * (since - k).powi(3) + 1000.0;
        let next = 0.4 * (since + 0.1 - k).powi(3) + 1000.0;
        let (least, most) = (expected.min(next) - 2.0, expected.max(next) + 2.0);
        assert!((least..=most).contains(window), "{since} s: {window} for {expected}");
    }
    let plateau = windows[(k * 10.0) as usize];
    assert!((plateau - 1000.0).abs() < 2.0, "flat where the loss was: {plateau}");
}

#[test]
fn small_windows_grow_as_renos_do() {
    let mut c = reduced(10);
    let windows = grown(&mut c, 10);
    // Section 4.3: 9/17 of a packet per round trip, until the window is back to its former size.
    let growth = windows[3] - windows[0];
    assert!((growth - 3.0 * ALPHA).abs() < 0.2, "{windows:?}");
    let growth = windows[9] - windows[8];
    assert!((0.9..=1.2).contains(&growth), "{windows:?}");
}

#[test]
fn what_a_recovery_gave_up_does_not_come_back_at_once() {
    let mut c = reduced(10);
    assert_eq!((c.cwnd(), c.ssthresh()), (7 * PMDCS, 7 * PMDCS));
    c.on_acked(&Acked { flight_before: c.cwnd(), ..Acked::new(at(0.0), 2 * PMDCS) });
    assert_eq!(c.cwnd(), 7 * PMDCS);
}

#[test]
fn windows_are_whole_packets() {
    let mut config = AssociationConfig::default();
    config.set("min_ssthresh_mtus", "2").unwrap();
    let mut c = Cubic::new(&NewPath::new(&config.congestion, config.revision, PMDCS));
    for (before, after) in [(3, 2), (4, 2), (5, 3), (6, 4), (7, 4), (8, 5)] {
        c.window.cwnd = before * PMDCS + PMDCS / 2;
        assert_eq!(c.cwnd(), before * PMDCS);
        c.on_congestion_event(&event(Loss::Reported));
        c = recovered(c);
        assert_eq!((c.cwnd(), c.ssthresh()), (after * PMDCS, after * PMDCS), "{before}");
    }
    for number in 1..=10 {
        round_trip(&mut c, f64::from(number) * RTT.as_secs_f64());
        assert_eq!(c.cwnd(), c.window.cwnd / PMDCS * PMDCS, "what is less than a packet waits");
    }
    assert!(!c.window.cwnd.is_multiple_of(PMDCS), "and is not lost: {}", c.window.cwnd);
}

#[test]
fn a_second_loss_below_the_first_makes_room() {
    let mut c = reduced(1000);
    c.on_congestion_event(&event(Loss::Reported));
    let mut c = recovered(c);
    assert_eq!((c.cwnd(), c.curve().plateau), (490 * PMDCS, 700.0 * 0.85));
    let mut c = reduced(1000);
    c.window.cwnd = 1200 * PMDCS;
    c.on_congestion_event(&event(Loss::Reported));
    assert_eq!(c.curve().plateau, 1200.0);
}

#[test]
fn timeouts_start_over_and_those_of_one_outage_count_once() {
    let mut c = cubic();
    c.window.cwnd = 100 * PMDCS;
    for _ in 0..3 {
        c.on_congestion_event(&event(Loss::Timeout));
        assert_eq!((c.cwnd(), c.ssthresh()), (PMDCS, 70 * PMDCS));
    }
    // Slow start up to the threshold, where the function begins on its plateau (section 4.8).
    let windows = grown(&mut c, 8);
    assert!(windows[4] > 30.0 && windows[6] >= 70.0, "{windows:?}");
    assert!(windows[7] - windows[6] < 2.0, "{windows:?}");
    c.on_congestion_event(&event(Loss::Timeout));
    assert!(c.ssthresh() < 55 * PMDCS, "another outage");
}

#[test]
fn the_window_falls_in_step_with_acknowledgements() {
    let mut c = cubic();
    (c.window.cwnd, c.window.ssthresh) = (100 * PMDCS, 50 * PMDCS);
    let mut flight = 100 * PMDCS;
    c.on_acked(&Acked { flight_before: 0, ..Acked::new(at(0.0), PMDCS) });
    c.on_congestion_event(&CongestionEvent { in_flight: flight, ..event(Loss::Reported) });
    flight -= 2 * PMDCS;
    let lost = |flight, bytes| LostData {
        now: at(0.0),
        cause: Loss::Reported,
        bytes,
        in_flight: flight,
        sample: None,
    };
    c.on_lost(&lost(flight, PMDCS));
    let mut sent = 0;
    for _ in 0..98 {
        while flight + PMDCS <= c.cwnd() {
            flight += PMDCS;
            sent += PMDCS;
            let (now, app_limited) = (at(0.0), false);
            c.on_sent(&Sent { now, bytes: PMDCS, in_flight: flight, app_limited });
        }
        assert!(flight >= 69 * PMDCS, "never below the target: {flight}");
        flight -= PMDCS;
        let in_flight = flight;
        let acked = Acked { in_fast_recovery: true, in_flight, ..Acked::new(at(0.1), PMDCS) };
        c.on_acked(&acked);
    }
    assert!((68 * PMDCS..=70 * PMDCS).contains(&sent), "0.7 of what arrived: {sent}");
    c.on_acked(&Acked { flight_before: 0, ..Acked::new(at(0.1), PMDCS) });
    assert_eq!((c.cwnd(), c.ssthresh()), (70 * PMDCS, 70 * PMDCS));
    // A second event in fast recovery reduces the target, not what is allowed right now.
    c.on_congestion_event(&CongestionEvent { in_flight: 70 * PMDCS, ..event(Loss::Reported) });
    c.on_lost(&lost(20 * PMDCS, 50 * PMDCS));
    assert!(c.cwnd() < 25 * PMDCS, "no burst: {}", c.cwnd());
    c.on_congestion_event(&CongestionEvent { in_flight: 20 * PMDCS, ..event(Loss::Reported) });
    assert_eq!(c.ssthresh(), 34 * PMDCS);
}

#[test]
fn what_slow_start_lost_was_more_than_the_path_carries() {
    let lost =
        |cause, bytes| LostData { now: at(0.0), cause, bytes, in_flight: 50 * PMDCS, sample: None };
    for (packets, carried) in [(1, 99), (40, 60), (80, 50)] {
        let mut c = cubic();
        c.window.cwnd = 100 * PMDCS;
        c.on_congestion_event(&event(Loss::Reported));
        c.on_lost(&lost(Loss::Reported, PMDCS));
        c.on_lost(&lost(Loss::Reported, (packets - 1) * PMDCS));
        let kept = carried * 7 / 10 * PMDCS;
        assert_eq!((c.ssthresh(), c.curve().plateau), (kept, carried as f64), "{packets}");
        let mut c = recovered(c);
        assert_eq!(c.cwnd(), kept);
        // In congestion avoidance the window has not doubled: a loss tells nothing but that it was too large.
        c.window.cwnd = 200 * PMDCS;
        c.on_congestion_event(&event(Loss::Reported));
        c.on_lost(&lost(Loss::Reported, 40 * PMDCS));
        assert_eq!((c.ssthresh(), c.curve().plateau), (140 * PMDCS, 200.0));
    }
}

#[test]
fn the_first_slow_start_ends_without_a_loss() {
    for (slow_start, ends) in [("usual", true), ("standard", false), ("hystart++", true)] {
        let mut config = AssociationConfig::default();
        config.set("slow_start", slow_start).unwrap();
        let mut c = Cubic::new(&NewPath::new(&config.congestion, config.revision, PMDCS));
        assert_eq!(c.needs().packet_rtts, ends);
        for number in 0..500 {
            let (flight_before, in_flight) = (c.cwnd(), c.cwnd() - PMDCS);
            let packet_rtt = Some(RTT + Duration::from_millis(number));
            let rtt = Rtt { latest: None, smoothed: Some(RTT), min: Some(RTT) };
            let full =
                Acked { flight_before, in_flight, packet_rtt, rtt, ..Acked::new(at(0.0), PMDCS) };
            c.on_acked(&full);
        }
        assert_eq!(c.ssthresh() < usize::MAX, ends, "{slow_start}");
        if ends {
            assert!(c.cwnd() < 400 * PMDCS, "{}", c.cwnd());
            assert_eq!(c.curve().epoch.map(|epoch| epoch.reached_after), Some(0.0), "section 4.10");
        }
    }
}

#[test]
fn congestion_that_was_none_is_undone() {
    let mut c = reduced(1000);
    grown(&mut c, 50);
    let (cwnd, plateau) = (c.cwnd(), c.curve().plateau);
    c.on_congestion_event(&event(Loss::Reported));
    c.undo(at(5.1));
    assert_eq!((c.cwnd(), c.curve().plateau), (cwnd, plateau));
    assert!(c.curve().epoch.is_some());
    c.undo(at(5.2));
    assert_eq!(c.cwnd(), cwnd, "once");
}

#[test]
fn time_without_data_is_no_time_to_grow_in() {
    let mut busy = reduced(1000);
    grown(&mut busy, 20);
    let mut pausing = busy.clone();
    round_trip(&mut busy, 2.1);
    // An acknowledgement of a window that was not full, and a long pause.
    pausing.on_acked(&Acked { flight_before: 0, ..Acked::new(at(2.0), PMDCS) });
    let before = pausing.cwnd();
    round_trip(&mut pausing, 60.0);
    let (grew, pause) = (busy.cwnd() - before, pausing.cwnd() - before);
    assert!(pause <= grew + PMDCS, "{pause} bytes after a pause, {grew} without");
}

#[test]
fn packets_that_grow_in_recovery_do_not_outgrow_the_window() {
    let mut c = cubic();
    c.on_congestion_event(&event(Loss::Reported));
    c.on_pmdcs_change(at(1.0), 20 * PMDCS);
    let acked = 1_000_000 * PMDCS;
    c.on_acked(&Acked::new(at(2.0), acked));
    assert!(c.cwnd() >= 20 * PMDCS && c.cwnd() <= 40 * PMDCS + acked, "{}", c.cwnd());
}

#[test]
fn windows_that_nobody_uses_do_not_grow() {
    let mut c = reduced(100);
    let before = c.cwnd();
    for _ in 0..1000 {
        c.on_acked(&Acked { flight_before: before - 1, ..Acked::new(at(1.0), PMDCS) });
        c.on_acked(&Acked {
            in_fast_recovery: true,
            flight_before: before,
            ..Acked::new(at(1.0), PMDCS)
        });
    }
    assert_eq!(c.cwnd(), before);
}
