//! Congestion control as a trait, so that a user can bring one: how much may be in flight on a path,
//! and how fast it leaves.
//!
//! A controller knows one path. It is told what happened there, and says what its window is; it is
//! asked once after each call. Nothing is called more often than once an acknowledgement or batch of
//! packets. All sizes are bytes of DATA chunks with header and padding; PMDCS is the size of the
//! largest DATA chunk that fits into a packet of the path.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::rfc9260::Rfc9260Factory;
use super::{CongestionConfig, Coupled};
use crate::revision::Revision;

/// What an acknowledgement means for one path.
#[derive(Clone, Copy, Debug)]
pub struct Acked {
    /// Bytes sent to the path that are acknowledged for the first time, by the cumulative TSN or
    /// by gap blocks.
    pub bytes: usize,
    /// Bytes in flight on the path before the acknowledgement. When several acknowledgements
    /// are handled before anything can be sent, what was in flight before the first of them.
    pub flight_before: usize,
    /// Nothing is outstanding on the path any more.
    pub all: bool,
    /// The acknowledgement advances the Cumulative TSN Ack Point.
    pub cumulative_advanced: bool,
    /// The association is in Fast Recovery (RFC 9260 section 7.2.4).
    pub in_fast_recovery: bool,
}

/// What tells of a loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Loss {
    /// Missing reports, outside of Fast Recovery (RFC 9260 section 7.2.4).
    Reported,
    /// T3-rtx expired: nothing has come for long (RFC 9260 section 6.3.3).
    Timeout,
}

/// The congestion control of one path.
pub trait Controller: fmt::Debug + Send + Sync {
    /// Congestion window in bytes, at least one PMDCS. It is the most that is in flight, but for the
    /// one packet by which RFC 9260 section 6.1 allows to exceed it.
    fn cwnd(&self) -> usize;

    /// Slow-start threshold in bytes, `usize::MAX` if there is none. Pacing is faster below it.
    fn ssthresh(&self) -> usize {
        usize::MAX
    }

    /// Bytes a second at which data leaves, if bursts are paced; `None` for a little more than cwnd
    /// in a round trip.
    fn pacing_rate(&self) -> Option<u64> {
        None
    }

    /// Bytes acknowledged between two losses, of the last such interval or of the one that lasts, for
    /// the coupling of several paths.
    fn loss_interval(&self) -> u64 {
        0
    }

    /// Data was acknowledged. `coupled`: the path among the others.
    fn on_acked(&mut self, acked: &Acked, coupled: &Coupled<'_>);

    /// Data was lost; called once for all that one window lost.
    fn on_lost(&mut self, loss: Loss, coupled: &Coupled<'_>);

    /// The last loss was none: what was lost had only been late.
    fn undo(&mut self) {}

    /// So many bytes left in one batch; with them so many are in flight.
    fn on_sent(&mut self, _bytes: usize, _in_flight: usize) {}

    /// A round-trip time was measured.
    fn on_rtt(&mut self, _rtt: Duration) {}

    /// No data was sent for `rtos` retransmission timeouts; called once at the end of that time.
    fn on_idle(&mut self, _rtos: u32) {}

    /// The path was potentially failed and answers again: its window is at least so many full
    /// packets (PF1 and PF2, nat 4.3).
    fn on_recovered(&mut self, _packets: u32) {}

    /// The window is to be no more than what is in flight and `packets` full packets (RFC 2960
    /// section 6.1 D). Called before each batch, with that option only.
    fn on_burst_limit(&mut self, _flight: usize, _packets: u32) {}

    /// The path's packets have another size now.
    fn on_pmdcs_change(&mut self, pmdcs: usize);

    /// An association before this one had this ssthresh between the same addresses. Called before any
    /// data is sent.
    fn on_recalled(&mut self, _ssthresh: usize) {}

    /// Nothing is known about the network any more: all values are initial again.
    fn reinitialize(&mut self);
}

/// What a controller is told of its path at first.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct NewPath<'a> {
    /// The association's options of congestion control.
    pub options: &'a CongestionConfig,
    /// Whose rules count where the RFCs differ.
    pub revision: Revision,
    /// PMDCS.
    pub pmdcs: usize,
    /// Whether its addresses are of IPv6.
    pub ipv6: bool,
}

/// Makes the controllers of an association's paths.
pub trait ControllerFactory: fmt::Debug + Send + Sync {
    /// One for a path that is new.
    fn build(&self, path: &NewPath<'_>) -> Box<dyn Controller>;
}

/// Which congestion control an association has. The default is RFC 9260's.
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
        Self::new(Rfc9260Factory)
    }
}

impl fmt::Debug for ControllerChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Two choices are equal if their factories say the same of themselves (`Debug`).
impl PartialEq for ControllerChoice {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || format!("{:?}", self.0) == format!("{:?}", other.0)
    }
}

impl Eq for ControllerChoice {}
