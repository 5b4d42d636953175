//! The congestion windows of all paths, for the coupling of one with the others.

use super::Sender;
use crate::congestion::{Coupling, PathView};
use crate::path::Path;

impl Sender {
    /// Writes down how all paths are, with so many bytes in flight on each, unless the paths do not
    /// depend on each other.
    pub(super) fn view_paths(
        &mut self,
        paths: &[Path],
        flight: impl Fn(&Self, usize) -> usize,
    ) -> Coupling {
        let coupling = self.config.concurrent().map_or(Coupling::Uncoupled, |m| m.coupling);
        if coupling != Coupling::Uncoupled {
            let mut views = std::mem::take(&mut self.views);
            views.clear();
            views.extend(self.lanes.iter().zip(paths).enumerate().map(|(index, (lane, path))| {
                let congestion = &lane.congestion;
                PathView {
                    window: congestion.cwnd().min(flight(self, index)),
                    ssthresh: congestion.ssthresh(),
                    pmdcs: path.pmdcs(),
                    rtt: path.rtt.expected(),
                    loss_interval: congestion.loss_interval(),
                }
            }));
            self.views = views;
        }
        coupling
    }

    /// The same for a loss on path `lossy`, whose whole window is at stake.
    pub(super) fn view_paths_at_loss(
        &mut self,
        lossy: usize,
        paths: &[Path],
        flight: impl Fn(&Self, usize) -> usize,
    ) -> Coupling {
        self.view_paths(
            paths,
            |sender, index| {
                if index == lossy { usize::MAX } else { flight(sender, index) }
            },
        )
    }
}
