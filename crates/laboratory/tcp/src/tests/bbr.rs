//! BBR beside the other kinds of congestion control.

use super::*;
use crate::Congestion;

/// 20 Mb/s with a round-trip time of 100 ms, and a queue of one product of both, in bytes.
const PRODUCT: usize = 250_000;

fn line() -> LinkConfig {
    LinkConfig::new()
        .overhead(20)
        .rate(20_000_000)
        .delay(Duration::from_millis(50))
        .queue(QueueLimit::Bytes(PRODUCT))
}

/// The line with random losses, in percent.
fn lossy_by_percent(percent: u32) -> LinkConfig {
    line().loss(Loss::Uniform(Probability::per_billion(percent * 10_000_000)))
}

/// A transfer of a current kernel that is still going on when the tests end; the receiver's window is never the limit.
/// `seed` says what is lost.
fn long(congestion: Congestion, forward: LinkConfig, seed: u64) -> Pair {
    let buffers = 8 << 20;
    let config = Config {
        congestion,
        receive_buffer: buffers,
        send_buffer: buffers,
        window_start: 0,
        ..Config::linux()
    };
    let mut pair = Pair::new(&config, 60_000_000, forward.clone(), line());
    pair.links[0] = Link::new(forward, seed).unwrap();
    pair
}

fn run_until(pair: &mut Pair, millis: u64) {
    while pair.now < Instant::from_millis(millis) {
        assert!(pair.step());
    }
}

/// Mb/s of data that arrives between two times in seconds.
fn rate(pair: &mut Pair, from: u64, to: u64) -> f64 {
    run_until(pair, from * 1000);
    let before = pair.read.len();
    run_until(pair, to * 1000);
    (pair.read.len() - before) as f64 * 8e-6 / (to - from) as f64
}

/// The mean of the queue between 3 and 20 s, as a part of its limit, and the rate in that time.
fn queue_and_rate(congestion: Congestion) -> (f64, f64) {
    let mut pair = long(congestion, line(), 1);
    let lengths: Vec<f64> = (300..2000)
        .map(|hundredth| {
            run_until(&mut pair, hundredth * 10);
            (pair.links[0].queue_len() * 1500) as f64 / PRODUCT as f64
        })
        .collect();
    let rate = rate(&mut long(congestion, line(), 1), 3, 20);
    (lengths.iter().sum::<f64>() / lengths.len() as f64, rate)
}

#[test]
fn the_line_is_full_and_the_queue_is_not() {
    let [bbr, cubic] = [Congestion::Bbr, Congestion::Cubic].map(queue_and_rate);
    assert!(bbr.1 > 18.0 && cubic.1 > 18.0, "{bbr:?} and {cubic:?}");
    assert!(bbr.0 < 0.25 && cubic.0 > 0.75, "{bbr:?} and {cubic:?}");
}

#[test]
fn random_losses_leave_most_of_the_rate() {
    for seed in 1..=3 {
        let kinds = [Congestion::Bbr, Congestion::Cubic, Congestion::LinuxReno, Congestion::Reno];
        let [bbr, others @ ..] =
            kinds.map(|kind| rate(&mut long(kind, lossy_by_percent(1), seed), 0, 20));
        assert!(bbr > 14.0, "seed {seed}: {bbr}");
        assert!(others.iter().all(|rate| *rate < 2.5), "seed {seed}: {others:?}");
    }
}

/// The queue has room for a tenth of the product. Losses tell BBR how much may be in flight: without the samples of lost
/// segments it loses three times as many.
#[test]
fn losses_of_a_short_queue_bound_the_flight() {
    let mut pair = long(Congestion::Bbr, line().queue(QueueLimit::Bytes(PRODUCT / 10)), 1);
    let rate = rate(&mut pair, 0, 20);
    let stats = pair.ends[0].stats();
    assert!(rate > 16.0, "{rate}");
    assert!(stats.retransmissions < 600, "{stats:?}");
}

/// How long the initial window of ten segments takes to leave, in milliseconds, and the most segments with data that
/// leave at the same time in the first two seconds.
fn spread(congestion: Congestion) -> (u64, usize) {
    let mut pair = long(congestion, line(), 1);
    let mut departures: Vec<Instant> = Vec::new();
    while pair.now < Instant::from_secs(2) {
        let now = pair.now;
        assert!(pair.step());
        departures.resize(pair.sent.len(), now);
    }
    let runs = departures.chunk_by(|a, b| a == b).map(<[Instant]>::len);
    let window = departures[9].saturating_since(departures[0]);
    (window.as_millis() as u64, runs.max().unwrap_or(0))
}

#[test]
fn segments_are_spread_over_time() {
    let (window, burst) = spread(Congestion::Bbr);
    // 2.77 windows in a round trip of 100 ms (BBR draft, section 5.6.2), the first two segments at once.
    assert!((25..36).contains(&window), "{window} ms");
    // A millisecond at 2.77 times 20 Mb/s.
    assert!(burst <= 5, "{burst}");
    assert_eq!(spread(Congestion::Cubic), (0, 10));
}

/// A user with little to send does not make the path look slow: BBR goes on searching when there is more.
#[test]
fn a_slow_user_says_nothing_about_the_path() {
    let mut pair = long(Congestion::Bbr, line(), 1);
    // 0.8 Mb/s for five seconds, then all at once.
    for tenth in 0..50 {
        pair.writes_up_to = tenth * 10_000;
        run_until(&mut pair, tenth as u64 * 100);
    }
    pair.writes_up_to = usize::MAX;
    let rate = rate(&mut pair, 5, 8);
    assert!(rate > 14.0, "{rate}");
}

/// An end that waits for nothing has no deadline: pacing sets no timer for what need not be sent any more.
#[test]
fn pacing_ends_with_the_data() {
    for len in [0, 1, 1448, 300_000] {
        let config = Config { congestion: Congestion::Bbr, ..Config::linux() };
        let mut pair = Pair::new(&config, len, line(), line());
        pair.run();
        assert!(pair.ends.iter().all(|end| end.next_deadline().is_none()), "{len} bytes");
    }
}

/// After a timeout the model is still known.
#[test]
fn an_outage_is_survived() {
    let mut pair = long(Congestion::Bbr, line(), 1);
    run_until(&mut pair, 5000);
    let cut = line().loss(Loss::Uniform(Probability::per_billion(1_000_000_000)));
    pair.links[0] = Link::new(cut, 1).unwrap();
    run_until(&mut pair, 6000);
    pair.links[0] = Link::new(line(), 1).unwrap();
    let rate = rate(&mut pair, 8, 11);
    let stats = pair.ends[0].stats();
    assert!(stats.timeouts >= 1, "{stats:?}");
    assert!(rate > 16.0, "{rate}: {stats:?}");
}
