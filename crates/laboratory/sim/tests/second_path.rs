//! A second path never makes a transfer slower than the best path alone (RFC 6356 section 2, goal 1).
#![expect(clippy::unwrap_used, reason = "tests")]

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use anabranch_proto::{AssociationConfig, MtuConfig, MultipathMode, SlowPaths};
use anabranch_sim::{
    Action, Direction, Instant, LinkConfig, LinkId, Network, Outcome, Point, QueueLimit, Sight,
    Transfer,
};

/// A path: rate in kb/s, one-way delay in ms, and queue in packets.
#[derive(Clone, Copy, Debug)]
struct Path(u64, u64, usize);

/// 40 Mb/s, 10 ms, a queue of 100 packets.
const FAST: Path = Path(40_000, 10, 100);

/// Bytes of a transfer.
const BYTES: u64 = 40_000_000;

/// A change of a path's rate: time in ms, path, new rate in kb/s.
type Change = (u64, usize, u64);

/// Goodput in kb/s.
fn goodput(paths: &[Path], config: &AssociationConfig, changes: &[Change]) -> u64 {
    goodput_of(BYTES, paths, config, changes)
}

/// Goodput in kb/s of a transfer of `bytes`.
fn goodput_of(bytes: u64, paths: &[Path], config: &AssociationConfig, changes: &[Change]) -> u64 {
    let mut network = Network::new(1);
    let (a, b) = (network.add_host("A"), network.add_host("B"));
    let mut links: Vec<LinkId> = Vec::new();
    for Path(rate, delay, queue) in paths {
        let link = LinkConfig::new()
            .rate(rate * 1000)
            .delay(Duration::from_millis(*delay))
            .queue(QueueLimit::Packets(*queue));
        links.push(network.connect_both(a, b, link).unwrap());
    }
    network.routes_by_hops();
    let (from, to) = (network.add_endpoint(a).unwrap(), network.add_endpoint(b).unwrap());
    let mut config = config.clone();
    config.mtu = MtuConfig::fixed(1500);
    let mut transfer = Transfer::bulk(from, to, bytes).config(config);
    transfer.message_size = 1400;
    let transfer = network.add_transfer(transfer).unwrap();
    for (at, path, rate) in changes {
        for direction in [Direction::Forward, Direction::Backward] {
            let rate = Some(rate * 1000);
            let action = Action::SetRate { link: links[*path], direction, rate };
            network.schedule(Instant::ZERO + Duration::from_millis(*at), action).unwrap();
        }
    }
    network.run(Instant::from_secs(2000));
    let result = network.transfer(transfer);
    let time = result.transfer_time().filter(|_| result.outcome == Outcome::Complete);
    time.map_or(0, |time| bytes * 8 / time.as_millis() as u64)
}

fn profile(name: &str, multipath: MultipathMode) -> AssociationConfig {
    AssociationConfig::profile(name).unwrap().with_multipath(multipath)
}

/// The minimum goodput of two paths, in percent of the goodput of the fast path alone.
const GOAL: u64 = 95;

fn grid(name: &str) {
    let alone = goodput(&[FAST], &profile(name, MultipathMode::Off), &[]);
    let mut below = Vec::new();
    for delay in [10, 40, 100] {
        for queue in [5, 20, 100, 300] {
            for rate in [20_000, 5_000, 1_000, 250, 64] {
                let paths = [FAST, Path(rate, delay, queue)];
                let both = goodput(&paths, &profile(name, MultipathMode::CmtPf), &[]);
                println!("{name}, {:?}: {both} kb/s, alone {alone}", paths[1]);
                if both * 100 < alone * GOAL {
                    below.push((paths[1], both));
                }
            }
        }
    }
    assert!(below.is_empty(), "alone {alone} kb/s, with a second path {below:?}");
}

#[test]
fn a_second_path_costs_nothing_with_default_buffers() {
    grid("default");
}

#[test]
fn a_second_path_costs_nothing_with_large_buffers() {
    grid("bulk");
}

/// The window has room for only a part of what has to be retransmitted, and the rest must not wait.
#[test]
fn all_chunks_of_a_late_path_are_overtaken() {
    const SHORT: u64 = 20_000_000;
    let alone = goodput_of(SHORT, &[FAST], &profile("bulk", MultipathMode::Off), &[]);
    for delay in [10, 40, 100] {
        let paths = [FAST, Path(64, delay, 100)];
        let both = goodput_of(SHORT, &paths, &profile("bulk", MultipathMode::CmtPf), &[]);
        assert!(both * 100 >= alone * GOAL, "{delay} ms: {both} of {alone} kb/s");
    }
}

#[test]
fn a_path_that_is_throttled_in_mid_transfer_costs_nothing() {
    for name in ["default", "bulk"] {
        for mode in [MultipathMode::CmtPf, MultipathMode::Cmt] {
            for rate in [64, 1_000] {
                let config = profile(name, mode);
                let paths = [FAST, Path(20_000, 40, 100)];
                let alone = goodput(&[FAST], &profile(name, MultipathMode::Off), &[]);
                let both = goodput(&paths, &config, &[(2000, 1, rate)]);
                println!(
                    "{name}, {mode}, second path {rate} kb/s from 2 s on: {both}, alone {alone}"
                );
                assert!(
                    both * 100 >= alone * GOAL,
                    "{name}, {mode}, {rate} kb/s: {both} of {alone}"
                );
                // The previously best path is almost gone.
                let second = [Path(20_000, 40, 100)];
                let alone = goodput(&second, &profile(name, MultipathMode::Off), &[]);
                let both = goodput(&paths, &config, &[(2000, 0, rate)]);
                println!(
                    "{name}, {mode}, first path {rate} kb/s from 2 s on: {both}, alone {alone}"
                );
                assert!(
                    both * 100 >= alone * GOAL,
                    "{name}, {mode}, {rate} kb/s: {both} of {alone}"
                );
            }
        }
    }
}

#[test]
fn a_second_path_as_fast_is_used() {
    for name in ["default", "bulk"] {
        let alone = goodput(&[FAST], &profile(name, MultipathMode::Off), &[]);
        for delay in [10, 20, 40] {
            let paths = [FAST, Path(40_000, delay, 100)];
            let mut config = profile(name, MultipathMode::CmtPf);
            let both = goodput(&paths, &config, &[]);
            config.multipath.slow_paths = SlowPaths::AsOthers;
            let as_others = goodput(&paths, &config, &[]);
            println!("{name}, {delay} ms: {both} kb/s, as others {as_others}, alone {alone}");
            assert!(both * 2 >= alone * 3, "{name}, {delay} ms: {both} of {alone}");
        }
    }
}

#[test]
fn without_it_a_slow_path_holds_the_transfer_up() {
    let mut config = profile("default", MultipathMode::CmtPf);
    config.multipath.slow_paths = SlowPaths::AsOthers;
    // Buffers that grow hold most of what waits.
    (config.receiving.receive_buffer, config.sending.send_buffer) = (1 << 20, 1 << 20);
    let alone = goodput(&[FAST], &config, &[]);
    let both = goodput(&[FAST, Path(1_000, 40, 100)], &config, &[]);
    assert!(both < alone / 4, "{both} of {alone}");
}

/// Bytes on the wire of the second of two equal paths in each 100 ms, while the first one is cut.
fn beside_a_cut(rate: u64, delay: u64, config: AssociationConfig) -> Vec<u64> {
    const PERIOD: u64 = 100_000_000;
    let mut network = Network::new(1);
    let (a, b) = (network.add_host("A"), network.add_host("B"));
    let link = LinkConfig::new()
        .rate(rate * 1_000_000)
        .delay(Duration::from_millis(delay))
        .queue(QueueLimit::Packets(100));
    let links = [0; 2].map(|_| network.connect_both(a, b, link.clone()).unwrap());
    network.routes_by_hops();
    let (from, to) = (network.add_endpoint(a).unwrap(), network.add_endpoint(b).unwrap());
    let mut config = config;
    config.mtu = MtuConfig::fixed(1500);
    let mut transfer = Transfer::bulk(from, to, 1 << 30).config(config);
    transfer.message_size = 1400;
    network.add_transfer(transfer).unwrap();
    let (link, direction) = (links[0], Direction::Both);
    network.schedule(Instant::from_secs(5), Action::Cut { link, direction }).unwrap();
    let bytes = Rc::new(RefCell::new(vec![0; 100]));
    let (seen, second) = (bytes.clone(), links[1]);
    network.tap(Some(to), move |sight: &Sight<'_>| {
        if sight.link == second && sight.point == Point::Received {
            let period = (sight.now.as_nanos() / PERIOD) as usize;
            seen.borrow_mut()[period] += sight.bytes.len() as u64;
        }
    });
    network.run_until(Instant::from_secs(10) - Duration::from_nanos(1));
    bytes.take()
}

#[test]
fn the_other_path_goes_on_while_one_is_cut() {
    for (rate, delay) in [(20, 10), (20, 20), (100, 20), (10, 45)] {
        let bytes = beside_a_cut(rate, delay, profile("default", MultipathMode::CmtPf));
        let half_seconds = bytes[50..].windows(5).map(|bytes| bytes.iter().sum::<u64>());
        // What the path carries in half a second.
        let full = rate * 62_500;
        let least = half_seconds.min().unwrap();
        println!("{rate} Mb/s, {delay} ms: at least {least} of {full} bytes in half a second");
        assert!(least > full / 2, "{rate} Mb/s, {delay} ms: {least} of {full}, {bytes:?}");
    }
}

/// Acknowledgements come back on the path of what they answer, so those of the longer path arrive late and list less than
/// is known. They must not count what arrived once more: BBR took the rate and the round-trip time of a path from that.
#[test]
fn bbr_adds_up_paths_of_unlike_delay() {
    let mut config = profile("default", MultipathMode::CmtPf);
    config.set("congestion", "bbr").unwrap();
    let paths = [Path(20_000, 10, 50), Path(20_000, 40, 50)];
    let both = goodput_of(100_000_000, &paths, &config, &[]);
    println!("{both} kb/s of 40,000");
    assert!(both > 34_000, "{both}");
}
