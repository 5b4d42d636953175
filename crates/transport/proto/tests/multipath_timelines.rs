//! The time lines of nat Figs 4.2 and 4.4, packet for packet: a path fails during a concurrent
//! multipath transfer into a receive buffer for five chunks.
//!
//! Initial windows of two packets, one chunk a packet, no delayed acknowledgements. Both paths are
//! cut "just after TSN 2 enters the network": path 1 carries TSN 1 and 2, and TSN 2 as well as the
//! acknowledgement of TSN 1 are lost. The figures let a path keep its turn until its window is full.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use anabranch_harness::{Pair, Verdict};
use anabranch_impair::LinkConfig;
use anabranch_proto::config::{BurstControl, IdleCwnd, InitialCwnd};
use anabranch_proto::{
    AssociationConfig, Instant, MtuConfig, MultipathMode, PathChoice, PathState,
};
use anabranch_wire::{Chunk, Packet, kind};

/// Bytes of a message, which fill a packet over UDP.
const MESSAGE: usize = 1444;
/// Messages that wait from the start, more than are sent until the end.
const MESSAGES: usize = 400;

fn config(mode: MultipathMode) -> AssociationConfig {
    let mut config = AssociationConfig::rfc4960().with_multipath(mode);
    let multipath = &mut config.multipath;
    multipath.path_choice = PathChoice::WindowInTurn;
    multipath.buffer_split = false;
    multipath.delayed_acks = false;
    config.congestion.initial_cwnd = InitialCwnd::Mtus(2);
    config.congestion.idle_cwnd = IdleCwnd::Keep;
    config.congestion.burst = BurstControl::MaxBurstCutsCwnd(4);
    config.acknowledging.sack_frequency = 1;
    config.timers.heartbeat_interval = Some(Duration::from_secs(3600));
    config.sending.send_buffer = 64 << 20;
    config.receiving.receive_buffer = RECEIVE_BUFFER;
    config.paths.path_max_retrans = 5;
    config.mtu = MtuConfig::fixed(1500);
    config
}

/// Room for five chunks with their bookkeeping, not for six.
const RECEIVE_BUFFER: usize = 9600;

/// The sender's behaviour after the cut.
struct Line {
    pair: Pair,
    first_tsn: u32,
    begun: Instant,
    /// Path 2's cwnd and flight size, in packets, at each change.
    windows: Vec<(u64, usize, usize)>,
}

impl Line {
    fn new(mode: MultipathMode) -> Self {
        let mut pair = Pair::connected(2, config(mode));
        // Measure path 2 as well, so that both RTOs are 1 s.
        let (now, second) = (pair.net.now(), pair.addresses[1][1]);
        pair.association_mut(0).request_heartbeat(now, second).unwrap();
        pair.run(Duration::from_millis(100));
        // A packet takes a millisecond, so acknowledgements arrive one by one.
        pair.net.set_links(LinkConfig::new().delay(Pair::DELAY).rate(12_000_000));
        let begun = pair.net.now();
        let (near, far) = (pair.addresses[0][0], pair.addresses[1][0]);
        let entered = Rc::new(RefCell::new(0));
        pair.net.script(move |sight| {
            // TSN 1 is in flight before the cut, TSN 2 only just.
            let before = sight.from == near && sight.has(kind::DATA) && {
                *entered.borrow_mut() += 1;
                *entered.borrow() == 1
            };
            let cut = sight.from == near || sight.from == far;
            if cut && !before { Verdict::Drop } else { Verdict::Pass }
        });
        pair.forget();
        for _ in 0..MESSAGES {
            assert!(pair.send(0, 0, vec![1; MESSAGE]));
        }
        pair.net.settle();
        let first_tsn = pair.sent(0).iter().flat_map(|(_, bytes)| tsns(bytes)).min();
        Self { pair, first_tsn: first_tsn.expect("data was sent"), begun, windows: Vec::new() }
    }

    fn millis(&self, at: Instant) -> u64 {
        at.saturating_since(self.begun).as_millis() as u64
    }

    /// Continues until this many milliseconds after the start.
    fn until(&mut self, millis: u64) {
        let end = self.begun + Duration::from_millis(millis);
        let begun = self.begun;
        let windows = &mut self.windows;
        let time = end.saturating_since(self.pair.net.now());
        self.pair.run_until(time, |pair| {
            let at = pair.net.now().saturating_since(begun).as_millis() as u64;
            let path = &pair.statistics(0).paths[1];
            let seen = (at, path.cwnd.div_ceil(1500), path.flight / MESSAGE);
            if windows.last().is_none_or(|last| (last.1, last.2) != (seen.1, seen.2)) {
                windows.push(seen);
            }
            false
        });
    }

    /// Packets of the sender as `milliseconds path TSN`.
    fn sent(&self) -> Vec<String> {
        let from = &self.pair.addresses[0];
        let mut lines = Vec::new();
        for (at, packet) in self.pair.net.trace.kept() {
            let Some(path) = from.iter().position(|local| *local == packet.from) else { continue };
            for chunk in Packet::parse(&packet.bytes).unwrap().chunks() {
                let what = match chunk.unwrap().decode().unwrap() {
                    Chunk::Data(data) => (data.tsn.0.wrapping_sub(self.first_tsn) + 1).to_string(),
                    Chunk::Heartbeat(_) => "HB".to_owned(),
                    _ => continue,
                };
                lines.push(format!("{} {} {what}", self.millis(*at), path + 1));
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

fn lines(lines: &[&str]) -> Vec<String> {
    lines.iter().map(|line| (*line).to_owned()).collect()
}

/// What both figures have up to the first timeout of path 1.
const BEGIN: [&str; 6] = ["0 1 1", "0 1 2", "0 2 3", "0 2 4", "21 2 5", "21 2 6"];

/// Path 2's window meanwhile: the acknowledgements of TSN 3 and 4 open it to four packets, those of 5
/// and 6 do not, because it is not full.
const BEGIN_WINDOWS: [(u64, usize, usize); 5] =
    [(0, 2, 2), (21, 3, 3), (21, 4, 2), (42, 4, 1), (42, 4, 0)];

#[test]
fn fig_4_2_cmt_is_blocked_again_and_again() {
    let mut line = Line::new(MultipathMode::Cmt);
    line.until(3050);
    let mut expected = lines(&BEGIN);
    // The timer of path 1 was restarted when TSN 1 was acknowledged. TSN 7 on path 1 waits for twice
    // as long.
    expected.extend(lines(&[
        "1021 2 2",
        "1042 1 7",
        "1042 2 8",
        "1042 2 9",
        "1042 2 10",
        "1042 2 11",
        "3042 2 7",
    ]));
    assert_eq!(line.sent(), expected);
    let mut expected = BEGIN_WINDOWS.to_vec();
    // Only the acknowledgement of TSN 8 comes while the window is full.
    expected.extend([(1021, 4, 1), (1042, 4, 0), (1042, 4, 4)]);
    expected.extend([(1063, 5, 3), (1064, 5, 2), (1064, 5, 1), (1065, 5, 0), (3042, 5, 1)]);
    assert_eq!(line.windows, expected);
    line.until(3070);
    assert_eq!(line.windows.last(), Some(&(3063, 4, 4)), "Max.Burst cuts it to four packets");

    // Each time one chunk takes path 1 and has to time out, after twice the time.
    line.until(70_000);
    let path_1: Vec<_> = line.sent().into_iter().filter(|line| line.contains(" 1 ")).collect();
    let expected = [
        "0 1 1",
        "0 1 2",
        "1042 1 7",
        "3063 1 16",
        "7084 1 25",
        "15105 1 34",
        "31126 1 43",
        // Six timeouts: the path has failed.
        "63126 1 HB",
    ];
    assert_eq!(path_1, lines(&expected));
    assert_eq!(line.pair.path_states(0), [PathState::Inactive, PathState::Active]);
    for again in ["1021 2 2", "3042 2 7", "7063 2 16", "15084 2 25", "31105 2 34", "63126 2 43"] {
        assert!(line.sent().contains(&again.to_owned()), "{again}");
    }
    let blocked = line.pair.statistics(0).blocking.receive_window;
    assert!(blocked.times >= 6 && blocked.with_timeouts > Duration::from_secs(62), "{blocked:?}");
}

#[test]
fn fig_4_4_cmt_pf_is_blocked_once() {
    let mut line = Line::new(MultipathMode::CmtPf);
    line.until(1050);
    let mut expected = lines(&BEGIN);
    expected.extend(lines(&[
        "1021 1 HB",
        "1021 2 2",
        "1042 2 7",
        "1042 2 8",
        "1042 2 9",
        "1042 2 10",
    ]));
    assert_eq!(line.sent(), expected);
    let mut expected = BEGIN_WINDOWS.to_vec();
    expected.extend([(1021, 4, 1), (1042, 4, 4)]);
    assert_eq!(line.windows, expected);
    assert_eq!(line.pair.path_states(0), [PathState::PotentiallyFailed, PathState::Active]);

    // Path 1 has only heartbeats, each after twice the time, until six timeouts have passed.
    line.until(63_000);
    assert_eq!(line.pair.path_states(0), [PathState::PotentiallyFailed, PathState::Active]);
    line.until(70_000);
    assert_eq!(line.pair.path_states(0), [PathState::Inactive, PathState::Active]);
    let sent = line.sent();
    let (path_1, path_2): (Vec<_>, Vec<_>) =
        sent.iter().cloned().partition(|line| line.contains(" 1 "));
    let heartbeats = ["1021", "3021", "7021", "15021", "31021", "63021"];
    let mut expected = lines(&["0 1 1", "0 1 2"]);
    expected.extend(heartbeats.map(|at| format!("{at} 1 HB")));
    assert_eq!(path_1, expected);
    // The rest goes over path 2, each once, and never waits for longer than a round trip.
    let number = |line: &String, word: usize| line.split(' ').nth(word).unwrap().parse::<u64>();
    let rest: Vec<_> = path_2.iter().filter(|line| number(line, 0).unwrap() >= 1042).collect();
    let tsns: Vec<_> = rest.iter().map(|line| number(line, 2).unwrap()).collect();
    assert_eq!(tsns, (7..=MESSAGES as u64).collect::<Vec<_>>());
    let times = rest.iter().map(|line| number(line, 0).unwrap());
    assert!(times.clone().zip(times.skip(1)).all(|(a, b)| b - a <= 23), "{rest:?}");
    let blocked = line.pair.statistics(0).blocking.receive_window;
    assert!(blocked.with_timeouts < Duration::from_millis(1100), "{blocked:?}");
}

/// Figs 4.10 to 4.12: what path 1 carries after its first timeout, round trip by round trip: packets
/// of new data, and cwnd in packets at its end. Nothing limits the sender but its windows.
fn after_a_timeout(mode: MultipathMode, recovered_cwnd_mtus: u32) -> Vec<(usize, usize)> {
    const FLIGHT: usize = 64;
    const ROUND: Duration = Duration::from_millis(20);
    let mut config = config(mode);
    config.multipath.recovered_cwnd_mtus = recovered_cwnd_mtus;
    // Half of it is the slow-start threshold after the timeout.
    config.congestion.initial_cwnd = InitialCwnd::Mtus(FLIGHT as u32);
    config.congestion.burst = BurstControl::Unlimited;
    config.receiving.receive_buffer = 64 << 20;
    let mut pair = Pair::connected(2, config);
    // A packet takes ten microseconds, so acknowledgements arrive one by one.
    pair.net.set_links(LinkConfig::new().delay(Pair::DELAY).rate(1_200_000_000));
    // Path 2 is slow, so it does not carry everything.
    let slow = LinkConfig::new().delay(Pair::DELAY).rate(12_000_000);
    pair.net.set_link(pair.addresses[0][1], pair.addresses[1][1], slow);
    let timeout = pair.net.now() + Duration::from_secs(1);
    let from = pair.addresses[0][0];
    pair.net.script(move |sight| {
        let lost = sight.from == from && sight.now < timeout && sight.has(kind::DATA);
        if lost { Verdict::Drop } else { Verdict::Pass }
    });
    for _ in 0..FLIGHT {
        assert!(pair.send(0, 0, vec![1; MESSAGE]));
    }
    pair.run(Duration::from_millis(999));
    let path_2 = pair.addresses[0][1];
    assert!(pair.net.trace.kept().iter().all(|(_, packet)| packet.from != path_2));
    // Before the window of path 1 is open again, path 2 takes as much as it can.
    for _ in 0..600 {
        assert!(pair.send(0, 0, vec![1; MESSAGE]));
    }
    pair.net.settle();
    pair.forget();
    let mut rounds = Vec::new();
    for round in 1..=6 {
        let end = timeout + ROUND * round - Duration::from_millis(2);
        pair.run(end.saturating_since(pair.net.now()));
        let kept = pair.net.trace.kept().iter();
        let data =
            kept.filter(|(_, packet)| packet.from == from && !tsns(&packet.bytes).is_empty());
        let path = &pair.statistics(0).paths[0];
        rounds.push((data.count(), path.cwnd.div_ceil(1500)));
        assert!(path.cwnd <= path.ssthresh, "slow start");
        pair.forget();
    }
    rounds
}

#[test]
fn figs_4_10_to_4_12_the_window_after_a_timeout() {
    // Data continues with a window of one packet.
    let cmt = after_a_timeout(MultipathMode::Cmt, 2);
    assert_eq!(cmt, [(1, 1), (2, 2), (4, 4), (8, 8), (16, 16), (32, 32)]);
    // A heartbeat takes the first round trip: PF1 is one round trip late, PF2 is not.
    let pf1 = after_a_timeout(MultipathMode::CmtPf, 1);
    assert_eq!(pf1, [(0, 1), (1, 1), (2, 2), (4, 4), (8, 8), (16, 16)]);
    let pf2 = after_a_timeout(MultipathMode::CmtPf, 2);
    assert_eq!(pf2, [(0, 1), (2, 2), (4, 4), (8, 8), (16, 16), (32, 32)]);
    // In total CMT has sent one packet more than PF2, however long it takes (nat 4.5.2.2).
    let sum = |rounds: &[(usize, usize)]| rounds.iter().map(|(sent, _)| sent).sum::<usize>();
    for rounds in 1..=6 {
        assert_eq!(sum(&cmt[..rounds]), (1 << rounds) - 1);
        assert_eq!(sum(&pf2[..rounds]), (1 << rounds) - 2);
    }
}
