//! Links that fail, change, or are discovered late.

use anabranch_proto::{CloseReason, RetransmissionPolicy};

use super::*;

fn cut(d: &mut Dumbbell, path: usize, from: Instant, until: Option<Instant>) {
    let (link, direction) = (d.cores[path], Direction::Both);
    d.net.schedule(from, Action::Cut { link, direction }).unwrap();
    if let Some(until) = until {
        d.net.schedule(until, Action::Repair { link, direction }).unwrap();
    }
}

#[test]
fn a_cut_path_is_repaired() {
    let mut d = dumbbell(1, &[0]);
    cut(&mut d, 0, Instant::from_secs(1), Some(Instant::from_secs(3)));
    let transfer = d.net.add_transfer(d.bulk(5_000_000)).unwrap();
    d.net.run(Instant::from_secs(1000));
    let result = d.net.transfer(transfer);
    assert_eq!(result.outcome, Outcome::Complete);
    // Packets on the edge links when the core goes down still arrive.
    let gap_at = result.longest_gap_at.as_secs_f64();
    assert!((1.0..1.05).contains(&gap_at), "{gap_at}");
    assert!(result.longest_gap >= ms(2000), "{:?}", result.longest_gap);
    assert!(d.net.link_stats(d.cores[0], Direction::Forward).lost_down > 0);
}

#[test]
fn the_other_path_takes_over() {
    let mut d = dumbbell(1, &[0, 0]);
    cut(&mut d, 0, Instant::from_secs(1), None);
    let transfer = d.net.add_transfer(d.bulk(5_000_000)).unwrap();
    d.net.run(Instant::from_secs(1000));
    let result = d.net.transfer(transfer);
    assert_eq!(result.outcome, Outcome::Complete);
    let stats = d.net.sender(transfer).unwrap().statistics();
    assert_eq!(stats.active.number(), 1);
    // 1 + 2 + 4 + 8 + 16 + 32 s until six timeouts have passed (caro 2.6.1).
    let time = result.transfer_time().unwrap();
    assert!(time > Duration::from_secs(60) && time < Duration::from_secs(75), "{time:?}");
    let [failure] = result.path_failures[..] else { panic!("{:?}", result.path_failures) };
    assert_eq!(failure.remote, stats.paths[0].remote);
    assert!(failure.at > Instant::from_secs(60), "{failure:?}");
    assert!((1..result.bytes).contains(&failure.bytes), "{failure:?}");
}

#[test]
fn both_paths_dead_for_ever_end_the_association() {
    for policy in [RetransmissionPolicy::AllRtxSame, RetransmissionPolicy::FrSameRtoAlt] {
        let mut d = dumbbell(1, &[1, 1]);
        for path in 0..2 {
            cut(&mut d, path, Instant::from_secs(1), None);
        }
        let mut config = fixed_mtu(AssociationConfig::rfc2960());
        config.paths.retransmission = policy;
        let transfer = d.net.add_transfer(d.bulk(5_000_000).config(config)).unwrap();
        let end = d.net.run(Instant::from_secs(100_000));
        let result = d.net.transfer(transfer);
        assert_eq!(result.outcome, Outcome::Aborted(CloseReason::Unreachable));
        // Ten retransmissions, at most a minute apart.
        assert!(end < Instant::from_secs(700), "{end:?}");
        assert!(result.sender.is_some());
        assert!(result.longest_gap >= end.saturating_since(Instant::from_secs(2)));
    }
}

#[test]
fn one_direction_may_fail_alone() {
    let mut d = dumbbell(1, &[0]);
    let link = d.cores[0];
    let (at, back) = (Instant::from_secs(1), Instant::from_secs(2));
    d.net.schedule(at, Action::Cut { link, direction: Direction::Backward }).unwrap();
    d.net.schedule(back, Action::Repair { link, direction: Direction::Backward }).unwrap();
    let transfer = d.net.add_transfer(d.bulk(5_000_000)).unwrap();
    d.net.run(Instant::from_secs(1000));
    assert_eq!(d.net.transfer(transfer).outcome, Outcome::Complete);
    assert!(d.net.link_stats(link, Direction::Backward).lost_down > 0);
    assert_eq!(d.net.link_stats(link, Direction::Forward).lost_down, 0);
}

#[test]
fn links_change_on_the_way() {
    let mut d = dumbbell(1, &[0]);
    let (link, direction) = (d.cores[0], Direction::Both);
    let slow = Action::SetRate { link, direction, rate: Some(1_000_000) };
    d.net.schedule(Instant::from_secs(1), slow).unwrap();
    let transfer = d.net.add_transfer(d.bulk(2_000_000)).unwrap();
    d.net.run(Instant::from_secs(1000));
    let time = d.net.transfer(transfer).transfer_time().unwrap().as_secs_f64();
    // At 10 Mbit/s less than a megabyte is sent in a second; the rest is sent at a tenth of the
    // rate.
    assert!((9.0..20.0).contains(&time), "{time}");

    let refused = Action::SetRate { link, direction, rate: Some(0) };
    let late = Instant::from_secs(2000);
    assert!(matches!(d.net.schedule(late, refused), Err(SimError::Link { .. })));
    let past = Action::SetDelay { link, direction, delay: ms(1) };
    assert_eq!(d.net.schedule(Instant::ZERO, past), Err(SimError::Past));
}

#[test]
fn losses_may_be_named() {
    let mut d = dumbbell(1, &[0]);
    let (link, direction) = (d.cores[0], Direction::Forward);
    // INIT, COOKIE ECHO, then the first DATA packets: the fourth one is lost.
    let third = Action::SetLoss { link, direction, loss: Loss::positions([4]) };
    d.net.schedule(Instant::ZERO, third).unwrap();
    let transfer = d.net.add_transfer(d.bulk(100_000)).unwrap();
    d.net.run(Instant::from_secs(100));
    assert_eq!(d.net.link_stats(link, direction).lost_model, 1);
    let stats = d.net.sender(transfer).unwrap().statistics();
    assert_eq!(stats.paths[0].retransmitted_chunks, 1);
}

#[test]
fn reactive_routes_delay_what_finds_them_forgotten() {
    let run = |cache: Option<RouteCache>| {
        let mut d = dumbbell(1, &[0]);
        d.net.set_route_cache(d.sender, cache);
        let workload = Workload::Periodic { interval: ms(1000), messages: 5 };
        let transfer = Transfer { workload, message_size: 100, ..d.bulk(1) };
        let transfer = d.net.add_transfer(transfer).unwrap();
        d.net.run(Instant::from_secs(100));
        let result = d.net.transfer(transfer).clone();
        assert_eq!(result.outcome, Outcome::Complete);
        (result, d.net.route_cache_counters(d.sender))
    };
    let (plain, counters) = run(None);
    assert_eq!(counters, RouteCacheCounters::default());
    // INIT waits for the discovery; the messages follow soon enough to keep the route.
    let long = RouteCache { lifetime: ms(1000), discovery: ms(300), keeps_unused: false };
    let (found, counters) = run(Some(long));
    assert_eq!(counters, RouteCacheCounters { discoveries: 1, delayed_packets: 1 });
    let later = |result: &TransferResult| result.connected_at.unwrap().as_nanos();
    assert_eq!(later(&found), later(&plain) + 300_000_000);
    assert_eq!(found.delays.max(), plain.delays.max());
    // The route expires before the second message. Sending it late renews the route, which then
    // does not expire before the third message, but does again before the fourth.
    let short = RouteCache { lifetime: ms(900), discovery: ms(300), keeps_unused: false };
    let (lost, counters) = run(Some(short));
    assert_eq!(counters.discoveries, 3);
    assert_eq!(lost.delays.max().unwrap(), plain.delays.max().unwrap() + ms(300));
    // The first message immediately follows the handshake.
    assert_eq!(lost.delays.min(), plain.delays.min());
}
