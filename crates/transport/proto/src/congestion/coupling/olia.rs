//! OLIA, the Opportunistic Linked Increases Algorithm (Khalili, Gast, Popovic, Le Boudec: MPTCP is not
//! Pareto-optimal: performance issues and a possible solution, 2012; draft-khalili-mptcp-congestion-
//! control).
//!
//! The first term of the increase is shared as in LIA, but in proportion to the squares of the windows, so
//! little is wasted on bad paths. The second term moves window from the paths with the largest windows to
//! those with the fewest losses and smaller windows, so that good paths are discovered. A loss halves the
//! window of its path.

use super::PathView;

/// Bytes acknowledged between losses.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LossIntervals {
    /// Bytes since the last loss.
    current: u64,
    /// Bytes between the last two losses.
    previous: u64,
}

impl LossIntervals {
    pub(crate) fn on_ack(&mut self, bytes: usize) {
        self.current = self.current.saturating_add(bytes as u64);
    }

    pub(crate) fn on_loss(&mut self) {
        *self = Self { current: 0, previous: self.current };
    }

    /// The larger of the current and of the last interval, in bytes.
    pub(crate) fn longest(&self) -> u64 {
        self.current.max(self.previous)
    }
}

/// Growth in packets for a window's worth of acknowledged packets; negative if window is moved to other
/// paths.
pub(super) fn increase(own: &PathView, paths: &[PathView]) -> f64 {
    let share = own.rate() / paths.iter().map(PathView::rate).sum::<f64>();
    share * share + alpha(own, paths)
}

/// alpha_i: the window that moves between the paths; the sum over all paths is zero.
pub(super) fn alpha(own: &PathView, paths: &[PathView]) -> f64 {
    let used = || paths.iter().filter(|path| path.window > 0);
    let largest = used().map(packets).fold(0.0, f64::max);
    let best = used().map(quality).fold(0.0, f64::max);
    let is_largest = |path: &PathView| packets(path) >= largest;
    let is_collected = |path: &PathView| quality(path) >= best && !is_largest(path);
    let count = |of: &dyn Fn(&PathView) -> bool| used().filter(|path| of(path)).count() as f64;
    let collected = count(&is_collected);
    if collected == 0.0 {
        0.0
    } else if is_collected(own) {
        1.0 / (count(&|_| true) * collected)
    } else if is_largest(own) {
        -1.0 / (count(&|_| true) * count(&is_largest))
    } else {
        0.0
    }
}

/// The window in packets.
fn packets(path: &PathView) -> f64 {
    path.window() / path.pmdcs.max(1) as f64
}

/// l^2 / r: the square of the rate that TCP would have with this path's losses and RTT.
fn quality(path: &PathView) -> f64 {
    let interval = path.loss_interval as f64 / path.pmdcs.max(1) as f64;
    interval * interval / path.rtt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion::coupling::tests::{near, path};

    fn with_interval(packets: usize, rtt_millis: u64, interval: u64) -> PathView {
        PathView { loss_interval: interval * 1000, ..path(packets, rtt_millis) }
    }

    #[test]
    fn the_formula_worked_by_hand() {
        // The paths' shares of the rate are 1/5 and 4/5; l^2/r is 1e5 and 2e3, so 1/2 packet moves to the
        // first.
        let paths = [with_interval(10, 100, 100), with_interval(20, 50, 10), path(0, 1)];
        near(increase(&paths[0], &paths), 0.04 + 0.5);
        near(increase(&paths[1], &paths), 0.64 - 0.5);
        // The best path has the largest window: nothing is moved.
        let paths = [with_interval(10, 100, 10), with_interval(20, 50, 100)];
        near(increase(&paths[0], &paths), 0.04);
        near(increase(&paths[1], &paths), 0.64);
    }

    #[test]
    fn several_paths_share_what_is_moved() {
        let (large, small) = (with_interval(20, 100, 10), with_interval(10, 100, 100));
        let poor = with_interval(5, 100, 1);
        let paths = [large, large, small, small, poor];
        let moved: Vec<f64> = paths.iter().map(|own| alpha(own, &paths)).collect();
        assert_eq!(moved, [-0.1, -0.1, 0.1, 0.1, 0.0]);
        let paths = [large, small, poor];
        near(alpha(&small, &paths), 1.0 / 3.0);
        near(alpha(&large, &paths), -1.0 / 3.0);
        // One of the best paths has the largest window, so the other best path gains.
        let paths = [with_interval(20, 100, 100), small];
        near(alpha(&small, &paths), 0.5);
    }

    #[test]
    fn the_larger_of_two_intervals_counts() {
        let mut losses = LossIntervals::default();
        losses.on_ack(3000);
        assert_eq!(losses.longest(), 3000);
        losses.on_loss();
        losses.on_ack(1000);
        assert_eq!(losses.longest(), 3000);
        losses.on_ack(5000);
        assert_eq!(losses.longest(), 6000);
        losses.on_loss();
        losses.on_loss();
        assert_eq!(losses.longest(), 0);
    }
}
