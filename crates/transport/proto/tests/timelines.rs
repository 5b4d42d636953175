//! The time lines of caro Figs 3.8 and 4.3, packet for packet.
//!
//! Both paths have the same delay, so answers on both arrive at the same time. Where the figure does
//! not define their order, it is the order in which the packets were sent.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use anabranch_harness::{Pair, Verdict};
use anabranch_proto::config::{IdleCwnd, InitialCwnd};
use anabranch_proto::{AssociationConfig, Instant, MtuConfig, RetransmissionPolicy};
use anabranch_wire::{Chunk, Packet, kind};

/// The start of a study of one timeout: windows of one packet on both paths.
fn config(policy: RetransmissionPolicy, pmr: u32) -> AssociationConfig {
    let mut config = AssociationConfig::rfc2960();
    config.congestion.initial_cwnd = InitialCwnd::Mtus(1);
    config.congestion.idle_cwnd = IdleCwnd::Keep;
    config.sending.send_buffer = 64 << 20;
    config.receiving.receive_buffer = 120_000;
    config.paths.retransmission = policy;
    // The document lets the retransmission of TSN 1 time out although later TSNs are acknowledged
    // meanwhile; by RFC 2960 the fourth of these would retransmit it.
    config.recovery.missing_reports = 255;
    // In Fig 3.8 new data follows the timeout immediately. In the study's results it waits for a SACK
    // (docs/caro.md).
    config.recovery.one_packet_after_timeout = false;
    // Nor does the document delay acknowledgements.
    config.acknowledging.sack_frequency = 1;
    config.paths.path_max_retrans = pmr;
    config.mtu = MtuConfig::fixed(1500);
    config
}

/// Packets of the sender: milliseconds since the first timeout, path, and content.
struct Line {
    pair: Pair,
    first_tsn: u32,
    timeout: Instant,
}

/// Bytes of a message, which fill a packet over UDP and a window of one.
const MESSAGE: usize = 1444;

impl Line {
    /// Sends `messages` until the timeout; all of the first flight is lost. Then
    /// `lost(path, nth)` says which of the packets that follow on each path is lost.
    fn new(
        config: AssociationConfig,
        messages: usize,
        lost: impl Fn(usize, usize) -> bool + 'static,
    ) -> Self {
        let mut pair = Pair::connected(2, config);
        // Measure the alternate path as well, so that both RTOs are 1 s.
        let (now, alternate) = (pair.net.now(), pair.addresses[1][1]);
        pair.association_mut(0).request_heartbeat(now, alternate).unwrap();
        pair.run(Duration::from_millis(100));
        let begun = pair.net.now();
        let timeout = begun + Duration::from_secs(1);
        let paths = pair.addresses[0].clone();
        let sent = Rc::new(RefCell::new([0, 0]));
        pair.net.script(move |sight| {
            let Some(path) = paths.iter().position(|local| *local == sight.from) else {
                return Verdict::Pass;
            };
            if sight.now < timeout {
                return if sight.has(kind::DATA) { Verdict::Drop } else { Verdict::Pass };
            }
            let nth = sent.borrow()[path];
            sent.borrow_mut()[path] += 1;
            if lost(path, nth) { Verdict::Drop } else { Verdict::Pass }
        });
        for _ in 0..messages {
            assert!(pair.send(0, 0, vec![1; MESSAGE]));
        }
        pair.net.settle();
        let first_tsn = pair.sent(0).iter().flat_map(|(_, bytes)| tsns(bytes)).min();
        let first_tsn = first_tsn.expect("data was sent");
        pair.run(Duration::from_millis(999));
        pair.forget();
        Self { pair, first_tsn, timeout }
    }

    /// The sender's packets until this many milliseconds after the timeout.
    fn until(mut self, millis: u64) -> Vec<String> {
        let end = self.timeout + Duration::from_millis(millis);
        self.pair.run(end.saturating_since(self.pair.net.now()));
        let from = &self.pair.addresses[0];
        let mut lines = Vec::new();
        for (at, packet) in self.pair.net.trace.kept() {
            let Some(path) = from.iter().position(|local| *local == packet.from) else { continue };
            let at = at.saturating_since(self.timeout).as_millis();
            let path = ["primary", "alternate"][path];
            for chunk in Packet::parse(&packet.bytes).unwrap().chunks() {
                match chunk.unwrap().decode().unwrap() {
                    Chunk::Data(data) => {
                        let tsn = data.tsn.0.wrapping_sub(self.first_tsn) + 1;
                        lines.push(format!("{at} {path} {tsn}"));
                    }
                    Chunk::Heartbeat(_) => lines.push(format!("{at} {path} HB")),
                    _ => {}
                }
            }
        }
        lines
    }
}

fn tsns(bytes: &[u8]) -> Vec<u32> {
    let packet = Packet::parse(bytes).unwrap();
    let chunks = packet.chunks().map(|chunk| chunk.unwrap().decode().unwrap());
    chunks.filter_map(|c| if let Chunk::Data(d) = c { Some(d.tsn.0) } else { None }).collect()
}

/// Fig 3.8: TSN 1 times out; then the first packets on the primary and the alternate path are
/// lost or not.
fn fig_3_8(pmr: u32, primary: bool, alternate: bool, millis: u64) -> Vec<String> {
    let lost = move |path, nth| nth == 0 && [primary, alternate][path];
    Line::new(config(RetransmissionPolicy::FrSameRtoAlt, pmr), 8000, lost).until(millis)
}

/// Numbers as `at path tsn`, one packet each 20 ms, from TSN `from` at `at` ms to before `until` ms.
fn one_by_one(path: &str, from: u64, at: u64, until: u64) -> Vec<String> {
    (at..until).step_by(20).zip(from..).map(|(at, tsn)| format!("{at} {path} {tsn}")).collect()
}

fn lines(lines: &[&str]) -> Vec<String> {
    lines.iter().map(|line| (*line).to_owned()).collect()
}

/// Highest TSN sent so far.
fn progress(lines: &[String]) -> u64 {
    lines.iter().filter_map(|line| line.rsplit(' ').next()?.parse().ok()).max().unwrap_or(0)
}

#[test]
fn scenario_1_both_arrive() {
    // The heartbeat is answered first and cancels the failover; TSN 2 goes to the primary.
    let zero = fig_3_8(0, false, false, 300);
    assert_eq!(zero[..3], lines(&["0 primary HB", "0 alternate 1", "20 primary 2"]));
    let one = fig_3_8(1, false, false, 300);
    assert_eq!(one[..3], lines(&["0 alternate 1", "0 primary 2", "20 primary 3"]));
    assert!(zero[2..].iter().chain(&one[1..]).all(|line| line.contains("primary")), "as usual");
    assert_eq!(progress(&one), progress(&zero) + 1);
}

#[test]
fn scenario_2_the_alternate_path_loses() {
    // One packet at a time until TSN 1 times out again and goes back to the primary path.
    let zero = fig_3_8(0, false, true, 1010);
    let mut expected = lines(&["0 primary HB", "0 alternate 1"]);
    expected.extend(one_by_one("primary", 2, 20, 1000));
    assert_eq!(zero[..expected.len()], expected);
    assert!(zero.contains(&"1000 primary 1".to_owned()), "{:?}", zero.last());
    let one = fig_3_8(1, false, true, 1010);
    let mut expected = lines(&["0 alternate 1"]);
    expected.extend(one_by_one("primary", 2, 0, 1000));
    assert_eq!(one[..expected.len()], expected);
    assert!(one.contains(&"1000 primary 1".to_owned()), "{:?}", one.last());
    assert_eq!(progress(&one), progress(&zero) + 1);
}

#[test]
fn scenario_3_the_primary_path_loses() {
    // The transfer continues over the alternate path until the second heartbeat is answered.
    let zero = fig_3_8(0, true, false, 2100);
    let begin = ["0 primary HB", "0 alternate 1", "20 alternate 2", "20 alternate 3"];
    assert_eq!(zero[..4], lines(&begin));
    let again = zero.iter().position(|line| line == "2000 primary HB").expect("a heartbeat");
    assert!(zero[1..again].iter().all(|line| line.contains("alternate")));
    let back = zero.iter().position(|line| line.starts_with("2020 primary")).expect("the return");
    assert!(zero[back..].iter().all(|line| line.contains("primary")));
    // Nothing new is sent before TSN 2 times out, at least 2 s later.
    let one = fig_3_8(1, true, false, 2100);
    let begin = ["0 alternate 1", "0 primary 2", "2000 primary HB", "2000 alternate 2"];
    assert_eq!(one[..4], lines(&begin));
    assert!(one.iter().any(|line| line.starts_with("2020 primary")), "failover is cancelled");
    assert!(progress(&zero[..again]) > progress(&one[..4]) + 10, "d - 1 packets gained");
}

#[test]
fn scenario_4_both_lose() {
    // All paths have failed: TSN 1 hops back to the primary path, which answers.
    let zero = fig_3_8(0, true, true, 2050);
    let begin = ["0 primary HB", "0 alternate 1", "1000 primary 1"];
    assert_eq!(zero.iter().filter(|l| !l.ends_with("HB")).count(), zero.len() - heartbeats(&zero));
    let data: Vec<&String> = zero.iter().filter(|line| !line.starts_with("1000 alt")).collect();
    assert_eq!(data[..3], begin.map(str::to_owned).iter().collect::<Vec<_>>());
    assert!(zero.iter().any(|line| line.ends_with("primary 2") && !line.starts_with("2")));
    // TSN 1 gets through as well and opens the window by a packet (RFC 2960 section 7.2.1; the
    // document lets the sender wait for TSN 2), but TSN 2 has to time out.
    let one = fig_3_8(1, true, true, 3050);
    let data: Vec<&String> = one.iter().filter(|line| !line.ends_with("HB")).collect();
    let begin = ["0 alternate 1", "0 primary 2", "1000 primary 1", "1020 primary 3"];
    assert_eq!(data[..4], begin.map(str::to_owned).iter().collect::<Vec<_>>());
    // The retransmission of the earliest TSN restarted the timer of the primary path.
    assert!(one.contains(&"3000 alternate 2".to_owned()));
    let by_then = |lines: &[String]| progress(&before(lines, 2000));
    assert!(by_then(&zero) > by_then(&one) + 10, "{} {}", by_then(&zero), by_then(&one));
}

fn heartbeats(lines: &[String]) -> usize {
    lines.iter().filter(|line| line.ends_with("HB")).count()
}

fn before(lines: &[String], millis: u64) -> Vec<String> {
    let at = |line: &String| line.split(' ').next().and_then(|at| at.parse::<u64>().ok());
    lines.iter().filter(|line| at(line).is_some_and(|at| at < millis)).cloned().collect()
}

/// Fig 4.3: `n` packets are outstanding when the timer expires. Returns the packets, and for
/// routes of this lifetime the discoveries that the timeout costs on both paths.
fn fig_4_3(policy: RetransmissionPolicy, n: u32, lifetime: u64) -> (Vec<String>, [usize; 2]) {
    let mut config = config(policy, 5);
    config.congestion.initial_cwnd = InitialCwnd::Mtus(n);
    let sent = Line::new(config, 40, |_, _| false).until(2000);
    // The first flight left on the primary path 1000 ms before; the alternate one was idle.
    let mut last = [Some(-1000), None];
    let mut discoveries = [0, 0];
    for line in &sent {
        let at: i64 = line.split(' ').next().unwrap().parse().unwrap();
        let path = usize::from(line.contains("alternate"));
        let idle = last[path].is_none_or(|last| at - last > lifetime as i64);
        discoveries[path] += usize::from(idle);
        last[path] = Some(at);
    }
    (sent, discoveries)
}

#[test]
fn fig_4_3_all_rtx_same() {
    let (sent, long) = fig_4_3(RetransmissionPolicy::AllRtxSame, 4, 1200);
    assert!(sent.iter().all(|line| line.contains("primary")), "{sent:?}");
    let tsns: Vec<&str> = sent.iter().take(6).map(|l| l.rsplit(' ').next().unwrap()).collect();
    assert_eq!(tsns, ["1", "2", "3", "4", "5", "6"], "retransmissions, then new data");
    let (_, short) = fig_4_3(RetransmissionPolicy::AllRtxSame, 4, 500);
    assert_eq!((long, short), ([0, 0], [1, 0]), "at most one discovery a timeout");
}

#[test]
fn fig_4_3_fr_same_rto_alt() {
    let (sent, long) = fig_4_3(RetransmissionPolicy::FrSameRtoAlt, 4, 1200);
    let on_alternate: Vec<&String> = sent.iter().filter(|l| l.contains("alternate")).collect();
    let tsns: Vec<&str> = on_alternate.iter().map(|l| l.rsplit(' ').next().unwrap()).collect();
    assert_eq!(tsns, ["1", "2", "3", "4"]);
    let new = sent.iter().position(|line| line.ends_with("primary 5")).expect("new data");
    let last = sent.iter().rposition(|line| line.contains("alternate")).unwrap();
    assert!(new > last, "retransmissions precede new data, on whichever path");
    assert!(sent[new..].iter().all(|line| line.contains("primary")), "{sent:?}");
    let (_, short) = fig_4_3(RetransmissionPolicy::FrSameRtoAlt, 4, 500);
    assert_eq!((long[1], short), (1, [1, 1]), "at most two discoveries, and never fewer");
    for lifetime in [500, 1200, 3200] {
        let count = |policy| fig_4_3(policy, 4, lifetime).1.iter().sum::<usize>();
        assert!(
            count(RetransmissionPolicy::FrSameRtoAlt) >= count(RetransmissionPolicy::AllRtxSame)
        );
    }
}
