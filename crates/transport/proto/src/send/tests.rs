use super::*;
use proptest::prelude::*;
use std::time::Duration;

fn queue(change: impl FnOnce(&mut SendConfig)) -> SendQueue {
    let mut config = SendConfig { fill_packets: true, ..SendConfig::default() };
    change(&mut config);
    SendQueue::new(&config)
}

fn message(stream: u16, len: usize) -> OutgoingMessage {
    OutgoingMessage::new(stream, Ppid(7), vec![stream as u8; len])
}

/// Cuts all messages into packets with `room` bytes for payloads (headers not included).
fn drain(queue: &mut SendQueue, room: usize) -> Vec<Fragment> {
    let mut all = Vec::new();
    while let Some(length) = queue.peek(room, room, true) {
        all.extend(queue.cut(length, 0, 0));
    }
    all
}

#[test]
fn what_cannot_be_sent_comes_back() {
    let mut q = queue(|c| {
        c.send_buffer = 1000;
        c.outbound_streams = 2;
        c.max_message_size = 5000;
    });
    let reason = |q: &mut SendQueue, m| q.push(Instant::ZERO, m).map_err(|(reason, _)| reason);
    assert_eq!(reason(&mut q, message(0, 0)), Err(SendErrorReason::Empty));
    assert_eq!(reason(&mut q, message(0, 5001)), Err(SendErrorReason::TooLong));
    assert_eq!(reason(&mut q, message(2, 1)), Err(SendErrorReason::NoSuchStream(2)));
    // Longer than the buffer, but alone.
    assert_eq!(reason(&mut q, message(1, 5000)), Ok(()));
    let (_, back) = q.push(Instant::ZERO, message(1, 3)).unwrap_err();
    assert_eq!(back.data.len(), 3);
    assert!(q.blocked && !q.take_writable());
    for fragment in drain(&mut q, 1400) {
        q.release(1, fragment.payload.len());
    }
    assert!(q.take_writable() && !q.take_writable());
    assert_eq!(q.free(), 1000);
}

#[test]
fn one_stream_may_be_limited() {
    let mut q = queue(|c| c.stream_send_buffer = 100);
    q.push(Instant::ZERO, message(1, 100)).unwrap();
    assert!(q.push(Instant::ZERO, message(1, 1)).is_err());
    q.push(Instant::ZERO, message(2, 100)).unwrap();
}

#[test]
// test: rfc9260 6.9 "the B/E bits of the first DATA"
// test: rfc9260 6.5 "the next Stream Sequence Number MUST be set to 0"
fn fragments_carry_their_flags_and_ssns() {
    let mut q = queue(|_| {});
    q.streams.set_next(3, 65_535);
    q.push(Instant::ZERO, message(3, 2500)).unwrap();
    q.push(Instant::ZERO, message(3, 10)).unwrap();
    q.push(
        Instant::ZERO,
        OutgoingMessage { unordered: true, sack_immediately: true, ..message(3, 5) },
    )
    .unwrap();
    q.push(Instant::ZERO, message(3, 1)).unwrap();
    let cut: Vec<_> =
        drain(&mut q, 1000).into_iter().map(|f| (f.flags.0, f.sequence, f.payload.len())).collect();
    assert_eq!(
        cut,
        [(2, 65_535, 1000), (0, 65_535, 1000), (1, 65_535, 500), (3, 0, 10), (15, 0, 5), (3, 1, 1)]
    );
    assert!(q.is_empty());
}

#[test]
fn packets_are_filled_only_if_wanted() {
    for (fill, expected) in [(true, Some(600)), (false, None)] {
        let mut q = queue(|c| c.fill_packets = fill);
        q.push(Instant::ZERO, message(0, 1000)).unwrap();
        assert_eq!(q.peek(600, 1400, false), expected);
        assert_eq!(q.peek(1400, 1400, false), Some(1000));
        assert_eq!(q.peek(MIN_FILL - 1, 1400, false), None);
        assert_eq!(q.peek(600, 1400, true), Some(600));
    }
}

#[test]
fn old_messages_are_given_up_before_they_are_begun() {
    let mut q = queue(|_| {});
    let reliability = Reliability::Lifetime(Duration::from_secs(1));
    let late = Instant::ZERO + Duration::from_secs(1);
    q.push(Instant::ZERO, OutgoingMessage { reliability, ..message(0, 3000) }).unwrap();
    assert!(q.expire(Instant::ZERO).is_none());
    q.cut(1000, 0, 0).unwrap();
    assert!(q.expire(late).is_none());
    drain(&mut q, 1000);
    q.push(Instant::ZERO, OutgoingMessage { reliability, ..message(0, 30) }).unwrap();
    assert_eq!(q.expire(late).unwrap().into_message().data.len(), 30);
    assert!(q.is_empty());
}

#[test]
fn a_restart_begins_again_with_whole_messages() {
    let mut q = queue(|_| {});
    q.push(Instant::ZERO, message(0, 2000)).unwrap();
    q.push(Instant::ZERO, message(0, 20)).unwrap();
    q.cut(1000, 0, 0).unwrap();
    assert_eq!(q.drain().unwrap().rest.len(), 1000);
    assert_eq!(q.drain().unwrap().rest.len(), 20);
    q.restart();
    q.push(Instant::ZERO, message(0, 20)).unwrap();
    let next = q.cut(20, 0, 0).unwrap();
    assert_eq!((next.sequence, next.flags.0), (0, 3));
}

#[test]
fn messages_for_streams_that_are_gone_come_out() {
    let mut q = queue(|_| {});
    for stream in [0, 7, 3, 7] {
        q.push(Instant::ZERO, message(stream, 20)).unwrap();
    }
    q.set_outbound_streams(4);
    assert_eq!(q.refuse_streams().iter().map(|m| m.stream).collect::<Vec<_>>(), [7, 7]);
    assert_eq!(q.unsent(), 40);
    // A message that was partly sent continues.
    q.cut(10, 0, 0).unwrap();
    q.set_outbound_streams(0);
    assert_eq!(q.refuse_streams().iter().map(|m| m.stream).collect::<Vec<_>>(), [3]);
}

fn divisible(stream: u16, len: usize) -> OutgoingMessage {
    message(stream, len).with_divisible()
}

/// Stream, sequence number, flags and length of every chunk.
fn cut_all(queue: &mut SendQueue) -> Vec<(u16, u32, u16, usize)> {
    let fragments = drain(queue, 1000).into_iter();
    fragments.map(|f| (f.stream, f.sequence, f.flags.0.into(), f.payload.len())).collect()
}

#[test]
fn bytes_are_long_messages_alone_and_packets_among_others() {
    let mut q = queue(|c| c.scheduler = SchedulerKind::RoundRobin);
    q.push(Instant::ZERO, divisible(1, 2500)).unwrap();
    assert_eq!(cut_all(&mut q), [(1, 0, 2, 1000), (1, 0, 0, 1000), (1, 0, 1, 500)]);
    q.push(Instant::ZERO, divisible(1, 2500)).unwrap();
    q.push(Instant::ZERO, divisible(2, 1500)).unwrap();
    assert_eq!(
        cut_all(&mut q),
        [(1, 1, 3, 1000), (2, 0, 3, 1000), (1, 2, 3, 1000), (2, 1, 3, 500), (1, 3, 3, 500)]
    );
    // A long message in progress ends when another stream has data.
    q.push(Instant::ZERO, divisible(1, 3500)).unwrap();
    assert_eq!(q.cut(1000, 0, 0).unwrap().flags.0, 2);
    q.push(Instant::ZERO, message(2, 1500)).unwrap();
    let rest = [(1, 4, 1, 1000), (2, 2, 2, 1000), (2, 2, 1, 500), (1, 5, 2, 1000), (1, 5, 1, 500)];
    assert_eq!(cut_all(&mut q), rest);
    assert!(q.is_empty());
}

#[test]
fn the_size_of_pieces_can_be_forced() {
    let flags = |pieces, others: bool| -> Vec<u16> {
        let mut q = queue(|c| c.pieces = pieces);
        q.push(Instant::ZERO, divisible(1, 2500)).unwrap();
        if others {
            q.push(Instant::ZERO, message(2, 1)).unwrap();
        }
        cut_all(&mut q).into_iter().filter(|f| f.0 == 1).map(|f| f.2).collect()
    };
    for (pieces, alone, among) in [
        (Pieces::Auto, [2, 0, 1], [3, 3, 3]),
        (Pieces::Packet, [3, 3, 3], [3, 3, 3]),
        (Pieces::Long, [2, 0, 1], [2, 0, 1]),
    ] {
        assert_eq!((flags(pieces, false), flags(pieces, true)), (alone.into(), among.into()));
    }
}

#[test]
fn what_a_reader_does_not_want_is_given_up() {
    for scheduler in [SchedulerKind::Fifo, SchedulerKind::RoundRobin, SchedulerKind::Priority] {
        let mut q = queue(|c| c.scheduler = scheduler);
        for message in [divisible(1, 3000), divisible(1, 4000), message(1, 70), divisible(2, 50)] {
            q.push(Instant::ZERO, message).unwrap();
        }
        // If no part of it was sent, all divisible messages are discarded.
        assert_eq!(q.discard(3), 0);
        assert_eq!(q.discard(1), 7000);
        assert_eq!(q.unsent(), 120);
        let left = cut_all(&mut q);
        assert_eq!(left.len(), 2, "{left:?}");
        // One byte of the message in progress stays, to end the message.
        q.push(Instant::ZERO, divisible(1, 3000)).unwrap();
        q.push(Instant::ZERO, divisible(1, 3000)).unwrap();
        assert_eq!(q.cut(1000, 0, 0).unwrap().flags.0, 2);
        assert_eq!(q.discard(1), 4999);
        assert_eq!(q.discard(1), 0);
        let left = cut_all(&mut q);
        assert_eq!(left.iter().map(|f| (f.2, f.3)).collect::<Vec<_>>(), [(1, 1)]);
        assert!(q.is_empty());
        for length in [70, 50, 1000, 1] {
            q.release(1, length);
        }
        assert_eq!(q.buffered, 0, "{scheduler:?}");
    }
}

#[test]
fn a_byte_stream_has_its_share_of_the_buffer() {
    for scheduler in [SchedulerKind::Fifo, SchedulerKind::RoundRobin, SchedulerKind::Priority] {
        let mut q = queue(|c| c.scheduler = scheduler);
        let mut taken = 0;
        while q.room_for_bytes(1, 0).is_some() {
            q.push(Instant::ZERO, divisible(1, 1000)).unwrap();
            taken += 1000;
        }
        assert_eq!(taken, (BYTE_STREAM_BUFFER).next_multiple_of(1000));
        assert!(q.push(Instant::ZERO, divisible(1, 1)).is_err());
        q.push(Instant::ZERO, divisible(2, 1)).unwrap();
        q.push(Instant::ZERO, message(1, 1)).unwrap();
        assert!(!q.take_writable());
        q.cut(1000, 0, 0).unwrap();
        assert!(q.take_writable(), "what leaves makes room at once");
        q.push(Instant::ZERO, divisible(1, 1)).unwrap();
        let mut limited = queue(|c| (c.scheduler, c.stream_send_buffer) = (scheduler, 10));
        limited.push(Instant::ZERO, divisible(1, 10)).unwrap();
        assert!(limited.room_for_bytes(1, 0).is_none() && limited.room_for_bytes(2, 0).is_some());
    }
}

#[test]
fn byte_streams_hand_over_more_where_the_window_is_large() {
    let mut q = queue(|_| {});
    for (wanted, given) in [(0, SHORT_BYTES), (40_000, 40_000), (usize::MAX, LONG_BYTES)] {
        assert_eq!(q.room_for_bytes(1, wanted), Some(given));
    }
    q.max_message = 1000;
    assert_eq!(q.room_for_bytes(1, usize::MAX), Some(1000), "what is longer would be refused");
}

#[test]
fn what_goes_ahead_waits_for_what_has_begun_only() {
    for scheduler in [SchedulerKind::Fifo, SchedulerKind::RoundRobin, SchedulerKind::Priority] {
        let mut q = queue(|c| c.scheduler = scheduler);
        q.push(Instant::ZERO, message(1, 1500)).unwrap();
        q.push(Instant::ZERO, message(2, 10)).unwrap();
        q.cut(1000, 0, 0).unwrap();
        q.push(Instant::ZERO, message(2, 1).with_ahead()).unwrap();
        q.push(Instant::ZERO, message(9, 2).with_ahead()).unwrap();
        // An ordered message keeps its place in its stream.
        q.push(Instant::ZERO, OutgoingMessage { ahead: true, ..message(1, 3) }).unwrap();
        let order: Vec<_> = cut_all(&mut q).into_iter().map(|f| (f.0, f.3)).collect();
        assert_eq!(order, [(1, 500), (2, 1), (9, 2), (2, 10), (1, 3)], "{scheduler:?}");
    }
}

fn any_scheduler() -> impl Strategy<Value = SchedulerKind> {
    prop::sample::select(SchedulerKind::ALL)
}

/// The streams of the chunks that fill `packets` packets of 1,000 bytes, a letter each; a space ends a packet.
fn turns(q: &mut SendQueue, packets: usize) -> String {
    let mut turns = String::new();
    for _ in 0..packets {
        let mut room = 1000;
        while let Some(length) = q.peek(room, 1000, room == 1000) {
            let fragment = q.cut(length, 0, 0).unwrap();
            turns.push(char::from(b'a' + fragment.stream as u8));
            room -= length;
        }
        q.end_packet();
        turns.push(' ');
    }
    turns.trim().into()
}

/// Three streams with long messages; then stream d gets a short one.
fn interleaved(scheduler: SchedulerKind, priorities: [u16; 4]) -> String {
    let mut q = queue(|c| (c.scheduler, c.fill_packets) = (scheduler, true));
    q.set_interleaving(true);
    for (stream, priority) in (0..).zip(priorities) {
        q.set_priority(stream, priority.into());
    }
    for stream in 0..3 {
        q.push(Instant::ZERO, message(stream, 2500)).unwrap();
    }
    let mut all = turns(&mut q, 2);
    q.push(Instant::ZERO, message(3, 500)).unwrap();
    all += " ";
    all += &turns(&mut q, 8);
    all
}

#[test]
// test: rfc8260 2.2.2 "At any time a sender MAY process multiple"
fn schedulers_interleave_messages() {
    let same = [0; 4];
    assert_eq!(interleaved(SchedulerKind::Fifo, same), "a a ab b b c c cd");
    assert_eq!(interleaved(SchedulerKind::RoundRobin, same), "a b c a b dc ab c");
    assert_eq!(interleaved(SchedulerKind::RoundRobinPacket, same), "a b c a b d c a b c");
    assert_eq!(interleaved(SchedulerKind::Priority, [2, 2, 2, 1]), "a b dc a b c ab c");
    assert_eq!(interleaved(SchedulerKind::Priority, [3, 2, 1, 0]), "c c dc b b ba a a");
    assert_eq!(interleaved(SchedulerKind::Fair, same), "a b c da b c a bc");
    assert_eq!(interleaved(SchedulerKind::WeightedFair, [1, 4, 1, 4]), "a b c db b a c ac");
}

/// A chunk has to fit on every path, and this path has larger packets: its rest goes to another stream.
#[test]
fn streams_get_equal_bytes_though_chunks_do_not_fill_packets() {
    for (scheduler, interleaves) in [
        (SchedulerKind::RoundRobin, false),
        (SchedulerKind::RoundRobin, true),
        (SchedulerKind::Priority, false),
        (SchedulerKind::Fair, false),
    ] {
        let mut q = queue(|c| c.scheduler = scheduler);
        q.set_interleaving(interleaves);
        for stream in 0..4 {
            let long = message(stream, 100_000);
            q.push(Instant::ZERO, if interleaves { long } else { long.with_divisible() }).unwrap();
        }
        let mut sent = [0; 4];
        for _ in 0..100 {
            let mut room = 1380;
            while let Some(length) = q.peek(room, 1176, room == 1380) {
                sent[usize::from(q.cut(length, 1176 / 2, 0).unwrap().stream)] += length;
                room -= length;
            }
        }
        let (least, most) = (sent.iter().min().unwrap(), sent.iter().max().unwrap());
        assert!(most - least <= 2000, "{scheduler:?}, {interleaves}: {sent:?}");
    }
}

proptest! {
    #[test]
    fn every_byte_is_cut_once_and_memory_returns(
        messages in prop::collection::vec((0u16..4, 1usize..5000, any::<bool>()), 1..20),
        rooms in prop::collection::vec(20usize..2000, 1..10),
        schedulers in prop::collection::vec(any_scheduler(), 1..4),
        interleaves: bool,
    ) {
        let mut q = queue(|c| c.scheduler = schedulers[0]);
        q.set_interleaving(interleaves);
        let mut schedulers = schedulers.iter().cycle();
        let mut given = 0;
        for (stream, len, divisible) in messages {
            // Some go ahead of all streams.
            let (unordered, ahead) = (len % 7 == 0, len % 7 == 0);
            let divisible = divisible && !ahead;
            let message = OutgoingMessage { divisible, unordered, ahead, ..message(stream, len) };
            q.push(Instant::ZERO, message).unwrap();
            given += len;
        }
        let mut cut = 0;
        let mut rooms = rooms.iter().cycle();
        // The message in progress of each stream, and the position of its next fragment.
        let mut open = std::collections::BTreeMap::<u16, (u32, u32)>::new();
        while !q.is_empty() {
            let room = *rooms.next().unwrap();
            let length = q.peek(room, 2000, true).or_else(|| q.peek(2000, 2000, true)).unwrap();
            let fragment = q.cut(length, 1000, 0).unwrap();
            prop_assert_eq!(fragment.payload.len(), length);
            let (stream, number, fsn) = (fragment.stream, fragment.sequence, fragment.fsn);
            // Fragments of a message follow each other without another message of the stream between them.
            prop_assert_eq!(fragment.flags.begin(), !open.contains_key(&stream));
            prop_assert_eq!(open.remove(&stream).unwrap_or((number, 0)), (number, fsn));
            // Nor one of another stream, if messages are not interleaved.
            prop_assert!(interleaves || open.is_empty());
            if !fragment.flags.end() {
                open.insert(stream, (number, fsn + 1));
            }
            if length % 5 == 0 {
                let scheduler = *schedulers.next().unwrap();
                q.reconfigure(&SendConfig { scheduler, ..SendConfig::default() });
            }
            if length % 3 == 0 {
                q.end_packet();
            }
            cut += length;
            q.release(1, length);
        }
        prop_assert_eq!(cut, given);
        prop_assert_eq!(q.buffered, 0);
        for stream in 0..4 {
            prop_assert_eq!(q.scheduler.divisible_bytes(stream), 0);
        }
        prop_assert!(!q.scheduler.has_others());
    }
}
