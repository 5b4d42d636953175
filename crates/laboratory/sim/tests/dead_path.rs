//! Lost data is retransmitted on a working path while another path times out again and again. Both paths lose 1 %.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::time::Duration;

use anabranch_proto::{AssociationConfig, MtuConfig, RetransmissionPolicy};
use anabranch_sim::{
    Action, Direction, Instant, LinkConfig, Loss, Network, Probability, QueueLimit, Transfer,
};

const CUT: u64 = 5;
const END: u64 = 45;

/// Longest time in ms without a byte after path two was cut, and the rate in kB/s since then.
fn after_a_cut(seed: u64, config: &AssociationConfig) -> (u64, u64) {
    let mut network = Network::new(seed);
    let (a, b) = (network.add_host("A"), network.add_host("B"));
    let mut links = Vec::new();
    for _ in 0..2 {
        let link = LinkConfig::new()
            .rate(10_000_000)
            .delay(Duration::from_millis(45))
            .loss(Loss::Uniform(Probability::percent(1)))
            .queue(QueueLimit::Packets(50));
        links.push(network.connect_both(a, b, link).unwrap());
    }
    network.routes_by_hops();
    let (from, to) = (network.add_endpoint(a).unwrap(), network.add_endpoint(b).unwrap());
    let mut config = config.clone();
    config.mtu = MtuConfig::fixed(1500);
    let mut transfer = Transfer::bulk(from, to, 1 << 30).config(config);
    transfer.message_size = 1452;
    let transfer = network.add_transfer(transfer).unwrap();
    let cut = Action::Cut { link: links[1], direction: Direction::Both };
    network.schedule(Instant::from_secs(CUT), cut).unwrap();
    network.run_until(Instant::from_secs(CUT));
    let begin = network.transfer(transfer).bytes;
    let (mut bytes, mut since, mut longest) = (begin, CUT * 1000, 0);
    for ms in (CUT * 1000..END * 1000).step_by(50) {
        network.run_until(Instant::ZERO + Duration::from_millis(ms));
        let now = network.transfer(transfer).bytes;
        if now > bytes {
            (bytes, since) = (now, ms);
        }
        longest = longest.max(ms - since);
    }
    (longest, (bytes - begin) / (END - CUT) / 1000)
}

/// The policies that choose the best path by a measure.
const COMPARING: [RetransmissionPolicy; 4] = [
    RetransmissionPolicy::RtxAsap,
    RetransmissionPolicy::RtxCwnd,
    RetransmissionPolicy::RtxSsthresh,
    RetransmissionPolicy::RtxLossRate,
];

/// Path one carries the data, and path two is cut. Only retransmissions of path one's losses can use path two.
#[test]
fn what_is_lost_does_not_wait_for_a_standby_path_that_is_cut() {
    for name in ["default", "bulk", "web", "signalling"] {
        for policy in COMPARING {
            let mut config = AssociationConfig::profile(name).unwrap();
            config.paths.retransmission = policy;
            // With it the sender would leave the path at its first timeout.
            config.paths.potentially_failed_max_retrans = None;
            for seed in 1..4 {
                let (longest, rate) = after_a_cut(seed, &config);
                println!("{name}, {policy:?}, seed {seed}: {longest} ms, {rate} kB/s");
                // The timeout that detects the cut, and one timeout on path one.
                assert!(longest <= 2_000, "{name}, {policy:?}: {longest} ms without a byte");
                assert!(rate >= 150, "{name}, {policy:?}: {rate} kB/s");
            }
            // Without vigilance, as published, data waits for the timers of the cut path.
            config.paths.vigilance = None;
            let longest = (1..4).map(|seed| after_a_cut(seed, &config).0).max().unwrap();
            println!("{name}, {policy:?}, without vigilance: {longest} ms");
            if policy == RetransmissionPolicy::RtxSsthresh {
                assert!(longest >= 10_000, "{name}: {longest} ms");
            }
        }
    }
}
