//! Signals from the reader of a byte stream to its writer.

use bytes::{Buf, BufMut, BytesMut};

use super::SIGNAL;
use crate::message::{Message, OutgoingMessage};
use crate::reliability::Reliability;

/// A signal. Its numbers count the bytes and marks sent on the stream number since the association
/// was set up or restarted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// The writer may send everything up to this number.
    Credit(u64),
    /// This much was received, and the reader does not want more up to the next mark.
    Stop(u64),
}

const CREDIT: u8 = 1;
const STOP: u8 = 2;
/// A byte with the kind of signal, the stream, and the number.
const LENGTH: usize = 11;
/// The stream that carries signals: stream 0 always exists.
const STREAM: u16 = 0;

impl Signal {
    /// The signal in a message, and the stream that it refers to. `None` if it has none, or one of a
    /// later version.
    pub fn of(message: &Message) -> Option<(u16, Self)> {
        if message.ppid != SIGNAL || !message.is_whole() || message.payload.len() < LENGTH {
            return None;
        }
        let mut data = message.payload.clone();
        let (kind, stream, number) = (data.get_u8(), data.get_u16(), data.get_u64());
        match kind {
            CREDIT => Some((stream, Self::Credit(number))),
            STOP => Some((stream, Self::Stop(number))),
            _ => None,
        }
    }

    /// The message that carries this signal about a stream; it does not wait for data.
    pub fn message(self, stream: u16) -> OutgoingMessage {
        let (kind, number) = match self {
            Self::Credit(number) => (CREDIT, number),
            Self::Stop(number) => (STOP, number),
        };
        let mut data = BytesMut::with_capacity(LENGTH);
        data.put_u8(kind);
        data.put_u16(stream);
        data.put_u64(number);
        OutgoingMessage::new(STREAM, SIGNAL, data.freeze())
            .with_ahead()
            .with_reliability(Reliability::Full)
    }
}

#[cfg(test)]
mod tests {
    use anabranch_wire::Ppid;
    use bytes::Bytes;

    use super::*;

    fn message(ppid: Ppid, data: &[u8]) -> Message {
        Message::new(3, ppid, Bytes::copy_from_slice(data))
    }

    #[test]
    fn signals_come_out_as_they_went_in() {
        for signal in [Signal::Credit(0), Signal::Credit(u64::MAX), Signal::Stop(0x0102_0304)] {
            let sent = signal.message(3);
            assert!(sent.unordered && sent.ahead && sent.data.len() == LENGTH);
            assert_eq!(sent.stream, STREAM, "whatever stream it is about");
            assert_eq!(Signal::of(&message(sent.ppid, &sent.data)), Some((3, signal)));
        }
    }

    #[test]
    fn what_is_no_signal_says_nothing() {
        let credit = [CREDIT, 2, 1, 0, 0, 0, 0, 0, 0, 1, 0];
        let meant = Some((0x0201, Signal::Credit(256)));
        assert_eq!(Signal::of(&message(SIGNAL, &credit)), meant);
        assert_eq!(Signal::of(&message(Ppid(0), &credit)), None);
        assert_eq!(Signal::of(&message(SIGNAL, &credit[..10])), None);
        assert_eq!(Signal::of(&message(SIGNAL, &[])), None);
        assert_eq!(Signal::of(&message(SIGNAL, &[9; LENGTH])), None);
        // A later version may append fields; peers that do not know them ignore them.
        let longer = [&credit[..], b"more"].concat();
        assert_eq!(Signal::of(&message(SIGNAL, &longer)), meant);
        let mut part = message(SIGNAL, &credit);
        part.end = false;
        assert_eq!(Signal::of(&part), None);
    }
}
