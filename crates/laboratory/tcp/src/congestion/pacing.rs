//! Pacing: segments leave at the rate of the controller (BBR draft, section 5.6.2), by the pacer of the SCTP engine.

use std::time::Duration;

use anabranch_proto::congestion::{Controller, Pacer};
use anabranch_units::Instant;

/// Segments that may leave back to back, if the rate allows no more in a millisecond (BBR draft, section 5.6.3).
const QUANTUM: u32 = 2;

/// Spreads the segments of a connection over time.
#[derive(Debug)]
pub(super) struct Pacing {
    pacer: Pacer,
    /// When the next segment may leave, if one had to wait.
    until: Option<Instant>,
}

impl Pacing {
    pub(super) fn new() -> Self {
        Self { pacer: Pacer::new(QUANTUM), until: None }
    }

    /// Whether a segment of `segment` bytes must wait.
    pub(super) fn holds_back(
        &mut self,
        now: Instant,
        smoothed: Option<Duration>,
        controller: &dyn Controller,
        segment: usize,
    ) -> bool {
        let (cwnd, rate) = (controller.cwnd(), controller.pacing_rate());
        let slow_start = cwnd < controller.ssthresh();
        let allowance = self.pacer.allowance(now, smoothed, cwnd, slow_start, rate, segment);
        self.until = allowance.err();
        self.until.is_some()
    }

    /// Records that data was sent.
    pub(super) fn on_sent(&mut self, bytes: usize) {
        self.pacer.sent(bytes);
    }

    /// When a segment that had to wait may leave.
    pub(super) fn until(&self) -> Option<Instant> {
        self.until
    }

    /// Ends the wait if it is over, so that a segment that is not needed any more sets no timer again and again.
    pub(super) fn handle_timeout(&mut self, now: Instant) {
        self.until.take_if(|until| *until <= now);
    }
}
