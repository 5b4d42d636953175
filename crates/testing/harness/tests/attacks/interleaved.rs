//! Attacks on the memory of a receiver whose messages are interleaved (RFC 8260).

use anabranch_harness::hostile::Target;
use anabranch_proto::AssociationId;
use anabranch_wire::{DataFlags, SkippedMessage};
use bytes::Bytes;

use crate::memory::{BESIDE, BUFFER, fill_target};
use crate::{Attack, Memory, attack, figure, quiet};

const BEGIN: u8 = DataFlags::BEGIN;
const END: u8 = DataFlags::END;

pub(crate) fn all() -> Vec<Attack> {
    vec![
        beginnings(),
        unordered_beginnings(),
        middles(),
        gaps_within_a_message(),
        gaps_between_tsns(),
        one_byte_in_turn(),
        held_and_scattered(),
        skipped_streams(),
        skipped_halves(),
    ]
}

fn connected() -> (Target, AssociationId) {
    let mut config = quiet();
    config.receiving.receive_buffer = BUFFER;
    Target::connected_interleaved(config)
}

fn fill(name: &'static str, count: u32, packet: impl Fn(&Target, u32) -> Bytes) -> Attack {
    fill_target(connected(), name, count, BUFFER as u64 + BESIDE, packet)
}

fn beginnings() -> Attack {
    let name = "first fragments of 30,000 interleaved messages on as many streams";
    fill(name, 30_000, |target, number| target.i_data(number + 1, BEGIN, number as u16, 0, 0))
}

fn unordered_beginnings() -> Attack {
    let name = "first fragments of 30,000 unordered interleaved messages on one stream";
    let flags = BEGIN | DataFlags::UNORDERED;
    fill(name, 30_000, |target, number| target.i_data(number + 1, flags, 0, number, 0))
}

fn middles() -> Attack {
    let name = "a middle fragment of each of 30,000 interleaved messages";
    fill(name, 30_000, |target, number| target.i_data(number + 1, 0, number as u16, 1, 7))
}

fn gaps_within_a_message() -> Attack {
    let name = "30,000 fragments of an interleaved message, every second one missing";
    fill(name, 30_000, |target, number| target.i_data(number + 1, 0, 0, 0, 2 * number + 1))
}

fn gaps_between_tsns() -> Attack {
    let name = "30,000 fragments of an interleaved message, every second TSN missing";
    fill(name, 30_000, |target, number| {
        let flags = if number == 0 { BEGIN } else { 0 };
        target.i_data(2 * number + 2, flags, 0, 0, number)
    })
}

/// Every fragment belongs to another message than the one before.
fn one_byte_in_turn() -> Attack {
    let name = "300 interleaved messages that come byte by byte in turn";
    fill(name, 200_000, |target, number| {
        let (stream, position) = ((number % 300) as u16, number / 300);
        let flags = if position == 0 { BEGIN } else { 0 };
        target.i_data(number + 1, flags, stream, 0, position)
    })
}

/// Complete messages whose TSNs are not adjacent, and which wait for a message that does not come.
fn held_and_scattered() -> Attack {
    let name = "30,000 interleaved messages whose TSNs are apart, and which wait for another one";
    fill(name, 90_000, |target, number| {
        // Ten messages at a time: their first fragments, their second ones, their third ones.
        let (round, part, of) = (number / 30, number / 10 % 3, number % 10);
        let flags = [BEGIN, 0, END][part as usize];
        target.i_data(number + 1, flags, 0, 10 * round + of + 1, part)
    })
}

/// The state of streams is that of messages on them. Skipped unordered messages leave no state.
fn skipped_streams() -> Attack {
    let (mut target, _) = connected();
    let (mut memory, mut tsn) = (Memory::now(), 0);
    for round in 0..8_u32 {
        for part in 0..10 {
            let streams = 6553 * part..6553 * (part + 1);
            let messages = streams.flat_map(|stream| {
                [false, true].map(|unordered| SkippedMessage { stream, unordered, mid: round })
            });
            let messages = messages.collect::<Vec<_>>();
            for half in messages.chunks(messages.len() / 2) {
                tsn += 1;
                let packet = target.i_forward_tsn(tsn, half.iter().copied());
                target.take(Target::THERE, &packet);
                drop(packet);
                target.drain();
            }
            memory.grown();
        }
    }
    attack(
        "I-FORWARD-TSNs that skip 8 ordered and 8 unordered messages on each of 65,530 streams",
        [figure("bytes held for each stream", 8, memory.most() / 65_530)],
    )
}

/// What is skipped holds no memory.
fn skipped_halves() -> Attack {
    let (mut target, id) = connected();
    let mut memory = Memory::now();
    for number in 0..100_000 {
        let half = target.i_data(2 * number + 2, BEGIN, 7, number, 0);
        target.take(Target::THERE, &half);
        drop(half);
        if number % 100 == 99 {
            let last = SkippedMessage { stream: 7, unordered: false, mid: number };
            let packet = target.i_forward_tsn(2 * number + 2, std::iter::once(last));
            target.take(Target::THERE, &packet);
        }
        target.drain();
        memory.grown();
    }
    let held = memory.most();
    let charged = target.association(id).statistics().receive_buffer_used;
    attack(
        "100,000 first halves of interleaved messages, skipped 100 at a time",
        [figure("bytes held", 65_536, held), figure("bytes charged", 0, charged)],
    )
}
