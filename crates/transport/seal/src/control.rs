//! Messages of this layer, inside the seal.

use crate::followed::Challenge;

const CHALLENGE: u8 = 1;
const ANSWER: u8 = 2;

/// A message has a byte for its type, and the challenge.
const LEN: usize = 9;

/// A record has at most this many messages; further ones are ignored.
const MOST: usize = 4;

/// A message inside the seal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// Asks the receiver to send this number back.
    Challenge(Challenge),
    /// The number sent back.
    Answer(Challenge),
}

/// The content of a control record.
pub(crate) fn encode(messages: &[Message]) -> Vec<u8> {
    let mut content = Vec::with_capacity(messages.len() * LEN);
    for message in messages {
        let (kind, number) = match message {
            Message::Challenge(number) => (CHALLENGE, number),
            Message::Answer(number) => (ANSWER, number),
        };
        content.push(kind);
        content.extend(number);
    }
    content
}

/// The messages of a control record. Unknown ones are skipped: newer versions may send them.
pub(crate) fn decode(content: &[u8]) -> impl Iterator<Item = Message> {
    content.chunks_exact(LEN).take(MOST).filter_map(|message| {
        let (kind, number) = message.split_first()?;
        let number = number.try_into().ok()?;
        match *kind {
            CHALLENGE => Some(Message::Challenge(number)),
            ANSWER => Some(Message::Answer(number)),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_pass_through_bytes() {
        let messages = [Message::Answer([1; 8]), Message::Challenge([2; 8])];
        let mut content = encode(&messages);
        content.extend([9; LEN]);
        content.extend(encode(&messages[..1]));
        content.extend([1; LEN - 1]);
        let read: Vec<_> = decode(&content).collect();
        assert_eq!(read, [messages[0], messages[1], messages[0]]);
        assert_eq!(decode(&encode(&[messages[0]; 9])).count(), MOST);
    }
}
