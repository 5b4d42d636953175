use std::collections::{BTreeMap, VecDeque};

use anabranch_wire::{DataFlags, Ppid, Tsn};
use proptest::prelude::*;

use super::*;
use crate::receive::reassembly::Run;

/// A DATA chunk of a test.
#[derive(Clone, Debug)]
struct Chunk {
    tsn: u32,
    begin: bool,
    end: bool,
    unordered: bool,
    stream: u16,
    ssn: u16,
    bytes: Vec<u8>,
}

impl Chunk {
    fn whole(tsn: u32, stream: u16, ssn: u16, length: usize) -> Self {
        let bytes = vec![tsn.to_be_bytes()[3]; length];
        Self { tsn, begin: true, end: true, unordered: false, stream, ssn, bytes }
    }

    fn fragment(tsn: u32, begin: bool, end: bool, length: usize) -> Self {
        Self { begin, end, ..Self::whole(tsn, 0, 0, length) }
    }

    fn data(&self) -> UserData<'_> {
        let (begin, end, unordered) = (self.begin, self.end, self.unordered);
        UserData {
            flags: DataFlags(u8::from(end) | u8::from(begin) << 1 | u8::from(unordered) << 2),
            tsn: Tsn(self.tsn),
            stream: self.stream,
            sequence: self.ssn.into(),
            fsn: 0,
            ppid: Ppid(46),
            payload: &self.bytes,
        }
    }
}

const FIRST: u32 = u32::MAX - 3;

fn config(receive_buffer: usize) -> ReceiveConfig {
    ReceiveConfig { receive_buffer, ..ReceiveConfig::default() }
}

/// A receiver whose TSNs start at 1.
fn receiver(receive_buffer: usize) -> Receiver {
    Receiver::new(tsn::first(1), 100, &config(receive_buffer), 1500)
}

fn take(receiver: &mut Receiver, chunk: &Chunk) -> DataOutcome {
    let piece = Bytes::copy_from_slice(&chunk.bytes);
    receiver.on_data(&chunk.data(), || piece, u32::try_from(chunk.bytes.len()).unwrap())
}

/// Reads and releases everything. Returns the number of bytes.
fn drain(receiver: &mut Receiver) -> usize {
    let mut bytes = 0;
    while let Some(message) = receiver.poll_message() {
        bytes += message.payload.len();
        receiver.release(message.charge());
    }
    bytes
}

#[test]
fn an_idle_receiver_is_small() {
    let mut receiver = receiver(1 << 20);
    for tsn in 1..1000 {
        take(&mut receiver, &Chunk::whole(tsn, 5, (tsn - 1) as u16, 100));
        drain(&mut receiver);
    }
    receiver.trim();
    assert!(size_of::<Receiver>() < 600, "{}", size_of::<Receiver>());
    assert_eq!(receiver.used(), 0);
    assert!(size_of::<Run>() <= 128, "{}", size_of::<Run>());
}

#[test]
fn messages_keep_the_numbers_that_they_had_on_the_wire() {
    let mut receiver = Receiver::new(tsn::first(u32::MAX), 100, &config(1 << 20), 1500);
    take(&mut receiver, &Chunk { unordered: true, ..Chunk::whole(u32::MAX, 4, 9, 10) });
    take(&mut receiver, &Chunk::whole(2, 0, 1, 10));
    take(&mut receiver, &Chunk::fragment(1, false, true, 50));
    take(&mut receiver, &Chunk::fragment(0, true, false, 50));
    let mut numbers = Vec::new();
    while let Some(message) = receiver.poll_message() {
        numbers.push((message.stream, message.sequence, message.tsn));
    }
    assert_eq!(numbers, [(4, 9, u32::MAX), (0, 0, 0), (0, 1, 2)]);
}

#[test]
fn messages_come_out_and_are_counted() {
    let mut receiver = receiver(1 << 20);
    assert_eq!(take(&mut receiver, &Chunk::whole(1, 7, 0, 100)), DataOutcome::New);
    assert_eq!(take(&mut receiver, &Chunk::whole(1, 7, 0, 100)), DataOutcome::Duplicate);
    assert_eq!(take(&mut receiver, &Chunk::whole(3, 7, 2, 50)), DataOutcome::New);
    assert!(receiver.readable() && receiver.has_gaps());
    assert_eq!(receiver.gap_blocks(9).map(|b| (b.start, b.end)).collect::<Vec<_>>(), [(2, 2)]);
    assert_eq!(receiver.take_duplicates(), [tsn::first(1)]);
    let message = receiver.poll_message().unwrap();
    assert!(message.is_whole() && message.stream == 7 && message.payload.len() == 100);
    assert!(receiver.poll_message().is_none());
    receiver.release(message.charge());
    assert_eq!(take(&mut receiver, &Chunk::whole(2, 7, 1, 1)), DataOutcome::New);
    assert_eq!(drain(&mut receiver), 51);
    assert_eq!((receiver.used(), receiver.cumulative()), (0, tsn::first(3)));
    let mut counters = Counters::default();
    receiver.count(&mut counters);
    assert_eq!(counters.messages_received, 3);
    assert_eq!(counters.message_bytes_received, 151);
    assert_eq!((counters.data_chunks_received, counters.duplicate_chunks), (3, 1));
    assert_eq!(counters.out_of_sequence_chunks, 1);
}

#[test]
// test: rfc9260 6.5 "SHOULD acknowledge the reception of the DATA chunk"
fn chunks_of_invalid_streams_are_acknowledged_and_dropped() {
    let mut receiver = receiver(1 << 20);
    assert_eq!(take(&mut receiver, &Chunk::whole(1, 100, 0, 10)), DataOutcome::InvalidStream);
    assert_eq!(take(&mut receiver, &Chunk::whole(1, 100, 0, 10)), DataOutcome::Duplicate);
    assert_eq!((receiver.cumulative(), receiver.used()), (tsn::first(1), 0));
    assert!(!receiver.readable());
}

#[test]
fn a_message_cut_short_by_another_is_a_violation() {
    let violation = |chunks: &[Chunk]| {
        let mut receiver = receiver(1 << 20);
        let outcomes: Vec<_> = chunks.iter().map(|c| take(&mut receiver, c)).collect();
        matches!(outcomes.last(), Some(DataOutcome::Violation(_)))
    };
    assert!(violation(&[Chunk::fragment(1, false, false, 5)]), "no beginning");
    assert!(violation(&[Chunk::fragment(1, true, false, 5), Chunk::whole(2, 1, 0, 5)]));
    assert!(violation(&[Chunk::fragment(2, false, true, 5), Chunk::whole(1, 1, 0, 5)]));
    assert!(violation(&[Chunk::fragment(1, true, false, 5), Chunk::whole(2, 100, 0, 5)]));
    assert!(violation(&[Chunk::whole(1, 1, 1, 5)]), "SSN 0 was skipped");
}

#[test]
fn a_chunk_is_charged_what_it_keeps_alive() {
    let mut receiver = receiver(1 << 20);
    let buffer = Bytes::from(vec![0; 1500]);
    let chunk = Chunk::whole(1, 0, 0, 1000);
    receiver.on_data(&chunk.data(), || buffer.slice(28..1028), 1500);
    assert_eq!(receiver.used(), 1500 + (FRAGMENT_COST + MESSAGE_COST) as usize);
    let message = receiver.poll_message().unwrap();
    assert_eq!(message.payload.into_bytes().as_ptr(), buffer[28..].as_ptr(), "copied");
    receiver.release(message.charge);
    let chunk = Chunk::whole(2, 0, 1, 500);
    receiver.on_data(&chunk.data(), || buffer.slice(28..528), 1500);
    assert_eq!(receiver.used(), 500 + (FRAGMENT_COST + MESSAGE_COST) as usize);
    let message = receiver.poll_message().unwrap();
    assert_ne!(message.payload.into_bytes().as_ptr(), buffer[28..].as_ptr(), "pinned");
}

#[test]
// test: rfc9260 6.2 "the receiver MUST drop any new incoming DATA"
fn a_full_buffer_takes_only_what_fills_the_first_gap() {
    let mut receiver = receiver(20_000);
    let mut tsn = 2;
    while take(&mut receiver, &Chunk::whole(tsn, 0, (tsn - 1) as u16, 1000)) == DataOutcome::New {
        tsn += 1;
    }
    assert!((10..20).contains(&tsn));
    let highest = receiver.map.highest();
    assert_eq!(take(&mut receiver, &Chunk::whole(tsn, 0, 0, 1400)), DataOutcome::NoRoom);
    assert_eq!(receiver.map.highest(), highest, "what was dropped is not acknowledged");
    // TSN 1 is longer than the free memory.
    assert_eq!(take(&mut receiver, &Chunk::whole(1, 0, 0, 5000)), DataOutcome::New);
    assert!(receiver.used() > 20_000 && receiver.a_rwnd() == 0);
    assert_eq!(take(&mut receiver, &Chunk::whole(tsn, 0, 0, 10)), DataOutcome::NoRoom, "probe");
    assert_eq!(drain(&mut receiver), 5000 + (tsn as usize - 2) * 1000);
    assert_eq!(receiver.used(), 0);
    let ssn = (tsn - 1) as u16;
    assert_eq!(take(&mut receiver, &Chunk::whole(tsn, 0, ssn, 1000)), DataOutcome::New);
}

#[test]
fn the_longest_chunk_fits_into_the_reserve() {
    let mut receiver = receiver(20_000);
    let mut tsn = 2;
    while take(&mut receiver, &Chunk::whole(tsn, 0, (tsn - 1) as u16, 1)) == DataOutcome::New {
        tsn += 1;
    }
    assert_eq!(take(&mut receiver, &Chunk::whole(1, 0, 0, 65_519)), DataOutcome::New);
    assert!(receiver.used() <= 20_000 + RESERVE);
    drain(&mut receiver);
    assert_eq!(receiver.used(), 0);
}

/// A window that ends within the last chunk of a message.
#[test]
fn a_buffer_one_chunk_too_small_does_not_wedge() {
    for buffer in [1500, 2000, 2920, 3000, 4200, 4500, 6000] {
        let mut receiver = receiver(buffer);
        let mut bytes = 0;
        for tsn in 1..=4 {
            let chunk = Chunk::fragment(tsn, tsn == 1, tsn == 4, 1452);
            assert_eq!(take(&mut receiver, &chunk), DataOutcome::New, "{buffer} {tsn}");
            bytes += drain(&mut receiver);
        }
        assert_eq!((bytes, receiver.used()), (4 * 1452, 0));
    }
}

#[test]
// test: rfc9260 6.9 "SHOULD dispatch part of its inbound message"
fn a_message_of_many_windows_flows_through() {
    let mut receiver = receiver(50_000);
    let (mut bytes, mut parts) = (0, Vec::new());
    for tsn in 1..=1000 {
        let chunk = Chunk::fragment(tsn, tsn == 1, tsn == 1000, 1452);
        assert_eq!(take(&mut receiver, &chunk), DataOutcome::New);
        while let Some(part) = receiver.poll_message() {
            bytes += part.payload.len();
            parts.push((part.begin, part.end));
            receiver.release(part.charge());
        }
        assert!(receiver.used() <= 25_000 + 2000);
    }
    assert_eq!((bytes, receiver.used()), (1_452_000, 0));
    assert!(parts.len() > 10 && parts.len() < 200);
    assert_eq!(parts.iter().filter(|part| part.0).count(), 1);
    assert_eq!((parts[0], parts[parts.len() - 1]), ((true, false), (false, true)));
    let mut counters = Counters::default();
    receiver.count(&mut counters);
    assert_eq!(counters.messages_received, 1);
}

#[test]
fn messages_that_the_user_still_holds_divide_no_other() {
    let mut receiver = receiver(100_000);
    for tsn in 1..=70 {
        take(&mut receiver, &Chunk::whole(tsn, 1, (tsn - 1) as u16, 1000));
    }
    let held: Vec<Message> = std::iter::from_fn(|| receiver.poll_message()).collect();
    take(&mut receiver, &Chunk::fragment(71, true, false, 1000));
    take(&mut receiver, &Chunk::fragment(72, false, false, 1000));
    assert!(!receiver.readable());
    held.iter().for_each(|message| receiver.release(message.charge()));
    take(&mut receiver, &Chunk::fragment(73, false, true, 1000));
    let message = receiver.poll_message().unwrap();
    assert!(message.is_whole() && message.payload.len() == 3000);
}

/// A receiver from which the first part of a message was taken. The TSN after it, 6, is missing; behind it are the next
/// message of its stream (10 bytes), one of another stream (20 bytes) and an unordered one (30 bytes).
fn amid_a_message(fragment_interleave: bool) -> Receiver {
    let mut receiver = receiver(10_000);
    receiver.reconfigure(&ReceiveConfig { fragment_interleave, ..config(10_000) });
    for tsn in 1..=5 {
        take(&mut receiver, &Chunk::fragment(tsn, tsn == 1, false, 1400));
    }
    let part = receiver.poll_message().unwrap();
    assert!(part.begin && !part.end);
    receiver.release(part.charge());
    take(&mut receiver, &Chunk::whole(7, 0, 1, 10));
    take(&mut receiver, &Chunk::whole(8, 1, 0, 20));
    take(&mut receiver, &Chunk { unordered: true, ..Chunk::whole(9, 0, 0, 30) });
    receiver
}

/// Takes all that is ready: stream, first part, last part, bytes.
fn all_ready(receiver: &mut Receiver) -> Vec<(u16, bool, bool, usize)> {
    let next = |_| {
        let message = receiver.poll_message()?;
        receiver.release(message.charge());
        Some((message.stream, message.begin, message.end, message.payload.len()))
    };
    (0..).map_while(next).collect()
}

const LAST_PART: (u16, bool, bool, usize) = (0, false, true, 1400);
const NEXT: (u16, bool, bool, usize) = (0, true, true, 10);
const OF_ANOTHER: (u16, bool, bool, usize) = (1, true, true, 20);
const UNORDERED: (u16, bool, bool, usize) = (0, true, true, 30);

#[test]
fn parts_keep_their_stream_in_order() {
    let mut receiver = amid_a_message(true);
    assert_eq!(all_ready(&mut receiver), [OF_ANOTHER, UNORDERED]);
    take(&mut receiver, &Chunk::fragment(6, false, true, 1400));
    assert_eq!(all_ready(&mut receiver), [LAST_PART, NEXT]);
}

// RFC 6458 section 8.1.20.
#[test]
fn other_messages_wait_for_the_end_of_one_that_is_taken_in_parts() {
    let mut receiver = amid_a_message(false);
    assert!(!receiver.readable());
    assert_eq!(all_ready(&mut receiver), []);
    take(&mut receiver, &Chunk::fragment(6, false, true, 1400));
    assert!(receiver.readable());
    assert_eq!(all_ready(&mut receiver), [LAST_PART, OF_ANOTHER, UNORDERED, NEXT]);
    assert_eq!(receiver.used(), 0);
}

#[test]
fn a_message_whose_end_does_not_come_holds_no_other() {
    let mut receiver = amid_a_message(false);
    receiver.allow_skipping(true);
    receiver.skip(Tsn(6), std::iter::empty()).unwrap();
    assert_eq!(all_ready(&mut receiver), [OF_ANOTHER, UNORDERED, NEXT]);
}

#[test]
fn a_message_in_parts_goes_on_however_much_waits_for_its_end() {
    let mut receiver = amid_a_message(false);
    // The buffer fills behind the gap, with messages that could be taken otherwise.
    let mut tsn = 10;
    while take(&mut receiver, &Chunk::whole(tsn, 2, (tsn - 10) as u16, 500)) == DataOutcome::New {
        tsn += 1;
    }
    assert_eq!(all_ready(&mut receiver), []);
    let last = Chunk::fragment(6, false, true, 1400);
    assert_eq!(take(&mut receiver, &last), DataOutcome::New);
    assert_eq!(all_ready(&mut receiver).first(), Some(&LAST_PART));
    assert_eq!(receiver.used(), 0);
}

#[test]
fn floods_of_tiny_chunks_are_bounded() {
    // Complete messages that wait for one that never arrives, as far ahead as possible.
    let mut receiver = receiver(100_000);
    let mut held = 0_usize;
    for tsn in 2..=60_000 {
        let chunk = Chunk::whole(tsn, 0, (tsn - 1) as u16, 1);
        held += usize::from(take(&mut receiver, &chunk) == DataOutcome::New);
    }
    assert!(held * size_of::<Message>() < 100_000);
    assert!(receiver.used() <= 100_000);
    // Fragments with a hole between every two.
    let mut receiver = self::receiver(1 << 20);
    let mut held = 0;
    for tsn in (2..=60_000).step_by(2) {
        let chunk = Chunk::fragment(tsn, false, false, 1);
        held += u32::from(take(&mut receiver, &chunk) == DataOutcome::New);
    }
    assert!(held > 4000, "{held}");
    assert!(receiver.used() <= 1 << 20);
    // One-byte pieces of large buffers do not keep the buffers alive.
    let mut receiver = self::receiver(100_000);
    let mut held = 0;
    for tsn in 1..=60_000_u32 {
        let chunk = Chunk::fragment(tsn, tsn == 1, false, 1);
        let outcome = receiver.on_data(&chunk.data(), || Bytes::from(vec![0; 1]), 1500);
        held += u32::from(outcome == DataOutcome::New);
    }
    assert!((1000..2000).contains(&held), "{held}");
}

#[test]
fn a_buffer_full_of_messages_whose_predecessors_never_come_is_a_violation() {
    let message = 700 + (FRAGMENT_COST + MESSAGE_COST) as usize;
    let mut receiver = receiver(4 * message);
    for round in 0..4_u16 {
        // SSN 1 of one stream after another, and never SSN 0.
        let tsn = u32::from(round) * 2 + 1;
        let held = Chunk::whole(tsn + 1, 1 + round, 1, 700);
        assert_eq!(take(&mut receiver, &held), DataOutcome::New);
        assert_eq!(take(&mut receiver, &Chunk::whole(tsn, 0, round, 700)), DataOutcome::New);
        assert_eq!(drain(&mut receiver), 700);
    }
    assert_eq!((receiver.used(), receiver.a_rwnd()), (4 * message, 0));
    assert_eq!(take(&mut receiver, &Chunk::whole(10, 0, 5, 700)), DataOutcome::NoRoom);
    let last = take(&mut receiver, &Chunk::whole(9, 0, 4, 700));
    assert!(matches!(last, DataOutcome::Violation(_)), "{last:?}");
}

#[test]
// test: rfc9260 6.2 "have an algorithm for advertising its receive window"
fn the_window_does_not_creep() {
    let mut receiver = receiver(100_000);
    assert_eq!(receiver.a_rwnd(), 100_000);
    for tsn in 1..=60 {
        take(&mut receiver, &Chunk::whole(tsn, 0, (tsn - 1) as u16, 1400));
    }
    let announced = receiver.a_rwnd();
    assert!(announced < 10_000, "{announced}");
    receiver.on_sack_sent(announced);
    let message = receiver.poll_message().unwrap();
    receiver.release(message.charge() / 2);
    assert_eq!(receiver.a_rwnd(), announced, "by half a packet");
    receiver.release(message.charge() - message.charge() / 2);
    let message = receiver.poll_message().unwrap();
    receiver.release(message.charge());
    let opened = receiver.a_rwnd();
    assert!(opened >= announced + 1500);
    // New data uses the window up without moving its edge.
    receiver.on_sack_sent(opened);
    take(&mut receiver, &Chunk::whole(61, 0, 60, 300));
    assert!(receiver.a_rwnd() <= opened - 300);
    drain(&mut receiver);
    assert!(receiver.a_rwnd() > 80_000, "empty");
}

#[test]
fn what_is_announced_can_be_filled() {
    // 100-byte messages in a buffer that a window of user bytes would overrun.
    let mut receiver = receiver(200_000);
    for tsn in 1..=1500 {
        take(&mut receiver, &Chunk::whole(tsn, 0, (tsn - 1) as u16, 100));
        drain(&mut receiver);
    }
    let mut window = receiver.a_rwnd();
    receiver.on_sack_sent(window);
    let mut tsn = 1501;
    while window >= 100 {
        let chunk = Chunk::whole(tsn, 0, (tsn - 1) as u16, 100);
        assert_eq!(take(&mut receiver, &chunk), DataOutcome::New);
        window -= 100;
        tsn += 1;
    }
    assert!(receiver.used() > 150_000 && receiver.used() <= 200_000, "{}", receiver.used());
}

/// The last chunks of a window are small, and need more memory for each byte than those before them.
#[test]
fn the_end_of_a_window_can_be_filled_with_small_chunks() {
    let mut receiver = receiver(65_536);
    let mut window = receiver.a_rwnd() as usize;
    let (mut tsn, mut in_flight) = (1, 0);
    while window > in_flight {
        // Each SACK leaves when half of what the peer may send is on its way.
        in_flight += window / 2;
        while in_flight > 0 {
            let length = in_flight.min(if window > 3000 { 1400 } else { 144 });
            let chunk = Chunk::whole(tsn, 0, (tsn - 1) as u16, length);
            assert_eq!(take(&mut receiver, &chunk), DataOutcome::New, "{window} left");
            (tsn, in_flight, window) = (tsn + 1, in_flight - length, window - length);
            let announced = receiver.a_rwnd();
            assert!(window > 3000 || announced as usize >= window, "{announced} of {window}");
            receiver.on_sack_sent(announced);
            window = announced as usize;
        }
        if window < 4 {
            break;
        }
    }
    assert!(receiver.used() < 65_536 + 2 * 1500 + 300, "{}", receiver.used());
}

#[test]
// test: rfc9260 6.2 "SHOULD send additional SACK chunks to update"
// test: rfc9260 6.2 "MUST avoid sending a large number of window"
fn few_window_updates() {
    let mut receiver = receiver(200_000);
    let mut tsn = 1;
    while receiver.a_rwnd() > 1500 {
        take(&mut receiver, &Chunk::whole(tsn, 0, (tsn - 1) as u16, 1400));
        receiver.on_sack_sent(receiver.a_rwnd());
        tsn += 1;
    }
    assert!(!receiver.window_update_due());
    let (mut updates, mut read) = (0, 0);
    while let Some(message) = receiver.poll_message() {
        receiver.release(message.charge());
        read += 1;
        if receiver.window_update_due() {
            receiver.on_sack_sent(receiver.a_rwnd());
            updates += 1;
        }
    }
    assert!(read > 100 && (2..=4).contains(&updates), "{updates} updates");
    assert!(!receiver.window_update_due());
}

#[test]
fn a_reader_that_has_read_all_opens_a_closed_window_soon() {
    let mut receiver = receiver(200_000);
    let mut tsn = 1;
    while receiver.a_rwnd() > 0 {
        take(&mut receiver, &Chunk::whole(tsn, 0, (tsn - 1) as u16, 1400));
        receiver.on_sack_sent(receiver.a_rwnd());
        tsn += 1;
    }
    let messages: Vec<_> = std::iter::from_fn(|| receiver.poll_message()).collect();
    let released = messages.iter().take_while(|message| {
        receiver.release(message.charge());
        !receiver.window_update_due()
    });
    assert!((1..=4).contains(&released.count()));
}

#[test]
fn a_small_buffer_sends_updates_too() {
    let mut receiver = receiver(1500);
    take(&mut receiver, &Chunk::whole(1, 0, 0, 1400));
    receiver.on_sack_sent(receiver.a_rwnd());
    assert!(receiver.a_rwnd() <= 100);
    drain(&mut receiver);
    assert!(receiver.window_update_due());
    assert!(receiver.a_rwnd() > 1300);
}

/// Messages and how they are cut.
fn chunks() -> impl Strategy<Value = Vec<Chunk>> {
    let message = (0_u16..4, any::<bool>(), proptest::collection::vec(1_usize..900, 1..8));
    proptest::collection::vec(message, 1..40).prop_map(|messages| {
        let mut tsn = FIRST;
        let mut ssns = BTreeMap::new();
        let mut chunks = Vec::new();
        for (stream, unordered, pieces) in messages {
            let ssn = ssns.entry(stream).or_insert(0_u16);
            for (i, length) in pieces.iter().enumerate() {
                chunks.push(Chunk {
                    tsn,
                    begin: i == 0,
                    end: i + 1 == pieces.len(),
                    unordered,
                    stream,
                    ssn: *ssn,
                    bytes: (0..*length)
                        .map(|at| tsn.wrapping_mul(31).to_be_bytes()[3] ^ at as u8)
                        .collect(),
                });
                tsn = tsn.wrapping_add(1);
            }
            *ssn = ssn.wrapping_add(u16::from(!unordered));
        }
        chunks
    })
}

/// Messages as (stream, unordered) and their bytes, unordered ones sorted.
type Delivered = BTreeMap<(u16, bool), Vec<Vec<u8>>>;

fn sorted(mut delivered: Delivered) -> Delivered {
    delivered.iter_mut().filter(|(key, _)| key.1).for_each(|(_, messages)| messages.sort());
    delivered
}

fn expected(chunks: &[Chunk]) -> Delivered {
    let mut delivered = Delivered::new();
    for chunk in chunks {
        let messages = delivered.entry((chunk.stream, chunk.unordered)).or_default();
        if chunk.begin {
            messages.push(Vec::new());
        }
        messages.last_mut().unwrap().extend(&chunk.bytes);
    }
    sorted(delivered)
}

/// A user that reads, keeps messages for a while, and joins their parts.
#[derive(Default)]
struct User {
    delivered: Delivered,
    parts: BTreeMap<(u16, bool), Vec<u8>>,
    unreleased: VecDeque<u32>,
}

impl User {
    fn read(&mut self, receiver: &mut Receiver) -> Result<(), TestCaseError> {
        while let Some(message) = receiver.poll_message() {
            self.unreleased.push_back(message.charge());
            let key = (message.stream, message.unordered);
            let (begin, end) = (message.begin, message.end);
            let bytes = message.payload.into_bytes();
            prop_assert!(!bytes.is_empty());
            if begin && end {
                self.delivered.entry(key).or_default().push(bytes.to_vec());
                prop_assert!(key.1 || !self.parts.contains_key(&key), "between parts");
                continue;
            }
            prop_assert_eq!(begin, !self.parts.contains_key(&key));
            self.parts.entry(key).or_default().extend(&bytes);
            if end && let Some(whole) = self.parts.remove(&key) {
                self.delivered.entry(key).or_default().push(whole);
            }
        }
        Ok(())
    }

    fn release(&mut self, receiver: &mut Receiver, count: usize) {
        for charge in self.unreleased.drain(..count.min(self.unreleased.len())) {
            receiver.release(charge);
        }
    }
}

proptest! {
    #[test]
    fn what_goes_in_comes_out(
        chunks in chunks(),
        buffer in 1500_usize..20_000,
        picks in proptest::collection::vec((any::<prop::sample::Index>(), 0_u8..4), 0..300),
        shuffle in any::<u64>(),
    ) {
        let mut receiver = Receiver::new(tsn::first(FIRST), 4, &config(buffer), 1500);
        let mut user = User::default();
        let mut accepted = vec![false; chunks.len()];
        let mut offer = |receiver: &mut Receiver, at: usize| {
            let piece = Bytes::copy_from_slice(&chunks[at].bytes);
            let share = u32::try_from(piece.len()).unwrap() + 80;
            let outcome = receiver.on_data(&chunks[at].data(), || piece, share);
            let fine = match outcome {
                DataOutcome::New => !std::mem::replace(&mut accepted[at], true),
                DataOutcome::Duplicate => accepted[at],
                DataOutcome::NoRoom => !accepted[at],
                DataOutcome::InvalidStream | DataOutcome::Violation(_) => false,
            };
            prop_assert!(fine, "{:?} for {:?}", outcome, chunks[at]);
            prop_assert!(receiver.used() <= buffer + RESERVE);
            Ok(outcome)
        };
        // Safety: any order, with losses and duplicates, and a slow reader.
        for (pick, action) in picks {
            offer(&mut receiver, pick.index(chunks.len()))?;
            match action {
                0 => user.read(&mut receiver)?,
                1 => user.release(&mut receiver, 2),
                _ => {}
            }
        }
        // Liveness: the user reads, the peer retransmits from the lowest TSN, in a random order
        // within its window.
        let mut seed = shuffle;
        for _ in 0..10 * chunks.len() {
            user.read(&mut receiver)?;
            user.release(&mut receiver, usize::MAX);
            let next = usize::try_from(receiver.cumulative() + 1 - tsn::first(FIRST)).unwrap();
            if next == chunks.len() {
                break;
            }
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let ahead = next + usize::try_from(seed >> 60).unwrap();
            offer(&mut receiver, ahead.min(chunks.len() - 1))?;
            prop_assert_ne!(offer(&mut receiver, next)?, DataOutcome::NoRoom);
        }
        user.read(&mut receiver)?;
        user.release(&mut receiver, usize::MAX);
        prop_assert!(user.parts.is_empty());
        prop_assert_eq!(sorted(user.delivered), expected(&chunks));
        prop_assert_eq!(receiver.used(), 0);
        prop_assert!(!receiver.assembler.is_amid() && receiver.assembler.held_charge() == 0);
        prop_assert!(!receiver.has_gaps());
    }

    #[test]
    fn hostile_chunks_break_nothing(
        chunks in proptest::collection::vec(
            (0_u32..200, 0_u8..8, 0_u16..6, 0_u16..4, 1_usize..100, any::<bool>()),
            0..400,
        ),
    ) {
        let mut receiver = Receiver::new(tsn::first(10), 5, &config(3000), 1500);
        for (tsn, flags, stream, ssn, length, read) in chunks {
            let (begin, end, unordered) = (flags & 1 != 0, flags & 2 != 0, flags & 4 != 0);
            let bytes = vec![0; length];
            let chunk = Chunk { tsn, begin, end, unordered, stream, ssn, bytes };
            if let DataOutcome::Violation(_) = take(&mut receiver, &chunk) {
                return Ok(());
            }
            prop_assert!(receiver.used() <= 3000 + RESERVE);
            if read {
                drain(&mut receiver);
            }
        }
    }
}
