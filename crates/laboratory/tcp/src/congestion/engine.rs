//! The congestion controllers of the SCTP engine.

use std::time::Duration;

use anabranch_proto::AssociationConfig;
use anabranch_proto::IdleCwnd;
use anabranch_proto::config::{CongestionControl, InitialCwnd};
use anabranch_proto::congestion::{
    Acked, CongestionEvent, Controller, ControllerChoice, Idle, Loss, LostData, NewPath, Rtt, Sent,
};
use anabranch_units::Instant;

use super::reno::initial_segments;
use super::{Arrival, Cause};
use crate::config::Config;

/// A controller of the SCTP engine, told of segments in place of DATA chunks.
#[derive(Debug)]
pub(crate) struct Engine {
    controller: Box<dyn Controller>,
    mss: u64,
    min_rtt: Option<Duration>,
}

fn size(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

fn loss(cause: Cause) -> Loss {
    match cause {
        Cause::Loss => Loss::Reported,
        Cause::Mark => Loss::Marked,
        Cause::Timeout { .. } => Loss::Timeout,
    }
}

impl Engine {
    /// The controller that the options of a connection name.
    pub(super) fn new(config: &Config, mss: u64) -> Self {
        let mut like = AssociationConfig::rfc9260();
        let options = &mut like.congestion;
        options.congestion_control = CongestionControl::Cubic;
        options.initial_cwnd =
            InitialCwnd::Mtus(initial_segments(config.initial_window, mss) as u32);
        // RFC 5681 section 3.1 and RFC 9438 section 4.6: two segments.
        options.min_ssthresh_mtus = 2;
        let limit = config.slow_start_limit.segments(false);
        options.slow_start_limit_mtus = limit.map_or(u32::from(u16::MAX), |limit| limit as u32);
        // As Linux does (`tcp_cwnd_restart`).
        options.idle_cwnd = IdleCwnd::WindowValidation;
        // RFC 5681 section 3.1: a second timeout of the same segment keeps the threshold.
        options.hold_ssthresh = true;
        let path = NewPath::new(&like.congestion, like.revision, size(mss));
        let controller = ControllerChoice::default().build(&path);
        Self { controller, mss, min_rtt: None }
    }

    pub(super) fn window(&self) -> u64 {
        self.controller.cwnd() as u64
    }

    pub(super) fn threshold(&self) -> u64 {
        match self.controller.ssthresh() {
            usize::MAX => u64::MAX,
            threshold => threshold as u64,
        }
    }

    pub(super) fn on_sent(&mut self, now: Instant, bytes: u64, in_network: u64, limited: bool) {
        let mut sent = Sent::new(now, size(bytes), size(in_network));
        sent.app_limited = limited;
        self.controller.on_sent(&sent);
    }

    pub(super) fn on_arrived(&mut self, arrival: &Arrival) {
        let mut rtt = Rtt::default();
        (rtt.latest, rtt.smoothed) = (arrival.rtt, arrival.smoothed);
        self.min_rtt = self.min_rtt.into_iter().chain(arrival.rtt).min();
        rtt.min = self.min_rtt;
        if arrival.rtt.is_some() {
            self.controller.on_rtt(arrival.now, &rtt);
        }
        let mut acked = Acked::new(arrival.now, size(arrival.bytes));
        // SCTP may send one packet beyond the window, TCP sends whole segments within it.
        let full = arrival.before + self.mss > self.window();
        let before = if full { arrival.before.max(self.window()) } else { arrival.before };
        (acked.flight_before, acked.in_flight) = (size(before), size(arrival.after));
        (acked.all, acked.cumulative_advanced) = (arrival.all, arrival.advanced);
        acked.in_fast_recovery = arrival.in_recovery;
        (acked.rtt, acked.packet_rtt) = (rtt, arrival.rtt);
        self.controller.on_acked(&acked);
    }

    pub(super) fn on_congestion(&mut self, now: Instant, cause: Cause, before: u64) {
        let event = CongestionEvent::new(now, loss(cause), size(before));
        self.controller.on_congestion_event(&event);
    }

    pub(super) fn on_lost(&mut self, now: Instant, cause: Cause, bytes: u64, in_network: u64) {
        let lost = LostData::new(now, loss(cause), size(bytes), size(in_network));
        self.controller.on_lost(&lost);
    }

    pub(super) fn undo(&mut self, now: Instant) {
        self.controller.undo(now);
    }

    pub(super) fn on_idle(&mut self, now: Instant, timeouts: u32) {
        self.controller.on_idle(&Idle::new(now, timeouts));
    }

    pub(super) fn limit(&mut self, now: Instant, segments: u32) {
        self.controller.on_burst_limit(now, 0, segments);
    }

    pub(super) fn assume_threshold(&mut self, threshold: u64) {
        self.controller.on_recalled(Instant::ZERO, size(threshold));
    }
}
