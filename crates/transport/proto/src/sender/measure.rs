//! Processes information about paths from other modules: their MTU, their state, and echoes of timestamps.

use std::time::Duration;

use super::Sender;
use crate::path::{Path, Paths};
use crate::per_path::PathId;
use crate::time::Instant;

impl Sender {
    /// Records the measured round-trip time of a packet sent at `sent` on a path, from a timestamp echo.
    /// `false` if there was already a measurement in this round trip.
    pub(crate) fn takes_measurement(&mut self, now: Instant, path: &Path, sent: Instant) -> bool {
        let smoothed = path.rtt.srtt();
        let lane = &mut self.lanes[path.id];
        let measured_to = &mut lane.evidence.get_or_insert_default().measured_to;
        let takes = sent >= *measured_to;
        if takes {
            *measured_to = now;
            lane.congestion.measure(now, now.saturating_since(sent), smoothed);
        }
        takes
    }

    /// Whether the current acknowledgement, which answers a packet sent at `sent`, plus or minus
    /// `resolution`, proves a retransmission spurious. If so, also counts it and undoes its effects if an
    /// option says so.
    pub(crate) fn finds_needless(
        &mut self,
        now: Instant,
        sent: Instant,
        resolution: Duration,
        paths: &mut Paths,
    ) -> bool {
        // Only an echo for the contents of a single packet is unambiguous.
        let Some(gathered) = &self.summary.gathered else { return false };
        let one = gathered.lowest_packet == self.summary.highest_packet;
        let needless =
            one && gathered.retransmitted_at.is_some_and(|again| sent + resolution < again);
        self.counts.spurious_retransmissions += u32::from(needless);
        if needless {
            self.on_needless_by_echo(now, paths);
        }
        needless
    }

    /// Handles a change of a path's packet size.
    pub(crate) fn on_pmdcs_change(&mut self, now: Instant, id: PathId, path: &Path) {
        self.lanes[id].congestion.tell(|c| c.on_pmdcs_change(now, path.pmdcs()));
    }

    /// Forgets the congestion state of a path, because its network may be another one.
    pub(crate) fn forget_network(&mut self, now: Instant, path: PathId) {
        self.lanes[path].congestion.tell(|c| c.reinitialize(now));
    }

    /// Handles the recovery of a potentially failed path, which answers again: its window is at least
    /// `packets` packets.
    pub(crate) fn on_recovered(&mut self, now: Instant, path: PathId, packets: u32) {
        self.lanes[path].congestion.tell(|c| c.on_recovered(now, packets));
    }
}
