//! Topologies, routes and cross-traffic.

use std::net::IpAddr;

use anabranch_proto::{Encapsulation, EndpointConfig};

use super::*;

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

#[test]
fn packets_take_exactly_the_time_of_their_links() {
    let mut net = Network::new(1);
    let (a, r, b) = (net.add_host("A"), net.add_router("R"), net.add_host("B"));
    net.connect_both(a, r, link(1_000_000, 10)).unwrap();
    let last = net.connect_both(r, b, link(2_000_000, 20)).unwrap();
    net.routes_by_hops();
    let stop = Some(Instant::from_millis(1));
    let one = CrossTraffic { stop, ..CrossTraffic::constant(a, b, 1_000, 1250) };
    let traffic = net.add_traffic(one).unwrap();
    // 10 ms to send, 10 ms propagation, 5 ms to send, 20 ms propagation.
    net.run_until(Instant::from_nanos(44_999_999));
    assert_eq!(net.traffic(traffic), (1, 0));
    net.run_until(Instant::from_millis(45));
    assert_eq!(net.traffic(traffic), (1, 1));
    let counters = net.link_traffic(last, Direction::Forward, Traffic::Cross);
    let expected =
        TrafficCounters { offered: 1, offered_bytes: 1250, delivered: 1, delivered_bytes: 1250 };
    assert_eq!(counters, expected);
}

#[test]
fn the_fewest_hops_win() {
    // A - R1 - R2 - R3 - B, and a shortcut from R1 to R3.
    let mut net = Network::new(1);
    let (a, b) = (net.add_host("A"), net.add_host("B"));
    let routers: Vec<NodeId> = (0..3).map(|n| net.add_router(&format!("R{n}"))).collect();
    let fast = link(100_000_000, 1);
    net.connect_both(a, routers[0], fast.clone()).unwrap();
    let around = net.connect_both(routers[0], routers[1], fast.clone()).unwrap();
    net.connect_both(routers[1], routers[2], fast.clone()).unwrap();
    let short = net.connect_both(routers[0], routers[2], fast.clone()).unwrap();
    net.connect_both(routers[2], b, fast).unwrap();
    net.routes_by_hops();
    let to_b = net.addresses_of(b).next().unwrap();
    // Explicit routes replace the previous ones.
    let (x, y) = (net.add_endpoint(a).unwrap(), net.add_endpoint(b).unwrap());
    let first = net.add_transfer(Transfer::bulk(x, y, 100_000)).unwrap();
    net.run(Instant::from_secs(10));
    assert_eq!(net.transfer(first).outcome, Outcome::Complete);
    let packets = |net: &Network, link| net.link_stats(link, Direction::Forward).offered;
    assert_eq!(packets(&net, around), 0);
    let before = packets(&net, short);
    assert!(before > 60);
    net.add_route(routers[0], to_b, around).unwrap();
    let more = Transfer { start: net.now(), ..Transfer::bulk(x, y, 100_000) };
    net.add_transfer(more).unwrap();
    net.run(Instant::from_secs(20));
    assert_eq!(packets(&net, short), before);
    assert!(packets(&net, around) > 60);
}

#[test]
fn circles_are_left_in_the_end() {
    let mut net = Network::new(1);
    let (a, b) = (net.add_host("A"), net.add_host("B"));
    let (r, s) = (net.add_router("R"), net.add_router("S"));
    let fast = link(100_000_000, 1);
    net.connect_both(a, r, fast.clone()).unwrap();
    let middle = net.connect_both(r, s, fast.clone()).unwrap();
    net.connect_both(s, b, fast).unwrap();
    net.routes_by_hops();
    let stop = Some(Instant::from_millis(1));
    let one = CrossTraffic { stop, ..CrossTraffic::constant(a, b, 1_000, 100) };
    let traffic = net.add_traffic(one).unwrap();
    let to_b = net.addresses_of(b).next().unwrap();
    net.add_route(s, to_b, middle).unwrap();
    net.run_until(Instant::from_secs(1));
    assert_eq!(net.traffic(traffic), (1, 0));
    assert_eq!(net.undeliverable().hops, 1);
}

#[test]
fn ipv6_and_udp_work_as_well() {
    let mut net = Network::new(1);
    let (a, b) = (net.add_host("A"), net.add_host("B"));
    let wire = net.connect_both(a, b, link(10_000_000, 5)).unwrap();
    net.set_addresses(wire, a, &[ip("fd00::1"), ip("192.0.2.1")]).unwrap();
    net.set_addresses(wire, b, &[ip("fd00::2")]).unwrap();
    net.routes_by_hops();
    let mut config = EndpointConfig::default();
    config.encapsulation = Encapsulation::Udp;
    let x = net.add_endpoint_with(a, config.clone()).unwrap();
    let y = net.add_endpoint_with(b, config).unwrap();
    let transfer = Transfer { message_size: 1000, ..Transfer::bulk(x, y, 10_000) };
    let transfer = net.add_transfer(transfer).unwrap();
    net.run(Instant::from_secs(10));
    assert_eq!(net.transfer(transfer).outcome, Outcome::Complete);
    let path = net.sender(transfer).unwrap().statistics().paths[0];
    assert_eq!((path.local, path.remote), (ip("fd00::1"), ip("fd00::2")));
    // At least ten messages of 1,000 bytes with 16 + 12 + 8 + 40 bytes of headers.
    assert!(net.link_stats(wire, Direction::Forward).delivered_bytes > 10 * 1076);
}

#[test]
fn packets_that_are_too_big_are_answered() {
    let mut net = Network::new(1);
    let (a, r, b) = (net.add_host("A"), net.add_router("R"), net.add_host("B"));
    net.connect_both(a, r, link(10_000_000, 5)).unwrap();
    let narrow = net.connect_both(r, b, link(10_000_000, 5).mtu(1300)).unwrap();
    net.routes_by_hops();
    let (x, y) = (net.add_endpoint(a).unwrap(), net.add_endpoint(b).unwrap());
    let mut config = AssociationConfig::rfc9260();
    config.mtu = MtuConfig::default();
    let transfer = Transfer { message_size: 5000, ..Transfer::bulk(x, y, 3_000_000) };
    let transfer = net.add_transfer(transfer.config(config)).unwrap();
    net.run(Instant::from_secs(100));
    assert_eq!(net.transfer(transfer).outcome, Outcome::Complete);
    let path = net.sender(transfer).unwrap().statistics().paths[0];
    assert!((1200..=1300).contains(&path.mtu), "{}", path.mtu);
    assert!(net.link_stats(narrow, Direction::Forward).too_big > 0);
    let icmp = net.link_traffic(LinkId(0), Direction::Backward, Traffic::Icmp);
    assert!(icmp.delivered > 0);
}

#[test]
fn damaged_packets_are_noticed_with_checksums_on() {
    let mut net = Network::new(1);
    let (a, b) = (net.add_host("A"), net.add_host("B"));
    let bad = link(10_000_000, 5).corrupt(Probability::percent(5));
    net.connect_both(a, b, bad).unwrap();
    net.routes_by_hops();
    let mut config = EndpointConfig::default();
    config.encapsulation = Encapsulation::Ip;
    let x = net.add_endpoint_with(a, config.clone()).unwrap();
    let y = net.add_endpoint_with(b, config).unwrap();
    let transfer = net.add_transfer(Transfer::bulk(x, y, 300_000)).unwrap();
    net.run(Instant::from_secs(1000));
    assert_eq!(net.transfer(transfer).outcome, Outcome::Complete);
    assert!(net.endpoint(y).discarded_packets() > 0);
}

#[test]
fn cross_traffic_fills_queues_and_costs_packets() {
    let mut net = Network::new(4);
    let (left, right) = (net.add_router("left"), net.add_router("right"));
    let hosts: Vec<NodeId> = (0..4).map(|n| net.add_host(&format!("H{n}"))).collect();
    for (host, router) in hosts.iter().zip([left, right, left, right]) {
        net.connect_both(*host, router, link(100_000_000, 1)).unwrap();
    }
    let core = link(10_000_000, 25).queue(QueueLimit::Packets(40));
    let core = net.connect_both(left, right, core).unwrap();
    net.routes_by_hops();
    let (x, y) = (net.add_endpoint(hosts[0]).unwrap(), net.add_endpoint(hosts[1]).unwrap());
    for _ in 0..8 {
        net.add_traffic(CrossTraffic::pareto(hosts[2], hosts[3], 2_000_000)).unwrap();
    }
    let transfer = net.add_transfer(Transfer::bulk(x, y, 5_000_000)).unwrap();
    let start = net.queue_integral(core, Direction::Forward);
    net.run(Instant::from_secs(600));
    assert_eq!(net.transfer(transfer).outcome, Outcome::Complete);
    let mean = net.queue_integral(core, Direction::Forward).mean_since(&start);
    assert!((1.0..40.0).contains(&mean.0), "{mean:?}");
    assert!(net.link_stats(core, Direction::Forward).queue_drops > 0);
    for traffic in [Traffic::Sctp, Traffic::Cross] {
        let counters = net.link_traffic(core, Direction::Forward, traffic);
        assert!(counters.offered > counters.delivered && counters.delivered > 1000);
    }
    // Time continues without associations.
    let at = net.now() + Duration::from_secs(1);
    net.run_until(at);
    assert_eq!(net.now(), at);
}

#[test]
fn mistakes_are_named() {
    let mut net = Network::new(1);
    let (a, b, r) = (net.add_host("A"), net.add_host("B"), net.add_router("R"));
    let wire = link(1_000_000, 1);
    let same = net.connect_both(a, a, wire.clone());
    assert_eq!(
        same.unwrap_err().to_string(),
        "a link needs two different nodes, and \"A\" was given twice"
    );
    assert!(matches!(net.connect_both(a, r, wire.clone().rate(0)), Err(SimError::Link { .. })));
    assert_eq!(net.add_endpoint(r).unwrap_err(), SimError::NotAHost("R".into()));
    assert_eq!(net.add_endpoint(a).unwrap_err(), SimError::NoInterface("A".into()));
    // Refused links leave no trace.
    let first = net.connect_both(a, r, wire.clone()).unwrap();
    assert_eq!(first.index(), 0);
    let second = net.connect_both(b, a, wire).unwrap();
    let taken = net.addresses_of(a).next().unwrap();
    assert_eq!(net.set_addresses(second, b, &[taken]), Err(SimError::AddressTaken(taken)));
    assert!(matches!(net.set_addresses(first, b, &[]), Err(SimError::NotAtNode { .. })));
    assert_eq!(net.set_addresses(first, r, &[]), Err(SimError::NotAHost("R".into())));
    let x = net.add_endpoint(a).unwrap();
    assert_eq!(net.add_endpoint(a).unwrap_err(), SimError::EndpointExists("A".into()));
    let y = net.add_endpoint(b).unwrap();
    net.routes_by_hops();
    assert!(net.add_transfer(Transfer::bulk(x, y, 1)).is_ok());
    let c = net.add_host("C");
    let far = net.add_router("far");
    net.connect_both(c, far, link(1, 1)).unwrap();
    net.routes_by_hops();
    let z = net.add_endpoint(c).unwrap();
    let refused = net.add_transfer(Transfer::bulk(x, z, 1)).unwrap_err();
    assert_eq!(refused.to_string(), "no route leads from \"A\" to \"C\"");
    let cross = CrossTraffic::constant(a, c, 1, 100);
    assert!(matches!(net.add_traffic(cross), Err(SimError::NoRoute { .. })));
}
