//! The effect of a pause, a cut or an outage on the rate afterwards. None of these gives information about a path's
//! capacity (RFC 7661, RFC 5681 section 3.1).
#![expect(clippy::unwrap_used, reason = "tests")]

use std::time::Duration;

use anabranch_proto::congestion::IdleCwnd;
use anabranch_proto::{AssociationConfig, MtuConfig};
use anabranch_sim::{
    Action, Direction, Instant, LinkConfig, LinkId, Network, QueueLimit, Transfer, TransferId,
};

const OURS: [&str; 4] = ["default", "bulk", "web", "signalling"];

fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

fn profile(name: &str) -> AssociationConfig {
    let mut config = AssociationConfig::profile(name).unwrap();
    config.mtu = MtuConfig::fixed(1500);
    config
}

/// Paths with these rates in Mb/s and delays in ms, with queues of 200 packets, and an endless transfer.
fn network(paths: &[(u64, u64)], config: AssociationConfig) -> (Network, Vec<LinkId>, TransferId) {
    let mut network = Network::new(1);
    let (a, b) = (network.add_host("A"), network.add_host("B"));
    let mut links = Vec::new();
    for (rate, delay) in paths {
        let link = LinkConfig::new()
            .rate(rate * 1_000_000)
            .delay(Duration::from_millis(*delay))
            .queue(QueueLimit::Packets(200));
        links.push(network.connect_both(a, b, link).unwrap());
    }
    network.routes_by_hops();
    let (from, to) = (network.add_endpoint(a).unwrap(), network.add_endpoint(b).unwrap());
    let mut transfer = Transfer::bulk(from, to, 1 << 30).config(config);
    transfer.message_size = 1400;
    let transfer = network.add_transfer(transfer).unwrap();
    (network, links, transfer)
}

/// Goodput in kb/s between two times in ms.
fn goodput(network: &mut Network, transfer: TransferId, from: u64, to: u64) -> u64 {
    network.run_until(at(from));
    let before = network.transfer(transfer).bytes;
    network.run_until(at(to));
    (network.transfer(transfer).bytes - before) * 8 / (to - from)
}

/// Goodput on a path of 20 Mb/s and 40 ms in the first, second and third second after one of 50 Mb/s was cut.
fn after_a_cut(config: AssociationConfig) -> [u64; 3] {
    let (mut network, links, transfer) = network(&[(50, 20), (20, 40)], config);
    let (link, direction) = (links[0], Direction::Both);
    network.schedule(at(3_000), Action::Cut { link, direction }).unwrap();
    [3_000, 4_000, 5_000].map(|from| goodput(&mut network, transfer, from, from + 1_000))
}

#[test]
fn a_failover_goes_on_at_the_rate_of_the_path_that_is_left() {
    for name in OURS {
        let rates = after_a_cut(profile(name));
        println!("{name}: {rates:?} kb/s in the seconds after the cut");
        assert!(rates[1] > 16_000 && rates[2] > 18_000, "{name}: {rates:?}");
        let mut config = profile(name);
        config.congestion.idle_cwnd = IdleCwnd::HalvePerRto;
        let rates = after_a_cut(config);
        println!("{name}, halve-per-rto: {rates:?} kb/s in the seconds after the cut");
        assert!(rates[2] < 9_000, "{name}: {rates:?}");
    }
}

/// Goodput of one path of 50 Mb/s and 20 ms in the second and third second after an outage of 5 s.
fn after_an_outage(config: AssociationConfig) -> [u64; 3] {
    let (mut network, links, transfer) = network(&[(50, 20)], config);
    let (link, direction) = (links[0], Direction::Both);
    network.schedule(at(3_000), Action::Cut { link, direction }).unwrap();
    network.schedule(at(8_000), Action::Repair { link, direction }).unwrap();
    network.run_until(at(8_000));
    let before = network.transfer(transfer).bytes;
    network.run_while(|network| network.transfer(transfer).bytes < before + 1_000_000);
    let back = network.now().as_nanos() / 1_000_000;
    [0, 1_000, 2_000].map(|from| goodput(&mut network, transfer, back + from, back + from + 1_000))
}

#[test]
fn an_outage_leaves_the_rate_as_it_was() {
    for name in OURS {
        let rates = after_an_outage(profile(name));
        println!("{name}: {rates:?} kb/s in the seconds after an outage");
        assert!(rates[0] > 30_000, "{name}: {rates:?}");
        let mut config = profile(name);
        config.congestion.hold_ssthresh = false;
        let worse = after_an_outage(config);
        println!("{name}, without: {worse:?} kb/s in the seconds after an outage");
        assert!(worse[0] < rates[0] * 3 / 4, "{name}: {worse:?}, {rates:?}");
    }
}
