//! Explicit congestion notification (RFC 4960 appendix A, RFC 3168).

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anabranch_harness::{Pair, Verdict, craft};
use anabranch_impair::{CoDel, Discipline, LinkConfig, Loss, Probability, QueueLimit, Red};
use anabranch_proto::congestion::CongestionControl;
use anabranch_proto::{AssociationConfig, Ecn, Features, MultipathMode, PathStatistics};
use anabranch_wire::{Chunk, Ecne, Tsn, kind};

const LONG: Duration = Duration::from_secs(600);
const SIZE: usize = 4_000_000;

fn config() -> AssociationConfig {
    AssociationConfig::default().with(|config| {
        config.congestion.ecn = true;
        config.sending.send_buffer = 8 << 20;
        config.sending.send_buffer_start = None;
        config.receiving.receive_buffer = 1 << 20;
    })
}

/// 10 Mb/s with a queue.
fn link(discipline: Discipline) -> LinkConfig {
    let link = LinkConfig::new().delay(Pair::DELAY).rate(10_000_000);
    link.queue(QueueLimit::Packets(200)).discipline(discipline)
}

fn codel() -> Discipline {
    Discipline::CoDel(CoDel { ecn: true, ..CoDel::default() })
}

fn send(pair: &mut Pair, length: usize) {
    assert!(pair.send(0, 0, vec![7; length]));
}

/// Sends a message and waits for it.
fn transfer(pair: &mut Pair, length: usize) {
    let before = pair.received_len(1);
    send(pair, length);
    assert!(pair.run_until(LONG, |pair| pair.received_len(1) == before + length));
}

/// The sender's numbers of a path.
fn path(pair: &Pair, index: usize) -> PathStatistics {
    pair.statistics(0).paths[index]
}

/// Whether a packet carries user data, and its lowest TSN.
fn lowest_tsn(packet: &anabranch_wire::Packet<'_>) -> Option<u32> {
    let chunks = packet.chunks().map_while(Result::ok);
    let tsns = chunks.filter_map(|raw| match raw.decode() {
        Ok(Chunk::Data(data)) => Some(data.tsn.0),
        _ => None,
    });
    tsns.reduce(|a, b| if Tsn(b).lt(Tsn(a)) { b } else { a })
}

/// A list that a script fills.
type Shared<T> = Arc<Mutex<Vec<T>>>;

fn shared<T>() -> (Shared<T>, Shared<T>) {
    let list = Arc::new(Mutex::new(Vec::new()));
    (Arc::clone(&list), list)
}

#[test]
// RFC 3168 section 6.1.2.
fn marks_slow_the_sender_before_anything_is_lost() {
    let red = Red { ecn: true, weight: Probability::percent(10), ..Red::default() };
    let red = Red { min_threshold: 10, max_threshold: 60, ..red };
    let controls = [CongestionControl::Rfc9260, CongestionControl::Cubic, CongestionControl::Bbr];
    for control in controls {
        for discipline in [codel(), Discipline::Red(red)] {
            let lost = [true, false].map(|ecn| {
                let config = config().with(|config| {
                    config.congestion.ecn = ecn;
                    config.congestion.congestion_control = control;
                });
                let mut pair = Pair::connected(1, config);
                pair.net.set_links(link(discipline));
                let begun = pair.net.now();
                transfer(&mut pair, SIZE);
                let took = pair.net.now().saturating_since(begun);
                assert!(took < Duration::from_millis(4500), "{control:?} {discipline:?} {took:?}");
                let path = path(&pair, 0);
                assert_eq!(path.ecn_reductions > 0, ecn, "{control:?} {discipline:?}");
                assert_eq!(path.ecn_failures, 0);
                path.lost_packets
            });
            assert_eq!(lost[0], 0, "{control:?} {discipline:?}");
            // BBR does not fill queues unless it searches.
            let fills = control != CongestionControl::Bbr;
            assert!(!fills || lost[1] > 0, "{control:?} {discipline:?}: it has teeth");
        }
    }
}

#[test]
// RFC 3168 section 6.1.2.
fn all_marks_of_a_window_lower_it_once() {
    for control in [CongestionControl::Rfc9260, CongestionControl::Cubic] {
        let config = config().with(|config| config.congestion.congestion_control = control);
        let mut pair = Pair::connected(1, config);
        transfer(&mut pair, 100_000);
        pair.run(Duration::from_millis(300));
        let before = path(&pair, 0).cwnd;
        let until = pair.net.now() + Duration::from_millis(1);
        pair.net.script(move |sight| match sight.ecn {
            Some(Ecn::Ect0) if sight.now < until => Verdict::Recode(Some(Ecn::Ce)),
            _ => Verdict::Pass,
        });
        send(&mut pair, 100_000);
        pair.run(Duration::from_millis(25));
        let after = path(&pair, 0);
        assert_eq!(after.ecn_reductions, 1, "{control:?}");
        assert!(after.cwnd < before * 8 / 10, "{control:?}: {before} {}", after.cwnd);
        assert!(pair.run_until(LONG, |pair| pair.received_len(1) == 200_000));
        assert_eq!(path(&pair, 0).ecn_reductions, 1, "{control:?}");
        assert!(pair.statistics(1).paths[0].ecn_ce_received > 1, "{control:?}");
    }
}

#[test]
// RFC 4960 appendix A.
fn a_mark_is_reported_until_it_is_answered() {
    let mut pair = Pair::connected(1, config());
    let mut marked = false;
    let mut answers = 0;
    let (log, echoes) = shared();
    pair.net.script(move |sight| {
        for raw in sight.packet.chunks().map_while(Result::ok) {
            match raw.decode() {
                Ok(Chunk::Ecne(echo)) => log.lock().unwrap().push((true, echo.lowest_tsn)),
                Ok(Chunk::Cwr(answer)) => {
                    log.lock().unwrap().push((false, answer.lowest_tsn));
                    answers += 1;
                    if answers <= 2 {
                        return Verdict::Drop;
                    }
                }
                _ => {}
            }
        }
        if sight.ecn.is_some() && !std::mem::replace(&mut marked, true) {
            return Verdict::Recode(Some(Ecn::Ce));
        }
        Verdict::Pass
    });
    transfer(&mut pair, 500_000);
    let log = echoes.lock().unwrap();
    let (echoes, answers): (Vec<_>, Vec<_>) = log.iter().partition(|(echo, _)| *echo);
    assert!(echoes.len() >= 3, "each acknowledgement repeats it: {log:?}");
    assert!(answers.len() >= 3 && answers.iter().all(|(_, tsn)| *tsn == echoes[0].1), "{log:?}");
    let last = log.iter().rposition(|(echo, _)| *echo).unwrap();
    let third = log.iter().enumerate().filter(|(_, (echo, _))| !echo).nth(2).unwrap().0;
    assert!(last < third + 20, "the answer ends the reports: {log:?}");
    assert_eq!(path(&pair, 0).ecn_reductions, 1);
}

#[test]
// RFC 3168 sections 6.1.4 to 6.1.6.
fn only_new_data_is_ecn_capable() {
    let mut pair = Pair::connected(1, config());
    let loss = Loss::Uniform(Probability::percent(5));
    pair.net.set_links(link(Discipline::DropTail).loss(loss));
    let mut seen = BTreeSet::new();
    let (log, counts) = shared();
    pair.net.script(move |sight| {
        match lowest_tsn(&sight.packet) {
            Some(tsn) if seen.insert(tsn) => {
                assert_eq!(sight.ecn, Some(Ecn::Ect0));
                log.lock().unwrap().push("new");
            }
            Some(_) => {
                assert_eq!(sight.ecn, None);
                log.lock().unwrap().push("again");
            }
            None => assert_eq!(sight.ecn, None),
        }
        Verdict::Pass
    });
    transfer(&mut pair, 1_000_000);
    let counts = counts.lock().unwrap();
    assert!(counts.iter().filter(|what| **what == "again").count() > 20);
    assert!(counts.iter().filter(|what| **what == "new").count() > 600);
    assert_eq!(path(&pair, 0).ecn_failures, 0);
}

#[test]
fn without_agreement_nothing_is_ecn_capable() {
    let mut pair = Pair::new(1, config());
    pair.net.script(|sight| {
        assert_eq!(sight.ecn, None);
        Verdict::Recode(Some(Ecn::Ce))
    });
    pair.connect(config().with(|config| config.congestion.ecn = false));
    assert!(pair.run_until(LONG, |pair| pair.both_up()));
    transfer(&mut pair, 100_000);
    assert_eq!(path(&pair, 0).ecn_reductions, 0);
    assert!(pair.statistics(1).paths[0].ecn_ce_received > 0, "it is counted all the same");
    assert_eq!(pair.count(1, kind::ECNE), 0);
}

#[test]
fn a_path_that_swallows_ecn_capable_packets_is_left_alone() {
    let cases = [(1, MultipathMode::Off), (2, MultipathMode::Off), (2, MultipathMode::Cmt)];
    for (paths, multipath) in cases {
        let mut pair = Pair::connected(paths, config().with_multipath(multipath));
        pair.net.set_links(link(Discipline::DropTail));
        let first = IpAddr::from([10, 0, 0, 2]);
        pair.net.script(move |sight| match sight.ecn {
            Some(_) if sight.to == first => Verdict::Drop,
            _ => Verdict::Pass,
        });
        let begun = pair.net.now();
        transfer(&mut pair, 6_000_000);
        let took = pair.net.now().saturating_since(begun);
        assert_eq!(path(&pair, 0).ecn_failures, 1, "{multipath:?}");
        let others = pair.statistics(0).paths.into_iter().skip(1);
        assert_eq!(others.map(|path| path.ecn_failures).sum::<u64>(), 0, "{multipath:?}");
        assert!(took < Duration::from_secs(30), "{multipath:?} {took:?}");
        // From now on it gets what it carries.
        pair.net.script(move |sight| {
            assert!(sight.to != first || sight.ecn.is_none());
            Verdict::Pass
        });
        transfer(&mut pair, 1_000_000);
        assert!(path(&pair, 0).ecn_failures == 1 && path(&pair, 0).data_bytes_sent > 1_000_000);
    }
}

#[test]
fn a_path_that_begins_to_swallow_them_is_found_as_well() {
    let mut pair = Pair::connected(1, config());
    pair.net.set_links(link(Discipline::DropTail));
    transfer(&mut pair, 1_000_000);
    pair.net.script(|sight| if sight.ecn.is_some() { Verdict::Drop } else { Verdict::Pass });
    transfer(&mut pair, 1_000_000);
    assert_eq!(path(&pair, 0).ecn_failures, 1);
}

#[test]
fn a_thin_flow_over_a_bad_line_keeps_ecn() {
    let mut pair = Pair::connected(1, config());
    transfer(&mut pair, 10_000);
    pair.net.set_links(link(codel()).loss(Loss::Uniform(Probability::percent(20))));
    let lost_before = path(&pair, 0).lost_packets;
    // Each message is a flight of its own, and one in five is lost.
    for _ in 0..3000 {
        send(&mut pair, 100);
        pair.run(Duration::from_secs(3));
    }
    assert!(path(&pair, 0).lost_packets > lost_before + 400);
    assert_eq!(path(&pair, 0).ecn_failures, 0);
}

#[test]
fn a_path_that_marks_everything_is_left_alone() {
    let mut pair = Pair::connected(1, config());
    pair.net.script(|sight| match sight.ecn {
        Some(_) => Verdict::Recode(Some(Ecn::Ce)),
        None => Verdict::Pass,
    });
    transfer(&mut pair, 4_000_000);
    let known = path(&pair, 0);
    assert_eq!(known.ecn_failures, 1);
    assert!(known.ecn_reductions < 40, "{}", known.ecn_reductions);
    assert!(known.cwnd > 20 * 1452, "it is as fast as without ECN: {}", known.cwnd);
}

/// Among very many senders, a queue may be full as long as a flow knows it, so that its round trips show none. Without
/// ECN the flow would lose what it sends.
#[test]
fn a_path_that_marks_everything_for_a_reason_is_not_left_alone() {
    let mut pair = Pair::connected(1, config());
    let mut plain = 0;
    pair.net.script(move |sight| match sight.ecn {
        Some(_) => Verdict::Recode(Some(Ecn::Ce)),
        None if sight.has(kind::DATA) => {
            plain += 1;
            if plain % 2 == 0 { Verdict::Drop } else { Verdict::Pass }
        }
        None => Verdict::Pass,
    });
    transfer(&mut pair, 4_000_000);
    let known = path(&pair, 0);
    assert_eq!(known.ecn_failures, 0);
    assert!(known.ecn_reductions > 100, "{}", known.ecn_reductions);
    assert!(known.lost_packets > 0, "it was tried");
    let share = known.lost_packets * 50 / known.data_packets_sent;
    assert_eq!(share, 0, "{} of {} packets", known.lost_packets, known.data_packets_sent);
}

#[test]
fn outages_and_losses_say_nothing_against_ecn() {
    let mut pair = Pair::connected(1, config());
    for _ in 0..20 {
        send(&mut pair, 50_000);
        pair.run(Duration::from_millis(30));
        pair.set_up(0, false);
        pair.run(Duration::from_secs(7));
        pair.set_up(0, true);
        pair.run(Duration::from_secs(20));
    }
    assert_eq!(pair.received_len(1), 20 * 50_000);
    assert_eq!(path(&pair, 0).ecn_failures, 0);
    let loss = Loss::Uniform(Probability::percent(10));
    pair.net.set_links(link(codel()).loss(loss));
    transfer(&mut pair, 1_000_000);
    assert_eq!(path(&pair, 0).ecn_failures, 0);
}

#[test]
// RFC 9260 section 7.2: each path has its own window.
fn a_mark_lowers_the_window_of_its_path() {
    let config = config().with_multipath(MultipathMode::Cmt);
    let mut pair = Pair::connected(2, config);
    pair.net.set_links(link(Discipline::DropTail));
    transfer(&mut pair, 500_000);
    let other = IpAddr::from([10, 1, 0, 2]);
    let mut left = 3;
    pair.net.script(move |sight| match sight.ecn {
        Some(_) if sight.to == other && left > 0 => {
            left -= 1;
            Verdict::Recode(Some(Ecn::Ce))
        }
        _ => Verdict::Pass,
    });
    transfer(&mut pair, 500_000);
    assert_eq!(path(&pair, 0).ecn_reductions, 0);
    let reductions = path(&pair, 1).ecn_reductions;
    assert!((1..=2).contains(&reductions), "{reductions}");
}

#[test]
fn reports_of_what_was_never_sent_have_no_effect() {
    let mut pair = Pair::connected(1, config());
    assert!(pair.statistics(0).features.has(Features::ECN));
    transfer(&mut pair, 100_000);
    let before = path(&pair, 0).cwnd;
    let last = pair.association(1).unwrap().cumulative_tsn();
    let tsns = (0..100).map(|n| Tsn(last.wrapping_add(1 + n * 0x0100_0000)));
    let forged: Vec<_> =
        tsns.map(|lowest_tsn| Chunk::Ecne(Ecne { lowest_tsn, marked_packets: None })).collect();
    let header = pair.header(1);
    let packet =
        craft::packet(header, |packet| forged.iter().try_for_each(|chunk| packet.chunk(chunk)));
    pair.inject(0, packet);
    pair.run(Duration::from_secs(1));
    assert_eq!(path(&pair, 0).ecn_reductions, 0);
    assert!(path(&pair, 0).cwnd >= before);
    assert_eq!(pair.count(0, kind::CWR), 0);
    transfer(&mut pair, 100_000);
}

#[test]
// RFC 4960 appendix A. FreeBSD and usrsctp, and this library, append the number of marked packets.
fn reports_without_a_number_are_understood() {
    let mut pair = Pair::connected(1, config());
    transfer(&mut pair, 10_000);
    pair.run(Duration::from_secs(1));
    // Unanswered, so that its TSN is outstanding.
    let (reduced, tsn) = (path(&pair, 0).ecn_reductions, {
        let last = pair.association(1).unwrap().cumulative_tsn();
        last.wrapping_add(1)
    });
    send(&mut pair, 100);
    pair.net.settle();
    let header = pair.header(1);
    let value = tsn.to_be_bytes();
    pair.inject(0, craft::packet(header, |packet| packet.raw(kind::ECNE, 0, &value)));
    assert_eq!(path(&pair, 0).ecn_reductions, reduced + 1);
    pair.run(Duration::from_secs(1));
    assert!(pair.closed[0].is_none() && pair.count(0, kind::CWR) == 1);
}
