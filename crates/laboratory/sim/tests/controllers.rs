//! The controllers on long and lossy paths: what each is for, and what the others cannot do there.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::time::Duration;

use anabranch_proto::{AssociationConfig, MtuConfig};
use anabranch_sim::{
    Direction, Instant, LinkConfig, LinkId, Loss, Network, Probability, QueueLimit, Transfer,
    TransferId,
};

#[derive(Clone, Copy, Debug)]
struct Path {
    /// Mb/s.
    rate: u64,
    /// Round-trip time in milliseconds.
    rtt: u64,
    /// Losses in 1,000 packets in each direction.
    loss: u32,
    /// Length of the queue in products of rate and round-trip time.
    queue: u64,
}

impl Path {
    /// The packets that the queue has room for.
    fn queue_limit(self) -> usize {
        (self.queue * self.rate * 1_000_000 * self.rtt / 1000 / 8 / 1500) as usize
    }
}

struct Run {
    network: Network,
    transfer: TransferId,
    link: LinkId,
}

/// An endless transfer over one path, with this congestion control and way to end slow start.
fn run(path: Path, control: &str, slow_start: &str, seed: u64) -> Run {
    let mut network = Network::new(seed);
    let (a, b) = (network.add_host("A"), network.add_host("B"));
    let link = LinkConfig::new()
        .rate(path.rate * 1_000_000)
        .delay(Duration::from_micros(path.rtt * 500))
        .queue(QueueLimit::Packets(path.queue_limit()))
        .loss(Loss::Uniform(Probability::per_billion(path.loss * 1_000_000)));
    let link = network.connect_both(a, b, link).unwrap();
    network.routes_by_hops();
    let (from, to) = (network.add_endpoint(a).unwrap(), network.add_endpoint(b).unwrap());
    let mut config = AssociationConfig::default();
    config.mtu = MtuConfig::fixed(1500);
    // Buffers must not be the limit.
    config.sending.send_buffer = 32 << 20;
    config.receiving.receive_buffer = 32 << 20;
    config.sending.send_buffer_start = None;
    config.receiving.receive_buffer_start = None;
    config.set("congestion", control).unwrap();
    config.set("slow_start", slow_start).unwrap();
    let mut transfer = Transfer::bulk(from, to, 1 << 33).config(config);
    transfer.message_size = 1400;
    let transfer = network.add_transfer(transfer).unwrap();
    Run { network, transfer, link }
}

/// Goodput in kb/s between two times in seconds.
fn goodput(path: Path, control: &str, slow_start: &str, seed: u64, from: u64, to: u64) -> u64 {
    let mut run = run(path, control, slow_start, seed);
    run.network.run_until(Instant::from_secs(from));
    let before = run.network.transfer(run.transfer).bytes;
    run.network.run_until(Instant::from_secs(to));
    let rate = (run.network.transfer(run.transfer).bytes - before) * 8 / (to - from) / 1000;
    println!("{path:?}, {control}, slow start {slow_start}, seed {seed}: {rate} kb/s");
    rate
}

/// 20 Mb/s, 100 ms.
const SATELLITE: Path = Path { rate: 20, rtt: 100, loss: 0, queue: 1 };

#[test]
fn random_losses_halve_the_others_and_not_bbr() {
    let lossy = Path { loss: 10, ..SATELLITE };
    for seed in 1..=2 {
        let [rfc9260, cubic, bbr] = ["rfc9260", "cubic", "bbr"]
            .map(|control| goodput(lossy, control, "usual", seed, 0, 20));
        assert!(bbr > 14_000, "seed {seed}: {bbr}");
        let three = Path { loss: 30, ..SATELLITE };
        let lossy = goodput(three, "bbr-lossy", "usual", seed, 0, 20);
        assert!(lossy > 16_000, "seed {seed}, 3 % of losses: {lossy}");
        assert!(rfc9260 < 5_000 && cubic < 5_000, "seed {seed}: {rfc9260} and {cubic}");
    }
}

#[test]
fn without_losses_all_of_them_fill_the_path() {
    for control in ["rfc9260", "cubic", "bbr"] {
        let rate = goodput(SATELLITE, control, "usual", 1, 0, 20);
        assert!(rate > 17_000, "{control}: {rate}");
    }
}

/// 100 Mb/s, 300 ms.
const LONG: Path = Path { rate: 100, rtt: 300, loss: 0, queue: 1 };

/// Each round trip the window doubles from ten packets to 2,500, although packets leave one by one.
#[test]
fn pacing_does_not_slow_down_slow_start() {
    for control in ["rfc9260", "cubic"] {
        // The transfer begins after a second, and the handshake takes another 0.6 s.
        let mut run = run(LONG, control, "usual", 1);
        run.network.run_until(Instant::from_millis(3600));
        let bytes = run.network.transfer(run.transfer).bytes;
        println!("{control}: {bytes} bytes");
        assert!(bytes > 7_000_000, "{control}: {bytes}");
    }
}

/// Slow start doubles the window until the queue overflows; on a long path that loses thousands of packets at once.
/// Then CUBIC knows what the path carries, and does not lose as many a second time.
#[test]
fn a_long_path_is_full_after_one_repair() {
    let rate = goodput(LONG, "cubic", "usual", 1, 6, 12);
    assert!(rate > 93_500, "{rate}");
}

/// It grows by a quarter per round trip from when the queue fills, and not by the whole window.
#[test]
fn hystart_loses_less_where_the_queue_ends() {
    for queue in [1, 2, 4] {
        let deep = Path { queue, ..SATELLITE };
        let lost = |slow_start: &str| {
            let mut run = run(deep, "cubic", slow_start, 1);
            run.network.run_until(Instant::from_secs(4));
            let lost = run.network.link_stats(run.link, Direction::Forward).queue_drops;
            println!("queue of {} packets, {slow_start}: {lost} lost", deep.queue_limit());
            lost
        };
        let (standard, hystart) = (lost("standard"), lost("usual"));
        assert!(hystart * 2 < standard, "queue of {queue}: {hystart} and {standard}");
    }
}

#[test]
fn bbr_keeps_the_queue_short() {
    let queue = |control: &str| {
        let mut run = run(SATELLITE, control, "usual", 1);
        run.network.run_until(Instant::from_secs(5));
        let mut sum = 0;
        for tenth in 50..200 {
            run.network.run_until(Instant::from_millis(tenth * 100));
            sum += run.network.queue_len(run.link, Direction::Forward);
        }
        let mean = sum / 150;
        println!("{control}: {mean} packets of 166 wait in the queue");
        mean
    };
    let (bbr, cubic) = (queue("bbr"), queue("cubic"));
    assert!(bbr < 60, "{bbr}");
    assert!(cubic > bbr, "{cubic} and {bbr}");
}
