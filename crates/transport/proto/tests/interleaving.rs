//! Messages that are interleaved with those of other streams (RFC 8260).

use std::collections::BTreeMap;
use std::time::Duration;

use anabranch_harness::{Pair, PathMtu, Verdict, craft};
use anabranch_impair::{LinkConfig, Loss, Probability, QueueLimit};
use anabranch_proto::{
    AssociationConfig, CloseReason, Event, Features, Message, MultipathMode, Notification,
    OutgoingMessage, Ppid, Reliability, SchedulerKind, StreamDirection, StreamPriority,
};
use anabranch_wire::{Chunk, Data, DataFlags, IData, Ssn, Tsn, kind};

const LONG: Duration = Duration::from_secs(600);

/// Interleaving with this scheduler.
fn config(scheduler: SchedulerKind) -> AssociationConfig {
    AssociationConfig::default().with(|config| {
        config.sending.interleaving = true;
        config.sending.scheduler = scheduler;
        config.sending.send_buffer = 8 << 20;
        config.sending.send_buffer_start = None;
    })
}

/// A link with a queue.
fn link(rate: u64) -> LinkConfig {
    LinkConfig::new().delay(Pair::DELAY).rate(rate).queue(QueueLimit::Packets(50))
}

/// The contents of a message of a stream.
fn contents(stream: u16, number: u32, length: usize) -> Vec<u8> {
    let seed = u32::from(stream) * 7919 + number * 104_729;
    (0..length as u32).map(|at| (at.wrapping_mul(31).wrapping_add(seed) >> 3) as u8).collect()
}

fn message(stream: u16, number: u32, length: usize) -> OutgoingMessage {
    OutgoingMessage::new(stream, Ppid(number), contents(stream, number, length))
}

fn send(pair: &mut Pair, message: OutgoingMessage) {
    let now = pair.net.now();
    pair.association_mut(0).send(now, message).unwrap();
}

/// The messages that a node received, put together from their parts, in the order of their ends.
fn whole(parts: &[Message]) -> Vec<(u16, u32, Vec<u8>)> {
    let mut open = BTreeMap::<u32, Vec<u8>>::new();
    let mut whole = Vec::new();
    for part in parts {
        let bytes = open.entry(part.tsn).or_default();
        assert_eq!(part.begin, bytes.is_empty(), "the first part comes first");
        bytes.extend_from_slice(&part.payload.clone().into_bytes());
        if part.end {
            whole.push((part.stream, part.ppid.0, open.remove(&part.tsn).unwrap()));
        }
    }
    assert!(open.is_empty(), "all have ended");
    whole
}

/// When a short message arrives that is sent while a long one of another stream is being sent.
fn time_of_a_short_message(interleaving: bool, scheduler: SchedulerKind) -> Duration {
    let config = config(scheduler).with(|config| config.sending.interleaving = interleaving);
    let mut pair = Pair::connected(1, config);
    pair.net.set_links(link(10_000_000));
    let mut association = pair.association_mut(0);
    association.set_stream_priority(0, StreamPriority::from(5));
    association.set_stream_priority(1, StreamPriority::from(1));
    drop(association);
    send(&mut pair, message(0, 0, 4 << 20));
    pair.run(Duration::from_millis(500));
    let begun = pair.net.now();
    send(&mut pair, message(1, 0, 100));
    let arrived = |pair: &mut Pair| pair.received[1].iter().any(|message| message.stream == 1);
    assert!(pair.run_until(LONG, arrived));
    let took = pair.net.now().saturating_since(begun);
    assert!(pair.run_until(LONG, |pair| pair.received_len(1) == (4 << 20) + 100));
    let received = whole(&pair.received[1]);
    let long = received.iter().find(|(stream, ..)| *stream == 0);
    assert!(long.is_some_and(|(.., data)| *data == contents(0, 0, 4 << 20)));
    took
}

#[test]
// RFC 8260 section 3.4.
fn a_short_message_does_not_wait_for_a_long_one() {
    let alone = time_of_a_short_message(false, SchedulerKind::Priority);
    let priority = time_of_a_short_message(true, SchedulerKind::Priority);
    let turns = time_of_a_short_message(true, SchedulerKind::RoundRobin);
    let fifo = time_of_a_short_message(true, SchedulerKind::Fifo);
    println!("DATA {alone:?}; I-DATA: priority {priority:?}, round-robin {turns:?}, fifo {fifo:?}");
    assert!(alone > Duration::from_secs(2), "without interleaving it waits: {alone:?}");
    assert!(priority < Duration::from_millis(250), "{priority:?}");
    assert!(turns < Duration::from_millis(250), "{turns:?}");
    assert!(fifo > Duration::from_secs(2), "first come, first served: {fifo:?}");
}

#[test]
fn everything_arrives_over_bad_networks() {
    let schedulers = [
        SchedulerKind::RoundRobin,
        SchedulerKind::RoundRobinPacket,
        SchedulerKind::Priority,
        SchedulerKind::Fair,
        SchedulerKind::WeightedFair,
    ];
    for (seed, scheduler) in (1..).zip(schedulers) {
        for multipath in [false, true] {
            let mode = if multipath { MultipathMode::Cmt } else { MultipathMode::Off };
            let config = config(scheduler).with_multipath(mode).with(|config| {
                config.receiving.receive_buffer = 60_000;
                config.acknowledging.nr_sack = multipath;
                config.receiving.never_renege = !multipath;
            });
            let mut pair = Pair::connected(if multipath { 2 } else { 1 }, config);
            let loss = Loss::Uniform(Probability::percent(3));
            let bad = link(10_000_000).loss(loss).reorder(Probability::percent(5), Pair::DELAY);
            pair.net.set_links(bad);
            let mut expected = Vec::new();
            for number in 0..6 {
                for stream in 0..7 {
                    let length = [100, 40_000, 1, 3000, 150_000, 1200, 70_000][usize::from(stream)];
                    let unordered = stream == 4 || number % 3 == 2;
                    let mut message = message(stream, number, length + number as usize * 111);
                    message.unordered = unordered;
                    expected.push((stream, unordered, number, message.data.to_vec()));
                    send(&mut pair, message);
                }
            }
            let total = expected.iter().map(|(_, _, _, data)| data.len()).sum::<usize>();
            let all = pair.run_until(LONG, |pair| pair.received_len(1) == total);
            assert!(all, "{scheduler:?}, {multipath}, {seed}: {:?}", pair.statistics(1));
            let received = whole(&pair.received[1]);
            for (stream, unordered, number, data) in expected {
                let is_it = |found: &&(u16, u32, Vec<u8>)| (found.0, found.1) == (stream, number);
                assert_eq!(received.iter().filter(is_it).count(), 1, "{stream}, {number}");
                assert!(received.iter().find(is_it).unwrap().2 == data, "{unordered}");
            }
            for stream in 0..7 {
                let ordered = |(of, number, _): &&(u16, u32, Vec<u8>)| {
                    *of == stream && stream != 4 && number % 3 != 2
                };
                let numbers: Vec<_> =
                    received.iter().filter(ordered).map(|found| found.1).collect();
                assert!(numbers.is_sorted(), "{scheduler:?} {stream}: {numbers:?}");
            }
            pair.run(Duration::from_secs(5));
            assert_eq!(pair.statistics(1).receive_buffer_used, 0);
            assert_eq!(pair.statistics(0).outstanding_chunks, 0);
        }
    }
}

/// The receive buffer is much smaller than the messages in progress: all of them must be delivered in parts.
#[test]
fn several_messages_are_delivered_in_parts_at_once() {
    let config = config(SchedulerKind::RoundRobin).with(|config| {
        config.receiving.receive_buffer = 50_000;
    });
    let mut pair = Pair::connected(1, config);
    for stream in 0..20 {
        send(&mut pair, message(stream, 0, 100_000));
    }
    assert!(pair.run_until(LONG, |pair| pair.received_len(1) == 2_000_000));
    let begun = pair.received[1].iter().take_while(|part| !part.end).filter(|part| part.begin);
    assert!(begun.count() > 10, "at once");
    for (stream, _, data) in whole(&pair.received[1]) {
        assert!(data == contents(stream, 0, 100_000));
    }
}

#[test]
// test: rfc8260 2.2.1 "has not been negotiated for an association, DATA chunks MUST be used"
// test: rfc8260 2.2.1 "I-DATA chunks MUST be used for all user messages and"
fn both_sides_must_want_it() {
    for (ours, theirs) in [(true, true), (true, false), (false, true), (false, false)] {
        let with = |wanted| {
            config(SchedulerKind::RoundRobin).with(|config| config.sending.interleaving = wanted)
        };
        let mut pair = Pair::new(1, with(theirs));
        pair.connect(with(ours));
        assert!(pair.run_until(LONG, |pair| pair.both_up()));
        let agreed = ours && theirs;
        assert_eq!(pair.statistics(0).features.has(Features::INTERLEAVING), agreed);
        assert_eq!(pair.statistics(1).features.has(Features::I_FORWARD_TSN), agreed);
        assert!(pair.statistics(1).features.has(Features::PARTIAL_RELIABILITY));
        send(&mut pair, message(0, 0, 5000));
        assert!(pair.run_until(LONG, |pair| pair.received_len(1) == 5000));
        let counts = (pair.count(0, kind::DATA) > 0, pair.count(0, kind::I_DATA) > 0);
        assert_eq!(counts, (!agreed, agreed));
    }
}

#[test]
// RFC 8260 section 2.3.1.
fn without_i_forward_tsn_nothing_is_given_up() {
    let without =
        config(SchedulerKind::Fifo).with(|config| config.sending.partial_reliability = false);
    let mut pair = Pair::new(1, without);
    pair.connect(config(SchedulerKind::Fifo));
    assert!(pair.run_until(LONG, |pair| pair.both_up()));
    let features = pair.statistics(0).features;
    assert!(features.has(Features::INTERLEAVING));
    assert!(!features.has(Features::PARTIAL_RELIABILITY));
}

/// Loses the first `count` packets of the client that have an I-DATA chunk of this stream.
fn lose(pair: &mut Pair, stream: u16, mut count: usize) {
    pair.net.script(move |sight| {
        let chunks = sight.packet.chunks().map_while(Result::ok);
        let is_of = |chunk| matches!(chunk, Chunk::IData(data) if data.stream == stream);
        let mut decoded = chunks.filter_map(|chunk| chunk.decode().ok());
        if sight.node == 0 && count > 0 && decoded.any(is_of) {
            count -= 1;
            return Verdict::Drop;
        }
        Verdict::Pass
    });
}

#[test]
fn a_message_is_given_up_among_others() {
    for unordered in [false, true] {
        let config = config(SchedulerKind::RoundRobinPacket);
        let mut pair = Pair::connected(1, config);
        pair.net.set_links(link(2_000_000));
        lose(&mut pair, 1, 2);
        send(&mut pair, message(0, 0, 200_000));
        let mut partial = message(1, 0, 5000).with_reliability(Reliability::Retransmissions(0));
        partial.unordered = unordered;
        send(&mut pair, partial);
        send(&mut pair, OutgoingMessage { unordered, ..message(1, 1, 700) });
        send(&mut pair, message(2, 0, 50_000));
        assert!(pair.run_until(LONG, |pair| pair.received_len(1) >= 250_700));
        pair.run(Duration::from_secs(5));
        let mut received = whole(&pair.received[1]);
        received.sort();
        let expected = [(0, 0, 200_000), (1, 1, 700), (2, 0, 50_000)]
            .map(|(stream, number, length)| (stream, number, contents(stream, number, length)));
        assert!(received == expected);
        assert!(pair.count(0, kind::I_FORWARD_TSN) > 0 && pair.count(0, kind::FORWARD_TSN) == 0);
        let failed = |event: &&Event| {
            matches!(event, Event::Notification(Notification::SendFailed { sent: true, .. }))
        };
        assert_eq!(pair.events[0].iter().filter(failed).count(), 1);
        assert_eq!(pair.statistics(1).receive_buffer_used, 0);
        assert_eq!(pair.statistics(0).outstanding_chunks, 0);
    }
}

/// Several messages are being sent when their lifetime ends; one of them was delivered in part.
#[test]
fn messages_being_sent_are_given_up() {
    let config = config(SchedulerKind::RoundRobin).with(|config| {
        config.receiving.partial_delivery_point = 3000;
    });
    let mut pair = Pair::connected(1, config);
    pair.net.set_links(link(400_000));
    for stream in 0..3 {
        let lifetime = Duration::from_millis(300);
        send(&mut pair, message(stream, 0, 100_000).with_lifetime(lifetime));
        send(&mut pair, message(stream, 1, 1000));
    }
    send(&mut pair, message(3, 0, 20_000));
    let ends = |pair: &mut Pair| pair.received[1].iter().filter(|part| part.end).count() == 4;
    let begun = pair.net.now();
    assert!(pair.run_until(LONG, ends));
    let took = pair.net.now().saturating_since(begun);
    assert!(took < Duration::from_millis(2500), "the rests were not sent: {took:?}");
    let kept = pair.received[1].iter().filter(|part| part.ppid.0 == 1 || part.stream == 3);
    assert_eq!(whole(&kept.cloned().collect::<Vec<_>>()).len(), 4);
    let cut = pair.events[1].iter().filter(|event| {
        matches!(event, Event::Notification(Notification::PartialDeliveryAborted { .. }))
    });
    assert_eq!(cut.count(), 3, "all were delivered in part");
    pair.run(Duration::from_secs(5));
    assert_eq!(pair.statistics(0).outstanding_chunks, 0);
    assert_eq!(pair.statistics(0).send_queue_bytes, 0);
    assert_eq!(pair.statistics(1).receive_buffer_used, 0);
}

#[test]
// test: rfc8260 2.2.3 "reception of a DATA chunk is a violation of the above rules"
// RFC 8260 section 2.2.3.
fn the_other_kind_of_chunk_is_a_violation() {
    let flags = DataFlags(DataFlags::BEGIN | DataFlags::END);
    for interleaving in [false, true] {
        let server = config(SchedulerKind::Fifo);
        let client =
            config(SchedulerKind::Fifo).with(|config| config.sending.interleaving = interleaving);
        let mut pair = Pair::new(1, server);
        pair.connect(client);
        assert!(pair.run_until(LONG, |pair| pair.both_up()));
        let tsn = Tsn(pair.association(1).unwrap().cumulative_tsn().wrapping_add(1));
        let (ppid, payload) = (Ppid(0), b"x".as_slice());
        let wrong = match interleaving {
            true => Chunk::Data(Data { flags, tsn, stream: 0, ssn: Ssn(0), ppid, payload }),
            false => Chunk::IData(IData { flags, tsn, stream: 0, mid: 0, ppid_or_fsn: 0, payload }),
        };
        let header = pair.header(0);
        pair.inject(1, craft::packet(header, |packet| packet.chunk(&wrong)));
        let ended = |pair: &mut Pair| pair.closed.iter().all(Option::is_some);
        assert!(pair.run_until(LONG, ended));
        assert!(matches!(pair.closed[1], Some(CloseReason::ProtocolViolation(_))));
        assert!(matches!(pair.closed[0], Some(CloseReason::PeerAbort { .. })), "{:?}", pair.closed);
    }
}

#[test]
// test: rfc8260 2.3.2 "for the MIDs MUST be reset to 0"
fn identifiers_begin_with_0_after_a_reset() {
    let config = config(SchedulerKind::RoundRobin)
        .with(|config| config.receiving.accept_association_resets = true);
    let mut pair = Pair::connected(1, config);
    let bad = link(5_000_000).loss(Loss::Uniform(Probability::percent(3)));
    pair.net.set_links(bad);
    for round in 0..20 {
        for number in 0..2 {
            for unordered in [false, true] {
                let data = contents(3, round * 10 + number, 20_000);
                let message = OutgoingMessage::new(3, Ppid(round), data);
                send(&mut pair, OutgoingMessage { unordered, ..message });
            }
        }
        let now = pair.net.now();
        let mut association = pair.association_mut(0);
        let done = match round % 5 {
            4 if round < 5 => association.reset_association(now),
            _ => association.reset_streams(now, StreamDirection::Outgoing, &[3]),
        };
        drop(association);
        done.unwrap();
        let is_reset = |pair: &mut Pair| {
            let mut events = pair.events[0].iter();
            let ends = events.by_ref().filter(|event| {
                let Event::Notification(of) = event else { return false };
                matches!(
                    of,
                    Notification::StreamsReset { .. } | Notification::AssociationReset { .. }
                )
            });
            ends.count() > round as usize
        };
        assert!(pair.run_until(LONG, is_reset), "round {round}");
    }
    let all = 20 * 4 * 20_000;
    assert!(pair.run_until(LONG, |pair| pair.received_len(1) == all));
    for round in 0..20 {
        let of_round = pair.received[1].iter().filter(|message| message.ppid.0 == round);
        let mut numbers: Vec<_> =
            of_round.map(|message| (message.unordered, message.sequence)).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, [(false, 0), (false, 1), (true, 0), (true, 1)], "round {round}");
    }
    assert_eq!(pair.closed, [None, None]);
}

/// Chunks have to fit on both paths, and one of them has larger packets, which have room for a little more.
#[test]
fn streams_get_equal_bytes_though_paths_have_different_packets() {
    for scheduler in [SchedulerKind::RoundRobin, SchedulerKind::Priority] {
        let mut config = AssociationConfig::default();
        config.sending.scheduler = scheduler;
        (config.sending.send_buffer, config.sending.send_buffer_start) = (10 << 20, None);
        let mut pair = Pair::new(2, config.clone());
        let link = LinkConfig::new().delay(Duration::from_millis(10)).rate(10_000_000);
        for path in 0..2 {
            let (a, b) = (pair.addresses[0][path], pair.addresses[1][path]);
            for (from, to) in [(a, b), (b, a)] {
                pair.net.set_link(from, to, link.clone());
                let mtu = [1500, 1280][path];
                pair.net.set_mtu(from, to, Some(PathMtu { mtu, icmp: false }));
            }
        }
        pair.connect(config);
        pair.run(Duration::from_secs(60));
        let mtu = |path: usize| pair.statistics(0).paths[path].mtu;
        assert_eq!([mtu(0), mtu(1)], [1500, 1280]);
        for stream in 0..4 {
            let bytes = OutgoingMessage::new(stream, Ppid(0), vec![0; 500_000]).with_divisible();
            let now = pair.net.now();
            assert!(pair.association_mut(0).send(now, bytes).is_ok());
        }
        pair.run(Duration::from_millis(500));
        let mut came = [0; 4];
        for message in &pair.received[1] {
            came[usize::from(message.stream)] += message.payload.len();
        }
        let (least, most) = (came.iter().min().unwrap(), came.iter().max().unwrap());
        assert!(*least > 50_000 && most - least < least / 10, "{scheduler:?}: {came:?}");
    }
}
