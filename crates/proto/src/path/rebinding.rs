//! What is known of a path's UDP port when packets come from another one, or ICMP refuses it.
//! What follows from it is the association's affair (`association/rebinding.rs`,
//! `association/vigilance.rs`).

use bytes::Bytes;

use crate::time::Instant;

/// How a new port stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// It was asked.
    Asked,
    /// It has answered and is in use; the old one may still turn out to be right.
    Moved,
    /// The old one has answered.
    Refused,
}

/// A UDP port that a path's packets come from and that was not the path's.
#[derive(Debug)]
pub(crate) struct Rebinding {
    pub(crate) old: u16,
    pub(crate) new: u16,
    pub(crate) stage: Stage,
    /// Challenges to the new port so far, and when it was challenged or told apart last.
    pub(crate) challenges: u8,
    pub(crate) at: Instant,
    /// Nonces of what goes to the new port and to the old one.
    pub(crate) nonce: u64,
    pub(crate) old_nonce: u64,
    /// What waits for its packet: a HEARTBEAT to the new port, and one to the old.
    pub(crate) ask_new: bool,
    pub(crate) ask_old: bool,
    /// Value of a HEARTBEAT from the new port that is answered there.
    pub(crate) answer: Option<Bytes>,
}

/// ICMP 'port unreachable' about packets of a path, with nothing heard of the peer in between.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refused {
    pub(crate) since: Instant,
    pub(crate) times: u8,
}
