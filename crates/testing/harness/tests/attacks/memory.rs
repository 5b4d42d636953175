//! Attacks that use much memory with few bytes.

use anabranch_harness::hostile::Target;
use anabranch_proto::byte_mode::{Ledger, Signal};
use anabranch_proto::{AssociationId, EndpointConfig, Event, Notification, OutgoingMessage, Ppid};
use anabranch_wire::{DataFlags, kind};
use bytes::Bytes;

use crate::{Attack, Memory, attack, figure, interleaved, quiet};

const WHOLE: u8 = DataFlags::BEGIN | DataFlags::END;
/// The receive buffer that the attacks must exceed.
pub(crate) const BUFFER: usize = 256 << 10;
/// Memory of an association in addition to its receive buffer: tables that are not charged.
pub(crate) const BESIDE: u64 = 64 << 10;

fn connected() -> (Target, AssociationId) {
    let mut config = quiet();
    config.receiving.receive_buffer = BUFFER;
    Target::connected(config, &[])
}

pub(crate) fn all() -> Vec<Attack> {
    let mut all = vec![
        tiny_in_order(),
        tiny_with_gaps(),
        endless_message(),
        beginnings(),
        held_for_their_predecessor(),
        every_stream(),
        skipped_streams(),
        resets(),
        skipped_halves(),
        every_byte_stream(),
        amid_padding(),
        amid_a_batch(),
        duplicates(),
        unanswered(),
        causes(),
        long_causes(),
        restarts(),
        given_back(),
        streams_that_do_not_exist(),
    ];
    all.extend(interleaved::all());
    all
}

/// Sends packets made by `packet` many times to a user that does not read.
fn fill(
    name: &'static str,
    count: u32,
    bound: u64,
    packet: impl Fn(&Target, u32) -> Bytes,
) -> Attack {
    fill_target(connected(), name, count, bound, packet)
}

/// As [`fill`], for an association that was set up otherwise.
pub(crate) fn fill_target(
    (mut target, id): (Target, AssociationId),
    name: &'static str,
    count: u32,
    bound: u64,
    packet: impl Fn(&Target, u32) -> Bytes,
) -> Attack {
    let mut memory = Memory::now();
    for number in 0..count {
        let packet = packet(&target, number);
        target.take(Target::THERE, &packet);
        drop(packet);
        target.drain();
        if number % 64 == 0 {
            memory.grown();
        }
    }
    let held = memory.most();
    let charged = target.association(id).statistics().receive_buffer_used;
    attack(
        name,
        [
            figure("bytes held", bound, held),
            figure("bytes charged", (BUFFER + 4096) as u64, charged),
        ],
    )
}

fn tiny_in_order() -> Attack {
    let bound = BUFFER as u64 + BESIDE;
    fill("200,000 messages of one byte that nobody reads", 200_000, bound, |target, number| {
        target.data(number + 1, WHOLE, 0, number as u16, b"x")
    })
}

fn tiny_with_gaps() -> Attack {
    let bound = BUFFER as u64 + BESIDE;
    fill(
        "30,000 messages of one byte, every second one missing",
        30_000,
        bound,
        |target, number| target.data(2 * number + 2, WHOLE, 0, number as u16, b"x"),
    )
}

fn endless_message() -> Attack {
    let bound = BUFFER as u64 + BESIDE;
    fill("a message of 200,000 fragments of one byte", 200_000, bound, |target, number| {
        let flags = if number == 0 { DataFlags::BEGIN } else { 0 };
        target.data(number + 1, flags, 0, 0, b"x")
    })
}

fn beginnings() -> Attack {
    let bound = BUFFER as u64 + BESIDE;
    fill("30,000 first fragments of messages that never go on", 30_000, bound, |target, number| {
        let flags = DataFlags::BEGIN | DataFlags::UNORDERED;
        target.data(2 * number + 2, flags, 0, 0, b"x")
    })
}

fn held_for_their_predecessor() -> Attack {
    let bound = BUFFER as u64 + BESIDE;
    fill("a message out of order on each of 65,000 streams", 65_000, bound, |target, number| {
        // The TSNs before these messages would have had room for the predecessors for which they wait.
        target.data(number + 70, WHOLE, number as u16, 1, b"x")
    })
}

/// Memory of data that was read is released; the state of streams stays.
fn every_stream() -> Attack {
    let (mut target, id) = connected();
    let mut memory = Memory::now();
    for number in 0..65_535 {
        let packet = target.data(number + 1, WHOLE, number as u16, 0, b"x");
        target.take(Target::THERE, &packet);
        drop(packet);
        target.read(id);
        target.drain();
        while target.endpoint.poll_event().is_some() {}
        memory.grown();
    }
    attack(
        "a message on each of 65,535 streams, all read",
        [figure("bytes held for each stream", 4, memory.most() / 65_535)],
    )
}

/// The state of streams is that of messages on them.
fn skipped_streams() -> Attack {
    let (mut target, _) = Target::connected_partial(quiet());
    let mut memory = Memory::now();
    for round in 0..8_u32 {
        for part in 0..5 {
            let streams = 13_107 * part..13_107 * (part + 1);
            let tsn = 5 * round + u32::from(part) + 1;
            let packet = target.forward_tsn(tsn, streams, round as u16);
            target.take(Target::THERE, &packet);
            drop(packet);
            target.drain();
            memory.grown();
        }
    }
    attack(
        "FORWARD TSNs that skip 8 messages on each of 65,535 streams",
        [figure("bytes held for each stream", 4, memory.most() / 65_535)],
    )
}

/// Nobody reads what the peer has reset, and one reset waits for data that never comes.
fn resets() -> Attack {
    let (mut target, _) = Target::connected_reconfiguring(quiet());
    let mut memory = Memory::now();
    let first = [target.reset(1, 0, 0..8192), target.reset(2, 1, 0..8192)];
    for packet in first {
        target.take(Target::THERE, &packet);
        target.drain();
    }
    for number in 3..10_000 {
        let packet = target.reset(number, 1000, 0..8192);
        target.take(Target::THERE, &packet);
        drop(packet);
        target.drain();
        memory.grown();
    }
    attack(
        "10,000 resets of 8,192 streams, one waits for data",
        [figure("bytes held", 131_072, memory.most())],
    )
}

/// What is skipped holds no memory.
fn skipped_halves() -> Attack {
    let mut config = quiet();
    config.receiving.receive_buffer = BUFFER;
    let (mut target, id) = Target::connected_partial(config);
    let mut memory = Memory::now();
    for number in 0..100_000 {
        let half = target.data(2 * number + 2, DataFlags::BEGIN, 7, number as u16, b"x");
        target.take(Target::THERE, &half);
        drop(half);
        if number % 100 == 99 {
            let packet = target.forward_tsn(2 * number + 2, std::iter::once(7), number as u16);
            target.take(Target::THERE, &packet);
        }
        target.drain();
        memory.grown();
    }
    let held = memory.most();
    let charged = target.association(id).statistics().receive_buffer_used;
    attack(
        "100,000 first halves of messages, skipped 100 at a time",
        [figure("bytes held", 65_536, held), figure("bytes charged", 0, charged)],
    )
}

/// The ledger of byte streams: an offset is remembered as long as the association exists.
fn every_byte_stream() -> Attack {
    let mut memory = Memory::now();
    let mut ledger = Ledger::new(BUFFER);
    for number in 0..=u16::MAX {
        ledger.on_bytes(number, 1);
        ledger.on_read(number, 1);
        ledger.on_signal(number, Signal::Credit(u64::MAX));
        ledger.tell(|_| true);
        memory.grown();
    }
    let held = memory.most();
    assert!(ledger.credit(u16::MAX).is_ok());
    attack(
        "a byte and credit on each of 65,536 byte streams",
        [
            figure("bytes held for each stream", 200, held / 65_536),
            figure("bytes held beyond those charged", 0, held.saturating_sub(ledger.memory())),
        ],
    )
}

fn amid_padding() -> Attack {
    let bound = BUFFER as u64 + BESIDE;
    fill(
        "20,000 messages of one byte in packets full of padding",
        20_000,
        bound,
        |target, number| {
            let mut value = (number + 1).to_be_bytes().to_vec();
            value.extend_from_slice(&[0, 0]);
            value.extend_from_slice(&(number as u16).to_be_bytes());
            value.extend_from_slice(&[0, 0, 0, 0, 7]);
            target.draft().with(kind::DATA, WHOLE, value).with(kind::PAD, 0, vec![0; 1400]).bytes()
        },
    )
}

/// One packet with data among 45 packets of padding in a batch received in one buffer.
fn amid_a_batch() -> Attack {
    // Allow twice the receive buffer, and one complete batch.
    let bound = 2 * BUFFER as u64 + BESIDE + 65_536;
    let name = "2,000 batches of 64 KiB, one packet with data in each";
    let (mut target, id) = connected();
    let mut memory = Memory::now();
    for number in 0..2000 {
        let data = target.data(number + 1, WHOLE, 0, number as u16, &[7; 1400]);
        let padding = target.draft().with(kind::PAD, 0, vec![0; data.len() - 16]).bytes();
        let mut batch = Vec::with_capacity(65_536);
        batch.extend_from_slice(&data);
        while batch.len() + padding.len() <= 65_535 {
            batch.extend_from_slice(&padding);
        }
        assert_eq!(padding.len(), data.len());
        target.take_batch(Target::THERE, data.len(), batch.into());
        target.drain();
        memory.grown();
    }
    let charged = target.association(id).statistics().receive_buffer_used;
    attack(
        name,
        [
            figure("bytes held", bound, memory.most()),
            figure("bytes charged", (BUFFER + 4096) as u64, charged),
        ],
    )
}

fn duplicates() -> Attack {
    let (mut target, _) = connected();
    let first = target.data(1, WHOLE, 0, 0, b"x");
    let later = target.data(9, WHOLE, 0, 8, b"x");
    let mut memory = Memory::now();
    for _ in 0..100_000 {
        target.take(Target::THERE, &first);
        target.take(Target::THERE, &later);
        target.drain();
    }
    attack(
        "two chunks 100,000 times each",
        [
            figure("packets sent", 200_000, target.work.packets_out),
            figure("bytes held", 4096, memory.most()),
        ],
    )
}

/// All packets that require an answer, while the driver cannot send.
fn unanswered() -> Attack {
    let (mut target, id) = connected();
    let mut memory = Memory::now();
    for number in 0..100_000_u32 {
        let draft = match number % 5 {
            0 => {
                let mut information = vec![0, 1, 0x05, 0x78];
                information.resize(1400, 7);
                target.draft().with(kind::HEARTBEAT, 0, information)
            }
            1 => target.draft().with(0xff, 0, vec![7; 1400]),
            2 => target.draft().with(kind::INIT_ACK, 0, vec![7; 1400]),
            3 => target.draft().with(kind::COOKIE_ACK, 0, []),
            _ => {
                let value = [0, 0, 0, 1, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 7];
                target.draft().with(kind::DATA, WHOLE, value)
            }
        };
        target.take(Target::THERE, &draft.bytes());
    }
    let held = memory.most();
    assert!(target.association(id).is_established());
    attack(
        "100,000 packets that want an answer, while the driver cannot send",
        [figure("answers wait", 40, target.sent().len()), figure("bytes held", 64 << 10, held)],
    )
}

/// Errors that the peer reports, while the user does not read events.
fn causes() -> Attack {
    let (mut target, _) = connected();
    let mut memory = Memory::now();
    for _ in 0..1000 {
        let causes = [0xab, 0xcd, 0, 4].repeat(360);
        let packet = target.draft().with(kind::ERROR, 0, causes);
        target.take(Target::THERE, &packet.bytes());
        target.drain();
    }
    let held = memory.most();
    let events = std::iter::from_fn(|| target.endpoint.poll_event()).count();
    attack(
        "360,000 error causes, while the user takes no events",
        [figure("events wait", 64, events), figure("bytes held", 16 << 10, held)],
    )
}

/// The same, with causes as long as a chunk allows.
fn long_causes() -> Attack {
    let (mut target, _) = connected();
    let mut cause = vec![0xab, 0xcd, 0xea, 0x60];
    cause.resize(60_000, 7);
    let packet = target.draft().with(kind::ERROR, 0, cause).bytes();
    let mut memory = Memory::now();
    for _ in 0..1000 {
        target.take(Target::THERE, &packet);
        target.drain();
    }
    let charged = target.endpoint.memory_used();
    let held = memory.most();
    let longest =
        std::iter::from_fn(|| target.endpoint.poll_event()).map(|(_, event)| match event {
            Event::Notification(Notification::PeerError { cause, .. }) => cause.len() as u64,
            _ => 0,
        });
    attack(
        "1,000 error causes of 60,000 bytes, while the user takes no events",
        [
            figure("bytes in the longest", 2048, longest.max().unwrap_or(0)),
            figure("bytes held", 192 << 10, held),
            figure("bytes held that are not charged", 32 << 10, held.saturating_sub(charged)),
        ],
    )
}

/// A peer that loses its state repeatedly.
fn restarts() -> Attack {
    let (mut target, _) = connected();
    let mut memory = Memory::now();
    for _ in 0..10_000 {
        target.peer_tag += 1;
        let cookie = target.cookie(Target::THERE, Target::header(0), &[]).expect("a cookie");
        target.take(Target::THERE, &cookie);
        target.drain();
    }
    let held = memory.most();
    let events = std::iter::from_fn(|| target.endpoint.poll_event()).count();
    attack(
        "10,000 restarts, while the user takes no events",
        [figure("events wait", 260, events), figure("bytes held", 2 << 20, held)],
    )
}

/// Each restart returns the contents of the send buffer.
fn given_back() -> Attack {
    const LIMIT: usize = 4 << 20;
    let mut endpoint = EndpointConfig::default();
    endpoint.memory_limit = LIMIT;
    let mut target = Target::new(endpoint, quiet());
    let id = target.connect(&[]);
    let mut memory = Memory::now();
    for _ in 0..100 {
        let now = target.now;
        let data = vec![7; 100_000];
        while let Ok(()) = target
            .association(id)
            .send(now, OutgoingMessage::new(0, Ppid(0), Bytes::from(data.clone())))
        {}
        target.drain();
        memory.grown();
        target.peer_tag += 1;
        let cookie = target.cookie(Target::THERE, Target::header(0), &[]).expect("a cookie");
        target.take(Target::THERE, &cookie);
        target.drain();
        memory.grown();
    }
    let held = memory.most();
    attack(
        "a full send buffer at each of 100 restarts, while the user takes no events",
        [figure("bytes held", (LIMIT + (1 << 20)) as u64, held)],
    )
}

/// Chunks that are acknowledged but not kept, so nothing is charged for them.
fn streams_that_do_not_exist() -> Attack {
    let mut config = quiet();
    config.receiving.inbound_streams = 1;
    let mut target = Target::new(EndpointConfig::default(), config);
    target.connect(&[]);
    let mut memory = Memory::now();
    for number in 0..32_000 {
        let packet = target.data(2 * number + 2, WHOLE, 9, 0, b"x");
        target.take(Target::THERE, &packet);
        drop(packet);
        target.drain();
        if number % 64 == 0 {
            memory.grown();
        }
    }
    attack(
        "32,000 chunks on a stream that does not exist, every second one missing",
        [figure("bytes held", BESIDE, memory.most())],
    )
}
