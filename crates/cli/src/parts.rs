//! Messages that come in several parts, put together.

use anabranch::{Message, Ppid};
use bytes::{Bytes, BytesMut};

/// Puts the parts of messages together that come in several.
#[derive(Debug)]
pub(crate) struct Parts {
    /// Bytes so far. At the most one message of an association is under way at a time.
    begun: BytesMut,
    most: usize,
}

/// A message is longer than allowed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooLong;

/// A whole message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Whole {
    pub(crate) stream: u16,
    pub(crate) ppid: Ppid,
    pub(crate) unordered: bool,
    pub(crate) data: Bytes,
}

impl Parts {
    /// For messages of so many bytes at the most.
    pub(crate) fn new(most: usize) -> Self {
        Self { begun: BytesMut::new(), most }
    }

    /// Adds a message or a part of one; returns it when it is whole.
    pub(crate) fn add(&mut self, message: Message) -> Result<Option<Whole>, TooLong> {
        let (stream, ppid, unordered) = (message.stream, message.ppid, message.unordered);
        let whole = |data| Whole { stream, ppid, unordered, data };
        let length = message.payload.len();
        // Whole messages may come between the parts of another one.
        if message.is_whole() {
            let fits = length <= self.most;
            return fits.then(|| Some(whole(message.payload.into_bytes()))).ok_or(TooLong);
        }
        if message.begin {
            self.begun.clear();
        }
        if self.begun.len() + length > self.most {
            return Err(TooLong);
        }
        message.payload.pieces().for_each(|piece| self.begun.extend_from_slice(piece));
        Ok(message.end.then(|| whole(self.begun.split().freeze())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(begin: bool, end: bool, data: &'static [u8]) -> Message {
        let mut message = Message::new(3, Ppid(7), Bytes::from_static(data));
        (message.begin, message.end) = (begin, end);
        message
    }

    #[test]
    fn parts_become_whole() {
        let mut parts = Parts::new(6);
        let whole = |data| Ok(Some(Whole { stream: 3, ppid: Ppid(7), unordered: false, data }));
        assert_eq!(parts.add(part(true, true, b"whole")), whole(Bytes::from("whole")));
        assert_eq!(parts.add(part(true, false, b"in")), Ok(None));
        assert_eq!(parts.add(part(false, false, b"par")), Ok(None));
        assert_eq!(parts.add(part(true, true, b"other")), whole(Bytes::from("other")));
        assert_eq!(parts.add(part(false, true, b"t")), whole(Bytes::from("inpart")));
        assert_eq!(parts.add(part(true, false, b"four")), Ok(None));
        assert_eq!(parts.add(part(false, true, b"four")), Err(TooLong));
        assert_eq!(parts.add(part(true, true, b"too long")), Err(TooLong));
        // What a restarted peer left unfinished is forgotten.
        let mut parts = Parts::new(6);
        assert_eq!(parts.add(part(true, false, b"half")), Ok(None));
        assert_eq!(parts.add(part(true, false, b"a")), Ok(None));
        assert_eq!(parts.add(part(false, true, b"b")), whole(Bytes::from("ab")));
    }
}
