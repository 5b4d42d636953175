//! Retransmission and congestion control.

use std::time::Duration;

use anabranch_harness::{Pair, Verdict};
use anabranch_impair::{LinkConfig, Loss, Probability, QueueLimit};
use anabranch_proto::config::{IdleCwnd, InitialCwnd};
use anabranch_proto::{AssociationConfig, BurstControl, LossDetection};
use anabranch_wire::kind;
use bytes::Bytes;

use super::{LONG, config, numbered, tsns};

#[test]
// test: rfc9260 7.2.4 "SHOULD wait for two further miss indications"
fn three_missing_reports_make_a_fast_retransmission() {
    let mut config = config();
    config.congestion.initial_cwnd = InitialCwnd::Mtus(10);
    config.congestion.burst = BurstControl::Unlimited;
    let mut pair = Pair::connected(1, config);
    pair.forget();
    let mut first = None;
    pair.net.script(move |sight| {
        let drop = sight.has(kind::DATA) && first.is_none();
        if drop {
            first = Some(sight.number);
            return Verdict::Drop;
        }
        Verdict::Pass
    });
    for _ in 0..6 {
        assert!(pair.send(0, 0, vec![1; 1100]));
    }
    let begun = pair.net.now();
    assert!(pair.run_until(LONG, |pair| pair.received_len(1) == 6600));
    // The loss, the reports, the retransmission: one and a half round trips.
    assert_eq!(pair.net.now().saturating_since(begun), 3 * Pair::DELAY);
    let counters = pair.statistics(0).counters;
    assert_eq!((counters.fast_retransmitted_chunks, counters.timeouts), (1, 0));
    assert_eq!(counters.fast_recoveries, 1);
    // test: rfc9260 7.2.4 "it SHOULD start sending a SACK chunk back"
    assert_eq!(pair.count(1, kind::SACK), 5 + 1);
}

#[test]
fn two_missing_reports_do_not() {
    let mut config = config();
    config.congestion.initial_cwnd = InitialCwnd::Mtus(10);
    let mut pair = Pair::connected(1, config);
    let mut dropped = false;
    pair.net.script(move |sight| {
        let drop = sight.has(kind::DATA) && !std::mem::replace(&mut dropped, true);
        if drop { Verdict::Drop } else { Verdict::Pass }
    });
    for _ in 0..3 {
        assert!(pair.send(0, 0, vec![1; 1100]));
    }
    assert!(pair.run_until(LONG, |pair| pair.received_len(1) == 3300));
    let counters = pair.statistics(0).counters;
    assert_eq!((counters.fast_retransmitted_chunks, counters.timeouts), (0, 1));
}

#[test]
fn a_lost_retransmission_waits_for_the_timer_or_is_found_by_later_packets() {
    for detection in [LossDetection::MissingReports, LossDetection::PacketThreshold] {
        let mut config = config();
        config.congestion.initial_cwnd = InitialCwnd::Mtus(40);
        config.congestion.burst = BurstControl::Unlimited;
        config.recovery.loss_detection = detection;
        config.recovery.multiple_fast_retransmit = detection == LossDetection::PacketThreshold;
        let mut pair = Pair::connected(1, config);
        let mut target = None;
        let mut times = 0;
        pair.net.script(move |sight| {
            let Some(tsn) = tsns(sight.packet.bytes()).first().copied() else {
                return Verdict::Pass;
            };
            if *target.get_or_insert(tsn) == tsn && times < 2 {
                times += 1;
                return Verdict::Drop;
            }
            Verdict::Pass
        });
        assert!(pair.send(0, 0, numbered(200_000)));
        assert!(pair.run_until(LONG, |pair| pair.received_len(1) == 200_000));
        let timeouts = pair.statistics(0).counters.timeouts;
        assert_eq!(timeouts > 0, detection == LossDetection::MissingReports, "{detection:?}");
    }
}

#[test]
fn a_lost_retransmission_halves_the_window_again() {
    for (profile, halvings) in [(config(), 2), (AssociationConfig::rfc4960(), 1)] {
        let mut config = profile;
        config.timers.heartbeat_interval = None;
        config.mtu.discovery = false;
        config.congestion.initial_cwnd = InitialCwnd::Mtus(64);
        config.congestion.burst = BurstControl::Unlimited;
        config.congestion.idle_cwnd = IdleCwnd::Keep;
        config.recovery.multiple_fast_retransmit = true;
        let mut pair = Pair::connected(1, config);
        let initial = pair.statistics(0).paths[0].cwnd;
        // Two neighbours are lost, and so are their retransmissions: two events, not four.
        let mut first = None;
        let mut times = [0; 2];
        pair.net.script(move |sight| {
            let Some(tsn) = tsns(sight.packet.bytes()).first().copied() else {
                return Verdict::Pass;
            };
            let place = tsn.wrapping_sub(*first.get_or_insert(tsn)) as usize;
            match times.get_mut(place) {
                Some(count) if *count < 2 => {
                    *count += 1;
                    Verdict::Drop
                }
                _ => Verdict::Pass,
            }
        });
        assert!(pair.send(0, 0, numbered(200_000)));
        assert!(pair.run_until(LONG, |pair| pair.received_len(1) == 200_000));
        let now = pair.statistics(0);
        assert_eq!((now.counters.timeouts, now.counters.fast_recoveries), (0, halvings));
        assert_eq!(now.counters.fast_retransmitted_chunks, 4);
        // The first acknowledgements opened the window a little before.
        let (halved, ssthresh) = (initial >> halvings, now.paths[0].ssthresh);
        assert!((halved..halved * 11 / 10).contains(&ssthresh), "{halved} {ssthresh}");
    }
}

#[test]
// test: rfc9260 6.3.3 "SHOULD be marked for retransmission and"
fn a_timeout_sends_one_packet_first() {
    let mut pair = Pair::connected(1, config());
    let until = pair.net.now() + Duration::from_millis(500);
    pair.net.script(move |sight| match sight.now < until {
        true => Verdict::Drop,
        false => Verdict::Pass,
    });
    assert!(pair.send(0, 0, vec![1; 100_000]));
    pair.net.settle();
    let first = pair.sent(0).iter().flat_map(|(_, bytes)| tsns(bytes)).collect::<Vec<_>>();
    pair.forget();
    pair.run(Duration::from_millis(1005));
    let sent = pair.sent(0);
    assert_eq!(sent.len(), 1);
    assert_eq!(tsns(&sent[0].1)[0], first[0]);
    let path = &pair.statistics(0).paths[0];
    assert_eq!(path.cwnd, usize::from(path.mtu) - 28 - 12);
    assert_eq!(path.rto, Duration::from_secs(2), "backed off");
    assert!(pair.run_until(LONG, |pair| pair.received_len(1) == 100_000));
}

#[test]
// test: rfc9260 6.1 "SHOULD be used to limit the number of packets sent"
fn max_burst_limits_what_leaves_at_once() {
    for limit in [1, 4, 10] {
        let mut config = config();
        config.congestion.initial_cwnd = InitialCwnd::Mtus(100);
        config.congestion.idle_cwnd = IdleCwnd::Keep;
        config.congestion.burst = BurstControl::MaxBurst(limit);
        let mut pair = Pair::connected(1, config);
        pair.forget();
        assert!(pair.send(0, 0, vec![1; 100_000]));
        pair.net.settle();
        assert_eq!(pair.count(0, kind::DATA), limit as usize);
    }
}

#[test]
// test: rfc9260 6.1 "The breach of cwnd MUST constitute one packet only"
fn cwnd_is_exceeded_by_less_than_a_packet() {
    let mut config = config();
    config.congestion.burst = BurstControl::Unlimited;
    let mut pair = Pair::connected(1, config);
    let cwnd = pair.statistics(0).paths[0].cwnd;
    assert!(pair.send(0, 0, vec![1; 100_000]));
    pair.net.settle();
    let path = &pair.statistics(0).paths[0];
    assert!(path.flight >= cwnd && path.flight < cwnd + usize::from(path.mtu), "{path:?}");
}

#[test]
fn bulk_over_a_bottleneck_with_loss() {
    for profile in ["default", "rfc9260", "rfc4960", "rfc2960"] {
        let config = AssociationConfig::profile(profile).unwrap();
        let mut pair = Pair::connected(1, config);
        let link = LinkConfig::new()
            .delay(Duration::from_millis(20))
            .rate(20_000_000)
            .queue(QueueLimit::Packets(50))
            .loss(Loss::Uniform(Probability::per_million(2000)));
        pair.net.set_links(link);
        let total = 2_000_000;
        let mut sent = 0;
        let begun = pair.net.now();
        let done = pair.run_until(LONG, |pair| {
            while sent < total && pair.send(0, (sent / 10_000 % 7) as u16, vec![3; 10_000]) {
                sent += 10_000;
            }
            pair.received_len(1) == total
        });
        let took = pair.net.now().saturating_since(begun);
        assert!(done, "{profile}: {:?}", pair.statistics(0));
        // 0.8 s at full rate.
        assert!(took < Duration::from_secs(30), "{profile}: {took:?}");
        assert!(pair.statistics(0).counters.fast_recoveries > 0);
    }
}

#[test]
fn an_overshoot_of_slow_start_does_not_become_a_storm() {
    // Buffers far beyond rate times round-trip time: slow start ends where the queue is full.
    let mut config = AssociationConfig::default();
    config.receiving.receive_buffer = 8 << 20;
    config.sending.send_buffer = 8 << 20;
    config.sending.send_buffer_start = None;
    config.receiving.receive_buffer_start = None;
    config.congestion.idle_cwnd = IdleCwnd::Keep;
    let mut pair = Pair::connected(1, config);
    let link = LinkConfig::new()
        .rate(50_000_000)
        .delay(Duration::from_millis(50))
        .queue(QueueLimit::Packets(416));
    pair.net.set_links(link);
    const MESSAGE: usize = 100_000;
    const MESSAGES: usize = 120;
    let data = Bytes::from(numbered(MESSAGE));
    let mut sent = 0;
    while sent < MESSAGES && pair.send(0, 0, data.clone()) {
        sent += 1;
    }
    let arrived = pair.run_until(LONG, |pair| {
        while sent < MESSAGES && pair.send(0, 0, data.clone()) {
            sent += 1;
        }
        pair.received_len(1) == MESSAGES * MESSAGE
    });
    assert!(arrived);
    // Chunks dropped by the full queue are retransmitted, but not for each acknowledgement.
    let path = pair.statistics(0).paths[0];
    let needed = (MESSAGES * MESSAGE) as u64;
    assert!(path.retransmitted_chunks > 0, "there was no overshoot");
    assert!(path.data_bytes_sent < 2 * needed, "{path:?}");
}
