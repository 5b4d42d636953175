//! The congestion controllers of the SCTP engine.

use std::time::Duration;

use anabranch_proto::AssociationConfig;
use anabranch_proto::IdleCwnd;
use anabranch_proto::config::{CongestionControl, InitialCwnd};
use anabranch_proto::congestion::{
    Acked, CongestionEvent, Controller, ControllerChoice, Idle, Loss, LostData, NewPath,
    RateSampler, Rtt, Sent,
};
use anabranch_units::Instant;

use super::pacing::Pacing;
use super::reno::initial_segments;
use super::{Arrival, Cause, Departure, Lost};
use crate::config::Config;

/// A controller of the SCTP engine, told of segments in place of DATA chunks.
#[derive(Debug)]
pub(crate) struct Engine {
    controller: Box<dyn Controller>,
    mss: u64,
    min_rtt: Option<Duration>,
    /// Samples the delivery rate, if the controller needs it.
    rate: Option<Box<RateSampler>>,
    /// Spreads segments over time, if the controller needs it.
    pacing: Option<Pacing>,
}

/// The sampler counts packets from 1, the sender from 0.
fn packet(number: u64) -> u64 {
    number.saturating_add(1)
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
    /// A controller with the options of a connection.
    pub(super) fn new(config: &Config, control: CongestionControl, mss: u64) -> Self {
        let mut like = AssociationConfig::rfc9260();
        let options = &mut like.congestion;
        options.congestion_control = control;
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
        let needs = controller.needs();
        let rate = needs.rate_samples.then(Box::default);
        let pacing = needs.pacing.then(Pacing::new);
        Self { controller, mss, min_rtt: None, rate, pacing }
    }

    pub(super) fn samples_rate(&self) -> bool {
        self.rate.is_some()
    }

    pub(super) fn paces(&self) -> bool {
        self.pacing.is_some()
    }

    pub(super) fn holds_back(&mut self, now: Instant, smoothed: Option<Duration>) -> bool {
        let segment = size(self.mss);
        let pacing = self.pacing.as_mut();
        pacing.is_some_and(|pacing| pacing.holds_back(now, smoothed, &*self.controller, segment))
    }

    pub(super) fn paced_until(&self) -> Option<Instant> {
        self.pacing.as_ref().and_then(Pacing::until)
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) {
        if let Some(pacing) = &mut self.pacing {
            pacing.handle_timeout(now);
        }
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

    pub(super) fn on_handshake(&mut self, now: Instant, handshake: Duration) {
        self.min_rtt = Some(handshake);
        let mut rtt = Rtt::default();
        (rtt.latest, rtt.smoothed, rtt.min) = (Some(handshake), Some(handshake), Some(handshake));
        self.controller.on_rtt(now, &rtt);
    }

    pub(super) fn on_sent(&mut self, departure: &Departure) {
        let Departure { now, number, bytes, in_network, limited } = *departure;
        let app_limited = limited && in_network < self.window();
        if let Some(rate) = &mut self.rate {
            rate.on_sent(now, packet(number), size(in_network), in_network <= bytes);
            // BBR draft, section 4.1.2.4.
            if app_limited {
                rate.on_app_limited(size(in_network));
            }
        }
        if let Some(pacing) = &mut self.pacing {
            pacing.on_sent(size(bytes));
        }
        let mut sent = Sent::new(now, size(bytes), size(in_network));
        sent.app_limited = app_limited;
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
        acked.paced = self.paced_until().is_some_and(|until| until > arrival.now);
        acked.rate = self.rate.as_mut().filter(|_| arrival.bytes > 0).and_then(|rate| {
            // Without a transmission, a part of one was acknowledged: it counts, but gives no sample.
            let latest = arrival.latest.map_or(0, packet);
            rate.on_acked(arrival.now, size(arrival.bytes), latest, arrival.oldest.map(packet))
        });
        self.controller.on_acked(&acked);
    }

    pub(super) fn on_congestion(&mut self, now: Instant, cause: Cause, before: u64) {
        let event = CongestionEvent::new(now, loss(cause), size(before));
        self.controller.on_congestion_event(&event);
    }

    pub(super) fn on_lost(&mut self, lost: &Lost) {
        let bytes = size(lost.bytes);
        let mut data = LostData::new(lost.now, loss(lost.cause), bytes, size(lost.in_network));
        data.sample = self.rate.as_mut().zip(lost.latest).and_then(|(rate, latest)| {
            rate.on_lost(bytes, packet(latest));
            rate.take_lost()
        });
        self.controller.on_lost(&data);
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
