//! CMT/RP: resource pooling for concurrent multipath transfer, versions 1 and 2 (Dreibholz, Becke,
//! Pulinthanath, Rathgeb: Applying TCP-Friendly Congestion Control to Concurrent Multipath Transfer,
//! 2010; Dreibholz: Evaluation and Optimisation of Multi-Path Transport using SCTP, 2012).
//!
//! In slow start and congestion avoidance, a window grows only by the path's share, so all windows
//! together grow like one. A loss on one path reduces that path's window by half of the sum of all
//! windows, down to the minimum.

use super::PathView;

/// Version 1: the path's share of all slow-start thresholds, which represent the capacity of the paths.
/// For a path without losses the threshold is not known, so its window is used instead.
pub(super) fn share_of_thresholds(own: &PathView, paths: &[PathView]) -> f64 {
    let capacity = |path: &PathView| match path.ssthresh {
        usize::MAX => path.window(),
        ssthresh => ssthresh as f64,
    };
    let used = paths.iter().filter(|path| path.window > 0);
    let sum: f64 = used.map(capacity).sum();
    // A threshold of zero is possible if so configured.
    if sum > 0.0 { capacity(own) / sum } else { 0.0 }
}

/// Version 2: the path's share of the total bandwidth. The bandwidth of a path is its window per RTT.
pub(super) fn share_of_bandwidth(own: &PathView, paths: &[PathView]) -> f64 {
    own.rate() / paths.iter().map(PathView::rate).sum::<f64>()
}

/// Version 1: the window after a loss, in bytes, reduced by half of all windows. `floor` is the minimum
/// for a single path; this path keeps at least its share of that.
pub(super) fn threshold_v1(own: &PathView, paths: &[PathView], floor: usize) -> f64 {
    let all: f64 = paths.iter().map(PathView::window).sum();
    let least = floor as f64 * share_of_thresholds(own, paths);
    (own.window() - all / 2.0).max(least)
}

/// Version 2: the window after a loss, in bytes, reduced by half of the total bandwidth.
pub(super) fn threshold_v2(own: &PathView, paths: &[PathView], floor: usize) -> f64 {
    let share = share_of_bandwidth(own, paths);
    let taken = (0.5 / share).max(0.5);
    (own.window() * (1.0 - taken)).max(floor as f64 * share)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion::coupling::tests::near;
    use crate::congestion::coupling::tests::path;

    fn with_ssthresh(packets: usize, ssthresh: usize) -> PathView {
        PathView { ssthresh: ssthresh * 1000, ..path(packets, 100) }
    }

    #[test]
    fn version_1_goes_by_thresholds_and_windows() {
        let paths = [with_ssthresh(20, 10), with_ssthresh(10, 30), with_ssthresh(0, 50)];
        near(share_of_thresholds(&paths[0], &paths), 0.25);
        near(share_of_thresholds(&paths[1], &paths), 0.75);
        // 20 - 30/2 packets; 10 - 30/2 is less than its share of four packets.
        near(threshold_v1(&paths[0], &paths, 4000), 5000.0);
        near(threshold_v1(&paths[1], &paths, 4000), 3000.0);
    }

    #[test]
    fn a_window_stands_for_a_threshold_not_known_yet() {
        let paths = [path(30, 100), with_ssthresh(1, 10)];
        near(share_of_thresholds(&paths[0], &paths), 0.75);
        near(share_of_thresholds(&paths[1], &paths), 0.25);
        let zero = [with_ssthresh(20, 0); 2];
        near(share_of_thresholds(&zero[0], &zero), 0.0);
    }

    #[test]
    fn version_2_goes_by_bandwidth() {
        // 1e5 and 4e5 bytes/s.
        let paths = [path(10, 100), path(20, 50)];
        near(share_of_bandwidth(&paths[0], &paths), 0.2);
        near(share_of_bandwidth(&paths[1], &paths), 0.8);
        // 4e5 is reduced by 2.5e5; of 1e5 only the share of four packets remains.
        near(threshold_v2(&paths[1], &paths, 4000), 7500.0);
        near(threshold_v2(&paths[0], &paths, 4000), 800.0);
    }
}
