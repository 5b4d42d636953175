//! TCP connections next to associations.

use super::*;

/// Two pairs of hosts that share a link of 10 Mb/s with 50 ms of round-trip time; also returns the
/// link.
fn shared(seed: u64, discipline: Discipline) -> (Network, [NodeId; 4], LinkId) {
    let mut net = Network::new(seed);
    let (left, right) = (net.add_router("left"), net.add_router("right"));
    let hosts = [0, 1, 2, 3].map(|n| net.add_host(&format!("H{n}")));
    for (host, router) in hosts.iter().zip([left, right, left, right]) {
        net.connect_both(*host, router, link(100_000_000, 1)).unwrap();
    }
    let core = link(10_000_000, 23).queue(QueueLimit::Packets(100)).discipline(discipline);
    let core = net.connect_both(left, right, core).unwrap();
    net.routes_by_hops();
    (net, hosts, core)
}

#[test]
fn a_connection_with_an_end_is_waited_for() {
    let (mut net, hosts, core) = shared(1, Discipline::DropTail);
    let start = Instant::from_secs(2);
    let flow = TcpFlow { bytes: Some(5_000_000), start, ..TcpFlow::greedy(hosts[0], hosts[1]) };
    let flow = net.add_tcp_flow(flow).unwrap();
    let end = net.run(Instant::from_secs(100));
    let result = net.tcp_flow(flow);
    assert_eq!((result.delivered, result.completed_at), (5_000_000, Some(end)));
    // 4.1 s at the link's rate, plus slow start.
    assert!(end > Instant::from_secs(6) && end < Instant::from_millis(7_500), "{end:?}");
    let segments = net.link_traffic(core, Direction::Forward, Traffic::Tcp);
    let lost = segments.offered - segments.delivered;
    assert_eq!(lost, net.link_stats(core, Direction::Forward).queue_drops);
    assert_eq!(result.stats.retransmissions, lost);
    // The same seed does the same.
    let hash = net.trace_hash();
    let (mut net, hosts, _) = shared(1, Discipline::DropTail);
    net.add_tcp_flow(TcpFlow {
        bytes: Some(5_000_000),
        start,
        ..TcpFlow::greedy(hosts[0], hosts[1])
    })
    .unwrap();
    net.run(Instant::from_secs(100));
    assert_eq!(net.trace_hash(), hash);
}

#[test]
fn web_traffic_is_answered_and_gives_its_places_back() {
    let (mut net, hosts, core) = shared(1, Discipline::DropTail);
    let web = WebTraffic {
        client: hosts[0],
        server: hosts[1],
        rate: 50.0,
        request: LogNormal::REQUESTS,
        answer: LogNormal::ANSWERS,
        start: Instant::from_secs(1),
        config: TcpConfig::default(),
    };
    let id = net.add_web_traffic(web.clone()).unwrap();
    net.run_until(Instant::from_secs(101));
    let result = net.web_traffic(id);
    // 5,000 requests, plus or minus three times the root.
    assert!((4788..5212).contains(&result.requests), "{result:?}");
    assert!(result.answered + 20 > result.requests, "{result:?}");
    // Half of the link is used, so few requests wait for others. The minimum is two round trips of
    // 50 ms.
    let mean = result.seconds / result.answered as f64;
    assert!((0.1..0.5).contains(&mean), "{mean}");
    // The answers crossed the link from the server.
    let back = net.link_traffic(core, Direction::Backward, Traffic::Tcp);
    assert!(back.delivered > result.bytes / 1460, "{back:?}");
    assert!(net.flows.len() < 100, "{} places", net.flows.len());
    assert_eq!(net.tcp_flows().count(), 0, "web traffic is counted apart");
    let hash = net.trace_hash();
    let (mut net, ..) = shared(1, Discipline::DropTail);
    net.add_web_traffic(web.clone()).unwrap();
    net.run_until(Instant::from_secs(101));
    assert_eq!(net.trace_hash(), hash, "a seed determines everything");
    let option = |web: WebTraffic| match shared(1, Discipline::DropTail).0.add_web_traffic(web) {
        Err(SimError::Option { option, .. }) => option,
        other => panic!("{other:?}"),
    };
    assert_eq!(option(WebTraffic { rate: f64::NAN, ..web.clone() }), "web rate");
    let endless = LogNormal { median: 9.0, sigma: 1.0, most: 8.0 };
    assert_eq!(option(WebTraffic { answer: endless, ..web }), "web answer");
}

/// Both have the same rules for their windows, so each gets half. A drop-tail queue would not be
/// fair: it drops less from a flow that sends more regularly (Floyd and Jacobson 1992).
#[test]
fn an_association_and_a_connection_share_a_link() {
    let (mut net, hosts, _) = shared(3, Discipline::CoDel(CoDel::default()));
    let (x, y) = (net.add_endpoint(hosts[0]).unwrap(), net.add_endpoint(hosts[1]).unwrap());
    let flow = net.add_tcp_flow(TcpFlow::greedy(hosts[2], hosts[3])).unwrap();
    let transfer = net.add_transfer(Transfer::bulk(x, y, 1_000_000_000)).unwrap();
    net.run_until(Instant::from_secs(300));
    let sctp = net.transfer(transfer).bytes as f64;
    let tcp = net.tcp_flow(flow).delivered as f64;
    let share = sctp / (sctp + tcp);
    assert!((0.45..0.55).contains(&share), "SCTP has {share:.3} of {:.0} bytes", sctp + tcp);
    assert!(sctp + tcp > 0.9 * 300.0 * 1_250_000.0 * 1400.0 / 1500.0, "{}", sctp + tcp);
}

#[test]
fn nobody_waits_for_a_connection_that_is_given_up() {
    let (mut net, hosts, core) = shared(4, Discipline::DropTail);
    let config = {
        let mut config = TcpConfig::default();
        config.max_timeouts = 3;
        config
    };
    let flow = TcpFlow { bytes: Some(50_000_000), config, ..TcpFlow::greedy(hosts[0], hosts[1]) };
    let flow = net.add_tcp_flow(flow).unwrap();
    let cut = Action::Cut { link: core, direction: Direction::Both };
    net.schedule(Instant::from_secs(5), cut).unwrap();
    let end = net.run(Instant::from_secs(1000));
    assert!(end < Instant::from_secs(60), "{end:?}");
    assert_eq!(net.tcp_flow(flow).completed_at, None);
    let nothing = TcpFlow { bytes: Some(0), ..TcpFlow::greedy(hosts[0], hosts[1]) };
    assert!(matches!(net.add_tcp_flow(nothing), Err(SimError::Past | SimError::Option { .. })));
}
