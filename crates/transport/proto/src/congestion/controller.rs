//! Congestion control as a trait: how much may be in flight on a path, and how fast it is sent.
//!
//! A [`Controller`] controls one path. The engine reports the path's events, with the time, and reads
//! the window after each call. It makes at most one call of each kind for an acknowledgement or a batch
//! of packets. All sizes are bytes of DATA chunks with header and padding; PMDCS is the size of the
//! largest DATA chunk that fits into a packet of the path.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::rate::RateSample;
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
    /// The minimum since the path exists, rounded down to microseconds.
    pub min: Option<Duration>,
}

/// Data was sent in one batch of packets.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Sent {
    /// When it was sent.
    pub now: Instant,
    /// Size of the batch in bytes.
    pub bytes: usize,
    /// Bytes in flight, including the batch.
    pub in_flight: usize,
    /// The window has room, and there is nothing more to send.
    pub app_limited: bool,
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
    /// Bytes in flight on the path before the acknowledgement. If several acknowledgements are
    /// handled before anything can be sent, before the first of them.
    pub flight_before: usize,
    /// Nothing is outstanding on the path after it.
    pub all: bool,
    /// The acknowledgement advances the Cumulative TSN Ack Point.
    pub cumulative_advanced: bool,
    /// The association is in Fast Recovery (RFC 9260 section 7.2.4).
    pub in_fast_recovery: bool,
    /// Round-trip times, this acknowledgement's measurement included.
    pub rtt: Rtt,
    /// The delivery rate, if the controller [needs](Controller::needs) it and the acknowledgement
    /// gives a sample.
    pub rate: Option<RateSample>,
    /// The path among the others.
    pub coupled: Coupled<'a>,
}

impl Acked<'_> {
    /// An acknowledgement of `bytes` that advances the Cumulative TSN Ack Point, with nothing else in
    /// flight and no other path: for tests of controllers, which change the fields.
    pub fn new(now: Instant, bytes: usize) -> Self {
        Self {
            now,
            bytes,
            flight_before: bytes,
            all: false,
            cumulative_advanced: true,
            in_fast_recovery: false,
            rtt: Rtt::default(),
            rate: None,
            coupled: Coupled::ALONE,
        }
    }
}

/// How a loss was detected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Loss {
    /// Missing reports, or time in which the data should have arrived (RFC 9260 section 7.2.4,
    /// RFC 8985).
    Reported,
    /// T3-rtx expired: nothing was acknowledged for long (RFC 9260 section 6.3.3).
    Timeout,
}

/// The network is congested: a window of data had losses.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct CongestionEvent<'a> {
    /// When this was found.
    pub now: Instant,
    /// How it was detected.
    pub cause: Loss,
    /// Bytes in flight before the acknowledgement that shows it, or when the timer expired.
    pub in_flight: usize,
    /// The path among the others.
    pub coupled: Coupled<'a>,
}

impl CongestionEvent<'_> {
    /// Congestion on a path without others: for tests of controllers.
    pub fn new(now: Instant, cause: Loss, in_flight: usize) -> Self {
        Self { now, cause, in_flight, coupled: Coupled::ALONE }
    }
}

/// Data that is considered lost.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct LostData {
    /// When this was found.
    pub now: Instant,
    /// How it was detected.
    pub cause: Loss,
    /// Bytes lost since the last call.
    pub bytes: usize,
    /// Bytes that are still in flight.
    pub in_flight: usize,
}

/// No data was sent for a while.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Idle {
    /// When data is about to be sent again.
    pub now: Instant,
    /// How many retransmission timeouts the pause lasted, from 1 to 64.
    pub rtos: u32,
}

/// Requirements of a controller beyond windows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Needs {
    /// [`Acked::rate`]. Costs 56 bytes for each packet in flight.
    pub rate_samples: bool,
    /// Data is paced at [`Controller::pacing_rate`] even if the option `burst` bounds bursts in
    /// another way.
    pub pacing: bool,
}

impl Needs {
    /// Rate samples.
    #[must_use]
    pub fn with_rate_samples(mut self) -> Self {
        self.rate_samples = true;
        self
    }

    /// Pacing.
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

    /// Bytes per second at which data is sent, if it is paced; `None` for a little more than cwnd
    /// in a round trip.
    fn pacing_rate(&self) -> Option<u64> {
        None
    }

    /// Its requirements; asked once, before all other calls.
    fn needs(&self) -> Needs {
        Needs::default()
    }

    /// Bytes acknowledged between two losses, of the last such interval or of the current one, for
    /// the coupling of several paths.
    fn loss_interval(&self) -> u64 {
        0
    }

    /// A batch of data was sent.
    fn on_sent(&mut self, _sent: &Sent) {}

    /// Data was acknowledged.
    fn on_acked(&mut self, acked: &Acked<'_>);

    /// A window of data had losses, and the windows must be lowered. Called once for all losses of
    /// one window, and before [`on_lost`](Self::on_lost).
    fn on_congestion_event(&mut self, congestion: &CongestionEvent<'_>);

    /// Data was lost; called for each acknowledgement or timeout that shows losses, also during
    /// recovery.
    fn on_lost(&mut self, _lost: &LostData) {}

    /// The last congestion event was spurious: the packets were only late.
    fn undo(&mut self, _now: Instant) {}

    /// A round-trip time was measured. An acknowledgement that gives one is reported by
    /// [`on_acked`](Self::on_acked) afterwards.
    fn on_rtt(&mut self, _now: Instant, _rtt: &Rtt) {}

    /// No data was sent for one retransmission timeout or more; called before data is sent again.
    fn on_idle(&mut self, _idle: &Idle) {}

    /// The path was potentially failed and answers again: its window is at least `packets` full
    /// packets (PF1 and PF2, nat 4.3).
    fn on_recovered(&mut self, _now: Instant, _packets: u32) {}

    /// Limits the window to `flight` bytes, which are in flight, plus `packets` full packets (RFC 2960
    /// section 6.1 D). Called before each batch, with that option only.
    fn on_burst_limit(&mut self, _now: Instant, _flight: usize, _packets: u32) {}

    /// The path's packets have another size now.
    fn on_pmdcs_change(&mut self, now: Instant, pmdcs: usize);

    /// An earlier association between the same addresses had this ssthresh. Called before any data is
    /// sent.
    fn on_recalled(&mut self, _now: Instant, _ssthresh: usize) {}

    /// Nothing is known about the network: resets all values.
    fn reinitialize(&mut self, now: Instant);
}

/// The initial values for a controller.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct NewPath<'a> {
    /// When the path was made.
    pub now: Instant,
    /// The association's options of congestion control.
    pub options: &'a CongestionConfig,
    /// Which RFC applies where they differ.
    pub revision: Revision,
    /// PMDCS.
    pub pmdcs: usize,
    /// Whether its addresses are of IPv6.
    pub ipv6: bool,
}

impl<'a> NewPath<'a> {
    /// A path over IPv4 at time zero: for tests of controllers, which change the fields.
    pub fn new(options: &'a CongestionConfig, revision: Revision, pmdcs: usize) -> Self {
        Self { now: Instant::ZERO, options, revision, pmdcs, ipv6: false }
    }
}

/// Makes the controllers of an association's paths.
pub trait ControllerFactory: fmt::Debug + Send + Sync {
    /// One for a new path.
    fn build(&self, path: &NewPath<'_>) -> Box<dyn Controller>;
}

/// The factory of the controllers of an association. The default makes the built-in one that the
/// option [`congestion_control`](CongestionConfig::congestion_control) names.
#[derive(Clone)]
pub struct ControllerChoice(Arc<dyn ControllerFactory>);

impl ControllerChoice {
    /// The controllers that this factory makes.
    pub fn new(factory: impl ControllerFactory + 'static) -> Self {
        Self(Arc::new(factory))
    }

    pub(crate) fn build(&self, path: &NewPath<'_>) -> Box<dyn Controller> {
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

/// The controllers that have names.
#[derive(Clone, Copy, Debug)]
struct BuiltIn;

impl ControllerFactory for BuiltIn {
    fn build(&self, path: &NewPath<'_>) -> Box<dyn Controller> {
        CongestionControl::build(path)
    }
}
