//! State of the peer's UDP port on a path when packets come from another one, or ICMP reports that
//! it refuses. The association acts on it (`association/rebinding.rs`, `association/vigilance.rs`).

use bytes::Bytes;

use crate::time::Instant;

/// State of a new port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// It was challenged.
    Asked,
    /// It has answered and is in use, but the old port may still turn out to be the peer's.
    Moved,
    /// The old port has answered.
    Refused,
}

/// A new UDP source port of a path's packets.
#[derive(Debug)]
pub(crate) struct Rebinding {
    pub(crate) old: u16,
    pub(crate) new: u16,
    pub(crate) stage: Stage,
    /// Number of challenges to the new port so far, and when the last one was sent or the ports
    /// were last compared.
    pub(crate) challenges: u8,
    pub(crate) at: Instant,
    /// Nonces of the challenges to the new port and to the old one.
    pub(crate) nonce: u64,
    pub(crate) old_nonce: u64,
    /// Whether HEARTBEATs to the new port and to the old one wait for their packets.
    pub(crate) ask_new: bool,
    pub(crate) ask_old: bool,
    /// Value of a HEARTBEAT from the new port, which must be answered there.
    pub(crate) answer: Option<Bytes>,
}

/// ICMP 'port unreachable' for packets of a path, since the last packet of the peer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refused {
    pub(crate) since: Instant,
    pub(crate) times: u8,
}
