//! Requirements for every pair of engines, checked byte by byte in virtual time.
//!
//! A case can be run with any two engines; it only uses [`Engine`].

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use fastrand::Rng;

use crate::config::{Config, Role, Tuning};
use crate::engine::Engine;
use crate::pair::{Network, Pair};
use crate::{MILLISECOND, SECOND};

/// How completely a case was checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passed {
    /// Completely.
    Fully,
    /// The engine that aborted the association cannot notify the other; only its own end was
    /// checked.
    WithoutAbortChunk,
}

/// Creates an engine for one role.
pub type Build<'a> = &'a dyn Fn(&Config, Role) -> Box<dyn Engine>;

/// An interaction of two engines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Case {
    /// Ordered messages of mixed lengths on one stream.
    Ordered,
    /// Unordered messages of mixed lengths on one stream.
    Unordered,
    /// Messages of 1 byte to 1 MB, including every length around a full packet.
    Lengths,
    /// Three ordered messages on each of 200 streams.
    Streams,
    /// Both sides send simultaneously, ordered and unordered.
    BothWays,
    /// Both sides send simultaneously, and 1 % of all packets is lost.
    Loss,
    /// The client sends and shuts down gracefully.
    ShutdownByClient,
    /// The server sends and shuts down gracefully.
    ShutdownByServer,
    /// The client aborts in the middle of a transfer.
    AbortByClient,
    /// The server aborts in the middle of a transfer.
    AbortByServer,
}

impl Case {
    /// Every case.
    pub const ALL: [Case; 10] = [
        Case::Ordered,
        Case::Unordered,
        Case::Lengths,
        Case::Streams,
        Case::BothWays,
        Case::Loss,
        Case::ShutdownByClient,
        Case::ShutdownByServer,
        Case::AbortByClient,
        Case::AbortByServer,
    ];

    /// A short name for tables.
    pub fn name(self) -> &'static str {
        match self {
            Case::Ordered => "ordered",
            Case::Unordered => "unordered",
            Case::Lengths => "1 B - 1 MB",
            Case::Streams => "streams",
            Case::BothWays => "both ways",
            Case::Loss => "1 % loss",
            Case::ShutdownByClient => "shutdown c",
            Case::ShutdownByServer => "shutdown s",
            Case::AbortByClient => "abort c",
            Case::AbortByServer => "abort s",
        }
    }

    /// The side that ends the association, and whether gracefully.
    fn ending(self) -> Option<(usize, bool)> {
        match self {
            Case::ShutdownByClient => Some((0, true)),
            Case::ShutdownByServer => Some((1, true)),
            Case::AbortByClient => Some((0, false)),
            Case::AbortByServer => Some((1, false)),
            _ => None,
        }
    }

    /// The messages of the two sides.
    fn plan(self) -> [VecDeque<Planned>; 2] {
        let mut random = Rng::with_seed(self as u64 + 1);
        let mut plan = [VecDeque::new(), VecDeque::new()];
        let mut add = |end: usize, stream, ordered, length: usize| {
            let bytes = std::iter::repeat_with(|| random.u8(..)).take(length);
            plan[end].push_back(Planned { stream, ordered, message: bytes.collect() });
        };
        // Lengths from one byte to one, two and many packets.
        let mixed = [1, 17, 500, 1024, 1424, 1425, 3000, 20_000];
        let lengths = || mixed.iter().copied().cycle();
        match self {
            Case::Ordered => lengths().take(80).for_each(|n| add(0, 3, true, n)),
            Case::Unordered => lengths().take(80).for_each(|n| add(0, 3, false, n)),
            Case::Lengths => {
                let around_a_packet = 1416..=1436;
                let decades = [1, 2, 3, 4, 5, 10, 100, 1000, 10_000, 100_000, 1_000_000];
                for length in decades.into_iter().chain(around_a_packet) {
                    add(0, 0, true, length);
                }
            }
            Case::Streams => {
                for round in 0..3 {
                    for stream in 0..200 {
                        add(0, stream, true, 1 + usize::from(stream) * (round + 1));
                    }
                }
            }
            Case::BothWays | Case::Loss => {
                for (n, length) in (0_u16..160).zip(lengths()) {
                    // Each stream is either ordered or unordered, because an engine may fix that
                    // per stream.
                    let stream = n % 7;
                    add(usize::from(n % 2), stream, stream < 4, length);
                }
            }
            Case::ShutdownByClient => lengths().take(40).for_each(|n| add(0, 1, true, n)),
            Case::ShutdownByServer => lengths().take(40).for_each(|n| add(1, 1, true, n)),
            Case::AbortByClient | Case::AbortByServer => {
                (0..200).for_each(|_| add(0, 1, true, 5000));
            }
        }
        plan
    }
}

/// A message to send.
#[derive(Clone, Debug)]
struct Planned {
    stream: u16,
    ordered: bool,
    message: Bytes,
}

/// The messages that one end still expects on each stream, and whether in order.
type Expected = BTreeMap<u16, (bool, VecDeque<Bytes>)>;

/// The applications of both ends.
struct Script {
    to_send: [VecDeque<Planned>; 2],
    expected: [Expected; 2],
    received: usize,
    wrong: Option<String>,
}

impl Script {
    fn new(to_send: [VecDeque<Planned>; 2]) -> Self {
        let expect = |from: usize| {
            let mut expected = Expected::new();
            for planned in &to_send[from] {
                let stream =
                    expected.entry(planned.stream).or_insert((planned.ordered, VecDeque::new()));
                stream.1.push_back(planned.message.clone());
            }
            expected
        };
        Script { expected: [expect(1), expect(0)], to_send, received: 0, wrong: None }
    }

    fn act(&mut self, end: usize, now: u64, engine: &mut dyn Engine) {
        while engine.established()
            && let Some(next) = self.to_send[end].front()
            && engine.send(now, next.stream, next.ordered, &next.message)
        {
            self.to_send[end].pop_front();
        }
        while let Some(received) = engine.receive() {
            self.received += 1;
            let stream = received.stream;
            let bytes = received.body.into_vec();
            if !self.take(end, stream, &bytes) && self.wrong.is_none() {
                let length = bytes.len();
                self.wrong = Some(format!(
                    "end {end} got {length} bytes on stream {stream} that it did not expect"
                ));
            }
        }
    }

    /// Removes a received message from the expected ones. Returns `false` if it was not expected,
    /// or not yet.
    fn take(&mut self, end: usize, stream: u16, bytes: &[u8]) -> bool {
        let Some((ordered, messages)) = self.expected[end].get_mut(&stream) else {
            return false;
        };
        let at = if *ordered {
            messages.front().filter(|m| **m == bytes).map(|_| 0)
        } else {
            messages.iter().position(|m| *m == bytes)
        };
        at.is_some_and(|at| messages.remove(at).is_some())
    }

    /// Number of messages that have not arrived.
    fn missing(&self) -> usize {
        let streams = self.expected.iter().flat_map(BTreeMap::values);
        streams.map(|(_, messages)| messages.len()).sum()
    }
}

/// Virtual time within which every case must end.
const LIMIT: u64 = 300 * SECOND;

/// Runs one case with two engines. The error describes what went wrong.
pub fn run(case: Case, client: Build<'_>, server: Build<'_>) -> Result<Passed, String> {
    let config =
        Config { receive_window: 4 << 20, anabranch: Tuning::Default, ..Config::default() };
    let network = Network {
        round_trip: 10 * MILLISECOND,
        loss: if case == Case::Loss { 0.01 } else { 0.0 },
        seed: 7,
        burst: 1,
    };
    let client = client(&config, Role::Client);
    let server = server(&config, Role::Server);
    let mut pair = Pair::new(client, server, network);
    pair.connect().map_err(|e| format!("no handshake: {e}"))?;
    let mut script = Script::new(case.plan());
    match case.ending() {
        None => {
            advance(&mut pair, &mut script, |_, script| script.missing() == 0)?;
            settle(&mut pair, &mut script)?;
        }
        Some((end, true)) => shut_down(&mut pair, &mut script, end)?,
        Some((end, false)) => {
            abort(&mut pair, &mut script, end)?;
            if !pair.end(end).sends_abort() {
                return Ok(Passed::WithoutAbortChunk);
            }
        }
    }
    Ok(Passed::Fully)
}

/// Runs until `done`.
fn advance(
    pair: &mut Pair,
    script: &mut Script,
    mut done: impl FnMut(&mut Pair, &Script) -> bool,
) -> Result<(), String> {
    pair.wake(&mut |end, now, engine| script.act(end, now, engine));
    while !done(pair, script) {
        if let Some(wrong) = script.wrong.take() {
            return Err(wrong);
        }
        let stepped = pair.step(&mut |end, now, engine| script.act(end, now, engine));
        if !stepped || pair.now() > LIMIT {
            return Err(format!(
                "{} messages missing, closed: {} and {}, at {} ms",
                script.missing(),
                pair.end(0).closed(),
                pair.end(1).closed(),
                pair.now() / MILLISECOND
            ));
        }
    }
    script.wrong.take().map_or(Ok(()), Err)
}

/// Runs for a while longer; nothing more may arrive.
fn settle(pair: &mut Pair, script: &mut Script) -> Result<(), String> {
    let until = pair.now() + 2 * SECOND;
    while pair.next_event().is_some_and(|at| at <= until) {
        pair.step(&mut |end, now, engine| script.act(end, now, engine));
    }
    if pair.end(0).closed() || pair.end(1).closed() {
        return Err("the association ended by itself".into());
    }
    script.wrong.take().map_or(Ok(()), Err)
}

fn shut_down(pair: &mut Pair, script: &mut Script, end: usize) -> Result<(), String> {
    if pair.end(end).shutdown_flushes() {
        advance(pair, script, |_, script| script.to_send[end].is_empty())?;
    } else {
        advance(pair, script, |pair, script| {
            script.to_send[end].is_empty() && pair.end(end).buffered() == 0
        })?;
    }
    let now = pair.now();
    pair.end(end).shutdown(now);
    advance(pair, script, |pair, _| pair.end(0).closed() && pair.end(1).closed())?;
    match script.missing() {
        0 => Ok(()),
        missing => Err(format!("closed with {missing} messages missing")),
    }
}

fn abort(pair: &mut Pair, script: &mut Script, end: usize) -> Result<(), String> {
    advance(pair, script, |_, script| script.received >= 20)?;
    let now = pair.now();
    pair.end(end).abort(now);
    if !pair.end(end).closed() {
        return Err("the aborting end is not closed".into());
    }
    if pair.end(end).sends_abort() {
        advance(pair, script, |pair, _| pair.end(end ^ 1).closed())?;
        if pair.now() > now + SECOND {
            return Err("the other end did not learn of it".into());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(ordered: bool) -> Script {
        let planned = |message: &'static [u8]| Planned {
            stream: 5,
            ordered,
            message: Bytes::from_static(message),
        };
        let sent = VecDeque::from([planned(b"one"), planned(b"two")]);
        Script::new([sent, VecDeque::new()])
    }

    #[test]
    fn ordered_messages_are_expected_in_order() {
        let mut script = script(true);
        assert!(!script.take(1, 5, b"two"));
        assert!(script.take(1, 5, b"one"));
        assert!(!script.take(1, 5, b"one"));
        assert!(script.take(1, 5, b"two"));
        assert_eq!(script.missing(), 0);
    }

    #[test]
    fn unordered_messages_are_expected_once_in_any_order() {
        let mut script = script(false);
        assert!(script.take(1, 5, b"two"));
        assert!(!script.take(1, 5, b"two"));
        assert_eq!(script.missing(), 1);
    }

    #[test]
    fn changed_bytes_another_stream_and_the_wrong_end_are_noticed() {
        let mut script = script(true);
        assert!(!script.take(1, 5, b"onE"));
        assert!(!script.take(1, 6, b"one"));
        assert!(!script.take(0, 5, b"one"));
        assert_eq!(script.missing(), 2);
    }

    #[test]
    fn every_case_sends_something_and_loses_no_length() {
        for case in Case::ALL {
            let [client, server] = case.plan();
            assert!(!client.is_empty() || !server.is_empty(), "{}", case.name());
        }
        let [client, _] = Case::Lengths.plan();
        let longest = client.iter().map(|p| p.message.len()).max();
        assert_eq!(longest, Some(1_000_000));
    }
}
