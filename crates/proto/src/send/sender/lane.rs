//! What the sender keeps for each path.

use crate::congestion::{BurstControl, Controller};
use crate::path::{Path, Setup};
use crate::recovery::RecoveryExit;
use crate::send::Pacer;
use crate::time::Instant;

/// The sender's state of one path: its congestion window, its timer, and how it recovers.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) congestion: Controller,
    pub(super) pacer: Option<Pacer>,
    /// Pacing holds data back until then.
    pub(super) paced_until: Option<Instant>,
    /// Packets with new data that may leave before the next event (Max.Burst).
    pub(super) burst_left: u32,
    /// T3-rtx.
    pub(super) t3: Option<Instant>,
    /// Until when fast recovery lasts.
    pub(super) recovery_exit: Option<RecoveryExit>,
    /// Packets from this number on left after a loss lowered the windows last.
    pub(super) lowered_at: u64,
    /// One packet of retransmissions may leave whatever cwnd says (RFC 9260 section 7.2.4, 4).
    pub(super) retransmit_at_once: bool,
    /// What was in flight before the first acknowledgement of this instant: a batch of them
    /// must not look like a window that was not used.
    pub(super) flight_before: (Instant, usize),
    /// TSN whose acknowledgement gives the next RTT measurement, and when it was sent.
    pub(super) timed: Option<(u64, Instant)>,
    /// With timestamps: only packets sent from then on give the next measurement, so that there
    /// is one in a round trip.
    pub(super) measured_to: Instant,
    /// When data was sent last.
    pub(super) last_data: Instant,
    /// Number of the next packet on it; concurrent multipath transfer tells losses by these.
    pub(super) next_packet: u64,
}

/// The pacer of a path, if bursts are paced.
fn pacer(burst: BurstControl) -> Option<Pacer> {
    match burst {
        BurstControl::Pacing { quantum } => Some(Pacer::new(quantum)),
        BurstControl::MaxBurst(_) | BurstControl::MaxBurstCutsCwnd(_) | BurstControl::Unlimited => {
            None
        }
    }
}

impl Lane {
    // req: rfc9260 7.2 "sender MUST keep a set of the control"
    pub(super) fn new(now: Instant, path: &Path, setup: &Setup<'_>) -> Self {
        let (congestion, revision) = (setup.congestion, setup.revision);
        Self {
            congestion: Controller::new(congestion, revision, path.pmdcs(), path.remote.is_ipv6()),
            pacer: pacer(congestion.burst),
            paced_until: None,
            burst_left: u32::MAX,
            t3: None,
            recovery_exit: None,
            lowered_at: 0,
            retransmit_at_once: false,
            flight_before: (Instant::ZERO, 0),
            timed: None,
            measured_to: Instant::ZERO,
            last_data: now,
            next_packet: 1,
        }
    }

    /// Bounds bursts in this way from now on.
    pub(super) fn set_burst(&mut self, burst: BurstControl) {
        self.pacer = pacer(burst);
        self.paced_until = None;
    }

    /// Whether pacing holds data back now.
    pub(super) fn is_paced(&self, now: Instant) -> bool {
        self.paced_until.is_some_and(|until| until > now)
    }

    /// Nothing is sent any more.
    pub(super) fn stop(&mut self) {
        self.t3 = None;
        self.paced_until = None;
    }
}
