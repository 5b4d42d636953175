//! Two connections over links of `anabranch-impair`.

mod bbr;
mod congestion;
mod recovery;

use std::collections::VecDeque;
use std::time::Duration;

use anabranch_impair::{Link, LinkConfig, Loss, Probability, QueueLimit, Rng, SendOutcome};
use anabranch_units::Instant;
use bytes::Bytes;
use proptest::prelude::*;

use crate::segment::Segment;
use crate::{Config, Connection, SlowStartLimit, Stats};

/// A client that sends a stream to a server over a link in each direction.
struct Pair {
    ends: [Connection; 2],
    links: [Link<Bytes>; 2],
    now: Instant,
    /// Bytes that the client has to send, and how many it has written.
    stream: Bytes,
    written: usize,
    /// The client's user writes no more than this many bytes for now.
    writes_up_to: usize,
    read: Vec<u8>,
    /// Data segments that the client sent: position in the stream and length.
    sent: Vec<(u64, usize)>,
    /// The server reads nothing before this time.
    reads_from: Instant,
    /// The client's link marks packets that find more than this in its queue; it keeps their order.
    marks_above: Option<usize>,
    /// Which packets on the client's link are marked.
    marks: VecDeque<bool>,
}

/// Bytes with little repetition.
fn stream(len: usize) -> Bytes {
    (0..len).map(|n| (n / 251 + n) as u8).collect()
}

/// 10 Mb/s, 20 ms each way, a queue of 50 packets, and IPv4 headers.
fn path() -> LinkConfig {
    LinkConfig::new()
        .overhead(20)
        .rate(10_000_000)
        .delay(Duration::from_millis(20))
        .queue(anabranch_impair::QueueLimit::Packets(50))
}

impl Pair {
    fn new(config: &Config, len: usize, forward: LinkConfig, backward: LinkConfig) -> Self {
        let mut server = Connection::accept(config.clone(), 80, u32::MAX - 5);
        server.finish();
        Self {
            ends: [Connection::connect(config.clone(), (1000, 80), u32::MAX - 1000), server],
            links: [Link::new(forward, 1).unwrap(), Link::new(backward, 2).unwrap()],
            now: Instant::ZERO,
            stream: stream(len),
            written: 0,
            writes_up_to: usize::MAX,
            read: Vec::new(),
            sent: Vec::new(),
            reads_from: Instant::ZERO,
            marks_above: None,
            marks: VecDeque::new(),
        }
    }

    /// Lets both ends do everything that they can do now.
    fn work(&mut self) {
        let client = &mut self.ends[0];
        let end = self.stream.len().min(self.writes_up_to);
        let rest = client.write_some(self.stream.slice(self.written..end));
        self.written = end - rest.len();
        if self.written == self.stream.len() {
            client.finish();
        }
        if self.now >= self.reads_from {
            while let Some(data) = self.ends[1].read() {
                self.read.extend_from_slice(&data);
            }
        }
        for (end, link) in self.ends.iter_mut().zip(&mut self.links) {
            while let Some(bytes) = end.poll_transmit(self.now) {
                let segment = Segment::decode(&bytes, true).unwrap();
                if segment.source == 1000 && !segment.payload.is_empty() {
                    let first = (u32::MAX - 1000).wrapping_add(1);
                    let position = segment.sequence.wrapping_sub(first);
                    self.sent.push((u64::from(position), segment.payload.len()));
                }
                let marks = self.marks_above.is_some_and(|most| link.queue_len() > most);
                let accepted = link.send(self.now.as_nanos(), bytes) == SendOutcome::Accepted;
                if accepted && segment.source == 1000 {
                    self.marks.push_back(marks && end.is_ecn_capable());
                }
            }
        }
    }

    /// Processes the next event; false if there is none.
    fn step(&mut self) -> bool {
        self.work();
        let links = self.links.iter().filter_map(|link| link.next_deadline());
        let ends = self.ends.iter().filter_map(Connection::next_deadline).map(Instant::as_nanos);
        let reader = (self.reads_from > self.now).then_some(self.reads_from.as_nanos());
        let Some(at) = links.chain(ends).chain(reader).min() else { return false };
        self.now = self.now.max(Instant::from_nanos(at));
        for (to, link) in [(1, 0), (0, 1)] {
            while let Some(bytes) = self.links[link].poll(self.now.as_nanos()) {
                let marked = to == 1 && self.marks.pop_front() == Some(true);
                if marked && self.marks_above.is_some() {
                    self.ends[to].handle_marked(self.now, bytes);
                } else {
                    self.ends[to].handle(self.now, bytes);
                }
            }
        }
        for end in &mut self.ends {
            if end.next_deadline().is_some_and(|at| at <= self.now) {
                end.handle_timeout(self.now);
            }
        }
        true
    }

    /// Runs to the end and checks that the whole stream has arrived. Returns the time in seconds.
    fn run(&mut self) -> f64 {
        while self.step() {
            assert!(self.now < Instant::from_secs(3600), "it does not end: {:?}", self.ends);
        }
        assert!(self.read == self.stream, "{} of {} bytes", self.read.len(), self.stream.len());
        let [client, server] = &self.ends;
        assert!(client.is_finished() && server.is_finished());
        assert!(client.is_at_end() && server.is_at_end());
        assert_eq!(client.stats().bytes_acknowledged, self.stream.len() as u64);
        self.now.as_secs_f64()
    }
}

/// Loses the packets with these numbers; the SYN is 1.
fn lose(numbers: &[u64]) -> LinkConfig {
    path().loss(Loss::positions(numbers.iter().copied()))
}

fn without_sack() -> Config {
    Config { sack: false, ..Config::default() }
}

#[test]
fn a_clean_path_is_filled() {
    // 4.03 s at the link's rate. Slow start overshoots the queue once and loses more than half of a window.
    // NewReno repairs one segment of it per round trip.
    for (config, most) in [(Config::default(), 5.5), (without_sack(), 8.0)] {
        let mut pair = Pair::new(&config, 4_900_000, path(), path());
        let seconds = pair.run();
        assert!(seconds < most, "{seconds}, sack: {}", config.sack);
        let stats = pair.ends[0].stats();
        assert_eq!(stats.timeouts, 0, "{stats:?}, sack: {}", config.sack);
        assert!(stats.recoveries >= 1 && stats.srtt > Some(Duration::from_millis(40)));
    }
}

/// The number of segments sent in each of the first round trips over a path of 200 ms that is never full.
fn segments_by_round_trip(config: &Config, trips: usize) -> Vec<usize> {
    let wide = || LinkConfig::new().rate(100_000_000).delay(Duration::from_millis(100));
    let mut pair = Pair::new(config, 900_000, wide(), wide());
    let mut counts = vec![0; trips];
    loop {
        // The SYN takes the first round trip.
        let trip = (pair.now.as_nanos() / 200_000_000).saturating_sub(1) as usize;
        let before = pair.sent.len();
        if trip >= trips || !pair.step() {
            return counts;
        }
        // What a step sends, it sends before time goes on.
        counts[trip] += pair.sent.len() - before;
    }
}

#[test]
fn slow_start_grows_as_hosts_acknowledge() {
    let ack_delay = Duration::from_millis(20);
    let limited = |slow_start_limit, quick_acks, window_update| {
        let config = Config { initial_window: 10, ack_delay, ..Config::default() };
        segments_by_round_trip(&Config { slow_start_limit, quick_acks, window_update, ..config }, 5)
    };
    // RFC 5681: half a window more for acknowledgements of two segments. The server's FIN acknowledges the first one.
    assert_eq!(limited(SlowStartLimit::One, 0, 2), [10, 16, 24, 36, 54]);
    // Sixteen of them come at once.
    assert_eq!(limited(SlowStartLimit::One, 16, 2), [10, 20, 33, 50, 75]);
    for limit in [SlowStartLimit::Two, SlowStartLimit::Unlimited] {
        assert_eq!(limited(limit, 0, 2), [10, 20, 40, 80, 160], "{limit:?}");
    }
    // Each segment is acknowledged.
    assert_eq!(limited(SlowStartLimit::One, 0, 1), [10, 20, 40, 80, 160]);
}

#[test]
fn one_loss_is_repaired_within_a_round_trip() {
    for config in [Config::default(), without_sack()] {
        // The 20th packet is well within slow start.
        let mut pair = Pair::new(&config, 200_000, lose(&[20]), path());
        pair.run();
        let stats = pair.ends[0].stats();
        let counts = (stats.retransmissions, stats.recoveries, stats.timeouts);
        assert_eq!(counts, (1, 1, 0), "sack: {}", config.sack);
    }
}

#[test]
fn many_losses_of_one_window_need_one_recovery() {
    let lost = [30, 32, 34, 37];
    let mut pair = Pair::new(&Config::default(), 400_000, lose(&lost), path());
    pair.run();
    let sack = pair.ends[0].stats();
    assert_eq!((sack.retransmissions, sack.recoveries, sack.timeouts), (4, 1, 0));

    let mut pair = Pair::new(&without_sack(), 400_000, lose(&lost), path());
    pair.run();
    let plain = pair.ends[0].stats();
    assert_eq!((plain.retransmissions, plain.recoveries, plain.timeouts), (4, 1, 0));
}

#[test]
fn limited_transmit_saves_a_small_window_from_the_timer() {
    // The initial window is three segments; the first is lost, and two acknowledgements come back.
    let with = {
        let mut pair = Pair::new(&Config::default(), 20_000, lose(&[2]), path());
        pair.run();
        pair.ends[0].stats()
    };
    assert_eq!((with.timeouts, with.recoveries), (0, 1));
    for sack in [true, false] {
        let config = Config { limited_transmit: false, sack, ..Config::default() };
        let mut pair = Pair::new(&config, 20_000, lose(&[2]), path());
        pair.run();
        assert_eq!(pair.ends[0].stats().timeouts, 1, "sack: {sack}");
    }
}

#[test]
fn a_lost_retransmission_waits_for_the_timer_and_the_window_starts_again() {
    // A run that loses only the first copy shows when packet 20 is retransmitted.
    let mut probe = Pair::new(&Config::default(), 100_000, lose(&[20]), path());
    probe.run();
    // Packet numbers begin with the SYN, 1.
    let lost = probe.sent[20 - 2];
    let again = probe.sent.iter().rposition(|sent| *sent == lost).unwrap();
    assert!(again > 18);
    let numbers = [20, again as u64 + 2];
    let mut pair = Pair::new(&Config::default(), 100_000, lose(&numbers), path());
    pair.run();
    let stats = pair.ends[0].stats();
    assert_eq!(stats.timeouts, 1);
    // Half of the window after recovery, although much more was outstanding by then.
    assert!(stats.ssthresh < 20_000, "{stats:?}");
    let copies = pair.sent.iter().filter(|sent| **sent == lost).count();
    assert_eq!(copies, 3);
}

#[test]
fn lost_handshakes_are_repeated() {
    for (forward, backward) in [(vec![1, 2], vec![]), (vec![], vec![1]), (vec![2], vec![])] {
        let mut pair = Pair::new(&Config::default(), 3000, lose(&forward), lose(&backward));
        let seconds = pair.run();
        let slow = if forward.len() == 2 { 3.0 } else { 0.0 };
        assert!(seconds >= slow && seconds < slow + 2.5, "{seconds}");
    }
}

#[test]
fn a_handshake_on_a_long_path_measures_nothing() {
    // SYN and SYN ACK are both sent twice before they are answered; the second SYN ACK answers the copy of the SYN,
    // because the server's own timer runs longer.
    let long = || LinkConfig::new().delay(Duration::from_millis(540));
    let mut pair = Pair::new(&Config::default(), 0, long(), long());
    let slower = Config { rto_initial: Duration::from_millis(1500), ..Config::default() };
    let mut server = Connection::accept(slower, 80, 7);
    assert!(server.write_some(stream(3000)).is_empty());
    server.finish();
    pair.ends[1] = server;
    while pair.step() {}
    let stats = pair.ends[1].stats();
    assert_eq!((stats.bytes_acknowledged, stats.handshake_retransmissions), (3000, 1));
    // RFC 6298 section 5.7: 3 s, not the remainder of a round trip after the second SYN ACK.
    assert_eq!(stats.timeouts, 0);
}

#[test]
fn a_closed_window_is_probed_until_it_opens() {
    let config = Config { receive_buffer: 30_000, ..Config::default() };
    // The update that opens the window is lost, along with everything else that the server sends in a second.
    let cut = path().loss(Loss::Uniform(Probability::percent(30)));
    let mut pair = Pair::new(&config, 100_000, path(), cut);
    pair.reads_from = Instant::from_secs(200);
    let seconds = pair.run();
    assert!(seconds > 200.0 && seconds < 270.0, "{seconds}");
    assert!(!pair.ends[0].is_dead());
}

#[test]
fn silence_ends_a_connection() {
    let config = Config { max_timeouts: 4, ..Config::default() };
    let mut pair = Pair::new(&config, 10_000, path(), path());
    while pair.read.is_empty() {
        assert!(pair.step());
    }
    let dead = || path().loss(Loss::Uniform(Probability::percent(100)));
    pair.links = [Link::new(dead(), 1).unwrap(), Link::new(dead(), 2).unwrap()];
    pair.stream = stream(20_000);
    while pair.step() {}
    assert!(pair.ends[0].is_dead() && pair.now < Instant::from_secs(120));

    // A SYN is not answered either.
    let mut pair = Pair::new(&config, 10, dead(), dead());
    while pair.step() {}
    assert!(pair.ends[0].is_dead());
}

#[test]
fn a_reset_is_believed_only_at_the_right_place() {
    let mut pair = Pair::new(&Config::default(), 10_000, path(), path());
    while !pair.ends[0].is_open() || pair.read.is_empty() {
        assert!(pair.step());
    }
    let forged = Segment { source: 1000, destination: 80, rst: true, ..Segment::default() };
    pair.ends[1].handle(pair.now, forged.encode(true));
    assert!(pair.ends[1].is_open());
    pair.ends[0].reset();
    while pair.step() {}
    assert!(pair.ends[0].is_dead() && pair.ends[1].is_dead());
}

#[test]
fn two_ends_that_open_at_once_are_one_connection() {
    let mut pair = Pair::new(&Config::default(), 50_000, path(), path());
    pair.ends[1] = Connection::connect(Config::default(), (80, 1000), 77);
    pair.ends[1].finish();
    pair.run();
}

#[test]
fn two_flows_share_a_link() {
    let mut links: [Link<Bytes>; 2] =
        [Link::new(path(), 1).unwrap(), Link::new(path(), 2).unwrap()];
    let config = Config::default();
    let mut flows: Vec<[Connection; 2]> = (0..2)
        .map(|n| {
            let client = Connection::connect(config.clone(), (1000 + n, 80 + n), 1);
            [client, Connection::accept(config.clone(), 80 + n, 1)]
        })
        .collect();
    let (mut now, end) = (Instant::ZERO, Instant::from_secs(120));
    let mut read = [0_usize; 2];
    let block = Bytes::from(vec![0; 1 << 20]);
    while now < end {
        for (flow, read) in flows.iter_mut().zip(&mut read) {
            flow[0].write(block.clone());
            while let Some(data) = flow[1].read() {
                *read += data.len();
            }
            for (end, link) in flow.iter_mut().zip(&mut links) {
                while let Some(bytes) = end.poll_transmit(now) {
                    link.send(now.as_nanos(), bytes);
                }
            }
        }
        let deadlines = flows.iter().flatten().filter_map(Connection::next_deadline);
        let deadlines = deadlines.map(Instant::as_nanos);
        let next = deadlines.chain(links.iter().filter_map(Link::next_deadline)).min().unwrap();
        now = now.max(Instant::from_nanos(next));
        for (to, link) in [(1, 0), (0, 1)] {
            while let Some(bytes) = links[link].poll(now.as_nanos()) {
                // Each end accepts only segments for its ports.
                flows.iter_mut().for_each(|flow| flow[to].handle(now, bytes.clone()));
            }
        }
        flows.iter_mut().flatten().for_each(|end| end.handle_timeout(now));
    }
    let (a, b) = (read[0] as f64, read[1] as f64);
    let jain = (a + b) * (a + b) / (2.0 * (a * a + b * b));
    assert!(jain > 0.95, "{read:?}");
    assert!(a + b > 0.9 * 120.0 * 1_250_000.0 * 1460.0 / 1500.0, "{read:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Whatever the network does, the stream arrives completely and nothing hangs.
    #[test]
    fn bad_networks_spoil_nothing(
        seed in any::<u64>(),
        sack in any::<bool>(),
        (loss, duplicates, held) in (0_u32..25, 0_u32..10, 1_u32..10),
        config in recovery::any_config(),
        receive_buffer in 2_000_u32..200_000,
        len in 1_usize..150_000,
    ) {
        let bad = path()
            .loss(Loss::Uniform(Probability::percent(loss)))
            .duplicate(Probability::percent(duplicates))
            .reorder(Probability::percent(held), Duration::from_millis(30));
        let config = Config { sack, receive_buffer, max_timeouts: 100, ..config };
        let mut pair = Pair::new(&config, len, bad.clone(), bad.clone());
        let mut rng = Rng::new(seed);
        pair.links = [
            Link::new(bad.clone(), rng.next_u64()).unwrap(),
            Link::new(bad, rng.next_u64()).unwrap(),
        ];
        pair.run();
    }

    /// Arbitrary segments do no harm.
    #[test]
    fn any_segments_are_survived(
        segments in proptest::collection::vec(
            (any::<(u32, u32, u16)>(), any::<(bool, bool, bool)>(), any::<[(u32, u32); 2]>(), 0..40_usize),
            0..40,
        ),
        config in recovery::any_config(),
        echo in any::<(u32, u32)>(),
    ) {
        let mut pair = Pair::new(&config, 30_000, path(), path());
        for _ in 0..40 {
            pair.step();
        }
        for ((sequence, ack, window), (syn, fin, near), blocks, len) in segments {
            for (number, end) in pair.ends.iter_mut().enumerate() {
                let ports = [(80, 1000), (1000, 80)][number];
                let base = if near { [(u32::MAX - 5), u32::MAX - 1000][number] } else { 0 };
                let segment = Segment {
                    source: ports.0,
                    destination: ports.1,
                    sequence: base.wrapping_add(sequence >> if near { 18 } else { 0 }),
                    acknowledgment: Some(ack),
                    syn,
                    fin,
                    window,
                    blocks: [Some(blocks[0]), Some(blocks[1]), None, None],
                    timestamps: Some(echo),
                    payload: Bytes::from(vec![0; len]),
                    ..Segment::default()
                };
                end.handle(pair.now, segment.encode(true));
                while end.poll_transmit(pair.now).is_some() {}
                while end.read().is_some() {}
            }
        }
    }
}

/// Sends the stream over a link that marks what exceeds a queue; returns the sender's numbers.
fn over_marking_router(ecn: bool) -> Stats {
    let config = Config { ecn, ..Config::default() };
    let link = path().queue(QueueLimit::Packets(60));
    let mut pair = Pair::new(&config, 2_000_000, link, path());
    pair.marks_above = ecn.then_some(4);
    pair.run();
    pair.ends[0].stats()
}

#[test]
// RFC 3168 section 6.1.2.
fn marks_slow_the_sender_before_anything_is_lost() {
    let (without, with) = (over_marking_router(false), over_marking_router(true));
    assert!(without.retransmissions > 0 && without.ecn_reductions == 0, "{without:?}");
    assert!(with.retransmissions == 0 && with.ecn_reductions >= 3, "{with:?}");
}
