//! Asks a server for its public key.
//!
//! A client needs the server's key before the handshake. Servers for everybody give theirs to anyone who asks, so that a
//! client can use the first answer, keep it, and refuse another key later. Nothing proves this answer: anyone on the
//! way can give another one. The handshake that follows proves that the server has the key.

use std::io;

use ring::rand::{SecureRandom, SystemRandom};

use crate::keys::PublicKey;

/// The fifth byte of the packets, after those of a handshake.
const TYPE_QUESTION: u8 = 0x84;
const TYPE_ANSWER: u8 = 0x85;

const VERSION: u8 = 1;

/// Type and version, then the number that connects question and answer.
const START: usize = 8;
const NONCE: usize = 16;

/// Length of a question. It is longer than the answer, so nobody gains bytes by asking with a forged address.
const QUESTION: usize = 64;

/// A question for the public key of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyQuestion {
    nonce: [u8; NONCE],
}

impl KeyQuestion {
    /// A question with a random number that the answer must return.
    ///
    /// # Errors
    /// The system gives no random numbers.
    pub fn new() -> io::Result<Self> {
        let mut nonce = [0; NONCE];
        SystemRandom::new()
            .fill(&mut nonce)
            .map_err(|_| io::Error::other("the system gives no random numbers"))?;
        Ok(Self { nonce })
    }

    /// The datagram to send to the server's real address; it may be sent again.
    pub fn datagram(&self) -> Vec<u8> {
        let mut datagram = [&start(TYPE_QUESTION)[..], &self.nonce].concat();
        datagram.resize(QUESTION, 0);
        datagram
    }

    /// The key in a datagram that answers this question; `None` for other datagrams.
    pub fn answered(&self, datagram: &[u8]) -> Option<PublicKey> {
        let rest = datagram.strip_prefix(&start(TYPE_ANSWER))?.strip_prefix(&self.nonce)?;
        rest.try_into().ok().map(PublicKey::from_bytes)
    }
}

/// The answer of a server with this key; `None` if the datagram is not a question.
pub(crate) fn answer(datagram: &[u8], own: &PublicKey) -> Option<Vec<u8>> {
    if datagram.len() != QUESTION {
        return None;
    }
    let nonce = datagram.strip_prefix(&start(TYPE_QUESTION))?.get(..NONCE)?;
    Some([&start(TYPE_ANSWER)[..], nonce, own.as_bytes()].concat())
}

fn start(kind: u8) -> [u8; START] {
    [0, 0, 0, 0, kind, VERSION, 0, 0]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const OWN: PublicKey = PublicKey::from_bytes([7; 32]);

    #[test]
    fn an_answer_belongs_to_one_question() {
        let (question, other) = (KeyQuestion::new().unwrap(), KeyQuestion::new().unwrap());
        let answer = answer(&question.datagram(), &OWN).unwrap();
        assert!(answer.len() < QUESTION, "an answer is shorter than its question");
        assert_eq!(question.answered(&answer), Some(OWN));
        assert_eq!(other.answered(&answer), None);
        assert_eq!(question.answered(&answer[..answer.len() - 1]), None);
        assert_eq!(question.answered(&[&answer[..], &[0]].concat()), None);
        assert_eq!(question.answered(&question.datagram()), None);
    }

    #[test]
    fn the_format_stays() {
        let question = KeyQuestion { nonce: [9; NONCE] };
        let asked = [&[0, 0, 0, 0, 0x84, 1, 0, 0][..], &[9; 16], &[0; 40]].concat();
        assert_eq!(question.datagram(), asked);
        let answered = [&[0, 0, 0, 0, 0x85, 1, 0, 0][..], &[9; 16], &[7; 32]].concat();
        assert_eq!(answer(&asked, &OWN), Some(answered));
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes: Vec<u8>) {
            let question = KeyQuestion { nonce: [9; NONCE] };
            prop_assert_eq!(question.answered(&bytes), None);
            prop_assert!(answer(&bytes, &OWN).is_none_or(|_| bytes.len() == QUESTION));
        }
    }
}
