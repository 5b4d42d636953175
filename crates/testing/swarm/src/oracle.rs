//! An observer that sees both ends: messages sent at one end must be delivered at the other, once,
//! complete and in order.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use anabranch_impair::Rng;
use anabranch_proto::{AssociationId, Message, OutgoingMessage, Ppid, Reliability};
use bytes::Bytes;

/// Maximum length of the oracle's messages.
pub const MAX_MESSAGE: usize = 1 << 20;
/// A prime, so that two messages of the same length have different contents.
const PERIOD: usize = 65_521;

static PATTERN: LazyLock<Bytes> = LazyLock::new(|| {
    let mut rng = Rng::new(0x616e_6162);
    let mut bytes = Vec::with_capacity(MAX_MESSAGE + PERIOD);
    while bytes.len() < MAX_MESSAGE + PERIOD {
        bytes.extend_from_slice(&rng.next_u64().to_le_bytes());
    }
    Bytes::from(bytes)
});

/// The contents of message `id`.
pub fn contents(id: u32, length: usize) -> Bytes {
    let from = (id as usize).wrapping_mul(7919) % PERIOD;
    PATTERN.slice(from..from + length)
}

/// The expected properties of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Stream.
    pub stream: u16,
    /// The U bit.
    pub unordered: bool,
    /// The I bit.
    pub immediate: bool,
    /// Length in bytes.
    pub length: usize,
    /// When it is given up.
    pub reliability: Reliability,
}

/// The fate of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Pending,
    Delivered,
}

#[derive(Debug)]
struct Sent {
    from: usize,
    by: AssociationId,
    /// Number of losses of state before it: a new endpoint numbers its associations from the start.
    era: u32,
    shape: Shape,
    fate: Fate,
    /// Bytes that the receiving user has got so far.
    got: usize,
    /// Whether it was reported as failed; the value is true if part of it had been sent.
    failed: Option<bool>,
    /// Whether an end of the association lost its state while this was in flight; then nothing is
    /// guaranteed.
    void: bool,
}

/// Records every message. Messages are numbered from 0. The payload protocol identifier and the
/// context carry the number.
#[derive(Debug, Default)]
pub struct Oracle {
    messages: Vec<Sent>,
    /// The last ordered message that was started, by sender, association of the receiver, and
    /// stream.
    last: BTreeMap<(usize, AssociationId, u16), u32>,
    /// The receiver's association for each association of a sender.
    arrivals: BTreeMap<(usize, u32, AssociationId), AssociationId>,
    era: u32,
    /// Messages delivered through another association than the one they were sent to. A duplicated
    /// cookie and data set it up after the first had ended (RFC 9260 section 5.1.5 permits that).
    pub replayed: u64,
    /// The ordered message that has been delivered in part, with the same key.
    open: BTreeMap<(usize, AssociationId, u16), u32>,
    /// Messages delivered.
    pub delivered: u64,
    /// Bytes delivered.
    pub delivered_bytes: u64,
    /// Messages delivered in more than one part.
    pub in_parts: u64,
    /// Messages reported as failed.
    pub failed: u64,
}

impl Oracle {
    /// Creates a message from node `from`.
    pub fn message(&mut self, from: usize, by: AssociationId, shape: Shape) -> OutgoingMessage {
        let id = self.messages.len() as u32;
        let era = self.era;
        let sent =
            Sent { from, by, era, shape, fate: Fate::Pending, got: 0, failed: None, void: false };
        self.messages.push(sent);
        OutgoingMessage {
            unordered: shape.unordered,
            sack_immediately: shape.immediate,
            reliability: shape.reliability,
            context: u64::from(id),
            ..OutgoingMessage::new(shape.stream, Ppid(id), contents(id, shape.length))
        }
    }

    /// Whether a message was given up by its own policy after it was sent. Then the rest of it may never arrive.
    fn is_given_up(&self, id: u32) -> bool {
        let sent = self.messages.get(id as usize);
        sent.is_some_and(|sent| {
            sent.failed == Some(true) && sent.shape.reliability != Reliability::Full
        })
    }

    /// Removes the last message, because it was refused.
    pub fn retract(&mut self) {
        self.messages.pop();
    }

    /// A user received a message or a part of one from node `from` through its association `at`.
    ///
    /// # Errors
    /// Returns a description of the violation.
    pub fn received(
        &mut self,
        from: usize,
        at: AssociationId,
        message: &Message,
    ) -> Result<(), String> {
        let id = message.ppid.0;
        // The rest of a message that was given up does not come.
        let key = (from, at, message.stream);
        let amid = self.open.get(&key).filter(|open| **open != id && !self.is_given_up(**open));
        let amid = amid.is_some();
        let Some(sent) = self.messages.get_mut(id as usize) else {
            return Err(format!("message {id} was never sent"));
        };
        let wrong = |what: &str| Err(format!("message {id} ({sent:?}) {what}: {message:?}"));
        if sent.from != from {
            return wrong("went back to its sender");
        }
        if sent.shape.stream != message.stream || sent.shape.unordered != message.unordered {
            return wrong("came on another stream");
        }
        if *self.arrivals.entry((from, sent.era, sent.by)).or_insert(at) != at {
            self.replayed += 1;
            return Ok(());
        }
        if sent.fate == Fate::Delivered {
            return wrong("was delivered twice");
        }
        if sent.failed == Some(false) {
            return wrong("was delivered, but reported as never sent");
        }
        if message.begin != (sent.got == 0) {
            return wrong("misses its beginning or has two");
        }
        if !message.unordered {
            if amid {
                return wrong("came amid another of its stream");
            }
            if message.begin && self.last.get(&key).is_some_and(|last| *last >= id) {
                return wrong("came out of order");
            }
            self.last.insert(key, id);
            if message.end {
                self.open.remove(&key);
            } else {
                self.open.insert(key, id);
            }
        }
        let expected = contents(id, sent.shape.length);
        let length = message.payload.len();
        let got = sent.got + length;
        match expected.get(sent.got..got) {
            Some(part) if message.payload == *part => {}
            Some(_) => return wrong("has other contents"),
            None => return wrong("is too long"),
        }
        if message.end && got != sent.shape.length {
            return wrong("is too short");
        }
        sent.got = got;
        if message.end {
            sent.fate = Fate::Delivered;
            self.delivered += 1;
            self.in_parts += u64::from(!message.begin);
        }
        self.delivered_bytes += length as u64;
        Ok(())
    }

    /// A message was returned to its sender.
    ///
    /// # Errors
    /// Returns a description of the violation.
    pub fn failed(&mut self, message: &OutgoingMessage, sent_flag: bool) -> Result<(), String> {
        let id = message.context;
        let Some(sent) = self.messages.get_mut(id as usize) else {
            return Err(format!("message {id} failed and was never sent"));
        };
        if sent.failed.is_some() {
            return Err(format!("message {id} failed twice: {sent:?}"));
        }
        if !sent_flag {
            if sent.got > 0 || sent.fate == Fate::Delivered {
                return Err(format!("message {id} was delivered, but failed unsent: {sent:?}"));
            }
            if message.data != contents(id as u32, sent.shape.length) {
                return Err(format!("message {id} failed unsent with other contents"));
            }
        }
        if message.stream != sent.shape.stream || message.unordered != sent.shape.unordered {
            return Err(format!("message {id} failed with another stream: {message:?}"));
        }
        sent.failed = Some(sent_flag);
        self.failed += 1;
        Ok(())
    }

    /// A node lost its state: nothing is guaranteed for messages in flight.
    pub fn lost_state(&mut self) {
        for sent in &mut self.messages {
            sent.void |= sent.fate == Fate::Pending;
        }
        // Partial messages from the node that restarts are never completed; those to it are
        // forgotten with its state.
        self.open.clear();
        self.arrivals.clear();
        // The associations of the new incarnation reuse the old numbers.
        self.last.clear();
        self.era += 1;
    }

    /// The peer of an association has restarted.
    pub fn restarted(&mut self, by: AssociationId, node: usize) {
        // A message of the old incarnation that was delivered in part is never completed.
        self.open.retain(|(from, at, _), _| *from == node || *at != by);
        for sent in self.messages.iter_mut().filter(|sent| sent.by == by && sent.from == node) {
            sent.void |= sent.fate == Fate::Pending;
        }
    }

    /// Messages of `node`'s association `by` whose fate is unknown.
    pub fn pending(&self, node: usize, by: AssociationId) -> impl Iterator<Item = u32> + '_ {
        (self.messages.iter().enumerate())
            .filter(move |(_, sent)| {
                let open = sent.fate == Fate::Pending && sent.failed.is_none();
                open && sent.from == node && sent.by == by && !sent.void
            })
            .map(|(id, _)| id as u32)
    }

    /// Messages that had to arrive, and were reported as failed although a part of them was sent.
    pub fn failed_after_sending(&self, node: usize, by: AssociationId) -> u64 {
        (self.messages.iter())
            .filter(|sent| sent.from == node && sent.by == by && !sent.void)
            .filter(|sent| sent.failed == Some(true) && sent.shape.reliability == Reliability::Full)
            .count() as u64
    }

    /// Describes a message.
    pub fn describe(&self, id: u32) -> String {
        format!("{id}: {:?}", self.messages.get(id as usize))
    }

    /// Number of messages.
    pub fn len(&self) -> usize {
        self.messages.len()
    }

    /// Whether there are no messages.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }
}
