//! State of a path's UDP port when packets come from another one, or ICMP refuses it. The
//! association acts on it (`association/rebinding.rs`, `association/vigilance.rs`).

use bytes::Bytes;

use crate::time::Instant;

/// State of a new port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// It was challenged.
    Asked,
    /// It has answered and is in use; the old one may still turn out to be right.
    Moved,
    /// The old one has answered.
    Refused,
}

/// A new UDP source port of a path's packets.
#[derive(Debug)]
pub(crate) struct Rebinding {
    pub(crate) old: u16,
    pub(crate) new: u16,
    pub(crate) stage: Stage,
    /// Challenges to the new port so far, and when the last one was sent or the ports were last
    /// compared.
    pub(crate) challenges: u8,
    pub(crate) at: Instant,
    /// Nonces of the challenges to the new port and to the old one.
    pub(crate) nonce: u64,
    pub(crate) old_nonce: u64,
    /// HEARTBEATs that wait for their packet: to the new port, and to the old one.
    pub(crate) ask_new: bool,
    pub(crate) ask_old: bool,
    /// Value of a HEARTBEAT from the new port that is answered there.
    pub(crate) answer: Option<Bytes>,
}

/// ICMP 'port unreachable' about packets of a path, without a packet of the peer in between.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refused {
    pub(crate) since: Instant,
    pub(crate) times: u8,
}
