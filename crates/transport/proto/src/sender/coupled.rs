//! Collects the congestion windows of all paths, for coupled congestion control.

use super::Sender;
use crate::congestion::{Coupling, PathView};
use crate::path::Path;
use crate::per_path::{PathId, PerPath};

/// The state of all paths, while a window that depends on all of them changes.
pub(super) type Views = Option<Box<Vec<PathView>>>;

/// The state of all paths as last recorded.
pub(super) fn views(recorded: &Views) -> &[PathView] {
    recorded.as_deref().map_or(&[], Vec::as_slice)
}

impl Sender {
    /// The index of a path's view in [`views`](Self::views).
    pub(super) fn place(&self, path: PathId) -> usize {
        self.lanes.place(path)
    }

    /// Records the state of all paths, with the bytes in flight on each, if their congestion
    /// control is coupled.
    pub(super) fn view_paths(
        &mut self,
        paths: &PerPath<Path>,
        flight: impl Fn(&Self, PathId) -> usize,
    ) -> Coupling {
        let coupling = self.config.concurrent().map_or(Coupling::Uncoupled, |m| m.coupling);
        if coupling != Coupling::Uncoupled {
            let mut views = self.views.take().unwrap_or_default();
            views.clear();
            views.extend(self.lanes.iter().map(|lane| {
                let path = &paths[lane.path];
                let congestion = &lane.congestion;
                PathView {
                    window: congestion.cwnd().min(flight(self, lane.path)),
                    ssthresh: congestion.ssthresh(),
                    pmdcs: path.pmdcs(),
                    rtt: path.rtt.expected(),
                    loss_interval: congestion.loss_interval(),
                }
            }));
            self.views = Some(views);
        }
        coupling
    }

    /// The same for a loss on path `lossy`, whose whole window counts.
    pub(super) fn view_paths_at_loss(
        &mut self,
        lossy: PathId,
        paths: &PerPath<Path>,
        flight: impl Fn(&Self, PathId) -> usize,
    ) -> Coupling {
        self.view_paths(
            paths,
            |sender, path| {
                if path == lossy { usize::MAX } else { flight(sender, path) }
            },
        )
    }
}
