//! The trait for congestion control: how much may be in flight on a path, and how fast it is sent.
//!
//! A [`Controller`] controls one path. The engine reports the path's events, with the time, and reads
//! the window after each call. It makes at most one call of each kind for an acknowledgement or a batch
//! of packets. All sizes are bytes of DATA chunks with header and padding; PMDCS is the size of the
//! largest DATA chunk that fits into a packet of the path.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::rate::{LossSample, RateSample};
use super::{CongestionConfig, CongestionControl, Coupled};
use crate::revision::Revision;
use crate::time::Instant;

/// Round-trip times of one path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rtt {
    /// The latest measurement. `None` in [`Acked`] if this acknowledgement gave none.
    pub latest: Option<Duration>,
    /// Smoothed round-trip time (RFC 9260 section 6.3.1). `None` before the first measurement.
    pub smoothed: Option<Duration>,
    /// The minimum since the path was created, rounded down to microseconds.
    pub min: Option<Duration>,
}

/// A batch of packets with data that was sent.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Sent {
    /// When it was sent.
    pub now: Instant,
    /// Size of the batch in bytes.
    pub bytes: usize,
    /// Bytes in flight, including the batch.
    pub in_flight: usize,
    /// The window has room, but there is nothing more to send.
    pub app_limited: bool,
}

impl Sent {
    /// A batch of `bytes` that was sent and leaves `in_flight` bytes in flight, with more to send. For those who
    /// drive a controller without the engine, who change the fields.
    pub fn new(now: Instant, bytes: usize, in_flight: usize) -> Self {
        Self { now, bytes, in_flight, app_limited: false }
    }
}

/// The effect of an acknowledgement on one path.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Acked<'a> {
    /// When it arrived.
    pub now: Instant,
    /// Bytes sent to the path that are acknowledged for the first time, by the cumulative TSN or
    /// by gap blocks.
    pub bytes: usize,
    /// Bytes in flight on the path before the acknowledgement. If several acknowledgements are handled
    /// before anything can be sent, this is the value before the first of them.
    pub flight_before: usize,
    /// Bytes in flight on the path after the acknowledgement, before the losses that it proves.
    pub in_flight: usize,
    /// Nothing is outstanding on the path after the acknowledgement.
    pub all: bool,
    /// The acknowledgement advances the Cumulative TSN Ack Point.
    pub cumulative_advanced: bool,
    /// The association is in Fast Recovery (RFC 9260 section 7.2.4).
    pub in_fast_recovery: bool,
    /// Pacing holds back data for which cwnd has room.
    pub paced: bool,
    /// Round-trip times, including this acknowledgement's measurement.
    pub rtt: Rtt,
    /// The round-trip time of the latest packet newly acknowledged, if the controller
    /// [needs](Controller::needs) it and all chunks of that packet were sent only once. [`Rtt::latest`] has one
    /// measurement per round trip; this has one for almost every acknowledgement.
    pub packet_rtt: Option<Duration>,
    /// The delivery rate, if the controller [needs](Controller::needs) it and the acknowledgement
    /// gives a sample.
    pub rate: Option<RateSample>,
    /// The path in the context of all paths.
    pub coupled: Coupled<'a>,
}

impl Acked<'_> {
    /// An acknowledgement of `bytes` that advances the Cumulative TSN Ack Point, with nothing else in
    /// flight and no other path. For tests of controllers, which change the fields.
    pub fn new(now: Instant, bytes: usize) -> Self {
        Self {
            now,
            bytes,
            flight_before: bytes,
            in_flight: 0,
            all: false,
            cumulative_advanced: true,
            in_fast_recovery: false,
            paced: false,
            rtt: Rtt::default(),
            packet_rtt: None,
            rate: None,
            coupled: Coupled::ALONE,
        }
    }

    /// Whether the window limits the sender, so that it may grow (RFC 9260 section 7.2.1). Pacing spreads a window
    /// over a round trip, so the data in flight lags behind a window that grows: half of it is enough, as long as
    /// pacing and not the application holds back the rest.
    pub fn is_window_used(&self, cwnd: usize) -> bool {
        self.flight_before >= cwnd || (self.paced && self.flight_before >= cwnd / 2)
    }
}

/// How a loss, or congestion without one, was detected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Loss {
    /// Missing reports, or a time after which the data should have arrived (RFC 9260 section 7.2.4, RFC
    /// 8985).
    Reported,
    /// T3-rtx expired: nothing was acknowledged for a long time (RFC 9260 section 6.3.3).
    Timeout,
    /// Nothing was lost: the network marked a packet in place of dropping it (RFC 3168). The windows must be reduced
    /// as for a reported loss, or at least noticeably (RFC 8311 section 4.1).
    Marked,
}

/// Congestion: there were losses in a window of data, or marks.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct CongestionEvent<'a> {
    /// When it was detected.
    pub now: Instant,
    /// How it was detected.
    pub cause: Loss,
    /// Bytes in flight before the acknowledgement that shows the congestion, or when the timer expired.
    pub in_flight: usize,
    /// The path in the context of all paths.
    pub coupled: Coupled<'a>,
}

impl CongestionEvent<'_> {
    /// Congestion on a path without others, for tests of controllers.
    pub fn new(now: Instant, cause: Loss, in_flight: usize) -> Self {
        Self { now, cause, in_flight, coupled: Coupled::ALONE }
    }
}

/// Data that is considered lost.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct LostData {
    /// When the loss was detected.
    pub now: Instant,
    /// How it was detected.
    pub cause: Loss,
    /// Bytes lost since the last call.
    pub bytes: usize,
    /// Bytes that are still in flight.
    pub in_flight: usize,
    /// The packet that was lost last, if the controller [needs](Controller::needs) rate samples and the packet was
    /// sent on this path.
    pub sample: Option<LossSample>,
}

impl LostData {
    /// `bytes` that are considered lost, with `in_flight` bytes still in flight. For those who drive a controller
    /// without the engine, who change the fields.
    pub fn new(now: Instant, cause: Loss, bytes: usize, in_flight: usize) -> Self {
        Self { now, cause, bytes, in_flight, sample: None }
    }
}

/// A time in which no data was sent.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Idle {
    /// When it ends: data is about to be sent.
    pub now: Instant,
    /// Its duration in retransmission timeouts, from 1 to 64.
    pub rtos: u32,
}

impl Idle {
    /// `rtos` retransmission timeouts without data, at least 1; more than 64 count as 64.
    pub fn new(now: Instant, rtos: u32) -> Self {
        Self { now, rtos: rtos.clamp(1, 64) }
    }
}

/// Requirements of a controller beyond windows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Needs {
    /// The controller needs [`Acked::rate`], which costs 56 bytes for each packet in flight.
    pub rate_samples: bool,
    /// The controller needs [`Acked::packet_rtt`].
    pub packet_rtts: bool,
    /// The controller needs pacing: data is sent at [`Controller::pacing_rate`] even if the option
    /// `burst` limits bursts in another way.
    pub pacing: bool,
}

impl Needs {
    /// Adds rate samples.
    #[must_use]
    pub fn with_rate_samples(mut self) -> Self {
        self.rate_samples = true;
        self
    }

    /// Adds a round-trip time for each acknowledgement.
    #[must_use]
    pub fn with_packet_rtts(mut self) -> Self {
        self.packet_rtts = true;
        self
    }

    /// Adds pacing.
    #[must_use]
    pub fn with_pacing(mut self) -> Self {
        self.pacing = true;
        self
    }
}

/// The congestion control of one path.
pub trait Controller: fmt::Debug + Send + Sync {
    /// Congestion window in bytes, at least one PMDCS. Data in flight never exceeds it, except by the
    /// one packet that RFC 9260 section 6.1 allows.
    fn cwnd(&self) -> usize;

    /// Slow-start threshold in bytes, `usize::MAX` if there is none. Pacing is faster below it.
    fn ssthresh(&self) -> usize {
        usize::MAX
    }

    /// Rate in bytes per second at which data is sent, if it is paced; `None` for a little more than
    /// cwnd per round trip.
    fn pacing_rate(&self) -> Option<u64> {
        None
    }

    /// The controller's requirements. Called once, before all other methods.
    fn needs(&self) -> Needs {
        Needs::default()
    }

    /// Bytes acknowledged between two losses: the larger of the last interval and the current one, for
    /// the coupling of several paths.
    fn loss_interval(&self) -> u64 {
        0
    }

    /// Called when a batch of data was sent.
    fn on_sent(&mut self, _sent: &Sent) {}

    /// Called when data was acknowledged.
    fn on_acked(&mut self, acked: &Acked<'_>);

    /// Called when a window of data had losses or marks: the windows must be reduced. Called once for all
    /// of one window, before [`on_lost`](Self::on_lost).
    fn on_congestion_event(&mut self, congestion: &CongestionEvent<'_>);

    /// Called for each acknowledgement or timeout that shows that data was lost, also during recovery.
    fn on_lost(&mut self, _lost: &LostData) {}

    /// Undoes the last congestion event, which was spurious: the packets were only late.
    fn undo(&mut self, _now: Instant) {}

    /// Called when a round-trip time was measured. If an acknowledgement gave it,
    /// [`on_acked`](Self::on_acked) is called afterwards.
    fn on_rtt(&mut self, _now: Instant, _rtt: &Rtt) {}

    /// Called before data is sent again, if none was sent for at least one retransmission timeout.
    fn on_idle(&mut self, _idle: &Idle) {}

    /// Called when a potentially failed path answers again: raises the window to at least `packets`
    /// full packets (PF1 and PF2, nat 4.3).
    fn on_recovered(&mut self, _now: Instant, _packets: u32) {}

    /// Limits the window to `flight` bytes, which are in flight, plus `packets` full packets (RFC 2960
    /// section 6.1 D). Called before each batch, but only with that option.
    fn on_burst_limit(&mut self, _now: Instant, _flight: usize, _packets: u32) {}

    /// Called when the packets of the path have another size.
    fn on_pmdcs_change(&mut self, now: Instant, pmdcs: usize);

    /// Called before any data is sent, if an earlier association between the same addresses had this
    /// ssthresh.
    fn on_recalled(&mut self, _now: Instant, _ssthresh: usize) {}

    /// Resets all values, because nothing is known about the network any more.
    fn reinitialize(&mut self, now: Instant);
}

/// The initial values of a controller.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct NewPath<'a> {
    /// When the path was created.
    pub now: Instant,
    /// The association's options for congestion control.
    pub options: &'a CongestionConfig,
    /// Which RFC applies where they differ.
    pub revision: Revision,
    /// PMDCS.
    pub pmdcs: usize,
    /// Whether the path's addresses are IPv6.
    pub ipv6: bool,
    /// Whether a coupling changes how the window grows (`Acked::coupled`).
    pub coupled: bool,
}

impl<'a> NewPath<'a> {
    /// A path over IPv4 at time zero, for tests of controllers, which change the fields.
    pub fn new(options: &'a CongestionConfig, revision: Revision, pmdcs: usize) -> Self {
        Self { now: Instant::ZERO, options, revision, pmdcs, ipv6: false, coupled: false }
    }
}

/// Makes the controllers of an association's paths.
pub trait ControllerFactory: fmt::Debug + Send + Sync {
    /// Makes a controller for a new path.
    fn build(&self, path: &NewPath<'_>) -> Box<dyn Controller>;
}

/// The factory of the controllers of an association. The default makes the built-in one that the
/// option [`congestion_control`](CongestionConfig::congestion_control) names.
#[derive(Clone)]
pub struct ControllerChoice(Arc<dyn ControllerFactory>);

impl ControllerChoice {
    /// Uses the controllers that this factory makes.
    pub fn new(factory: impl ControllerFactory + 'static) -> Self {
        Self(Arc::new(factory))
    }

    /// Makes a controller for a new path. The engine calls it; others may, to use a controller without the engine.
    pub fn build(&self, path: &NewPath<'_>) -> Box<dyn Controller> {
        self.0.build(path)
    }
}

impl Default for ControllerChoice {
    fn default() -> Self {
        Self::new(BuiltIn)
    }
}

impl fmt::Debug for ControllerChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Two choices are equal if they share a factory, or if their factories have the same `Debug`
/// output.
impl PartialEq for ControllerChoice {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || format!("{:?}", self.0) == format!("{:?}", other.0)
    }
}

impl Eq for ControllerChoice {}

/// The factory of the built-in controllers.
#[derive(Clone, Copy, Debug)]
struct BuiltIn;

impl ControllerFactory for BuiltIn {
    fn build(&self, path: &NewPath<'_>) -> Box<dyn Controller> {
        CongestionControl::build(path)
    }
}
