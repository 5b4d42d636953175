//! Plans of messages to send, and checks that they are returned.

use std::collections::{BTreeMap, HashMap, VecDeque};

use anabranch::{Message, OutgoingMessage, Ppid};
use bytes::Bytes;

/// A message to send. Odd streams carry unordered messages, so that peers whose API does not report
/// the order of a received message can return it in the same way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Planned {
    pub(crate) stream: u16,
    pub(crate) ppid: u32,
    pub(crate) data: Bytes,
}

impl Planned {
    pub(crate) fn outgoing(&self) -> OutgoingMessage {
        let mut message = OutgoingMessage::new(self.stream, Ppid(self.ppid), self.data.clone());
        message.unordered = self.stream % 2 == 1;
        message
    }
}

/// A plan of messages of these lengths; `stream` returns the stream of each.
pub(crate) fn messages(
    lengths: impl IntoIterator<Item = usize>,
    seed: u64,
    stream: impl Fn(u64) -> u16,
) -> Vec<Planned> {
    (0..)
        .zip(lengths)
        .map(|(index, length)| Planned {
            stream: stream(index),
            ppid: FIRST_PPID + index as u32,
            data: pattern(length, seed, index),
        })
        .collect()
}

/// A long message on stream 0, and then short ones on an ordered and an unordered stream.
pub(crate) fn mixed(long: usize, short: usize, count: usize, seed: u64) -> Vec<Planned> {
    let lengths = std::iter::once(long).chain(std::iter::repeat_n(short, count));
    messages(lengths, seed, mixed_stream)
}

/// The stream of message `index` of such a plan.
pub(crate) fn mixed_stream(index: u64) -> u16 {
    if index == 0 { 0 } else { 2 + (index % 2) as u16 }
}

/// The payload protocol identifier of the first message. WebRTC engines interpret small ones.
const FIRST_PPID: u32 = 1000;

/// The bytes of message `index` of a sequence; the peer programs generate the same.
pub(crate) fn pattern(length: usize, seed: u64, index: u64) -> Bytes {
    let start = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(index);
    let mut state = start.wrapping_mul(0xbf58_476d_1ce4_e5b9) | 1;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 24) as u8
    };
    std::iter::repeat_with(next).take(length).collect()
}

/// Start of [`hash_of`].
pub(crate) const HASH_START: u64 = 0xcbf2_9ce4_8422_2325;

/// FNV-1a, continued.
pub(crate) fn hash_of(hash: u64, bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    bytes.iter().fold(hash, step)
}

/// The hash of all the plan's bytes in order, as the peer programs print it.
pub(crate) fn hash(plan: &[Planned]) -> String {
    let hash = plan.iter().fold(HASH_START, |hash, message| hash_of(hash, &message.data));
    format!("{hash:016x}")
}

/// Lengths around the limits that matter: one byte, a full packet, many packets.
pub(crate) fn mixed_lengths() -> impl Iterator<Item = usize> {
    [1, 17, 500, 1024, 1424, 1425, 3000, 20_000].into_iter().cycle()
}

/// Messages that have not arrived yet, and those that have arrived in part.
#[derive(Debug, Default)]
pub(crate) struct Expected {
    streams: BTreeMap<u16, VecDeque<Planned>>,
    parts: HashMap<(u16, bool), Vec<u8>>,
    check_ppid: bool,
}

impl Expected {
    /// Expects no messages. `check_ppid`: the peer returns the payload protocol identifier.
    pub(crate) fn new(check_ppid: bool) -> Self {
        Self { check_ppid, ..Self::default() }
    }

    pub(crate) fn add(&mut self, planned: &[Planned]) {
        for message in planned {
            self.streams.entry(message.stream).or_default().push_back(message.clone());
        }
    }

    /// Number of messages that have not arrived.
    pub(crate) fn missing(&self) -> usize {
        self.streams.values().map(VecDeque::len).sum()
    }

    /// Removes a message that has arrived. The error says what is wrong with it.
    pub(crate) fn take(&mut self, message: Message) -> Result<(), String> {
        let (stream, unordered) = (message.stream, message.unordered);
        let (begin, end, ppid) = (message.begin, message.end, message.ppid);
        let parts = self.parts.entry((stream, unordered)).or_default();
        if begin && !parts.is_empty() {
            return Err(format!("a message on stream {stream} begins within another"));
        }
        parts.extend_from_slice(&message.payload.into_bytes());
        if !end {
            return Ok(());
        }
        let bytes = std::mem::take(parts);
        let waiting = self.streams.entry(stream).or_default();
        let at = if stream % 2 == 1 {
            waiting.iter().position(|m| m.data == bytes)
        } else {
            waiting.front().filter(|m| m.data == bytes).map(|_| 0)
        };
        let length = bytes.len();
        let Some(found) = at.and_then(|at| waiting.remove(at)) else {
            return Err(format!("{length} unexpected bytes on stream {stream}"));
        };
        if unordered != (stream % 2 == 1) {
            return Err(format!("{length} bytes on stream {stream} with the wrong U bit"));
        }
        if self.check_ppid && found.ppid != ppid.0 {
            let (is, was) = (ppid.0, found.ppid);
            return Err(format!("identifier {is} on stream {stream}, not {was}"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrived(planned: &Planned) -> Message {
        let mut message = Message::new(planned.stream, Ppid(planned.ppid), planned.data.clone());
        message.unordered = planned.stream % 2 == 1;
        message
    }

    #[test]
    fn ordered_messages_arrive_in_order_and_once() {
        let plan = messages([5, 6], 1, |_| 4);
        let mut expected = Expected::new(true);
        expected.add(&plan);
        assert!(expected.take(arrived(&plan[1])).is_err());
        assert!(expected.take(arrived(&plan[0])).is_ok());
        assert!(expected.take(arrived(&plan[0])).is_err());
        assert!(expected.take(arrived(&plan[1])).is_ok());
        assert_eq!(expected.missing(), 0);
    }

    #[test]
    fn unordered_messages_arrive_in_any_order() {
        let plan = messages([5, 6], 1, |_| 5);
        let mut expected = Expected::new(true);
        expected.add(&plan);
        assert!(expected.take(arrived(&plan[1])).is_ok());
        assert_eq!(expected.missing(), 1);
    }

    #[test]
    fn changed_bytes_and_identifiers_are_noticed() {
        let plan = messages([5, 6], 1, |_| 0);
        let mut expected = Expected::new(true);
        expected.add(&plan);
        let mut changed = plan[0].clone();
        changed.ppid = 9;
        assert!(expected.take(arrived(&changed)).is_err());
        let mut changed = plan[1].clone();
        changed.data = Bytes::from_static(b"123456");
        assert!(expected.take(arrived(&changed)).is_err());
    }

    #[test]
    fn parts_are_joined() {
        let plan = messages([6], 1, |_| 0);
        let mut expected = Expected::new(false);
        expected.add(&plan);
        let mut first = arrived(&plan[0]);
        first.payload = plan[0].data.slice(..2).into();
        first.end = false;
        let mut last = arrived(&plan[0]);
        last.payload = plan[0].data.slice(2..).into();
        last.begin = false;
        assert!(expected.take(first).is_ok());
        assert_eq!(expected.missing(), 1);
        assert!(expected.take(last).is_ok());
        assert_eq!(expected.missing(), 0);
    }
}
