//! Cross-traffic over feeds.

use super::*;

const ON_RATE: u64 = 2_000_000;

/// A transfer over a core of 10 Mb/s that loses 2 %, with sources on two hosts or behind two feeds. Returns the network,
/// after the transfer, with the core.
fn loaded(feeds: bool, edge_rate: u64) -> (Network, LinkId, (u64, u64)) {
    let mut net = Network::new(4);
    let (left, right) = (net.add_router("left"), net.add_router("right"));
    let ends = [("A", left), ("B", right)].map(|(name, router)| {
        let host = net.add_host(name);
        net.connect_both(host, router, link(100_000_000, 1)).unwrap();
        host
    });
    let core = link(10_000_000, 25).queue(QueueLimit::Packets(40)).loss(loss(2));
    let core = net.connect_both(left, right, core).unwrap();
    let delays = [3, 7];
    let mut counted = (0, 0);
    let (x, y);
    if feeds {
        net.routes_by_hops();
        (x, y) = (net.add_endpoint(ends[0]).unwrap(), net.add_endpoint(ends[1]).unwrap());
        let feeds = delays.map(|delay| {
            let direction = Direction::Forward;
            let delay = ms(delay);
            net.add_feed(Feed { link: core, direction, rate_bps: edge_rate, delay }).unwrap()
        });
        for (_, feed) in (0..7).zip(feeds.into_iter().cycle()) {
            let CrossTraffic { pattern, sizes, start, .. } =
                CrossTraffic::pareto(ends[0], ends[1], ON_RATE);
            net.add_feed_source(feed, pattern, sizes, start).unwrap();
        }
        let transfer = net.add_transfer(Transfer::bulk(x, y, 3_000_000)).unwrap();
        net.run(Instant::from_secs(600));
        assert_eq!(net.transfer(transfer).outcome, Outcome::Complete);
        for feed in feeds {
            let (sent, received) = net.feed(feed);
            counted = (counted.0 + sent, counted.1 + received);
        }
    } else {
        let pairs = delays.map(|delay| {
            [left, right].map(|router| {
                let host = net.add_host("edge");
                net.connect_both(host, router, link(edge_rate, delay)).unwrap();
                host
            })
        });
        net.routes_by_hops();
        (x, y) = (net.add_endpoint(ends[0]).unwrap(), net.add_endpoint(ends[1]).unwrap());
        for (_, [from, to]) in (0..7).zip(pairs.into_iter().cycle()) {
            net.add_traffic(CrossTraffic::pareto(from, to, ON_RATE)).unwrap();
        }
        let transfer = net.add_transfer(Transfer::bulk(x, y, 3_000_000)).unwrap();
        net.run(Instant::from_secs(600));
        assert_eq!(net.transfer(transfer).outcome, Outcome::Complete);
    }
    (net, core, counted)
}

/// Feeds only save work: the loaded link sees the same packets at the same times as with hosts and links. Three or four
/// sources share a feed and wait for each other; with 9 Mb/s the bits of a packet do not take whole nanoseconds.
#[test]
fn a_feed_is_what_hosts_with_a_link_of_their_own_would_be() {
    for edge_rate in [100_000_000, 9_000_000] {
        let (hosts, core, _) = loaded(false, edge_rate);
        let (feeds, _, (sent, received)) = loaded(true, edge_rate);
        assert_eq!((hosts.now(), hosts.trace_hash()), (feeds.now(), feeds.trace_hash()));
        let stats = |net: &Network| *net.link_stats(core, Direction::Forward);
        assert_eq!(stats(&hosts), stats(&feeds));
        let of = |net: &Network| net.link_traffic(core, Direction::Forward, Traffic::Cross);
        assert_eq!(of(&hosts), of(&feeds));
        assert_eq!((of(&feeds).offered, of(&feeds).delivered), (sent, received));
        assert!(stats(&feeds).queue_drops > 50 && sent > 5000, "{:?}", stats(&feeds));
    }
}

#[test]
fn mistakes_about_feeds_are_named() {
    let mut d = dumbbell(1, &[0]);
    let (delay, direction) = (ms(1), Direction::Forward);
    let good = Feed { link: d.cores[0], direction, rate_bps: 1_000_000, delay };
    for (wrong, option) in [
        (Feed { rate_bps: 0, ..good }, "feed rate_bps"),
        (Feed { delay: Duration::from_secs(1 << 40), ..good }, "feed delay"),
        (Feed { direction: Direction::Both, ..good }, "feed direction"),
    ] {
        let error = d.net.add_feed(wrong).unwrap_err();
        assert!(error.to_string().starts_with(option), "{error}");
    }
    let feed = d.net.add_feed(good).unwrap();
    let pattern = TrafficPattern::Constant { rate_bps: 100_000 };
    let add = |net: &mut Network, sizes: &[(u32, u32)]| {
        net.add_feed_source(feed, pattern, sizes.to_vec(), net.now())
    };
    assert!(add(&mut d.net, &[(19, 1)]).is_err() && add(&mut d.net, &[]).is_err());
    add(&mut d.net, &[(1250, 1)]).unwrap();
    d.net.run_until(Instant::from_millis(130));
    // They reach the core after 11 ms, and the other end of it after 26 ms more.
    assert_eq!(d.net.feed(feed), (2, 1));
    assert_eq!(add(&mut d.net, &[(1250, 1)]), Err(SimError::Past));
}
