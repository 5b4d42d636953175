//! User messages, sent and received.

use std::collections::VecDeque;
use std::time::Duration;

use anabranch_wire::Ppid;
use bytes::{Buf, Bytes, BytesMut};

use self::Pieces::{Many, One};
use crate::reliability::Reliability;

/// A user message to send (RFC 9260 section 11.1.5).
///
/// ```
/// use std::time::Duration;
///
/// use anabranch_proto::{OutgoingMessage, Ppid, Reliability};
///
/// let mut position = OutgoingMessage::new(3, Ppid(0), &b"12.5 48.2"[..]);
/// // The next one is on its way soon: this one must not hold it up, nor come late.
/// position.unordered = true;
/// position.reliability = Reliability::Lifetime(Duration::from_millis(200));
/// assert_eq!((position.stream, position.data.len()), (3, 9));
/// ```
#[derive(Clone, Debug)]
pub struct OutgoingMessage {
    /// Outbound stream, below [`Association::outbound_streams`](crate::Association::outbound_streams).
    pub stream: u16,
    /// Payload protocol identifier, passed to the peer unchanged.
    pub ppid: Ppid,
    /// Deliver without waiting for earlier messages of the stream (the U bit).
    pub unordered: bool,
    /// Ask the peer to acknowledge immediately (the I bit, on the last fragment).
    pub sack_immediately: bool,
    /// Send without waiting to share a packet, together with all messages queued before it
    /// ([`Bundling`](crate::config::Bundling)). Messages with a lifetime are sent like this, too.
    pub now: bool,
    /// The data has no boundaries and may be sent as several messages, so that other streams need not wait for
    /// its end ([`Pieces`](crate::config::Pieces)).
    pub divisible: bool,
    /// Send before all queued messages of any stream; only for unordered messages.
    pub ahead: bool,
    /// When the message is given up.
    pub reliability: Reliability,
    /// Returned with [`Notification::SendFailed`](crate::Notification::SendFailed); the engine does not read it.
    pub context: u64,
    /// The user's data, at least one byte.
    pub data: Bytes,
}

impl OutgoingMessage {
    /// An ordered message with default settings.
    pub fn new(stream: u16, ppid: Ppid, data: impl Into<Bytes>) -> Self {
        Self {
            stream,
            ppid,
            unordered: false,
            sack_immediately: false,
            now: false,
            divisible: false,
            ahead: false,
            reliability: Reliability::Usual,
            context: 0,
            data: data.into(),
        }
    }

    /// Makes it unordered: the peer delivers it without waiting for earlier messages of the stream.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use anabranch_proto::{OutgoingMessage, Ppid};
    ///
    /// let message = OutgoingMessage::new(3, Ppid(0), "soon or never")
    ///     .with_unordered()
    ///     .with_lifetime(Duration::from_millis(500))
    ///     .with_context(7);
    /// assert!(message.unordered && message.context == 7);
    /// ```
    #[must_use]
    pub fn with_unordered(mut self) -> Self {
        self.unordered = true;
        self
    }

    /// Asks the peer to acknowledge immediately.
    #[must_use]
    pub fn with_sack_immediately(mut self) -> Self {
        self.sack_immediately = true;
        self
    }

    /// Sends it without waiting to share a packet.
    #[must_use]
    pub fn with_now(mut self) -> Self {
        self.now = true;
        self
    }

    /// Allows it to be sent as several messages, for data without boundaries.
    #[must_use]
    pub fn with_divisible(mut self) -> Self {
        self.divisible = true;
        self
    }

    /// Makes it unordered, and sends it before all queued messages.
    #[must_use]
    pub fn with_ahead(mut self) -> Self {
        self.unordered = true;
        self.ahead = true;
        self
    }

    /// Sets the time after which the message is given up.
    #[must_use]
    pub fn with_lifetime(mut self, lifetime: Duration) -> Self {
        self.reliability = Reliability::Lifetime(lifetime);
        self
    }

    /// Sets when the message is given up.
    #[must_use]
    pub fn with_reliability(mut self, reliability: Reliability) -> Self {
        self.reliability = reliability;
        self
    }

    /// Sets a value that is returned with the message if it fails.
    #[must_use]
    pub fn with_context(mut self, context: u64) -> Self {
        self.context = context;
        self
    }
}

/// A received user message, or a part of one (RFC 9260 section 6.9, partial delivery).
#[derive(Clone, Debug)]
pub struct Message {
    /// Inbound stream.
    pub stream: u16,
    /// Payload protocol identifier as the peer sent it.
    pub ppid: Ppid,
    /// The message was sent unordered.
    pub unordered: bool,
    /// This is the first part of the message.
    pub begin: bool,
    /// This is the last part of the message; for a complete message, both are set.
    pub end: bool,
    /// Number in its stream: the stream sequence number, which is meaningless if `unordered`, or, if messages are
    /// interleaved, the message identifier (RFC 8260 section 2.1).
    pub sequence: u32,
    /// TSN of the first chunk of the message, also in later parts. With interleaving it tells the parts of several
    /// messages apart.
    pub tsn: u32,
    /// The data, as it arrived.
    pub payload: Payload,
    /// Bytes that it occupies in the association's receive buffer until it is released.
    pub(crate) charge: u32,
}

impl Message {
    /// A complete ordered message that was not received on an association, so its charge is 0.
    pub fn new(stream: u16, ppid: Ppid, payload: impl Into<Payload>) -> Self {
        let (begin, end, unordered) = (true, true, false);
        let (sequence, tsn, payload) = (0, 0, payload.into());
        Self { stream, ppid, unordered, begin, end, sequence, tsn, payload, charge: 0 }
    }

    /// Whether this is one whole message.
    pub fn is_whole(&self) -> bool {
        self.begin && self.end
    }

    /// Bytes of receive buffer that this message occupies until
    /// [`Association::release`](crate::Association::release) is called for it.
    pub fn charge(&self) -> u32 {
        self.charge
    }
}

/// The bytes of a message, in the pieces in which they arrived. Implements [`Buf`].
#[derive(Clone, Debug)]
pub struct Payload(Pieces);

/// Most messages have a single piece, which needs no list.
#[derive(Clone, Debug)]
enum Pieces {
    One(Bytes),
    /// None of the pieces is empty.
    Many(VecDeque<Bytes>),
}

impl Payload {
    /// Adds a piece at the end.
    pub(crate) fn push(&mut self, piece: Bytes) {
        match &mut self.0 {
            One(first) if first.is_empty() => self.0 = One(piece),
            One(first) => {
                let mut pieces = VecDeque::with_capacity(4);
                pieces.extend([std::mem::take(first), piece]);
                self.0 = Many(pieces);
            }
            Many(pieces) => pieces.push_back(piece),
        }
    }

    /// Appends the pieces of `other`; the cost depends on the smaller number of pieces.
    pub(crate) fn append(&mut self, other: Self) {
        match (&mut self.0, other.0) {
            (_, One(piece)) => self.push(piece),
            (One(first), Many(mut pieces)) => {
                if !first.is_empty() {
                    pieces.push_front(std::mem::take(first));
                }
                self.0 = Many(pieces);
            }
            (Many(left), Many(right)) if left.len() >= right.len() => left.extend(right),
            (Many(left), Many(mut right)) => {
                while let Some(piece) = left.pop_back() {
                    right.push_front(piece);
                }
                self.0 = Many(right);
            }
        }
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.pieces().map(Bytes::len).sum()
    }

    /// Whether no byte is left.
    pub fn is_empty(&self) -> bool {
        // This is checked after every piece, so avoid adding up the lengths.
        self.chunk().is_empty()
    }

    /// The pieces in order.
    pub fn pieces(&self) -> impl Iterator<Item = &Bytes> {
        let (one, many) = match &self.0 {
            One(piece) => (std::slice::from_ref(piece), None),
            Many(pieces) => (&[][..], Some(pieces)),
        };
        one.iter().chain(many.into_iter().flatten())
    }

    /// The pieces as a vector.
    pub fn into_pieces(self) -> Vec<Bytes> {
        match self.0 {
            One(piece) => vec![piece],
            Many(pieces) => pieces.into(),
        }
    }

    /// All bytes in one buffer. A single piece is not copied; several are.
    pub fn into_bytes(self) -> Bytes {
        let length = self.len();
        match self.0 {
            One(piece) => piece,
            Many(mut pieces) if pieces.len() == 1 => pieces.pop_front().unwrap_or_default(),
            Many(pieces) => {
                let mut whole = BytesMut::with_capacity(length);
                pieces.iter().for_each(|piece| whole.extend_from_slice(piece));
                whole.freeze()
            }
        }
    }
}

impl Default for Payload {
    fn default() -> Self {
        Self(One(Bytes::new()))
    }
}

impl Buf for Payload {
    fn remaining(&self) -> usize {
        self.len()
    }

    fn has_remaining(&self) -> bool {
        !self.is_empty()
    }

    fn chunk(&self) -> &[u8] {
        match &self.0 {
            One(piece) => piece,
            Many(pieces) => pieces.front().map_or(&[], |piece| &piece[..]),
        }
    }

    fn advance(&mut self, mut count: usize) {
        let pieces = match &mut self.0 {
            One(piece) => return piece.advance(count),
            Many(pieces) => pieces,
        };
        while count > 0 {
            let Some(front) = pieces.front_mut() else {
                panic!("advanced beyond the end of a payload");
            };
            let step = count.min(front.len());
            front.advance(step);
            count -= step;
            if front.is_empty() {
                pieces.pop_front();
            }
        }
    }
}

impl From<Bytes> for Payload {
    fn from(piece: Bytes) -> Self {
        Self(One(piece))
    }
}

impl PartialEq<[u8]> for Payload {
    fn eq(&self, other: &[u8]) -> bool {
        let mut rest = other;
        self.pieces().all(|piece| match rest.split_at_checked(piece.len()) {
            Some((head, tail)) => {
                rest = tail;
                head == &piece[..]
            }
            None => false,
        }) && rest.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payload(pieces: &[&'static [u8]]) -> Payload {
        let mut payload = Payload::default();
        pieces.iter().for_each(|piece| payload.push(Bytes::from_static(piece)));
        payload
    }

    #[test]
    fn pieces_come_out_in_order() {
        let mut p = payload(&[b"a", b"b"]);
        p.append(payload(&[b"cd", b"e", b"f"]));
        assert_eq!(p.len(), 6);
        assert!(p == b"abcdef"[..]);
        assert!(p != b"abcdeg"[..] && p != b"abcde"[..] && p != b"abcdefg"[..]);
        assert_eq!(p.clone().into_bytes(), &b"abcdef"[..]);
        let mut out = [0; 4];
        p.copy_to_slice(&mut out);
        assert_eq!(&out, b"abcd");
        assert_eq!(p.remaining(), 2);
        p.advance(2);
        assert!(!p.has_remaining());
    }

    #[test]
    fn appending_does_not_depend_on_the_sides_lengths() {
        for split in 0..=6 {
            let pieces: [&[u8]; 6] = [b"a", b"b", b"c", b"d", b"e", b"f"];
            let mut p = payload(&pieces[..split]);
            p.append(payload(&pieces[split..]));
            assert!(p == b"abcdef"[..], "{split}");
            assert!(p.pieces().take(6).all(|piece| !piece.is_empty()), "{split}");
        }
    }

    #[test]
    fn one_piece_is_not_copied() {
        let bytes = Bytes::from(vec![1, 2, 3]);
        let at = bytes.as_ptr();
        assert_eq!(Payload::from(bytes).into_bytes().as_ptr(), at);
        assert!(Payload::default().is_empty());
    }
}
