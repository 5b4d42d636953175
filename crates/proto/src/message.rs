//! User messages on their way in and out of an association.

use std::time::Duration;

use anabranch_wire::Ppid;
use bytes::{Buf, Bytes, BytesMut};

/// A user message to send (RFC 9260 section 11.1.5).
#[derive(Clone, Debug)]
pub struct OutgoingMessage {
    /// Outbound stream, below [`Association::outbound_streams`](crate::Association::outbound_streams).
    pub stream: u16,
    /// Payload protocol identifier, passed to the peer unchanged.
    pub ppid: Ppid,
    /// Deliver without waiting for earlier messages of the stream (the U bit).
    pub unordered: bool,
    /// Ask the peer to acknowledge at once (the I bit, on the last fragment).
    pub sack_immediately: bool,
    /// Leave without waiting to share a packet, and with it all that waits before it
    /// ([`Bundling`](crate::config::Bundling)). Messages with a lifetime do so, too.
    pub now: bool,
    /// The data has no boundaries and may leave as several messages, so that other streams need not
    /// wait for its end ([`Pieces`](crate::config::Pieces)).
    pub divisible: bool,
    /// Leaves before all that waits on any stream; of unordered messages only.
    pub ahead: bool,
    /// Given up if not one byte of it has been sent after this time; `None` waits for ever.
    pub lifetime: Option<Duration>,
    /// Returned with [`Event::SendFailed`](crate::Event::SendFailed); the engine does not read it.
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
            lifetime: None,
            context: 0,
            data: data.into(),
        }
    }

    /// Delivered without waiting for earlier messages of the stream.
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

    /// Asks the peer to acknowledge at once.
    #[must_use]
    pub fn with_sack_immediately(mut self) -> Self {
        self.sack_immediately = true;
        self
    }

    /// Leaves without waiting to share a packet.
    #[must_use]
    pub fn with_now(mut self) -> Self {
        self.now = true;
        self
    }

    /// May leave as several messages, as bytes without boundaries may.
    #[must_use]
    pub fn with_divisible(mut self) -> Self {
        self.divisible = true;
        self
    }

    /// Unordered, and leaves before all that waits.
    #[must_use]
    pub fn with_ahead(mut self) -> Self {
        self.unordered = true;
        self.ahead = true;
        self
    }

    /// Given up if not one byte of it has been sent after this time.
    #[must_use]
    pub fn with_lifetime(mut self, lifetime: Duration) -> Self {
        self.lifetime = Some(lifetime);
        self
    }

    /// Sets what comes back with it if it fails.
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
    /// Sent unordered.
    pub unordered: bool,
    /// First part of the message.
    pub begin: bool,
    /// Last part of the message; a message delivered at once has both.
    pub end: bool,
    /// The data, as it arrived.
    pub payload: Payload,
    /// What the association's receive buffer is charged for it until it is released.
    pub(crate) charge: u32,
}

impl Message {
    /// A whole ordered message that no association received and that is charged to none.
    pub fn new(stream: u16, ppid: Ppid, payload: impl Into<Payload>) -> Self {
        let (begin, end, unordered) = (true, true, false);
        Self { stream, ppid, unordered, begin, end, payload: payload.into(), charge: 0 }
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

/// Bytes of a message in the pieces in which they arrived. A [`Buf`].
#[derive(Clone, Debug, Default)]
pub struct Payload {
    first: Bytes,
    rest: std::collections::VecDeque<Bytes>,
}

impl Payload {
    /// Adds a piece at the end.
    pub(crate) fn push(&mut self, piece: Bytes) {
        if self.first.is_empty() && self.rest.is_empty() {
            self.first = piece;
        } else {
            self.rest.push_back(piece);
        }
    }

    /// Adds the pieces of `other` at the end; costs as much as the side with fewer pieces has.
    pub(crate) fn append(&mut self, mut other: Self) {
        if self.rest.len() < other.rest.len() {
            other.rest.push_front(other.first);
            while let Some(piece) = self.rest.pop_back() {
                other.rest.push_front(piece);
            }
            if self.first.is_empty() {
                self.first = other.rest.pop_front().unwrap_or_default();
            }
            self.rest = other.rest;
        } else {
            self.push(other.first);
            self.rest.extend(other.rest);
        }
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.first.len() + self.rest.iter().map(Bytes::len).sum::<usize>()
    }

    /// Whether there is no byte left.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The pieces in order.
    pub fn pieces(&self) -> impl Iterator<Item = &Bytes> {
        std::iter::once(&self.first).chain(&self.rest)
    }

    /// The pieces as a vector.
    pub fn into_pieces(self) -> Vec<Bytes> {
        std::iter::once(self.first).chain(self.rest).collect()
    }

    /// The whole as one buffer: free of cost for one piece, a copy for several.
    pub fn into_bytes(self) -> Bytes {
        if self.rest.is_empty() {
            return self.first;
        }
        let mut whole = BytesMut::with_capacity(self.len());
        self.pieces().for_each(|piece| whole.extend_from_slice(piece));
        whole.freeze()
    }
}

impl Buf for Payload {
    fn remaining(&self) -> usize {
        self.len()
    }

    fn chunk(&self) -> &[u8] {
        &self.first
    }

    fn advance(&mut self, mut count: usize) {
        while count > 0 || (self.first.is_empty() && !self.rest.is_empty()) {
            let step = count.min(self.first.len());
            self.first.advance(step);
            count -= step;
            if self.first.is_empty() {
                match self.rest.pop_front() {
                    Some(next) => self.first = next,
                    None => {
                        assert_eq!(count, 0, "advanced beyond the end of a payload");
                        return;
                    }
                }
            }
        }
    }
}

impl From<Bytes> for Payload {
    fn from(first: Bytes) -> Self {
        Self { first, rest: std::collections::VecDeque::new() }
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
