//! Congestion control: how much may be in flight on a path.
//!
//! One file for each algorithm. All sizes are bytes of DATA chunks with header and padding;
//! PMDCS is the size of the largest DATA chunk that fits into a packet of the path.

mod config;
mod coupling;
mod rfc9260;

pub use config::{BurstControl, CongestionConfig, IdleCwnd, InitialCwnd};
pub use coupling::Coupling;
pub(crate) use coupling::{Coupled, PathView};

use self::rfc9260::Rfc9260;
use crate::revision::Revision;

/// What an acknowledgement means for one path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AckInfo {
    /// Bytes sent to the path that are acknowledged for the first time, by the cumulative TSN or
    /// by gap blocks.
    pub(crate) bytes_acked: usize,
    /// Bytes in flight on the path before the acknowledgement. When several acknowledgements
    /// are handled before anything can be sent, what was in flight before the first of them.
    pub(crate) flight_before: usize,
    /// Nothing is outstanding on the path any more.
    pub(crate) all_acked: bool,
    /// The acknowledgement advances the Cumulative TSN Ack Point.
    pub(crate) cumulative_advanced: bool,
    /// The association is in Fast Recovery.
    pub(crate) in_fast_recovery: bool,
}

/// The congestion control of one path.
#[derive(Clone, Debug)]
pub(crate) enum Controller {
    /// RFC 9260 section 7.2.
    Rfc9260(Rfc9260),
}

impl Controller {
    /// A controller with an initial window. `ipv6`: the path's addresses are of IPv6.
    pub(crate) fn new(
        config: &CongestionConfig,
        revision: Revision,
        pmdcs: usize,
        ipv6: bool,
    ) -> Self {
        Self::Rfc9260(Rfc9260::new(config, revision, pmdcs, ipv6))
    }

    /// Congestion window in bytes.
    pub(crate) fn cwnd(&self) -> usize {
        match self {
            Self::Rfc9260(controller) => controller.cwnd(),
        }
    }

    /// Slow-start threshold in bytes.
    pub(crate) fn ssthresh(&self) -> usize {
        match self {
            Self::Rfc9260(controller) => controller.ssthresh(),
        }
    }

    /// Bytes acknowledged between two losses, of the last such interval or of the one that lasts.
    pub(crate) fn loss_interval(&self) -> u64 {
        match self {
            Self::Rfc9260(controller) => controller.loss_interval(),
        }
    }

    /// Data sent to the path was acknowledged. `coupled`: the path among the others.
    pub(crate) fn on_ack(&mut self, ack: &AckInfo, coupled: &Coupled<'_>) {
        match self {
            Self::Rfc9260(controller) => controller.on_ack(ack, coupled),
        }
    }

    /// A loss was found by missing reports, outside of Fast Recovery.
    pub(crate) fn on_fast_retransmit(&mut self, coupled: &Coupled<'_>) {
        match self {
            Self::Rfc9260(controller) => controller.on_fast_retransmit(coupled),
        }
    }

    /// T3-rtx has expired.
    pub(crate) fn on_timeout(&mut self, coupled: &Coupled<'_>) {
        match self {
            Self::Rfc9260(controller) => controller.on_timeout(coupled),
        }
    }

    /// The path was potentially failed and answers again: its window is at least so many full
    /// packets (PF1 and PF2, nat 4.3).
    pub(crate) fn on_recovered(&mut self, packets: u32) {
        match self {
            Self::Rfc9260(controller) => controller.on_recovered(packets),
        }
    }

    /// Cuts the window to what is in flight and `packets` full packets (RFC 2960 section 6.1 D).
    pub(crate) fn on_burst_limit(&mut self, flight: usize, packets: u32) {
        match self {
            Self::Rfc9260(controller) => controller.on_burst_limit(flight, packets),
        }
    }

    /// No data was sent to the path for `rtos` retransmission timeouts; called once at the end
    /// of that time.
    pub(crate) fn on_idle(&mut self, rtos: u32) {
        match self {
            Self::Rfc9260(controller) => controller.on_idle(rtos),
        }
    }

    /// The path's packets have another size now.
    pub(crate) fn on_pmdcs_change(&mut self, pmdcs: usize) {
        match self {
            Self::Rfc9260(controller) => controller.on_pmdcs_change(pmdcs),
        }
    }

    /// Nothing is known about the network any more: all values are initial again.
    pub(crate) fn reinitialize(&mut self) {
        match self {
            Self::Rfc9260(controller) => controller.reinitialize(),
        }
    }
}
