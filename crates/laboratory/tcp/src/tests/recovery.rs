//! The options for thin flows and for networks that reorder.

use anabranch_impair::{Loss, Probability, QueueLimit};
use proptest::prelude::*;

use super::*;
use crate::{
    Congestion, ForwardRto, LossDetection, Metrics, Reordering, SlowStartLimit, Stats, Undo,
};

/// Arbitrary options.
pub(super) fn any_config() -> impl Strategy<Value = Config> {
    fn word<T: Copy + std::fmt::Debug>(
        names: &'static [(&'static str, T)],
    ) -> impl Strategy<Value = T> {
        (0..names.len()).prop_map(move |at| names[at].1)
    }
    let words = (
        word(LossDetection::NAMES),
        word(Reordering::NAMES),
        word(Undo::NAMES),
        word(ForwardRto::NAMES),
        word(SlowStartLimit::NAMES),
        word(Congestion::NAMES),
    );
    (words, any::<[bool; 6]>(), 0_u32..20, 0_u32..100_000).prop_map(
        |(words, flags, quick_acks, start)| {
            let (loss_detection, reordering, undo, f_rto, slow_start_limit, congestion) = words;
            let [early_retransmit, rto_restart, tail_probe, dsack, timestamps, keep_back_off] =
                flags;
            Config {
                loss_detection,
                reordering,
                undo,
                f_rto,
                slow_start_limit,
                congestion,
                quick_acks,
                window_start: start,
                early_retransmit,
                rto_restart,
                tail_probe,
                dsack,
                timestamps,
                keep_back_off,
                ..Config::default()
            }
        },
    )
}

/// The sender's counters and the duration when the packets with these numbers are lost.
fn run_with(config: &Config, len: usize, lost: &[u64]) -> (Stats, f64) {
    let mut pair = Pair::new(config, len, lose(lost), path());
    let seconds = pair.run();
    (pair.ends[0].stats(), seconds)
}

pub(super) fn rack() -> Config {
    Config {
        loss_detection: LossDetection::TimeThreshold,
        tail_probe: true,
        undo: Undo::Duplicates,
        dsack: true,
        ..Config::default()
    }
}

// test: rfc5827 3.2 "Early Retransmit MUST use the following two conditions"
#[test]
fn three_segments_need_no_timeout_to_repair_the_first() {
    // The SYN is packet 1; the initial window is three segments, which is all data.
    for sack in [true, false] {
        let standard = Config { sack, ..Config::default() };
        let early = Config { early_retransmit: true, ..standard.clone() };
        // Without blocks, the first answer to data has the FIN and is not a duplicate.
        let lost = if sack { 2 } else { 3 };
        let (stats, _) = run_with(&standard, 3 * 1460, &[lost]);
        assert_eq!((stats.timeouts, stats.early_retransmits), (1, 0), "sack: {sack}");
        let (stats, seconds) = run_with(&early, 3 * 1460, &[lost]);
        assert_eq!((stats.timeouts, stats.early_retransmits), (0, 1), "sack: {sack}");
        assert!(seconds < 0.3, "{seconds}");
        // With more data to come, fast retransmit works as usual, or with limited transmit.
        let (stats, _) = run_with(&early, 20 * 1460, &[2]);
        assert_eq!((stats.early_retransmits, stats.recoveries), (0, 1), "sack: {sack}");
    }
}

#[test]
fn the_timer_counts_from_the_lost_segment() {
    // The last of four segments is lost; the acknowledgement of the earlier ones restarts the timer.
    let standard = Config::default();
    let (stats, slow) = run_with(&standard, 4 * 1460, &[5]);
    assert_eq!(stats.timeouts, 1);
    let (stats, fast) = run_with(&Config { rto_restart: true, ..standard }, 4 * 1460, &[5]);
    assert_eq!(stats.timeouts, 1);
    let saved = slow - fast;
    assert!((0.0005..0.2).contains(&saved), "{slow} and {fast}");
}

// test: rfc8985 7.3 "If both conditions are met, then the sender SHOULD transmit"
// test: rfc8985 7.3 "the sender MUST re-arm the RTO timer, not the PTO"
#[test]
fn a_lost_tail_is_probed_for() {
    for lost in [vec![11], vec![10, 11], vec![9, 10, 11]] {
        let (stats, slow) = run_with(&Config::default(), 10 * 1460, &lost);
        assert_eq!((stats.timeouts, stats.tail_probes), (1, 0), "{lost:?}");
        let (stats, fast) = run_with(&rack(), 10 * 1460, &lost);
        assert_eq!((stats.timeouts, stats.tail_probes), (0, 1), "{lost:?}");
        assert!(fast < slow - 0.5, "{slow} and {fast}");
    }
    // If the probe is lost too, only the timer remains.
    let (stats, _) = run_with(&rack(), 10 * 1460, &[11, 12]);
    assert_eq!((stats.timeouts, stats.tail_probes), (1, 1));
}

#[test]
fn time_repairs_lost_retransmissions() {
    let (stats, _) = run_with(&rack(), 200_000, &[20]);
    assert_eq!((stats.retransmissions, stats.recoveries, stats.timeouts), (1, 1, 0));
    let mut probe = Pair::new(&rack(), 200_000, lose(&[20]), path());
    probe.run();
    let again = probe.sent.iter().rposition(|sent| *sent == probe.sent[18]).unwrap() as u64 + 2;
    let (stats, _) = run_with(&rack(), 200_000, &[20, again]);
    assert_eq!((stats.retransmissions, stats.timeouts), (2, 0));
    let (stats, _) = run_with(&Config::default(), 200_000, &[20, again]);
    assert_eq!(stats.timeouts, 1, "otherwise the timer does");
}

/// 400 packets; every 50th, from the 60th on, arrives after the next 12 packets.
fn reordered(config: &Config) -> (Stats, f64) {
    let text = "anabranch pattern 1\npattern displace per packet\nvalues\n\
                59*. 12 49*. 12 49*. 12 49*. 12 49*. 12\n";
    let patterns = anabranch_impair::pattern::Patterns::read(text.as_bytes()).unwrap();
    let link = path().queue(QueueLimit::Packets(1000)).patterns(patterns);
    let mut pair = Pair::new(config, 400 * 1460, link, path());
    let seconds = pair.run();
    (pair.ends[0].stats(), seconds)
}

#[test]
fn what_is_only_late_is_told_from_loss() {
    let (standard, slow) = reordered(&Config::default());
    assert!(standard.recoveries >= 4 && standard.recoveries_undone == 0, "{standard:?}");

    let dsack = Config { dsack: true, undo: Undo::Duplicates, ..Config::default() };
    let (stats, seconds) = reordered(&dsack);
    assert!(stats.recoveries >= 3 && stats.recoveries_undone == stats.recoveries, "{stats:?}");
    assert_eq!(stats.needless_retransmissions, stats.retransmissions);
    assert!(seconds < slow, "{seconds} and {slow}");

    let eifel = Config { timestamps: true, undo: Undo::Timestamps, ..Config::default() };
    let (stats, seconds) = reordered(&eifel);
    assert!(stats.recoveries >= 3 && stats.recoveries_undone == stats.recoveries, "{stats:?}");
    assert!(seconds < slow, "{seconds} and {slow}");

    // Once the sender knows that twelve may overtake, it waits for them.
    let linux = Config { reordering: Reordering::Adaptive, ..dsack.clone() };
    let (stats, _) = reordered(&linux);
    assert_eq!((stats.recoveries, stats.recoveries_undone), (1, 1), "{stats:?}");
}

// test: rfc4653 3.1 "TCP MUST enter Extended Limited Transmit upon receiving the first"
// test: rfc4653 3.2 "the receipt of an ACK that extends the cumulative ACK point MUST terminate"
#[test]
fn ncr_waits_for_nearly_a_window_and_no_longer() {
    for how in [Reordering::NcrCareful, Reordering::NcrAggressive] {
        let ncr = Config { reordering: how, ..Config::default() };
        let (stats, _) = reordered(&ncr);
        assert_eq!((stats.recoveries, stats.retransmissions), (0, 0), "{how:?} {stats:?}");
        // Detecting a loss takes another round trip, but no timeout.
        let (standard, fast) = run_with(&Config::default(), 400_000, &[60]);
        let (stats, slow) = run_with(&ncr, 400_000, &[60]);
        let counts = |stats: &Stats| (stats.recoveries, stats.retransmissions, stats.timeouts);
        assert_eq!(counts(&stats), counts(&standard), "{how:?}");
        assert_eq!(counts(&stats), (1, 1, 0), "{how:?}");
        assert!(slow < fast + 0.2, "{how:?}: {slow} and {fast}");
    }
}

/// The path stalls for three seconds in the middle of a transfer.
fn stopped(config: &Config) -> Stats {
    let config = Config { rto_min: Duration::from_millis(200), ..config.clone() };
    let wide = || path().queue(QueueLimit::Packets(1000));
    let mut pair = Pair::new(&config, 800_000, wide(), path());
    while pair.read.len() < 200_000 {
        assert!(pair.step());
    }
    // Packets sent from now on, and acknowledgements, are delayed by three seconds.
    let (mut held, until) = (Vec::new(), pair.now + Duration::from_secs(3));
    while pair.now < until {
        pair.work();
        let deadlines = pair.ends.iter().filter_map(Connection::next_deadline);
        let arrivals = pair.links.iter().filter_map(|link| link.next_deadline());
        let next = deadlines.map(Instant::as_nanos).chain(arrivals).min().unwrap();
        pair.now = pair.now.max(Instant::from_nanos(next)).min(until);
        while let Some(bytes) = pair.links[0].poll(pair.now.as_nanos()) {
            held.push(bytes);
        }
        while let Some(bytes) = pair.links[1].poll(pair.now.as_nanos()) {
            pair.ends[0].handle(pair.now, bytes);
        }
        for end in &mut pair.ends {
            end.handle_timeout(pair.now);
        }
    }
    for bytes in held {
        pair.now += Duration::from_millis(1);
        pair.ends[1].handle(pair.now, bytes);
        pair.work();
    }
    pair.run();
    pair.ends[0].stats()
}

// test: rfc5682 2.1 "MUST take the following steps after the retransmission timer expires"
// test: rfc4015 3.1 "If the Eifel response algorithm is used, the following steps MUST be"
#[test]
fn a_timeout_for_nothing_is_taken_back() {
    let standard = stopped(&Config::default());
    assert!(standard.timeouts >= 3 && standard.retransmissions > 20, "{standard:?}");
    let few = standard.timeouts + 1;
    for f_rto in [ForwardRto::Basic, ForwardRto::Sack] {
        let stats = stopped(&Config { f_rto, ..Config::default() });
        assert!(stats.recoveries_undone >= 1, "{f_rto:?} {stats:?}");
        // Each timeout retransmits the first segment, and nothing else is retransmitted.
        assert!(stats.retransmissions <= few, "{f_rto:?} {stats:?}");
        assert!(stats.ssthresh > standard.ssthresh, "{stats:?} {standard:?}");
    }
    let eifel = Config { timestamps: true, undo: Undo::Timestamps, ..Config::default() };
    let stats = stopped(&eifel);
    assert!(stats.recoveries_undone >= 1 && stats.retransmissions <= few, "{stats:?}");
}

/// F-RTO does not slow down the recovery from a real timeout.
#[test]
fn a_timeout_that_was_right_stays() {
    for f_rto in [ForwardRto::Basic, ForwardRto::Sack] {
        let all: Vec<u64> = (8..30).collect();
        let (standard, slow) = run_with(&Config::default(), 100_000, &all);
        let (stats, seconds) = run_with(&Config { f_rto, ..Config::default() }, 100_000, &all);
        assert!(standard.timeouts >= 1 && stats.recoveries_undone == 0, "{stats:?}");
        assert!(seconds < slow + 0.5, "{f_rto:?}: {seconds} and {slow}");
    }
}

/// Packets wait in a queue for longer than the timer runs: every packet is retransmitted, no packet measures a
/// round-trip time, and so the timer never adapts.
#[test]
fn a_back_off_that_lasts_ends_needless_timeouts() {
    let slow = || {
        let link = LinkConfig::new().overhead(20).rate(56_000);
        link.delay(Duration::from_millis(540)).queue(QueueLimit::Packets(50))
    };
    let run = |keep_back_off| {
        let rto_initial = Duration::from_secs(3);
        let config = Config { keep_back_off, rto_initial, ..Config::default() };
        let mut pair = Pair::new(&config, 120_000, slow(), slow());
        // Earlier, while the line was idle, the round-trip time was little more than that of the path.
        let rtt = Some((Duration::from_millis(1100), Duration::from_millis(20)));
        pair.ends[0].start_with(&Metrics { rtt, ..Metrics::default() });
        let seconds = pair.run();
        (pair.ends[0].stats(), seconds)
    };
    let (ended, forgets) = run(false);
    let (kept, remembers) = run(true);
    assert!(2 * kept.timeouts < ended.timeouts, "{kept:?} {ended:?}");
    assert!(2 * kept.retransmissions < ended.retransmissions, "{kept:?} {ended:?}");
    assert!(remembers < forgets, "{remembers} {forgets}");
}

/// Behaviour of Linux that no RFC requires, with these packets lost at 5 Mb/s.
fn as_linux(delay: u64, lost: impl Iterator<Item = u64>, change: impl Fn(&mut Config)) -> Stats {
    let link = || {
        let link = LinkConfig::new().overhead(20).rate(5_000_000);
        link.delay(Duration::from_millis(delay)).queue(QueueLimit::Packets(300))
    };
    let mut config = Config {
        mss: 1448,
        initial_window: 10,
        rto_min: Duration::from_millis(200),
        rto_granularity: Duration::from_millis(200),
        timestamps: true,
        ..Config::default()
    };
    change(&mut config);
    let mut pair = Pair::new(&config, 300_000, link().loss(Loss::positions(lost)), link());
    pair.run();
    pair.ends[0].stats()
}

/// A timer that runs from the last acknowledgement of new data expires before the answer to the retransmission arrives
/// (RFC 6675 section 6).
#[test]
fn a_timer_that_starts_anew_with_a_retransmission_waits_for_its_answer() {
    for (rearm_in_recovery, timeouts) in [(false, true), (true, false)] {
        let lost = (1..=11).map(|n| n * 20 + 2);
        let stats = as_linux(175, lost, |config| config.rearm_in_recovery = rearm_in_recovery);
        assert_eq!(stats.timeouts > 0, timeouts, "{stats:?}");
    }
}

/// The last segment is short, so its probe is answered sooner than anything before it except the SYN. The round-trip
/// time of the handshake shows that the answer belongs to the probe and not to the earlier transmission (RFC 8985
/// section 6.2).
#[test]
fn the_handshake_tells_the_least_round_trip_time() {
    for (handshake_rtt, timeouts) in [(false, 1), (true, 0)] {
        let stats = as_linux(50, [207, 208, 209].into_iter(), |config| {
            (config.loss_detection, config.tail_probe) = (LossDetection::TimeThreshold, true);
            config.handshake_rtt = handshake_rtt;
        });
        assert_eq!((stats.tail_probes, stats.timeouts), (1, timeouts), "{stats:?}");
    }
}

#[test]
fn what_was_learnt_is_begun_with() {
    let mut pair = Pair::new(&Config::default(), 20_000, lose(&[5]), path());
    pair.run();
    let learnt = pair.ends[0].metrics();
    assert!(learnt.ssthresh.is_some() && learnt.rtt.is_some() && !learnt.settled, "{learnt:?}");
    let with = |metrics| {
        let mut pair = Pair::new(&Config::default(), 100_000, path(), path());
        pair.ends[0].start_with(&metrics);
        pair.run()
    };
    let nothing = with(crate::Metrics::default());
    assert!(with(learnt) > nothing + 0.1, "the threshold slows it down");
    let selected = crate::Metrics { ssthresh: None, ..learnt };
    assert!((with(selected) - nothing).abs() < 0.05);
}

#[test]
fn timestamps_take_their_room_and_are_agreed_on() {
    let config = Config { timestamps: true, ..Config::default() };
    let mut pair = Pair::new(&config, 100_000, path(), path());
    pair.run();
    assert!(pair.sent.iter().all(|(_, len)| *len <= 1460));
    assert_eq!(pair.sent[0].1, 1460, "the segment is data");
    // If one end does not offer timestamps, they are not used.
    let mut pair = Pair::new(&config, 100_000, path(), path());
    pair.ends[1] = Connection::accept(Config::default(), 80, 9);
    pair.ends[1].finish();
    pair.run();
}

/// With all options off nothing is gathered, and nothing else is sent.
#[test]
fn a_standard_sender_has_none_of_it() {
    assert!(!Config::default().gathers());
    let jitter = || path().reorder(Probability::percent(5), Duration::from_millis(30));
    let mut pair = Pair::new(&Config::default(), 300_000, jitter(), jitter());
    pair.run();
    let stats = pair.ends[0].stats();
    let more = [
        stats.early_retransmits,
        stats.tail_probes,
        stats.needless_retransmissions,
        stats.recoveries_undone,
    ];
    assert_eq!(more, [0; 4]);
}
