//! Reassembles messages that arrive in several parts.

use std::time::Duration;

use anabranch::{Association, Message, Ppid, Reservation};
use bytes::Bytes;
use tokio::time::sleep;

/// Messages up to this length are not counted, because an association itself needs as much memory.
const SHORT: usize = 4096;

/// A message that waits for memory tries again after this time. Peers that hold reserved memory
/// without making progress are disconnected sooner.
const STEP: Duration = Duration::from_millis(100);
const STEPS: u32 = 150;

/// Reassembles messages that arrive in several parts.
///
/// Memory for the content is reserved from the endpoint's limit until the whole message is dropped.
#[derive(Debug)]
pub(crate) struct Parts {
    /// The association for which memory is reserved.
    association: Option<Association>,
    /// The bytes of the incomplete message; an association has at most one at a time.
    begun: Vec<u8>,
    reserved: Option<Reservation>,
    most: usize,
}

/// Why a message cannot be reassembled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// It is longer than allowed.
    TooLong,
    /// The endpoint has no memory for it.
    NoMemory,
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
        Self { association: Some(association.clone()), begun: Vec::new(), reserved: None, most }
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
        if message.begin {
            (self.begun, self.reserved) = (Vec::new(), None);
        }
        let needed = self.begun.len() + length;
        if needed > self.most {
            return Err(Refused::TooLong);
        }
        if needed > self.begun.capacity() {
            // Grow by half, so that a long message is not copied too often.
            let capacity = (needed + needed / 2).min(self.most);
            let more = capacity - self.begun.capacity();
            reserve(self.association.as_ref(), &mut self.reserved, more).await?;
            self.begun.reserve_exact(capacity - self.begun.len());
        }
        message.payload.pieces().for_each(|piece| self.begun.extend_from_slice(piece));
        if !message.end {
            return Ok(None);
        }
        Ok(whole(std::mem::take(&mut self.begun).into(), self.reserved.take()))
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

    async fn add(parts: &mut Parts, message: Message) -> Result<Option<Bytes>, Refused> {
        let whole = parts.add(message).await?;
        Ok(whole.map(|whole| {
            assert_eq!((whole.stream, whole.ppid, whole.unordered), (3, Ppid(7), false));
            whole.data
        }))
    }

    #[tokio::test]
    async fn parts_become_whole() {
        let parts = || Parts { association: None, begun: Vec::new(), reserved: None, most: 6 };
        let whole = |data| Ok(Some(Bytes::from_static(data)));
        let one = &mut parts();
        assert_eq!(add(one, part(true, true, b"whole")).await, whole(b"whole"));
        assert_eq!(add(one, part(true, false, b"in")).await, Ok(None));
        assert_eq!(add(one, part(false, false, b"par")).await, Ok(None));
        assert_eq!(add(one, part(true, true, b"other")).await, whole(b"other"));
        assert_eq!(add(one, part(false, true, b"t")).await, whole(b"inpart"));
        assert_eq!(add(one, part(true, false, b"four")).await, Ok(None));
        assert_eq!(add(one, part(false, true, b"four")).await, Err(Refused::TooLong));
        assert_eq!(add(one, part(true, true, b"too long")).await, Err(Refused::TooLong));
        // The parts of a message that a restarted peer left incomplete are discarded.
        let one = &mut parts();
        assert_eq!(add(one, part(true, false, b"half")).await, Ok(None));
        assert_eq!(add(one, part(true, false, b"a")).await, Ok(None));
        assert_eq!(add(one, part(false, true, b"b")).await, whole(b"ab"));
    }
}
