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

/// Cuts everything into packets with `room` bytes for payloads (headers aside).
fn drain(queue: &mut SendQueue, room: usize) -> Vec<Fragment> {
    let mut all = Vec::new();
    while let Some(length) = queue.peek(room, room, true) {
        all.extend(queue.cut(length));
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
        q.release(fragment.payload.len());
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
    *q.ssns.entry(3) = 65_535;
    q.push(Instant::ZERO, message(3, 2500)).unwrap();
    q.push(Instant::ZERO, message(3, 10)).unwrap();
    q.push(
        Instant::ZERO,
        OutgoingMessage { unordered: true, sack_immediately: true, ..message(3, 5) },
    )
    .unwrap();
    q.push(Instant::ZERO, message(3, 1)).unwrap();
    let cut: Vec<_> =
        drain(&mut q, 1000).into_iter().map(|f| (f.flags.0, f.ssn.0, f.payload.len())).collect();
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
    let lifetime = Some(Duration::from_secs(1));
    let late = Instant::ZERO + Duration::from_secs(1);
    q.push(Instant::ZERO, OutgoingMessage { lifetime, ..message(0, 3000) }).unwrap();
    assert!(q.expire(Instant::ZERO).is_none());
    q.cut(1000).unwrap();
    assert!(q.expire(late).is_none());
    drain(&mut q, 1000);
    q.push(Instant::ZERO, OutgoingMessage { lifetime, ..message(0, 30) }).unwrap();
    assert_eq!(q.expire(late).unwrap().into_message().data.len(), 30);
    assert!(q.is_empty());
}

#[test]
fn a_restart_begins_again_with_whole_messages() {
    let mut q = queue(|_| {});
    q.push(Instant::ZERO, message(0, 2000)).unwrap();
    q.push(Instant::ZERO, message(0, 20)).unwrap();
    q.cut(1000).unwrap();
    assert_eq!(q.drain().unwrap().rest.len(), 1000);
    assert_eq!(q.drain().unwrap().rest.len(), 20);
    q.restart();
    q.push(Instant::ZERO, message(0, 20)).unwrap();
    let next = q.cut(20).unwrap();
    assert_eq!((next.ssn.0, next.flags.0), (0, 3));
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
    // One of which a part was sent goes on.
    q.cut(10).unwrap();
    q.set_outbound_streams(0);
    assert_eq!(q.refuse_streams().iter().map(|m| m.stream).collect::<Vec<_>>(), [3]);
}

proptest! {
    #[test]
    fn every_byte_is_cut_once_and_memory_returns(
        messages in prop::collection::vec((0u16..4, 1usize..5000), 1..20),
        rooms in prop::collection::vec(20usize..2000, 1..10),
        scheduler in prop::sample::select(vec![
            SchedulerKind::Fifo, SchedulerKind::RoundRobin, SchedulerKind::Priority,
        ]),
    ) {
        let mut q = queue(|c| c.scheduler = scheduler);
        let mut given = 0;
        for (stream, len) in messages {
            q.push(Instant::ZERO, message(stream, len)).unwrap();
            given += len;
        }
        let mut cut = 0;
        let mut rooms = rooms.iter().cycle();
        let mut open: Option<(u16, u16)> = None;
        while !q.is_empty() {
            let room = *rooms.next().unwrap();
            let length = q.peek(room, 2000, true).or_else(|| q.peek(2000, 2000, true)).unwrap();
            let fragment = q.cut(length).unwrap();
            prop_assert_eq!(fragment.payload.len(), length);
            // Fragments of a message follow each other without another message between them.
            prop_assert_eq!(fragment.flags.begin(), open.is_none());
            if let Some(open) = open {
                prop_assert_eq!(open, (fragment.stream, fragment.ssn.0));
            }
            open = (!fragment.flags.end()).then_some((fragment.stream, fragment.ssn.0));
            cut += length;
            q.release(length);
        }
        prop_assert_eq!(cut, given);
        prop_assert_eq!(q.buffered, 0);
    }
}
