//! The sender's state of each path.

use std::time::Duration;

use super::ecn::PathEcn;
use super::evidence::Evidence;
use crate::congestion::{
    BurstControl, Controller, Loss, LostData, Needs, NewPath, Pacer, RateSampler, Rtt,
};
use crate::path::{Path, Setup};
use crate::per_path::{OfPath, PathId};
use crate::recovery::RecoveryExit;
use crate::time::Instant;

/// A path's congestion controller, the windows that it last returned, and its measurements.
#[derive(Debug)]
pub(super) struct Congestion {
    controller: Box<dyn Controller>,
    cwnd: usize,
    ssthresh: usize,
    /// Samples the delivery rate, for controllers that need it.
    pub(super) rate: Option<Box<RateSampler>>,
    /// Lost bytes that were not yet reported to the controller.
    lost: u32,
    /// The minimum round-trip time in microseconds; `u32::MAX` before the first measurement.
    min_rtt: u32,
}

impl Congestion {
    fn new(controller: Box<dyn Controller>) -> Self {
        let (cwnd, ssthresh) = (controller.cwnd(), controller.ssthresh());
        let rate = controller.needs().rate_samples.then(Box::default);
        Self { controller, cwnd, ssthresh, rate, lost: 0, min_rtt: u32::MAX }
    }

    /// Records a measurement of the round-trip time. `smoothed` includes it.
    pub(super) fn measure(&mut self, now: Instant, latest: Duration, smoothed: Option<Duration>) {
        let micros = u32::try_from(latest.as_micros()).unwrap_or(u32::MAX - 1);
        self.min_rtt = self.min_rtt.min(micros);
        let rtt = Rtt { latest: Some(latest), ..self.rtt(smoothed) };
        self.tell(|c| c.on_rtt(now, &rtt));
    }

    /// The round-trip times for the controller.
    pub(super) fn rtt(&self, smoothed: Option<Duration>) -> Rtt {
        let min = (self.min_rtt < u32::MAX).then(|| Duration::from_micros(self.min_rtt.into()));
        Rtt { latest: None, smoothed, min }
    }

    /// The minimum round-trip time in microseconds; `u32::MAX` before the first measurement.
    pub(super) fn min_rtt_micros(&self) -> u32 {
        self.min_rtt
    }

    /// Congestion window in bytes.
    pub(super) fn cwnd(&self) -> usize {
        self.cwnd
    }

    /// Slow-start threshold in bytes.
    pub(super) fn ssthresh(&self) -> usize {
        self.ssthresh
    }

    /// Bytes per second, if the controller sets a rate.
    pub(super) fn pacing_rate(&self) -> Option<u64> {
        self.controller.pacing_rate()
    }

    /// Bytes acknowledged between two losses.
    pub(super) fn loss_interval(&self) -> u64 {
        self.controller.loss_interval()
    }

    /// Records that a packet with data is sent, with `flight` bytes in flight; `idle`: nothing else was in flight.
    #[inline]
    pub(super) fn departs(&mut self, now: Instant, packet: u64, flight: usize, idle: bool) {
        if let Some(rate) = &mut self.rate {
            rate.on_sent(now, packet, flight, idle);
        }
    }

    /// Records that `bytes` of a packet are lost.
    pub(super) fn lose(&mut self, bytes: usize, packet: u64) {
        self.lost = self.lost.saturating_add(u32::try_from(bytes).unwrap_or(u32::MAX));
        if let Some(rate) = &mut self.rate {
            rate.on_lost(bytes, packet);
        }
    }

    /// Reports the losses since the last call to the controller, with `in_flight` bytes in flight.
    pub(super) fn report_lost(&mut self, now: Instant, cause: Loss, in_flight: usize) {
        let bytes = std::mem::take(&mut self.lost) as usize;
        if bytes > 0 {
            let sample = self.rate.as_mut().and_then(|rate| rate.take_lost());
            let lost = LostData { now, cause, bytes, in_flight, sample };
            self.tell(|c| c.on_lost(&lost));
        }
    }

    /// Reports an event to the controller, and reads the new windows.
    pub(super) fn tell(&mut self, what: impl FnOnce(&mut dyn Controller)) {
        what(&mut *self.controller);
        self.cwnd = self.controller.cwnd();
        self.ssthresh = self.controller.ssthresh();
    }
}

/// The sender's state of one path: its congestion window, its timer, and its loss recovery.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) path: PathId,
    pub(super) congestion: Congestion,
    pub(super) pacer: Option<Pacer>,
    /// Until when pacing holds data back.
    pub(super) paced_until: Option<Instant>,
    /// The number of packets with new data that may be sent before the next event (Max.Burst).
    pub(super) burst_left: u16,
    /// When T3-rtx expires.
    pub(super) t3: Option<Instant>,
    /// The end of fast recovery; `None` outside of it.
    pub(super) recovery_exit: Option<RecoveryExit>,
    /// Packets with at least this number were sent after a loss last lowered the windows.
    pub(super) lowered_at: u64,
    /// One packet of retransmissions may be sent regardless of cwnd (RFC 9260 section 7.2.4, 4).
    pub(super) retransmit_at_once: bool,
    /// T3-rtx expired, and nothing has been acknowledged since: at most one packet may be in flight.
    pub(super) one_packet: bool,
    /// The controller needs a round-trip time for each acknowledgement.
    pub(super) times_packets: bool,
    /// Bytes in flight before the first acknowledgement of this instant: a batch of acknowledgements
    /// must not look like an unused window.
    pub(super) flight_before: (Instant, usize),
    /// The TSN whose acknowledgement gives the next RTT measurement, and when it was sent.
    pub(super) timed: Option<(u64, Instant)>,
    /// When data was last sent.
    pub(super) last_data: Instant,
    /// Recovery state beyond missing reports, for options that need it.
    pub(super) evidence: Option<Box<Evidence>>,
    /// The current exception to the window rules.
    pub(super) exception: Exception,
    /// The number of the next packet on the path; concurrent multipath transfer detects losses by
    /// these.
    pub(super) next_packet: u64,
    pub(super) ecn: PathEcn,
}

/// Exceptions to the window rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exception {
    /// No exception.
    None,
    /// One packet of new data may be sent although cwnd is full: it is a tail probe.
    Probe,
    /// Nothing may be retransmitted: F-RTO waits for another acknowledgement after a timeout.
    Forward,
    /// The same, but one packet of new data may be sent first.
    ForwardOne,
    /// The same, but two packets of new data may be sent first.
    ForwardTwo,
}

impl Exception {
    /// Records that a packet of new data was sent.
    pub(super) fn on_sent(&mut self) {
        *self = match *self {
            Self::ForwardTwo => Self::ForwardOne,
            Self::ForwardOne => Self::Forward,
            other => other,
        };
    }

    /// Ends the exception for a probe, which is no longer needed.
    pub(super) fn end_probe(&mut self) {
        if *self == Self::Probe {
            *self = Self::None;
        }
    }

    /// Whether F-RTO waits for an acknowledgement.
    pub(super) fn is_forward(self) -> bool {
        matches!(self, Self::Forward | Self::ForwardOne | Self::ForwardTwo)
    }

    /// Whether new data may be sent before lost data.
    pub(super) fn lets_new_data_go(self) -> bool {
        matches!(self, Self::ForwardOne | Self::ForwardTwo)
    }
}

/// Largest burst of packets, as long as the rate allows no larger one in a millisecond, if a controller needs pacing.
const QUANTUM: u32 = 4;

/// The pacer of a path, if its packets are paced.
fn pacer(burst: BurstControl, needs: Needs) -> Option<Pacer> {
    match burst {
        // A controller that sets the rate measures what leaves at that rate, not in larger bursts.
        BurstControl::Pacing { quantum } if needs.pacing => Some(Pacer::new(quantum.min(QUANTUM))),
        BurstControl::Pacing { quantum } => Some(Pacer::new(quantum)),
        _ if needs.pacing => Some(Pacer::new(QUANTUM)),
        BurstControl::MaxBurst(_) | BurstControl::MaxBurstCutsCwnd(_) | BurstControl::Unlimited => {
            None
        }
    }
}

impl OfPath for Lane {
    #[inline]
    fn id(&self) -> PathId {
        self.path
    }
}

impl Lane {
    // req: rfc9260 7.2 "sender MUST keep a set of the control"
    pub(super) fn new(now: Instant, path: &Path, setup: &Setup<'_>) -> Self {
        let new = NewPath {
            now,
            ipv6: path.remote.is_ipv6(),
            coupled: setup.coupled,
            ..NewPath::new(setup.congestion, setup.revision, path.pmdcs())
        };
        let controller = setup.controller.build(&new);
        let needs = controller.needs();
        Self {
            path: path.id,
            congestion: Congestion::new(controller),
            pacer: pacer(setup.congestion.burst, needs),
            paced_until: None,
            burst_left: u16::MAX,
            t3: None,
            recovery_exit: None,
            lowered_at: 0,
            retransmit_at_once: false,
            one_packet: false,
            times_packets: needs.packet_rtts,
            flight_before: (Instant::ZERO, 0),
            timed: None,
            last_data: now,
            evidence: None,
            exception: Exception::None,
            next_packet: 1,
            ecn: PathEcn::default(),
        }
    }

    /// Sets how bursts are limited.
    pub(super) fn set_burst(&mut self, burst: BurstControl) {
        self.pacer = pacer(burst, self.congestion.controller.needs());
        self.paced_until = None;
    }

    /// Whether pacing holds back data now.
    pub(super) fn is_paced(&self, now: Instant) -> bool {
        self.paced_until.is_some_and(|until| until > now)
    }

    /// Stops all timers for good.
    pub(super) fn stop(&mut self) {
        self.t3 = None;
        self.paced_until = None;
        self.evidence = None;
    }
}
