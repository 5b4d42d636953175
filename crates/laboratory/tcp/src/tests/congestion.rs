//! What the window does with each kind of congestion control.

use anabranch_impair::LinkConfig;

use super::recovery::rack;
use super::*;
use crate::Congestion;

/// The kinds, in the order of the results below.
const KINDS: [Congestion; 3] = [Congestion::Reno, Congestion::LinuxReno, Congestion::Cubic];

/// 200 Mb/s and a round trip of 100 ms, without a limit of the queue.
fn wide() -> LinkConfig {
    LinkConfig::new().rate(200_000_000).delay(Duration::from_millis(50))
}

fn config(congestion: Congestion) -> Config {
    let slow_start_limit = SlowStartLimit::Unlimited;
    let buffers = 8 << 20;
    Config { congestion, slow_start_limit, receive_buffer: buffers, send_buffer: buffers, ..rack() }
}

/// Runs each kind over the path, which loses the packets with these numbers; returns seconds and counters.
fn runs(len: usize, lost: &[u64]) -> [(f64, Stats); 3] {
    KINDS.map(|kind| {
        let forward = wide().loss(Loss::positions(lost.iter().copied()));
        let mut pair = Pair::new(&config(kind), len, forward, wide());
        (pair.run(), pair.ends[0].stats())
    })
}

#[test]
fn a_loss_leaves_a_half_or_seven_tenths() {
    // 3 + 6 + 12 + 24 segments, then a loss in a window of some 48.
    let after = runs(400_000, &[60]).map(|(_, stats)| stats);
    for stats in after {
        assert_eq!((stats.recoveries, stats.retransmissions, stats.timeouts), (1, 1, 0));
    }
    let [reno, linux, cubic] = after.map(|stats| stats.ssthresh as f64);
    assert!((0.9..1.1).contains(&(reno / linux)), "{reno} and {linux}");
    assert_eq!(linux as u64 % 1460, 0, "{linux}");
    assert!((1.2..1.6).contains(&(cubic / reno)), "{cubic} and {reno}");
}

#[test]
fn cubic_finds_its_window_again_within_seconds() {
    let [reno, linux, cubic] = runs(20_000_000, &[1500]).map(|(seconds, _)| seconds);
    assert!(cubic < 0.9 * reno && cubic < 0.9 * linux, "{cubic}, {reno} and {linux}");
}

/// RFC 8985 section 9.3 takes the loss of a retransmission for another congestion, Linux does not.
#[test]
fn a_lost_retransmission_halves_renos_window_again() {
    let mut probe = Pair::new(&config(Congestion::LinuxReno), 400_000, wide(), wide());
    probe.links[0] = Link::new(wide().loss(Loss::positions([60])), 1).unwrap();
    probe.run();
    let again = probe.sent.iter().rposition(|sent| *sent == probe.sent[58]).unwrap() as u64 + 2;
    let [reno, linux, cubic] = runs(400_000, &[60, again]).map(|(_, stats)| stats);
    assert_eq!([reno.timeouts, linux.timeouts, cubic.timeouts], [0; 3]);
    assert!(reno.ssthresh < linux.ssthresh * 6 / 10, "{} {}", reno.ssthresh, linux.ssthresh);
    assert!(cubic.ssthresh > linux.ssthresh);
}

/// What a recovery sends may be lost, too. Linux lowers the window for it, once the recovery is over.
#[test]
fn what_is_lost_after_a_recovery_began_begins_another_one() {
    let mut probe = Pair::new(&config(Congestion::LinuxReno), 400_000, wide(), wide());
    probe.links[0] = Link::new(wide().loss(Loss::positions([60])), 1).unwrap();
    probe.run();
    let again = probe.sent.iter().rposition(|sent| *sent == probe.sent[58]).unwrap() as u64 + 2;
    let [_, linux, _] = runs(400_000, &[60, again + 3]).map(|(_, stats)| stats);
    assert_eq!((linux.recoveries, linux.retransmissions), (2, 2));
}

/// Windows that a reader or a sender leaves unused do not grow, and an idle connection begins again.
#[test]
fn cubic_grows_only_what_is_used() {
    let mut narrow = config(Congestion::Cubic);
    narrow.receive_buffer = 30_000;
    let mut pair = Pair::new(&narrow, 2_000_000, wide(), wide());
    pair.run();
    assert!(pair.ends[0].stats().cwnd < 80_000, "{:?}", pair.ends[0].stats());
}
