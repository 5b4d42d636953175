//! States of an association (RFC 9260 section 4), each with the timer that belongs to it.

use std::time::Duration;

use bytes::Bytes;

use crate::event::AssociationState;
use crate::per_path::PathId;
use crate::time::Instant;

/// T1-init, T1-cookie or T2-shutdown: a control chunk that is repeated until it is answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Repeat {
    pub(crate) deadline: Instant,
    /// Current interval; doubles with each repetition.
    pub(crate) interval: Duration,
    pub(crate) count: u32,
    /// Path that carried it last.
    pub(crate) path: PathId,
}

impl Repeat {
    pub(crate) fn new(now: Instant, interval: Duration, path: PathId) -> Self {
        Self { deadline: now + interval, interval, count: 0, path }
    }

    /// The first retransmission is sent after `rto`, which may be known from an earlier association.
    /// Later intervals are those after an RTO of at least `initial`, so that a peer that is unreachable
    /// for some seconds is not given up earlier just because it usually answers quickly.
    pub(crate) fn expecting(now: Instant, rto: Duration, initial: Duration, path: PathId) -> Self {
        Self { deadline: now + rto, interval: rto.max(initial), count: 0, path }
    }

    /// Counts another repetition, on `path`.
    // req: rfc9260 5.1 "SHOULD follow the same rules given in"
    pub(crate) fn again(&mut self, now: Instant, max: Duration, path: PathId) {
        self.count += 1;
        self.interval = (self.interval * 2).min(max);
        self.deadline = now + self.interval;
        self.path = path;
    }
}

/// The content of a COOKIE ECHO.
#[derive(Debug)]
pub(crate) struct Echo {
    pub(crate) cookie: Bytes,
    /// Parameters of the INIT ACK to report as unrecognized.
    pub(crate) unrecognized: Vec<u8>,
    pub(crate) sent_at: Instant,
    /// Number of stale cookies so far.
    pub(crate) stale: u32,
}

/// State of an association. Closed is the state after its end; before the first packet there is no
/// association.
#[derive(Debug)]
pub(crate) enum State {
    CookieWait {
        t1: Repeat,
        /// Additional cookie lifetime to request with a Cookie Preservative after a stale cookie, in
        /// milliseconds.
        preserve: Option<u32>,
        /// Number of stale cookies so far.
        stale: u32,
    },
    CookieEchoed {
        t1: Repeat,
        /// Boxed, because it is larger than all other states.
        echo: Box<Echo>,
    },
    Established,
    ShutdownPending,
    ShutdownSent {
        t2: Repeat,
    },
    ShutdownReceived,
    ShutdownAckSent {
        t2: Repeat,
    },
    Closed,
}

impl State {
    /// The public state, without internal data.
    pub(crate) fn name(&self) -> AssociationState {
        match self {
            Self::CookieWait { .. } => AssociationState::CookieWait,
            Self::CookieEchoed { .. } => AssociationState::CookieEchoed,
            Self::Established => AssociationState::Established,
            Self::ShutdownPending => AssociationState::ShutdownPending,
            Self::ShutdownSent { .. } => AssociationState::ShutdownSent,
            Self::ShutdownReceived => AssociationState::ShutdownReceived,
            Self::ShutdownAckSent { .. } => AssociationState::ShutdownAckSent,
            Self::Closed => AssociationState::Closed,
        }
    }

    /// Whether the user may send.
    // req: rfc9260 4 "SHUTDOWN-RECEIVED state, the endpoint MUST NOT accept"
    // req: rfc9260 4 "SHUTDOWN-ACK-SENT state, the endpoint MUST NOT accept"
    // req: rfc9260 9.2 "MUST NOT accept new data from its SCTP"
    pub(crate) fn takes_user_data(&self) -> bool {
        matches!(self, Self::CookieWait { .. } | Self::CookieEchoed { .. } | Self::Established)
    }

    /// Whether DATA may be sent.
    // req: rfc9260 6 "Data transmission MUST only happen in the ESTABLISHED"
    // req: rfc9260 4 "MUST transmit or retransmit data and leave"
    // req: rfc9260 9.2 "MUST continue to follow normal data transmission"
    pub(crate) fn sends_data(&self) -> bool {
        matches!(self, Self::Established | Self::ShutdownPending | Self::ShutdownReceived)
    }

    /// Whether DATA is accepted from the peer.
    // req: rfc9260 6 "DATA chunks MUST only be received according to"
    // req: rfc9260 6 "received in any other state SHOULD be"
    pub(crate) fn takes_data(&self) -> bool {
        matches!(self, Self::Established | Self::ShutdownPending | Self::ShutdownSent { .. })
    }

    /// Whether SACKs are processed.
    // req: rfc9260 6 "A SACK chunk MUST be processed in ESTABLISHED"
    pub(crate) fn takes_sack(&self) -> bool {
        matches!(
            self,
            Self::CookieEchoed { .. }
                | Self::Established
                | Self::ShutdownPending
                | Self::ShutdownReceived
        )
    }

    /// Whether SACKs are sent.
    pub(crate) fn acknowledges(&self) -> bool {
        self.takes_data() || matches!(self, Self::ShutdownReceived)
    }

    /// Whether idle paths are monitored with heartbeats.
    // req: rfc9260 8.3 "MAY begin upon reaching the ESTABLISHED state"
    pub(crate) fn heartbeats(&self) -> bool {
        matches!(self, Self::Established | Self::ShutdownPending | Self::ShutdownReceived)
    }

    /// Whether HEARTBEATs are answered.
    // req: rfc9260 8.3 "MUST respond to a HEARTBEAT chunk with a"
    // req: rfc9260 3.3.6 "MUST send this chunk to its peer"
    pub(crate) fn answers_heartbeats(&self) -> bool {
        !matches!(self, Self::CookieWait { .. } | Self::Closed)
    }
}
