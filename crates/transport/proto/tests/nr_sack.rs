//! Non-renegable acknowledgements: negotiation, the receiver's reports, the memory that the sender
//! frees, and lying peers.

use std::time::Duration;

use anabranch_harness::hostile::{Mutator, mutate};
use anabranch_harness::{Pair, Verdict, craft, hostile};
use anabranch_impair::{LinkConfig, Loss, Probability, Rng};
use anabranch_proto::config::{IdleCwnd, InitialCwnd};
use anabranch_proto::{
    AssociationConfig, BurstControl, CloseReason, Event, Features, Notification, OutgoingMessage,
    Ppid, Statistics,
};
use anabranch_wire::{Chunk, Data, DataFlags, GapBlock, NrSack, Packet, Shutdown, Ssn, Tsn, kind};

const LONG: Duration = Duration::from_secs(2000);
/// Length of the messages, one chunk each.
const LENGTH: usize = 1000;

fn config() -> AssociationConfig {
    let mut config = AssociationConfig::rfc9260();
    config.timers.heartbeat_interval = None;
    config.mtu.discovery = false;
    config.congestion.initial_cwnd = InitialCwnd::Mtus(20);
    config.congestion.idle_cwnd = IdleCwnd::Keep;
    config.congestion.burst = BurstControl::Unlimited;
    config.acknowledging.nr_sack = true;
    config
}

fn may_renege() -> AssociationConfig {
    let mut config = config();
    config.receiving.never_renege = false;
    config
}

fn unordered(length: usize) -> OutgoingMessage {
    OutgoingMessage { unordered: true, ..OutgoingMessage::new(0, Ppid(0), vec![7; length]) }
}

/// The NR-SACKs in packets, as cumulative TSN, renegable and non-renegable blocks.
type Report = (u32, Vec<(u16, u16)>, Vec<(u16, u16)>);

fn reports(pair: &Pair, node: usize) -> Vec<Report> {
    let list = |blocks: anabranch_wire::GapBlocks<'_>| {
        blocks.iter().map(|block| (block.start, block.end)).collect()
    };
    let mut reports = Vec::new();
    for (_, bytes) in pair.sent(node) {
        for chunk in Packet::parse(&bytes).unwrap().chunks() {
            if let Ok(Chunk::NrSack(sack)) = chunk.unwrap().decode() {
                let NrSack { cumulative_tsn_ack, gap_blocks, nr_gap_blocks, .. } = sack;
                reports.push((cumulative_tsn_ack.0, list(gap_blocks), list(nr_gap_blocks)));
            }
        }
    }
    reports
}

/// A node with `count` unordered messages in flight to a peer that is silent from now on.
struct Sender {
    pair: Pair,
    /// TSN of the first message.
    first: u32,
}

impl Sender {
    fn new(config: AssociationConfig, count: usize) -> Self {
        let mut pair = Pair::connected(1, config);
        pair.net.script(|sight| if sight.node == 1 { Verdict::Drop } else { Verdict::Pass });
        for _ in 0..count {
            let now = pair.net.now();
            pair.association_mut(0).send(now, unordered(LENGTH)).unwrap();
        }
        pair.run(Duration::from_millis(20));
        let sent = pair.sent(0);
        assert_eq!(sent.len(), count, "all in flight");
        let packet = Packet::parse(&sent[0].1).unwrap();
        let Ok(Chunk::Data(data)) = packet.chunks().next().unwrap().unwrap().decode() else {
            panic!("no DATA")
        };
        let first = data.tsn.0;
        Self { pair, first }
    }

    /// The peer acknowledges everything before message `next`, and blocks of messages, renegable
    /// and non-renegable ones, all counted from 0.
    fn nr_sack(&mut self, next: u16, gaps: &[(u16, u16)], nr_gaps: &[(u16, u16)]) {
        let cumulative = Tsn(self.first.wrapping_add(u32::from(next)).wrapping_sub(1));
        let list = |blocks: &[(u16, u16)]| -> Vec<GapBlock> {
            let offset = |message: u16| message.wrapping_sub(next).wrapping_add(1);
            blocks.iter().map(|b| GapBlock { start: offset(b.0), end: offset(b.1) }).collect()
        };
        let (gaps, nr_gaps) = (list(gaps), list(nr_gaps));
        let bytes = craft::packet(self.pair.header(1), |w| {
            w.nr_sack(cumulative, 100_000, &gaps, &nr_gaps, &[])
        });
        self.pair.inject(0, bytes);
    }

    fn sack(&mut self, next: u16) {
        let cumulative = Tsn(self.first.wrapping_add(u32::from(next)).wrapping_sub(1));
        let header = self.pair.header(1);
        self.pair.inject(0, craft::packet(header, |w| w.sack(cumulative, 100_000, &[], &[])));
    }

    fn statistics(&self) -> Statistics {
        self.pair.statistics(0)
    }

    /// Messages that are stored.
    fn kept(&self) -> usize {
        self.statistics().retransmission_queue.bytes / LENGTH
    }

    /// Messages in flight.
    fn in_flight(&self) -> usize {
        self.statistics().outstanding_bytes / LENGTH
    }

    /// Numbers of the messages sent since the last call.
    fn sent(&mut self) -> Vec<u32> {
        let mut numbers = Vec::new();
        for (_, bytes) in self.pair.sent(0) {
            for chunk in Packet::parse(&bytes).unwrap().chunks() {
                if let Ok(Chunk::Data(data)) = chunk.unwrap().decode() {
                    assert_eq!(data.payload, vec![7; LENGTH]);
                    numbers.push(data.tsn.0.wrapping_sub(self.first));
                }
            }
        }
        self.pair.forget();
        numbers
    }
}

#[test]
fn nr_sacks_are_used_if_both_sides_want_them() {
    for (client, server) in [(true, true), (true, false), (false, true), (false, false)] {
        let with = |nr_sack| {
            let mut config = config();
            config.acknowledging.nr_sack = nr_sack;
            config
        };
        let mut pair = Pair::new(1, with(server));
        pair.connect(with(client));
        assert!(pair.run_until(LONG, |pair| pair.both_up()));
        assert!(pair.send(0, 0, vec![1; 5000]) && pair.send(1, 0, vec![1; 5000]));
        pair.run(Duration::from_secs(1));
        for node in [0, 1] {
            let told = pair.events[node].iter().find_map(|event| match event {
                Event::Notification(Notification::Up { features, .. }) => {
                    Some(features.has(Features::NR_SACK))
                }
                _ => None,
            });
            assert_eq!(told, Some(client && server));
            assert_eq!(pair.received_len(node), 5000);
            let counts = [pair.count(node, kind::NR_SACK), pair.count(node, kind::SACK)];
            assert_eq!(counts.map(|count| count > 0), [client && server, !(client && server)]);
            let statistics = pair.statistics(node);
            assert_eq!(statistics.nr_sack, client && server);
            let counters = statistics.counters;
            assert_eq!(counters.sacks_sent, counts.iter().sum::<usize>() as u64);
            assert_eq!(counters.nr_sacks_sent, counts[0] as u64);
            let other = pair.statistics(1 - node).counters;
            assert_eq!(counters.nr_sacks_sent, other.nr_sacks_received);
        }
    }
}

#[test]
fn what_is_acknowledged_for_good_is_freed_between_holes() {
    let mut sender = Sender::new(config(), 10);
    let free = sender.pair.association(0).unwrap().send_buffer_free();
    sender.nr_sack(0, &[], &[(1, 3), (5, 5)]);
    assert_eq!((sender.kept(), sender.in_flight()), (6, 6));
    let statistics = sender.statistics();
    assert_eq!(statistics.outstanding_chunks, 10, "placeholders");
    let association = sender.pair.association(0).unwrap();
    assert_eq!(association.send_buffer_free(), free + 4 * LENGTH);
    assert_eq!(association.pending_bytes(), 6 * LENGTH);
    // Renegable data is stored, and freed when it becomes non-renegable.
    sender.nr_sack(0, &[(7, 8)], &[(1, 3), (5, 5)]);
    assert_eq!((sender.kept(), sender.in_flight()), (6, 4));
    sender.nr_sack(0, &[(8, 8)], &[(1, 3), (5, 5), (7, 7)]);
    assert_eq!((sender.kept(), sender.in_flight()), (5, 4));
    sender.nr_sack(4, &[], &[(5, 5), (7, 8)]);
    assert_eq!((sender.kept(), sender.in_flight()), (3, 3), "4, 6 and 9");
    assert_eq!(sender.statistics().outstanding_chunks, 6);
}

/// For everything but memory a non-renegable block is a gap ack block.
#[test]
fn nothing_but_memory_differs_from_a_sack() {
    let run = |good: bool| {
        let mut sender = Sender::new(config(), 12);
        let mut seen = Vec::new();
        for (next, blocks) in [
            (0, &[(1, 1)][..]),
            (0, &[(1, 2), (4, 4)]),
            (0, &[(1, 2), (4, 6)]),
            (3, &[(4, 8)]),
            (9, &[(10, 10)]),
            (12, &[]),
        ] {
            let (gaps, nr_gaps) = if good { (&[][..], blocks) } else { (blocks, &[][..]) };
            sender.nr_sack(next, gaps, nr_gaps);
            let statistics = sender.statistics();
            let path = statistics.paths[0];
            seen.push((
                sender.sent(),
                (path.cwnd, path.ssthresh, path.flight, path.srtt, path.rto),
                (statistics.peer_rwnd, statistics.outstanding_bytes, statistics.counters),
            ));
            sender.pair.run(Duration::from_millis(3));
        }
        let queue = sender.statistics().retransmission_queue;
        (seen, queue.mean_bytes, queue.acknowledged_share)
    };
    let (sack, nr_sack) = (run(false), run(true));
    assert_eq!(sack.0, nr_sack.0);
    let retransmitted: usize = sack.0[1..].iter().map(|step| step.0.len()).sum();
    assert_eq!(retransmitted, 2, "the holes, by missing reports");
    assert!(nr_sack.1 < sack.1, "{} and {} bytes in the mean", nr_sack.1, sack.1);
    assert!(nr_sack.2 == 0.0 && sack.2 > 0.0);
}

#[test]
fn what_was_said_for_good_stays_so_whatever_comes() {
    let again: &[fn(&mut Sender)] = &[
        // An old one that the network delayed, or a peer that changes its mind.
        |sender| sender.nr_sack(0, &[], &[(5, 5)]),
        |sender| sender.nr_sack(0, &[], &[]),
        |sender| sender.nr_sack(0, &[(1, 3), (5, 5)], &[]),
        // One without blocks, as with a SHUTDOWN or from a peer that claims more than it supports.
        |sender| sender.sack(0),
    ];
    for lie in again {
        let mut sender = Sender::new(config(), 8);
        sender.nr_sack(0, &[], &[(1, 3), (5, 5)]);
        lie(&mut sender);
        assert_eq!((sender.kept(), sender.in_flight()), (4, 4));
        sender.sent();
        // The timer sends the rest again, and nothing else.
        sender.pair.run(Duration::from_millis(1500));
        let mut sent = sender.sent();
        sender.nr_sack(1, &[], &[(1 + 3, 5)]);
        assert!(sender.pair.closed[0].is_some() || !sent.is_empty());
        sent.retain(|number| [1, 2, 3, 5].contains(number));
        assert!(sent.is_empty(), "what is gone was sent again: {sent:?}");
    }
}

#[test]
fn the_rest_is_repaired_around_what_was_freed() {
    let mut sender = Sender::new(config(), 8);
    sender.nr_sack(0, &[], &[(1, 3), (5, 5)]);
    sender.sent();
    sender.pair.run(Duration::from_millis(1500));
    assert_eq!(sender.sent(), [0], "by the timer, one packet");
    sender.nr_sack(4, &[], &[(5, 7)]);
    assert_eq!((sender.kept(), sender.in_flight()), (1, 1));
    assert_eq!(sender.sent(), [4], "when something has arrived");
    sender.nr_sack(8, &[], &[]);
    assert_eq!(sender.statistics().outstanding_chunks, 0);
    assert_eq!(sender.statistics().retransmission_queue.bytes, 0);
    assert!(sender.pair.closed[0].is_none());
}

/// A receiver can also report that it reneged with a SHUTDOWN, which has no blocks.
#[test]
fn what_the_cumulative_tsn_of_a_shutdown_leaves_out_is_missing() {
    let mut sender = Sender::new(config(), 4);
    sender.nr_sack(1, &[(2, 3)], &[]);
    assert_eq!(sender.in_flight(), 1);
    sender.sent();
    let cumulative = Tsn(sender.first.wrapping_add(1));
    let shutdown = Chunk::Shutdown(Shutdown { cumulative_tsn_ack: cumulative });
    let header = sender.pair.header(1);
    sender.pair.inject(0, craft::packet(header, |w| w.chunk(&shutdown)));
    assert_eq!((sender.kept(), sender.in_flight()), (2, 1), "of 3 it says nothing");
    sender.pair.run(Duration::from_millis(1500));
    assert_eq!(sender.sent(), [2]);
}

#[test]
fn blocks_may_overlap_and_come_in_any_order() {
    let mut sender = Sender::new(config(), 10);
    sender.nr_sack(0, &[(2, 6), (4, 7)], &[(5, 5), (3, 5), (1, 1)]);
    assert_eq!((sender.in_flight(), sender.kept()), (10 - 7, 10 - 4));
    assert!(sender.pair.closed[0].is_none());
}

/// An impossible block is ignored, and the rest of the chunk counts. A non-renegable block with the next
/// TSN contradicts the cumulative TSN; it counts like a gap ack block, and nothing is freed.
#[test]
fn blocks_that_cannot_be_are_passed_over() {
    for (gaps, nr_gaps, kept, in_flight) in [
        (&[][..], &[(0, 3)][..], 8, 4),
        (&[], &[(u16::MAX, 3)], 8, 8),
        (&[], &[(3, 2)], 8, 8),
        (&[(2, 3)], &[(5, 4)], 8, 6),
        (&[(3, 2)], &[(4, 4)], 7, 7),
    ] {
        let mut sender = Sender::new(config(), 8);
        sender.nr_sack(0, gaps, nr_gaps);
        let seen = (sender.kept(), sender.in_flight());
        assert_eq!(seen, (kept, in_flight), "{gaps:?} {nr_gaps:?}");
        // The right one counts.
        sender.nr_sack(8, &[], &[]);
        assert_eq!(sender.statistics().outstanding_chunks, 0);
    }
}

#[test]
fn what_was_never_sent_or_is_taken_back_ends_the_association() {
    type Lie = fn(&mut Sender);
    let lies: &[(&str, Lie)] = &[
        ("never sent", |sender| sender.nr_sack(0, &[], &[(2, 8)])),
        ("never sent", |sender| sender.nr_sack(0, &[], &[(1000, 1000)])),
        // The next TSN that the peer wants is one that it had for good.
        ("takes back", |sender| sender.nr_sack(2, &[], &[])),
        ("takes back", |sender| sender.nr_sack(2, &[(4, 4)], &[(3, 3), (5, 5)])),
        ("takes back", |sender| sender.sack(5)),
    ];
    for (what, lie) in lies {
        let mut sender = Sender::new(config(), 8);
        sender.nr_sack(0, &[], &[(2, 3), (5, 5)]);
        sender.pair.forget();
        lie(&mut sender);
        let Some(CloseReason::ProtocolViolation(why)) = sender.pair.closed[0] else {
            panic!("{what}: {:?}", sender.pair.closed[0])
        };
        assert!(why.contains(what), "{why}");
        assert_eq!(sender.pair.count(0, kind::ABORT), 1);
    }
}

#[test]
fn every_message_that_is_not_acknowledged_cumulatively_comes_back() {
    let mut sender = Sender::new(config(), 8);
    sender.nr_sack(1, &[(3, 3)], &[(4, 6)]);
    sender.pair.abort(0);
    sender.pair.run(Duration::from_millis(1));
    let failed: Vec<usize> = (sender.pair.events[0].iter())
        .filter_map(|event| match event {
            Event::Notification(Notification::SendFailed { message, sent: true }) => {
                Some(message.data.len())
            }
            _ => None,
        })
        .collect();
    // The peer has three for good, and perhaps its user has, too: nothing of them is left here.
    assert_eq!(failed, [LENGTH, LENGTH, LENGTH, 0, 0, 0, LENGTH]);
}

#[test]
fn without_an_agreement_an_nr_sack_says_nothing() {
    let mut config = config();
    config.acknowledging.nr_sack = false;
    let mut sender = Sender::new(config, 8);
    sender.nr_sack(0, &[], &[(1, 3)]);
    sender.nr_sack(8, &[], &[]);
    assert_eq!((sender.kept(), sender.in_flight()), (8, 8));
    assert_eq!(sender.statistics().counters.sacks_received, 0);
}

/// The receiver's side: messages by hand.
struct Receiver {
    pair: Pair,
    /// The next TSN when nothing had come.
    first: u32,
}

impl Receiver {
    fn new(config: AssociationConfig) -> Self {
        let mut pair = Pair::connected(1, config);
        assert!(pair.send(0, 0, vec![7; 4]));
        pair.run(Duration::from_secs(1));
        let last = reports(&pair, 1).pop().expect("an NR-SACK").0;
        Self { pair, first: last.wrapping_add(1) }
    }

    /// A chunk on stream `stream`; returns the answer, with the cumulative TSN counted as chunks
    /// are.
    fn data(&mut self, number: u32, stream: u16, ssn: u16, flags: &str, len: usize) -> Report {
        let has = |letter, flag| if flags.contains(letter) { flag } else { 0 };
        let data = Data {
            flags: DataFlags(
                has('B', DataFlags::BEGIN)
                    | has('E', DataFlags::END)
                    | has('U', DataFlags::UNORDERED),
            ),
            tsn: Tsn(self.first.wrapping_add(number)),
            stream,
            ssn: Ssn(ssn),
            ppid: Ppid(0),
            payload: &vec![7; len],
        };
        self.pair.forget();
        let header = self.pair.header(0);
        self.pair.inject(1, craft::packet(header, |w| w.data(&data)));
        let (cumulative, gaps, nr_gaps) = reports(&self.pair, 1).pop().expect("an NR-SACK");
        (cumulative.wrapping_sub(self.first).wrapping_add(1), gaps, nr_gaps)
    }
}

#[test]
fn a_receiver_that_never_reneges_says_so_of_everything() {
    let mut receiver = Receiver::new(config());
    assert_eq!(receiver.data(2, 1, 1, "BE", 100), (0, vec![], vec![(3, 3)]));
    assert_eq!(receiver.data(4, 2, 0, "B", 100), (0, vec![], vec![(3, 3), (5, 5)]));
    assert_eq!(receiver.data(0, 1, 0, "BE", 100), (1, vec![], vec![(2, 2), (4, 4)]));
}

#[test]
fn what_can_be_delivered_is_non_renegable_and_the_rest_is_not() {
    let mut receiver = Receiver::new(may_renege());
    // Stream 1 waits for its first message, which chunk 0 belongs to; stream 2 waits for nothing.
    assert_eq!(receiver.data(2, 1, 1, "BE", 100), (0, vec![(3, 3)], vec![]));
    assert_eq!(receiver.data(3, 2, 0, "BE", 100), (0, vec![(3, 3)], vec![(4, 4)]));
    // An incomplete message, and an unordered one.
    assert_eq!(receiver.data(4, 2, 1, "B", 100), (0, vec![(3, 3), (5, 5)], vec![(4, 4)]));
    assert_eq!(receiver.data(6, 3, 9, "BEU", 100), (0, vec![(3, 3), (5, 5)], vec![(4, 4), (7, 7)]));
    // The rest of the message; with it all of it can be delivered.
    assert_eq!(receiver.data(5, 2, 1, "E", 100), (0, vec![(3, 3)], vec![(4, 7)]));
    assert_eq!(receiver.data(8, 1, 2, "BE", 100), (0, vec![(3, 3), (9, 9)], vec![(4, 7)]));
    // What stream 1 waits for brings all that it held with it.
    assert_eq!(receiver.data(0, 1, 0, "BE", 100), (1, vec![], vec![(2, 6), (8, 8)]));
    assert_eq!(receiver.pair.statistics(1).counters.reneged_chunks, 0);
}

#[test]
fn under_pressure_only_renegable_data_is_dropped_and_the_highest_first() {
    let mut config = may_renege();
    config.receiving.receive_buffer = 9000;
    let mut receiver = Receiver::new(config);
    // The user reads nothing, so deliverable data takes room as well.
    receiver.pair.reads[1] = false;
    receiver.data(9, 0, 0, "BEU", 1000);
    for number in [3, 4, 5, 6, 7] {
        receiver.data(number, 1, number as u16, "BE", 1000);
    }
    let (_, gaps, nr_gaps) = receiver.data(8, 0, 0, "BEU", 1000);
    assert_eq!((gaps, nr_gaps), (vec![(4, 8)], vec![(9, 10)]), "the buffer is nearly full");
    // Above all data that may be dropped: nothing is dropped for it.
    receiver.data(20, 1, 20, "BE", 1000);
    assert_eq!(receiver.pair.statistics(1).counters.reneged_chunks, 0);
    assert_eq!(receiver.pair.statistics(1).counters.dropped_chunks, 1);
    // Below it: half of it goes.
    let (_, gaps, nr_gaps) = receiver.data(1, 1, 1, "BE", 1000);
    assert_eq!((gaps, nr_gaps), (vec![(2, 2), (4, 5)], vec![(9, 10)]));
    assert_eq!(receiver.pair.statistics(1).counters.reneged_chunks, 3);
    // Dropped data is retransmitted, and everything is delivered once and in order.
    for number in [0, 2, 3, 4, 5, 6, 7, 8, 9] {
        let (stream, flags) = if number >= 8 { (0, "BEU") } else { (1, "BE") };
        receiver.pair.reads[1] = true;
        receiver.data(number, stream, number as u16, flags, 1000);
    }
    let received = &receiver.pair.received[1];
    assert_eq!(received.iter().filter(|message| message.stream == 1).count(), 8);
    assert_eq!(received.iter().filter(|message| message.unordered).count(), 2);
    assert_eq!(receiver.pair.statistics(1).receive_buffer_used, 0);
}

#[test]
fn a_receiver_that_never_reneges_drops_nothing() {
    let mut config = config();
    config.receiving.receive_buffer = 8000;
    let mut receiver = Receiver::new(config);
    receiver.pair.reads[1] = false;
    for number in 3..10 {
        receiver.data(number, 1, number as u16, "BE", 1000);
    }
    let (_, _, before) = receiver.data(20, 1, 20, "BE", 1000);
    let (_, gaps, nr_gaps) = receiver.data(1, 1, 1, "BE", 1000);
    assert_eq!((gaps, &nr_gaps), (vec![], &before));
    assert_eq!(receiver.pair.statistics(1).counters.reneged_chunks, 0);
}

/// Each NR-SACK becomes the SACK of a peer that promised more than it does.
#[derive(Debug)]
struct PlainSacks;

impl Mutator for PlainSacks {
    fn mutate(&mut self, mut packet: hostile::Draft, _: &mut Rng, out: &mut Vec<hostile::Draft>) {
        for chunk in packet.chunks.iter_mut().filter(|chunk| chunk.kind == kind::NR_SACK) {
            let value = &chunk.value;
            let half = |at: usize| u16::from_be_bytes([value[at], value[at + 1]]);
            let blocks = half(8) + half(10);
            let mut sack = value[..8].to_vec();
            sack.extend_from_slice(&blocks.to_be_bytes());
            sack.extend_from_slice(&half(12).to_be_bytes());
            sack.extend_from_slice(&value[16..]);
            (chunk.kind, chunk.value) = (kind::SACK, sack);
        }
        out.push(packet);
    }
}

/// Each acknowledgement announces more room than there is, so the sender overruns the buffer.
#[derive(Debug)]
struct WideWindow;

impl Mutator for WideWindow {
    fn mutate(&mut self, mut packet: hostile::Draft, _: &mut Rng, out: &mut Vec<hostile::Draft>) {
        for chunk in &mut packet.chunks {
            if [kind::SACK, kind::NR_SACK].contains(&chunk.kind) {
                chunk.value[4..8].copy_from_slice(&60_000_u32.to_be_bytes());
            }
        }
        out.push(packet);
    }
}

/// All of `node`'s acknowledgements lie about which data is non-renegable: gap blocks change their
/// kind randomly.
#[derive(Debug)]
struct Mood;

impl Mutator for Mood {
    fn mutate(&mut self, mut packet: hostile::Draft, rng: &mut Rng, out: &mut Vec<hostile::Draft>) {
        for chunk in packet.chunks.iter_mut().filter(|chunk| chunk.kind == kind::NR_SACK) {
            let value = &mut chunk.value;
            let half = |value: &[u8], at: usize| u16::from_be_bytes([value[at], value[at + 1]]);
            let blocks = half(value, 8) + half(value, 10);
            let renegable = rng.below(u64::from(blocks) + 1) as u16;
            value[8..10].copy_from_slice(&renegable.to_be_bytes());
            value[10..12].copy_from_slice(&(blocks - renegable).to_be_bytes());
        }
        out.push(packet);
    }
}

/// A transfer over a bad network; returns the sender's statistics, and how many chunks the receiver
/// dropped again.
fn transfer(config: AssociationConfig, mutators: Vec<Box<dyn Mutator>>) -> (Statistics, u64) {
    let mut pair = Pair::connected(1, config);
    let loss = LinkConfig::new()
        .delay(Duration::from_millis(20))
        .reorder(Probability::percent(5), Duration::from_millis(30))
        .loss(Loss::Uniform(Probability::percent(5)));
    let [from, to] = [0, 1].map(|node| pair.addresses[node][0]);
    pair.net.set_link(from, to, loss.clone());
    pair.net.set_link(to, from, loss);
    if !mutators.is_empty() {
        mutate(&mut pair.net, 1, mutators, 5);
    }
    let mut expected = Vec::new();
    let mut sent = 0_u32;
    while sent < 600 {
        let mut data = vec![(sent % 251) as u8; 1 + (sent as usize * 37) % 3000];
        data[0] = (sent % 256) as u8;
        let message = OutgoingMessage {
            unordered: sent.is_multiple_of(3),
            ..OutgoingMessage::new((sent % 7) as u16, Ppid(sent), data.clone())
        };
        let now = pair.net.now();
        if pair.association_mut(0).send(now, message).is_ok() {
            expected.push(data);
            sent += 1;
        } else {
            pair.run(Duration::from_millis(20));
        }
    }
    let bytes = expected.iter().map(Vec::len).sum();
    assert!(pair.run_until(LONG, |pair| pair.received_len(1) >= bytes));
    pair.run(Duration::from_secs(60));
    assert_eq!(pair.closed, [None, None]);
    let mut got = vec![Vec::new(); expected.len()];
    let mut last = [None; 7];
    for message in &pair.received[1] {
        let id = message.ppid.0 as usize;
        assert_eq!(message.begin, got[id].is_empty(), "{id} twice");
        message.payload.pieces().for_each(|piece| got[id].extend_from_slice(piece));
        if !message.unordered && message.begin {
            let last = &mut last[usize::from(message.stream)];
            assert!(last.replace(id) < Some(id), "{id} out of order");
        }
    }
    assert!(got == expected, "each message once and whole");
    let statistics = pair.statistics(0);
    assert_eq!(statistics.outstanding_chunks, 0);
    assert_eq!(statistics.retransmission_queue.bytes, 0);
    (statistics, pair.statistics(1).counters.reneged_chunks)
}

#[test]
fn transfers_are_whole_and_keep_less_in_memory() {
    let plain = {
        let mut config = config();
        config.acknowledging.nr_sack = false;
        transfer(config, Vec::new()).0
    };
    let (never, _) = transfer(config(), Vec::new());
    let (deliverable, _) = transfer(may_renege(), Vec::new());
    let share = |statistics: &Statistics| statistics.retransmission_queue.acknowledged_share;
    assert_eq!(share(&never), 0.0, "nothing is kept that has arrived");
    assert!(share(&plain) > 0.2 && share(&deliverable) < share(&plain));
    assert!(never.counters.nr_sacks_received > 0 && plain.counters.nr_sacks_received == 0);
    assert_eq!(never.counters.sacks_received, never.counters.nr_sacks_received);
}

#[test]
fn receivers_that_renege_lose_nothing() {
    for nr_sack in [true, false] {
        let mut config = may_renege();
        config.acknowledging.nr_sack = nr_sack;
        config.receiving.receive_buffer = 12_000;
        let (statistics, reneged) = transfer(config, vec![Box::new(WideWindow)]);
        assert!(statistics.counters.fast_retransmitted_chunks > 0);
        assert!(reneged > 0, "no chunk was dropped again");
    }
}

#[test]
fn peers_that_promise_more_than_they_do_lose_nothing() {
    let (plain, _) = transfer(config(), vec![Box::new(PlainSacks)]);
    assert!(plain.counters.nr_sacks_received == 0 && plain.counters.sacks_received > 100);
    assert!(plain.retransmission_queue.acknowledged_share > 0.0, "nothing is freed early");
    let (moody, _) = transfer(config(), vec![Box::new(Mood)]);
    assert!(moody.counters.nr_sacks_received > 100);
}

/// The endpoint has no memory left: what may be dropped makes room.
#[test]
fn the_memory_of_all_associations_is_pressure_too() {
    let mut config = may_renege();
    config.receiving.receive_buffer = 1 << 20;
    let mut endpoints = [anabranch_proto::EndpointConfig::default(), Default::default()];
    endpoints[1].memory_limit = 65_536;
    let addresses = [0, 1].map(|node| anabranch_harness::addresses(node, 1));
    let mut pair = Pair::with(addresses, endpoints, config.clone());
    pair.connect(config);
    assert!(pair.run_until(LONG, |pair| pair.both_up()));
    assert!(pair.send(0, 0, vec![7; 4]));
    pair.run(Duration::from_secs(1));
    let first = reports(&pair, 1).pop().expect("an NR-SACK").0.wrapping_add(1);
    let mut receiver = Receiver { pair, first };
    for number in 10..80 {
        receiver.data(number, 1, number as u16, "BE", 1000);
    }
    let before = receiver.pair.statistics(1).counters;
    assert!(before.dropped_chunks > 0 && before.reneged_chunks == 0);
    let (_, gaps, _) = receiver.data(5, 1, 5, "BE", 1000);
    assert_eq!(gaps.len(), 2);
    assert_eq!(gaps[0], (6, 6), "it was taken");
    let after = receiver.pair.statistics(1).counters;
    assert!(after.reneged_chunks > 0 && after.dropped_chunks == before.dropped_chunks);
}
