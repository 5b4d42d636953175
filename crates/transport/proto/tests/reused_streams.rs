//! Streams that are opened, used and closed by the hundred thousand on one association that loses packets: their numbers
//! are used again (RFC 6525), nothing reaches the wrong stream, and memory does not grow.

use std::alloc::System;
use std::time::Duration;

use anabranch_harness::Pair;
use anabranch_impair::{LinkConfig, Loss, Probability};
use anabranch_proto::{
    AssociationConfig, Event, Message, Notification, ReconfigurationResult, StreamDirection,
};
use bytes::Buf as _;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Streams of the association; each has hundreds of lives.
const STREAMS: u16 = 128;

/// Lives of streams.
const LIVES: u32 = 100_000;

/// Messages of each life in each direction. The second one is long enough to be alone in a packet.
const LENGTHS: [usize; 3] = [20, 900, 60];

/// Memory that may vary: queues of packets in the network, and spare room of lists.
const SLACK: usize = 16 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    Free,
    /// Messages go there and back.
    Open,
    /// All echoes have arrived; it can be reset.
    Used,
    /// A reset was requested; the number of directions that are not reset yet.
    Closing(u8),
}

/// What an end has received on a stream: the current life, and the number of its messages.
#[derive(Clone, Copy, Debug, Default)]
struct Heard {
    life: u32,
    messages: u32,
}

struct Run {
    pair: Pair,
    uses: [Use; STREAMS as usize],
    lives: [u32; STREAMS as usize],
    heard: [[Heard; STREAMS as usize]; 2],
    opened: u32,
    closed: u32,
    resets: u32,
}

fn config() -> AssociationConfig {
    AssociationConfig::default().with(|config| {
        config.sending.outbound_streams = STREAMS;
        config.receiving.inbound_streams = STREAMS;
    })
}

/// Bytes that the allocator holds.
fn held() -> usize {
    let stats = ALLOCATOR.stats();
    stats.bytes_allocated.wrapping_sub(stats.bytes_deallocated)
}

impl Run {
    fn new() -> Self {
        let mut pair = Pair::connected(1, config());
        let delay = Duration::from_millis(10);
        let loss = Loss::Uniform(Probability::percent(1));
        pair.net.set_links(LinkConfig { delay, loss, ..LinkConfig::default() });

        Self {
            pair,
            uses: [Use::Free; STREAMS as usize],
            lives: [0; STREAMS as usize],
            heard: [[Heard::default(); STREAMS as usize]; 2],
            opened: 0,
            closed: 0,
            resets: 0,
        }
    }

    /// Sends message `number` of the current life of a stream; it says so.
    fn send(&mut self, node: usize, stream: u16, life: u32, number: u32) {
        let mut bytes = [stream.to_be_bytes().as_slice(), &life.to_be_bytes()].concat();
        bytes.extend(number.to_be_bytes());
        bytes.resize(LENGTHS[number as usize], life as u8);
        assert!(self.pair.send(node, stream, bytes), "{stream}: the send buffer has room");
    }

    /// Opens streams whose numbers are free, up to `most` lives in all.
    fn open(&mut self, most: u32) {
        for stream in 0..STREAMS {
            let index = usize::from(stream);
            if self.uses[index] != Use::Free || self.opened == most {
                continue;
            }
            self.uses[index] = Use::Open;
            self.lives[index] += 1;
            self.opened += 1;
            for number in 0..LENGTHS.len() as u32 {
                self.send(0, stream, self.lives[index], number);
            }
        }
    }

    /// Requests the reset of all used streams.
    fn close(&mut self) {
        let used: Vec<u16> =
            (0..STREAMS).filter(|stream| self.uses[usize::from(*stream)] == Use::Used).collect();
        // All streams must not be meant if there is none.
        if used.is_empty() {
            return;
        }
        let now = self.pair.net.now();
        let both = StreamDirection::Both;
        self.pair.association_mut(0).reset_streams(now, both, &used).unwrap();
        used.iter().for_each(|stream| self.uses[usize::from(*stream)] = Use::Closing(2));
        self.resets += 1;
    }

    /// Checks a message that a node received, and answers the peer's.
    fn on_message(&mut self, node: usize, message: Message) {
        let (mut payload, length) = (message.payload.clone(), message.payload.len());
        let (stream, life, number) = (payload.get_u16(), payload.get_u32(), payload.get_u32());
        let index = usize::from(stream);
        assert_eq!(message.stream, stream, "the wrong stream");
        assert_eq!(length, LENGTHS[number as usize]);
        assert!(payload.into_bytes().iter().all(|byte| *byte == life as u8));
        let heard = &mut self.heard[node][index];
        if life != heard.life {
            let (before, all) = (*heard, LENGTHS.len() as u32);
            assert_eq!(
                life,
                before.life + 1,
                "stream {stream}: a life was left out, or an old one came"
            );
            assert!(before.life == 0 || before.messages == all, "stream {stream}: {before:?}");
            *heard = Heard { life, messages: 0 };
        }
        assert_eq!(number, heard.messages, "stream {stream}: twice or out of order");
        assert_eq!(message.sequence, number, "stream {stream}: numbers begin again with each life");
        heard.messages += 1;
        let is_last = heard.messages == LENGTHS.len() as u32;
        match node {
            0 if is_last => self.uses[index] = Use::Used,
            0 => {}
            _ => self.send(1, stream, life, number),
        }
    }

    fn on_event(&mut self, node: usize, event: Event) {
        match event {
            Event::Notification(Notification::StreamsReset { streams, result, .. }) => {
                assert_eq!(result, ReconfigurationResult::Performed);
                if node == 0 {
                    streams.iter().for_each(|stream| self.on_reset(*stream));
                }
            }
            Event::Notification(Notification::Closed(reason)) => panic!("{reason}"),
            _ => {}
        }
    }

    fn on_reset(&mut self, stream: u16) {
        let of = &mut self.uses[usize::from(stream)];
        *of = match *of {
            Use::Closing(1) => {
                self.closed += 1;
                Use::Free
            }
            Use::Closing(left) => Use::Closing(left - 1),
            other => panic!("stream {stream} was reset while {other:?}"),
        };
    }

    /// Lets this many streams live and end.
    fn live(&mut self, lives: u32) {
        let most = self.opened + lives;
        while self.closed < most {
            self.open(most);
            self.close();
            let something = |pair: &mut Pair| {
                let news = [0, 1].map(|node| pair.received[node].len() + pair.events[node].len());
                news != [0, 0]
            };
            assert!(self.pair.run_until(Duration::from_secs(60), something), "nothing moves");
            for node in [0, 1] {
                for message in std::mem::take(&mut self.pair.received[node]) {
                    self.on_message(node, message);
                }
                for event in std::mem::take(&mut self.pair.events[node]) {
                    self.on_event(node, event);
                }
            }
            self.pair.forget();
        }
    }

    /// The memory of everything, and of the two ends by their own account, once nothing moves.
    fn memory(&mut self) -> (usize, [usize; 2]) {
        self.pair.run(Duration::from_secs(5));
        self.pair.events.iter_mut().for_each(Vec::clear);
        self.pair.forget();
        (held(), [0, 1].map(|node| self.pair.net.node(node).endpoint.memory_used()))
    }
}

#[test]
fn a_hundred_thousand_streams_on_one_association() {
    let mut run = Run::new();
    // Each stream has lived several times before memory is measured.
    run.live(LIVES / 10);
    let (before, accounts) = run.memory();
    run.live(LIVES - LIVES / 10);
    let (after, accounts_after) = run.memory();
    assert_eq!((run.opened, run.closed), (LIVES, LIVES));
    assert_eq!(run.lives.iter().sum::<u32>(), LIVES);
    assert!(
        run.lives.iter().all(|lives| *lives > LIVES / 2 / u32::from(STREAMS)),
        "{:?}",
        run.lives
    );
    assert_eq!(accounts_after, accounts);
    let grown = after.saturating_sub(before);
    println!("{} resets, {before} bytes before, {after} after", run.resets);
    assert!(grown <= SLACK, "{before} bytes before, {after} after");
    let lost = run.pair.statistics(0).counters.reconfiguration_timeouts;
    assert!(lost > 0, "no request was lost");
}
