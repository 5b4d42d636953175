//! Routers with several next hops, messages over TCP, and metrics stored for later connections.

use super::*;
use crate::{MetricCache, Reordering, Spread, TcpConfig, TcpFlow, TcpMessages};

/// A and B with two routers between them, joined by three links of 5, 8 and 11 ms.
fn mesh(spread: Spread, back: Spread) -> (Network, [NodeId; 2], [LinkId; 3]) {
    let mut net = Network::new(11);
    let (a, b) = (net.add_host("A"), net.add_host("B"));
    let (left, right) = (net.add_router("left"), net.add_router("right"));
    let edge = LinkConfig::new().rate(100_000_000).delay(Duration::from_millis(1));
    net.connect_both(a, left, edge.clone()).unwrap();
    net.connect_both(right, b, edge).unwrap();
    let ways = [5, 8, 11].map(|millis| {
        let link = LinkConfig::new().rate(5_000_000).delay(Duration::from_millis(millis));
        net.connect_both(left, right, link).unwrap()
    });
    net.routes_by_hops();
    let (near, far) = (net.addresses_of(a).next().unwrap(), net.addresses_of(b).next().unwrap());
    let hops = ways.map(|link| (link, 1));
    net.add_routes(left, far, &hops, spread).unwrap();
    net.add_routes(right, near, &hops, back).unwrap();
    (net, [a, b], ways)
}

fn forwarded(net: &Network, ways: [LinkId; 3], direction: Direction) -> [u64; 3] {
    ways.map(|link| net.link_traffic(link, direction, Traffic::Tcp).offered)
}

#[test]
fn packets_take_the_ways_that_the_spread_says() {
    let run = |spread| {
        let (mut net, hosts, ways) = mesh(spread, Spread::One);
        let flow = TcpFlow { bytes: Some(300_000), ..TcpFlow::greedy(hosts[0], hosts[1]) };
        let id = net.add_tcp_flow(flow).unwrap();
        net.run(Instant::from_secs(60));
        assert!(net.tcp_flow(id).all_delivered, "{spread:?}");
        let back = forwarded(&net, ways, Direction::Backward);
        assert!(back[0] > 0 && back[1..] == [0, 0], "{spread:?}: {back:?}");
        (forwarded(&net, ways, Direction::Forward), net.tcp_flow(id).stats)
    };
    let (round, stats) = run(Spread::RoundRobin);
    assert!(round.iter().max().unwrap() - round.iter().min().unwrap() <= 1, "{round:?}");
    assert!(stats.retransmissions > 0, "what overtakes is taken for loss");
    let (one, stats) = run(Spread::One);
    assert!(one[0] > 200 && one[1..] == [0, 0] && stats.retransmissions == 0, "{one:?} {stats:?}");
    let (random, _) = run(Spread::Random);
    assert!(random.iter().all(|count| (40..110).contains(count)), "{random:?}");
    let (flow, stats) = run(Spread::Flow);
    assert!(flow.iter().filter(|count| **count > 0).count() == 1, "{flow:?}");
    assert_eq!(stats.retransmissions, 0);
    // The same seed takes the same ways.
    assert_eq!(run(Spread::Random).0, random);
}

#[test]
fn flows_are_spread_over_the_ways() {
    let (mut net, hosts, ways) = mesh(Spread::Flow, Spread::Flow);
    for _ in 0..30 {
        let flow = TcpFlow { bytes: Some(30_000), ..TcpFlow::greedy(hosts[0], hosts[1]) };
        net.add_tcp_flow(flow).unwrap();
    }
    net.run(Instant::from_secs(60));
    let all = forwarded(&net, ways, Direction::Forward);
    assert!(all.iter().all(|count| *count > 100), "{all:?}");
}

#[test]
fn a_protected_sender_uses_several_ways() {
    let run = |reordering| {
        let (mut net, hosts, _) = mesh(Spread::RoundRobin, Spread::One);
        let mut config = TcpConfig::default();
        config.reordering = reordering;
        let greedy = TcpFlow::greedy(hosts[0], hosts[1]);
        let id = net.add_tcp_flow(TcpFlow { bytes: Some(3_000_000), config, ..greedy }).unwrap();
        net.run(Instant::from_secs(60));
        net.tcp_flow(id)
    };
    let (standard, linux) = (run(Reordering::Fixed), run(Reordering::Adaptive));
    assert!(linux.completed_at < standard.completed_at, "{linux:?} {standard:?}");
    assert!(linux.stats.recoveries < standard.stats.recoveries, "{linux:?} {standard:?}");
}

#[test]
fn nonsense_is_no_route() {
    let (mut net, hosts, ways) = mesh(Spread::One, Spread::One);
    let far = net.addresses_of(hosts[1]).next().unwrap();
    let left = NodeId(2);
    assert!(net.add_routes(left, far, &[(ways[0], 0)], Spread::One).is_err());
    assert!(net.add_routes(left, far, &[], Spread::One).is_err());
    assert!(net.add_routes(hosts[1], far, &[(ways[0], 1)], Spread::One).is_err());
    let messages = TcpMessages { size: 0, times: [Duration::ZERO].into() };
    let flow = TcpFlow { messages: Some(messages), ..TcpFlow::greedy(hosts[0], hosts[1]) };
    assert!(net.add_tcp_flow(flow).is_err());
}

#[test]
fn messages_over_tcp_have_their_delays() {
    let (mut net, hosts, _) = mesh(Spread::One, Spread::One);
    let messages = TcpMessages::periodic(200, Duration::from_millis(50), 40);
    let flow = TcpFlow { messages: Some(messages), ..TcpFlow::greedy(hosts[0], hosts[1]) };
    let id = net.add_tcp_flow(flow).unwrap();
    let end = net.run(Instant::from_secs(60));
    let (result, delays) = (net.tcp_flow(id), net.tcp_delays(id).unwrap());
    assert!(result.all_delivered && result.delivered == 8000, "{result:?}");
    // 7 ms plus the transmission time; the last message is sent after 1.95 s.
    let millis = |time: Option<Duration>| time.unwrap().as_secs_f64() * 1e3;
    assert_eq!(delays.count(), 40);
    assert!(millis(delays.min()) > 7.0 && millis(delays.max()) < 8.5, "{delays:?}");
    assert!((Instant::from_secs(1)..Instant::from_secs(3)).contains(&end), "{end:?}");
    // A lost message delays later ones.
    let (mut net, hosts, ways) = mesh(Spread::One, Spread::One);
    let cut = |down: bool| match down {
        true => Action::Cut { link: ways[0], direction: Direction::Forward },
        false => Action::Repair { link: ways[0], direction: Direction::Forward },
    };
    net.schedule(Instant::from_millis(500), cut(true)).unwrap();
    net.schedule(Instant::from_millis(540), cut(false)).unwrap();
    let messages = TcpMessages::periodic(200, Duration::from_millis(5), 200);
    let flow = TcpFlow { messages: Some(messages), ..TcpFlow::greedy(hosts[0], hosts[1]) };
    let id = net.add_tcp_flow(flow).unwrap();
    net.run(Instant::from_secs(60));
    let delays = net.tcp_delays(id).unwrap();
    assert_eq!(delays.count(), 200);
    assert!(millis(delays.max()) > 40.0, "{delays:?}");
}

#[test]
fn later_connections_begin_with_what_earlier_ones_learnt() {
    let second = |metric_cache| {
        let (mut net, hosts, ways) = mesh(Spread::One, Spread::One);
        net.schedule(
            Instant::ZERO,
            Action::SetLoss {
                link: ways[0],
                direction: Direction::Forward,
                loss: anabranch_impair::Loss::positions([5]),
            },
        )
        .unwrap();
        let greedy = TcpFlow::greedy(hosts[0], hosts[1]);
        let flow = TcpFlow { bytes: Some(14_600), metric_cache, ..greedy };
        let start = Instant::from_secs(10);
        net.add_tcp_flow(flow.clone()).unwrap();
        let id = net.add_tcp_flow(TcpFlow { bytes: Some(60_000), start, ..flow }).unwrap();
        net.run(Instant::from_secs(60));
        net.tcp_flow(id).completed_at.unwrap()
    };
    let off = second(MetricCache::Off);
    assert!(second(MetricCache::Full) > off + Duration::from_millis(10), "the loss is remembered");
    assert_eq!(second(MetricCache::Selective), off);
    assert_eq!(second(MetricCache::Informed), off, "so short a connection knows nothing");
}
