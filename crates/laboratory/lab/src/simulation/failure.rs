//! The cost of a failed path: when the failure is detected, and how much data arrives until then.

use anabranch_sim::{Instant, PathFailure, TransferId};

use super::build::Built;
use crate::metrics::Metrics;
use crate::setup::{Change, Event, Setup, When};

/// The first cut of a path at a time given in the setup.
pub(super) struct Failure {
    path: usize,
    cut_at: Instant,
    repaired_at: Option<Instant>,
    /// User bytes of the first transfer that had been delivered by then.
    bytes_at_cut: Option<u64>,
    bytes_at_repair: Option<u64>,
    /// User bytes of the first transfer that had been sent by the time of the cut, and when all of
    /// them had been delivered.
    sent_at_cut: u64,
    arrived_at: Option<Instant>,
}

impl Failure {
    /// `None` if no path is cut, or the first cut is before measuring begins.
    pub(super) fn of(setup: &Setup) -> Option<Self> {
        let at = |event: &Event| match event.when {
            When::At(at) => Some(Instant::ZERO + at),
            When::AfterChunk(_) => None,
        };
        let cuts = setup.events.iter().filter(|event| event.change == Change::Cut);
        let (cut_at, cut) =
            cuts.filter_map(|cut| Some((at(cut)?, cut))).min_by_key(|(at, _)| *at)?;
        if cut_at < Instant::ZERO + setup.measure_from {
            return None;
        }
        let path = setup
            .network
            .paths
            .iter()
            .position(|path| path.links.iter().any(|(link, _)| *link == cut.link))?;
        let repairs = setup
            .events
            .iter()
            .filter(|event| event.change == Change::Repair && event.link == cut.link);
        let repaired_at = repairs.filter_map(at).filter(|at| *at > cut_at).min();
        Some(Self {
            path,
            cut_at,
            repaired_at,
            bytes_at_cut: None,
            bytes_at_repair: None,
            sent_at_cut: 0,
            arrived_at: None,
        })
    }

    /// Whether the cut or the repair is still to come.
    pub(super) fn is_ahead(&self) -> bool {
        self.bytes_at_cut.is_none()
            || (self.repaired_at.is_some() && self.bytes_at_repair.is_none())
            || self.arrived_at.is_none()
    }

    /// Records the delivered bytes at the cut and the repair. Both are events of the network, so
    /// the simulation stops there.
    pub(super) fn look(&mut self, setup: &Setup, built: &Built) {
        let (Some(id), Some(transfer)) = (built.transfers.first(), setup.transfers.first()) else {
            return;
        };
        let (now, bytes) = (built.net.now(), built.net.transfer(*id).bytes);
        if now >= self.cut_at && self.bytes_at_cut.is_none() {
            self.bytes_at_cut = Some(bytes);
            let sent = built.chunks_sent(setup).saturating_mul(transfer.message);
            self.sent_at_cut = sent.min(transfer.bytes());
        }
        if self.bytes_at_cut.is_some() && bytes >= self.sent_at_cut {
            self.arrived_at.get_or_insert(now);
        }
        if self.repaired_at.is_some_and(|at| now >= at) {
            self.bytes_at_repair.get_or_insert(bytes);
        }
    }

    pub(super) fn measure(&self, built: &Built, metrics: &mut Metrics) {
        let Some(id) = built.transfers.first() else { return };
        if let Some(arrived_at) = self.arrived_at {
            let late = arrived_at.saturating_since(self.cut_at).as_secs_f64();
            metrics.set("in_flight_late_s", late);
        }
        let detected = self.detected(built, *id);
        let started_at = built.net.transfer(*id).started_at;
        // A failure before the cut, or on another path, is not this failure.
        let after = detected.map(|failure| failure.at.saturating_since(started_at).as_secs_f64());
        metrics.set("failure_detected_s", after.unwrap_or(f64::NAN));
        let end = match (self.repaired_at, self.bytes_at_repair, detected) {
            (Some(at), Some(bytes), detected) if detected.is_none_or(|failure| failure.at > at) => {
                Some((at, bytes))
            }
            (_, _, detected) => detected.map(|failure| (failure.at, failure.bytes)),
        };
        if let (Some(before), Some((at, bytes))) = (self.bytes_at_cut, end) {
            let seconds = at.saturating_since(self.cut_at).as_secs_f64();
            if seconds > 0.0 {
                let kilobytes = bytes.saturating_sub(before) as f64 * 1e-3;
                metrics.set("goodput_in_failure_kb_s", kilobytes / seconds);
            }
        }
    }

    /// When the sender first declared the path failed after the cut.
    fn detected(&self, built: &Built, id: TransferId) -> Option<PathFailure> {
        let mut failures = built.net.transfer(id).path_failures.iter();
        failures
            .find(|failure| {
                built.path_of(failure.remote) == Some(self.path) && failure.at >= self.cut_at
            })
            .copied()
    }
}
