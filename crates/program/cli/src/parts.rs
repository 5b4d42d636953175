//! Reassembles messages that arrive in several parts.
//!
//! Without interleaving (RFC 8260) an association has one message in parts at a time. With it there can be several:
//! parts belong together if their stream, their order and [`Message::tsn`] are equal.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use anabranch::{Association, Events, Features, Message, Notification, Ppid, Reservation};
use bytes::Bytes;
use tokio::time::sleep;

/// Messages up to this length are not counted, because an association itself needs as much memory.
const SHORT: usize = 4096;

/// Maximum number of incomplete messages. A message takes a place only if the receive buffer was full before its end
/// came.
const MOST_BEGUN: usize = 1024;

/// Memory of an incomplete message without its bytes, generously.
const COST: usize = 256;

/// Maximum number of messages that were given up before their parts were taken.
const MOST_GIVEN_UP: usize = 64;

/// A message that waits for memory tries again after this time. Peers that hold reserved memory
/// without making progress are disconnected sooner.
const STEP: Duration = Duration::from_millis(100);
const STEPS: u32 = 150;

/// The stream and the order of a message.
type Order = (u16, bool);

/// Reassembles messages that arrive in several parts.
///
/// Memory for the content is reserved from the endpoint's limit until the whole message is dropped.
#[derive(Debug)]
pub(crate) struct Parts {
    /// The association for which memory is reserved.
    association: Option<Association>,
    /// Its events, from the first part on. They say which messages are given up.
    events: Option<Events>,
    /// Messages of several streams may be in parts at once.
    interleaves: bool,
    /// The incomplete messages, by order and TSN.
    begun: BTreeMap<(Order, u32), Begun>,
    /// Messages that were given up while their parts waited to be taken, by order and [`Message::sequence`].
    given_up: VecDeque<(Order, u32)>,
    most: usize,
}

/// An incomplete message.
#[derive(Debug, Default)]
struct Begun {
    sequence: u32,
    bytes: Vec<u8>,
    reserved: Option<Reservation>,
}

/// Why a message cannot be reassembled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// It is longer than allowed.
    TooLong,
    /// The endpoint has no memory for it.
    NoMemory,
    /// Too many others are incomplete.
    TooMany,
}

/// A whole message.
#[derive(Debug)]
pub(crate) struct Whole {
    pub(crate) stream: u16,
    pub(crate) ppid: Ppid,
    pub(crate) unordered: bool,
    pub(crate) data: Bytes,
    /// Reserves the memory of its data until the message has been sent.
    pub(crate) reserved: Option<Reservation>,
}

impl Parts {
    /// Accepts messages of up to `most` bytes each.
    pub(crate) fn new(association: &Association, most: usize) -> Self {
        Self::with(Some(association.clone()), most)
    }

    fn with(association: Option<Association>, most: usize) -> Self {
        let (begun, given_up) = (BTreeMap::new(), VecDeque::new());
        Self { association, events: None, interleaves: false, begun, given_up, most }
    }

    /// Adds a message or a part of one. Returns the message if it is complete. Waits for memory if
    /// necessary.
    pub(crate) async fn add(&mut self, message: Message) -> Result<Option<Whole>, Refused> {
        let (stream, ppid, unordered) = (message.stream, message.ppid, message.unordered);
        let whole = |data, reserved| Some(Whole { stream, ppid, unordered, data, reserved });
        let length = message.payload.len();
        // Whole messages may arrive between the parts of another one.
        if message.is_whole() {
            if length > self.most {
                return Err(Refused::TooLong);
            }
            let mut reserved = None;
            if length > SHORT {
                reserve(self.association.as_ref(), &mut reserved, length).await?;
            }
            return Ok(whole(message.payload.into_bytes(), reserved));
        }
        self.look_at_events();
        let key = ((stream, unordered), message.tsn);
        if message.begin {
            self.begin(key, message.sequence).await?;
        }
        // The rest of a message that was given up.
        let Some(begun) = self.begun.get_mut(&key) else { return Ok(None) };
        begun.add(self.association.as_ref(), &message, self.most).await?;
        if !message.end {
            return Ok(None);
        }
        let begun = self.begun.remove(&key).unwrap_or_default();
        Ok(whole(begun.bytes.into(), begun.reserved))
    }

    /// Makes room for a message that begins.
    async fn begin(&mut self, key: (Order, u32), sequence: u32) -> Result<(), Refused> {
        let (order, _) = key;
        if let Some(place) = self.given_up.iter().position(|other| *other == (order, sequence)) {
            self.given_up.remove(place);
            return Ok(());
        }
        // The peer gave up what was begun before, or restarted: the messages of a stream come one after the other.
        let (_, unordered) = order;
        let interleaves = self.interleaves;
        self.begun.retain(|(other, _), _| interleaves && (unordered || *other != order));
        if self.begun.len() >= MOST_BEGUN {
            return Err(Refused::TooMany);
        }
        let mut reserved = None;
        reserve(self.association.as_ref(), &mut reserved, COST).await?;
        self.begun.insert(key, Begun { sequence, bytes: Vec::new(), reserved });
        Ok(())
    }

    /// Drops what the peer has given up.
    fn look_at_events(&mut self) {
        let Some(association) = &self.association else { return };
        if self.events.is_none() {
            self.interleaves = interleaves(association);
        }
        let events = self.events.get_or_insert_with(|| association.events());
        let mut news = Vec::new();
        while let Some(event) = events.try_next() {
            match event {
                Notification::Restarted { .. } => self.interleaves = interleaves(association),
                Notification::PartialDeliveryAborted { .. } => {}
                _ => continue,
            }
            news.push(event);
        }
        news.iter().for_each(|event| self.on_event(event));
    }

    fn on_event(&mut self, event: &Notification) {
        let Notification::PartialDeliveryAborted { stream, sequence, unordered, .. } = *event
        else {
            self.begun.clear();
            self.given_up.clear();
            return;
        };
        let order = (stream, unordered);
        let before = self.begun.len();
        self.begun.retain(|(other, _), begun| *other != order || begun.sequence != sequence);
        // Without interleaving the next message that begins takes its place, and numbers of messages come again.
        if self.begun.len() == before && self.interleaves {
            if self.given_up.len() == MOST_GIVEN_UP {
                self.given_up.pop_front();
            }
            self.given_up.push_back((order, sequence));
        }
    }
}

fn interleaves(association: &Association) -> bool {
    association.statistics().features.has(Features::INTERLEAVING)
}

impl Begun {
    /// Adds a part.
    async fn add(
        &mut self,
        association: Option<&Association>,
        message: &Message,
        most: usize,
    ) -> Result<(), Refused> {
        let needed = self.bytes.len() + message.payload.len();
        if needed > most {
            return Err(Refused::TooLong);
        }
        if needed > self.bytes.capacity() {
            // Grow by half, so that a long message is not copied too often.
            let capacity = (needed + needed / 2).min(most);
            let more = capacity - self.bytes.capacity();
            reserve(association, &mut self.reserved, more).await?;
            self.bytes.reserve_exact(capacity - self.bytes.len());
        }
        message.payload.pieces().for_each(|piece| self.bytes.extend_from_slice(piece));
        Ok(())
    }
}

/// Adds to a reservation as soon as memory is available.
async fn reserve(
    association: Option<&Association>,
    reserved: &mut Option<Reservation>,
    bytes: usize,
) -> Result<(), Refused> {
    let Some(association) = association else { return Ok(()) };
    for _ in 0..STEPS {
        let has_room = match reserved {
            Some(reserved) => reserved.grow(bytes),
            None => {
                *reserved = association.reserve(bytes);
                reserved.is_some()
            }
        };
        if has_room {
            return Ok(());
        }
        sleep(STEP).await;
    }
    Err(Refused::NoMemory)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(begin: bool, end: bool, data: &'static [u8]) -> Message {
        let mut message = Message::new(3, Ppid(7), Bytes::from_static(data));
        (message.begin, message.end) = (begin, end);
        message
    }

    fn of(mut message: Message, tsn: u32) -> Message {
        // The message identifiers grow with the TSNs.
        (message.tsn, message.sequence) = (tsn, tsn / 10);
        message
    }

    fn on(stream: u16, unordered: bool, mut message: Message) -> Message {
        (message.stream, message.unordered) = (stream, unordered);
        message
    }

    async fn add(parts: &mut Parts, message: Message) -> Result<Option<Bytes>, Refused> {
        let (stream, unordered) = (message.stream, message.unordered);
        let whole = parts.add(message).await?;
        Ok(whole.map(|whole| {
            assert_eq!((whole.stream, whole.ppid, whole.unordered), (stream, Ppid(7), unordered));
            whole.data
        }))
    }

    fn whole(data: &'static [u8]) -> Result<Option<Bytes>, Refused> {
        Ok(Some(Bytes::from_static(data)))
    }

    fn interleaved(most: usize) -> Parts {
        Parts { interleaves: true, ..Parts::with(None, most) }
    }

    #[tokio::test]
    async fn parts_become_whole() {
        let one = &mut Parts::with(None, 6);
        assert_eq!(add(one, part(true, true, b"whole")).await, whole(b"whole"));
        assert_eq!(add(one, part(true, false, b"in")).await, Ok(None));
        assert_eq!(add(one, part(false, false, b"par")).await, Ok(None));
        assert_eq!(add(one, part(true, true, b"other")).await, whole(b"other"));
        assert_eq!(add(one, part(false, true, b"t")).await, whole(b"inpart"));
        assert_eq!(add(one, part(true, false, b"four")).await, Ok(None));
        assert_eq!(add(one, part(false, true, b"four")).await, Err(Refused::TooLong));
        assert_eq!(add(one, part(true, true, b"too long")).await, Err(Refused::TooLong));
        // The parts of a message that a restarted peer left incomplete are discarded.
        let one = &mut Parts::with(None, 6);
        assert_eq!(add(one, of(part(true, false, b"half"), 1)).await, Ok(None));
        assert_eq!(add(one, of(part(true, false, b"a"), 2)).await, Ok(None));
        assert_eq!(one.begun.len(), 1);
        assert_eq!(add(one, of(part(false, true, b"b"), 2)).await, whole(b"ab"));
    }

    #[tokio::test]
    async fn several_messages_are_in_parts_at_once() {
        let parts = &mut interleaved(6);
        for (stream, unordered, tsn) in
            [(3, false, 10), (4, false, 20), (3, true, 30), (3, true, 40)]
        {
            let message = on(stream, unordered, of(part(true, false, b"ab"), tsn));
            assert_eq!(add(parts, message).await, Ok(None));
        }
        assert_eq!(add(parts, on(4, false, of(part(false, false, b"cd"), 20))).await, Ok(None));
        assert_eq!(add(parts, on(3, true, of(part(false, true, b"U"), 40))).await, whole(b"abU"));
        assert_eq!(add(parts, on(3, false, of(part(false, true, b"O"), 10))).await, whole(b"abO"));
        assert_eq!(
            add(parts, on(4, false, of(part(false, true, b"e"), 20))).await,
            whole(b"abcde")
        );
        assert_eq!(add(parts, on(3, true, of(part(false, true, b"u"), 30))).await, whole(b"abu"));
        assert!(parts.begun.is_empty());
    }

    #[tokio::test]
    async fn what_the_peer_gave_up_is_dropped() {
        let parts = &mut interleaved(6);
        let given_up = |sequence, unordered| Notification::PartialDeliveryAborted {
            stream: 3,
            sequence,
            unordered,
        };
        // The next message of a stream shows that the one before was given up.
        assert_eq!(add(parts, of(part(true, false, b"a"), 10)).await, Ok(None));
        assert_eq!(add(parts, of(part(true, false, b"b"), 20)).await, Ok(None));
        assert_eq!(parts.begun.len(), 1);
        assert_eq!(add(parts, of(part(false, true, b"c"), 10)).await, Ok(None));
        assert_eq!(add(parts, of(part(false, true, b"d"), 20)).await, whole(b"bd"));
        // Of unordered messages the event says it, before or after the parts.
        assert_eq!(add(parts, on(3, true, of(part(true, false, b"a"), 30))).await, Ok(None));
        parts.on_event(&given_up(3, true));
        assert!(parts.begun.is_empty());
        parts.on_event(&given_up(4, true));
        assert_eq!(add(parts, on(3, true, of(part(true, false, b"a"), 40))).await, Ok(None));
        assert!(parts.begun.is_empty() && parts.given_up.is_empty());
        for sequence in 0..1000 {
            parts.on_event(&given_up(sequence, false));
        }
        assert_eq!(parts.given_up.len(), MOST_GIVEN_UP);
    }

    #[tokio::test]
    async fn the_number_of_incomplete_messages_is_bounded() {
        let parts = &mut interleaved(6);
        let begin = |stream| on(stream, false, of(part(true, false, b"a"), u32::from(stream)));
        for stream in 0..1024 {
            assert_eq!(add(parts, begin(stream)).await, Ok(None));
        }
        assert_eq!(add(parts, begin(1024)).await, Err(Refused::TooMany));
        // A stream that has a place keeps it.
        assert_eq!(add(parts, begin(7)).await, Ok(None));
    }
}
