//! What an endpoint knows about one other endpoint.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use anabranch_units::Instant;

use super::Families;
use crate::PATHS;
use crate::dialled::Dialled;
use crate::followed::Followed;
use crate::handshake::{Attempt, Mac};
use crate::keys::PublicKey;
use crate::session::Session;
use crate::token::Token;

/// Records under replaced keys are accepted for this time: paths may differ by this much.
const PREVIOUS_LIFE: Duration = Duration::from_secs(15);

/// Packets and bytes that wait for a handshake.
const MOST_WAITING: usize = 16;
const MOST_WAITING_BYTES: usize = 32_768;

/// A session whose initiator has not yet shown that it received the welcome.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) session: Session,
    /// Names the hello that it answers.
    pub(super) hello: Mac,
    /// The answer, for copies of the hello.
    pub(super) welcome: Vec<u8>,
    pub(super) expires: Instant,
    /// The token that the initiator used, because its key is not allowed yet.
    pub(super) token: Option<Token>,
}

/// The sessions with a peer.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    pub(super) current: Option<Session>,
    /// The replaced one, for records that are still on the way, and until when.
    pub(super) previous: Option<(Session, Instant)>,
    pub(super) pending: Option<Pending>,
}

impl Sessions {
    /// The session with this word, and whether it is the pending one.
    pub(super) fn by_word(&mut self, word: u32) -> Option<(&mut Session, bool)> {
        let current = self.current.as_mut().map(|session| (session, false));
        let previous = self.previous.as_mut().map(|(session, _)| (session, false));
        let pending = self.pending.as_mut().map(|pending| (&mut pending.session, true));
        [current, previous, pending].into_iter().flatten().find(|(s, _)| s.local_word == word)
    }

    /// Makes a session the current one. Returns the word of the one that is forgotten.
    pub(super) fn replace(&mut self, now: Instant, session: Session) -> Option<u32> {
        let before = self.current.replace(session)?;
        let forgotten = self.previous.replace((before, now + PREVIOUS_LIFE));
        forgotten.map(|(session, _)| session.local_word)
    }

    /// All words.
    pub(super) fn words(&self) -> impl Iterator<Item = u32> {
        let current = self.current.as_ref().map(|session| session.local_word);
        let previous = self.previous.as_ref().map(|(session, _)| session.local_word);
        let pending = self.pending.as_ref().map(|pending| pending.session.local_word);
        [current, previous, pending].into_iter().flatten()
    }
}

/// A handshake that this side has begun.
#[derive(Debug)]
pub(super) struct Dialling {
    pub(super) attempt: Attempt,
    pub(super) begun: Instant,
    pub(super) hellos: u32,
    /// Cookies that were answered.
    pub(super) cookies: u32,
    pub(super) next: Instant,
}

/// A peer that this side connects to.
#[derive(Debug)]
pub(super) struct Host {
    pub(super) addresses: Vec<SocketAddr>,
    pub(super) token: Option<Token>,
    pub(super) paths: [Dialled; PATHS as usize],
    pub(super) dialling: Option<Dialling>,
    /// The number of the last handshake.
    pub(super) number: u64,
    /// Packets that wait for the handshake, with their paths.
    pub(super) waiting: VecDeque<(u8, Vec<u8>)>,
    /// The first packet sent since the last one received.
    pub(super) unanswered: Option<Instant>,
}

impl Host {
    pub(super) fn new(addresses: Vec<SocketAddr>, token: Option<Token>) -> Self {
        Self {
            addresses,
            token,
            paths: std::array::from_fn(|_| Dialled::default()),
            dialling: None,
            number: 0,
            waiting: VecDeque::new(),
            unanswered: None,
        }
    }

    /// Whether an uplink reaches one of the peer's addresses.
    pub(super) fn reaches(&self, uplink: Families) -> bool {
        self.addresses.iter().any(|remote| uplink.includes(remote))
    }

    /// Keeps packets until the handshake is done. The oldest ones are lost if there are too many.
    pub(super) fn keep(&mut self, path: u8, packets: &[u8], segment_size: usize) {
        for packet in packets.chunks(segment_size.max(1)) {
            self.waiting.push_back((path, packet.to_vec()));
        }
        while self.keeps_too_much() {
            self.waiting.pop_front();
        }
    }

    fn keeps_too_much(&self) -> bool {
        let bytes: usize = self.waiting.iter().map(|(_, packet)| packet.len()).sum();
        self.waiting.len() > MOST_WAITING || bytes > MOST_WAITING_BYTES
    }

    #[cfg(any(test, feature = "invariants"))]
    pub(super) fn check_invariants(&self) -> Result<(), String> {
        let orphaned = self.dialling.is_none() && !self.waiting.is_empty();
        if self.keeps_too_much() || orphaned {
            return Err("packets wait that nothing sends, or too many".to_owned());
        }
        Ok(())
    }
}

/// A peer that has connected to this side.
#[derive(Debug)]
pub(super) struct Guest {
    pub(super) paths: [Followed; PATHS as usize],
    /// The highest number of its handshakes.
    pub(super) number: u64,
}

impl Guest {
    pub(super) fn new() -> Self {
        Self { paths: std::array::from_fn(|_| Followed::default()), number: 0 }
    }
}

/// Who began.
#[derive(Debug)]
pub(super) enum Side {
    /// This side connects to the peer.
    Host(Box<Host>),
    /// The peer has connected to this side.
    Guest(Box<Guest>),
}

/// One other endpoint.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) key: PublicKey,
    pub(super) side: Side,
    pub(super) sessions: Sessions,
    /// The last authentic packet.
    pub(super) heard: Instant,
}
